"""Min-min: always place the ready task that can finish first, ties by index.

Two ways to find it. The quick one: no task starts on a class before one of its devices has room, so
that time plus the shortest run on the class bounds all finishes; a task that meets the least bound
is first. The sure one: finishes only grow, so a heap of old values is enough.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Floats, Ints
from weft.sim.arrays import SLOTS, Arrays
from weft.sim.jit import lean_inlined as inlined
from weft.sim.jit import lean_kernel
from weft.sim.timeline.list_planning import before, place, pop, push
from weft.sim.timeline.timelines import Timeline, earliest, may_run, ready_times


class Waiting(NamedTuple):
    """Ready tasks by earliest finish as last seen, and by run time on every class."""

    heap: Ints  # (num_tasks,)
    size: Ints  # (1,)
    key: Floats  # (num_tasks,) minus the earliest finish when last seen
    device: Ints  # (num_tasks,) where that is
    seen: Ints  # (num_tasks,) version of that device then
    version: Ints  # (num_devices,) tasks placed there
    by_run: Ints  # (num_classes, num_tasks) one heap per class
    run_size: Ints  # (num_classes,)
    run_key: Floats  # (num_classes, num_tasks) minus the run time
    longer: Floats  # (num_classes, num_tasks) the next longer run time of any task
    room_from: Ints  # (num_devices,) first step of a shared device that may have room
    room: Floats  # (num_classes,) buffer: when a device of the class first has room
    left: Ints  # (num_tasks,) parents that are not placed yet


def new_waiting(a: Arrays) -> Waiting:
    """Nothing is ready yet."""
    n, num_classes = a.run.shape
    num_devices = len(a.device_class)
    return Waiting(
        heap=np.empty(n, np.int64),
        size=np.zeros(1, np.int64),
        key=np.zeros(n),
        device=np.zeros(n, np.int64),
        seen=np.zeros(n, np.int64),
        version=np.zeros(num_devices, np.int64),
        by_run=np.empty((num_classes, n), np.int64),
        run_size=np.zeros(num_classes, np.int64),
        run_key=np.ascontiguousarray(-a.run.T),
        longer=_longer(a.run),
        room_from=np.zeros(num_devices, np.int64),
        room=np.empty(num_classes),
        left=np.diff(a.pred_ptr),
    )


def _longer(run: Floats) -> Floats:
    """For every class and task the least run time above its own; infinite for the longest."""
    longer = np.empty((run.shape[1], len(run)))
    for c, column in enumerate(run.T):
        values = np.append(np.unique(column), np.inf)
        longer[c] = values[np.searchsorted(values, column, side="right").clip(max=len(values) - 1)]
    return longer


def place_min_min(a: Arrays, t: Timeline) -> None:
    """Place all tasks."""
    _place_all(a, t, new_waiting(a), np.zeros((0, 0)))


@lean_kernel
def _place_all(a: Arrays, t: Timeline, w: Waiting, no_bias: Floats) -> None:
    n, left = len(a.release), w.left
    nobody, yes, no = np.int64(-1), np.bool_(True), np.bool_(False)
    for i in range(n):
        if left[i] == 0:
            _add(a, t, w, i)
    for _ in range(n):
        i = _first_by_bound(a, t, w)
        if i < 0:
            i = _first_by_value(a, t, w)
        place(a, t, i, nobody, no_bias, yes, no, t.ready)
        w.version[t.row_device[t.first_row[i]]] += 1
        for e in range(a.succ_ptr[i], a.succ_ptr[i + 1]):
            j = a.succ[e]
            left[j] -= 1
            if left[j] == 0:
                _add(a, t, w, j)


@inlined
def _add(a: Arrays, t: Timeline, w: Waiting, i: int) -> None:
    _refresh(a, t, w, i)
    w.size[0] = push(w.heap, w.size[0], w.key, i)
    for c in range(len(w.run_size)):
        if w.run_key[c, i] > -np.inf:
            w.run_size[c] = push(w.by_run[c], w.run_size[c], w.run_key[c], i)


@inlined
def _refresh(a: Arrays, t: Timeline, w: Waiting, i: int) -> None:
    w.key[i], w.device[i] = _least_finish(a, t, w, i)
    w.key[i] = -w.key[i]
    w.seen[i] = w.version[w.device[i]]


@inlined
def _least_finish(a: Arrays, t: Timeline, w: Waiting, i: int) -> tuple[float, int]:
    """Earliest finish of task i as things stand, and its device."""
    insert = np.bool_(True)
    ready = t.ready
    ready_times(a, t, i, ready)
    best, device = np.inf, np.int64(0)
    for p in range(len(ready)):
        if may_run(a, i, p):
            run = a.run[i, a.device_class[p]]
            if ready[p] + run < best:
                finish = earliest(a, t, p, i, ready[p], insert) + run
                if finish < best:
                    best, device = finish, np.int64(p)
    return best, device


@inlined
def _first_by_value(a: Arrays, t: Timeline, w: Waiting) -> int:
    """Take the head of the heap until its value is fresh: nothing was placed on its device since."""
    while True:
        i = w.heap[0]
        w.size[0] = pop(w.heap, w.size[0], w.key)
        if t.first_row[i] >= 0:
            continue
        if w.seen[i] == w.version[w.device[i]]:
            return i
        _refresh(a, t, w, i)
        if w.size[0] == 0 or before(w.key, i, w.heap[0]):
            return i
        w.size[0] = push(w.heap, w.size[0], w.key, i)


@inlined
def _first_by_bound(a: Arrays, t: Timeline, w: Waiting) -> int:
    """The task that meets the least bound if no other can tie with it; else -1."""
    num_classes = len(w.run_size)
    room = w.room
    room[:] = np.inf
    for p in range(len(a.device_class)):
        c = a.device_class[p]
        room[c] = min(room[c], _room(a, t, w, p))
    least, i = np.inf, np.int64(-1)
    for c in range(num_classes):
        while w.run_size[c] > 0 and t.first_row[w.by_run[c, 0]] >= 0:
            w.run_size[c] = pop(w.by_run[c], w.run_size[c], w.run_key[c])
        if w.run_size[c] > 0 and room[c] - w.run_key[c, w.by_run[c, 0]] < least:
            i = w.by_run[c, 0]
            least = room[c] - w.run_key[c, i]
    for c in range(num_classes):
        if w.run_size[c] > 0:
            head = w.by_run[c, 0]
            other = room[c] + (w.longer[c, i] if head == i else -w.run_key[c, head])
            if other <= least:
                return np.int64(-1)
    if i < 0 or _least_finish(a, t, w, i)[0] > least:
        return np.int64(-1)
    return i


@inlined
def _room(a: Arrays, t: Timeline, w: Waiting, p: int) -> float:
    """When a device first has room, at the soonest; it never gets sooner."""
    base = t.base[p]
    if a.is_unary[p]:
        return t.gap_start[base]
    at = w.room_from[p]
    while at + 1 < t.size[p] and t.step_used[base + at, SLOTS] >= a.capacity[p, SLOTS]:
        at += 1
    w.room_from[p] = at
    return t.step_time[base + at]
