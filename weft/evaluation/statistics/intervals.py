"""Intervals of means that cover what they claim to on few and skewed samples, at one level of sampling or two.

Student's t is right for normal values. Means of few skewed values miss too often, mostly on the side
of the longer tail, and what a small sample shows of its skewness is too little. So the half-width of
95 % is multiplied by 1 + 2.5/n, and on the side of the longer tail moved out by twice Johnson's
correction (1978). Fewer than five values say nothing of skewness: there it is t times 1.5. ``python -m
benchmarks coverage`` prints what that reaches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from weft.evaluation.statistics.bootstrap import Interval
from weft.evaluation.statistics.distributions import t_quantile
from weft.evaluation.statistics.samples import check_confidence, column, crossed
from weft.model.graph import Floats

FEWEST = 5
"""From this many values on, skewness counts, and the allowance for small samples no longer grows below."""
_USUAL = 0.05
"""The error for which the allowance of small samples was chosen."""


@dataclass(frozen=True)
class _Part:
    """What a mean of independent values may be off by."""

    variance: float
    df: float
    skewness: float
    """Of the mean: that of the values over the root of their number."""


def mean_interval(values: npt.ArrayLike, *, confidence: float = 0.95) -> Interval:
    """The mean of independent values, at least two; equal values give an interval of width zero."""
    level = check_confidence(confidence)
    sample = column(values, "values", at_least=2)
    scale = float(np.abs(sample).max()) or 1.0  # so that cubes stay within range
    mean = float((sample / scale).mean())
    below, above = _ends([_part(sample / scale)], level)
    return Interval(scale * mean, scale * (mean - below), scale * (mean + above), level)


def difference_interval(own: npt.ArrayLike, other: npt.ArrayLike, *, confidence: float = 0.95) -> Interval:
    """The mean of ``own`` minus that of ``other``, two samples of independent values, at least two each."""
    level = check_confidence(confidence)
    first, second = column(own, "own", at_least=2), column(other, "other", at_least=2)
    scale = float(max(np.abs(first).max(), np.abs(second).max())) or 1.0
    below, above = _ends([_part(first / scale), _part(-second / scale)], level)
    mean = float((first / scale).mean() - (second / scale).mean())
    return Interval(scale * mean, scale * (mean - below), scale * (mean + above), level)


def crossed_interval(own: npt.ArrayLike, other: npt.ArrayLike, *, confidence: float = 0.95) -> Interval:
    """The difference of two means over training runs and evaluation seeds, both of them random.

    A row is a run, a column a seed that all runs met; a single row is taken as it is, like a rule that
    was not trained. The half-width over runs and the one over seeds add like the sides of a right
    angle. What runs and seeds do to each other is in both, so the interval is rather too wide.

    Parameters
    ----------
    own, other
        (num_runs, num_seeds) each, with the same seeds, at least two.
    """
    level = check_confidence(confidence)
    first, second = crossed(own, other)
    by_seed = first.mean(axis=0) - second.mean(axis=0)
    runs = [_part(sign * one.mean(axis=1)) for one, sign in ((first, 1), (second, -1)) if len(one) > 1]
    seeds = _ends([_part(by_seed)], level)
    trained = _ends(runs, level) if runs else (0.0, 0.0)
    below, above = (math.hypot(*ends) for ends in zip(seeds, trained, strict=True))
    mean = float(by_seed.mean())
    return Interval(mean, mean - below, mean + above, level)


def _part(values: Floats) -> _Part:
    n, offsets = len(values), values - values.mean()
    if np.ptp(values) == 0.0:
        return _Part(0.0, n - 1, 0.0)
    square = float((offsets**2).mean())
    skewness = 0.0
    if n >= FEWEST:
        skewness = float((offsets**3).mean()) / square**1.5 * math.sqrt(n - 1) / (n - 2)
    return _Part(square / (n - 1), n - 1, skewness)


def _ends(parts: Sequence[_Part], level: float) -> tuple[float, float]:
    """How far below and above the sum of independent means its true value may lie."""
    variance = sum(part.variance for part in parts)
    if variance == 0.0:
        return 0.0, 0.0
    df = variance**2 / sum(part.variance**2 / part.df for part in parts)  # Satterthwaite
    skewness = sum(part.skewness * part.variance**1.5 for part in parts) / variance**1.5
    half = _quantile(1.0 - level, df) * math.sqrt(variance)
    longer = half * (1.0 + _tail(df) * abs(skewness))
    return (longer, half) if skewness < 0.0 else (half, longer)


@lru_cache(maxsize=256)
def _quantile(error: float, df: float) -> float:
    """Student's t and the allowance for small samples, which does not grow where the error is smaller."""
    return t_quantile(error, df) + t_quantile(max(error, _USUAL), df) * 2.5 / max(df + 1.0, FEWEST)


@lru_cache(maxsize=256)
def _tail(df: float) -> float:
    """Twice Johnson's correction, in half-widths per unit of the mean's skewness."""
    t = t_quantile(_USUAL, df)
    return (1.0 + 2.0 * t * t) / (3.0 * t)
