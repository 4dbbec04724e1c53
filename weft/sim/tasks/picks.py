"""What a policy that picks the next task sees of the task view; DEFT places what it picks (``deft.py``).

Of every task there are fixed features, relative to the mean run time of its job, so that they can be embedded once
per job. Of the jobs in the system, of the ready tasks and of the whole there are features of the moment, in units of
the mean run time of all tasks of the jobs in the system. Everything is expected, nothing is realised.

A policy of one style uses some of the columns; the kernel writes all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import Problem
from weft.sim.arrays import Arrays, compile_problem
from weft.sim.jit import lean_inlined, lean_kernel
from weft.sim.tasks.clock import is_due, next_time, pass_events
from weft.sim.tasks.deft import is_on, place
from weft.sim.tasks.ranks import rank_of
from weft.sim.tasks.state import (
    DONE,
    NUM_DONE,
    NUM_EXPIRED,
    READY,
    STARTED,
    UNRELEASED,
    Facts,
    Tasks,
    TaskState,
)
from weft.sim.timeline.list_planning import downward_rank

Floats32 = npt.NDArray[np.float32]

FEATURE_VERSION = "picks/1"
NODE = (
    "mean run time",
    "children",
    "shortest run time over the mean",
    "longest run time over the shortest",
    "data in",
    "data out",
    "upward rank over the job's",
    "downward rank over the job's",
    "parents",
)
"""Of every task, fixed. Times and counts as log(1 + x), ratios of run times as logarithms, shares as they are."""
JOB = (
    "tasks left",
    "mean run time of the job",
    "tasks under way per device",
    "work left",
    "age",
    "share of the tasks left",
)
"""Of every job in the system. Left is what was not picked yet."""
PICK = ("mean run time", "a device with room holds some of its data", "upward rank", "time to fetch its data")
"""Of every ready task."""
WORLD = ("ready tasks", "share of devices with room", "jobs in the system")
MOST = 8.0
"""No feature is larger."""


class Style(NamedTuple):
    """Which columns a policy sees, and how it sums up tasks and jobs."""

    node: tuple[int, ...]
    job: tuple[int, ...]
    pick: tuple[int, ...]
    is_mean: bool
    """Whether embeddings are pooled as means; else as sums."""


STYLES = {
    "decima": Style((0, 1), (0, 1, 2), (0, 1), False),
    "lachesis": Style(tuple(range(len(NODE))), tuple(range(len(JOB))), tuple(range(len(PICK))), True),
}
"""By name: run times and the shape of the graph alone; or with what unequal devices and links make of them."""


class PickKnown(NamedTuple):
    """What is known of tasks beforehand."""

    mean: Floats  # (num_tasks,) mean run time
    rank: Floats  # (num_tasks,) upward rank
    fetch: Floats  # (num_tasks,) mean time to bring all its data to another device
    pooled: Floats32  # (num_tasks, width) what the policy sums up of tasks that are left


class Seen(NamedTuple):
    """Jobs in the system and ready tasks of some environments, one after the other; written in place."""

    job_ptr: Ints  # (num_seen + 1,) rows of jobs of every environment
    task_ptr: Ints  # (num_seen + 1,) rows of ready tasks
    job: Ints  # (max_jobs,)
    left: Ints  # (max_jobs,) tasks that were not picked yet
    jobs: Floats32  # (max_jobs, len(JOB))
    pooled: Floats32  # (max_jobs, width) sum over the tasks left
    row_of: Ints  # (max_jobs,) row of a job, by its number
    task: Ints  # (max_tasks,) in the order of their numbers
    task_job: Ints  # (max_tasks,) row of its job
    picks: Floats32  # (max_tasks, len(PICK))
    world: Floats32  # (num_seen, len(WORLD))


def new_seen(num_envs: int, num_jobs: int, num_tasks: int, width: int) -> Seen:
    """Buffers for environments with so many jobs and tasks in all."""
    return Seen(
        np.zeros(num_envs + 1, np.int64),
        np.zeros(num_envs + 1, np.int64),
        np.zeros(num_jobs, np.int64),
        np.zeros(num_jobs, np.int64),
        np.zeros((num_jobs, len(JOB)), np.float32),
        np.zeros((num_jobs, width), np.float32),
        np.zeros(num_jobs, np.int64),
        np.zeros(num_tasks, np.int64),
        np.zeros(num_tasks, np.int64),
        np.zeros((num_tasks, len(PICK)), np.float32),
        np.zeros((num_envs, len(WORLD)), np.float32),
    )


def fetch_times(a: Arrays) -> Floats:
    """Mean time to bring all data of every task to another device."""
    times = np.where(a.pred_data > 0, a.mean_latency + a.pred_data * a.mean_inverse, 0.0)
    return _per_row(times, a.pred_ptr)


def node_features(problem: Problem) -> Floats32:
    """Fixed features (num_tasks, len(NODE)), each job by itself."""
    a, mean = compile_problem(problem), np.asarray(problem.mean_run_times)
    unit = _job_means(problem)
    rank, present = rank_of(problem), problem.device_counts > 0
    most = np.zeros(len(problem.jobs))
    np.maximum.at(most, problem.job_of, rank)
    most = np.maximum(most, 1e-300)[problem.job_of]
    run = problem.run_times[:, present]
    least, longest = run.min(axis=1), np.where(np.isfinite(run), run, 0.0).max(axis=1)
    out = np.where(a.succ_data > 0, a.mean_latency + a.succ_data * a.mean_inverse, 0.0)
    columns = (
        _log1p(mean / unit),
        _log1p(np.diff(a.succ_ptr).astype(np.float64)),
        _log_ratio(least, mean),
        _log_ratio(longest, least),
        _log1p(fetch_times(a) / unit),
        _log1p(_per_row(out, a.succ_ptr) / unit),
        rank / most,
        downward_rank(a, mean.copy()) / most,
        _log1p(np.diff(a.pred_ptr).astype(np.float64)),
    )
    return np.stack(columns, axis=1).astype(np.float32)


def known_of(problems: Sequence[Problem], pooled: Floats32) -> PickKnown:
    """What is known of the tasks of problems side by side."""
    return PickKnown(
        np.concatenate([problem.mean_run_times for problem in problems]),
        np.concatenate([rank_of(problem) for problem in problems]),
        np.concatenate([fetch_times(compile_problem(problem)) for problem in problems]),
        pooled,
    )


def _job_means(problem: Problem) -> Floats:
    """Mean run time over the tasks of its job, for every task."""
    count = np.maximum(np.bincount(problem.job_of, minlength=len(problem.jobs)), 1)
    total = np.bincount(problem.job_of, np.asarray(problem.mean_run_times), minlength=len(problem.jobs))
    return np.asarray(np.maximum(total / count, 1e-300)[problem.job_of], np.float64)


def _per_row(values: Floats, pointer: Ints) -> Floats:
    """Sums of the values of every row of a CSR table."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(total[pointer[1:]] - total[pointer[:-1]], np.float64)


