"""Instances of pipelines laid out for the task view: who comes before whom, and when what never ran was dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import OVERRUNS, QUEUE, Problem
from weft.model.series import series_of
from weft.sim.tasks.state import SKIPS, Tasks


def refuse_live(problem: Problem) -> str | None:
    """The reason why jobs of this problem cannot be told one by one as they come, or None."""
    for job in problem.jobs:
        if job.in_order or job.overrun != QUEUE:
            return f"job {job.name!r} depends on the instance before it: only problems known as a whole can"
    return None


def turn_columns(problems: Sequence[Problem], job_ptr: Ints, task_ptr: Ints) -> dict[str, Any]:
    """The columns of ``Tasks`` about instances; empty where all queue in any order."""
    nothing = np.zeros(0, np.int64)
    found = {"overrun": nothing, "former": nothing, "waits_for": nothing, "lets_in": nothing}
    jobs = [job for problem in problems for job in problem.jobs]
    known = {id(one): _former(one) for one in dict.fromkeys(problems)}
    own = [known[id(problem)] for problem in problems]
    former = _joined(own, job_ptr)
    if any(job.overrun != QUEUE for job in jobs):
        overrun = np.array([OVERRUNS.index(job.overrun) for job in jobs], np.int64)
        found |= {"overrun": overrun, "former": former}
    if any(job.in_order for job in jobs):
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


def dropped_at(problem: Problem, w: Tasks, jobs: Ints, b: int) -> tuple[Floats, Bools]:
    """When these jobs (n,) of environment b were dropped, and whether that was at their release."""
    is_skipped = np.zeros(len(jobs), np.bool_)
    if len(w.overrun):
        is_skipped = w.overrun[jobs] == SKIPS
    return np.where(is_skipped, w.job_release[jobs], w.job_due[jobs]), is_skipped
