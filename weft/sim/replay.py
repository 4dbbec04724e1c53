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
from weft.sim.jit import announce, kernel
from weft.sim.task_layout import compile_tasks, facts_of, new_task_state, schedule_of
from weft.sim.task_moves import reserve
from weft.sim.task_time import advance
from weft.sim.tasks import Facts, Tasks, TaskState


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
    """Rows by start, then finish, then depth: what a row waits for comes before it."""
    problem = plan.problem
    depth = np.zeros(problem.num_tasks, np.int64)
    for job, base in zip(problem.jobs, problem.offsets.tolist(), strict=False):
        depth[base + job.graph.order] = np.arange(job.graph.num_tasks)
    return np.lexsort((depth[plan.task], plan.finish, plan.start)).astype(np.int64)


def replayed(plan: Schedule, world: Realisation | None = None) -> Schedule:
    """The plan carried out with the run times that happen; None: those it was made with."""
    if (plan.device < 0).any() or (plan.outcome != DONE).any() or (plan.batch >= 0).any():
        raise InputError("expected a plan: every row done, on a device, in no batch")
    announce()
    problem = plan.problem
    w = compile_tasks([problem])
    f = facts_of([world or expected(problem)], w)
    s = new_task_state(w, max(0, len(plan) - problem.num_tasks))
    order = plan_order(plan)
    reserve_all(w, s, 0, plan.task[order].astype(np.int64), plan.device[order].astype(np.int64))
    run_reserved(w, f, s, 0)
    found = schedule_of(problem, world, w, s)
    if len(found) < len(plan):
        raise InputError("the plan does not end: some row waits for one behind it on its device")
    return found
