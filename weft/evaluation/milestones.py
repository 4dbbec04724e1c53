"""When a run has passed the rules and when it has converged: one definition for curves and claims."""

from __future__ import annotations

import numpy as np

from weft.model.graph import Bools, Floats, Ints

LAST = 3
"""Judgements at the end whose mean is the final value."""
SETTLED = 1.0
"""A run has converged where it stays within this many percentage points of its final value."""


def final(values: Floats) -> Floats:
    """Final value of every run; values (..., num_judgements)."""
    return np.asarray(values[..., -LAST:].mean(-1), np.float64)


def is_passed(percents: Floats) -> Bools:
    """Where a run is below the rules, given percent above the best of them."""
    return np.asarray(percents < 0.0, np.bool_)


def is_settled(values: Floats) -> Bools:
    """Where a run is near its final value; nowhere with too few judgements to say."""
    can_tell = values.shape[-1] >= 2 * LAST
    return np.asarray((np.abs(values - final(values)[..., None]) <= SETTLED) & can_tell, np.bool_)


def from_where(samples: Ints | Floats, holds: Bools) -> int | None:
    """The samples of one run from which something holds at every later judgement; None: never."""
    broken = np.flatnonzero(~holds)
    first = int(broken[-1]) + 1 if len(broken) else 0
    return int(samples[first]) if first < len(holds) else None
