"""Device timelines for offline construction: find an idle gap, occupy it, take it back.

A device that runs one task at a time keeps a sorted list of idle gaps; any other keeps a step
profile of what is in use. Executions are rows; the copies of a task form a linked list of rows.
Everything here is numba on arrays; buffers are modified in place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.sim.arrays import Arrays
from weft.sim.jit import lean_inlined as inlined
from weft.sim.jit import lean_kernel

SLACK = 1e-9
"""Relative slack of a capacity check, for demands that are not whole numbers."""


class Timeline(NamedTuple):
    """State of all devices while a schedule is built."""

    gap_start: Floats  # (gap_pool,)
    gap_end: Floats  # (gap_pool,)
    step_time: Floats  # (step_pool,) start of a step of a profile
    step_used: Floats  # (step_pool, num_resources)
    base: Ints  # (num_devices,) first entry of the device in its pool
    size: Ints  # (num_devices,)
    room: Ints  # (num_devices,)
    top: Ints  # (2,) entries given out in the gap pool and in the step pool
    shortest: Floats  # (num_classes,) no task is shorter on that class: smaller gaps are dropped
    row_task: Ints  # (max_rows,)
    row_device: Ints  # (max_rows,)
    row_start: Floats  # (max_rows,)
    row_finish: Floats  # (max_rows,)
    next_row: Ints  # (max_rows,) next copy of the same task, -1 at the end
    first_row: Ints  # (num_tasks,) -1: not placed yet
    num_rows: Ints  # (1,)
    last_finish: Floats  # (num_devices,) for append mode
    ready: Floats  # (num_devices,) buffer: when the data of the task at hand is there


FIRST_ROOM = 4


def new_timeline(a: Arrays, extra_rows: int = 0) -> Timeline:
    """Empty timelines with room for every task once and ``extra_rows`` copies."""
    num_tasks, num_devices = len(a.release), len(a.device_class)
    rows = num_tasks + extra_rows
    unary = int(a.is_unary.sum())
    gaps = 4 * rows + 2 * FIRST_ROOM * unary if unary else 0
    steps = 8 * rows + 2 * FIRST_ROOM * (num_devices - unary) if unary < num_devices else 0
    shortest = a.run.min(axis=0) if num_tasks else np.zeros(a.run.shape[1])
    timeline = Timeline(
        gap_start=np.empty(gaps),
        gap_end=np.empty(gaps),
        step_time=np.empty(steps),
        step_used=np.zeros((steps, a.demand.shape[1])),
        base=np.zeros(num_devices, np.int64),
        size=np.zeros(num_devices, np.int64),
        room=np.zeros(num_devices, np.int64),
        top=np.zeros(2, np.int64),
        shortest=shortest,
        row_task=np.empty(rows, np.int64),
        row_device=np.empty(rows, np.int64),
        row_start=np.empty(rows),
        row_finish=np.empty(rows),
        next_row=np.empty(rows, np.int64),
        first_row=np.empty(num_tasks, np.int64),
        num_rows=np.zeros(1, np.int64),
        last_finish=np.zeros(num_devices),
        ready=np.empty(num_devices),
    )
    clear(a.is_unary, timeline)
    return timeline


@lean_kernel
def clear(is_unary: Bools, t: Timeline) -> None:
    """Make all devices idle again."""
    t.top[:] = 0
    t.num_rows[0] = 0
    t.first_row[:] = -1
    t.last_finish[:] = 0.0
    for p in range(len(is_unary)):
        pool = 0 if is_unary[p] else 1
        t.base[p] = t.top[pool]
        t.room[p] = FIRST_ROOM
        t.size[p] = 1
        t.top[pool] += FIRST_ROOM
        if is_unary[p]:
            t.gap_start[t.base[p]] = 0.0
            t.gap_end[t.base[p]] = np.inf
        else:
            t.step_time[t.base[p]] = 0.0
            for r in range(t.step_used.shape[1]):
                t.step_used[t.base[p], r] = 0.0


@inlined
def earliest(a: Arrays, t: Timeline, p: int, i: int, ready: float, insert: bool) -> float:
    """Earliest start >= ready of task i on device p."""
    duration = a.run[i, a.device_class[p]]
    if not insert:
        # nothing may start before what was appended last (on a shared device: has started)
        ready = max(ready, t.last_finish[p])
        if a.is_unary[p]:
            return ready
    if a.is_unary[p]:
        return first_gap(t.gap_start, t.gap_end, t.base[p], t.size[p], ready, duration)
    return _first_fit(a, t, p, i, ready, duration)


@inlined
def first_gap(
    gap_start: Floats, gap_end: Floats, base: int, count: int, ready: float, duration: float
) -> float:
    """Earliest start in the gaps ``[base, base + count)``.

    Takes plain arrays: reading a field of a named tuple counts references, which costs more than
    the search itself in the innermost loop.
    """
    low, high = base, base + count
    while low < high:  # first gap that ends late enough
        middle = (low + high) // 2
        if gap_end[middle] < ready + duration:
            low = middle + 1
        else:
            high = middle
    for g in range(low, base + count):
        start = max(ready, gap_start[g])
        if start + duration <= gap_end[g]:
            return start
    return np.inf


@inlined
def _first_fit(a: Arrays, t: Timeline, p: int, i: int, ready: float, duration: float) -> float:
    base, end = t.base[p], t.base[p] + t.size[p]
    low, high = base, end
    while low < high:  # last step that starts no later than ready
        middle = (low + high) // 2
        if t.step_time[middle] <= ready:
            low = middle + 1
        else:
            high = middle
    start = ready
    s = low - 1
    while s < end:
        if s > low - 1 and t.step_time[s] >= start + duration:
            return start
        if not _fits(a, t, p, i, s):
            if s + 1 == end:
                return np.inf
            start = max(ready, t.step_time[s + 1])
        s += 1
    return start


@inlined
def _fits(a: Arrays, t: Timeline, p: int, i: int, s: int) -> bool:
    for r in range(a.demand.shape[1]):
        if t.step_used[s, r] + a.demand[i, r] > a.capacity[p, r] * (1.0 + SLACK):
            return False
    return True


@inlined
def occupy(a: Arrays, t: Timeline, p: int, i: int, start: float) -> tuple[int, float, float, int]:
    """Take the time of task i on device p; returns the journal entry that ``release`` undoes."""
    finish = start + a.run[i, a.device_class[p]]
    if a.is_unary[p]:
        return take_gap(t, p, start, finish, t.shortest[a.device_class[p]])
    made = 0
    if finish > start:
        for is_end in range(2):  # one call, inlined once
            made += int(split_step(t, p, finish if is_end else start)) << is_end
        _add(a, t, p, i, start, finish, 1.0)
    return -1, start, finish, made


@inlined
def take_gap(
    t: Timeline, p: int, start: float, finish: float, shortest: float
) -> tuple[int, float, float, int]:
    gap_starts, gap_ends = t.gap_start, t.gap_end
    low, high = t.base[p], t.base[p] + t.size[p]
    while low < high:  # the gap that holds [start, finish]
        middle = (low + high) // 2
        if gap_ends[middle] < finish:
            low = middle + 1
        else:
            high = middle
    g = low
    gap_start, gap_end = gap_starts[g], gap_ends[g]
    offset = g - t.base[p]
    if finish == start:
        return offset, gap_start, gap_end, 1
    left = start - gap_start > 0.0 and start - gap_start >= shortest
    right = gap_end - finish > 0.0 and gap_end - finish >= shortest
    pieces = int(left) + int(right)
    if pieces == 2:
        _insert_gap(t, p, offset)
        g = t.base[p] + offset
        gap_starts[g], gap_ends[g] = gap_start, start
        gap_starts[g + 1], gap_ends[g + 1] = finish, gap_end
    elif left:
        gap_ends[g] = start
    elif right:
        gap_starts[g] = finish
    else:
        for k in range(g, t.base[p] + t.size[p] - 1):
            gap_starts[k], gap_ends[k] = gap_starts[k + 1], gap_ends[k + 1]
        t.size[p] -= 1
    return offset, gap_start, gap_end, pieces


@inlined
def _insert_gap(t: Timeline, p: int, offset: int) -> None:
    """Open a place before entry ``offset`` of device p."""
    gap_start, gap_end = t.gap_start, t.gap_end
    if t.size[p] == t.room[p]:
        new = t.top[0]
        t.top[0] += 2 * t.room[p]
        for k in range(t.size[p]):
            gap_start[new + k] = gap_start[t.base[p] + k]
            gap_end[new + k] = gap_end[t.base[p] + k]
        t.base[p] = new
        t.room[p] *= 2
    for k in range(t.base[p] + t.size[p], t.base[p] + offset, -1):
        gap_start[k], gap_end[k] = gap_start[k - 1], gap_end[k - 1]
    t.size[p] += 1


@inlined
def _copy_step(t: Timeline, source: int, target: int) -> None:
    for r in range(t.step_used.shape[1]):
        t.step_used[target, r] = t.step_used[source, r]


@inlined
def split_step(t: Timeline, p: int, time: float) -> bool:
    """Make a step of device p begin at this time; returns whether none did."""
    low, high = t.base[p], t.base[p] + t.size[p]
    while low < high:
        middle = (low + high) // 2
        if t.step_time[middle] < time:
            low = middle + 1
        else:
            high = middle
    if low < t.base[p] + t.size[p] and t.step_time[low] == time:
        return False
    offset = low - t.base[p]
    if t.size[p] == t.room[p]:
        new = t.top[1]
        t.top[1] += 2 * t.room[p]
        for k in range(t.size[p]):
            t.step_time[new + k] = t.step_time[t.base[p] + k]
            _copy_step(t, t.base[p] + k, new + k)
        t.base[p] = new
        t.room[p] *= 2
    at = t.base[p] + offset
    for k in range(t.base[p] + t.size[p], at, -1):
        t.step_time[k] = t.step_time[k - 1]
        _copy_step(t, k - 1, k)
    t.step_time[at] = time
    if offset:
        _copy_step(t, at - 1, at)
    else:
        for r in range(t.step_used.shape[1]):
            t.step_used[at, r] = 0.0
    t.size[p] += 1
    return True


@inlined
def _add(a: Arrays, t: Timeline, p: int, i: int, start: float, finish: float, sign: float) -> None:
    for s in range(t.base[p], t.base[p] + t.size[p]):
        if t.step_time[s] >= finish:
            break
        if t.step_time[s] >= start:
            for r in range(a.demand.shape[1]):
                t.step_used[s, r] += sign * a.demand[i, r]


@inlined
def take_back(a: Arrays, t: Timeline, p: int, i: int, entry: tuple[int, float, float, int]) -> None:
    """Undo ``occupy``; entries must come back in reverse order."""
    offset, first, last, pieces = entry
    if offset < 0:
        if last > first:
            _add(a, t, p, i, first, last, -1.0)
            if pieces & 2:
                _drop_step(t, p, last)
            if pieces & 1:
                _drop_step(t, p, first)
        return
    g = t.base[p] + offset
    if pieces == 0:
        _insert_gap(t, p, offset)
        g = t.base[p] + offset
    elif pieces == 2:
        for k in range(g + 1, t.base[p] + t.size[p] - 1):
            t.gap_start[k], t.gap_end[k] = t.gap_start[k + 1], t.gap_end[k + 1]
        t.size[p] -= 1
    t.gap_start[g], t.gap_end[g] = first, last


@inlined
def _drop_step(t: Timeline, p: int, time: float) -> None:
    """Remove the step that begins at this time.

    Whether ``occupy`` made it is known: what is in use on its two sides may differ by rounding.
    """
    end = t.base[p] + t.size[p]
    s = t.base[p]
    while s < end and t.step_time[s] != time:
        s += 1
    for k in range(s, end - 1):
        t.step_time[k] = t.step_time[k + 1]
        _copy_step(t, k + 1, k)
    t.size[p] -= 1


@inlined
def add_row(a: Arrays, t: Timeline, p: int, i: int, start: float) -> float:
    """Place one execution of task i on device p at this start; returns its finish."""
    occupy(a, t, p, i, start)
    finish = start + a.run[i, a.device_class[p]]
    row = t.num_rows[0]
    t.num_rows[0] += 1
    t.row_task[row] = i
    t.row_device[row] = p
    t.row_start[row] = start
    t.row_finish[row] = finish
    t.next_row[row] = t.first_row[i]
    t.first_row[i] = row
    mark = finish if a.is_unary[p] else start
    t.last_finish[p] = max(t.last_finish[p], mark)
    return finish


@inlined
def arrival(a: Arrays, t: Timeline, k: int, data: float, p: int) -> float:
    """When the data of task k can be on device p, from the copy that is there first."""
    group, latency, inverse = a.group, a.latency, a.inverse
    next_row, row_finish, row_device = t.next_row, t.row_finish, t.row_device
    best = np.inf
    row = t.first_row[k]
    while row >= 0:
        q = row_device[row]
        there = row_finish[row]
        if q != p:
            there += latency[group[q], group[p]] + data * inverse[group[q], group[p]]
        best = min(best, there)
        row = next_row[row]
    return best


@inlined
def ready_times(a: Arrays, t: Timeline, i: int, ready: Floats) -> None:
    """Fill ``ready[p]``: when all data of task i (from parents placed so far) is on device p."""
    group, latency, inverse, pred, pred_data = a.group, a.latency, a.inverse, a.pred, a.pred_data
    first_row, next_row, row_finish, row_device = t.first_row, t.next_row, t.row_finish, t.row_device
    num_devices = len(ready)
    is_uniform = len(latency) == 1
    earliest_start = a.release[i]
    for p in range(num_devices):
        ready[p] = earliest_start
    for e in range(a.pred_ptr[i], a.pred_ptr[i + 1]):
        row = first_row[pred[e]]
        if row < 0:
            continue
        data = pred_data[e]
        if next_row[row] >= 0:
            for p in range(num_devices):
                ready[p] = max(ready[p], arrival(a, t, pred[e], data, p))
            continue
        finish, q = row_finish[row], row_device[row]
        own = max(ready[q], finish)
        if is_uniform:
            there = finish + (latency[0, 0] + data * inverse[0, 0])
            for p in range(num_devices):
                ready[p] = max(ready[p], there)
        else:
            g = group[q]
            for p in range(num_devices):
                h = group[p]
                ready[p] = max(ready[p], finish + (latency[g, h] + data * inverse[g, h]))
        ready[q] = own


@inlined
def may_run(a: Arrays, i: int, p: int) -> bool:
    """Whether task i can and may run on device p."""
    if a.run[i, a.device_class[p]] == np.inf:
        return False
    return a.allowed.shape[0] == 0 or a.allowed[a.job[i], p]


def rows_of(t: Timeline) -> dict[str, Any]:
    """The rows placed so far as columns of a schedule; copies are numbered by placement."""
    n = int(t.num_rows[0])
    task = t.row_task[:n].copy()
    by_task = np.argsort(task, kind="stable")
    first = np.r_[True, np.diff(task[by_task]) != 0] if n else np.zeros(0, bool)
    run_start = np.maximum.accumulate(np.where(first, np.arange(n), 0)) if n else np.zeros(0, int)
    copy = np.empty(n, np.int32)
    copy[by_task] = np.arange(n) - run_start
    return {
        "task": task,
        "device": t.row_device[:n].copy(),
        "start": t.row_start[:n].copy(),
        "finish": t.row_finish[:n].copy(),
        "copy": copy,
    }
