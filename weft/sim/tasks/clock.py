"""Time in the task view: events are carried out in order up to the next decision.

A decision is due when some task is ready that no reservation holds, and some device has room.
"""

from __future__ import annotations

import numpy as np

from weft.model.graph import Floats
from weft.sim.heap import pop_event
from weft.sim.jit import lean_inlined as inlined
from weft.sim.jit import lean_kernel as kernel
from weft.sim.tasks.bookings import grant, next_in_line
from weft.sim.tasks.launches import end_launch
from weft.sim.tasks.moves import expire, finish, make_first_ready, release, serve_all
from weft.sim.tasks.state import NUM_EVENTS, RUNNING, UNRELEASED, Facts, Tasks, TaskState, mark, refresh
from weft.sim.tasks.turns import begin_turns


@inlined
def next_time(w: Tasks, s: TaskState, b: int) -> float:
    """Time of the next event; infinite when there is none."""
    time = s.wake[b]
    if s.num_events[b] > 0:
        time = min(time, s.event_time[s.event_ptr[b]])
    at = w.job_ptr[b] + s.next_job[b]
    if at < w.job_ptr[b + 1]:
        time = min(time, w.job_release[w.job_order[at]])
    return time


@inlined
def _pop_until(w: Tasks, f: Facts, s: TaskState, b: int, now: float) -> None:
    """Carry out all events up to now: first those of the heap, then releases, oldest first."""
    first, last = s.event_ptr[b], s.event_ptr[b + 1]
    times, items = s.event_time[first:last], s.event_item[first:last]
    rows = s.row_ptr[b + 1] - s.row_ptr[b]
    devices = w.device_ptr[b + 1] - w.device_ptr[b]
    while s.num_events[b] > 0 and times[0] <= now:
        item = items[0]
        s.num_events[b] = pop_event(times, items, s.num_events[b])
        s.count[b, NUM_EVENTS] += 1
        if item >= rows + devices:
            expire(w, s, b, w.job_ptr[b] + item - rows - devices)
        elif item >= rows:
            mark(w, s, b, w.device_ptr[b] + item - rows)
        elif s.row_status[s.row_ptr[b] + item] == RUNNING:
            row = s.row_ptr[b] + item
            if len(s.lead) > 0 and s.lead[s.row_task[row]] >= 0:
                end_launch(w, f, s, b, row)
            else:
                finish(w, f, s, b, row)
    at = w.job_ptr[b] + s.next_job[b]
    while at < w.job_ptr[b + 1] and w.job_release[w.job_order[at]] <= now:
        s.next_job[b] += 1
        s.count[b, NUM_EVENTS] += 1
        release(w, s, b, w.job_order[at])
        at += 1


@kernel
def admit(w: Tasks, s: TaskState, b: int) -> None:
    """Grant bookings in the order of releases, as far as there is room; jobs that have theirs begin."""
    while s.may_grant[b] and s.num_waiting[b] > 0:
        j = next_in_line(w, s, b)
        if grant(w, s, b, j):
            s.is_waiting[j] = False
            s.num_waiting[b] -= 1
            make_first_ready(w, s, b, j)
        else:
            s.may_grant[b] = False


@inlined
def pass_events(w: Tasks, f: Facts, s: TaskState, b: int) -> None:
    """Go on to the time of the next events, carry them out and start what reservations allow."""
    s.now[b] = max(s.now[b], next_time(w, s, b))
    s.wake[b] = np.inf
    _pop_until(w, f, s, b, s.now[b])
    admit(w, s, b)
    serve_all(w, f, s, b)


@inlined
def is_due(s: TaskState, b: int) -> bool:
    """Whether a task is ready that no reservation holds and some device has room."""
    return s.num_ready[b] > 0 and s.num_free[b] > 0


@kernel
def advance(w: Tasks, f: Facts, s: TaskState, b: int) -> bool:
    """Carry out the next events until a decision is due; returns whether the episode is over."""
    while not s.overflow[b]:
        if next_time(w, s, b) == np.inf:
            return True
        pass_events(w, f, s, b)
        if is_due(s, b) and next_time(w, s, b) > s.now[b]:
            return False
    return True


@kernel
def run_until(w: Tasks, f: Facts, s: TaskState, b: int, until: float, late: Floats) -> bool:
    """Carry out all events up to a time, without decisions; stops at once when a row is late.

    ``late`` is (max_rows,): when a row that has not ended by then counts as late. Returns whether
    one is.
    """
    while not s.overflow[b]:
        time = next_time(w, s, b)
        if time > until or time == np.inf:
            break
        pass_events(w, f, s, b)
        for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
            row = s.running[p]
            while row >= 0:
                if s.now[b] > late[row]:
                    return True
                row = s.after[row]
    return False


@kernel
def begin(w: Tasks, s: TaskState, b: int) -> None:
    """Empty environment b; keys and work stay as the rule has set them."""
    for i in range(w.task_ptr[b], w.task_ptr[b + 1]):
        s.status[i] = UNRELEASED
        s.open_edges[i] = w.num_in[i]
        s.place[i] = -1
        s.first_row[i] = -1
        if len(s.lead) > 0:
            s.lead[i] = -1
    if len(w.waits_for) > 0:
        begin_turns(w, s, b)
    for j in range(w.job_ptr[b], w.job_ptr[b + 1]):
        s.job_open[j] = w.job_task_ptr[j + 1] - w.job_task_ptr[j]
        s.job_left[j] = 0.0
        s.job_finish[j] = np.nan
        s.is_expired[j] = False
        s.is_waiting[j] = False
        for q in range(s.granted.shape[1]):
            s.granted[j, q] = False
    for k in range(w.kind_ptr[b], w.kind_ptr[b + 1]):
        for c in range(w.run.shape[1]):
            s.seen[k, c], s.ratio[k, c], s.factor[k, c] = 0.0, 0.0, 1.0
    for c in range(w.run.shape[1]):
        s.class_ratio[b, c] = 0.0
    s.now[b] = 0.0
    s.wake[b] = np.inf
    s.next_job[b] = 0
    s.num_ready[b] = 0
    s.num_free[b] = 0
    s.num_waiting[b] = 0
    s.may_grant[b] = False
    s.num_dirty[b] = 0
    s.num_rows[b] = 0
    s.spare[b] = -1
    s.num_events[b] = 0
    s.count[b, :] = 0
    s.overflow[b] = False
    for pool in range(w.pool_ptr[b], w.pool_ptr[b + 1]):
        s.pool_size[pool] = 0
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        for r in range(w.capacity.shape[1]):
            s.free[p, r] = w.capacity[p, r]
            s.booked[p, r] = 0.0
        s.is_up[p], s.has_room[p], s.is_dirty[p] = True, False, False
        s.running[p], s.queue[p], s.queue_end[p], s.pool_place[p] = -1, -1, -1, -1
        s.queued[p], s.look_at[p], s.used[p], s.recent[p] = 0.0, np.inf, 0.0, 0.0
        refresh(w, s, b, p)
