"""A problem in whole ticks, for a solver that knows no fractions, and the way back to true times.

Unless all times lie on one decimal grid they are rounded down: what is optimal in ticks is then
never above the true optimum, and any true schedule, rounded down, is one in ticks.
"""

from __future__ import annotations

import math
from functools import cached_property
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

import numpy as np

from weft.model.bounds import lower_bound
from weft.model.graph import Bools, Floats, Ints, Ints32
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.sim.arrays import SLOTS, Arrays, compile_problem

RESOLUTION = 23
"""Where times are rounded, the horizon has at most two to this power ticks."""
MOST_TICKS = 1e9
"""Largest horizon on an exact grid."""
MOST_UNITS = 2**16
"""Largest capacity; larger ones and their demands are scaled and rounded down."""
MOST_APART = 8
"""Up to this many interchangeable devices stay apart: bounds are easier to prove for each alone."""
SLACK = 1e-9
"""Relative slack of capacities, as in the validator."""


class Grid(NamedTuple):
    """Ticks per unit of time."""

    scale: float
    is_exact: bool
    """Whether every time is a whole number of ticks; else they are rounded down."""

    def ticks(self, times: Floats, most: float) -> Ints:
        """Whole ticks of some times; those beyond ``most`` become a little more than it."""
        scaled = np.minimum(times, most + 2 / self.scale) * self.scale
        return (np.rint(scaled) if self.is_exact else np.floor(scaled)).astype(np.int64)


def choose_grid(times: Floats, horizon: float) -> Grid:
    """The coarsest decimal grid that holds all times, else one of powers of two.

    Twice the times on half the scale give the same ticks, so the solver sees the same numbers.
    """
    for power in 10.0 ** np.arange(10):
        scaled = times * power
        whole = np.rint(scaled)
        if whole.max(initial=0.0) < 2**53 and (np.abs(scaled - whole) <= 1e-12 * scaled).all():
            scale = float(power) / max(int(np.gcd.reduce(whole.astype(np.int64))), 1)
            if horizon * scale <= MOST_TICKS:
                return Grid(scale, True)
    return Grid(2.0 ** (RESOLUTION - math.frexp(horizon)[1]), False)


class Pool(NamedTuple):
    """Devices that count as one: a single one, or interchangeable ones where transfers are free."""

    devices: tuple[int, ...]
    device_class: int
    group: int
    capacity: tuple[float, ...]  # (num_resources,)
    kind: int
    """Pools of one kind can be exchanged for one another."""
    rank: int
    """Place within the kind; named in the order of first use, task i needs no rank above i."""


def has_transfers(a: Arrays) -> bool:
    """Whether some edge may take time between two devices."""
    size = np.bincount(a.group, minlength=len(a.latency))
    used = (np.outer(size, size) - np.diag(size)) > 0
    slowest = a.latency + a.succ_data.max(initial=0.0) * a.inverse
    return bool(len(a.succ) and slowest[used].max(initial=0.0) > 0)


def make_pools(a: Arrays) -> list[Pool]:
    """The devices, joined where that is no restriction."""
    is_free = not has_transfers(a)
    kinds: dict[tuple[int, bytes, int], list[int]] = {}
    for d, c in enumerate(a.device_class.tolist()):
        allowed = a.allowed[:, d].tobytes() if a.allowed.size else b""
        kinds.setdefault((c, allowed, 0 if is_free else int(a.group[d])), []).append(d)
    pools: list[Pool] = []
    for kind, ((c, _, group), devices) in enumerate(kinds.items()):
        capacity = a.capacity[devices[0]].copy()
        if is_free and len(devices) > MOST_APART and _is_lane(a, devices[0]):
            capacity[SLOTS] *= len(devices)
            capacity[1:] = np.inf
            pools.append(Pool(tuple(devices), c, group, tuple(capacity.tolist()), kind, 0))
        else:
            limits = tuple(capacity.tolist())
            pools += [Pool((d,), c, group, limits, kind, rank) for rank, d in enumerate(devices)]
    return pools


def _is_lane(a: Arrays, d: int) -> bool:
    """Whether only the slots of a device limit it, and every task takes one."""
    if a.is_unary[d]:
        return True
    can = np.isfinite(a.run[:, a.device_class[d]])
    others = (a.demand[can, 1:].max(axis=0, initial=0.0) > 0) & np.isfinite(a.capacity[d, 1:])
    return bool((a.demand[can, SLOTS] == 1).all() and not others.any())


