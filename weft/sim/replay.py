"""A plan carried out by the event kernel: its devices and orders are kept, its times are not.

The tie between the kernels: without noise, a plan in which nothing can start earlier comes back as
it was.
"""

from __future__ import annotations

import numpy as np

from weft.errors import InputError
from weft.model.graph import Ints
from weft.model.problem import Realisation, expected
from weft.model.schedule import DONE, Schedule
from weft.sim.arrays import Arrays, compile_problem
from weft.sim.jit import announce
from weft.sim.jit import lean_kernel as kernel
from weft.sim.task_layout import compile_tasks, facts_of, new_task_state, schedule_of
from weft.sim.task_moves import reserve
from weft.sim.task_time import advance
from weft.sim.tasks import SLACK, Facts, Tasks, TaskState


@kernel
def reserve_all(w: Tasks, s: TaskState, b: int, task: Ints, device: Ints) -> None:
    """Reserve these tasks for these devices, in this order on every device."""
    for k in range(len(task)):
        reserve(w, s, b, task[k], device[k], float(k))


@kernel
def run_reserved(w: Tasks, f: Facts, s: TaskState, b: int) -> None:
    """Let what is reserved run to the end; nothing else starts."""
    is_over = False
    while not is_over:
        is_over = advance(w, f, s, b)


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
        a = compile_problem(problem)
        follows[tied] = [_could_start_earlier(plan, a, row) for row in tied.tolist()]
    return np.lexsort((depth[plan.task], plan.finish, follows, takes_time, plan.start)).astype(np.int64)


def _tied_rows(plan: Schedule) -> Ints:
    """Rows that take time and start on one device at the same time as another."""
    order = np.lexsort((plan.start, plan.device))
    same = (np.diff(plan.start[order]) == 0) & (np.diff(plan.device[order]) == 0)
    is_tied = np.zeros(len(plan), np.bool_)
    is_tied[order[:-1][same]] = True
    is_tied[order[1:][same]] = True
    return np.flatnonzero(is_tied & (plan.finish > plan.start)).astype(np.int64)


def _could_start_earlier(plan: Schedule, a: Arrays, row: int) -> bool:
    """Whether data and room were there before a row started, so that it waited for its turn alone."""
    i, p, time = plan.task[row], plan.device[row], plan.start[row]
    if a.release[i] >= time:
        return False
    for e in range(a.pred_ptr[i], a.pred_ptr[i + 1]):
        rows = plan.task == a.pred[e]
        group, there = a.group[plan.device[rows]], plan.finish[rows]
        travel = a.latency[group, a.group[p]] + a.pred_data[e] * a.inverse[group, a.group[p]]
        arrivals = there + np.where(plan.device[rows] == p, 0.0, travel)
        if len(arrivals) and arrivals.min() >= time:  # what is planned again has rows of what is left alone
            return False
    before = (plan.device == p) & (plan.start < time) & (plan.finish >= time)
    used = a.demand[plan.task[before]].sum(axis=0) + a.demand[i]
    return bool((used <= a.capacity[p] * (1.0 + SLACK)).all())


def _covered_tasks(plan: Schedule) -> Ints:
    """Tasks that take no time and lie within another row of a device of one slot.

    Timelines let later rows cover them, so they need no room.
    """
    longest = np.zeros(plan.problem.num_tasks)
    np.maximum.at(longest, plan.task, plan.finish - plan.start)
    is_unary = plan.problem.cluster.slots[plan.device] == 1
    rows = np.flatnonzero(is_unary & (longest[plan.task] == 0.0)).tolist()
    return np.array([plan.task[row] for row in rows if _is_covered(plan, row)], np.int64)


def _is_covered(plan: Schedule, row: int) -> bool:
    time = plan.start[row]
    return bool(((plan.device == plan.device[row]) & (plan.start < time) & (plan.finish > time)).any())


def replayed(plan: Schedule, world: Realisation | None = None) -> Schedule:
    """The plan carried out with the run times that happen; None: those it was made with."""
    if (plan.device < 0).any() or (plan.outcome != DONE).any() or (plan.batch >= 0).any():
        raise InputError("expected a plan: every row done, on a device, in no batch")
    announce()
    problem = plan.problem
    w = compile_tasks([problem])
    w.demand[_covered_tasks(plan)] = 0.0
    f = facts_of([world or expected(problem)], w)
    s = new_task_state(w, max(0, len(plan) - problem.num_tasks))
    order = plan_order(plan)
    reserve_all(w, s, 0, plan.task[order].astype(np.int64), plan.device[order].astype(np.int64))
    run_reserved(w, f, s, 0)
    found = schedule_of(problem, world, w, s)
    if len(found) < len(plan):
        raise InputError("the plan does not end: some row waits for one behind it on its device")
    return found
