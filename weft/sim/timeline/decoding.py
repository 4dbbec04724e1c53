"""Decoding priority lists under capacities, in batches: one list in, one schedule out.

For problems in which transfers take no time (job shops, pools, stage graphs). Three decoders:

- non-delay: at every event, walk the ready tasks by priority and start each that fits;
- the same, but a waiting task whose ``hold`` is set lets nobody overtake it on its devices;
- active (Giffler and Thompson 1960): among the tasks that compete with the one that could
  finish first, the highest priority goes next, even if its device then waits.

With transfers, ``list_planning.place_all`` decodes a list by earliest finish instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.sim.arrays import Arrays
from weft.sim.heap import pop_event, push_event
from weft.sim.jit import kernel, lean_kernel
from weft.sim.jit import lean_inlined as inlined

SLACK = 1e-9


class Pools(NamedTuple):
    """Who can run where, laid out for the decoder."""

    run: Floats  # (num_tasks, num_classes)
    choices: Ints  # (num_tasks, num_classes) classes by run time
    num_choices: Ints  # (num_tasks,) how many of them can run the task
    class_ptr: Ints  # (num_classes + 1,)
    class_devices: Ints  # (num_devices,) devices grouped by class
    device_class: Ints  # (num_devices,)
    demand: Floats  # (num_tasks, num_resources)
    capacity: Floats  # (num_devices, num_resources)
    release: Floats  # (num_tasks,)
    allowed: Bools  # (num_jobs, num_devices) or (0, 0)
    job: Ints  # (num_tasks,)
    succ_ptr: Ints  # (num_tasks + 1,)
    succ: Ints  # (num_edges,)
    num_preds: Ints  # (num_tasks,)


class Scratch(NamedTuple):
    """Buffers of one decode, all overwritten."""

    waiting: Ints  # (num_tasks,)
    ready: Ints  # (num_tasks,) sorted by priority
    event_time: Floats  # (num_tasks * 2,) heap
    event_task: Ints  # (num_tasks * 2,) task i ends: i; task i is released: i + num_tasks
    free: Floats  # (num_devices, num_resources)
    class_free: Ints  # (num_classes + 1,) devices with a free slot; last: of all classes
    is_held: Bools  # (num_classes,)
    start: Floats  # (num_tasks,)
    device: Ints  # (num_tasks,)


def pools_of(a: Arrays) -> Pools:
    """Lay a compiled problem out for the decoder."""
    num_classes = a.run.shape[1]
    usable = np.where(a.class_count > 0, a.run, np.inf)
    by_class = np.argsort(a.device_class, kind="stable")
    return Pools(
        run=a.run,
        choices=np.argsort(usable, axis=1, kind="stable"),
        num_choices=np.isfinite(usable).sum(axis=1),
        class_ptr=np.searchsorted(a.device_class[by_class], np.arange(num_classes + 1)).astype(np.int64),
        class_devices=by_class,
        device_class=a.device_class,
        demand=a.demand,
        capacity=a.capacity,
        release=a.release,
        allowed=a.allowed,
        job=a.job,
        succ_ptr=a.succ_ptr,
        succ=a.succ,
        num_preds=np.diff(a.pred_ptr),
    )


def new_scratch(pools: Pools) -> Scratch:
    """Buffers for one decode at a time."""
    n, num_classes = pools.run.shape
    return Scratch(
        waiting=np.empty(n, np.int64),
        ready=np.empty(n, np.int64),
        event_time=np.empty(2 * n + 1),
        event_task=np.empty(2 * n + 1, np.int64),
        free=np.empty(pools.capacity.shape),
        class_free=np.empty(num_classes + 1, np.int64),
        is_held=np.empty(num_classes, np.bool_),
        start=np.empty(n),
        device=np.empty(n, np.int64),
    )


@inlined
def _make_ready(ready: Ints, size: int, priority: Floats, i: int) -> int:
    """Insert task i into the list sorted by priority, ties by index; without priorities at its end."""
    if len(priority) == 0:
        ready[size] = i
        return size + 1
    low, high = 0, size
    mine = priority[i]
    while low < high:
        middle = (low + high) // 2
        other = ready[middle]
        if priority[other] > mine or (priority[other] == mine and other < i):
            low = middle + 1
        else:
            high = middle
    for k in range(size, low, -1):
        ready[k] = ready[k - 1]
    ready[low] = i
    return size + 1


@inlined
def fitting_device(pools: Pools, s: Scratch, i: int) -> int:
    """Where task i can start now: the first device of its fastest free class that is not held, or -1."""
    allowed, demand, free = pools.allowed, pools.demand, s.free
    for q in range(pools.num_choices[i]):
        c = pools.choices[i, q]
        if s.class_free[c] == 0 or s.is_held[c]:
            continue
        for k in range(pools.class_ptr[c], pools.class_ptr[c + 1]):
            p = pools.class_devices[k]
            if allowed.shape[0] > 0 and not allowed[pools.job[i], p]:
                continue
            for r in range(free.shape[1]):
                if demand[i, r] > free[p, r]:
                    break
            else:
                return p
    return -1


@inlined
def hold_classes(pools: Pools, s: Scratch, i: int) -> None:
    """Let nobody behind task i start on a class of which its job may use a device."""
    for q in range(pools.num_choices[i]):
        c = pools.choices[i, q]
        may_use = pools.allowed.shape[0] == 0
        for k in range(pools.class_ptr[c], pools.class_ptr[c + 1]):
            may_use = may_use or pools.allowed[pools.job[i], pools.class_devices[k]]
        if may_use:
            s.is_held[c] = True


@inlined
def occupy(pools: Pools, s: Scratch, i: int, p: int, now: float) -> float:
    """Start task i on device p; returns when it ends."""
    for r in range(s.free.shape[1]):
        s.free[p, r] -= pools.demand[i, r]
    if s.free[p, 0] < 0.5:
        s.class_free[pools.device_class[p]] -= 1
        s.class_free[len(s.is_held)] -= 1
    s.start[i], s.device[i] = now, p
    return now + pools.run[i, pools.device_class[p]]


@inlined
def _vacate(pools: Pools, s: Scratch, i: int) -> None:
    p = s.device[i]
    if s.free[p, 0] < 0.5:
        s.class_free[pools.device_class[p]] += 1
        s.class_free[len(s.is_held)] += 1
    for r in range(s.free.shape[1]):
        s.free[p, r] += pools.demand[i, r]


@inlined
def open_tasks(pools: Pools, s: Scratch, priority: Floats) -> tuple[int, int]:
    """Count what every task waits for; returns how many are ready and how many releases are to come."""
    waiting, release = s.waiting, pools.release
    n = len(waiting)
    num_ready, num_events = np.int64(0), np.int64(0)
    for i in range(n):
        waiting[i] = pools.num_preds[i]
        if release[i] > 0.0:  # one more thing to wait for
            waiting[i] += 1
            num_events = push_event(s.event_time, s.event_task, num_events, release[i], i + n)
        elif waiting[i] == 0:
            num_ready = _make_ready(s.ready, num_ready, priority, i)
    return num_ready, num_events


@inlined
def _settle(s: Scratch, priority: Floats, num_ready: int, i: int) -> int:
    """One thing less to wait for; returns how many tasks are ready."""
    s.waiting[i] -= 1
    if s.waiting[i] == 0:
        num_ready = _make_ready(s.ready, num_ready, priority, i)
    return num_ready


@inlined
def pass_events(
    pools: Pools, s: Scratch, priority: Floats, num_ready: int, num_events: int
) -> tuple[int, int, bool]:
    """All ends and releases of the next moment; returns ready tasks, events left, whether a task ended."""
    times, tasks, succ_ptr, succ = s.event_time, s.event_task, pools.succ_ptr, pools.succ
    n, now = len(s.waiting), times[0]
    has_ended = np.bool_(False)
    while num_events > 0 and times[0] == now:
        i = tasks[0]
        num_events = pop_event(times, tasks, num_events)
        if i >= n:
            num_ready = _settle(s, priority, num_ready, i - n)
            continue
        has_ended = np.bool_(True)
        _vacate(pools, s, i)
        for e in range(succ_ptr[i], succ_ptr[i + 1]):
            num_ready = _settle(s, priority, num_ready, succ[e])
    return num_ready, num_events, has_ended


@inlined
def reset(pools: Pools, s: Scratch) -> None:
    """Everything is free."""
    for p in range(len(pools.device_class)):
        for r in range(s.free.shape[1]):
            s.free[p, r] = pools.capacity[p, r] * (1.0 + SLACK)
    num_classes = len(s.is_held)
    for c in range(num_classes):
        s.class_free[c] = pools.class_ptr[c + 1] - pools.class_ptr[c]
        s.is_held[c] = False
    s.class_free[num_classes] = len(pools.device_class)


@kernel
def descendant_sum(order: Ints, succ_ptr: Ints, succ: Ints, amount: Floats) -> Floats:
    """Sum over a task and all its descendants, each counted once; 64 descendants at a time."""
    n = len(amount)
    total = np.zeros(n)
    reach = np.empty(n, np.uint64)  # (num_tasks,) which of the 64 a task reaches
    one = np.uint64(1)
    for first in range(0, n, 64):
        last = min(n, first + 64)
        reach[:] = 0
        for i in range(first, last):
            reach[i] = one << np.uint64(i - first)
        for k in range(n - 1, -1, -1):
            i = order[k]
            mine = reach[i]
            for e in range(succ_ptr[i], succ_ptr[i + 1]):
                mine |= reach[succ[e]]
            reach[i] = mine
            for j in range(first, last):
                if mine == 0:
                    break
                if mine & one:
                    total[i] += amount[j]
                mine >>= one
    return total


@inlined
def _start_ready(
    pools: Pools, s: Scratch, hold: Bools, num_ready: int, num_events: int, now: float
) -> tuple[int, int]:
    """Start each ready task that fits, by priority; returns how many are left and the number of events."""
    ready, class_free, num_classes = s.ready, s.class_free, len(s.is_held)
    kept, is_any_held = np.int64(0), False
    for k in range(num_ready):
        if class_free[num_classes] == 0:  # nobody else can start now
            if k > kept:
                for later in range(k, num_ready):
                    ready[later - k + kept] = ready[later]
            kept += num_ready - k
            break
        i = ready[k]
        p = fitting_device(pools, s, i)
        if p >= 0:
            finish = occupy(pools, s, i, p, now)
            num_events = push_event(s.event_time, s.event_task, num_events, finish, i)
            continue
        ready[kept] = i
        kept += 1
        if len(hold) > 0 and hold[i]:
            is_any_held = True
            hold_classes(pools, s, i)
    if is_any_held:
        for c in range(num_classes):
            s.is_held[c] = False
    return kept, num_events


@lean_kernel
def decode_list(pools: Pools, s: Scratch, priority: Floats, hold: Bools) -> float:
    """Non-delay schedule of one list into ``s.start`` and ``s.device``; returns its last finish.

    ``hold`` has one flag per task, or none: then everybody may be overtaken.
    """
    reset(pools, s)
    num_ready, num_events = open_tasks(pools, s, priority)
    now, last = 0.0, 0.0
    while True:
        num_ready, num_events = _start_ready(pools, s, hold, num_ready, num_events, now)
        if num_events == 0:
            return last
        now = s.event_time[0]
        num_ready, num_events, has_ended = pass_events(pools, s, priority, num_ready, num_events)
        if has_ended:
            last = now


@lean_kernel
def decode_active(pools: Pools, s: Scratch, priority: Floats) -> float:
    """Giffler-Thompson schedule of one list; every class has one-task devices, a task one class."""
    run, succ_ptr, succ, choices = pools.run, pools.succ_ptr, pools.succ, pools.choices
    class_ptr, class_devices, free = pools.class_ptr, pools.class_devices, s.free
    waiting, ready, data_ready, starts, devices = s.waiting, s.ready, s.event_time, s.start, s.device
    n = len(priority)
    num_ready = np.int64(0)
    for p in range(len(pools.device_class)):
        free[p, 0] = 0.0  # here: when the device is idle again
    for i in range(n):
        waiting[i] = pools.num_preds[i]
        data_ready[i] = pools.release[i]
        if waiting[i] == 0:
            ready[num_ready] = i
            num_ready += 1
    last = 0.0
    while num_ready > 0:
        soonest, chosen_class = np.inf, np.int64(-1)
        for k in range(num_ready):
            i = ready[k]
            c = choices[i, 0]
            idle = np.inf
            for d in range(class_ptr[c], class_ptr[c + 1]):
                idle = min(idle, free[class_devices[d], 0])
            end = max(idle, data_ready[i]) + run[i, c]
            if end < soonest:
                soonest, chosen_class = end, c
        p = class_devices[class_ptr[chosen_class]]
        for d in range(class_ptr[chosen_class], class_ptr[chosen_class + 1]):
            if free[class_devices[d], 0] < free[p, 0]:
                p = class_devices[d]
        best, best_at, is_best_before = np.int64(-1), np.int64(-1), False
        for k in range(num_ready):
            i = ready[k]
            start = max(free[p, 0], data_ready[i])
            is_before = start < soonest
            # a task of length zero that starts at `soonest` competes only with its like
            if choices[i, 0] != chosen_class or not (is_before or start + run[i, chosen_class] == soonest):
                continue
            is_first = best < 0 or (is_before and not is_best_before)
            if not is_first and is_before == is_best_before:
                is_first = priority[i] > priority[best] or (priority[i] == priority[best] and i < best)
            if is_first:
                best, best_at, is_best_before = i, np.int64(k), is_before
        starts[best], devices[best] = max(free[p, 0], data_ready[best]), p
        end = starts[best] + run[best, chosen_class]
        free[p, 0] = end
        last = max(last, end)
        num_ready -= 1
        ready[best_at] = ready[num_ready]
        for e in range(succ_ptr[best], succ_ptr[best + 1]):
            j = succ[e]
            data_ready[j] = max(data_ready[j], end)
            waiting[j] -= 1
            if waiting[j] == 0:
                ready[num_ready] = j
                num_ready += 1
    return last


@kernel
def decode_batch(
    pools: Pools, s: Scratch, priorities: Floats, holds: Bools, is_active: bool, makespans: Floats
) -> int:
    """Decode every row of ``priorities``; fills ``makespans`` and returns the row of the best.

    ``holds`` is (batch, num_tasks), or (1, num_tasks) for all rows, or (0, 0) for none.
    """
    nobody = np.zeros(0, np.bool_)
    best = np.int64(0)
    for b in range(len(priorities)):
        if is_active:
            makespans[b] = decode_active(pools, s, priorities[b])
        elif len(holds) == 0:
            makespans[b] = decode_list(pools, s, priorities[b], nobody)
        else:
            makespans[b] = decode_list(pools, s, priorities[b], holds[min(b, len(holds) - 1)])
        if makespans[b] < makespans[best]:
            best = b
    return best
