"""Random conditional graphs on random clusters, with arrivals for a drawn load.

One seed is one stream: a graph whose tasks each have a kind of their own, branches of two edges,
now and then a fork or a join, and devices of unrelated speeds that take batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.errors import InputError
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import ALWAYS, Bools, Floats, Ints, TaskGraph
from weft.model.problem import Objective, Problem

BATCHES = (1, 1, 2, 4, 8, 16)
"""Batches that classes of devices draw from."""
DRAWS = 4096
"""Jobs drawn to find how often each task runs."""
TINY = 1e-10
"""What counts as 0 in the simplex method."""
NEAR = 4
"""A task follows one of this many tasks before it."""

_STRUCTURE, _TIMES, _CLUSTER, _VISITS, _LOAD = range(5)
Rng = np.random.Generator


@dataclass(frozen=True)
class Ranges:
    """What the sizes of a random stream are drawn from, both ends included."""

    kinds: tuple[int, int] = (4, 12)
    devices: tuple[int, int] = (2, 8)
    classes: tuple[int, int] = (2, 4)
    load: tuple[float, float] = (0.5, 0.95)
    """Share of the fluid capacity that arrives."""

    def __post_init__(self) -> None:
        for name in ("kinds", "devices", "classes"):
            low, high = getattr(self, name)
            if not 2 <= low <= high:
                raise InputError(f"expected 2 <= low <= high, got {low} and {high}", field=name)
        low, high = self.load
        if not 0 < low <= high < 1:
            raise InputError(f"expected 0 < low <= high < 1, got {low} and {high}", field="load")


SIZES = {"usual": Ranges(), "large": Ranges(kinds=(14, 24), devices=(9, 16), classes=(3, 6))}
"""Named ranges: ``usual`` to train on, ``large`` to see how far a policy carries."""


@dataclass(frozen=True)
class RandomStream:
    """A problem and how fast its jobs arrive."""

    problem: Problem
    load: float
    """Share of the fluid capacity."""
    gap: float
    """Mean time between jobs at that load."""


def random_stream(seed: int, ranges: Ranges, *, load: float = 0.0) -> RandomStream:
    """The stream of a seed; a ``load`` above 0 is taken instead of a drawn one."""
    if not 0 <= load < 1:
        raise InputError(f"expected a load in [0, 1), got {load}", field="load")
    cluster = random_cluster(seed, ranges)
    graph = random_graph(seed, ranges, tuple(one.name for one in cluster.classes))
    problem = Problem(graph, cluster, Objective("mean_jct", copies=False))
    drawn = float(_rng(seed, _LOAD).uniform(*ranges.load))
    chosen = load or drawn
    return RandomStream(problem, chosen, 1.0 / (chosen * fluid_capacity(problem, seed)))


def _rng(seed: int, stream: int) -> Rng:
    return np.random.default_rng([seed, stream])


def random_cluster(seed: int, ranges: Ranges) -> Cluster:
    """Devices of a few classes; at least one class takes batches."""
    rng = _rng(seed, _CLUSTER)
    num_devices = int(rng.integers(ranges.devices[0], ranges.devices[1] + 1))
    num_classes = min(int(rng.integers(ranges.classes[0], ranges.classes[1] + 1)), num_devices)
    batch = rng.choice(BATCHES, num_classes)
    batch[rng.integers(num_classes)] = rng.choice(BATCHES[2:])
    counts = 1 + np.bincount(rng.integers(num_classes, size=num_devices - num_classes), minlength=num_classes)
    classes = [DeviceClass(f"c{i}", batch=int(size)) for i, size in enumerate(batch)]
    return Cluster.uniform(classes, counts.tolist(), name=f"random-{num_devices}-{seed}")


def random_graph(seed: int, ranges: Ranges, classes: tuple[str, ...]) -> TaskGraph:
    """A graph with a kind per task, in milliseconds; run times are unrelated between classes."""
    rng = _rng(seed, _STRUCTURE)
    num = int(rng.integers(ranges.kinds[0], ranges.kinds[1] + 1))
    sources, targets, probability, branch = _edges(num, rng)
    names = tuple(f"k{i}" for i in range(num))
    work, times = _times(num, len(classes), _rng(seed, _TIMES))
    return TaskGraph(
        work,
        sources,
        targets,
        names=names,
        kinds=names,
        kind=np.arange(num),
        classes=classes,
        times=times,
        probability=probability,
        branch=branch,
        name=f"conditional-{num}-{seed}",
        time_unit="ms",
    )


def _edges(num: int, rng: Rng) -> tuple[list[int], list[int], list[float], list[int]]:
    """Every task follows an earlier one; two that follow the same branch or fork; some leaves join."""
    children: list[list[int]] = [[] for _ in range(num)]
    for task in range(1, num):
        open_ones = [i for i in range(max(0, task - NEAR), task) if len(children[i]) < 2]
        children[open_ones[int(rng.integers(len(open_ones)))]].append(task)
    sources, targets, probability, branch = [], [], [], []
    for task, after in enumerate(children):
        is_branch = len(after) == 2 and rng.random() < 0.75
        first = round(float(rng.uniform(0.05, 0.95)), 3)
        joins = not after and task < num - 2 and rng.random() < 0.3
        after = [int(rng.integers(task + 1, num))] if joins else after
        for place, target in enumerate(after):
            sources.append(task)
            targets.append(target)
            probability.append((1.0 - first if place else first) if is_branch else 1.0)
            branch.append(0 if is_branch else ALWAYS)
    return sources, targets, probability, branch


def _times(num: int, num_classes: int, rng: Rng) -> tuple[Floats, Floats]:
    """Light and heavy work, and run times per class: a factor per class and one per kind and class."""
    is_heavy = rng.random(num) < 0.2
    work = rng.uniform(5.0, 20.0, num) * np.where(is_heavy, rng.uniform(4.0, 10.0, num), 1.0)
    by_class = np.exp(rng.normal(0.0, 0.35, num_classes))
    by_pair = np.exp(rng.normal(0.0, 0.35, (num, num_classes)))
    return work, np.round(work[:, None] * by_class * by_pair, 3)


def fluid_capacity(problem: Problem, seed: int) -> float:
    """Jobs per time unit that the devices can carry if every batch is full and work is divisible.

    The most jobs for which rates per kind and device exist such that no device is busy for more
    than all of the time: a linear programme of kinds x devices variables.
    """
    cluster = problem.cluster
    batch = cluster.class_column("batch")[cluster.device_class]
    cost = problem.run_times[:, cluster.device_class] / batch  # (num_kinds, num_devices) time per task
    num_kinds, num_devices = cost.shape
    num_rates = num_kinds * num_devices
    rows = np.zeros((num_kinds + num_devices, num_rates + 1))
    limit = np.concatenate([np.zeros(num_kinds), np.ones(num_devices)])
    rate = np.arange(num_rates)
    rows[rate // num_devices, rate] = -1.0
    rows[num_kinds + rate % num_devices, rate] = cost.ravel()
    rows[:num_kinds, -1] = run_shares(problem.graph, seed)
    return _largest_last(rows, limit)


def _largest_last(rows: Floats, limit: Floats) -> float:
    """The greatest last variable with ``rows @ x <= limit`` and ``x >= 0``, for limits >= 0.

    The simplex method with Bland's rule, which cannot cycle.
    """
    num_rows, num = rows.shape
    table = np.zeros((num_rows + 1, num + num_rows + 1))
    table[:-1, :num], table[:-1, num:-1], table[:-1, -1] = rows, np.eye(num_rows), limit
    table[-1, num - 1] = -1.0
    basis = np.arange(num, num + num_rows)
    while (table[-1, :-1] < -TINY).any():
        column = int(np.argmax(table[-1, :-1] < -TINY))
        usable = table[:-1, column] > TINY
        ratio = np.where(usable, table[:-1, -1] / np.where(usable, table[:-1, column], 1.0), np.inf)
        ties = np.flatnonzero(ratio <= ratio.min() + TINY)
        row = int(ties[np.argmin(basis[ties])])
        basis[row] = column
        table[row] /= table[row, column]
        others = np.arange(num_rows + 1) != row
        table[others] -= table[others, column][:, None] * table[row]
    return float(table[-1, -1])


def run_shares(graph: TaskGraph, seed: int) -> Floats:
    """Share of the jobs in which each task runs, over seeded draws of the branches."""
    rng = _rng(seed, _VISITS)
    runs: Bools = np.zeros((graph.num_tasks, DRAWS), np.bool_)
    runs[np.diff(graph.predecessor_pointer) == 0] = True
    for i in graph.order.tolist():
        edges = np.arange(int(graph.successor_pointer[i]), int(graph.successor_pointer[i + 1]))
        for group in dict.fromkeys(graph.branch[edges].tolist()):
            own: Ints = edges[graph.branch[edges] == group]
            if group == ALWAYS:
                runs[graph.targets[own]] |= runs[i]
            else:
                upto = np.cumsum(graph.probability[own])
                taken = np.minimum(np.searchsorted(upto, rng.random(DRAWS), side="right"), len(own) - 1)
                for place, edge in enumerate(own):
                    runs[graph.targets[edge]] |= runs[i] & (taken == place)
    return np.asarray(runs.mean(axis=1), dtype=np.float64)