class TickProblem:
    """A problem in ticks since the first release.

    Some best schedule keeps the ``horizon``, the makespan of the start; any schedule without needless
    waiting is over by ``latest``.
    """

    def __init__(self, problem: Problem, start: Schedule, deadlines: bool) -> None:
        self.problem, self.a = problem, compile_problem(problem)
        a = self.a
        self.pools = make_pools(a)
        self.origin = min(job.release for job in problem.jobs)
        self.has_transfers = has_transfers(a)
        transfers = np.zeros((len(a.succ), 1, 1))
        if self.has_transfers:
            transfers = a.latency + a.succ_data[:, None, None] * a.inverse
        release, due = a.release - self.origin, _due(problem, deadlines) - self.origin
        is_late = deadlines and start.misses > 0
        span = _latest(a, release, transfers) if is_late else start.makespan
        times = [values[values <= span] for values in (a.run, transfers, release, due)]
        self.grid = grid = choose_grid(np.unique(np.concatenate(times)), span)
        self.horizon = math.floor(span * grid.scale * (1 + 1e-12))
        self.latest = max(self.horizon, math.ceil(_latest(a, release, transfers) * grid.scale))
        self.has_deadlines = bool((due < span).any())
        self.run = grid.ticks(a.run, span)  # (num_tasks, num_classes)
        self.lag = grid.ticks(transfers, span)  # (num_edges, num_groups, num_groups)
        self.release = grid.ticks(release, span)  # (num_tasks,)
        self.due = grid.ticks(due, span)  # (num_tasks,)

    @property
    def least(self) -> int:
        """The cheap bound: a true schedule is no shorter, so neither need its makespan in ticks be."""
        return min(self.horizon, math.floor(lower_bound(self.problem).value * self.grid.scale * (1 - 1e-12)))

    @property
    def tolerance(self) -> float:
        """What rounding may hide: a tick per task and per transfer of the longest chain."""
        return 0.0 if self.grid.is_exact else 2 * self.problem.num_tasks / self.grid.scale

    def may_use(self, i: int) -> list[int]:
        """Pools that task i may run on without loss."""
        allowed = self.a.allowed[self.a.job[i]] if self.a.allowed.size else None
        return [
            p
            for p, pool in enumerate(self.pools)
            if pool.rank <= i
            and self.run[i, pool.device_class] <= self.horizon
            and (allowed is None or allowed[pool.devices[0]])
        ]

    @cached_property
    def descends(self) -> Bools:
        """Whether task j comes after task i in the graph; (num_tasks, num_tasks)."""
        a = self.a
        after = np.zeros((len(a.order), len(a.order)), dtype=np.bool_)
        for i in a.order[::-1].tolist():
            children = a.succ[a.succ_ptr[i] : a.succ_ptr[i + 1]]
            after[i] = after[children].any(axis=0)
            after[i, children] = True
        return after

    @cached_property
    def twins(self) -> list[list[int]]:
        """Tasks that differ in nothing but their name; there is a best schedule that starts them in order."""
        a, alike = self.a, dict[tuple[object, ...], list[int]]()
        for i in range(self.problem.num_tasks):
            before, after = slice(*a.pred_ptr[i : i + 2]), slice(*a.succ_ptr[i : i + 2])
            parts = (
                a.run[i],
                a.demand[i],
                a.pred[before],
                a.pred_data[before],
                a.succ[after],
                a.succ_data[after],
            )
            alike.setdefault((a.job[i], *(part.tobytes() for part in parts)), []).append(i)
        return [tasks for tasks in alike.values() if len(tasks) > 1]

    def canonical(self, schedule: Schedule) -> tuple[list[int], list[int]]:
        """Pools and starts of a schedule, with twins in order and pools of a kind by first use."""
        rows = np.argsort(schedule.task)
        for tasks in self.twins:
            rows[tasks] = np.sort(rows[tasks])  # rows are sorted by start
        pool_of = {d: p for p, pool in enumerate(self.pools) for d in pool.devices}
        used = [pool_of[d] for d in schedule.device[rows].tolist()]
        unused: dict[int, list[int]] = {}
        for p, pool in enumerate(self.pools):
            unused.setdefault(pool.kind, []).append(p)
        renamed = {p: unused[self.pools[p].kind].pop(0) for p in dict.fromkeys(used)}
        start = self.grid.ticks(schedule.start[rows] - self.origin, math.inf).tolist()
        return [renamed[p] for p in used], start


def _due(problem: Problem, deadlines: bool) -> Floats:
    """When each task must have finished; infinite where nothing is due."""
    due = [
        math.inf if job.deadline is None or not deadlines else job.release + job.deadline
        for job in problem.jobs
    ]
    return np.repeat(np.array(due), np.diff(problem.offsets))


