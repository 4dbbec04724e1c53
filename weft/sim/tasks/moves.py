"""What can happen in the task view: jobs arrive, tasks start and end, devices are lost and join.

The core, for simulators and sessions alike (all take ``(w, f, s, b, ...)``):

- ``release`` a job: its first tasks become ready;
- ``commit`` a ready task to a device with room: it holds its share at once and starts as soon as its
  data is there. ``reserve`` keeps a task for a device, busy or not, ready or not: the queue of a
  device is served in order (by planned start, then by call), a head starts when it is ready, its
  data is there and the device has room;
- ``finish`` a row: its share is free, edges are settled, children become ready or are skipped;
- ``lose`` and ``join`` a device; ``cancel`` what is reserved and has not started;
- ``serve_all`` starts what reservations allow now.

Time passes in ``clock.py``.

With ``Facts.is_live`` nothing is simulated: set ``now``, call ``finish`` when an end is reported,
then ``serve_all``; rows whose status has become RUNNING are to be started.
"""

from __future__ import annotations

import numpy as np

from weft.sim.jit import lean_inlined as inlined
from weft.sim.jit import lean_kernel as kernel
from weft.sim.tasks.bookings import end_booking
from weft.sim.tasks.state import (
    ABORTED,
    ABORTS,
    CANCELLED,
    DONE,
    ENDED,
    EXPIRED,
    NUM_DONE,
    NUM_EXPIRED,
    NUM_MISSED,
    NUM_STARTED,
    PLANNED,
    READY,
    RUNNING,
    SKIPPED,
    STARTED,
    TAKEN,
    UNRELEASED,
    Facts,
    Tasks,
    TaskState,
    add_event,
    data_ready,
    expected_run,
    fits,
    is_light,
    link_row,
    mark,
    new_row,
    note_end,
    note_start,
    offer,
    refresh,
    spare_share,
    unlink_row,
    unready,
)
from weft.sim.tasks.turns import drop_task, is_overrun, let_in, make_ready, skip


@inlined
def begin_row(
    w: Tasks, f: Facts, s: TaskState, b: int, row: int, start: float, expected: float, end: float
) -> None:
    """The row holds its share of the device from now on and runs from ``start`` on, until ``end``."""
    i, p = s.row_task[row], s.row_device[row]
    if not is_light(s, row):
        for r in range(w.demand.shape[1]):
            own = spare_share(w, s, b, w.job[i], p, r)
            s.free[p, r] -= w.demand[i, r] - min(own, w.demand[i, r])
    link_row(s, s.running, p, row)
    s.row_start[row] = start
    s.row_expected[row] = expected
    s.row_status[row] = RUNNING
    s.count[b, NUM_STARTED] += 1
    note_start(w, s, b, p)
    if s.status[i] == READY:
        s.status[i] = STARTED
        s.job_left[w.job[i]] -= s.work[i]
    refresh(w, s, b, p)
    if not f.is_live:
        add_event(w, s, b, end, row - s.row_ptr[b])


@kernel
def commit(w: Tasks, f: Facts, s: TaskState, b: int, i: int, p: int) -> int:
    """Give a ready task to a device that has room for it; returns its row.

    It holds its share of the device from now on and starts when its data is there.
    """
    row = new_row(s, b, i, p)
    if row >= 0:
        unready(w, s, b, i)
        start, c = max(s.now[b], data_ready(w, f, s, b, i, p)), w.device_class[p]
        begin_row(w, f, s, b, row, start, start + expected_run(w, s, i, c), start + f.run[i, c])
    return row


