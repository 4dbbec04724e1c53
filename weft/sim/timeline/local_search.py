"""Local search on what the decoders take: priorities, holds, devices.

Each kernel keeps a current and a best solution in the buffers it is given and goes on for a number
of evaluations, so a caller can stop between calls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Floats, Ints
from weft.sim.arrays import Arrays
from weft.sim.jit import kernel, lean_inlined, lean_kernel
from weft.sim.random import below, normal, uniform
from weft.sim.timeline.decoding import Pools, Scratch, decode_list
from weft.sim.timeline.list_planning import list_order, place_all
from weft.sim.timeline.timelines import Timeline, clear

SPARSITY, SMALLEST, HOLDS = 6.0, -7.0, 0.3
"""How search_lists mutates: exponent of the share of tasks, log of the smallest step, hold flips."""


class Point(NamedTuple):
    """What a decoder takes."""

    priority: Floats  # (num_tasks,)
    choice: np.ndarray  # (num_tasks,) whether to hold it, or on which device it is forced (-1: any)


class Progress(NamedTuple):
    """Where a search stands; all overwritten."""

    current: Point
    best: Point
    value: Floats  # (2,) current and best makespan
    state: np.ndarray  # of the random numbers


@kernel
def search_lists(
    pools: Pools, s: Scratch, progress: Progress, evaluations: int, spread: float, floor: float
) -> int:
    """(1+1) search on priorities and holds for problems without transfers.

    Equal makespans are accepted. Stops early when ``floor`` (a lower bound) is reached; returns the
    evaluations used.
    """
    current, value, state = progress.current, progress.value, progress.state
    trial, trial_hold = current.priority.copy(), current.choice.copy()
    n = len(trial)
    for k in range(evaluations):
        if value[1] <= floor:
            return k
        share = uniform(state)
        changes = 1 + np.int64(n * share**SPARSITY)  # mostly few tasks, sometimes all
        step = spread * np.exp(SMALLEST * uniform(state))  # from the spread down to a thousandth
        kind = uniform(state)
        for _ in range(changes):
            i = below(state, n)
            if kind < HOLDS:
                trial_hold[i] = not trial_hold[i]
            else:
                trial[i] += step * normal(state)
        makespan = decode_list(pools, s, trial, trial_hold)
        if makespan <= value[0]:
            value[0] = makespan
            _copy(trial, trial_hold, current)
            if makespan < value[1]:
                value[1] = makespan
                _copy(trial, trial_hold, progress.best)
        else:
            _copy(current.priority, current.choice, Point(trial, trial_hold))
    return evaluations


@lean_inlined
def _copy(priority: Floats, choice: np.ndarray, to: Point) -> None:
    to_priority, to_choice = to.priority, to.choice
    for i in range(len(priority)):
        to_priority[i] = priority[i]
        to_choice[i] = choice[i]


@kernel
def search_devices(
    a: Arrays,
    t: Timeline,
    progress: Progress,
    bias: Floats,
    duplicate: bool,
    evaluations: int,
    warmth: float,
    floor: float,
) -> int:
    """Search on priorities and forced devices, decoded by earliest finish (and with copies).

    A worse solution is accepted with probability exp(-relative loss / warmth). Returns the
    evaluations used.
    """
    current, value, state = progress.current, progress.value, progress.state
    trial, trial_forced = current.priority.copy(), current.choice.copy()
    n, num_devices = len(trial), len(a.device_class)
    yes = np.bool_(True)
    for k in range(evaluations):
        if value[1] <= floor:
            return k
        _mutate(a, t, trial, trial_forced, state, n, num_devices)
        order = list_order(a, trial)
        clear(a.is_unary, t)
        makespan = place_all(a, t, order, trial_forced, bias, yes, duplicate)
        loss = makespan / value[0] - 1.0
        if loss <= 0.0 or (warmth > 0.0 and uniform(state) < np.exp(-loss / warmth)):
            value[0] = makespan
            _copy(trial, trial_forced, current)
            if makespan < value[1]:
                value[1] = makespan
                _copy(trial, trial_forced, progress.best)
        else:
            _copy(current.priority, current.choice, Point(trial, trial_forced))
    return evaluations


@lean_kernel
def _mutate(
    a: Arrays, t: Timeline, priority: Floats, forced: Ints, state: np.ndarray, n: int, num_devices: int
) -> None:
    """Change one to four tasks: priority, device, freedom, or follow a neighbour in the graph."""
    for _ in range(1 + below(state, 4)):
        i = below(state, n)
        kind = uniform(state)
        if kind < 0.4:
            priority[i] *= np.exp(0.3 * normal(state))
        elif kind < 0.55:
            forced[i] = -1
        elif kind < 0.8:
            _force(a, forced, i, below(state, num_devices))
        else:  # to the device of a parent or child, where the last decode put it
            first, last = a.pred_ptr[i], a.pred_ptr[i + 1]
            parents = last - first
            children = a.succ_ptr[i + 1] - a.succ_ptr[i]
            if parents + children == 0:
                continue
            e = below(state, parents + children)
            j = a.pred[first + e] if e < parents else a.succ[a.succ_ptr[i] + e - parents]
            row = t.first_row[j]
            if row >= 0:
                _force(a, forced, i, t.row_device[row])


@lean_inlined
def _force(a: Arrays, forced: Ints, i: int, p: int) -> None:
    can = a.run[i, a.device_class[p]] < np.inf
    if can and (a.allowed.shape[0] == 0 or a.allowed[a.job[i], p]):
        forced[i] = p
