"""Lower bounds that see how few the fast devices are.

A critical path puts every task on its fastest class, whoever else wants it there; an area lets every slot
work at the speed of the best. Both say little about two fast devices beside a hundred slow slots. Here
every task has an earliest start and a least time to the end *per class*, transfers between classes
included. For a makespan T, a task that would end too late on all classes outside a set K must run within K;
the work of all such tasks has to fit the slots of K. The least T for which it does is a bound, and the
same counted over the parents of one task bounds when that task can start.

All of it also holds where tasks run more than once: what is counted is one copy of every task, the one
that the rest of its longest path waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

import numpy as np

from weft.model.graph import Floats, TaskGraph
from weft.model.problem import Problem

MOST_PAIRS = 100_000
"""Up to so many (edge, class, class) triples starts and ends are found per class; beyond, only areas count."""
MOST_SORTED = 400_000
"""Up to so many (task, set of classes) pairs the work of each set of classes is looked at."""
MOST_SUBSETS = 4
"""Up to so many classes every set of them is looked at; beyond, single ones and the fastest so many."""
WINDOWS = 12
"""At most so many earliest starts, and as many ends, are combined."""
WINDOW_WORK = 300_000
"""Windows times tasks, at most."""
ROUNDING = 1e-12
"""Relative; sums in another order may differ by less."""

Table = list[list[float]]
INFINITE = float("inf")


class Shares(NamedTuple):
    """A set of classes, and the part of what they can do in a unit of time that each task takes from them."""

    inside: list[int]
    outside: list[int]
    work: Floats  # (num_tasks,) infinite where no class of the set can run the task


class Layout(NamedTuple):
    """Run times on the classes that have devices, and the sets of classes to look at."""

    run: Floats  # (num_tasks, num_classes) infinite where the task cannot run
    counted: np.ndarray  # (num_tasks,) whether the task is sure to run, at a known speed
    shares: list[Shares]
    present: list[int]  # classes of the cluster that have devices


def path_and_work(problem: Problem) -> tuple[float, float]:
    """Two bounds: the longest path with the transfers it cannot avoid, and the work on scarce devices."""
    layout = _layout(problem)
    if not layout.counted.any():
        return 0.0, 0.0
    num_edges = sum(job.graph.num_edges for job in problem.jobs)
    if num_edges * layout.run.shape[1] ** 2 > MOST_PAIRS:
        head = np.repeat(_releases(problem), np.diff(problem.offsets))[:, None]
        head = np.broadcast_to(head, layout.run.shape)
        tail = np.zeros_like(head)
        path = 0.0
    else:
        head, tail = _reach(problem, layout)
        path = float((head + layout.run + tail)[layout.counted].min(axis=1).max())
    work = _windows(layout, head, tail)
    return path * (1 - ROUNDING), work * (1 - 2 * ROUNDING)


def _releases(problem: Problem) -> Floats:
    release = np.array([job.release for job in problem.jobs])
    return release - release.min()


def _layout(problem: Problem) -> Layout:
    present = np.flatnonzero(problem.device_counts > 0)
    run = problem.least_run_times[:, present].copy()
    if problem.eligible.size:
        device_class = problem.cluster.device_class
        may = np.stack([problem.eligible[:, device_class == c].any(axis=1) for c in present], axis=1)
        run[~may[problem.job_of]] = INFINITE
    is_plain = [not (job.graph.is_conditional or job.graph.is_elastic) for job in problem.jobs]
    counted = np.repeat(np.array(is_plain), np.diff(problem.offsets))
    shares = [] if not counted.any() else list(_all_shares(problem, run, counted, present))
    return Layout(run, counted, shares, present.tolist())


def _all_shares(problem: Problem, run: Floats, counted: np.ndarray, present: np.ndarray) -> Iterator[Shares]:
    """Every resource with every set of classes that it limits."""
    count = problem.device_counts[present] * problem.cluster.class_column("batch")[present]
    for demand, limit in _resources(problem):
        capacity = count * limit[present]
        finite = np.flatnonzero(np.isfinite(capacity))
        if not len(finite) or not demand[counted].any():
            continue
        speed = _speeds(run[counted], demand[counted])
        sets = _sets(finite, speed)
        if len(run) * len(sets) > MOST_SORTED:
            sets = sets[-1:]
        for chosen in sets:
            offered = (speed[chosen] * capacity[chosen]).sum()
            if offered > 0:
                work = (run[:, chosen] * (speed[chosen] / offered)).min(axis=1)
                outside = [c for c in range(run.shape[1]) if c not in chosen]
                held = np.multiply(work, demand, out=np.zeros(len(work)), where=demand > 0)
                yield Shares(list(chosen), outside, held)


def _resources(problem: Problem) -> Iterator[tuple[Floats, Floats]]:
    """What every task holds while it runs and what a device of every class has: slots, memory, the rest."""
    graphs, classes = [job.graph for job in problem.jobs], problem.cluster.classes
    yield np.concatenate([g.slots for g in graphs]).astype(np.float64), problem.cluster.class_column("slots")
    yield np.concatenate([g.memory for g in graphs]), problem.cluster.class_column("memory")
    for name in dict.fromkeys(name for g in graphs for name in g.resources):
        demand = [
            g.demands[:, g.resources.index(name)] if name in g.resources else np.zeros(g.num_tasks)
            for g in graphs
        ]
        yield np.concatenate(demand), np.array([c.capacity.get(name, INFINITE) for c in classes])


def _speeds(run: Floats, demand: Floats) -> Floats:
    """Speed of every class relative to the best, over the work it can run.

    Any prices give a bound; these give the best one where a class is as much faster for all tasks.
    """
    best = run.min(axis=1)
    can = np.isfinite(run)
    least = (np.where(can, best[:, None], 0.0) * demand[:, None]).sum(axis=0)
    own = (np.where(can, run, 0.0) * demand[:, None]).sum(axis=0)
    speed: Floats = np.where(own > 0, least / np.where(own > 0, own, 1.0), 1.0)
    return np.maximum(speed, 1e-9)


def _sets(classes: np.ndarray, speed: Floats) -> list[list[int]]:
    """Sets of classes, all of them last."""
    if len(classes) <= MOST_SUBSETS:
        sizes = range(1, len(classes) + 1)
        return [list(chosen) for size in sizes for chosen in combinations(classes.tolist(), size)]
    fastest = sorted(classes.tolist(), key=lambda c: -float(speed[c]))
    return [[c] for c in fastest] + [fastest[:size] for size in range(2, len(fastest) + 1)]


# -- when tasks can start and what must follow them --------------------------------------------------


def _reach(problem: Problem, layout: Layout) -> tuple[Floats, Floats]:
    """Earliest start, and least time from the end of a task to the end of all; (num_tasks, num_classes)."""
    head, tail = np.zeros(layout.run.shape), np.zeros(layout.run.shape)
    for j, release in enumerate(_releases(problem).tolist()):
        tasks = slice(int(problem.offsets[j]), int(problem.offsets[j + 1]))
        graph = problem.jobs[j].graph
        if layout.counted[tasks].any():
            walk = _Walk(problem, graph, layout, tasks)
            head[tasks], tail[tasks] = walk.heads(release), walk.tails()
    return head, tail


class _Walk:
    """The tasks of one graph, forwards and backwards."""

    def __init__(self, problem: Problem, graph: TaskGraph, layout: Layout, tasks: slice) -> None:
        self.graph = graph
        self.run: Table = layout.run[tasks].tolist()
        self.lag = _lags(problem, graph.data, layout.present).tolist()
        self.sets = [(inside, outside, work[tasks].tolist()) for inside, outside, work in layout.shares]
        self.num_classes = layout.run.shape[1]

    def heads(self, release: float) -> Table:
        """Earliest start of every task on every class."""
        graph, classes = self.graph, range(self.num_classes)
        pointer, edges = graph.predecessor_pointer.tolist(), graph.predecessor_edges.tolist()
        sources = graph.sources.tolist()
        head: Table = [[]] * graph.num_tasks
        end: Table = [[]] * graph.num_tasks
        for i in graph.order.tolist():
            start = [release] * self.num_classes
            incoming = edges[pointer[i] : pointer[i + 1]]
            for e in incoming:
                done, lag = end[sources[e]], self.lag[e]
                for c in classes:
                    arrival = min([done[k] + lag[k][c] for k in classes])
                    if arrival > start[c]:
                        start[c] = arrival
            if len(incoming) > 1:
                least = self._all_done([sources[e] for e in incoming], head, end, min(start))
                start = [max(at, least) for at in start]
            head[i] = start
            end[i] = [at + run for at, run in zip(start, self.run[i], strict=True)]
        return head

    def _all_done(self, parents: list[int], head: Table, end: Table, known: float) -> float:
        """When all parents of a task can have run, each within its class and all within the slots."""
        for inside, outside, work in self.sets:
            if min([min(head[i]) for i in parents]) + sum([work[i] for i in parents]) <= known:
                continue
            forced = [
                (
                    min([end[i][c] for c in outside], default=INFINITE),
                    work[i],
                    min([head[i][c] for c in inside]),
                )
                for i in parents
            ]
            known = max(known, _least_time(forced))
        return known

    def tails(self) -> Table:
        """Least time after the end of every task on every class: along the child that needs the most."""
        graph, classes = self.graph, range(self.num_classes)
        pointer, targets = graph.successor_pointer.tolist(), graph.targets.tolist()
        tail: Table = [[]] * graph.num_tasks
        rest: Table = [[]] * graph.num_tasks
        for i in graph.order[::-1].tolist():
            longest, most = [0.0] * self.num_classes, -1.0
            for e in range(pointer[i], pointer[i + 1]):
                after, lag = rest[targets[e]], self.lag[e]
                needed = [min([lag[c][k] + after[k] for k in classes]) for c in classes]
                if min(needed) > most:
                    longest, most = needed, min(needed)
            tail[i] = longest
            rest[i] = [after + run for after, run in zip(longest, self.run[i], strict=True)]
        return tail


def _least_time(forced: list[tuple[float, float, float]]) -> float:
    """The least time by which tasks can be done: (when outside the set, share of the set, start within it).

    Up to time t those that would be done later outside must all have run within the set.
    """
    forced.sort(reverse=True)
    best, work, start = INFINITE, 0.0, INFINITE
    for outside, share, head in forced:
        best = min(best, max(outside, start + work if work else outside))
        work += share
        start = min(start, head)
    return min(best, start + work)


def _lags(problem: Problem, data: Floats, present: list[int]) -> Floats:
    """Least transfer time of every edge between two classes; none within one: the device may be the same."""
    cluster, (latency, bandwidth) = problem.cluster, problem.links
    groups = [np.unique(cluster.link_group[cluster.device_class == c]).tolist() for c in present]
    lags = np.zeros((len(data), len(present), len(present)))
    for c, sources in enumerate(groups):
        for k, targets in enumerate(groups):
            if c != k:
                links = {(float(latency[g, h]), float(bandwidth[g, h])) for g in sources for h in targets}
                lags[:, c, k] = np.min([delay + data / rate for delay, rate in links], axis=0)
    return lags


# -- the work of all tasks that lie within a window of time -------------------------------------------


def _windows(layout: Layout, head: Floats, tail: Floats) -> float:
    """The best bound from the tasks that start no earlier and are followed by no less than some times."""
    counted = layout.counted
    first, last = head.min(axis=1)[counted], tail.min(axis=1)[counted]
    total = (head + layout.run + tail)[counted]
    side = int(np.clip(np.sqrt(WINDOW_WORK / len(total)), 1, WINDOWS))
    starts, ends = _picked(first, side), _picked(last, side)
    around = starts[:, None] + ends
    best = 0.0
    for _, classes, work in layout.shares:
        outside = total[:, classes].min(axis=1) if classes else np.full(len(total), INFINITE)
        share = work[counted]
        most = np.minimum(around + _sums(first, last, share, starts, ends), outside.max())
        for place in np.argsort(-most, axis=None).tolist():
            s, e = divmod(place, len(ends))
            if not most[s, e] > best:
                break
            chosen = (first >= starts[s]) & (last >= ends[e])
            best = max(best, _least_span(outside[chosen], share[chosen], float(around[s, e])))
    return best


def _sums(first: Floats, last: Floats, work: Floats, starts: Floats, ends: Floats) -> Floats:
    """Work of the tasks within each window; (num_starts, num_ends)."""
    row = np.searchsorted(starts, first, side="right") - 1
    column = np.searchsorted(ends, last, side="right") - 1
    finite = np.where(np.isfinite(work), work, 1e300)
    table = np.bincount(row * len(ends) + column, finite, len(starts) * len(ends))
    table = table.reshape(len(starts), len(ends))
    sums: Floats = table[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
    return sums


def _picked(values: Floats, most: int) -> Floats:
    """So many of the distinct values, the smallest among them."""
    distinct = np.unique(values)
    if len(distinct) <= most:
        return distinct
    return distinct[np.linspace(0, len(distinct), most, endpoint=False).astype(np.int64)]


def _least_span(outside: Floats, work: Floats, around: float) -> float:
    """The least makespan: tasks that would make it longer outside the set have to fit into the set."""
    if not len(work):
        return 0.0
    order = np.argsort(-outside, kind="stable")
    needed = around + np.cumsum(work[order])
    later = np.append(outside[order][1:], 0.0)  # the longest of those that need not be in the set
    return float(min(outside.max(), np.maximum(needed, later).min()))