@kernel
def reserve(w: Tasks, s: TaskState, b: int, i: int, p: int, planned: float) -> int:
    """Keep task i for device p, behind all that is planned to start there no later; returns its row.

    The task may be reserved before it is ready, and on several devices: those are copies.
    """
    row = new_row(s, b, i, p)
    if row < 0:
        return row
    unready(w, s, b, i)
    s.row_expected[row] = planned
    at, last = np.int64(-1), s.queue_end[p]
    while last >= 0 and s.row_expected[last] > planned:
        at = last
        last = s.before[last]
    s.before[row], s.after[row] = last, at
    if last >= 0:
        s.after[last] = row
    else:
        s.queue[p] = row
    if at >= 0:
        s.before[at] = row
    else:
        s.queue_end[p] = row
    s.queued[p] += w.run[i, w.device_class[p]]
    refresh(w, s, b, p)
    mark(w, s, b, p)
    return row


@inlined
def _leave_queue(w: Tasks, s: TaskState, b: int, row: int) -> None:
    p = s.row_device[row]
    if s.queue_end[p] == row:
        s.queue_end[p] = s.before[row]
    unlink_row(s, s.queue, p, row)
    s.queued[p] = s.queued[p] - w.run[s.row_task[row], w.device_class[p]] if s.queue[p] >= 0 else 0.0


@inlined
def _has_other_row(s: TaskState, i: int) -> bool:
    """Whether some row of task i is reserved, runs or has ended."""
    row = s.first_row[i]
    while row >= 0:
        if s.row_status[row] <= ENDED:
            return True
        row = s.next_row[row]
    return False


@inlined
def free_again(w: Tasks, s: TaskState, b: int, i: int) -> None:
    """A task that lost a row: with none left it waits for a decision again."""
    if s.status[i] in (READY, STARTED) and not _has_other_row(s, i):
        if s.status[i] == STARTED:
            s.status[i] = READY
            s.job_left[w.job[i]] += s.work[i]
        if s.is_expired[w.job[i]]:
            drop_task(w, s, b, i)
        else:
            offer(w, s, b, i)


@inlined
def _forget_row(s: TaskState, b: int, row: int) -> None:
    """Take a row that never started off the list of its task; the next new row takes its place."""
    i = s.row_task[row]
    if s.first_row[i] == row:
        s.first_row[i] = s.next_row[row]
    else:
        at = s.first_row[i]
        while s.next_row[at] != row:
            at = s.next_row[at]
        s.next_row[at] = s.next_row[row]
    s.next_row[row] = s.spare[b]
    s.spare[b] = row


@kernel
def cancel(w: Tasks, s: TaskState, b: int, row: int) -> None:
    """Give up a reservation that has not started; the task is ready again or waits for its parents."""
    if s.row_status[row] == PLANNED:
        _leave_queue(w, s, b, row)
        s.row_status[row] = CANCELLED
        refresh(w, s, b, s.row_device[row])
        mark(w, s, b, s.row_device[row])
        _forget_row(s, b, row)
        free_again(w, s, b, s.row_task[row])


@inlined
def _serve(w: Tasks, f: Facts, s: TaskState, b: int, p: int) -> None:
    """Start the heads of the queue of device p as far as they can start now."""
    now = s.now[b]
    while s.queue[p] >= 0:
        row = s.queue[p]
        i = s.row_task[row]
        if s.status[i] in (SKIPPED, EXPIRED):
            _leave_queue(w, s, b, row)
            s.row_status[row] = CANCELLED
            continue
        has_room = s.is_up[p] and (is_light(s, row) or fits(w, s, b, i, p))
        if s.status[i] == UNRELEASED or not has_room:
            return
        ready = data_ready(w, f, s, b, i, p)
        if ready > now:
            if f.is_live:
                s.wake[b] = min(s.wake[b], ready)
            elif s.look_at[p] != ready:
                s.look_at[p] = ready
                add_event(w, s, b, ready, s.row_ptr[b + 1] - s.row_ptr[b] + p - w.device_ptr[b])
            return
        _leave_queue(w, s, b, row)
        c = w.device_class[p]
        begin_row(w, f, s, b, row, now, now + expected_run(w, s, i, c), now + f.run[i, c])
    refresh(w, s, b, p)


