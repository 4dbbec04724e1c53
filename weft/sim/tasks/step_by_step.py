"""The task view with a world outside: ends are reported, decisions are asked for.

State and moves are those of ``sim/tasks/moves.py`` with ``Facts.is_live``; its heap of events stays
empty.
"""

from __future__ import annotations

import numpy as np

from weft.sim.jit import lean_inlined, lean_kernel
from weft.sim.tasks.moves import cancel, close_task, commit, free_again, let_go, serve_all
from weft.sim.tasks.rules import TaskRule, decide
from weft.sim.tasks.state import (
    ABORTED,
    EXPIRED,
    PLANNED,
    READY,
    Facts,
    Tasks,
    TaskState,
    fits,
    mark,
    unready,
)
from weft.sim.tasks.turns import drop_task


@lean_kernel
def decide_live(rule: TaskRule, w: Tasks, f: Facts, s: TaskState, b: int) -> None:
    """Start what reservations and the rule allow now; ``s.wake`` is when to ask again."""
    s.wake[b] = np.inf
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        if s.queue[p] >= 0:
            mark(w, s, b, p)
    serve_all(w, f, s, b)
    if s.num_ready[b] > 0 and s.num_free[b] > 0:
        decide(rule, w, f, s, b)


@lean_kernel
def abort(w: Tasks, s: TaskState, b: int, row: int) -> None:
    """A running row came to nothing: its task waits for a decision again, unless its job has expired."""
    let_go(w, s, b, row, ABORTED)
    free_again(w, s, b, s.row_task[row])


@lean_kernel
def adopt(w: Tasks, f: Facts, s: TaskState, b: int, i: int, p: int) -> int:
    """Task i was started on device p without a decision: what was reserved for it elsewhere is given up.

    Returns its row; -1 where it is not ready, or the device is away or has no room.
    """
    if s.status[i] != READY or not s.is_up[p] or not fits(w, s, b, i, p):
        return -1
    row = s.first_row[i]
    while row >= 0:
        after = s.next_row[row]
        if s.row_status[row] == PLANNED:
            cancel(w, s, b, row)
        row = after
    return commit(w, f, s, b, i, p)


@lean_inlined
def _drop(w: Tasks, s: TaskState, b: int, i: int) -> None:
    if s.status[i] <= READY:
        unready(w, s, b, i)
        s.job_left[w.job[i]] -= s.work[i]
    drop_task(w, s, b, i)
    close_task(w, s, b, i)


@lean_kernel
def give_up(w: Tasks, s: TaskState, b: int, i: int) -> None:
    """Task i has failed for good: all that needs it is dropped with it, the rest of its job goes on."""
    base, height = w.task_ptr[b], np.int64(1)
    _drop(w, s, b, i)
    s.stack[base] = i
    while height > 0:
        height -= 1
        at = s.stack[base + height]
        for e in range(w.succ_ptr[at], w.succ_ptr[at + 1]):
            if s.status[w.succ[e]] != EXPIRED:
                _drop(w, s, b, w.succ[e])
                s.stack[base + height] = w.succ[e]
                height += 1
