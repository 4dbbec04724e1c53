"""Dispatching rules of the task view: which ready task starts where, now.

A rule is a number for the order of the ready tasks and one for the choice of the device:

- ``IDLE``: each task in turn to the device with room where it finishes first;
- ``VIRTUAL``: all devices count, busy ones from when they are expected to be free. Each task in turn
  joins the virtual queue where it finishes first; what is first on a device with room starts;
- ``LATE``: the same, but a task starts only when its data is there; until then its place is kept
  virtually, later tasks may fill one gap per device, and the rule is asked again when it begins.
  The price of a device for the time of a task is added to its finish.

The virtual queue of a device with several slots is emptied by all of them: behind what waits, a task starts when
as much slot time has passed. Beside it, a task starts at once if enough slots are left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Floats, Ints
from weft.sim.heap import pop_event, push_event
from weft.sim.jit import inlined, kernel, lean_inlined, lean_kernel
from weft.sim.tasks.clock import advance, begin, is_due, next_time, pass_events
from weft.sim.tasks.moves import commit
from weft.sim.tasks.state import (
    DONE,
    ENDED,
    NUM_ASKED,
    Facts,
    Tasks,
    TaskState,
    data_ready,
    expected_run,
    fits,
    may_use,
    offer,
    unready,
)

IDLE, VIRTUAL, LATE = range(3)
BY_KEY, BY_LEFT, BY_RATIO = range(3)
NOTHING = -1


class TaskRule(NamedTuple):
    """One rule and what it knows; keys and work are columns of the state."""

    order: int  # BY_KEY; BY_LEFT: least work of the job left first; BY_RATIO: its logarithm minus ``ratio``
    device: int  # IDLE, VIRTUAL or LATE
    look: int  # VIRTUAL and LATE look at this many ready tasks per device
    ratio: Floats  # (num_tasks,) upward rank over the largest of the job, or (0,)
    price: Floats  # (num_jobs, num_classes) of a unit of time, from the so-many-th arrival on, or (0, 0)


@lean_inlined
def expected_room(w: Tasks, s: TaskState, b: int, i: int, p: int) -> float:
    """When device p is expected to have room for task i, reservations counted."""
    now = s.now[b]
    room = now
    if s.running[p] >= 0 and not fits(w, s, i, p):
        row = s.running[p]
        room = np.inf if not w.is_unary[p] else s.row_expected[row]
        while row >= 0:  # on a shared device: when the first of those that run is expected to end
            room = min(room, s.row_expected[row])
            row = s.after[row]
    return max(now, room) + s.queued[p] / w.capacity[p, 0]


@lean_kernel
def write_finishes(w: Tasks, f: Facts, s: TaskState, b: int, tasks: Ints, finishes: Floats) -> None:
    """Expected finish of each of these ready tasks on every device of environment b.

    ``finishes`` is (num_asked, num_devices), infinite where a task must not or cannot run.
    """
    first = w.device_ptr[b]
    for k in range(len(tasks)):
        i = tasks[k]
        for p in range(first, w.device_ptr[b + 1]):
            finishes[k, p - first] = np.inf
            if s.is_up[p] and may_use(w, b, i, p):
                start = max(expected_room(w, s, b, i, p), data_ready(w, f, s, b, i, p))
                finishes[k, p - first] = start + expected_run(w, s, i, w.device_class[p])


@kernel
def write_ready(rule: TaskRule, w: Tasks, s: TaskState, b: int, tasks: Ints) -> int:
    """Fill ``tasks`` with the ready tasks that come first; returns how many there are."""
    size, times, items = _ordered(rule, w, s, b)
    count = min(size, len(tasks))
    for k in range(count):
        tasks[k] = items[0]
        size = pop_event(times, items, size)
    return count


@lean_inlined
def _score(rule: TaskRule, w: Tasks, s: TaskState, i: int) -> float:
    """Smaller goes first."""
    if rule.order == BY_KEY:
        return s.key[i]
    left = s.job_left[w.job[i]]
    if rule.order == BY_LEFT:
        return left
    return np.log(max(left, 1e-300)) - rule.ratio[i]


@inlined
def _ordered(rule: TaskRule, w: Tasks, s: TaskState, b: int) -> tuple[int, Floats, Ints]:
    """The ready tasks as a heap by (score, task)."""
    first = w.task_ptr[b]
    times, items = np.empty(s.num_ready[b]), np.empty(s.num_ready[b], np.int64)
    size = np.int64(0)
    for k in range(s.num_ready[b]):
        i = s.ready[first + k]
        size = push_event(times, items, size, _score(rule, w, s, i), i)
    return size, times, items


@lean_inlined
def _last_parent(w: Tasks, f: Facts, s: TaskState, b: int, i: int, p: int) -> int:
    """The parent whose data would come last to a device linked like p that holds none of it."""
    last, parent = -1.0, np.int64(-1)
    base, size, h = w.link_ptr[b], w.num_groups[b], w.group[p]
    for e in range(w.pred_ptr[i], w.pred_ptr[i + 1]):
        k = w.pred[e]
        if s.status[k] != DONE or not f.taken[w.pred_edge[e]]:
            continue
        there, row = np.inf, s.first_row[k]
        while row >= 0:
            if s.row_status[row] == ENDED:
                link = base + w.group[s.row_device[row]] * size + h
                there = min(there, s.row_finish[row] + (w.latency[link] + w.pred_data[e] * w.inverse[link]))
            row = s.next_row[row]
        if there > last:
            last, parent = there, k
    return parent


@lean_inlined
def _idle_finish(w: Tasks, f: Facts, s: TaskState, b: int, i: int, p: int) -> float:
    return max(s.now[b], data_ready(w, f, s, b, i, p)) + expected_run(w, s, i, w.device_class[p])


@lean_inlined
def best_in_pool(w: Tasks, f: Facts, s: TaskState, b: int, i: int, pool: int) -> tuple[int, float]:
    """The device of a pool with room on which task i finishes first, ties by number, and when; -1: none.

    Of a pool of unary devices only two kinds can be best: the first with room, and those that hold
    the data that would come last. So the cost is in parents, not in devices.
    """
    best, best_finish = np.int64(-1), np.inf
    first, last = w.pool_device_ptr[pool], w.pool_device_ptr[pool + 1]
    if not w.is_unary[w.pool_devices[first]]:
        for k in range(first, last):
            p = w.pool_devices[k]
            if s.has_room[p] and fits(w, s, i, p):
                finish = _idle_finish(w, f, s, b, i, p)
                if finish < best_finish or (finish == best_finish and p < best):
                    best, best_finish = p, finish
    elif s.pool_size[pool] > 0:
        best = s.pool_heap[first]
        best_finish = _idle_finish(w, f, s, b, i, best)
        parent = _last_parent(w, f, s, b, i, best)
        row = s.first_row[parent] if parent >= 0 else np.int64(-1)
        while row >= 0:
            p = s.row_device[row]
            if s.row_status[row] == ENDED and w.pool[p] == pool and s.has_room[p]:
                finish = _idle_finish(w, f, s, b, i, p)
                if finish < best_finish or (finish == best_finish and p < best):
                    best, best_finish = p, finish
            row = s.next_row[row]
    return best, best_finish


@lean_kernel
def best_idle(w: Tasks, f: Facts, s: TaskState, b: int, i: int) -> int:
    """The device with room on which task i finishes first, ties by number; -1 if none has room for it."""
    best, best_finish = np.int64(-1), np.inf
    for pool in range(w.pool_ptr[b], w.pool_ptr[b + 1]):
        if may_use(w, b, i, w.pool_devices[w.pool_device_ptr[pool]]):
            p, finish = best_in_pool(w, f, s, b, i, pool)
            if p >= 0 and (finish < best_finish or (finish == best_finish and p < best)):
                best, best_finish = p, finish
    return best


@lean_kernel
def _decide_idle(w: Tasks, f: Facts, s: TaskState, b: int) -> None:
    """Walk the ready tasks by key; a task that fits nowhere lets others overtake."""
    first, passed = w.task_ptr[b], np.int64(0)
    while s.num_ready[b] > 0 and s.num_free[b] > 0:
        i = s.ready[first]
        p = best_idle(w, f, s, b, i)
        if p >= 0:
            commit(w, f, s, b, i, p)
        else:
            unready(w, s, b, i)
            s.stack[first + passed] = i
            passed += 1
    for k in range(passed):
        offer(w, s, b, s.stack[first + k])


@lean_inlined
def _least_cost(rule: TaskRule, w: Tasks, s: TaskState, b: int, i: int, arrival: int) -> float:
    """What the run time of task i costs where it costs least."""
    least = np.inf
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        if may_use(w, b, i, p):
            c = w.device_class[p]
            least = min(least, rule.price[arrival, c] * expected_run(w, s, i, c))
    return least


class VirtualQueues(NamedTuple):
    """Tasks that were given a place but do not start now; buffers that are written in place."""

    upto: Floats  # (num_devices,) when the device is through with them
    gaps: Floats  # (num_devices, 2) start and end of the longest gap; of several slots: now, and the first place
    kept: Floats  # (num_devices,) slots that they will hold, of devices with several


@lean_inlined
def _shared_room(w: Tasks, s: TaskState, b: int, i: int, p: int, v: VirtualQueues) -> float:
    """When a device with several slots has room for task i, beside or behind its virtual queue."""
    q, room = p - w.device_ptr[b], expected_room(w, s, b, i, p)
    return room if s.free[p, 0] - v.kept[q] >= w.demand[i, 0] else max(room, v.upto[q])


@lean_inlined
def _virtual_place(
    rule: TaskRule, w: Tasks, f: Facts, s: TaskState, b: int, i: int, v: VirtualQueues
) -> tuple[int, float, bool]:
    """Device on which task i finishes first by the virtual queues, its start, and whether it fills a gap."""
    first, upto, gaps = w.device_ptr[b], v.upto, v.gaps
    is_late, is_priced = rule.device == LATE, len(rule.price) > 0
    arrival = w.job_ptr[b] + s.next_job[b] - 1  # the latest
    least = _least_cost(rule, w, s, b, i, arrival) if is_priced else 0.0
    best, best_start, best_value, is_filling = np.int64(-1), 0.0, np.inf, False
    for p in range(first, w.device_ptr[b + 1]):
        if not s.is_up[p] or not may_use(w, b, i, p):
            continue
        q, c = p - first, w.device_class[p]
        run = expected_run(w, s, i, c)
        extra = rule.price[arrival, c] * run - least if is_priced else 0.0
        has_gap = gaps[q, 1] > gaps[q, 0] or not w.is_unary[p]
        soonest = min(upto[q], gaps[q, 0]) if has_gap else upto[q]
        if soonest + run + extra >= best_value:
            continue
        ready = data_ready(w, f, s, b, i, p)
        start = max(upto[q] if w.is_unary[p] else _shared_room(w, s, b, i, p, v), ready)
        in_gap = max(gaps[q, 0], ready)
        fills = is_late and in_gap + run <= gaps[q, 1] and in_gap < start
        if fills and not w.is_unary[p]:
            fills = fits(w, s, i, p)
        start = in_gap if fills else start
        if start + run + extra < best_value:
            best, best_start, best_value, is_filling = p, start, start + run + extra, fills
    return best, best_start, is_filling


@lean_inlined
def _join_virtual(
    w: Tasks, s: TaskState, b: int, i: int, p: int, start: float, fills: bool, v: VirtualQueues
) -> None:
    """Task i joins the virtual queue of device p, or its gap; the longest gap is kept."""
    q, upto, gaps = p - w.device_ptr[b], v.upto, v.gaps
    end = start + expected_run(w, s, i, w.device_class[p])
    if fills:
        gaps[q, 0] = end
        return
    begins = max(upto[q], s.now[b])
    if start - begins > gaps[q, 1] - gaps[q, 0]:
        gaps[q, 0], gaps[q, 1] = begins, start
    upto[q] = end


@lean_inlined
def _join_shared(w: Tasks, s: TaskState, b: int, i: int, p: int, start: float, v: VirtualQueues) -> None:
    """Task i, which starts later, joins the virtual queue of a device with several slots."""
    q, slots = p - w.device_ptr[b], w.demand[i, 0]
    v.gaps[q, 1] = min(v.gaps[q, 1], start) if v.kept[q] > 0 else start
    v.kept[q] += slots
    run = expected_run(w, s, i, w.device_class[p])
    v.upto[q] = max(v.upto[q], start) + run * slots / w.capacity[p, 0]


@lean_kernel
def _walk_virtual(
    rule: TaskRule, w: Tasks, f: Facts, s: TaskState, b: int, size: int, times: Floats, items: Ints,
    v: VirtualQueues, starts: bool,
) -> tuple[int, int]:  # fmt: skip
    """Give the ready tasks, a heap of this size, their places; ``v`` is a buffer.

    What is first on a device with room starts; or else the walk ends there and returns task and device.
    """
    first, now, is_late = w.device_ptr[b], s.now[b], rule.device == LATE
    left = 0.0
    for q in range(len(v.upto)):
        v.upto[q], v.gaps[q, 0], v.gaps[q, 1], v.kept[q] = now, now, now, 0.0
        if size > 0 and w.is_unary[first + q]:  # then the same for all tasks
            v.upto[q] = expected_room(w, s, b, items[0], first + q)
        left += rule.look * w.capacity[first + q, 0]
    while size > 0 and left > 0 and s.num_free[b] > 0:
        left -= 1
        i = items[0]
        size = pop_event(times, items, size)
        p, start, fills = _virtual_place(rule, w, f, s, b, i, v)
        if p < 0:
            continue
        has_room = s.has_room[p] and fits(w, s, i, p)
        if w.is_unary[p]:
            _join_virtual(w, s, b, i, p, start, fills, v)
        elif start > now and not fills and (is_late or not has_room):
            _join_shared(w, s, b, i, p, start, v)
        if has_room:
            if is_late and start > now:
                s.wake[b] = min(s.wake[b], start)
            elif starts:
                commit(w, f, s, b, i, p)
            else:
                return i, p
    return np.int64(-1), np.int64(-1)


@kernel
def _decide_virtual(rule: TaskRule, w: Tasks, f: Facts, s: TaskState, b: int) -> None:
    """Plan the ready tasks in order on virtual queues; start what is first on a device with room."""
    num = w.device_ptr[b + 1] - w.device_ptr[b]
    size, times, items = _ordered(rule, w, s, b)
    v = VirtualQueues(np.empty(num), np.empty((num, 2)), np.empty(num))
    _walk_virtual(rule, w, f, s, b, size, times, items, v, True)


@kernel
def first_start(rule: TaskRule, w: Tasks, f: Facts, s: TaskState, b: int) -> tuple[int, int]:
    """Task and device of what a rule with virtual queues would start first, -1 if nothing; starts nothing."""
    wake = s.wake[b]
    num = w.device_ptr[b + 1] - w.device_ptr[b]
    size, times, items = _ordered(rule, w, s, b)
    v = VirtualQueues(np.empty(num), np.empty((num, 2)), np.empty(num))
    found = _walk_virtual(rule, w, f, s, b, size, times, items, v, False)
    s.wake[b] = wake
    return found


@lean_kernel
def decide(rule: TaskRule, w: Tasks, f: Facts, s: TaskState, b: int) -> None:
    """Start everything that the rule starts now; new rows are the decisions."""
    s.count[b, NUM_ASKED] += 1
    if rule.device == IDLE:
        _decide_idle(w, f, s, b)
    else:
        _decide_virtual(rule, w, f, s, b)


@lean_kernel
def run_tasks(rule: TaskRule, w: Tasks, f: Facts, s: TaskState) -> None:
    """Every environment from its first job to the end."""
    for b in range(len(s.now)):
        begin(w, s, b)
        while not advance(w, f, s, b):
            decide(rule, w, f, s, b)


@lean_kernel
def play_until(rule: TaskRule, w: Tasks, f: Facts, s: TaskState, b: int, until: float) -> None:
    """Decide if a decision is due now, then carry out events and decisions up to a time, this included."""
    if is_due(s, b):
        decide(rule, w, f, s, b)
    while not s.overflow[b] and next_time(w, s, b) <= until and next_time(w, s, b) < np.inf:
        pass_events(w, f, s, b)
        if is_due(s, b) and next_time(w, s, b) > s.now[b]:
            decide(rule, w, f, s, b)