def _log1p(x: Floats) -> Floats:
    return np.minimum(np.log1p(np.maximum(x, 0.0)), MOST)


def _log_ratio(x: Floats, y: Floats) -> Floats:
    both = (x > 0) & (y > 0)
    return np.clip(np.log(np.where(both, x, 1.0) / np.where(both, y, 1.0)), -MOST, MOST)


@lean_inlined
def _log(x: float) -> float:
    return min(np.log1p(max(x, 0.0)), MOST)


@lean_inlined
def _is_left(s: TaskState, i: int) -> bool:
    """Whether a task of a job in the system was neither picked nor skipped."""
    return s.status[i] == UNRELEASED or (s.status[i] == READY and s.place[i] >= 0)


@lean_inlined
def _is_in_system(w: Tasks, s: TaskState, j: int) -> bool:
    """Whether a job has arrived and is not over: its tasks without parents are released."""
    if s.job_open[j] == 0 or s.is_expired[j]:
        return False
    for i in range(w.job_task_ptr[j], w.job_task_ptr[j + 1]):
        if w.num_in[i] == 0:
            return s.status[i] != UNRELEASED
    return False


@lean_inlined
def _see_jobs(known: PickKnown, w: Tasks, s: TaskState, b: int, at: int, out: Seen) -> tuple[int, float]:
    """Write the jobs of an environment from row ``at`` on, times as they are; returns the next row and the unit."""
    total, count = 0.0, 0.0
    for j in range(w.job_ptr[b], w.job_ptr[b + 1]):
        if not _is_in_system(w, s, j):
            continue
        left, under_way, work, mean = np.int64(0), 0.0, 0.0, 0.0
        out.pooled[at] = 0.0
        for i in range(w.job_task_ptr[j], w.job_task_ptr[j + 1]):
            mean += known.mean[i]
            if _is_left(s, i):
                left += 1
                work += known.mean[i]
                for k in range(known.pooled.shape[1]):
                    out.pooled[at, k] += known.pooled[i, k]
            elif s.status[i] == READY or s.status[i] == STARTED:
                under_way += 1.0
        size = np.float64(w.job_task_ptr[j + 1] - w.job_task_ptr[j])
        total, count = total + mean, count + size
        out.job[at], out.left[at], out.row_of[j] = j, left, at
        out.jobs[at, 0] = _log(np.float64(left))
        out.jobs[at, 1] = mean / size
        out.jobs[at, 2] = _log(under_way / (w.device_ptr[b + 1] - w.device_ptr[b]))
        out.jobs[at, 3], out.jobs[at, 4] = work, s.now[b] - w.job_release[j]
        out.jobs[at, 5] = left / size
        at += 1
    return at, max(total / max(count, 1.0), 1e-300)


