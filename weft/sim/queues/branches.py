"""What the branches of a task decide in the queue view: reported, traced or drawn, and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weft.model.draws import BRANCH
from weft.sim.jit import lean_inlined as inlined
from weft.sim.queues.drift import drifted_outcome, is_drifting
from weft.sim.random import keyed_uniform

if TYPE_CHECKING:
    from weft.sim.queues.kernel import State, Stream


@inlined
def outcome_of(stream: Stream, s: State, b: int, job: int, node: int, v: int, group: int) -> int:
    """The edge that is taken out of one branch group of node v: reported, traced, or a keyed draw."""
    first, last = stream.succ_ptr[v], stream.succ_ptr[v + 1]
    if s.told.shape[1] > 0:
        for e in range(first, last):
            if stream.group[e] == group and s.told[b, e - first]:
                return e
    if s.trace.shape[1] > 0:
        return first + s.trace[b, job, node]
    draw = keyed_uniform(s.seed[b], BRANCH, job, node, group, 0)
    if is_drifting(stream, s, first, last, group):
        return drifted_outcome(stream, s, b, job, first, last, group, draw)
    upto = 0.0
    taken = np.int64(-1)
    for e in range(first, last):
        if stream.group[e] == group:
            upto += s.probability[b, e]
            taken = e
            if draw < upto:
                break
    return taken


@inlined
def observe_outcome(stream: Stream, s: State, b: int, job: int, node: int, v: int) -> None:
    """Count what every tracked branch of node v decided, for the running estimates."""
    first = stream.succ_ptr[v]
    for e in range(first, stream.succ_ptr[v + 1]):
        c = stream.choice[e]
        is_first = c >= 0
        for other in range(first, e):  # edges of two branches may alternate
            is_first = is_first and stream.choice[other] != c
        if is_first:
            taken = outcome_of(stream, s, b, job, node, v, stream.group[e])
            s.seen[b, c, 0] = s.seen[b, c, 0] * stream.forget + 1.0
            s.seen[b, c, 1] = s.seen[b, c, 1] * stream.forget + (1.0 if taken == e else 0.0)
