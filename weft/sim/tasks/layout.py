"""Problems laid out for the task view, and its rows turned back into a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.errors import UnsupportedError
from weft.model import schedule as outcomes
from weft.model.bookings import bookable_row
from weft.model.graph import Bools, Floats, Ints, Ints32
from weft.model.noise import log_mean
from weft.model.problem import Problem, Realisation
from weft.model.schedule import Schedule
from weft.sim.arrays import Arrays, booking_needs, compile_problem, zeros
from weft.sim.queues.layout import refuse_stream
from weft.sim.tasks.clock import begin
from weft.sim.tasks.instances import dropped_at, refuse_live, turn_columns
from weft.sim.tasks.state import ABORTED, ENDED, EXPIRED, NUM_COUNTS, Facts, Tasks, TaskState

PLANS = "who binds tasks to devices ahead of time cannot know what will be booked; rules such as priced can"
COPIES = "a task behind a copy is bound to its device before that is free, and may find it booked; go without copies"
"""Why some cannot act where jobs book devices, and what can."""


def refuse_tasks(problem: Problem) -> str | None:
    """The reason why the task view cannot run this problem, or None."""
    for job in problem.jobs:
        if job.graph.is_elastic:
            return f"job {job.name!r} has elastic tasks: only allocators act on them (weft evaluate FILE -s optimus)"
        if job.period is not None:
            return f"job {job.name!r} is periodic: unroll it over a horizon first"
        if job.in_order and job.graph.is_conditional:
            return f"job {job.name!r} has branches, and its instances cannot be kept in order"
    if problem.cluster.one_port:
        return "the links take one transfer at a time (one-port): dispatchers assume no contention"
    for device_class in problem.cluster.classes:
        if device_class.batch > 1:
            why = refuse_stream(problem)
            unless = f", and they cannot be used here: {why}" if why else ""
            return f"class {device_class.name!r} takes batches: only queues by kind fill them{unless}"
    return None


def refuse_bookings(problem: Problem, *, has_copies: bool = False) -> str | None:
    """The reason why whoever binds tasks to devices ahead of time, as copies do, cannot act on this problem, or None."""
    for job in problem.jobs:
        if job.booking is not None:
            return f"job {job.name!r} books devices: {COPIES if has_copies else PLANS}"
    return None


def compile_tasks(problems: Sequence[Problem], *, drops_late: bool = False, is_open: bool = False) -> Tasks:
    """Lay problems out side by side, one environment each.

    ``drops_late``: what has not started when its job is due is dropped, and the job expires.
    ``is_open``: jobs may be added, whatever resources they need and devices they may use.
    """
    for problem in problems:
        reason = refuse_tasks(problem) or (refuse_live(problem) if is_open else None)
        if reason is not None:
            raise UnsupportedError(f"problem {problem.name!r}: {reason}")
    known = {id(one): compile_problem(one, is_open=is_open) for one in dict.fromkeys(problems)}
    parts = [known[id(problem)] for problem in problems]
    task_ptr = _pointer([len(a.release) for a in parts])
    device_ptr = _pointer([len(a.device_class) for a in parts])
    job_ptr = _pointer([len(problem.jobs) for problem in problems])
    kind_ptr = _pointer([len(problem.kinds) for problem in problems])
    pools = [_pools(a) for a in parts]
    release = [np.array([job.release for job in problem.jobs], dtype=np.float64) for problem in problems]
    width = max(a.run.shape[1] for a in parts)
    num_resources = max(a.demand.shape[1] for a in parts)
    return Tasks(
        task_ptr=task_ptr,
        job_ptr=job_ptr,
        device_ptr=device_ptr,
        pool_ptr=_pool_pointer(pools),
        link_ptr=_pointer([a.latency.size for a in parts]),
        kind_ptr=kind_ptr,
        num_groups=np.array([len(a.latency) for a in parts], np.int64),
        log_noise=np.array([log_mean(problem.noise_law, problem.noise) for problem in problems], np.float64),
        run=np.concatenate([_widened(a.run, width, np.inf) for a in parts]),
        job=_joined([a.job for a in parts], job_ptr),
        kind=_joined([problem.kind_of for problem in problems], kind_ptr),
        demand=np.concatenate([_widened(a.demand, num_resources, 0.0) for a in parts]),
        **_edge_columns(parts, task_ptr),
        job_task_ptr=_joined_pointer([problem.offsets for problem in problems], task_ptr),
        job_release=np.concatenate(release),
        job_due=np.concatenate([_due(problem) for problem in problems]),
        job_order=_joined([np.argsort(one, kind="stable") for one in release], job_ptr),
        **_device_columns(parts, pools, num_resources),
        allowed=_allowed(parts, problems, is_open=is_open),
        **_booking_columns(problems, num_resources, is_open=is_open),
        latency=np.concatenate([a.latency.ravel() for a in parts]),
        inverse=np.concatenate([a.inverse.ravel() for a in parts]),
        drops_late=bool(drops_late),
        **turn_columns(problems, job_ptr, task_ptr, is_open=is_open),
        saved=_saved(problems, width, is_open=is_open),
    )


def _edge_columns(parts: Sequence[Arrays], task_ptr: Ints) -> dict[str, Any]:
    """The fields of ``Tasks`` that hold edges."""
    edge_ptr = _pointer([len(a.succ) for a in parts])
    return {
        "num_in": np.concatenate([np.diff(a.pred_ptr) for a in parts]).astype(np.int64),
        "succ_ptr": _joined_pointer([a.succ_ptr for a in parts], edge_ptr),
        "succ": _joined([a.succ for a in parts], task_ptr),
        "succ_data": np.concatenate([a.succ_data for a in parts]),
        "pred_ptr": _joined_pointer([a.pred_ptr for a in parts], edge_ptr),
        "pred": _joined([a.pred for a in parts], task_ptr),
        "pred_data": np.concatenate([a.pred_data for a in parts]),
        "pred_edge": _joined([np.argsort(a.succ, kind="stable") for a in parts], edge_ptr),
    }


def _device_columns(parts: Sequence[Arrays], pools: Sequence[Ints], num_resources: int) -> dict[str, Any]:
    """The fields of ``Tasks`` with an entry per device, and those of pools of devices."""
    pool_ptr = _pool_pointer(pools)
    pool = _joined(pools, pool_ptr)
    return {
        "device_class": np.concatenate([a.device_class for a in parts]),
        "group": np.concatenate([a.group for a in parts]),
        "is_unary": np.concatenate([a.is_unary for a in parts]),
        "capacity": np.concatenate([_widened(a.capacity, num_resources, np.inf) for a in parts]),
        "pool": pool,
        "pool_device_ptr": np.searchsorted(np.sort(pool), np.arange(pool_ptr[-1] + 1)).astype(np.int64),
        "pool_devices": np.argsort(pool, kind="stable").astype(np.int64),
        "number": np.arange(len(pool), dtype=np.float64),
    }


def _booking_columns(problems: Sequence[Problem], num_resources: int, *, is_open: bool) -> dict[str, Any]:
    """The fields of ``Tasks`` that say what jobs book."""
    jobs = [job for problem in problems for job in problem.jobs]
    count = np.array([0 if job.booking is None else job.booking.count for job in jobs], np.int64)
    needs = [_widened(booking_needs(problem, is_open=is_open), num_resources, 0.0) for problem in problems]
    may_book = np.zeros((0, 0), np.bool_)
    if is_open or count.any():
        rows = [bookable_row(job, problem.cluster) for problem in problems for job in problem.jobs]
        may_book = np.zeros((len(rows), max(len(row) for row in rows)), np.bool_)
        for j, row in enumerate(rows):
            may_book[j, : len(row)] = row
    return {"book_count": count, "book_need": np.concatenate(needs), "may_book": may_book}


def _pool_pointer(pools: Sequence[Ints]) -> Ints:
    return _pointer([int(pool.max(initial=-1)) + 1 for pool in pools])


def facts_of(realisations: Sequence[Realisation], tasks: Tasks, *, is_live: bool = False) -> Facts:
    """What happens, laid out like the tasks."""
    width = tasks.run.shape[1]
    return Facts(
        run=np.concatenate([_widened(one.run_times, width, np.inf) for one in realisations]),
        taken=np.concatenate([edges for one in realisations for edges in one.taken]),
        is_live=bool(is_live),
    )


def new_task_state(tasks: Tasks, extra_rows: int = 0) -> TaskState:
    """Empty state with room for every task once and ``extra_rows`` more per environment."""
    num_envs = len(tasks.num_groups)
    num_tasks, num_jobs = int(tasks.task_ptr[-1]), int(tasks.job_ptr[-1])
    num_devices = len(tasks.capacity)
    rows = np.diff(tasks.task_ptr) + extra_rows
    events = 4 * rows + 2 * np.diff(tasks.device_ptr) + np.diff(tasks.job_ptr)
    columns = zeros(
        TaskState,
        ((num_envs,), "now wake next_job num_ready num_free num_dirty num_rows spare num_events overflow"),
        ((num_tasks,), "status open_edges key work ready place stack first_row"),
        ((len(tasks.waits_for),), "is_its_turn"),
        ((len(tasks.saved),), "lead"),
        ((num_jobs,), "job_open job_left job_finish is_expired is_waiting"),
        ((num_envs,), "num_waiting may_grant"),
        (tasks.may_book.shape, "granted"),
        (tasks.capacity.shape, "free booked"),
        ((num_devices,), "is_up has_room pool_heap pool_place running queue queue_end queued"),
        ((num_devices,), "dirty is_dirty look_at"),
        ((int(tasks.pool_ptr[-1]),), "pool_size"),
        ((int(rows.sum()),), "row_task row_device row_start row_finish row_expected row_status"),
        ((int(rows.sum()),), "next_row before after"),
        ((int(events.sum()),), "event_time event_item"),
        ((num_envs, NUM_COUNTS), "count"),
        ((num_devices,), "used recent"),
        ((int(tasks.kind_ptr[-1]), tasks.run.shape[1]), "seen ratio factor"),
        ((num_envs, tasks.run.shape[1]), "class_ratio"),
        ((num_envs,), "learns"),
    )
    row_ptr, event_ptr = _pointer(rows.tolist()), _pointer(events.tolist())
    state = TaskState(row_ptr=row_ptr, event_ptr=event_ptr, **columns)
    for b in range(num_envs):
        begin(tasks, state, b)
    return state


def schedule_of(
    problem: Problem, realisation: Realisation | None, w: Tasks, s: TaskState, b: int = 0
) -> Schedule:
    """What happened in environment b: executions, those cut short, and tasks that were dropped.

    A row that still waited for its data when its device was lost never ran.
    """
    used = np.arange(s.row_ptr[b], s.row_ptr[b] + s.num_rows[b])
    used = used[np.isin(s.row_status[used], (ENDED, ABORTED)) & (s.row_start[used] <= s.row_finish[used])]
    is_done = s.row_status[used] == ENDED
    first = int(w.task_ptr[b])
    dropped = np.flatnonzero(s.status[first : int(w.task_ptr[b + 1])] == EXPIRED)
    due, is_skipped = dropped_at(problem, w, w.job[first + dropped], b)
    task = s.row_task[used] - first
    aborted = np.bincount(task[~is_done], minlength=problem.num_tasks)
    outcome = np.where(is_done, outcomes.DONE, outcomes.ABORTED)
    return Schedule(
        problem,
        np.r_[task, dropped],
        np.r_[s.row_device[used] - w.device_ptr[b], np.full(len(dropped), -1)],
        np.r_[s.row_start[used], due],
        np.r_[s.row_finish[used], due],
        np.r_[np.where(is_done, _turn(task, is_done), 0), np.zeros(len(dropped))],
        np.r_[np.where(is_done, aborted[task], _turn(task, ~is_done)), np.zeros(len(dropped))],
        outcome=np.r_[outcome, np.where(is_skipped, outcomes.SKIPPED, outcomes.EXPIRED)],
        realisation=realisation,
        launch=_launches(s, s.row_task[used], first, len(dropped)),
    )


def _launches(s: TaskState, task: Ints, first: int, num_dropped: int) -> Ints32:
    """The launch of every row, by the number of its first task; none where the problem has no launches."""
    if not len(s.lead):
        return np.zeros(0, np.int32)
    lead = s.lead[task]
    return np.r_[np.where(lead >= 0, lead - first, -1), np.full(num_dropped, -1)].astype(np.int32)


def _turn(task: Ints, counts: Bools) -> Ints:
    """For every row that counts, how many of the same task count before it."""
    turn = np.zeros(len(task), np.int64)
    seen: dict[int, int] = {}
    repeated = counts & (np.bincount(task, minlength=1)[task] > 1) if len(task) else counts
    for row in np.flatnonzero(repeated).tolist():
        turn[row] = seen.get(int(task[row]), 0)
        seen[int(task[row])] = int(turn[row]) + 1
    return turn


def _saved(problems: Sequence[Problem], width: int, *, is_open: bool) -> Floats:
    """Shares saved within launches; nothing where jobs are told one by one, for tasks are then started alone."""
    if is_open or not any(problem.saved.size for problem in problems):
        return np.zeros((0, 0))
    tables = [p.saved if p.saved.size else np.zeros(p.run_times.shape) for p in problems]
    return np.concatenate([_widened(table, width, 0.0) for table in tables])


def _pools(a: Arrays) -> Ints:
    """Number of the pool of every device: those with equal class, links and jobs that may use them."""
    found: dict[tuple[int, int, bytes], int] = {}
    columns = a.allowed.T if a.allowed.size else np.zeros((len(a.group), 0), np.bool_)
    keys = zip(a.device_class.tolist(), a.group.tolist(), columns, strict=True)
    return np.array([found.setdefault((c, g, row.tobytes()), len(found)) for c, g, row in keys], np.int64)


def num_pools(problem: Problem) -> int:
    """Devices of a problem that differ in more than their number."""
    return int(_pools(compile_problem(problem)).max()) + 1


def _due(problem: Problem) -> Floats:
    late = [np.inf if job.deadline is None else job.release + job.deadline for job in problem.jobs]
    return np.array(late, dtype=np.float64)


def _allowed(parts: Sequence[Arrays], problems: Sequence[Problem], *, is_open: bool) -> Bools:
    if not is_open and not any(a.allowed.size for a in parts):
        return np.zeros((0, 0), np.bool_)
    width = max(len(a.device_class) for a in parts)
    table = np.ones((sum(len(problem.jobs) for problem in problems), width), np.bool_)
    first = 0
    for a, problem in zip(parts, problems, strict=True):
        last = first + len(problem.jobs)
        if a.allowed.size:
            table[first:last, : a.allowed.shape[1]] = a.allowed
        first = last
    return table


def _pointer(sizes: Sequence[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(np.array(sizes, np.int64))]).astype(np.int64)


def _joined(parts: Sequence[Any], offsets: Ints) -> Ints:
    pairs = zip(parts, offsets[:-1].tolist(), strict=True)
    return np.concatenate([part + offset for part, offset in pairs]).astype(np.int64)


def _joined_pointer(parts: Sequence[Any], offsets: Ints) -> Ints:
    pairs = zip(parts, offsets[:-1].tolist(), strict=True)
    return np.concatenate([[0], *[part[1:] + offset for part, offset in pairs]]).astype(np.int64)


def _widened(table: Floats, width: int, fill: float) -> Floats:
    missing = width - table.shape[1]
    wide = np.pad(table, ((0, 0), (0, missing)), constant_values=fill) if missing else table
    return np.array(wide, dtype=np.float64, order="C")
