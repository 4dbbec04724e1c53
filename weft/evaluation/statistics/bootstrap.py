"""The BCa bootstrap interval of one sample (Efron and Tibshirani 1993, chapter 14)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.evaluation.statistics.distributions import normal_cdf, normal_quantile
from weft.evaluation.statistics.samples import check_confidence, check_resamples, column
from weft.model.graph import Floats

Statistic = Callable[[Floats], Floats]
"""Reduces the last axis of an array, e.g. ``mean``."""

_CELLS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval."""

    value: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ({100 * self.confidence:g} % CI {self.low:.4g} to {self.high:.4g})"


def mean(values: Floats) -> Floats:
    """Mean over the last axis."""
    return np.asarray(values.mean(axis=-1))


def bca_interval(
    values: npt.ArrayLike,
    *,
    statistic: Statistic = mean,
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = 9999,
) -> Interval:
    """The percentile interval corrected for bias and for a spread that changes with the value.

    Equal values give an interval of width zero.
    """
    level = check_confidence(confidence)
    sample = column(values, "values", at_least=2)
    value = float(statistic(sample))
    if (sample == sample[0]).all():
        check_resamples(resamples)
        return Interval(value, value, value, level)
    replicates = _replicates(sample, statistic, resamples, np.random.default_rng(seed))
    shares = _bca_shares(replicates, value, _acceleration(_jackknife(sample, statistic)), level)
    low, high = np.quantile(replicates, shares).tolist()
    return Interval(value, low, high, level)


def batches(num_rows: int, cells_per_row: int) -> Iterator[int]:
    """Row counts that sum to ``num_rows``, each small enough to hold in memory."""
    most = max(1, _CELLS_AT_ONCE // max(1, cells_per_row))
    for first in range(0, num_rows, most):
        yield min(most, num_rows - first)


def _replicates(sample: Floats, statistic: Statistic, resamples: int, rng: np.random.Generator) -> Floats:
    """The statistic of resamples drawn with replacement."""
    n = len(sample)
    rows = batches(check_resamples(resamples), n)
    return np.concatenate([statistic(sample[rng.integers(0, n, (count, n))]) for count in rows])


def _jackknife(sample: Floats, statistic: Statistic) -> Floats:
    """The statistic with each value left out in turn."""
    kept = np.arange(len(sample) - 1)
    found, first = [], 0
    for count in batches(len(sample), len(sample)):
        left_out = np.arange(first, first + count)[:, None]
        found.append(statistic(sample[kept + (kept >= left_out)]))
        first += count
    return np.concatenate(found)


def _acceleration(jackknife: Floats) -> float:
    """A sixth of the skewness of the jackknife values; zero where they are all equal."""
    offsets = jackknife.mean() - jackknife
    largest = np.abs(offsets).max()
    if largest == 0.0:
        return 0.0
    offsets /= largest
    return float((offsets**3).sum() / (6.0 * (offsets**2).sum() ** 1.5))


def _bca_shares(replicates: Floats, value: float, acceleration: float, level: float) -> tuple[float, float]:
    """Which quantiles of the replicates bound the interval."""
    below = ((replicates < value).mean() + (replicates <= value).mean()) / 2
    # All replicates on one side of the estimate would ask for an infinite correction.
    least = 0.5 / len(replicates)
    bias = normal_quantile(float(np.clip(below, least, 1.0 - least)))
    z = normal_quantile(0.5 - 0.5 * level)
    return _corrected(bias, bias + z, acceleration), _corrected(bias, bias - z, acceleration)


def _corrected(bias: float, shifted: float, acceleration: float) -> float:
    stretch = 1.0 - acceleration * shifted
    if stretch <= 0.0:  # past the pole of the correction: the limit, not its mirror image
        return 1.0 if shifted > 0.0 else 0.0
    return normal_cdf(bias + shifted / stretch)
