"""A plan carried out by the event kernel: its devices and orders are kept, its times are not.

Every device has a queue of its rows in the order of their planned starts. A row starts as soon as
the rows before it in the queue have started, its data has arrived and the device has room for it:
what an executor with one queue per device does. So no replay overloads a device, and with the run
times of the plan nothing starts later than planned. A plan in which nothing can start earlier comes
back as it was: the tie between the kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from weft.errors import InputError
from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import Problem, Realisation, expected
from weft.model.schedule import DONE, Schedule
from weft.sim.arrays import Arrays, compile_problem
from weft.sim.jit import lean_kernel as kernel
from weft.sim.tasks.clock import advance, begin
from weft.sim.tasks.layout import compile_tasks, facts_of, new_task_state
from weft.sim.tasks.moves import reserve
from weft.sim.tasks.state import SLACK, Facts, Tasks, TaskState


@kernel
def carry_out(w: Tasks, f: Facts, s: TaskState, b: int, task: Ints, device: Ints, is_light: Bools) -> None:
    """Reserve these tasks for these devices, in this order on every device, and let time pass to the end.

    Row k of the state is the k-th of them. Those that are light need no room.
    """
    begin(w, s, b)
    for k in range(len(task)):
        row = reserve(w, s, b, task[k], device[k], float(k))
        if is_light[k]:
            s.row_finish[row] = -np.inf
    is_over = False
    while not is_over:
        is_over = advance(w, f, s, b)


class Replays:
    """A plan, ready to be carried out with any run times.

    ``order`` (num_rows,) are its rows in the order of all queues together, ``is_light`` (num_rows,) those
    that need no room. Raises an InputError for what is not a plan: rows that failed, batches, launches, branches, elastic tasks,
    one-port links, a task before its parents.
    """

    def __init__(self, plan: Schedule) -> None:
        _refuse_other_than_plans(plan)
        self.plan = plan
        self.order = plan_order(plan)
        _refuse_children_first(plan, self.order)
        self._w = compile_tasks([_without_batches(plan.problem)])
        self._s = new_task_state(self._w, max(0, len(plan) - plan.problem.num_tasks))
        self.is_light = _is_light(plan)
        self._columns = (
            plan.task[self.order].astype(np.int64),
            plan.device[self.order].astype(np.int64),
            self.is_light[self.order],
        )

    def times(self, realisation: Realisation) -> tuple[Floats, Floats]:
        """Starts and finishes of the rows of the plan, (num_rows,) each."""
        _refuse_impossible(self.plan, realisation)
        carry_out(self._w, facts_of([realisation], self._w), self._s, 0, *self._columns)
        start, finish = np.empty(len(self.plan)), np.empty(len(self.plan))
        start[self.order] = self._s.row_start[: len(start)]
        finish[self.order] = self._s.row_finish[: len(start)]
        assert np.isfinite(finish).all(), "a row waits for one behind it"
        return start, finish


def replayed(plan: Schedule, realisation: Realisation | None = None) -> Schedule:
    """The plan carried out with the run times that happen; None: those it was made with."""
    start, finish = Replays(plan).times(realisation or expected(plan.problem))
    return Schedule(plan.problem, plan.task, plan.device, start, finish, plan.copy, realisation=realisation)


def replayed_makespans(plan: Schedule, realisations: Iterable[Realisation]) -> Floats:
    """Makespan of the plan in each of these realisations."""
    replays = Replays(plan)
    first = min(job.release for job in plan.problem.jobs)
    ends = [replays.times(realisation)[1].max(initial=first) for realisation in realisations]
    return np.array(ends, dtype=np.float64) - first


# -- orders -----------------------------------------------------------------------------------------


def plan_order(plan: Schedule) -> Ints:
    """Rows by start. Of rows that start at one time, those that take none come first, then those that
    could not start earlier: the others may have waited for their turn behind them.
    """
    problem = plan.problem
    depth = np.zeros(problem.num_tasks, np.int64)
    for job, base in zip(problem.jobs, problem.offsets.tolist(), strict=False):
        depth[base + job.graph.order] = np.arange(job.graph.num_tasks)
    takes_time = plan.finish > plan.start
    follows = np.zeros(len(plan), np.bool_)
    tied = _tied_rows(plan)
    if len(tied):
        a, rows_of = compile_problem(problem), _Rows(plan)
        follows[tied] = [_could_start_earlier(plan, a, rows_of, row) for row in tied.tolist()]
    return np.lexsort((depth[plan.task], plan.finish, follows, takes_time, plan.start)).astype(np.int64)


class _Rows:
    """Rows of a plan by task and by device."""

    def __init__(self, plan: Schedule) -> None:
        self._by_task = np.argsort(plan.task, kind="stable")
        self._by_device = np.argsort(plan.device, kind="stable")
        self._task_ptr = np.searchsorted(plan.task[self._by_task], np.arange(plan.problem.num_tasks + 1))
        num_devices = plan.problem.cluster.num_devices
        self._device_ptr = np.searchsorted(plan.device[self._by_device], np.arange(num_devices + 1))

    def of_task(self, i: int) -> Ints:
        return self._by_task[self._task_ptr[i] : self._task_ptr[i + 1]]

    def on_device(self, p: int) -> Ints:
        return self._by_device[self._device_ptr[p] : self._device_ptr[p + 1]]


def _tied_rows(plan: Schedule) -> Ints:
    """Rows that take time and start on one device at the same time as another."""
    order = np.lexsort((plan.start, plan.device))
    same = (np.diff(plan.start[order]) == 0) & (np.diff(plan.device[order]) == 0)
    is_tied = np.zeros(len(plan), np.bool_)
    is_tied[order[:-1][same]] = True
    is_tied[order[1:][same]] = True
    return np.flatnonzero(is_tied & (plan.finish > plan.start)).astype(np.int64)


def _could_start_earlier(plan: Schedule, a: Arrays, rows_of: _Rows, row: int) -> bool:
    """Whether data and room were there before a row started, so that it waited for its turn alone."""
    i, p, time = plan.task[row], plan.device[row], plan.start[row]
    if a.release[i] >= time:
        return False
    for e in range(a.pred_ptr[i], a.pred_ptr[i + 1]):
        rows = rows_of.of_task(a.pred[e])
        group, there = a.group[plan.device[rows]], plan.finish[rows]
        travel = a.latency[group, a.group[p]] + a.pred_data[e] * a.inverse[group, a.group[p]]
        arrivals = there + np.where(plan.device[rows] == p, 0.0, travel)
        if len(arrivals) and arrivals.min() >= time:  # what is planned again has rows of what is left alone
            return False
    rows = rows_of.on_device(p)
    before = rows[(plan.start[rows] < time) & (plan.finish[rows] >= time)]
    return _fit(a, plan, before, i, p)


def _fit(a: Arrays, plan: Schedule, rows: Ints, i: int, p: int) -> bool:
    """Whether task i has room on device p beside these rows."""
    used = a.demand[plan.task[rows]].sum(axis=0) + a.demand[i]
    return bool((used <= a.capacity[p] * (1.0 + SLACK)).all())


def _is_light(plan: Schedule) -> Bools:
    """Rows that take no time and lie where their device is full: they need no room.

    Timelines let later rows cover what takes no time.
    """
    is_light = np.zeros(len(plan), np.bool_)
    short = np.flatnonzero(plan.finish <= plan.start).tolist()
    if short:
        a, rows_of = compile_problem(plan.problem), _Rows(plan)
        for row in short:
            p, time = plan.device[row], plan.start[row]
            rows = rows_of.on_device(p)
            around = rows[(plan.start[rows] < time) & (plan.finish[rows] > time)]
            is_light[row] = not _fit(a, plan, around, plan.task[row], p)
    return is_light


# -- what is no plan ---------------------------------------------------------------------------------


def _refuse_other_than_plans(plan: Schedule) -> None:
    for job in plan.problem.jobs:
        if job.graph.is_conditional or job.graph.is_elastic:
            raise InputError(f"job {job.name!r} has branches or elastic tasks: only plans are replayed")
    if plan.problem.cluster.one_port:
        raise InputError("the links take one transfer at a time (one-port): such plans are not replayed")
    if (plan.batch >= 0).any():
        raise InputError("the schedule has batches: such plans are not replayed", field="batch")
    if (plan.launch >= 0).any():
        raise InputError(
            "the schedule has launches: a replay starts every task alone, without the time they save",
            field="launch",
        )
    if (plan.device < 0).any() or (plan.outcome != DONE).any() or plan.attempt.any():
        raise InputError("expected a plan, got a record with tasks that failed or never ran")


def _refuse_children_first(plan: Schedule, order: Ints) -> None:
    """Every row comes after some row of each of its parents."""
    problem = plan.problem
    first = np.full(problem.num_tasks, len(plan), np.int64)
    np.minimum.at(first, plan.task[order], np.arange(len(plan)))
    for job, base in zip(problem.jobs, problem.offsets.tolist(), strict=False):
        sources, targets = job.graph.sources + base, job.graph.targets + base
        is_wrong = (first[sources] >= first[targets]) & (first[targets] < len(plan))
        if is_wrong.any():
            edge = int(np.argmax(is_wrong))
            child, parent = problem.task_name(int(targets[edge])), problem.task_name(int(sources[edge]))
            raise InputError(f"not a valid plan: {child!r} starts before its parent {parent!r}")


def _refuse_impossible(plan: Schedule, realisation: Realisation) -> None:
    durations = realisation.run_times[plan.task, plan.problem.cluster.device_class[plan.device]]
    if not np.isfinite(durations).all():
        placed = plan.placement(int(np.argmin(np.isfinite(durations))))
        raise InputError(f"not a valid plan: {placed.task!r} cannot run on {placed.device}", field="device")


def _without_batches(problem: Problem) -> Problem:
    """Classes that could take batches: the plan has none."""
    if all(device_class.batch == 1 for device_class in problem.cluster.classes):
        return problem
    classes = tuple(replace(device_class, batch=1) for device_class in problem.cluster.classes)
    return problem.replaced(cluster=problem.cluster.replaced(classes=classes))
