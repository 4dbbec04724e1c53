"""List planners: an order of the tasks, then a device for each by earliest finish.

HEFT and CPOP: Topcuoglu, Hariri, Wu (2002). PEFT: Arabnejad, Barbosa (2014). Lookahead:
Bittencourt, Sakellariou, Madeira (2010). DEFT: the placement rule of Luo et al. (2021).
"""

from __future__ import annotations

import numpy as np

from weft.model.graph import Floats, Ints
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.schedulers.base import Limit, refuse_unplannable
from weft.sim.arrays import Arrays, compile_problem
from weft.sim.timeline.committed import Beside, put_beside
from weft.sim.timeline.list_planning import (
    best_perturbed,
    downward_rank,
    list_order,
    optimistic_cost,
    place_all,
    queue_order,
    upward_rank,
)
from weft.sim.timeline.lookahead import place_lookahead
from weft.sim.timeline.min_min import place_min_min
from weft.sim.timeline.timelines import Timeline, clear, new_timeline, rows_of

NO_BIAS = np.zeros((0, 0))
NOBODY = np.zeros(0, np.int64)


class ListPlanner:
    """What the planners here share; a subclass fills ``place``."""

    name = ""
    makes_copies = False
    plans_beside = True
    """Whether it can plan a job around what others have committed and what of it has started."""

    def supports(self, problem: Problem) -> str | None:
        if self.makes_copies and not problem.objective.copies:
            return "it runs copies of tasks, and the objective forbids copies"
        return refuse_unplannable(problem)

    def plan(self, problem: Problem, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
        """Build the schedule."""
        a = compile_problem(problem)
        t = new_timeline(a, self.extra_rows(a))
        if problem.num_tasks:
            t = self.place(problem, a, t, seed, limit or Limit()) or t
        return Schedule(problem, **rows_of(t))

    def plan_beside(self, problem: Problem, beside: Beside, *, seed: int = 0) -> Schedule:
        """The same around what is committed; rows that are fixed are not part of the schedule."""
        a = compile_problem(problem)
        fixed = len(beside.fixed_task)
        t = new_timeline(a, self.extra_rows(a) + fixed + len(beside.device))
        put_beside(a, t, beside)
        t = self.place(problem, a, t, seed, Limit()) or t
        return Schedule(problem, **{key: column[fixed:] for key, column in rows_of(t).items()})

    def extra_rows(self, a: Arrays) -> int:
        """Rows beyond one per task."""
        return len(a.release) if self.makes_copies else 0

    def place(self, problem: Problem, a: Arrays, t: Timeline, seed: int, limit: Limit) -> Timeline | None:
        """Fill the timelines, or return others that are filled."""
        raise TypeError(f"{type(self).__name__} does not place")


def heft_rank(problem: Problem, a: Arrays) -> Floats:
    """Upward rank on mean run times."""
    rank: Floats = upward_rank(a, problem.mean_run_times)
    return rank


class Heft(ListPlanner):
    """Heterogeneous earliest finish time: upward rank, insertion."""

    name = "heft"
    insert = True

    def place(self, problem: Problem, a: Arrays, t: Timeline, seed: int, limit: Limit) -> None:
        place_all(a, t, list_order(a, heft_rank(problem, a)), NOBODY, NO_BIAS, self.insert, self.makes_copies)


class HeftAppend(Heft):
    """HEFT that only appends: what insertion is worth."""

    name = "heft-append"
    insert = False


class Deft(Heft):
    """HEFT order; each step may copy the parent whose data would come last."""

    name = "deft"
    makes_copies = True


class FifoDeft(ListPlanner):
    """Tasks in the order in which they become ready, placed with duplication."""

    name = "fifo-deft"
    makes_copies = True

    def place(self, problem: Problem, a: Arrays, t: Timeline, seed: int, limit: Limit) -> None:
        queue = queue_order(a)
        by_arrival = queue[np.lexsort((np.arange(len(queue)), a.job[queue], a.release[queue]))]
        place_all(a, t, by_arrival, NOBODY, NO_BIAS, True, True)


class Cpop(ListPlanner):
    """Critical path on a processor: the whole critical path goes to its best device."""

    name = "cpop"

    def place(self, problem: Problem, a: Arrays, t: Timeline, seed: int, limit: Limit) -> None:
        up = heft_rank(problem, a)
        priority = up + downward_rank(a, problem.mean_run_times)
        forced = np.full(len(up), -1, np.int64)
        path = critical_tasks(a, priority)
        device = _path_device(problem, a, path)
        if device >= 0:
            forced[path] = device
        place_all(a, t, list_order(a, priority), forced, NO_BIAS, True, False)


def critical_tasks(a: Arrays, priority: Floats) -> list[int]:
    """Tasks along one path of greatest priority, from an entry to an exit."""
    entries = np.flatnonzero(np.diff(a.pred_ptr) == 0)
    at = int(entries[np.argmax(priority[entries])])
    length = priority[at]
    path = [at]
    while a.succ_ptr[at + 1] > a.succ_ptr[at]:
        children = a.succ[a.succ_ptr[at] : a.succ_ptr[at + 1]]
        on_path = np.flatnonzero(np.abs(priority[children] - length) <= 1e-6 * abs(length))
        if not len(on_path):
            break
        at = int(children[on_path[0]])
        path.append(at)
    return path


def _path_device(problem: Problem, a: Arrays, path: list[int]) -> int:
    """The device on which the path is shortest; -1 if none can run all of it."""
    per_class = a.run[path].sum(axis=0)
    per_device = per_class[a.device_class]
    if a.allowed.size:
        per_device = np.where(a.allowed[np.unique(a.job[path])].all(axis=0), per_device, np.inf)
    device = int(np.argmin(per_device))
    return device if np.isfinite(per_device[device]) else -1


class Peft(ListPlanner):
    """Predict earliest finish time: an optimistic cost table looks ahead to the exit."""

    name = "peft"

    def place(self, problem: Problem, a: Arrays, t: Timeline, seed: int, limit: Limit) -> None:
        table = optimistic_cost(a)
        weight = np.isfinite(a.run) * a.class_count
        bounded = np.where(np.isfinite(table), table, 0.0)
        rank = (bounded * weight).sum(axis=1) / weight.sum(axis=1)
        place_all(a, t, list_order(a, rank), NOBODY, bounded, True, False)


class Lookahead(ListPlanner):
    """HEFT that judges a device by where it leaves the children."""

    name = "lookahead"

    def extra_rows(self, a: Arrays) -> int:
        widest = int(np.diff(a.succ_ptr).max(initial=0)) + 1
        return widest * len(a.device_class)

    def place(self, problem: Problem, a: Arrays, t: Timeline, seed: int, limit: Limit) -> None:
        rank = heft_rank(problem, a)
        order = list_order(a, rank)
        position = np.empty(len(order), np.int64)
        position[order] = np.arange(len(order))
        parent = np.repeat(np.arange(len(order)), np.diff(a.succ_ptr))
        children = a.succ[np.lexsort((position[a.succ], parent))]
        place_lookahead(a, t, order, children)


class MinMin(ListPlanner):
    """Always the ready task that can finish first."""

    name = "min-min"
    plans_beside = False

    def place(self, problem: Problem, a: Arrays, t: Timeline, seed: int, limit: Limit) -> None:
        place_min_min(a, t)


class Random(ListPlanner):
    """A random order and random devices."""

    name = "random"

    def place(self, problem: Problem, a: Arrays, t: Timeline, seed: int, limit: Limit) -> None:
        rng = np.random.default_rng(seed)
        order = list_order(a, rng.random(len(a.release)))
        place_all(a, t, order, random_devices(a, rng), NO_BIAS, True, False)


def random_devices(a: Arrays, rng: np.random.Generator) -> Ints:
    """One device per task, uniform over those it may use."""
    devices = np.empty(len(a.release), np.int64)
    draw = rng.random(len(a.release))
    for i in range(len(a.release)):
        can = np.isfinite(a.run[i])[a.device_class]
        if a.allowed.size:
            can = can & a.allowed[a.job[i]]
        choices = np.flatnonzero(can)
        devices[i] = choices[int(draw[i] * len(choices))]
    return devices


class Perturbed(ListPlanner):
    """Best of many HEFTs whose ranks are multiplied by noise; the first has none."""

    name = "perturbed"
    plans_beside = False
    effort = 200
    spreads = (0.05, 0.1, 0.2, 0.4)
    chunk = 8

    def place(self, problem: Problem, a: Arrays, t: Timeline, seed: int, limit: Limit) -> None:
        rank = heft_rank(problem, a)
        rng = np.random.default_rng(seed)
        best, best_rank = np.array([np.inf]), rank.copy()
        tried = 0
        effort = limit.effort or (self.effort if limit.is_repeatable else 1 << 62)
        while tried < effort and (tried == 0 or limit.left() > 0):
            size = min(self.chunk, effort - tried)
            spread = np.resize(np.array(self.spreads), size)[:, None]
            noise = np.exp(spread * rng.standard_normal((size, len(rank))))
            if tried == 0:
                noise[0] = 1.0
            best_perturbed(a, t, rank, noise, NO_BIAS, best, best_rank)
            tried += size
        clear(a.is_unary, t)
        place_all(a, t, list_order(a, best_rank), NOBODY, NO_BIAS, True, False)
