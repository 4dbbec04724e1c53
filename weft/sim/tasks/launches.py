"""Launches in the task view: tasks of a chain that are started together and run as one, on one device.

A launch is one row until it ends: its first task holds the device, and all of them count as started. When it ends, each of the others is given
its row. Nothing is known of a launch before its end: only then are its tasks done, and the next instances of their pipeline let in.
"""

from __future__ import annotations

import numpy as np

from weft.sim.jit import lean_inlined as inlined
from weft.sim.jit import lean_kernel as kernel
from weft.sim.tasks.moves import begin_row, close_task, let_go, settle
from weft.sim.tasks.state import (
    DONE,
    ENDED,
    NUM_STARTED,
    STARTED,
    Facts,
    Tasks,
    TaskState,
    data_ready,
    expected_run,
    new_row,
    unready,
)
from weft.sim.tasks.turns import let_in


@inlined
def follower(w: Tasks, i: int, c: int) -> int:
    """The task that can follow task i within a launch on class c, -1: none."""
    if w.succ_ptr[i + 1] - w.succ_ptr[i] != 1:
        return np.int64(-1)
    j = w.succ[w.succ_ptr[i]]
    is_held = w.num_in[j] == 1
    for r in range(w.demand.shape[1]):
        is_held = is_held and w.demand[j, r] == w.demand[i, r]
    return j if is_held and w.saved[j, c] > 0.0 and w.run[j, c] < np.inf else np.int64(-1)


@kernel
def longest_launch(w: Tasks, s: TaskState, i: int, c: int) -> int:
    """How many tasks from task i on one launch on class c can have: all are in one chain, and it is their turn."""
    count, at = np.int64(1), np.int64(i)
    if w.saved.shape[0] == 0:
        return count
    while True:
        at = follower(w, at, c)
        if at < 0 or (len(w.waits_for) > 0 and not s.is_its_turn[at]):
            return count
        count += 1


@kernel
def launch(w: Tasks, f: Facts, s: TaskState, b: int, i: int, p: int, depth: int) -> int:
    """Start a ready task and the ``depth - 1`` that follow it as one, on a device that has room; returns its row."""
    row = new_row(s, b, i, p)
    if row < 0:
        return row
    unready(w, s, b, i)
    c, start = w.device_class[p], max(s.now[b], data_ready(w, f, s, b, i, p))
    expected, end = start + expected_run(w, s, i, c), start + f.run[i, c]
    s.lead[i] = i
    at = np.int64(i)
    for _ in range(depth - 1):
        at = w.succ[w.succ_ptr[at]]
        s.lead[at], s.status[at] = i, STARTED
        s.job_left[w.job[at]] -= s.work[at]
        s.count[b, NUM_STARTED] += 1
        expected += expected_run(w, s, at, c) * (1.0 - w.saved[at, c])
        end += f.run[at, c] * (1.0 - w.saved[at, c])
    begin_row(w, f, s, b, row, start, expected, end)
    return row


@inlined
def is_led(w: Tasks, s: TaskState, i: int, lead: int) -> bool:
    """Whether another task of the same launch follows task i."""
    first = w.succ_ptr[i]
    return first < w.succ_ptr[i + 1] and s.lead[w.succ[first]] == lead


@inlined
def last_of(w: Tasks, s: TaskState, i: int) -> int:
    """The last task of the launch that task i leads; itself where it leads none."""
    at = np.int64(i)
    if len(s.lead) > 0 and s.lead[i] == i:
        while is_led(w, s, at, i):
            at = w.succ[w.succ_ptr[at]]
    return at


@kernel
def end_launch(w: Tasks, f: Facts, s: TaskState, b: int, row: int) -> None:
    """A row that leads a launch ends now: every task of it is done, each with a row of its own time."""
    lead, p = s.row_task[row], s.row_device[row]
    c, at, own = w.device_class[p], s.row_task[row], row
    let_go(w, s, b, row, ENDED)
    end = s.row_start[row] + f.run[at, c]
    while at >= 0:
        s.row_finish[own], s.status[at] = end, DONE
        following = w.succ[w.succ_ptr[at]] if is_led(w, s, at, lead) else np.int64(-1)
        settle(w, f, s, b, at)
        close_task(w, s, b, at)
        if len(w.lets_in) > 0:
            let_in(w, s, b, at)
        if following >= 0:
            unready(w, s, b, following)
            own = new_row(s, b, following, p)
            s.row_start[own], s.row_status[own] = end, ENDED
            end += f.run[following, c] * (1.0 - w.saved[following, c])
        at = following
