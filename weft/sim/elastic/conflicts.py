"""One logical step: what agents ask for, who gets it, and whether the world moves on."""

from __future__ import annotations

import numpy as np

from weft.sim.elastic.moves import advance, fits, may_hold, place, reallocate
from weft.sim.elastic.state import LOST, PLACED, SKIPPED, VOID, Log, Move, Outcome, State, World
from weft.sim.jit import lean_inlined as inlined
from weft.sim.jit import lean_kernel as kernel


@inlined
def is_active(w: World, s: State, b: int, n: int) -> bool:
    """Whether a task of the cluster's pending set fits."""
    if s.in_set[b, n] == 0:
        return False
    for k in range(s.slot.shape[2]):
        j = s.slot[b, n, k]
        if j >= 0 and fits(w, s, b, n, j):
            return True
    return False


@inlined
def _claim(w: World, s: State, b: int, n: int, move: Move) -> int:
    """The task that agent n asks for, -1: none; units beyond what the task may have are cut off."""
    k = move.slot[b, n]
    if k < 0 or k >= s.slot.shape[2]:
        return np.int64(-1)
    j = s.slot[b, n, k]
    if j < 0:
        return np.int64(-1)
    units, total = move.units[b, n], np.int64(0)
    for r in range(len(units)):
        units[r] = max(0, min(units[r], w.most[s.kind[b, j], r]))
        total += units[r]
    if move.changes[b, n]:
        for r in range(len(units)):
            if units[r] > s.free[b, n, r]:
                return np.int64(-1)
        return j if s.num_running[b, n] < s.running.shape[2] else np.int64(-1)
    if total == 0 or not may_hold(w, s, b, n, j, units):
        return np.int64(-1)
    return j


@inlined
def room_for(w: World, s: State, b: int, n: int, j: int) -> float:
    """How often what task j needs at least is free on cluster n."""
    room = np.inf
    for r in range(w.least.shape[1]):
        need = w.least[s.kind[b, j], r]
        if need > 0:
            room = min(room, s.free[b, n, r] / need)
    return room


@inlined
def _winner(w: World, s: State, b: int, j: int, move: Move, out: Outcome) -> int:
    """Who gets task j of those that ask for it; equal claims go to the lowest index."""
    best, highest = np.int64(-1), -np.inf
    for n in range(s.slot.shape[1]):
        if out.won[b, n] != j:
            continue
        if w.conflicts == 0:
            return n
        room, chance = room_for(w, s, b, n, j), max(move.chance[b, n], 1e-300)
        # the logarithm of chance x prior, without what all competitors share
        score = np.log(chance) + (room if w.conflicts == 1 else np.log(max(room, 1e-300)))
        if score > highest:
            best, highest = n, score
    return best


@inlined
def settle(w: World, s: State, b: int, move: Move, out: Outcome) -> bool:
    """Give every task that is asked for to one cluster; whether any was."""
    num_clusters = s.slot.shape[1]
    for n in range(num_clusters):
        could = is_active(w, s, b, n)
        if move.changes[b, n]:
            could = s.in_set[b, n] > 0
            if not reallocate(w, s, b, n, move):
                move.slot[b, n] = -1
        out.outcome[b, n] = VOID if could else SKIPPED
        out.won[b, n] = _claim(w, s, b, n, move)
    any_placed = False
    for n in range(num_clusters):
        j = out.won[b, n]
        if j < 0:
            continue
        winner = _winner(w, s, b, j, move, out)
        for other in range(num_clusters):
            if out.won[b, other] == j:
                out.won[b, other] = -1
                out.outcome[b, other] = PLACED if other == winner else LOST
        place(w, s, b, winner, j, move.units[b, winner])
        any_placed = True
    return any_placed


@kernel
def act(w: World, s: State, b: int, move: Move, out: Outcome, log: Log) -> None:
    """One logical step of one environment; it does not begin again where the episode ends."""
    num_clusters = s.slot.shape[1]
    any_placed = settle(w, s, b, move, out)
    out.advanced[b] = not (w.is_multi and any_placed)
    out.alive[b] = 0.0
    out.done[b] = False
    out.mean[b] = np.nan
    for n in range(num_clusters):
        out.reward[b, n] = 0.0
        if out.advanced[b]:
            out.reward[b, n] = -float(s.num_running[b, n] + s.in_set[b, n] + s.queued[b, n])
    if not out.advanced[b]:
        s.round[b] += 1
        return
    out.alive[b] = -float(s.arrived[b] - s.done[b])
    out.done[b] = advance(w, s, b, log)
    if out.done[b]:
        out.mean[b] = mean_completion(s, b)


@inlined
def mean_completion(s: State, b: int) -> float:
    """World steps from arrival to end, both counted, on average over the tasks that have ended."""
    total = 0.0
    for j in range(s.status.shape[1]):
        if s.finish[b, j] >= 0:
            total += s.finish[b, j] - s.arrival[b, j]
    return total / max(1, s.done[b])