@lean_inlined
def _is_near(w: Tasks, f: Facts, s: TaskState, i: int) -> bool:
    """Whether a device with room holds some of the data of task i."""
    for e in range(w.pred_ptr[i], w.pred_ptr[i + 1]):
        k = w.pred[e]
        if s.status[k] == DONE and f.taken[w.pred_edge[e]]:
            row = s.first_row[k]
            while row >= 0:
                p = s.row_device[row]
                if s.has_room[p] and is_on(s, k, p):
                    return True
                row = s.next_row[row]
    return False


@lean_inlined
def _see_ready(
    known: PickKnown, w: Tasks, f: Facts, s: TaskState, b: int, at: int, unit: float, out: Seen
) -> int:
    """Write the ready tasks of an environment from row ``at`` on; returns the next row."""
    first = at
    for k in range(w.task_ptr[b], w.task_ptr[b] + s.num_ready[b]):
        place_at, i = at, s.ready[k]
        while place_at > first and out.task[place_at - 1] > i:
            out.task[place_at] = out.task[place_at - 1]
            place_at -= 1
        out.task[place_at] = i
        at += 1
    for k in range(first, at):
        i = out.task[k]
        out.task_job[k] = out.row_of[w.job[i]]
        out.picks[k, 0] = _log(known.mean[i] / unit)
        out.picks[k, 1] = 1.0 if _is_near(w, f, s, i) else 0.0
        out.picks[k, 2] = _log(known.rank[i] / unit)
        out.picks[k, 3] = _log(known.fetch[i] / unit)
    return at


@lean_kernel
def see(known: PickKnown, w: Tasks, f: Facts, s: TaskState, envs: Ints, out: Seen) -> None:
    """Write what there is to see in each of these environments."""
    jobs, tasks = np.int64(0), np.int64(0)
    for e in range(len(envs)):
        b = envs[e]
        first = jobs
        out.job_ptr[e], out.task_ptr[e] = jobs, tasks
        jobs, unit = _see_jobs(known, w, s, b, jobs, out)
        for k in range(first, jobs):
            ratio = out.jobs[k, 1] / unit
            out.jobs[k, 1] = max(-MOST, min(np.log(ratio), MOST)) if ratio > 0.0 else -MOST
            out.jobs[k, 3] = _log(out.jobs[k, 3] / unit)
            out.jobs[k, 4] = _log(out.jobs[k, 4] / unit)
        tasks = _see_ready(known, w, f, s, b, tasks, unit, out)
        devices = np.float64(w.device_ptr[b + 1] - w.device_ptr[b])
        out.world[e, 0] = _log(np.float64(s.num_ready[b]))
        out.world[e, 1] = s.num_free[b] / devices
        out.world[e, 2] = _log(np.float64(jobs - first))
    out.job_ptr[len(envs)], out.task_ptr[len(envs)] = jobs, tasks


@lean_kernel
def pick_all(
    w: Tasks, f: Facts, s: TaskState, envs: Ints, chosen: Ints, copies: Bools, cost: Floats, is_over: Bools
) -> None:
    """Place a task in each of these environments, then let time pass until there is a choice again.

    ``chosen`` has a task for each, -1: none yet, only time passes. ``cost`` is (num_envs, 2): the time that jobs
    spent in the system meanwhile, and the time that passed.
    """
    for e in range(len(envs)):
        b = envs[e]
        if chosen[e] >= 0:
            place(w, f, s, b, chosen[e], copies[b])
        cost[e, 0], cost[e, 1], is_over[e] = 0.0, 0.0, False
        while not (is_due(s, b) and next_time(w, s, b) > s.now[b]):
            if s.overflow[b] or next_time(w, s, b) == np.inf:
                is_over[e] = True
                break
            before = s.now[b]
            jobs = s.next_job[b] - s.count[b, NUM_DONE] - s.count[b, NUM_EXPIRED]
            pass_events(w, f, s, b)
            cost[e, 0] += jobs * (s.now[b] - before)
            cost[e, 1] += (s.now[b] - before) if jobs > 0 else 0.0
