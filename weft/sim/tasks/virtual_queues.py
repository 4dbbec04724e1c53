"""Rules that count on busy devices too: ready tasks are given places in virtual queues, at every decision anew."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from weft.model.graph import Floats, Ints
from weft.sim.heap import pop_event
from weft.sim.jit import kernel, lean_inlined, lean_kernel
from weft.sim.tasks.moves import commit
from weft.sim.tasks.ordering import LATE, TaskRule, ordered
from weft.sim.tasks.state import Facts, Tasks, TaskState, data_ready, expected_run, fits, may_run
from weft.sim.tasks.weights import ENERGY, GAP, LATER, NUM_ABOUT, NUM_FOLDED, OVERRUN, PRICE, THERE, WAIT

HALF_ROOT = math.sqrt(0.5)
TINY = 1e-290


@lean_inlined
def expected_room(w: Tasks, s: TaskState, b: int, i: int, p: int) -> float:
    """When device p is expected to have room for task i, reservations counted."""
    now = s.now[b]
    room = now
    if s.running[p] >= 0 and not fits(w, s, b, i, p):
        row = s.running[p]
        room = np.inf if not w.is_unary[p] else s.row_expected[row]
        while row >= 0:  # on a shared device: when the first of those that run is expected to end
            room = min(room, s.row_expected[row])
            row = s.after[row]
    return max(now, room) + s.queued[p] / w.capacity[p, 0]


@lean_inlined
def _least_cost(rule: TaskRule, w: Tasks, s: TaskState, b: int, i: int, arrival: int) -> float:
    """What the run time of task i costs where it costs least."""
    least = np.inf
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        if may_run(w, s, b, i, p):
            c = w.device_class[p]
            least = min(least, rule.price[arrival, c] * expected_run(w, s, i, c))
    return least


@lean_inlined
def _late_end(w: Tasks, s: TaskState, b: int, row: int) -> float:
    """When a row should end that has run until now: the mean of a log-normal run time of the stated noise beyond that."""
    ran, mean = s.now[b] - s.row_start[row], s.row_expected[row] - s.row_start[row]
    spread = math.sqrt(2.0 * w.log_noise[b])
    if spread == 0.0 or ran <= 0.0 or mean <= 0.0:
        return s.row_expected[row]
    z = (math.log(ran / mean) + w.log_noise[b]) / spread
    left = math.erfc(z * HALF_ROOT)  # twice the probability of a longer run
    if left < TINY:
        return s.now[b] + ran * spread / z  # as far out as numbers reach, the tail falls like this
    return s.row_start[row] + mean * math.erfc((z - spread) * HALF_ROOT) / left


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
def _least_later(rule: TaskRule, w: Tasks, s: TaskState, b: int, i: int) -> float:
    """What is to follow task i where it takes least."""
    least = np.inf
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        if may_run(w, s, b, i, p):
            least = min(least, rule.about[i, NUM_ABOUT + w.device_class[p]])
    return least


@lean_inlined
def _virtual_place(
    rule: TaskRule, w: Tasks, f: Facts, s: TaskState, b: int, i: int, fold: Floats, v: VirtualQueues
) -> tuple[int, float, bool]:
    """Device on which task i costs least by the virtual queues, its start, and whether it fills a gap.

    The cost is its finish and what the weights add: its price there, the gap that it leaves before it, and so on.
    """
    first, upto, gaps = w.device_ptr[b], v.upto, v.gaps
    is_late, is_priced = rule.device == LATE, len(rule.price) > 0 and fold[PRICE] != 0.0
    has_later, gap_cost, wait_cost = fold[LATER] != 0.0, fold[GAP], fold[WAIT]
    has_power, powers = (
        fold[ENERGY] != 0.0,
        (NUM_ABOUT + rule.about.shape[1]) // 2,
    )  # the first column of them
    can_skip = gap_cost >= 0.0 and wait_cost >= 0.0
    arrival = w.job_ptr[b] + s.next_job[b] - 1  # the latest
    least = _least_cost(rule, w, s, b, i, arrival) if is_priced else 0.0
    least_later = _least_later(rule, w, s, b, i) if has_later else 0.0
    best, best_start, best_value, is_filling = np.int64(-1), 0.0, np.inf, False
    for p in range(first, w.device_ptr[b + 1]):
        if not s.is_up[p] or not may_run(w, s, b, i, p):
            continue
        q, c = p - first, w.device_class[p]
        run = expected_run(w, s, i, c)
        extra = fold[PRICE] * (rule.price[arrival, c] * run - least) if is_priced else 0.0
        extra += fold[THERE] * run
        if has_later:
            extra += fold[LATER] * (rule.about[i, NUM_ABOUT + c] - least_later)
        if has_power:
            extra += fold[ENERGY] * rule.about[i, powers + c] * run
        has_gap = gaps[q, 1] > gaps[q, 0] or not w.is_unary[p]
        soonest = min(upto[q], gaps[q, 0]) if has_gap else upto[q]
        if can_skip and soonest + run + extra >= best_value:
            continue
        ready = data_ready(w, f, s, b, i, p)
        start = max(upto[q] if w.is_unary[p] else _shared_room(w, s, b, i, p, v), ready)
        in_gap = max(gaps[q, 0], ready)
        fills = is_late and in_gap + run <= gaps[q, 1] and in_gap < start
        if fills and not w.is_unary[p]:
            fills = fits(w, s, b, i, p)
        start = in_gap if fills else start
        extra += gap_cost * max(0.0, start - (gaps[q, 0] if fills else upto[q]))
        extra += wait_cost * max(0.0, ready - s.now[b])
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
    fold: Floats, v: VirtualQueues, starts: bool,
) -> tuple[int, int]:  # fmt: skip
    """Give the ready tasks, a heap of this size, their places; ``v`` is a buffer, ``fold`` the weights.

    What is first on a device with room starts; or else the walk ends there and returns task and device.
    """
    first, now, is_late = w.device_ptr[b], s.now[b], rule.device == LATE
    left = 0.0
    for q in range(len(v.upto)):
        v.upto[q], v.gaps[q, 0], v.gaps[q, 1], v.kept[q] = now, now, now, 0.0
        if size > 0 and w.is_unary[first + q]:  # then the same for all tasks
            v.upto[q] = expected_room(w, s, b, items[0], first + q)
            row = s.running[first + q]
            if fold[OVERRUN] != 0.0 and row >= 0:
                late = max(now, _late_end(w, s, b, row)) - max(now, s.row_expected[row])
                v.upto[q] = max(now, v.upto[q] + fold[OVERRUN] * late)
        left += rule.look * w.capacity[first + q, 0]
    while size > 0 and left > 0 and s.num_free[b] > 0:
        left -= 1
        i = items[0]
        size = pop_event(times, items, size)
        p, start, fills = _virtual_place(rule, w, f, s, b, i, fold, v)
        if p < 0:
            continue
        has_room = s.has_room[p] and fits(w, s, b, i, p)
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
def decide_virtual(rule: TaskRule, w: Tasks, f: Facts, s: TaskState, b: int) -> None:
    """Plan the ready tasks in order on virtual queues; start what is first on a device with room."""
    num = w.device_ptr[b + 1] - w.device_ptr[b]
    fold = np.zeros(NUM_FOLDED)
    size, times, items = ordered(rule, w, s, b, fold)
    v = VirtualQueues(np.empty(num), np.empty((num, 2)), np.empty(num))
    _walk_virtual(rule, w, f, s, b, size, times, items, fold, v, True)


@kernel
def first_start(rule: TaskRule, w: Tasks, f: Facts, s: TaskState, b: int) -> tuple[int, int]:
    """Task and device of what a rule with virtual queues would start first, -1 if nothing; starts nothing."""
    wake = s.wake[b]
    num = w.device_ptr[b + 1] - w.device_ptr[b]
    fold = np.zeros(NUM_FOLDED)
    size, times, items = ordered(rule, w, s, b, fold)
    v = VirtualQueues(np.empty(num), np.empty((num, 2)), np.empty(num))
    found = _walk_virtual(rule, w, f, s, b, size, times, items, fold, v, False)
    s.wake[b] = wake
    return found
