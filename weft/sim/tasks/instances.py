"""Instances of pipelines laid out for the task view: who comes before whom, and when what never ran was dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.model.job import ABORT
from weft.model.problem import OVERRUNS, QUEUE, Problem
from weft.model.series import series_of
from weft.sim.tasks.state import DONE, EXPIRED, SKIPS, Tasks, TaskState


def refuse_live(problem: Problem) -> str | None:
    """The reason why jobs of this problem cannot be told one by one as they come, or None."""
    for job in problem.jobs:
        if job.overrun == ABORT:
            return (
                f"job {job.name!r} is aborted when it is due (overrun), which only problems known as a whole can be; "
                "expected queue or skip"
            )
    return None


def turn_columns(
    problems: Sequence[Problem], job_ptr: Ints, task_ptr: Ints, *, is_open: bool = False
) -> dict[str, Any]:
    """The columns of ``Tasks`` about instances; empty where all queue in any order, unless jobs may be added."""
    nothing = np.zeros(0, np.int64)
    found = {"overrun": nothing, "former": nothing, "waits_for": nothing, "lets_in": nothing}
    jobs = [job for problem in problems for job in problem.jobs]
    known = {id(one): _former(one) for one in dict.fromkeys(problems)}
    own = [known[id(problem)] for problem in problems]
    former = _joined(own, job_ptr)
    if is_open or any(job.overrun != QUEUE for job in jobs):
        overrun = np.array([OVERRUNS.index(job.overrun) for job in jobs], np.int64)
        found |= {"overrun": overrun, "former": former}
    if is_open or any(job.in_order for job in jobs):
        turns = {id(one): _turns(one, known[id(one)]) for one in dict.fromkeys(problems)}
        found["waits_for"], found["lets_in"] = (
            _joined([turns[id(problem)][k] for problem in problems], task_ptr) for k in (0, 1)
        )
    return found


def _joined(parts: Sequence[Ints], first: Ints) -> Ints:
    """Numbers of several problems side by side; -1 stays."""
    pairs = zip(parts, first[:-1].tolist(), strict=True)
    return np.concatenate([np.zeros(0, np.int64), *(np.where(own < 0, -1, own + at) for own, at in pairs)])


def _former(problem: Problem) -> Ints:
    """The instance before every job (num_jobs,), -1: none."""
    former = np.full(len(problem.jobs), -1, np.int64)
    for own in series_of(problem).values():
        former[own[1:]] = own[:-1]
    return former


def _turns(problem: Problem, former: Ints) -> tuple[Ints, Ints]:
    """Of every task (num_tasks,) the one that it waits for, and the one that it lets in."""
    waits_for, lets_in = (np.full(problem.num_tasks, -1, np.int64) for _ in range(2))
    for j, job in enumerate(problem.jobs):
        before = int(former[j])
        if not job.in_order or before < 0:
            continue
        size = min(job.graph.num_tasks, problem.jobs[before].graph.num_tasks)
        own, theirs = (int(problem.offsets[k]) for k in (j, before))
        waits_for[own : own + size] = np.arange(theirs, theirs + size)
        lets_in[theirs : theirs + size] = np.arange(own, own + size)
    return waits_for, lets_in


def last_of_series(series: Sequence[str]) -> dict[str, int]:
    """The last job of every series, given the series of each job."""
    return {name: j for j, name in enumerate(series) if name}


def first_of_series(series: Sequence[str]) -> dict[str, int]:
    """The first job of every series."""
    return {name: j for j, name in reversed([*enumerate(series)]) if name}


def join_series(w: Tasks, s: TaskState, j: int, before: int, *, in_order: bool) -> None:
    """Job j, which is new and first in its columns, follows an instance that was there before."""
    w.former[j] = before
    if not in_order:
        return
    own, theirs = (slice(*w.job_task_ptr[k : k + 2].tolist()) for k in (j, before))
    for i, k in zip(range(own.start, own.stop), range(theirs.start, theirs.stop), strict=False):
        is_through = s.status[k] == DONE or (s.status[k] == EXPIRED and s.is_its_turn[k])
        if not is_through:
            w.waits_for[i], w.lets_in[k] = k, i


def without(former: Ints, is_gone: Bools, is_expired: Bools) -> Ints:
    """The instance before each that stays, where some are gone: of a dropped one that before it, of one that is done none."""
    found = former.copy()
    for j in np.flatnonzero(~is_gone).tolist():
        k = int(found[j])
        while k >= 0 and is_gone[k]:
            k = int(former[k]) if is_expired[k] else -1
        found[j] = k
    return found


def dropped_at(problem: Problem, w: Tasks, jobs: Ints, b: int) -> tuple[Floats, Bools]:
    """When these jobs (n,) of environment b were dropped, and whether that was at their release."""
    is_skipped = np.zeros(len(jobs), np.bool_)
    if len(w.overrun):
        is_skipped = w.overrun[jobs] == SKIPS
    return np.where(is_skipped, w.job_release[jobs], w.job_due[jobs]), is_skipped
