"""Rules for deadlines in the task view: a fixed order of tasks, classes they may use, and what is put last.

Ready tasks are looked at by their keys. What can no longer be in time, as the rule sees it, goes behind all others. Each
task in turn goes to a device of a class the rule allows it: where it finishes first of those with room, or of all, waiting if that
one is busy; or to any one with room at random.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.draws import DEVICES
from weft.model.graph import Bools, Floats, Ints
from weft.sim.jit import lean_inlined, lean_kernel
from weft.sim.random import keyed_uniform
from weft.sim.tasks.clock import advance, begin, is_due, next_time, pass_events
from weft.sim.tasks.moves import commit
from weft.sim.tasks.rules import best_in_pool, expected_room
from weft.sim.tasks.state import (
    NUM_ASKED,
    NUM_STARTED,
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

IDLE, EARLIEST, DRAWN = range(3)
"""Where a task goes: where it finishes first of the devices with room; of all; or any with room."""
LAST = 1e12
"""Is added to the key of what is put last."""


class DeadlineRule(NamedTuple):
    """One rule and what it knows; keys are a column of the state."""

    place: int  # IDLE, EARLIEST or DRAWN
    allowed: Bools  # (num_tasks, num_classes) where the rule lets a task run
    until: Floats  # (num_tasks,) after this time the task is put last; infinite: never
    draw: Ints  # (num_envs,) seeds: with the count of starts they say which of the devices with room


@lean_inlined
def _put_last(rule: DeadlineRule, w: Tasks, s: TaskState, b: int) -> None:
    """Move ready tasks that are beyond hope behind all others."""
    first, k = w.task_ptr[b], np.int64(0)
    while k < s.num_ready[b]:
        i = s.ready[first + k]
        if s.now[b] > rule.until[i] and s.key[i] < LAST:
            unready(w, s, b, i)
            s.key[i] += 2.0 * LAST
            offer(w, s, b, i)
            k = np.int64(0)  # the heap has changed
        else:
            k += 1


@lean_inlined
def _best_allowed(rule: DeadlineRule, w: Tasks, f: Facts, s: TaskState, b: int, i: int) -> int:
    """The device with room of an allowed class on which task i finishes first; -1: none."""
    best, best_finish = np.int64(-1), np.inf
    for pool in range(w.pool_ptr[b], w.pool_ptr[b + 1]):
        p = w.pool_devices[w.pool_device_ptr[pool]]
        if rule.allowed[i, w.device_class[p]] and may_use(w, b, i, p):
            p, finish = best_in_pool(w, f, s, b, i, pool)
            if p >= 0 and (finish < best_finish or (finish == best_finish and p < best)):
                best, best_finish = p, finish
    return best


@lean_inlined
def _earliest(rule: DeadlineRule, w: Tasks, f: Facts, s: TaskState, b: int, i: int) -> int:
    """The device of an allowed class on which task i is expected to finish first, if it has room; else -1."""
    best, best_finish = np.int64(-1), np.inf
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        c = w.device_class[p]
        if s.is_up[p] and rule.allowed[i, c] and may_use(w, b, i, p):
            start = max(expected_room(w, s, b, i, p), data_ready(w, f, s, b, i, p))
            if start + expected_run(w, s, i, c) < best_finish:
                best, best_finish = p, start + expected_run(w, s, i, c)
    return best if best >= 0 and s.has_room[best] and fits(w, s, b, i, best) else np.int64(-1)


@lean_inlined
def _place_for(rule: DeadlineRule, w: Tasks, f: Facts, s: TaskState, b: int, i: int) -> int:
    """The device on which task i starts now; -1: it waits."""
    if rule.place == DRAWN:
        return _drawn_device(rule, w, s, b, i)
    if rule.place == EARLIEST:
        return _earliest(rule, w, f, s, b, i)
    return _best_allowed(rule, w, f, s, b, i)


@lean_inlined
def _drawn_device(rule: DeadlineRule, w: Tasks, s: TaskState, b: int, i: int) -> int:
    """One of the devices with room of an allowed class, drawn by how many tasks have started; -1: none."""
    count = 0
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        if (
            s.has_room[p]
            and rule.allowed[i, w.device_class[p]]
            and may_use(w, b, i, p)
            and fits(w, s, b, i, p)
        ):
            count += 1
    wanted = np.int64(keyed_uniform(rule.draw[b], DEVICES, s.count[b, NUM_STARTED], 0, 0, 0) * count)
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        if (
            s.has_room[p]
            and rule.allowed[i, w.device_class[p]]
            and may_use(w, b, i, p)
            and fits(w, s, b, i, p)
        ):
            if wanted == 0:
                return p
            wanted -= 1
    return np.int64(-1)


@lean_kernel
def decide_by_deadline(rule: DeadlineRule, w: Tasks, f: Facts, s: TaskState, b: int) -> None:
    """Start everything that the rule starts now."""
    s.count[b, NUM_ASKED] += 1
    _put_last(rule, w, s, b)
    first, passed = w.task_ptr[b], np.int64(0)
    while s.num_ready[b] > 0 and s.num_free[b] > 0:
        i = s.ready[first]
        p = _place_for(rule, w, f, s, b, i)
        if p >= 0:
            commit(w, f, s, b, i, p)
        else:
            unready(w, s, b, i)
            s.stack[first + passed] = i
            passed += 1
    for k in range(passed):
        offer(w, s, b, s.stack[first + k])


@lean_kernel
def run_by_deadline(rule: DeadlineRule, w: Tasks, f: Facts, s: TaskState, keys: Floats) -> None:
    """Every environment from its first job to the end; ``keys`` (num_tasks,) are those to begin with."""
    for b in range(len(s.now)):
        for i in range(w.task_ptr[b], w.task_ptr[b + 1]):
            s.key[i] = keys[i]
        begin(w, s, b)
        while not advance(w, f, s, b):
            decide_by_deadline(rule, w, f, s, b)


@lean_kernel
def play_by_deadline(rule: DeadlineRule, w: Tasks, f: Facts, s: TaskState, b: int, until: float) -> None:
    """Decide if a decision is due now, then carry out events and decisions up to a time, this included."""
    if is_due(s, b):
        decide_by_deadline(rule, w, f, s, b)
    while not s.overflow[b] and next_time(w, s, b) <= until and next_time(w, s, b) < np.inf:
        pass_events(w, f, s, b)
        if is_due(s, b) and next_time(w, s, b) > s.now[b]:
            decide_by_deadline(rule, w, f, s, b)
