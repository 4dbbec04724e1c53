"""Probabilities that change while jobs arrive: knots over the share of the stream, drawn per episode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weft.model.draws import WALK
from weft.model.graph import Floats
from weft.sim.jit import lean_inlined as inlined
from weft.sim.jit import lean_kernel as kernel
from weft.sim.random import keyed_uniform

if TYPE_CHECKING:
    from weft.sim.queues.kernel import State, Stream

STEP, WALKS = 1.0, 3.0
"""Positions in the model's ``DRIFTS``."""


@inlined
def first_edge_probability(s: State, b: int, job: int) -> float:
    """Probability of the first edge of the drifting branch for a job, by its place in the stream."""
    at, value = s.drift_at[b], s.drift_value[b]
    share = job / s.jobs[b]
    k = np.int64(0)
    while k < len(at) and share > at[k]:
        k += 1
    if k == 0 or k == len(at):
        return value[min(k, len(at) - 1)]
    part = (share - at[k - 1]) / (at[k] - at[k - 1])
    return value[k - 1] + part * (value[k] - value[k - 1])


@inlined
def is_drifting(stream: Stream, s: State, first: int, last: int, group: int) -> bool:
    """Whether a branch group is the one whose probability changes."""
    drifts = False
    if s.drift_at.shape[1] > 0:
        for e in range(first, last):
            drifts = drifts or (stream.group[e] == group and stream.choice[e] == 0)
    return drifts


@inlined
def drifted_outcome(
    stream: Stream, s: State, b: int, job: int, first: int, last: int, group: int, draw: float
) -> int:
    """The edge taken where the first edge's probability drifts; the others keep their shares of the rest."""
    num_others, rest = np.int64(-1), 0.0
    for e in range(first, last):
        if stream.group[e] == group:
            rest += s.probability[b, e] if num_others >= 0 else 0.0
            num_others += 1
    p = first_edge_probability(s, b, job)
    upto, left, taken = 0.0, 1.0 - p, np.int64(-1)
    for e in range(first, last):
        if stream.group[e] == group:
            if taken >= 0:
                p = left * (s.probability[b, e] / rest if rest > 0.0 else 1.0 / num_others)
            upto += p
            taken = e
            if draw < upto:
                break
    return taken


@kernel
def write_drift(stream: Stream, s: State, b: int, law: Floats) -> None:
    """Knots of one environment from its seed and its probability; ``law`` = kind, to, at, size."""
    at, value = s.drift_at[b], s.drift_value[b]
    if len(at) == 0:
        return
    edge = np.int64(0)
    while stream.choice[edge] != 0:
        edge += 1
    at[0], value[0] = law[2], s.probability[b, edge]
    if law[0] != WALKS:
        at[1], value[1] = (law[2] if law[0] == STEP else 1.0), law[1]
        return
    for k in range(1, len(at)):
        at[k] = law[2] + (1.0 - law[2]) * k / (len(at) - 1)
        step = law[3] * (2.0 * keyed_uniform(s.seed[b], WALK, 0, k, 0, 0) - 1.0)
        moved = abs(value[k - 1] + step)
        value[k] = 2.0 - moved if moved > 1.0 else moved


@kernel
def write_all_drifts(stream: Stream, s: State, law: Floats) -> None:
    """The same for every environment."""
    for b in range(len(s.seed)):
        write_drift(stream, s, b, law)
