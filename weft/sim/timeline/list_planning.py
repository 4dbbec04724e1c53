"""Kernels of the HEFT family: ranks, list orders, and placing by earliest finish.

Notation follows Topcuoglu et al. (2002): mean run times, mean transfer times over ordered pairs
of different devices, ranks as longest paths.
"""

from __future__ import annotations

import numpy as np

from weft.model.graph import Floats, Ints
from weft.sim.arrays import Arrays
from weft.sim.heap import copy_into
from weft.sim.jit import kernel, lean_kernel
from weft.sim.jit import lean_inlined as inlined
from weft.sim.timeline.timelines import (
    Timeline,
    add_row,
    arrival,
    clear,
    earliest,
    first_gap,
    may_run,
    ready_times,
)


@kernel
def upward_rank(a: Arrays, mean_run: Floats) -> Floats:
    """Longest mean path from a task to an exit, itself included."""
    succ_ptr, succ, succ_data, order = a.succ_ptr, a.succ, a.succ_data, a.order
    rank = np.zeros(len(mean_run))
    for k in range(len(order) - 1, -1, -1):
        i = order[k]
        longest = 0.0
        for e in range(succ_ptr[i], succ_ptr[i + 1]):
            longest = max(longest, a.mean_latency + succ_data[e] * a.mean_inverse + rank[succ[e]])
        rank[i] = mean_run[i] + longest
    return rank


@kernel
def downward_rank(a: Arrays, mean_run: Floats) -> Floats:
    """Longest mean path from an entry to a task, itself excluded."""
    succ_ptr, succ, succ_data, order = a.succ_ptr, a.succ, a.succ_data, a.order
    rank = np.zeros(len(mean_run))
    for i in order:
        here = rank[i] + mean_run[i]
        for e in range(succ_ptr[i], succ_ptr[i + 1]):
            j = succ[e]
            rank[j] = max(rank[j], here + a.mean_latency + succ_data[e] * a.mean_inverse)
    return rank


@kernel
def optimistic_cost(a: Arrays) -> Floats:
    """PEFT's table, per class: (num_tasks, num_classes).

    Two devices of one class have equal rows, and moving within a class only adds a transfer, so
    the minimum over devices is the minimum over classes.
    """
    succ_ptr, succ, succ_data, order, run = a.succ_ptr, a.succ, a.succ_data, a.order, a.run
    num_classes = run.shape[1]
    table = np.zeros(run.shape)
    for k in range(len(order) - 1, -1, -1):
        i = order[k]
        for e in range(succ_ptr[i], succ_ptr[i + 1]):
            j = succ[e]
            moved = np.inf
            for c in range(num_classes):
                if a.class_count[c] > 0:
                    moved = min(moved, table[j, c] + run[j, c])
            moved += a.mean_latency + succ_data[e] * a.mean_inverse
            for c in range(num_classes):
                table[i, c] = max(table[i, c], min(table[j, c] + run[j, c], moved))
    return table


@kernel
def list_order(a: Arrays, priority: Floats) -> Ints:
    """Topological order that always takes the ready task of highest priority, ties by index."""
    pred_ptr, succ_ptr, succ = a.pred_ptr, a.succ_ptr, a.succ
    n = len(priority)
    heap = np.empty(n, np.int64)
    size = np.int64(0)
    waiting = np.empty(n, np.int64)
    for i in range(n):
        waiting[i] = pred_ptr[i + 1] - pred_ptr[i]
        if waiting[i] == 0:
            size = push(heap, size, priority, i)
    order = np.empty(n, np.int64)
    for k in range(n):
        i = heap[0]
        size = pop(heap, size, priority)
        order[k] = i
        for e in range(succ_ptr[i], succ_ptr[i + 1]):
            j = succ[e]
            waiting[j] -= 1
            if waiting[j] == 0:
                size = push(heap, size, priority, j)
    return order


@inlined
def before(priority: Floats, i: int, j: int) -> bool:
    """Whether i has the higher priority, or the lower index at an equal one."""
    return priority[i] > priority[j] or (priority[i] == priority[j] and i < j)


@inlined
def push(heap: Ints, size: int, priority: Floats, i: int) -> int:
    """Add i to the heap; returns its new size."""
    at = size
    while at > 0:
        up = (at - 1) // 2
        if not before(priority, i, heap[up]):
            break
        heap[at] = heap[up]
        at = up
    heap[at] = i
    return size + 1


