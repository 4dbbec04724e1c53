"""Tabu search for problems in which every task has its device and only the order is open.

Job shops above all, but with any precedence, releases, and transfers (constant, since both ends
are fixed). One run starts from a dispatching rule; when it brings nothing new for long, the next
starts half way between two of the best orders found (path relinking: Peng, Lü, Cheng 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weft.errors import InputError, UnsupportedError
from weft.model.bounds import Bound
from weft.model.graph import Floats, Ints
from weft.model.problem import Problem
from weft.model.schedule import DONE, Schedule
from weft.schedulers.base import Limit, refuse_unplannable
from weft.sim.arrays import Arrays, compile_problem
from weft.sim.timeline.disjunctive import (
    BEST,
    ITERATION,
    MAKESPAN,
    SINCE,
    Shop,
    begin,
    dispatch,
    longest_paths,
    new_walk,
)
from weft.sim.timeline.list_planning import list_order
from weft.sim.timeline.tabu import MOVED, OPTIMAL, TO_ENDS, search

EFFORT = 4000
"""Moves without a limit."""
PATIENCE = 10_000
"""Moves without a better order after which a run ends."""
ELITES = 6
"""Orders kept for relinking."""
CHUNK = 2_000_000
"""Moves times tasks between two looks at the clock: a few hundredths of a second."""


class Tabu:
    """Tabu search on the order of each device."""

    name = "tabu"
    note = ""

    def supports(self, problem: Problem) -> str | None:
        return refuse_unplannable(problem) or refuse_open_devices(problem)

    def plan(self, problem: Problem, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
        """Search from the better of two dispatching rules."""
        shop, device = compile_shop(problem)
        found = search_orders(shop, dispatch_orders(shop), seed=seed, limit=limit)
        self.note = found.note
        return schedule_of(problem, shop, device, found)


def improve(problem: Problem, start: Schedule, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
    """Search from the order of any schedule of the problem; never returns a longer one."""
    reason = Tabu().supports(problem)
    if reason is not None:
        raise UnsupportedError(f"tabu: {reason}", field="scheduler")
    shop, device = compile_shop(problem)
    found = search_orders(shop, [order_of(problem, start)], seed=seed, limit=limit)
    schedule = schedule_of(problem, shop, device, found)
    return schedule if schedule.makespan < start.makespan else start


class Found(NamedTuple):
    """What a search brought."""

    order: Ints  # (num_tasks,) all tasks, in an order that every device follows
    start: Floats  # (num_tasks,)
    makespan: float
    """Last finish, counted from time 0."""
    bound: float
    """No order has an earlier last finish."""
    moves: int

    @property
    def note(self) -> str:
        """For a person: moves made, and whether the order is proven optimal."""
        return f"{self.moves} moves" + (", proven optimal" if self.makespan <= self.bound else "")


class _Elite(NamedTuple):
    makespan: float
    order: Ints  # (num_tasks,)
    start: Floats  # (num_tasks,)


def search_orders(shop: Shop, starts: Sequence[Ints], *, seed: int = 0, limit: Limit | None = None) -> Found:
    """Search from the best of these linear orders of all tasks; the others join by relinking.

    ``limit.effort`` counts moves. The same seed and effort give the same order.
    """
    runs = _Runs(shop, seed, limit or Limit())
    waiting = sorted((runs.judged(order) for order in starts), key=lambda elite: elite.makespan)
    best = waiting[0]
    elites: list[_Elite] = []
    rng = np.random.default_rng(seed)
    while not runs.is_over:
        order = waiting.pop(0).order if waiting else _between(elites, rng)
        child = runs.run(order)
        best = min(best, child, key=lambda elite: elite.makespan)
        _admit(elites, child)
    return Found(best.order, best.start, best.makespan, min(runs.bound, best.makespan), runs.spent)


class _Runs:
    """Runs of the kernel on one shop under one limit."""

    def __init__(self, shop: Shop, seed: int, limit: Limit) -> None:
        self.shop, self.limit = shop, limit
        self.bound = one_machine_bound(shop)
        self.walk = new_walk(shop, seed, self.bound)
        self.most = limit.effort or (EFFORT if limit.budget is None else None)
        self.chunk = max(64, CHUNK // max(1, len(shop.run)))
        self.spent = 0
        self.is_optimal = False

    @property
    def is_over(self) -> bool:
        """Whether the limit is reached or nothing is left to gain."""
        if self.is_optimal or not self.walk.values[BEST] > self.bound:
            return True
        return self.limit.left() <= 0 or (self.most is not None and self.spent >= self.most)

    def judged(self, order: Ints) -> _Elite:
        """The left-shifted schedule of an order; the walk stands there."""
        begin(self.shop, self.walk, order)
        return _Elite(float(self.walk.values[MAKESPAN]), order, self.walk.head.copy())

    def run(self, order: Ints) -> _Elite:
        """Search from an order until patience or the limit ends."""
        begin(self.shop, self.walk, order)
        status = MOVED
        while status == MOVED and self.walk.counts[SINCE] < PATIENCE and not self.is_over:
            most = self.chunk if self.most is None else min(self.chunk, self.most - self.spent)
            before = int(self.walk.counts[ITERATION])
            status = search(self.shop, self.walk, most, PATIENCE, TO_ENDS)
            self.spent += max(1, int(self.walk.counts[ITERATION]) - before)
        if status == OPTIMAL:
            self.is_optimal = True
            self.bound = float(self.walk.values[BEST])
        return self.judged(self.walk.best.copy())


def _between(elites: list[_Elite], rng: np.random.Generator) -> Ints:
    """Sort by a mix of the starts in two schedules.

    Both respect the precedence, so every mix of them does; ties go by the first order.
    """
    if len(elites) == 1:
        return elites[0].order
    one, other = (elites[k] for k in rng.choice(len(elites), 2, replace=False))
    share = rng.uniform(0.3, 0.7)
    order: Ints = one.order[
        np.argsort((1.0 - share) * one.start[one.order] + share * other.start[one.order], kind="stable")
    ]
    return order


def _admit(elites: list[_Elite], child: _Elite) -> None:
    """Keep the child unless it is a near copy; beyond ``ELITES`` the worst goes."""
    for elite in elites:
        if elite.makespan == child.makespan and (elite.start == child.start).mean() > 0.9:
            return
    elites.append(child)
    if len(elites) > ELITES:
        elites.pop(max(range(len(elites)), key=lambda k: elites[k].makespan))


# -- from problems to shops and back ------------------------------------------------------------------


def refuse_open_devices(problem: Problem) -> str | None:
    """The reason why not every task has one device that it uses alone, or None."""
    count, device = _places(problem)
    several = np.flatnonzero(count > 1)
    if len(several):
        task = int(several[0])
        return f"task {problem.task_name(task)!r} may run on {count[task]} devices, it needs exactly one per task"
    shared = np.flatnonzero(problem.cluster.slots[device] > 1)
    if len(shared):
        name = problem.cluster.device_names[device[shared[0]]]
        return f"device {name!r} runs several tasks at once, it needs devices with one slot"
    batches = np.flatnonzero(problem.cluster.class_column("batch")[problem.cluster.device_class[device]] > 1)
    if len(batches):
        name = problem.cluster.device_names[device[batches[0]]]
        return f"device {name!r} runs batches, it needs devices with one task at a time"
    return None


def _places(problem: Problem) -> tuple[Ints, Ints]:
    """How many devices each task may use, and the first of them."""
    cluster = problem.cluster
    is_limited = problem.eligible.size > 0
    allowed = problem.eligible if is_limited else np.ones((1, cluster.num_devices), np.bool_)
    row = problem.job_of if is_limited else np.zeros(problem.num_tasks, np.int32)
    per_class = np.zeros((len(allowed), cluster.num_classes), np.int64)
    first = np.zeros_like(per_class)
    for c in np.unique(cluster.device_class).tolist():
        members = np.flatnonzero(cluster.device_class == c)
        per_class[:, c] = allowed[:, members].sum(axis=1)
        first[:, c] = members[allowed[:, members].argmax(axis=1)]
    count = np.isfinite(problem.run_times) * per_class[row]
    return count.sum(axis=1), first[row, (count > 0).argmax(axis=1)]


def compile_shop(problem: Problem) -> tuple[Shop, Ints]:
    """The arrays of a supported problem, and the device of every task."""
    a = compile_problem(problem)
    _, device = _places(problem)
    tasks = np.arange(problem.num_tasks)
    source = np.repeat(tasks, np.diff(a.succ_ptr))
    target = np.repeat(tasks, np.diff(a.pred_ptr))
    shop = Shop(
        run=a.run[tasks, a.device_class[device]],
        release=a.release,
        machine=np.unique(device, return_inverse=True)[1].astype(np.int64),
        order=a.order,
        pred_ptr=a.pred_ptr,
        pred=a.pred,
        pred_lag=_lags(a, device[a.pred], device[target], a.pred_data),
        succ_ptr=a.succ_ptr,
        succ=a.succ,
        succ_lag=_lags(a, device[source], device[a.succ], a.succ_data),
    )
    return shop, device


def _lags(a: Arrays, source: Ints, target: Ints, data: Floats) -> Floats:
    """Transfer time from one device to another."""
    g, h = a.group[source], a.group[target]
    return np.where(source == target, 0.0, a.latency[g, h] + data * a.inverse[g, h])


def _work_after(shop: Shop) -> Floats:
    """Longest way from the finish of each task to the end, over the precedence alone."""
    nothing = np.zeros(len(shop.run))
    way: Floats = longest_paths(
        shop.order[::-1].copy(), shop.succ_ptr, shop.succ, shop.succ_lag, shop.run, nothing
    )
    return way


def dispatch_orders(shop: Shop) -> list[Ints]:
    """Two non-delay schedules: most work remaining, and least share of the work remaining, first."""
    remaining = shop.run + _work_after(shop)
    share = shop.run / np.where(remaining > 0, remaining, 1.0)
    return [dispatch(shop, -remaining), dispatch(shop, share)]


def one_machine_bound(shop: Shop) -> float:
    """No last finish is earlier: per device, its first possible start, its work, what must follow."""
    if not len(shop.run):
        return 0.0
    after = _work_after(shop)
    head = longest_paths(shop.order, shop.pred_ptr, shop.pred, shop.pred_lag, shop.run, shop.release)
    num_machines = int(shop.machine.max()) + 1
    first, last = np.full(num_machines, np.inf), np.full(num_machines, np.inf)
    np.minimum.at(first, shop.machine, head)
    np.minimum.at(last, shop.machine, after)
    load = np.bincount(shop.machine, shop.run, num_machines)
    return float(max((first + load + last).max(), (head + shop.run + after).max()))


def order_of(problem: Problem, schedule: Schedule) -> Ints:
    """All tasks in the order of their starts; of copies the first counts."""
    rows = np.flatnonzero((schedule.device >= 0) & (schedule.outcome == DONE))[::-1]
    start, finish = np.full((2, problem.num_tasks), np.nan)
    start[schedule.task[rows]] = schedule.start[rows]
    finish[schedule.task[rows]] = schedule.finish[rows]
    missing = np.flatnonzero(np.isnan(start))
    if len(missing):
        name = problem.task_name(int(missing[0]))
        raise InputError(f"expected a start for every task, got none for {name!r}", field="start")
    a = compile_problem(problem)
    place = np.empty(problem.num_tasks)
    place[a.order] = np.arange(problem.num_tasks)
    priority = np.empty(problem.num_tasks)
    priority[np.lexsort((place, finish, start))] = -np.arange(problem.num_tasks)
    order: Ints = list_order(a, priority)
    return order


def schedule_of(problem: Problem, shop: Shop, device: Ints, found: Found) -> Schedule:
    """The left-shifted schedule of what was found, with its bound."""
    first = min(job.release for job in problem.jobs)
    return Schedule(
        problem,
        np.arange(problem.num_tasks, dtype=np.int32),
        device.astype(np.int32),
        found.start,
        found.start + shop.run,
        lower_bounds=(Bound(found.bound - first, "one-machine"),) if problem.num_tasks else (),
    )
