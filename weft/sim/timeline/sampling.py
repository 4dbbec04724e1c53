"""Drawing schedules from scores: one score per task in, many schedules and their gradients out.

Two ways to draw. By list: Gumbel noise once per task, the sum is the priority; this is a draw from
Plackett and Luce's distribution over orders. By dispatch: fresh noise whenever tasks compete, so
each start is a draw from the softmax over those that could have started instead. Every draw comes
with the gradient of its log-probability by the scores, so a learner needs no graph of the decoder.
Problems with transfer times are in ``sim/timeline/sampling_devices.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.sim.arrays import Arrays
from weft.sim.heap import copy_into, push_event, sort_by_key
from weft.sim.jit import kernel
from weft.sim.jit import lean_inlined as inlined
from weft.sim.random import uniform
from weft.sim.timeline.decoding import (
    Pools,
    Scratch,
    decode_list,
    fitting_device,
    hold_classes,
    occupy,
    open_tasks,
    pass_events,
    reset,
)

LEAST = -600.0
"""Logits lower than this below the highest count as this low, so that no weight is 0."""


class Scores(NamedTuple):
    """What a policy says about one problem."""

    logit: Floats  # (num_tasks,) higher goes first
    hold: Floats  # (num_tasks,) log-odds that nobody may overtake the task; or (0,): never
    bias: Floats  # (num_tasks, num_classes) added to the finish there, in time; or (0, 0)
    spread: float
    """Standard deviation of the noise on ``bias``, in time."""
    group: Ints  # (num_tasks,) tasks of different groups never compete


class Drawn(NamedTuple):
    """What a batch of draws came to; the gradients are (0, 0) where they are not needed."""

    makespan: Floats  # (num_samples,)
    by_logit: Floats  # (num_samples, num_tasks) gradient of the log-probability
    by_hold: Floats  # (num_samples, num_tasks)
    by_bias: Floats  # (num_samples, num_tasks * num_classes)
    start: Floats  # (num_tasks,) of the best draw
    device: Ints  # (num_tasks,) of the best draw


class Walk(NamedTuple):
    """What one draw by dispatch goes through, and what it adds to; all overwritten."""

    weight: Floats  # (num_tasks,) exponential of the logit
    hold: Bools  # (num_tasks,) or (0,): nobody is held
    task: Ints  # (num_tasks,) the sorted tasks; -1 - i where task i has started
    fit: Ints  # (num_tasks,) per group the first place that may still fit
    rivals: Ints  # (num_tasks,)
    by_logit: Floats  # (num_tasks,) gradient, or (0,)
    by_hold: Floats  # (num_tasks,) gradient, or (0,)


def can_hold(a: Arrays) -> bool:
    """Whether overtaking can make a difference: somewhere a task may have to wait for room."""
    return not bool(a.is_unary.all()) or bool((a.demand[:, 1:] > 0).any())


def new_drawn(num_samples: int, num_tasks: int, num_classes: int, *, has_gradients: bool) -> Drawn:
    """Buffers for this many draws."""
    rows = num_samples if has_gradients else 0
    return Drawn(
        makespan=np.empty(num_samples),
        by_logit=np.zeros((rows, num_tasks)),
        by_hold=np.zeros((rows, num_tasks)),
        by_bias=np.zeros((rows, num_tasks * num_classes)),
        start=np.empty(num_tasks),
        device=np.empty(num_tasks, np.int64),
    )


@inlined
def gumbel(state: np.ndarray) -> float:
    """Next standard Gumbel number."""
    exponential = -np.log(1.0 - uniform(state))
    return -np.log(exponential + 1e-300)


@kernel
def plackett_luce(logit: Floats, order: Ints, gradient: Floats) -> float:
    """Log-probability of drawing this order without replacement; adds its gradient by the logits."""
    n = len(order)
    top = logit.max() if n > 0 else 0.0
    left = np.empty(n)  # sum of the weights from a place to the end
    total = 0.0
    for k in range(n - 1, -1, -1):
        total += np.exp(max(logit[order[k]] - top, LEAST))
        left[k] = total
    log_probability, seen = 0.0, 0.0
    for k in range(n):
        i = order[k]
        log_probability += max(logit[i] - top, LEAST) - np.log(left[k])
        seen += 1.0 / left[k]
        gradient[i] += 1.0 - np.exp(max(logit[i] - top, LEAST)) * seen
    return log_probability


@inlined
def _draw_holds(scores: Scores, state: np.ndarray, hold: Bools) -> None:
    for i in range(len(scores.hold)):
        hold[i] = uniform(state) < 1.0 / (1.0 + np.exp(-scores.hold[i]))


@inlined
def _hold_gradient(log_odds: float, is_held: bool) -> float:
    return (1.0 if is_held else 0.0) - 1.0 / (1.0 + np.exp(-log_odds))


@kernel
def draw_by_list(
    pools: Pools, s: Scratch, scores: Scores, state: np.ndarray, by_logit: Floats, by_hold: Floats
) -> float:
    """One draw by list into ``s``; gradients of length 0 are left out. Returns the last finish."""
    logit = scores.logit
    n = len(logit)
    priority = np.empty(n)
    for i in range(n):
        priority[i] = logit[i] + gumbel(state)
    hold = np.zeros(len(scores.hold), np.bool_)
    _draw_holds(scores, state, hold)
    last = decode_list(pools, s, priority, hold)
    if len(by_logit) > 0:
        plackett_luce(logit, np.argsort(-priority), by_logit)
        for i in range(len(hold)):
            by_hold[i] += _hold_gradient(scores.hold[i], hold[i])
    return last


@inlined
def _has_free_class(num_choices: Ints, choices: Ints, class_free: Ints, i: int) -> bool:
    found = False
    for q in range(num_choices[i]):
        found = found or class_free[choices[i, q]] > 0
    return found


@inlined
def _credit(pools: Pools, s: Scratch, group: Ints, walk: Walk, at: int, size: int) -> None:
    """Add the gradient of choosing ``walk.task[at]`` among those behind it that compete with it now."""
    weight, hold, rivals, by_logit = walk.weight, walk.hold, walk.rivals, walk.by_logit
    i = walk.task[at]
    total = weight[i]
    has_holds = len(hold) > 0
    num_rivals = np.int64(0)
    for k in range(at + 1, size):
        j = walk.task[k]
        if group[j] == group[i] and ((has_holds and hold[j]) or fitting_device(pools, s, j) >= 0):
            total += weight[j]
            rivals[num_rivals] = j
            num_rivals += 1
    if total <= weight[i]:
        return
    by_logit[i] += 1.0 - weight[i] / total
    for k in range(num_rivals):
        by_logit[rivals[k]] -= weight[rivals[k]] / total


@inlined
def _next_fit(pools: Pools, s: Scratch, group: Ints, task: Ints, first: int, size: int, which: int) -> int:
    """The first place from ``first`` on with a task of this group that could start now, or ``size``."""
    for k in range(first, size):
        if group[task[k]] == which and fitting_device(pools, s, task[k]) >= 0:
            return k
    return size


@inlined
def _start_in_turn(
    pools: Pools, s: Scratch, scores: Scores, walk: Walk, size: int, now: float, num_events: int
) -> int:
    """Walk the sorted tasks and start each that fits; returns the number of events.

    Room only shrinks on the way: what did not fit cannot fit later, so ``walk.fit`` keeps the first place of
    every group that may still do.
    """
    group, hold_logit, task = scores.group, scores.hold, walk.task
    hold, fit, by_logit, by_hold = walk.hold, walk.fit, walk.by_logit, walk.by_hold
    has_gradients, has_holds = len(by_logit) > 0, len(hold) > 0
    for at in range(size):
        fit[group[task[at]]] = 0
    for at in range(size):
        i = task[at]
        p = fitting_device(pools, s, i)
        if p >= 0:
            if has_gradients:
                _credit(pools, s, group, walk, at, size)
            finish = occupy(pools, s, i, p, now)
            num_events = push_event(s.event_time, s.event_task, num_events, finish, i)
            task[at] = -1 - i
        elif has_holds and (hold[i] or has_gradients):
            which = group[i]
            fit[which] = _next_fit(pools, s, group, task, max(fit[which], at + 1), size, which)
            if fit[which] == size:
                continue
            if has_gradients and by_hold[i] == 0.0:  # drawn once, so it counts once
                by_hold[i] = _hold_gradient(hold_logit[i], hold[i])
            if hold[i]:
                if has_gradients:
                    _credit(pools, s, group, walk, at, size)
                hold_classes(pools, s, i)
    for c in range(len(s.is_held)):
        s.is_held[c] = False
    return num_events


@kernel
def draw_by_dispatch(
    pools: Pools, s: Scratch, scores: Scores, state: np.ndarray, by_logit: Floats, by_hold: Floats
) -> float:
    """One draw by dispatch into ``s``; gradients of length 0 are left out. Returns the last finish."""
    logit = scores.logit
    n = len(logit)
    ready = s.ready
    num_choices, choices, class_free = pools.num_choices, pools.choices, s.class_free
    top = logit.max() if n > 0 else 0.0
    weight, key, nothing = np.empty(n), np.empty(n), np.empty(0)
    task, fit, rivals = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    hold = np.zeros(len(scores.hold), np.bool_)
    walk = Walk(weight, hold, task, fit, rivals, by_logit, by_hold)
    _draw_holds(scores, state, hold)
    reset(pools, s)
    for i in range(n):
        weight[i] = np.exp(max(logit[i] - top, LEAST))
    num_ready, num_events = open_tasks(pools, s, nothing)
    now, last = 0.0, 0.0
    while True:
        size, kept = np.int64(0), np.int64(0)
        for k in range(num_ready):  # those whose devices are all busy stay out of the draw
            if _has_free_class(num_choices, choices, class_free, ready[k]):
                task[size] = ready[k]
                size += 1
            else:
                ready[kept] = ready[k]
                kept += 1
        if size > 1:
            for k in range(size):
                key[task[k]] = logit[task[k]] + gumbel(state)
            sort_by_key(task, size, key, rivals)
        num_events = _start_in_turn(pools, s, scores, walk, size, now, num_events)
        for k in range(size):
            if task[k] >= 0:
                ready[kept] = task[k]
                kept += 1
        num_ready = kept
        if num_events == 0:
            return last
        now = s.event_time[0]
        num_ready, num_events, has_ended = pass_events(pools, s, nothing, num_ready, num_events)
        if has_ended:
            last = now


@kernel
def draw_schedules(
    pools: Pools, s: Scratch, scores: Scores, by_list: bool, state: np.ndarray, drawn: Drawn
) -> None:
    """Fill ``drawn`` for a problem without transfer times."""
    nothing = np.zeros(0)
    best = np.inf
    for b in range(len(drawn.makespan)):
        by_logit = drawn.by_logit[b] if len(drawn.by_logit) > 0 else nothing
        by_hold = drawn.by_hold[b] if len(drawn.by_logit) > 0 else nothing
        if by_list:
            drawn.makespan[b] = draw_by_list(pools, s, scores, state, by_logit, by_hold)
        else:
            drawn.makespan[b] = draw_by_dispatch(pools, s, scores, state, by_logit, by_hold)
        if drawn.makespan[b] < best:
            best = drawn.makespan[b]
            copy_into(drawn.start, s.start)
            copy_into(drawn.device, s.device)
