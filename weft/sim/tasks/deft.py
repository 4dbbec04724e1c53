"""Placement by DEFT in the task view: a ready task goes where it finishes first, a copy of a parent before it if that helps.

Every device counts, busy ones from when they are expected to be free of all that waits for them. For each the
finish without a copy is compared with the finish behind a copy of the one parent whose data would come last
(Luo et al., 2021); no other copy can help. The best is carried out by reservations, so that what is placed
keeps its device and its turn, and starts when its data is there.

Data counts as expected from every execution of a parent that has ended, runs or is reserved.
"""

from __future__ import annotations

import numpy as np

from weft.sim.jit import lean_inlined, lean_kernel
from weft.sim.tasks.moves import reserve, serve_all
from weft.sim.tasks.rules import expected_room
from weft.sim.tasks.state import DONE, ENDED, RUNNING, Facts, Tasks, TaskState, may_use


@lean_inlined
def free_at(w: Tasks, s: TaskState, b: int, i: int, p: int) -> float:
    """When device p is expected to have room for task i behind all that waits for it."""
    if not w.is_unary[p]:
        room = expected_room(w, s, b, i, p)
        last = s.queue_end[p]
        return room if last < 0 else max(room, s.row_expected[last])  # a queue is served in order
    room, row = s.now[b], s.running[p]
    if row >= 0:
        room = max(room, s.row_expected[row])
    row = s.queue[p]
    while row >= 0:
        room = max(room, s.row_expected[row]) + w.run[s.row_task[row], w.device_class[p]]
        row = s.after[row]
    return room


@lean_inlined
def _expected_end(w: Tasks, s: TaskState, b: int, row: int) -> float:
    """When an execution ended or is expected to."""
    if s.row_status[row] == ENDED:
        return s.row_finish[row]
    if s.row_status[row] == RUNNING:
        return max(s.now[b], s.row_expected[row])
    return max(s.now[b], s.row_expected[row]) + w.run[s.row_task[row], w.device_class[s.row_device[row]]]


@lean_inlined
def _expected_arrival(w: Tasks, s: TaskState, b: int, k: int, data: float, p: int) -> float:
    """When data of task k should be on device p, from the copy that is there first."""
    best, row = np.inf, s.first_row[k]
    base, size, h = w.link_ptr[b], w.num_groups[b], w.group[p]
    while row >= 0:
        if s.row_status[row] <= ENDED:
            there, q = _expected_end(w, s, b, row), s.row_device[row]
            if q != p:
                link = base + w.group[q] * size + h
                there += w.latency[link] + data * w.inverse[link]
            best = min(best, there)
        row = s.next_row[row]
    return best


@lean_inlined
def _arrivals(w: Tasks, f: Facts, s: TaskState, b: int, i: int, p: int) -> tuple[float, float, int]:
    """When the last data of task i should be on device p, the last but one, and whose data is the last; -1: nobody's."""
    last = w.job_release[w.job[i]]
    before, parent = last, np.int64(-1)
    for e in range(w.pred_ptr[i], w.pred_ptr[i + 1]):
        k = w.pred[e]
        if s.status[k] != DONE or not f.taken[w.pred_edge[e]]:
            continue
        there = _expected_arrival(w, s, b, k, w.pred_data[e], p)
        if there > last:
            before, last, parent = last, there, k
        else:
            before = max(before, there)
    return last, before, parent


@lean_inlined
def is_on(s: TaskState, k: int, p: int) -> bool:
    """Whether task k ran on device p, runs there or is reserved for it."""
    row = s.first_row[k]
    while row >= 0:
        if s.row_device[row] == p and s.row_status[row] <= ENDED:
            return True
        row = s.next_row[row]
    return False


@lean_inlined
def _behind_copy(
    w: Tasks, f: Facts, s: TaskState, b: int, p: int, parent: int, room: float, before: float
) -> tuple[float, float]:
    """When a copy of a parent begins on device p, and when what has room and other data then starts behind it."""
    begins = max(free_at(w, s, b, parent, p), _arrivals(w, f, s, b, parent, p)[0])
    return begins, max(max(room, before), begins + w.run[parent, w.device_class[p]])


@lean_kernel
def copy_before(w: Tasks, f: Facts, s: TaskState, b: int, i: int, p: int) -> tuple[int, float, float]:
    """Whom to copy to device p so that ready task i starts earlier there, when the copy begins, and the task; -1: nobody."""
    room = free_at(w, s, b, i, p)
    last, before, parent = _arrivals(w, f, s, b, i, p)
    if parent >= 0 and last > room and not is_on(s, parent, p) and may_use(w, b, parent, p):
        begins, start = _behind_copy(w, f, s, b, p, parent, room, before)
        if start < last:
            return parent, begins, start
    return np.int64(-1), np.inf, np.inf


@lean_kernel
def start_behind_copy(w: Tasks, f: Facts, s: TaskState, b: int, i: int, p: int) -> None:
    """Keep ready task i for device p behind a copy of the parent whose data would come last; what can start does."""
    parent, begins, start = copy_before(w, f, s, b, i, p)
    if parent >= 0:
        reserve(w, s, b, parent, p, begins)
        reserve(w, s, b, i, p, start)
        serve_all(w, f, s, b)


@lean_kernel
def find_place(
    w: Tasks, f: Facts, s: TaskState, b: int, i: int, copies: bool
) -> tuple[int, float, int, float, float]:
    """Where a ready task finishes first, ties by number: device, start, whom to copy there, the copy's start, finish.

    The device is -1 if none that is up can take it, the parent to copy -1 if no copy helps.
    """
    best, best_start, best_parent, best_copy, best_finish = np.int64(-1), np.inf, np.int64(-1), np.inf, np.inf
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        if not s.is_up[p] or not may_use(w, b, i, p):
            continue
        run, room = w.run[i, w.device_class[p]], free_at(w, s, b, i, p)
        if room + run >= best_finish:
            continue
        last, before, parent = _arrivals(w, f, s, b, i, p)
        start = max(room, last)
        if start + run < best_finish:
            best, best_start, best_parent, best_finish = p, start, np.int64(-1), start + run
        if not copies or parent < 0 or last <= room or is_on(s, parent, p) or not may_use(w, b, parent, p):
            continue
        begins, start = _behind_copy(w, f, s, b, p, parent, room, before)
        if start + run < best_finish:
            best, best_start, best_finish = p, start, start + run
            best_parent, best_copy = parent, begins
    return best, best_start, best_parent, best_copy, best_finish


@lean_kernel
def place(w: Tasks, f: Facts, s: TaskState, b: int, i: int, copies: bool) -> int:
    """Give a ready task its place by DEFT, with a copy of a parent if that helps; returns the device, -1: none is up.

    What can start now does.
    """
    p, start, parent, begins, _ = find_place(w, f, s, b, i, copies)
    if p >= 0:
        if parent >= 0:
            reserve(w, s, b, parent, p, begins)
        reserve(w, s, b, i, p, start)
        serve_all(w, f, s, b)
    return p
