"""Logical steps of one environment without world time, for whoever keeps that elsewhere."""

from __future__ import annotations

from weft.sim.elastic.conflicts import settle
from weft.sim.elastic.state import Move, Outcome, State, World
from weft.sim.jit import lean_kernel as kernel


@kernel
def settle_round(w: World, s: State, b: int, move: Move, out: Outcome) -> bool:
    """Give every task that is asked for to one cluster; whether any was. The world does not move."""
    any_placed = settle(w, s, b, move, out)
    s.round[b] += 1
    return any_placed