def _latest(a: Arrays, release: Floats, transfers: Floats) -> float:
    """No schedule without needless waiting is longer: all tasks and transfers one after another."""
    longest = np.where(np.isfinite(a.run), a.run, 0.0).max(axis=1).sum()
    moved = transfers.max(axis=(1, 2), initial=0.0).sum()
    return float(release.max() + longest + moved)


class Answer(NamedTuple):
    """What the solver found, in ticks."""

    pool: list[int]  # (num_tasks,)
    start: list[int]  # (num_tasks,)
    finish: list[int]  # (num_tasks,)
    bound: int


def whole_units(demand: Floats, capacity: float) -> tuple[list[int], int]:
    """Demands and a capacity as whole numbers; what fits, still fits."""
    most = capacity * (1 + SLACK)
    if (demand == np.rint(demand)).all() and demand.max() < 2**53:
        divisor = int(np.gcd.reduce(demand.astype(np.int64)))
        if most / divisor <= MOST_UNITS:
            return (demand.astype(np.int64) // divisor).tolist(), int(most / divisor)
    scale = MOST_UNITS / capacity
    return np.floor(demand * scale).astype(np.int64).tolist(), int(most * scale)


def decode(ticked: TickProblem, answer: Answer) -> Schedule:
    """The schedule with the pools and the order of an answer, every task as early as that allows.

    On an exact grid no task starts later than in the answer.
    """
    a = ticked.a
    place = np.empty(len(a.order), np.int64)
    place[a.order] = np.arange(len(a.order))
    by_start = np.lexsort(np.array((place, answer.finish, answer.start))).tolist()
    start, finish = np.zeros(len(by_start)), np.zeros(len(by_start))
    desks = [_Desk(pool.capacity) for pool in ticked.pools]
    for i in by_start:
        p = answer.pool[i]
        run = float(a.run[i, ticked.pools[p].device_class])
        ready = _ready(ticked, answer.pool, finish, i)
        start[i] = desks[p].take(ready, run, a.demand[i].tolist()) if run else ready
        finish[i] = start[i] + run
    device = _devices(ticked, answer.pool, start, finish)
    return Schedule(ticked.problem, np.arange(len(by_start), dtype=np.int32), device, start, finish)


def _ready(ticked: TickProblem, pool: list[int], finish: Floats, i: int) -> float:
    """When the data of all parents of a task is there."""
    a, at = ticked.a, float(ticked.a.release[i])
    for e in range(a.pred_ptr[i], a.pred_ptr[i + 1]):
        k = int(a.pred[e])
        source, target = ticked.pools[pool[k]], ticked.pools[pool[i]]
        arrival = float(finish[k])
        if pool[k] != pool[i] and ticked.has_transfers:
            g, h = source.group, target.group
            arrival += float(a.latency[g, h] + a.pred_data[e] * a.inverse[g, h])
        at = max(at, arrival)
    return at


class _Desk:
    """One pool while a schedule is rebuilt: tasks come in the order of their starts."""

    def __init__(self, capacity: tuple[float, ...]) -> None:
        self.most = [limit * (1 + SLACK) for limit in capacity]
        self.used = [0.0] * len(capacity)
        self.running: list[tuple[float, list[float]]] = []
        self.latest = 0.0

    def take(self, ready: float, run: float, demand: list[float]) -> float:
        """Occupy the pool as soon as there is room, not before the task that came last."""
        at = max(ready, self.latest)
        while self.running and (self.running[0][0] <= at or not self._fits(demand)):
            over, freed = heappop(self.running)
            at = max(at, over)
            self.used = [x - y for x, y in zip(self.used, freed, strict=True)]
        if not self.running:
            self.used = [0.0] * len(self.used)
        self.used = [x + y for x, y in zip(self.used, demand, strict=True)]
        heappush(self.running, (at + run, demand))
        self.latest = at
        return at

    def _fits(self, demand: list[float]) -> bool:
        return all(x + y <= most for x, y, most in zip(self.used, demand, self.most, strict=True))


def _devices(ticked: TickProblem, pool: list[int], start: Floats, finish: Floats) -> Ints32:
    """A device for every task; joined devices hand out their slots, first free first."""
    device = np.array([ticked.pools[p].devices[0] for p in pool], dtype=np.int32)
    free: dict[int, list[tuple[float, int]]] = {}
    for p, (devices, *_) in enumerate(ticked.pools):
        if len(devices) > 1:
            slots = round(ticked.pools[p].capacity[SLOTS]) // len(devices)
            free[p] = [(0.0, d) for d in devices for _ in range(slots)]
            heapify(free[p])
    for i in np.lexsort((finish, start)).tolist():
        if pool[i] in free and finish[i] > start[i]:
            device[i] = free[pool[i]][0][1]
            heapreplace(free[pool[i]], (float(finish[i]), int(device[i])))
    return device
