"""Instances of pipelines in the task view: when tasks become ready, whose turn it is, and which releases are dropped.

A task whose instance is kept in order has one open edge more, from the same task of the former instance; of first
tasks the release is then the edge that is taken. Whatever is dropped lets the next instance in once its own turn has come.
"""

from __future__ import annotations

from weft.sim.jit import lean_inlined as inlined
from weft.sim.tasks.state import (
    EXPIRED,
    NUM_EXPIRED,
    PLANNED,
    READY,
    SKIPS,
    TAKEN,
    Tasks,
    TaskState,
    mark,
    offer,
)


@inlined
def make_ready(w: Tasks, s: TaskState, b: int, i: int) -> None:
    """All parents of task i are settled and one edge is taken."""
    if s.is_expired[w.job[i]]:
        s.status[i] = EXPIRED
        return
    s.status[i] = READY
    is_reserved = False
    row = s.first_row[i]
    while row >= 0:
        if s.row_status[row] == PLANNED:
            is_reserved = True
            mark(w, s, b, s.row_device[row])
        row = s.next_row[row]
    if not is_reserved:
        offer(w, s, b, i)


@inlined
def begin_turns(w: Tasks, s: TaskState, b: int) -> None:
    """Nobody but the first instance of a series has its turn."""
    for i in range(w.task_ptr[b], w.task_ptr[b + 1]):
        s.is_its_turn[i] = w.waits_for[i] < 0
        if w.waits_for[i] >= 0:
            s.open_edges[i] += 1


@inlined
def let_in(w: Tasks, s: TaskState, b: int, i: int) -> None:
    """Task i is through, or dropped with its turn come: the next instance has its turn, and those behind what is dropped."""
    j = w.lets_in[i]
    while j >= 0:
        s.is_its_turn[j] = True
        s.open_edges[j] -= 1
        if s.status[j] != EXPIRED:
            if s.open_edges[j] == TAKEN:
                make_ready(w, s, b, j)
            return
        j = w.lets_in[j]


@inlined
def drop_task(w: Tasks, s: TaskState, b: int, i: int) -> None:
    """Task i, which is in no heap, never runs."""
    s.status[i] = EXPIRED
    if len(w.lets_in) > 0 and s.is_its_turn[i]:
        let_in(w, s, b, i)


@inlined
def is_overrun(w: Tasks, s: TaskState, j: int) -> bool:
    """Whether a release is dropped because the last instance that was not is still at work."""
    if len(w.former) == 0 or w.overrun[j] != SKIPS:
        return False
    k = w.former[j]
    while k >= 0 and s.is_expired[k]:
        k = w.former[k]
    return k >= 0 and s.job_open[k] > 0


@inlined
def skip(w: Tasks, s: TaskState, b: int, j: int) -> None:
    """Job j is dropped at its release."""
    s.is_expired[j] = True
    s.count[b, NUM_EXPIRED] += 1
    for i in range(w.job_task_ptr[j], w.job_task_ptr[j + 1]):
        drop_task(w, s, b, i)