@kernel
def serve_all(w: Tasks, f: Facts, s: TaskState, b: int) -> None:
    """Start what reservations allow now."""
    while s.num_dirty[b] > 0:
        s.num_dirty[b] -= 1
        p = s.dirty[w.device_ptr[b] + s.num_dirty[b]]
        s.is_dirty[p] = False
        _serve(w, f, s, b, p)


@inlined
def close_task(w: Tasks, s: TaskState, b: int, i: int) -> None:
    """Task i is done or skipped: its job is done when it was the last one."""
    j = w.job[i]
    s.job_open[j] -= 1
    if s.job_open[j] == 0 and np.isnan(s.job_finish[j]):
        s.job_finish[j] = s.now[b]
        s.count[b, NUM_DONE] += 1
        if s.now[b] > w.job_due[j]:
            s.count[b, NUM_MISSED] += 1
        if w.book_count[j] > 0:
            end_booking(w, s, b, j)


@inlined
def settle(w: Tasks, f: Facts, s: TaskState, b: int, i: int) -> None:
    """Settle the edges of a task that ended, and those of all tasks skipped because of it."""
    base = w.task_ptr[b]
    height = np.int64(0)
    at, has_run = i, True
    while at >= 0:
        for e in range(w.succ_ptr[at], w.succ_ptr[at + 1]):
            j = w.succ[e]
            left = s.open_edges[j] - 1
            if has_run and f.taken[e] and left < TAKEN:
                left += TAKEN
            s.open_edges[j] = left
            if left == TAKEN:
                make_ready(w, s, b, j)
            elif left == 0:
                s.status[j] = SKIPPED
                s.job_left[w.job[j]] -= s.work[j]
                close_task(w, s, b, j)
                s.stack[base + height] = j
                height += 1
        has_run = False
        at = np.int64(-1)
        if height > 0:
            height -= 1
            at = s.stack[base + height]


@inlined
def _tell_children(w: Tasks, s: TaskState, b: int, i: int) -> None:
    """A further copy of task i ended: its data may now be nearer to children that are reserved."""
    for e in range(w.succ_ptr[i], w.succ_ptr[i + 1]):
        row = s.first_row[w.succ[e]]
        while row >= 0:
            if s.row_status[row] == PLANNED:
                mark(w, s, b, s.row_device[row])
            row = s.next_row[row]


@inlined
def let_go(w: Tasks, s: TaskState, b: int, row: int, status: int) -> None:
    """A running row ends or is aborted: its share of the device is free."""
    i, p = s.row_task[row], s.row_device[row]
    unlink_row(s, s.running, p, row)
    if not is_light(s, row):
        s.used[p] += max(s.now[b] - s.row_start[row], 0.0) * w.demand[i, 0] / w.capacity[p, 0]
        for r in range(w.demand.shape[1]):
            back = w.demand[i, r] - min(spare_share(w, s, b, w.job[i], p, r), w.demand[i, r])
            s.free[p, r] = s.free[p, r] + back if s.running[p] >= 0 else w.capacity[p, r] - s.booked[p, r]
    s.row_finish[row] = s.now[b]
    s.row_status[row] = status
    refresh(w, s, b, p)
    if s.queue[p] >= 0:
        mark(w, s, b, p)


@kernel
def finish(w: Tasks, f: Facts, s: TaskState, b: int, row: int) -> None:
    """A running row ends now; of copies the first one counts."""
    i = s.row_task[row]
    note_end(w, s, b, row)
    let_go(w, s, b, row, ENDED)
    if s.status[i] == DONE:
        _tell_children(w, s, b, i)
        return
    s.status[i] = DONE
    settle(w, f, s, b, i)
    close_task(w, s, b, i)
    if len(w.lets_in) > 0:
        let_in(w, s, b, i)