@inlined
def pop(heap: Ints, size: int, priority: Floats) -> int:
    """Drop the head of the heap; returns its new size."""
    size -= 1
    last = heap[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and before(priority, heap[child + 1], heap[child]):
            child += 1
        if not before(priority, heap[child], last):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = last
    return size


@inlined
def _take(a: Arrays, t: Timeline, i: int, p: int, start: float, copy: int, copy_start: float) -> float:
    finish = 0.0
    for is_own in range(0 if copy >= 0 else 1, 2):  # one call: all below it is inlined once, not twice
        finish = add_row(a, t, p, i if is_own else copy, start if is_own else copy_start)
    return finish


@inlined
def place(
    a: Arrays, t: Timeline, i: int, forced: int, bias: Floats, insert: bool, duplicate: bool, ready: Floats
) -> float:
    """Place task i where its finish plus bias is smallest; returns its finish.

    ``forced`` >= 0 names the device. ``bias`` is (num_tasks, num_classes) or (0, 0).
    ``duplicate`` also tries a copy of the parent whose data comes last (DEFT). ``ready`` is a
    buffer of one value per device.
    """
    ready_times(a, t, i, ready)
    run, device_class, is_unary, allowed = a.run, a.device_class, a.is_unary, a.allowed
    gap_start, gap_end, base, count = t.gap_start, t.gap_end, t.base, t.size
    has_bias, is_restricted, job = bias.shape[0] > 0, allowed.shape[0] > 0, a.job[i]
    best_p, best_start, best_value = np.int64(-1), np.inf, np.inf
    copy, copy_start = np.int64(-1), 0.0
    first, last = (0, len(device_class)) if forced < 0 else (forced, forced + 1)
    for p in range(first, last):
        c = device_class[p]
        duration = run[i, c]
        if duration == np.inf or (is_restricted and not allowed[job, p]):
            continue
        more = duration + (bias[i, c] if has_bias else 0.0)
        if ready[p] + more < best_value or best_p < 0:
            if insert and is_unary[p]:
                start = first_gap(gap_start, gap_end, base[p], count[p], ready[p], duration)
            else:
                start = earliest(a, t, p, i, ready[p], insert)
            if start + more < best_value or best_p < 0:
                best_p, best_start, best_value, copy = p, start, start + more, np.int64(-1)
        if duplicate:
            k, k_start, k_finish, others = _copy_of_last_parent(a, t, i, p, insert)
            if k >= 0 and max(k_finish, others) < ready[p]:
                start = earliest(a, t, p, i, max(k_finish, others), insert)
                if start + more < best_value:
                    best_p, best_start, best_value = p, start, start + more
                    copy, copy_start = k, k_start
    return _take(a, t, i, best_p, best_start, copy, copy_start)


@inlined
def _copy_of_last_parent(
    a: Arrays, t: Timeline, i: int, p: int, insert: bool
) -> tuple[int, float, float, float]:
    """The parent whose data reaches p last, where its copy on p would run, and the next arrival.

    Copying any other parent cannot help: the last arrival would still bind.
    """
    last, second, parent = -1.0, a.release[i], np.int64(-1)
    for e in range(a.pred_ptr[i], a.pred_ptr[i + 1]):
        there = arrival(a, t, a.pred[e], a.pred_data[e], p)
        if there > last:
            second = max(second, last)
            last, parent = there, a.pred[e]
        else:
            second = max(second, there)
    if parent < 0 or not may_run(a, parent, p):
        return -1, 0.0, 0.0, 0.0
    row = t.first_row[parent]
    while row >= 0:
        if t.row_device[row] == p:
            return -1, 0.0, 0.0, 0.0
        row = t.next_row[row]
    ready = a.release[parent]
    for e in range(a.pred_ptr[parent], a.pred_ptr[parent + 1]):
        ready = max(ready, arrival(a, t, a.pred[e], a.pred_data[e], p))
    start = earliest(a, t, p, parent, ready, insert)
    return parent, start, start + a.run[parent, a.device_class[p]], second


@lean_kernel
def place_all(
    a: Arrays, t: Timeline, order: Ints, forced: Ints, bias: Floats, insert: bool, duplicate: bool
) -> float:
    """Place the tasks in this order; ``forced`` is one device (or -1) per task, or empty.

    Tasks that have a row already stay where they are.
    """
    nobody = np.int64(-1)
    makespan = 0.0
    for i in order:
        if t.first_row[i] >= 0:
            continue
        device = forced[i] if len(forced) > 0 else nobody
        makespan = max(makespan, place(a, t, i, device, bias, insert, duplicate, t.ready))
    return makespan


@lean_kernel
def place_assigned(
    a: Arrays, t: Timeline, order: Ints, pointer: Ints, devices: Ints, no_bias: Floats
) -> float:
    """Place every task on each of its devices ``devices[pointer[i]:pointer[i + 1]]``.

    The first may copy the parent whose data comes last; the others are copies already.
    """
    yes = np.bool_(True)
    makespan = 0.0
    for i in order:
        first = np.inf
        for k in range(pointer[i], pointer[i + 1]):
            p = devices[k]
            has_copy = np.bool_(False)
            row = t.first_row[i]
            while row >= 0:
                has_copy = has_copy or t.row_device[row] == p
                row = t.next_row[row]
            if not has_copy:
                first = min(first, place(a, t, i, p, no_bias, yes, k == pointer[i], t.ready))
        if first < np.inf:
            makespan = max(makespan, first)
    return makespan


@kernel
def queue_order(a: Arrays) -> Ints:
    """Tasks in the order in which their last parent is taken from this same queue."""
    pred_ptr, succ_ptr, succ = a.pred_ptr, a.succ_ptr, a.succ
    n = len(a.release)
    waiting = np.empty(n, np.int64)
    order = np.empty(n, np.int64)
    size = 0
    for i in range(n):
        waiting[i] = pred_ptr[i + 1] - pred_ptr[i]
        if waiting[i] == 0:
            order[size] = i
            size += 1
    for k in range(n):
        for e in range(succ_ptr[order[k]], succ_ptr[order[k] + 1]):
            j = succ[e]
            waiting[j] -= 1
            if waiting[j] == 0:
                order[size] = j
                size += 1
    return order


@kernel
def best_perturbed(
    a: Arrays,
    t: Timeline,
    rank: Floats,
    noise: Floats,
    bias: Floats,
    best: Floats,
    best_rank: Floats,
) -> None:
    """HEFT on ``rank * noise[k]`` for every row k; keeps the best makespan and its ranks."""
    trial = np.empty(len(rank))
    nobody = np.zeros(0, np.int64)
    yes, no = np.bool_(True), np.bool_(False)
    for k in range(len(noise)):
        for i in range(len(rank)):
            trial[i] = rank[i] * noise[k, i]
        order = list_order(a, trial)
        clear(a.is_unary, t)
        makespan = place_all(a, t, order, nobody, bias, yes, no)
        if makespan < best[0]:
            best[0] = makespan
            copy_into(best_rank, trial)
