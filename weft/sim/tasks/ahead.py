"""What the base rule would make of every candidate: played ahead for a while in a copy of the state.

For features nobody sees the future: run times are those stated, what runs ends when it is expected to, every branch
is taken, and no job arrives (:func:`look_ahead`). To learn from, the same is played with what really happens
(:func:`true_costs`): all choices of a moment meet the same run times and arrivals, so that they differ by the choice alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Floats
from weft.sim.heap import copy_into, push_event
from weft.sim.jit import lean_inlined, lean_kernel
from weft.sim.tasks.candidates import Listed
from weft.sim.tasks.clock import is_due, next_time, pass_events
from weft.sim.tasks.features import AHEAD, BASE, STARTS, WAITS, CandidateSight, Known, signed_log1p
from weft.sim.tasks.moves import commit
from weft.sim.tasks.rules import TaskRule, decide
from weft.sim.tasks.state import (
    NUM_DONE,
    NUM_EXPIRED,
    READY,
    STARTED,
    UNRELEASED,
    Facts,
    Tasks,
    TaskState,
)

TIME, LEFT, WORK, FLOW, PATHS = range(len(AHEAD))
TERMINAL = (1.0, 0.3, -1.0, 1.3, 0.15)
"""What the columns cost at the end of a horizon: fitted once to what follows in 50 further run times, on training streams."""
LATE = 0.03
"""What is overdue is expected to end after so much more of its run time."""
SHARED = ("key", "work", "stack", "row_ptr", "event_ptr", "learns")
"""Columns of a state that are the same in its copy, or a buffer."""


class Ahead(NamedTuple):
    """Where to play ahead; written in place."""

    tasks: Tasks  # with pointers to jobs of its own, so that none arrive
    facts: Facts  # as expected
    state: TaskState  # the copy
    work: Floats  # (num_jobs,) buffer
    path: Floats  # (num_jobs,) buffer
    found: Floats  # (2, len(AHEAD)) of the base rule's choice, and of the one at hand


def new_ahead(w: Tasks, s: TaskState) -> Ahead:
    """Room for copies of a state."""
    state = s._replace(**{name: column.copy() for name, column in s._asdict().items() if name not in SHARED})
    facts = Facts(w.run, np.ones(len(w.succ), np.bool_), False)
    num_jobs = len(w.job_release)
    return Ahead(
        w._replace(job_ptr=w.job_ptr.copy()), facts, state, np.zeros(num_jobs), np.zeros(num_jobs),
        np.zeros((2, len(AHEAD))),
    )  # fmt: skip


@lean_kernel
def _copy_numbers(s: TaskState, t: TaskState, b: int) -> None:
    t.now[b], t.wake[b], t.next_job[b], t.num_ready[b] = s.now[b], s.wake[b], s.next_job[b], s.num_ready[b]
    t.num_waiting[b], t.may_grant[b], t.num_free[b] = s.num_waiting[b], s.may_grant[b], s.num_free[b]
    t.num_dirty[b], t.num_rows[b], t.spare[b] = s.num_dirty[b], s.num_rows[b], s.spare[b]
    t.num_events[b], t.overflow[b] = s.num_events[b], s.overflow[b]
    copy_into(t.count[b], s.count[b])
    copy_into(t.class_ratio[b], s.class_ratio[b])


@lean_kernel
def _copy_tasks(w: Tasks, s: TaskState, t: TaskState, b: int) -> None:
    first, last = w.task_ptr[b], w.task_ptr[b + 1]
    copy_into(t.status[first:last], s.status[first:last])
    copy_into(t.open_edges[first:last], s.open_edges[first:last])
    copy_into(t.place[first:last], s.place[first:last])
    copy_into(t.first_row[first:last], s.first_row[first:last])
    copy_into(t.ready[first : first + s.num_ready[b]], s.ready[first : first + s.num_ready[b]])
    if len(s.lead) > 0:
        copy_into(t.lead[first:last], s.lead[first:last])
    if len(s.is_its_turn) > 0:
        copy_into(t.is_its_turn[first:last], s.is_its_turn[first:last])
    for k in range(w.kind_ptr[b], w.kind_ptr[b + 1]):
        copy_into(t.seen[k], s.seen[k])
        copy_into(t.ratio[k], s.ratio[k])
        copy_into(t.factor[k], s.factor[k])


@lean_kernel
def _copy_jobs(w: Tasks, s: TaskState, t: TaskState, b: int) -> None:
    first, last = w.job_ptr[b], w.job_ptr[b + 1]
    copy_into(t.job_open[first:last], s.job_open[first:last])
    copy_into(t.job_left[first:last], s.job_left[first:last])
    copy_into(t.job_finish[first:last], s.job_finish[first:last])
    copy_into(t.is_expired[first:last], s.is_expired[first:last])
    copy_into(t.is_waiting[first:last], s.is_waiting[first:last])
    for j in range(first, min(last, len(s.granted))):
        copy_into(t.granted[j], s.granted[j])


@lean_kernel
def _copy_devices(w: Tasks, s: TaskState, t: TaskState, b: int) -> None:
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        copy_into(t.free[p], s.free[p])
        copy_into(t.booked[p], s.booked[p])
        t.is_up[p], t.has_room[p], t.is_dirty[p] = s.is_up[p], s.has_room[p], s.is_dirty[p]
        t.pool_heap[p], t.pool_place[p], t.dirty[p] = s.pool_heap[p], s.pool_place[p], s.dirty[p]
        t.running[p], t.queue[p], t.queue_end[p] = s.running[p], s.queue[p], s.queue_end[p]
        t.queued[p], t.look_at[p] = s.queued[p], s.look_at[p]
        t.used[p], t.recent[p] = s.used[p], s.recent[p]
    for pool in range(w.pool_ptr[b], w.pool_ptr[b + 1]):
        t.pool_size[pool] = s.pool_size[pool]


@lean_kernel
def _copy_rows(s: TaskState, t: TaskState, b: int) -> None:
    first, last = s.row_ptr[b], s.row_ptr[b] + s.num_rows[b]
    copy_into(t.row_task[first:last], s.row_task[first:last])
    copy_into(t.row_device[first:last], s.row_device[first:last])
    copy_into(t.row_start[first:last], s.row_start[first:last])
    copy_into(t.row_finish[first:last], s.row_finish[first:last])
    copy_into(t.row_expected[first:last], s.row_expected[first:last])
    copy_into(t.row_status[first:last], s.row_status[first:last])
    copy_into(t.next_row[first:last], s.next_row[first:last])
    copy_into(t.before[first:last], s.before[first:last])
    copy_into(t.after[first:last], s.after[first:last])
    first, last = s.event_ptr[b], s.event_ptr[b] + s.num_events[b]
    copy_into(t.event_time[first:last], s.event_time[first:last])
    copy_into(t.event_item[first:last], s.event_item[first:last])


@lean_kernel
def _copy(w: Tasks, s: TaskState, t: TaskState, b: int) -> None:
    """Environment b of one state into another."""
    _copy_numbers(s, t, b)
    _copy_tasks(w, s, t, b)
    _copy_jobs(w, s, t, b)
    _copy_devices(w, s, t, b)
    _copy_rows(s, t, b)


@lean_kernel
def _forget_ends(w: Tasks, s: TaskState, t: TaskState, b: int) -> None:
    """What runs ends when it is expected to, in the copy ``t`` of ``s``."""
    first, last, now = s.event_ptr[b], s.event_ptr[b + 1], s.now[b]
    times, items = t.event_time[first:last], t.event_item[first:last]
    rows, size = s.row_ptr[b + 1] - s.row_ptr[b], np.int64(0)
    for k in range(first, first + s.num_events[b]):
        if s.event_item[k] >= rows:
            size = push_event(times, items, size, s.event_time[k], s.event_item[k])
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        row = s.running[p]
        while row >= 0:
            if s.row_finish[row] != -np.inf:
                end = s.row_expected[row]
                end = max(end, now + LATE * (end - s.row_start[row]))
                size = push_event(times, items, size, end, row - s.row_ptr[b])
            row = s.after[row]
    t.num_events[b] = size


@lean_kernel
def _play(rule: TaskRule, w: Tasks, f: Facts, t: TaskState, b: int, until: float, waits: bool) -> float:
    """Let the rule go on until then; returns how long jobs are in the system meanwhile."""
    total = 0.0
    if not waits and is_due(t, b):
        decide(rule, w, f, t, b)
    while not t.overflow[b]:
        time, before = next_time(w, t, b), t.now[b]
        jobs = t.next_job[b] - t.count[b, NUM_DONE] - t.count[b, NUM_EXPIRED]
        if time > until:
            return total + (jobs * (until - before) if time < np.inf else 0.0)
        pass_events(w, f, t, b)
        total += jobs * (t.now[b] - before)
        if is_due(t, b) and next_time(w, t, b) > t.now[b]:
            decide(rule, w, f, t, b)
    return total


@lean_inlined
def _path_left(known: Known, w: Tasks, t: TaskState, j: int, now: float, work: Floats, n: int) -> float:
    """Longest path left of job j; what is left of its tasks that run is added to its work."""
    path = 0.0
    for i in range(w.job_task_ptr[j], w.job_task_ptr[j + 1]):
        status = t.status[i]
        if status in (UNRELEASED, READY):
            path = max(path, known.rank[i])
        elif status == STARTED:
            row = t.first_row[i]
            left = max(0.0, t.row_expected[row] - now)
            work[n] += left
            path = max(path, known.rank[i] - (t.row_expected[row] - t.row_start[row]) + left)
    return path


@lean_kernel
def _sum_up(known: Known, w: Tasks, t: TaskState, b: int, now: float, a: Ahead, out: Floats) -> None:
    """What is left of the jobs in the system at a time: all columns but the first."""
    n, devices = np.int64(0), np.float64(w.device_ptr[b + 1] - w.device_ptr[b])
    out[PATHS] = 0.0
    for k in range(w.job_ptr[b], w.job_ptr[b] + t.next_job[b]):
        j = w.job_order[k]
        if t.job_open[j] > 0 and not t.is_expired[j]:
            a.work[n] = t.job_left[j]
            out[PATHS] += _path_left(known, w, t, j, now, a.work, n)
            at, own = n, a.work[n]
            while at > 0 and a.work[at - 1] > own:
                a.work[at] = a.work[at - 1]
                at -= 1
            a.work[at] = own
            n += 1
    total = out[FLOW] = 0.0
    for k in range(n):
        total += a.work[k] / devices
        out[FLOW] += total
    out[LEFT], out[WORK] = n, total


@lean_kernel
def _try(
    known: Known, w: Tasks, f: Facts, s: TaskState, a: Ahead, b: int, found: Listed, k: int, until: float,
    is_blind: bool, out: Floats,
) -> None:  # fmt: skip
    """Make a choice in a copy of the state and go on by the base rule; ``out`` is what becomes of it."""
    t, waits = a.state, k >= found.count[0]
    _copy(w, s, t, b)
    if is_blind:
        _forget_ends(w, s, t, b)
    if waits:
        t.wake[b] = min(t.wake[b], found.later[0])
    else:
        commit(w, f, t, b, found.task[k], found.device[k])
    out[TIME] = _play(known.base, w, f, t, b, until, waits)
    _sum_up(known, w, t, b, until, a, out)


@lean_inlined
def _mean_run(known: Known, w: Tasks, s: TaskState, b: int) -> float:
    """Mean of the shortest run times of the tasks of all jobs in the system."""
    total, count = 0.0, 0.0
    for k in range(w.job_ptr[b], w.job_ptr[b] + s.next_job[b]):
        j = w.job_order[k]
        if s.job_open[j] > 0 and not s.is_expired[j]:
            for i in range(w.job_task_ptr[j], w.job_task_ptr[j + 1]):
                total += known.least[i]
            count += w.job_task_ptr[j + 1] - w.job_task_ptr[j]
    return max(total / max(count, 1.0), 1e-300)


@lean_inlined
def _base_row(rows: Floats) -> int:
    """The candidate, or the wait, that the base rule chooses; -1: none is marked."""
    for k in range(len(rows)):
        if rows[k, BASE] > 0.0:
            return k
    return np.int64(-1)


@lean_kernel
def look_ahead(
    sight: CandidateSight, known: Known, s: TaskState, a: Ahead, b: int, found: Listed, rows: Floats
) -> None:
    """Write, for every candidate and the wait, by how much more its columns come to than those of the base rule's choice.

    ``rows`` (K, C) are the features of all choices, the last of the wait.
    """
    base, w = _base_row(rows), a.tasks
    if base < 0 or found.count[0] + (1 if rows[len(rows) - 1, WAITS] > 0.0 else 0) < 2:
        return
    end, first = w.job_ptr[b + 1], rows.shape[1] - len(AHEAD)
    w.job_ptr[b + 1] = w.job_ptr[b] + s.next_job[b]
    unit = _mean_run(known, w, s, b)
    until = s.now[b] + sight.ahead * unit
    _try(known, w, a.facts, s, a, b, found, base, until, True, a.found[0])
    for k in range(len(rows)):
        if k != base and (rows[k, STARTS] > 0.0 or rows[k, WAITS] > 0.0):
            _try(known, w, a.facts, s, a, b, found, k, until, True, a.found[1])
            for c in range(len(AHEAD)):
                more = a.found[1, c] - a.found[0, c]
                rows[k, first + c] = signed_log1p(more if c == LEFT else more / unit)
    w.job_ptr[b + 1] = end


@lean_kernel
def true_costs(
    known: Known, w: Tasks, f: Facts, s: TaskState, a: Ahead, b: int, found: Listed, rows: Floats,
    horizon: float, out: Floats,
) -> None:  # fmt: skip
    """What every choice (K,) costs more than the base rule's, in run times; NaN where it is none.

    Played for so many mean run times with what happens in them, then estimated (``TERMINAL``).
    """
    base = _base_row(rows)
    for k in range(len(out)):
        out[k] = np.nan
    if base < 0:
        return
    unit = _mean_run(known, w, s, b)
    until = s.now[b] + horizon * unit
    _try(known, w, f, s, a, b, found, base, until, False, a.found[0])
    for k in range(len(rows)):
        if rows[k, STARTS] > 0.0 or rows[k, WAITS] > 0.0:
            if k != base:
                _try(known, w, f, s, a, b, found, k, until, False, a.found[1])
            out[k] = 0.0
            for c in range(len(AHEAD)):
                more = a.found[1, c] - a.found[0, c] if k != base else 0.0
                out[k] += TERMINAL[c] * (more if c == LEFT else more / unit)