@kernel
def lose(w: Tasks, s: TaskState, b: int, p: int) -> None:
    """Device p is gone: what runs there is aborted, what waits for it is ready again.

    Data that tasks left there stays within reach.
    """
    s.is_up[p] = False
    while s.running[p] >= 0:
        row = s.running[p]
        let_go(w, s, b, row, ABORTED)
        free_again(w, s, b, s.row_task[row])
    while s.queue[p] >= 0:
        row = s.queue[p]
        _leave_queue(w, s, b, row)
        s.row_status[row] = CANCELLED
        _forget_row(s, b, row)
        free_again(w, s, b, s.row_task[row])
    refresh(w, s, b, p)


@kernel
def join(w: Tasks, s: TaskState, b: int, p: int) -> None:
    """Device p joins or comes back, idle."""
    s.is_up[p] = True
    refresh(w, s, b, p)
    mark(w, s, b, p)


@kernel
def make_first_ready(w: Tasks, s: TaskState, b: int, j: int) -> None:
    """Job j begins: its tasks without parents are ready, or wait for their turn."""
    for i in range(w.job_task_ptr[j], w.job_task_ptr[j + 1]):
        if w.num_in[i] == 0:
            if len(w.lets_in) > 0 and not s.is_its_turn[i]:
                s.open_edges[i] += TAKEN
            else:
                make_ready(w, s, b, i)


@kernel
def release(w: Tasks, s: TaskState, b: int, j: int) -> None:
    """Job j is released: its tasks without parents are ready, unless they wait for their turn or a booking; or it is skipped."""
    if is_overrun(w, s, j):
        skip(w, s, b, j)
        return
    first, last = w.job_task_ptr[j], w.job_task_ptr[j + 1]
    total = 0.0
    for i in range(first, last):
        total += s.work[i]
    s.job_left[j] = total
    if first == last:
        s.job_finish[j] = s.now[b]
        s.count[b, NUM_DONE] += 1
    if w.book_count[j] > 0 and first < last:
        s.is_waiting[j] = s.may_grant[b] = True
        s.num_waiting[b] += 1
    else:
        make_first_ready(w, s, b, j)
    is_cut = len(w.overrun) > 0 and w.overrun[j] == ABORTS
    if (w.drops_late or is_cut) and w.job_due[j] < np.inf:
        rows = s.row_ptr[b + 1] - s.row_ptr[b]
        devices = w.device_ptr[b + 1] - w.device_ptr[b]
        add_event(w, s, b, max(w.job_due[j], s.now[b]), rows + devices + j - w.job_ptr[b])


@inlined
def _abort(w: Tasks, s: TaskState, b: int, j: int) -> None:
    """What runs of job j ends now, undone."""
    for i in range(w.job_task_ptr[j], w.job_task_ptr[j + 1]):
        if s.status[i] == STARTED:
            row = s.first_row[i]
            while row >= 0:
                if s.row_status[row] == RUNNING:
                    let_go(w, s, b, row, ABORTED)
                row = s.next_row[row]
            drop_task(w, s, b, i)


@kernel
def expire(w: Tasks, s: TaskState, b: int, j: int) -> None:
    """Job j is due: what has not started is dropped, and where overruns are aborted what runs ends too."""
    if s.job_open[j] == 0:
        return
    s.is_expired[j] = True
    s.count[b, NUM_EXPIRED] += 1
    if w.book_count[j] > 0:
        end_booking(w, s, b, j)
    if len(w.overrun) > 0 and w.overrun[j] == ABORTS:
        _abort(w, s, b, j)
    for i in range(w.job_task_ptr[j], w.job_task_ptr[j + 1]):
        if s.status[i] <= READY:
            unready(w, s, b, i)
            drop_task(w, s, b, i)
            row = s.first_row[i]
            while row >= 0:
                if s.row_status[row] == PLANNED:
                    mark(w, s, b, s.row_device[row])
                row = s.next_row[row]
