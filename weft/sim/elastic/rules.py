"""Rules that allocate without learning, in the kernel: each writes what every agent of an environment does.

A rule is an :class:`AllocatorRule`: what it is, as data. Those that give running tasks new units use
``Move.again``, and stage the task they admit behind the running ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.columns import Floats, Ints
from weft.model.draws import ALLOCATION
from weft.sim.elastic.conflicts import act
from weft.sim.elastic.moves import fits
from weft.sim.elastic.state import Log, Move, Outcome, State, World
from weft.sim.jit import lean_inlined as inlined
from weft.sim.jit import lean_kernel as kernel
from weft.sim.random import keyed_uniform

RANDOM, STATIC, SHORTEST, OPTIMUS, TIRESIAS, DRF = 0, 1, 2, 3, 4, 5
"""Any units; units by type for a random task; units by type for the shortest; the largest gain of a fitted
speed; the least served; equal shares."""


class AllocatorRule(NamedTuple):
    """One rule."""

    kind: int
    units: Ints  # (T, R) what a task of the type is given, as far as it is free
    steps: Floats  # (T,) how long it takes then
    speed: Floats  # (T, G) progress per step as a scheduler believes it, over the grid
    stride: Ints  # (R,) of ``speed``
    is_elastic: bool  # whether the least served tasks may have more than they need
    blocks: bool  # whether a task that was picked but does not fit is kept from agents of a higher index


@inlined
def _draw(s: State, b: int, n: int, what: int) -> float:
    return keyed_uniform(s.seed[b], ALLOCATION, s.now[b], s.round[b], n, what)


@inlined
def _random_slot(s: State, b: int, n: int) -> int:
    """A slot with a task in it, each as likely; -1: there is none."""
    if s.in_set[b, n] == 0:
        return np.int64(-1)
    left = min(np.int64(_draw(s, b, n, 0) * s.in_set[b, n]), s.in_set[b, n] - 1)
    k = np.int64(0)
    while True:
        if s.slot[b, n, k] >= 0:
            if left == 0:
                return k
            left -= 1
        k += 1


@inlined
def _is_claimed(s: State, b: int, n: int, j: int, move: Move) -> bool:
    """Whether an agent of a lower index has picked the task."""
    found = False
    for m in range(n):
        if move.slot[b, m] >= 0 and s.slot[b, m, move.slot[b, m]] == j:
            found = True
    return found


@inlined
def _random_units(w: World, s: State, b: int, n: int, j: int, out: np.ndarray) -> None:
    """Units that the task may have on the cluster, or none, each as likely."""
    count, t = np.int64(1), s.kind[b, j]
    for r in range(len(out)):
        count *= min(s.free[b, n, r], w.most[t, r]) - w.least[t, r] + 1
    at = min(np.int64(_draw(s, b, n, 1) * (count + 1)), count)
    is_none = at == count
    for r in range(len(out)):
        size = min(s.free[b, n, r], w.most[t, r]) - w.least[t, r] + 1
        out[r] = 0 if is_none else w.least[t, r] + at % size
        at = at // size


@inlined
def _pick_one(rule: AllocatorRule, w: World, s: State, b: int, n: int, move: Move) -> None:
    """A random task, with random units or those of its type."""
    k, units = _random_slot(s, b, n), move.units[b, n]
    move.slot[b, n] = -1
    if k < 0:
        return
    j = s.slot[b, n, k]
    move.chance[b, n] = 1.0 / s.in_set[b, n]
    if rule.blocks and _is_claimed(s, b, n, j, move):
        return
    if not fits(w, s, b, n, j):
        if rule.blocks:  # the claim stands, with units that no cluster can give
            move.slot[b, n] = k
            for r in range(len(units)):
                units[r] = 0
        return
    move.slot[b, n] = k
    if rule.kind == RANDOM:
        _random_units(w, s, b, n, j, units)
        return
    for r in range(len(units)):
        units[r] = min(rule.units[s.kind[b, j], r], s.free[b, n, r])


@inlined
def _pick_shortest(rule: AllocatorRule, w: World, s: State, b: int, n: int, move: Move) -> None:
    """The task that ends first with the units of its type and that no lower agent has picked."""
    best = np.int64(-1)
    for k in range(s.slot.shape[2]):
        j = s.slot[b, n, k]
        if j < 0 or not fits(w, s, b, n, j) or _is_claimed(s, b, n, j, move):
            continue
        if best < 0 or rule.steps[s.kind[b, j]] < rule.steps[s.kind[b, s.slot[b, n, best]]]:
            best = k
    move.slot[b, n] = best
    if best >= 0:
        j = s.slot[b, n, best]
        for r in range(w.least.shape[1]):
            move.units[b, n, r] = min(rule.units[s.kind[b, j], r], s.free[b, n, r])


@inlined
def _admit(w: World, s: State, b: int, n: int, move: Move) -> int:
    """The first task that no lower agent has picked, where all running ones and it can have what they need."""
    move.slot[b, n] = -1
    if s.num_running[b, n] >= s.running.shape[2]:
        return np.int64(-1)
    for k in range(s.slot.shape[2]):
        j = s.slot[b, n, k]
        if j < 0 or _is_claimed(s, b, n, j, move):
            continue
        for r in range(w.least.shape[1]):
            need = w.least[s.kind[b, j], r]
            for i in range(s.num_running[b, n]):
                need += w.least[s.kind[b, s.running[b, n, i]], r]
            if need > w.capacity[n, r]:
                return np.int64(-1)
        move.slot[b, n] = k
        return j
    return np.int64(-1)


@inlined
def _held(s: State, b: int, n: int, k: int, admitted: int) -> int:
    """The k-th task of a cluster: those running, then the one that is admitted."""
    return s.running[b, n, k] if k < s.num_running[b, n] else admitted


@inlined
def _believed_time(rule: AllocatorRule, s: State, b: int, j: int, units: np.ndarray, r: int) -> float:
    """Steps left by the fitted speed, with one unit more of resource r (-1: of none)."""
    at = np.int64(0)
    for i in range(len(units)):
        at += (units[i] + (1 if i == r else 0)) * rule.stride[i]
    return (1.0 - s.progress[b, j]) / rule.speed[s.kind[b, j], at]


@inlined
def _give_by_gain(
    rule: AllocatorRule, w: World, s: State, b: int, n: int, count: int, new: int, move: Move
) -> None:
    """One unit at a time to the task and resource that save the most time per unit it has."""
    num_resources, given = w.least.shape[1], move.again[b, n]
    while True:
        best, best_r, most = np.int64(-1), np.int64(-1), 0.0
        for k in range(count):
            j = _held(s, b, n, k, new)
            now = _believed_time(rule, s, b, j, given[k], np.int64(-1))
            for r in range(num_resources):
                used = np.int64(0)
                for i in range(count):
                    used += given[i, r]
                if used >= w.capacity[n, r] or given[k, r] >= w.most[s.kind[b, j], r]:
                    continue
                gain = (now - _believed_time(rule, s, b, j, given[k], r)) / max(1, given[k, r])
                if gain > most:
                    best, best_r, most = k, r, gain
        if best < 0:
            return
        given[best, best_r] += 1


@inlined
def _is_low(s: State, b: int, n: int, k: int, count: int, new: int, given: np.ndarray, r: int) -> bool:
    """Whether a task is in the half of its cluster's that has had less of a resource, with what it is given now."""
    mine = s.served[b, _held(s, b, n, k, new), r] + given[k, r]
    fewer = np.int64(0)
    for i in range(count):
        other = s.served[b, _held(s, b, n, i, new), r] + given[i, r]
        if other < mine or (other == mine and i < k):
            fewer += 1
    return 2 * fewer < count


