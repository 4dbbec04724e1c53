"""In which order the rules of the task view look at ready tasks: by a key, or by weighted features (``weights.py``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Floats, Ints
from weft.sim.heap import pop_event, push_event
from weft.sim.jit import inlined, kernel, lean_inlined
from weft.sim.tasks.forecast import AT_HORIZON, AT_LOAD, AT_TIME
from weft.sim.tasks.state import TAKEN, Tasks, TaskState
from weft.sim.tasks.weights import (
    AGE,
    AT_CHOOSY,
    AT_DATA,
    AT_JOB_RANK,
    AT_RANK,
    AT_RATIO,
    AT_RUN,
    CHOOSY,
    CLIP,
    DATA,
    FOLD,
    LEAST,
    LEFT,
    MOST_SPREAD,
    NUM_FOLDED,
    NUM_WEIGHTS,
    OPEN,
    PATH,
    RANK,
    RATIO,
    READY_TASKS,
    RUN,
    TINY,
    UNLOCKED,
)

IDLE, VIRTUAL, LATE = range(3)
BY_KEY, BY_WEIGHTS = range(2)


class TaskRule(NamedTuple):
    """One rule and what it knows; keys and work are columns of the state."""

    order: int  # BY_KEY or BY_WEIGHTS: the smallest goes first
    device: int  # IDLE, VIRTUAL or LATE
    look: int  # VIRTUAL and LATE look at this many ready tasks per device
    weights: Floats  # (NUM_WEIGHTS,), see ``weights.py``
    about: Floats  # (num_tasks, NUM_ABOUT + 2 num_classes) what is known of tasks beforehand, or (0, 0)
    price: Floats  # (num_jobs, num_classes) of a unit of time, from the so-many-th arrival on, or (0, 0)
    forecast: (
        Floats  # (num_jobs, 3) of the load, from the so-many-th arrival on, see ``forecast.py``, or (0, 0)
    )
    tally: Floats  # (num_jobs, 2) buffer, zero between decisions: ready tasks of a job, and the longest rank of them
    window: int  # ready tasks per slot, first by key, that are looked at; 0: all


def keyed_rule(device: int, look: int = 0) -> TaskRule:
    """A rule that goes by the keys of tasks alone."""
    nothing = np.zeros((0, 0))
    return TaskRule(BY_KEY, device, look, np.zeros(NUM_WEIGHTS), nothing, nothing, nothing, nothing, 0)


@kernel
def write_ready(rule: TaskRule, w: Tasks, s: TaskState, b: int, tasks: Ints, scores: Floats) -> int:
    """Fill ``tasks`` with the ready tasks that come first, ``scores`` with what orders them; returns how many."""
    fold = np.empty(NUM_FOLDED)
    size, times, items = ordered(rule, w, s, b, fold)
    count = min(size, len(tasks))
    for k in range(count):
        tasks[k], scores[k] = items[0], times[0]
        size = pop_event(times, items, size)
    return count


@lean_inlined
def _forecast(rule: TaskRule, w: Tasks, s: TaskState, b: int) -> float:
    """Logarithm of the load to be expected now; 0 where nothing is known of it."""
    if len(rule.forecast) == 0 or s.next_job[b] == 0:
        return 0.0
    k = w.job_ptr[b] + s.next_job[b] - 1  # the latest arrival
    gone = (s.now[b] - rule.forecast[k, AT_TIME]) / rule.forecast[k, AT_HORIZON]
    return max(-CLIP, min(CLIP, np.log(max(rule.forecast[k, AT_LOAD], TINY)) - gone))


@lean_inlined
def _slots(w: Tasks, b: int) -> float:
    """Slots of all devices."""
    slots = 0.0
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        slots += w.capacity[p, 0]
    return slots


@lean_inlined
def _fold(rule: TaskRule, w: Tasks, s: TaskState, b: int, spread: float, fold: Floats) -> None:
    """The weights at this decision, backlog, forecast and spread counted in."""
    backlog = max(-CLIP, min(CLIP, np.log((s.num_ready[b] + 1.0) / (_slots(w, b) + 1.0))))
    load = _forecast(rule, w, s, b)
    for at, plain, crowded, offered, unlike in FOLD:
        fold[at] = rule.weights[plain]
        if crowded >= 0:
            fold[at] += backlog * rule.weights[crowded]
        if offered >= 0:
            fold[at] += load * rule.weights[offered]
        if unlike >= 0:
            fold[at] += spread * rule.weights[unlike]


@lean_inlined
def _counts(rule: TaskRule) -> bool:
    """Whether a weight wants to know of the jobs that wait."""
    for at, plain, crowded, _, unlike in FOLD:
        if unlike >= 0 and rule.weights[unlike] != 0.0:
            return True
        if at in (PATH, READY_TASKS) and (rule.weights[plain] != 0.0 or rule.weights[crowded] != 0.0):
            return True
    return False


@lean_inlined
def _tally(rule: TaskRule, w: Tasks, s: TaskState, tasks: Ints) -> float:
    """Count the ready tasks of every job and keep the longest rank of them; returns the spread of the work left of jobs."""
    num, total, squares = 0.0, 0.0, 0.0
    for k in range(len(tasks)):
        i = tasks[k]
        j = w.job[i]
        rank = rule.about[i, AT_RANK]
        if rule.tally[j, 0] == 0.0:
            left = np.log(max(s.job_left[j], LEAST * rule.about[i, AT_JOB_RANK], TINY))
            num, total, squares = num + 1.0, total + left, squares + left * left
            rule.tally[j, 1] = rank
        rule.tally[j, 0] += 1.0
        rule.tally[j, 1] = max(rule.tally[j, 1], rank)
    variance = squares / max(num, 1.0) - (total / max(num, 1.0)) ** 2
    return min(MOST_SPREAD, np.sqrt(max(variance, 0.0)))


@lean_inlined
def _untally(rule: TaskRule, w: Tasks, tasks: Ints) -> None:
    for k in range(len(tasks)):
        rule.tally[w.job[tasks[k]], 0] = 0.0


@inlined
def _first_by_key(w: Tasks, s: TaskState, b: int, count: int) -> Ints:
    """So many ready tasks with the smallest keys, in order: the heap of ready tasks is walked from its top."""
    base, found = w.task_ptr[b], np.empty(count, np.int64)
    keys, places = (
        np.empty(count + 2),
        np.empty(count + 2, np.int64),
    )  # of each found two come for one that goes
    size = push_event(keys, places, np.int64(0), s.key[s.ready[base]], np.int64(0))
    for k in range(count):
        at = places[0]
        found[k] = s.ready[base + at]
        size = pop_event(keys, places, size)
        for child in range(2 * at + 1, min(2 * at + 3, s.num_ready[b])):
            size = push_event(keys, places, size, s.key[s.ready[base + child]], child)
    return found


@lean_inlined
def _unlocked(w: Tasks, s: TaskState, i: int) -> float:
    """Children that wait for task i alone."""
    count = 0.0
    for e in range(w.succ_ptr[i], w.succ_ptr[i + 1]):
        if s.open_edges[w.succ[e]] % TAKEN == 1:
            count += 1.0
    return count


@lean_inlined
def _score(rule: TaskRule, w: Tasks, s: TaskState, b: int, i: int, fold: Floats) -> float:
    """Smaller goes first; what has no weight is not looked at."""
    if rule.order == BY_KEY:
        return s.key[i]
    j = w.job[i]
    score = fold[LEFT] * np.log(max(s.job_left[j], TINY))
    if fold[RATIO] != 0.0:
        score += fold[RATIO] * rule.about[i, AT_RATIO]
    if fold[RANK] != 0.0:
        score += fold[RANK] * rule.about[i, AT_RANK]
    if fold[PATH] != 0.0:
        score += fold[PATH] * rule.tally[j, 1]
    if fold[READY_TASKS] != 0.0:
        score += fold[READY_TASKS] * np.log(rule.tally[j, 0])
    if fold[UNLOCKED] != 0.0:
        score += fold[UNLOCKED] * np.log1p(_unlocked(w, s, i))
    if fold[DATA] != 0.0:
        score += fold[DATA] * rule.about[i, AT_DATA]
    if fold[RUN] != 0.0:
        score += fold[RUN] * rule.about[i, AT_RUN]
    if fold[OPEN] != 0.0:
        score += fold[OPEN] * s.job_open[j] / (w.job_task_ptr[j + 1] - w.job_task_ptr[j])
    if fold[AGE] != 0.0:
        age = s.now[b] - w.job_release[j]
        score += fold[AGE] * age / max(age + rule.about[i, AT_JOB_RANK], TINY)
    if fold[CHOOSY] != 0.0:
        score += fold[CHOOSY] * rule.about[i, AT_CHOOSY]
    return score


@inlined
def ordered(rule: TaskRule, w: Tasks, s: TaskState, b: int, fold: Floats) -> tuple[int, Floats, Ints]:
    """The ready tasks as a heap by (score, task), or those in the rule's window; fills ``fold``."""
    first, count = w.task_ptr[b], s.num_ready[b]
    tasks = s.ready[first : first + count]
    if rule.window > 0 and rule.window * _slots(w, b) < count:
        count = np.int64(rule.window * _slots(w, b))
        tasks = _first_by_key(w, s, b, count)
    times, items = np.empty(count), np.empty(count, np.int64)
    size = np.int64(0)
    counts = rule.order == BY_WEIGHTS and _counts(rule)
    spread = _tally(rule, w, s, tasks) if counts else 0.0
    if rule.order == BY_WEIGHTS:
        _fold(rule, w, s, b, spread, fold)
    for k in range(count):
        size = push_event(times, items, size, _score(rule, w, s, b, tasks[k], fold), tasks[k])
    if counts:
        _untally(rule, w, tasks)
    return size, times, items
