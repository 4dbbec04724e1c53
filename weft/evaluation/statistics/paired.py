"""Tests and effect sizes of two samples, and Holm's correction of several p-values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.evaluation.statistics.distributions import normal_two_sided, t_quantile, t_two_sided
from weft.evaluation.statistics.samples import check_confidence, differences, numbers, pairs
from weft.model.graph import Floats

_EXACT_LIMIT = 50
_EXACT_LIMIT_TIED = 13


@dataclass(frozen=True)
class PairedT:
    """Student's paired t test of mean(a - b) = 0, two-sided."""

    t: float
    """Infinite where all differences are one number other than zero."""
    df: int
    p: float
    mean: float
    """Mean of a - b."""
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        return (
            f"mean difference {self.mean:.4g} ({100 * self.confidence:g} % CI {self.low:.4g} to "
            f"{self.high:.4g}), t({self.df}) = {self.t:.4g}, p = {self.p:.3g}"
        )


@dataclass(frozen=True)
class Wilcoxon:
    """Wilcoxon's signed-rank test of symmetry of a - b around 0, two-sided."""

    statistic: float
    """The smaller of the two rank sums."""
    p: float
    num_nonzero: int
    """Pairs that differ; the others are left out, as Wilcoxon did."""
    method: str
    """How p was found: ``exact`` or ``approx`` (normal)."""

    def __str__(self) -> str:
        return (
            f"W = {self.statistic:g} over {self.num_nonzero} unequal pairs, p = {self.p:.3g} ({self.method})"
        )


@dataclass(frozen=True)
class WinTieLoss:
    """On how many pairs the first has the lower cost, an equal one, the higher one."""

    wins: int
    ties: int
    losses: int

    def __str__(self) -> str:
        tied = f", ties {self.ties}" if self.ties else ""
        return f"wins {self.wins} of {self.wins + self.ties + self.losses}{tied}"


def paired_t(a: npt.ArrayLike, b: npt.ArrayLike, *, confidence: float = 0.95) -> PairedT:
    """Test whether the mean of a - b is zero and give its confidence interval.

    Equal differences have no spread: then p is 1 if they are zero and 0 otherwise.
    """
    level = check_confidence(confidence)
    found = differences(a, b, at_least=2)
    df = len(found) - 1
    scale, mean, deviation = _moments(found)
    error = deviation / math.sqrt(len(found))
    t = _signed_ratio(mean, error)
    margin = t_quantile(1.0 - level, df) * error if error else 0.0
    bounds = (scale * (mean - margin), scale * (mean + margin))
    return PairedT(t, df, t_two_sided(t, df), scale * mean, *bounds, level)