@inlined
def _give_by_service(
    rule: AllocatorRule, w: World, s: State, b: int, n: int, count: int, new: int, move: Move
) -> None:
    """Units of the last resource one by one to the half that has had less; other resources evenly.

    In that half, whoever has been given the fewest is next, in order of start.
    """
    last, given = w.least.shape[1] - 1, move.again[b, n]
    left = w.capacity[n, last]
    while left > 0:
        chosen = np.int64(-1)
        for level in range(2):
            for k in range(count):
                t = s.kind[b, _held(s, b, n, k, new)]
                full = w.most[t, last] if rule.is_elastic else w.least[t, last]
                is_low = _is_low(s, b, n, k, count, new, given, last)
                is_fewer = chosen < 0 or given[k, last] < given[chosen, last]
                if given[k, last] < full and is_low == (level == 0) and is_fewer:
                    chosen = k
            if chosen >= 0:
                break
        if chosen < 0:
            break
        given[chosen, last] += 1
        left -= 1
    served = np.int64(0)
    for k in range(count):
        served += 1 if given[k, last] > 0 else 0
    for r in range(last):
        at = np.int64(0)
        for k in range(count):
            if given[k, last] > 0:
                extra = 1 if at < w.capacity[n, r] % served else 0
                t = s.kind[b, _held(s, b, n, k, new)]
                given[k, r] = min(w.capacity[n, r] // served + extra, w.most[t, r])
                at += 1


@inlined
def _give_by_share(w: World, s: State, b: int, n: int, count: int, new: int, move: Move) -> None:
    """What a task needs at least, again and again, to the one with the smallest share of its scarcest resource."""
    num_resources, given = w.least.shape[1], move.again[b, n]
    while True:
        best, smallest = np.int64(-1), np.inf
        for k in range(count):
            t, share, has_room = s.kind[b, _held(s, b, n, k, new)], 0.0, True
            for r in range(num_resources):
                used = np.int64(0)
                for i in range(count):
                    used += given[i, r]
                share = max(share, given[k, r] / w.capacity[n, r])
                more = w.least[t, r]
                if used + more > w.capacity[n, r] or given[k, r] + more > w.most[t, r]:
                    has_room = False
            if has_room and share < smallest:
                best, smallest = k, share
        if best < 0:
            return
        for r in range(num_resources):
            given[best, r] += w.least[s.kind[b, _held(s, b, n, best, new)], r]


@inlined
def _share_out(rule: AllocatorRule, w: World, s: State, b: int, n: int, move: Move) -> None:
    """Admit a task, and divide all units of a cluster again."""
    new, given = _admit(w, s, b, n, move), move.again[b, n]
    count = s.num_running[b, n] + (1 if new >= 0 else 0)
    move.changes[b, n] = True
    for k in range(count):
        for r in range(w.least.shape[1]):
            starts_bare = rule.kind == TIRESIAS
            given[k, r] = 0 if starts_bare else w.least[s.kind[b, _held(s, b, n, k, new)], r]
    if rule.kind == OPTIMUS:
        _give_by_gain(rule, w, s, b, n, count, new, move)
    elif rule.kind == TIRESIAS:
        _give_by_service(rule, w, s, b, n, count, new, move)
    else:
        _give_by_share(w, s, b, n, count, new, move)
    if new >= 0:
        for r in range(w.least.shape[1]):
            move.units[b, n, r] = given[count - 1, r]


@kernel
def decide(rule: AllocatorRule, w: World, s: State, b: int, move: Move) -> None:
    """What every agent of environment b does by the rule."""
    for n in range(s.slot.shape[1]):
        move.chance[b, n] = 1.0
        move.changes[b, n] = False
        if rule.kind <= STATIC:
            _pick_one(rule, w, s, b, n, move)
        elif rule.kind == SHORTEST:
            _pick_shortest(rule, w, s, b, n, move)
        else:
            _share_out(rule, w, s, b, n, move)


@kernel
def run_rule(
    rule: AllocatorRule, w: World, s: State, b: int, move: Move, out: Outcome, log: Log, most: int
) -> bool:
    """Go on with an episode until it ends, so many logical steps were made or the log has no room for a step."""
    step_rows = s.running.shape[1] * s.running.shape[2]
    for _ in range(most):
        if len(log.rows) > 0 and len(log.rows) - log.count[0] < step_rows:
            return False
        decide(rule, w, s, b, move)
        act(w, s, b, move, out, log)
        if out.done[b]:
            return True
    return False
