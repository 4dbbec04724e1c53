"""Dispatching rules of the task view: which ready task starts where, now.

A rule is a number for the order of the ready tasks and one for the choice of the device:

- ``IDLE``: each task in turn to the device with room where it finishes first;
- ``VIRTUAL``: all devices count, busy ones from when they are expected to be free. Each task in turn
  joins the virtual queue where it finishes first; what is first on a device with room starts;
- ``LATE``: the same, but a task starts only when its data is there; until then its place is kept
  virtually, later tasks may fill one gap per device, and the rule is asked again when it begins.
  The price of a device for the time of a task is added to its finish.

Orders and costs beyond the finish are sums of features with weights (``weights.py``), or a key per task.

The virtual queue of a device with several slots is emptied by all of them: behind what waits, a task starts when
as much slot time has passed. Beside it, a task starts at once if enough slots are left.
"""

from __future__ import annotations

import numpy as np

from weft.model.graph import Floats, Ints
from weft.sim.jit import lean_inlined, lean_kernel
from weft.sim.tasks.clock import advance, begin, is_due, next_time, pass_events
from weft.sim.tasks.moves import commit
from weft.sim.tasks.ordering import BY_KEY as BY_KEY
from weft.sim.tasks.ordering import BY_WEIGHTS as BY_WEIGHTS
from weft.sim.tasks.ordering import IDLE as IDLE
from weft.sim.tasks.ordering import LATE as LATE
from weft.sim.tasks.ordering import VIRTUAL as VIRTUAL
from weft.sim.tasks.ordering import TaskRule as TaskRule
from weft.sim.tasks.ordering import keyed_rule as keyed_rule
from weft.sim.tasks.ordering import write_ready as write_ready
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
    may_run,
    may_use,
    offer,
    unready,
)
from weft.sim.tasks.virtual_queues import decide_virtual
from weft.sim.tasks.virtual_queues import expected_room as expected_room
from weft.sim.tasks.virtual_queues import first_start as first_start


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
            if s.is_up[p] and may_run(w, s, b, i, p):
                start = max(expected_room(w, s, b, i, p), data_ready(w, f, s, b, i, p))
                finishes[k, p - first] = start + expected_run(w, s, i, w.device_class[p])


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
def idle_finish(w: Tasks, f: Facts, s: TaskState, b: int, i: int, p: int) -> float:
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
            if s.has_room[p] and fits(w, s, b, i, p):
                finish = idle_finish(w, f, s, b, i, p)
                if finish < best_finish or (finish == best_finish and p < best):
                    best, best_finish = p, finish
    elif s.pool_size[pool] > 0:
        best = s.pool_heap[first]
        best_finish = idle_finish(w, f, s, b, i, best)
        parent = _last_parent(w, f, s, b, i, best)
        row = s.first_row[parent] if parent >= 0 else np.int64(-1)
        while row >= 0:
            p = s.row_device[row]
            if s.row_status[row] == ENDED and w.pool[p] == pool and s.pool_place[p] >= 0:
                finish = idle_finish(w, f, s, b, i, p)
                if finish < best_finish or (finish == best_finish and p < best):
                    best, best_finish = p, finish
            row = s.next_row[row]
    return best, best_finish


@lean_kernel
def best_booked(w: Tasks, f: Facts, s: TaskState, b: int, i: int) -> tuple[int, float]:
    """Of the unary devices that are held for the job of task i, that with room on which it finishes first; -1: none."""
    best, best_finish = np.int64(-1), np.inf
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        if (
            w.is_unary[p]
            and s.booked[p, 0] > 0.0
            and s.has_room[p]
            and s.granted[w.job[i], p - w.device_ptr[b]]
        ):
            finish = idle_finish(w, f, s, b, i, p)
            if finish < best_finish:
                best, best_finish = p, finish
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
    if w.book_count[w.job[i]] > 0:
        p, finish = best_booked(w, f, s, b, i)
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


@lean_kernel
def decide(rule: TaskRule, w: Tasks, f: Facts, s: TaskState, b: int) -> None:
    """Start everything that the rule starts now; new rows are the decisions."""
    s.count[b, NUM_ASKED] += 1
    if rule.device == IDLE:
        _decide_idle(w, f, s, b)
    else:
        decide_virtual(rule, w, f, s, b)


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