def cohens_d_z(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    """Mean of a - b in standard deviations of a - b; infinite where they are all one non-zero number."""
    _, mean, deviation = _moments(differences(a, b, at_least=2))
    return _signed_ratio(mean, deviation)


def _moments(values: Floats) -> tuple[float, float, float]:
    """Scale, and mean and standard deviation in units of it, so that squares stay within range."""
    scale = float(np.abs(values).max())
    if scale == 0.0:
        return 1.0, 0.0, 0.0
    if np.ptp(values / scale) == 0.0:
        return scale, math.copysign(1.0, values[0]), 0.0
    return scale, float(np.mean(values / scale)), float(np.std(values / scale, ddof=1))


def _signed_ratio(value: float, spread: float) -> float:
    """value / spread, with 0 / 0 = 0 and infinity for a value without spread."""
    if spread:
        return value / spread
    return math.copysign(math.inf, value) if value else 0.0


def wilcoxon(
    a: npt.ArrayLike, b: npt.ArrayLike, *, method: Literal["auto", "exact", "approx"] = "auto"
) -> Wilcoxon:
    """Signed-rank test of a - b; pairs without a difference are left out.

    Parameters
    ----------
    method
        ``exact`` counts all sign patterns, also where differences tie in size; ``approx`` is the
        normal approximation with tie correction and no continuity correction; ``auto`` is exact for
        at most 50 pairs (13 where differences are zero or tie in size), as in scipy.
    """
    found = differences(a, b, at_least=1)
    nonzero = found[found != 0.0]
    ranks, tie_sizes = _average_ranks(np.abs(nonzero))
    positive = float(ranks[nonzero > 0.0].sum())
    smaller = min(positive, float(ranks.sum()) - positive)
    chosen = _choose_method(method, len(found), len(ranks) < len(found) or bool((tie_sizes > 1).any()))
    p = _exact_p(ranks, smaller) if chosen == "exact" else _approximate_p(tie_sizes, smaller)
    return Wilcoxon(smaller, p, len(nonzero), chosen)


def least_pairs(level: float) -> int:
    """The fewest pairs with which the exact signed-rank test can be at most at this level: all of one sign."""
    if not 0.0 < level <= 1.0:
        raise InputError(f"expected a number > 0 and <= 1, got {level}", field="level")
    return math.ceil(1.0 - math.log2(level))


def _choose_method(method: str, num_pairs: int, is_tied: bool) -> str:
    if method not in ("auto", "exact", "approx"):
        raise InputError(f"expected auto, exact or approx, got {method!r}", field="method")
    if method != "auto":
        return method
    return "exact" if num_pairs <= (_EXACT_LIMIT_TIED if is_tied else _EXACT_LIMIT) else "approx"


def _average_ranks(values: Floats) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Ranks from 1, ties sharing their average, and the size of every group of equal values."""
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(sizes) - 0.5 * (sizes - 1))[group], sizes


def _exact_p(ranks: Floats, smaller: float) -> float:
    """Twice the share of sign patterns with a rank sum of at most ``smaller``.

    Twice a rank is a whole number even among ties, so the distribution is built on twice the sum,
    one rank after the other; it is symmetric, so one tail is enough.
    """
    share = np.zeros(round(2 * smaller) + 1)
    share[0] = 1.0
    for step in np.rint(2 * ranks).astype(np.int64).tolist():
        share[step:] += share[: max(len(share) - step, 0)].copy()
        share *= 0.5
    return min(1.0, 2.0 * float(share.sum()))


def _approximate_p(tie_sizes: npt.NDArray[np.int64], smaller: float) -> float:
    sizes = tie_sizes.astype(np.float64)
    n = float(sizes.sum())
    variance = (n * (n + 1) * (2 * n + 1) - float((sizes**3 - sizes).sum()) / 2) / 24
    if variance == 0.0:
        return 1.0
    return normal_two_sided((smaller - n * (n + 1) / 4) / math.sqrt(variance))


def tied(a: Floats, b: Floats, tolerance: float) -> npt.NDArray[np.bool_]:
    """Where a and b differ by at most ``tolerance`` of the larger one."""
    if not 0.0 <= tolerance < 1.0:
        raise InputError(f"expected a number >= 0 and < 1, got {tolerance}", field="tolerance")
    largest = np.maximum(np.abs(a), np.abs(b))
    unit = np.where(largest > 0.0, largest, 1.0)
    return np.abs(a / unit - b / unit) <= tolerance


def win_tie_loss(a: npt.ArrayLike, b: npt.ArrayLike, *, tolerance: float = 1e-9) -> WinTieLoss:
    """Count the pairs on which cost a is lower, equal up to a relative tolerance, or higher."""
    first, second = pairs(a, b, at_least=1)
    is_tie = tied(first, second, tolerance)
    wins = int(((first < second) & ~is_tie).sum())
    ties = int(is_tie.sum())
    return WinTieLoss(wins, ties, len(first) - wins - ties)


def holm(p_values: npt.ArrayLike) -> Floats:
    """Holm's adjusted p-values, in the order given; reject those at most the level wanted."""
    p = numbers(p_values, "p_values")
    if ((p < 0.0) | (p > 1.0)).any():
        raise InputError(f"expected p-values from 0 to 1, got {p.min():g} to {p.max():g}", field="p_values")
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order]), 1.0)
    adjusted = np.empty_like(p)
    adjusted[order] = stepped
    return adjusted
