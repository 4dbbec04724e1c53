"""The elastic kernel with a world outside: arrivals, progress and ends are reported, decisions are asked for."""

from __future__ import annotations

import numpy as np

from weft.sim.elastic.conflicts import settle
from weft.sim.elastic.moves import enqueue, refill
from weft.sim.elastic.state import DONE, WAITING, Move, Outcome, State, World
from weft.sim.jit import lean_kernel as kernel


@kernel
def report_arrival(s: State, b: int, kind: int, links: int) -> int:
    """A task of a type arrives, connected to the clusters of these bits; returns its number."""
    j = s.arrived[b]
    s.arrived[b] += 1
    s.status[b, j] = WAITING
    s.arrival[b, j] = s.now[b]
    s.kind[b, j] = kind
    s.links[b, j] = links
    enqueue(s, b, j)
    return j


@kernel
def report_end(s: State, b: int, j: int) -> None:
    """A running task has ended: its units are free."""
    n, kept = s.cluster[b, j], np.int64(0)
    for k in range(s.num_running[b, n]):
        other = s.running[b, n, k]
        s.running[b, n, k] = -1
        if other != j:
            s.running[b, n, kept] = other
            kept += 1
    s.num_running[b, n] = kept
    for r in range(s.units.shape[2]):
        s.free[b, n, r] += s.units[b, j, r]
    s.status[b, j] = DONE
    s.finish[b, j] = s.now[b] + 1
    s.done[b] += 1


@kernel
def report_step(s: State, b: int) -> None:
    """A world step has passed; what ended in it was reported before."""
    for n in range(s.slot.shape[1]):
        for k in range(s.num_running[b, n]):
            j = s.running[b, n, k]
            s.ran[b, j] += 1
            for r in range(s.units.shape[2]):
                s.before[b, j, r] = s.units[b, j, r]
                s.served[b, j, r] += s.units[b, j, r]
    s.now[b] += 1
    s.round[b] = 0


@kernel
def fill_sets(s: State, b: int) -> None:
    """Fill free slots from the queues, as after a world step."""
    for n in range(s.slot.shape[1]):
        refill(s, b, n)


@kernel
def settle_live(w: World, s: State, b: int, move: Move, out: Outcome) -> bool:
    """Carry a logical step out; whether any task was placed."""
    any_placed = settle(w, s, b, move, out)
    s.round[b] += 1
    return any_placed
