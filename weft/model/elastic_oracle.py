"""Checks an episode of an elastic problem against the rules, in plain Python: no code of the kernel is used.

Arrivals, types, links and noise are drawn again. Every world step of every task is gone through: units,
capacities, connections, progress, ends. Pending sets are replayed from the order of placements.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from weft.model.draws import ARRIVING, EPISODE, LINK, PROGRESS, TASK_TYPE, keyed_uniform
from weft.model.elastic import ElasticProblem
from weft.model.elastic_run import CLUSTER, RAN, ROUND, STEP, TASK, UNITS, ElasticRun

CLOSE = 1e-9
"""How far recorded progress may be from the one worked out here."""


def first_fault(run: ElasticRun) -> str | None:
    """The first rule that an episode breaks; None: it keeps them all."""
    checks = (_arrivals, _shapes, _capacities, _tasks, _sets)
    return next((fault for check in checks for fault in check(run)), None)


def episode_key(seed: int) -> int:
    """What the draws of the first episode of a seed are keyed by."""
    return int(float(keyed_uniform(seed, EPISODE, 0, 0, 0, 0)) * 2.0**52)


def drawn_arrivals(problem: ElasticProblem, key: int) -> Iterator[tuple[int, int, frozenset[int]]]:
    """World step, type and clusters of every task, in order."""
    if len(problem.arrivals):
        for step, kind, links in problem.arrivals.tolist():
            yield step, kind, frozenset(n for n in range(problem.num_clusters) if (links >> n) & 1)
        return
    tasks, step, count = np.arange(problem.num_tasks), 0, 0
    types = keyed_uniform(key, TASK_TYPE, tasks, 0, 0, 0).tolist()
    links = keyed_uniform(key, LINK, tasks[:, None], np.arange(problem.num_clusters + 1), 0, 0).tolist()
    while count < problem.num_tasks:
        arriving = _poisson(problem.arrival_rate, float(keyed_uniform(key, ARRIVING, step, 0, 0, 0)))
        for _ in range(min(arriving, problem.num_tasks - count)):
            yield step, _type(problem, types[count]), _links(problem, links[count])
            count += 1
        step += 1


def _poisson(mean: float, draw: float) -> int:
    count, term = 0, math.exp(-mean)
    total = term
    while draw > total and term > 0.0:
        count += 1
        term *= mean / count
        total += term
    return count


def _type(problem: ElasticProblem, draw: float) -> int:
    weights = problem.weights or (1.0,) * len(problem.types)
    total, upto = sum(weights), 0.0
    for number, weight in enumerate(weights[:-1]):
        upto += weight / total
        if draw < upto:
            return number
    return len(weights) - 1


def _links(problem: ElasticProblem, draws: list[float]) -> frozenset[int]:
    """Clusters of a task: one draw for each, and one for how many there are."""
    clusters = range(problem.num_clusters)
    if problem.links == "bandwidth":
        wide = [n for n in clusters if problem.bandwidth * draws[n] >= problem.threshold]
        return frozenset(wide or [draws.index(max(draws[:-1]))])
    count = min(int(draws[-1] * len(clusters)), len(clusters) - 1) + 1
    return frozenset(sorted(clusters, key=lambda n: draws[n])[:count])


def _arrivals(run: ElasticRun) -> Iterator[str]:
    for task, (step, kind, links) in enumerate(drawn_arrivals(run.problem, episode_key(run.seed))):
        if (int(run.arrival[task]), int(run.kind[task])) != (step, kind):
            yield f"arrival: task {task} of type {kind} arrives at step {step}, not {run.arrival[task]}"
        if int(run.links[task]) != sum(1 << n for n in links):
            yield f"links: task {task} is connected to {sorted(links)}"


def _shapes(run: ElasticRun) -> Iterator[str]:
    problem, rows = run.problem, run.rows
    if len(run.arrival) != problem.num_tasks or len(rows) != len(run.progress):
        yield "record: not one row per task, or not one progress per row"
    elif not ((rows[:, TASK] >= 0) & (rows[:, TASK] < problem.num_tasks)).all():
        yield "record: a row names no task"
    elif not ((rows[:, CLUSTER] >= 0) & (rows[:, CLUSTER] < problem.num_clusters)).all():
        yield "record: a row names no cluster"
    elif (missing := np.setdiff1d(np.arange(problem.num_tasks), rows[:, TASK])).size:
        yield f"end: task {missing[0]} never ran"
    elif (rows[:, UNITS:] < 0).any():
        yield "units: below 0"


def _capacities(run: ElasticRun) -> Iterator[str]:
    held: dict[tuple[int, int], list[int]] = {}
    for row in run.rows.tolist():
        total = held.setdefault((row[STEP], row[CLUSTER]), [0] * run.problem.num_resources)
        for r, units in enumerate(row[UNITS:]):
            total[r] += units
    for (step, cluster), total in held.items():
        for r, used in enumerate(total):
            if used > run.problem.capacity[cluster, r]:
                yield f"capacity: cluster {cluster} gives {used} {run.problem.resources[r]} at step {step}"


def _tasks(run: ElasticRun) -> Iterator[str]:
    """Each task: one cluster, step after step from its placement to its end, with the progress of its type."""
    draws = keyed_uniform(episode_key(run.seed), PROGRESS, run.rows[:, TASK], run.rows[:, RAN], 0, 0)
    own: dict[int, list[int]] = defaultdict(list)
    for at, task in enumerate(run.rows[:, TASK].tolist()):
        own[task].append(at)
    for task in range(run.problem.num_tasks):
        yield from _task(run, task, own[task], draws)


def _task(run: ElasticRun, task: int, rows: list[int], draws: np.ndarray) -> Iterator[str]:
    kind, progress = run.problem.types[int(run.kind[task])], 0.0
    first = run.rows[rows[0]].tolist()
    before: tuple[int, ...] | None = None
    if first[STEP] < run.arrival[task]:
        yield f"arrival: task {task} runs at step {first[STEP]}, before it arrives"
    if not (int(run.links[task]) >> first[CLUSTER]) & 1:
        yield f"links: task {task} runs on cluster {first[CLUSTER]}, which it is not connected to"
    for number, at in enumerate(rows):
        row = run.rows[at].tolist()
        units = tuple(row[UNITS:])
        if (row[STEP], row[CLUSTER], row[RAN]) != (first[STEP] + number, first[CLUSTER], number):
            yield f"place: task {task} is on cluster {row[CLUSTER]} at step {row[STEP]}, for the {row[RAN]}. time"
        if any(u > most for u, most in zip(units, kind.most, strict=True)):
            yield f"units: task {task} has {units}, and may have {kind.most}"
        noise = kind.noise * (2.0 * float(draws[at]) - 1.0)
        gain = kind.gain(units, progress, noise)
        has_changed = before not in (None, units)
        progress += gain * (run.problem.switching * kind.switching if has_changed else 1.0)
        if abs(progress - float(run.progress[at])) > CLOSE:
            yield f"progress: task {task} is at {progress:.6g} after step {row[STEP]}, not {run.progress[at]:.6g}"
        progress, before = float(run.progress[at]), units
        if (progress >= 1.0) != (at == rows[-1]):
            yield f"end: task {task} at progress {progress:.6g} {'goes on' if progress >= 1.0 else 'has ended'}"
    if int(run.finish[task]) != first[STEP] + len(rows):
        yield f"end: task {task} ends after step {first[STEP] + len(rows) - 1}, not {run.finish[task] - 1}"


def _sets(run: ElasticRun) -> Iterator[str]:
    """Every task is taken out of a pending set, one per cluster and logical step."""
    problem = run.problem
    first = run.rows[run.rows[:, RAN] == 0]
    taken: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)  # (step, round) -> cluster -> task
    for row in first.tolist():
        if row[CLUSTER] in taken[row[STEP], row[ROUND]]:
            yield f"step: cluster {row[CLUSTER]} takes two tasks in one logical step, at step {row[STEP]}"
        taken[row[STEP], row[ROUND]][row[CLUSTER]] = row[TASK]
        if problem.stepping == "single" and row[ROUND] != 0:
            yield f"step: task {row[TASK]} is placed in logical step {row[ROUND]}, and there is one per world step"
    sets = _Sets(problem)
    by_step: dict[int, list[int]] = defaultdict(list)
    for task, step in enumerate(run.arrival.tolist()):
        by_step[step].append(task)
    for step in range(int(run.finish.max())):
        sets.arrive(by_step[step], run.links)
        number = 0
        while (step, number) in taken:
            for cluster, task in taken[step, number].items():
                if task not in sets.slots[cluster]:
                    yield f"set: task {task} is not in the pending set of cluster {cluster} at step {step}"
                sets.left.append(task)
            sets.remove()
            number += 1
        if any((step, later) in taken for later in range(number, number + 50)):
            yield f"step: a logical step without a placement does not end world step {step}"


class _Sets:
    """Pending sets and queues as lists."""

    def __init__(self, problem: ElasticProblem) -> None:
        self.slots: list[list[int | None]] = [[None] * problem.num_slots for _ in range(problem.num_clusters)]
        self.queues: list[list[int]] = [[] for _ in range(problem.num_clusters)]
        self.left: list[int] = []
        self.is_earliest = problem.pending == "earliest"

    def arrive(self, tasks: list[int], links: np.ndarray) -> None:
        """New tasks take free slots or queue; then free slots are filled from the queues."""
        for task in tasks:
            for n, slots in enumerate(self.slots):
                if not (int(links[task]) >> n) & 1:
                    continue
                if None in slots:
                    slots[slots.index(None)] = task
                else:
                    self.queues[n].append(task)
        for n in range(len(self.slots)):
            self._fill(n)

    def remove(self) -> None:
        """Placed tasks leave all sets and queues."""
        for n, slots in enumerate(self.slots):
            self.slots[n] = [None if task in self.left else task for task in slots]
            self.queues[n] = [task for task in self.queues[n] if task not in self.left]
            if self.is_earliest:
                held = [task for task in self.slots[n] if task is not None]
                self.slots[n] = [*held, *([None] * (len(slots) - len(held)))]
                self._fill(n)
        self.left.clear()

    def _fill(self, n: int) -> None:
        slots, queue = self.slots[n], self.queues[n]
        while queue and None in slots:
            slots[slots.index(None)] = queue.pop(0)
