"""Aggregates with bootstrap intervals (Agarwal et al. 2021, "rliable"), over paired samples.

Costs come as (runs, samples, points), lower is better; samples are resampled whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.evaluation.statistics.bootstrap import Interval, batches
from weft.evaluation.statistics.distributions import normal_two_sided, t_quantile
from weft.evaluation.statistics.intervals import crossed_interval
from weft.evaluation.statistics.samples import (
    check_confidence,
    check_resamples,
    numbers,
    refuse_not_positive,
)
from weft.model.graph import Floats

FEW = 10
"""Below this many samples or runs, intervals of medians and the like are as wide as that of the mean."""
_TIE = 1e-9
"""Log-ratios up to this size count as none, and so do differences of this share of the greatest cost."""


@dataclass(frozen=True)
class PairedAggregates:
    """A first scheduler against a second over all samples and points; in percent, negative is less."""

    mean_percent: Interval
    """Geometric mean of the ratio."""
    median_percent: Interval
    iqm_percent: Interval
    """Geometric mean of the middle half of all ratios."""
    improvement_percent: Interval
    """How often the first is below the second; a tie counts half."""

    def __str__(self) -> str:
        return (
            f"interquartile mean {self.iqm_percent}, median {self.median_percent.value:.4g}, "
            f"below on {self.improvement_percent.value:.4g} %"
        )

    @property
    def median(self) -> Interval:
        """The median, in ``unit``."""
        return self.median_percent

    @property
    def iqm(self) -> Interval:
        """The interquartile mean, in ``unit``."""
        return self.iqm_percent

    @property
    def unit(self) -> str:
        """What both are in."""
        return "%"


@dataclass(frozen=True)
class PairedDifferences:
    """The same by differences, for costs that may be 0; in ``unit``, negative is less."""

    mean: Interval
    median: Interval
    iqm: Interval
    """Mean of the middle half of all differences."""
    improvement_percent: Interval
    """How often the first is below the second; a tie counts half."""
    unit: str = ""

    def __str__(self) -> str:
        return (
            f"interquartile mean {self.iqm}, median {self.median.value:.4g}, "
            f"below on {self.improvement_percent.value:.4g} %"
        )


class _Shown(Protocol):
    """How steps between costs, log-ratios or differences, are stated."""

    def one(self, step: float) -> float:
        """A step as it is stated."""

    def every(self, steps: Floats) -> Floats:
        """The same of many."""

    def back(self, stated: float) -> float:
        """The step that is stated so."""


class _Percent:
    """Log-ratios as percentages."""

    def one(self, step: float) -> float:
        return 100.0 * math.expm1(min(step, 700.0))

    def every(self, steps: Floats) -> Floats:
        return np.asarray(100.0 * np.expm1(np.minimum(steps, 700.0)))

    def back(self, stated: float) -> float:
        return math.log1p(stated / 100.0)


@dataclass(frozen=True)
class _Times:
    """Differences in units."""

    factor: float

    def one(self, step: float) -> float:
        return self.factor * step

    def every(self, steps: Floats) -> Floats:
        return self.factor * steps

    def back(self, stated: float) -> float:
        return stated / self.factor


def paired_aggregates(
    a: npt.ArrayLike, b: npt.ArrayLike, *, confidence: float = 0.95, seed: int = 0, resamples: int = 999
) -> PairedAggregates:
    """Mean, median, interquartile mean and probability of improvement of the costs of a against b.

    The interval of the mean is that of :func:`crossed_interval`. Quantiles of the resamples are taken further
    out the fewer samples there are, as Student's t is against the normal distribution (Hesterberg 2015, the
    expanded percentile interval). Few samples show too little of what may happen: below ten, intervals are
    at least as wide as that of the mean, and a chance has at least Wilson's interval.

    Parameters
    ----------
    a, b
        (num_runs, num_samples, num_points) each: training runs, in their geometric mean, on the same
        samples and points. Runs and samples are resampled, points are not.
    """
    first, second = _cubes(a, b)
    refuse_not_positive(first, "a")
    refuse_not_positive(second, "b")
    return PairedAggregates(
        *_aggregates(np.log(first), np.log(second), _Percent(), confidence, seed, resamples)
    )


def paired_differences(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int = 999,
    factor: float = 1.0,
    unit: str = "",
) -> PairedDifferences:
    """The same by differences; ``factor`` and ``unit`` are those of :func:`compare_differences`, runs in their plain mean."""
    first, second = _cubes(a, b)
    scale = float(max(np.abs(first).max(), np.abs(second).max())) or 1.0
    shown = _Times(scale * factor)
    return PairedDifferences(
        *_aggregates(first / scale, second / scale, shown, confidence, seed, resamples), unit
    )


def _aggregates(
    first: Floats, second: Floats, shown: _Shown, confidence: float, seed: int, resamples: int
) -> tuple[Interval, Interval, Interval, Interval]:
    """Mean, median, interquartile mean and chance of the steps first - second."""
    level = check_confidence(confidence)
    rng = np.random.default_rng(seed)
    found = []
    for count in batches(check_resamples(resamples), first[0].size):
        drawn = rng.integers(0, first.shape[1], (count, first.shape[1]))[:, :, None]
        steps = _drawn_runs(first, count, rng) - _drawn_runs(second, count, rng)
        found.append(_paired_summaries(np.take_along_axis(steps, drawn, axis=1), shown))
    value = _paired_summaries((first.mean(axis=0) - second.mean(axis=0))[None], shown)[0]
    fewest = min(n for n in (len(first), len(second), first.shape[1]) if n > 1)
    wider = _percentiles(value, np.concatenate(found), _expanded(level, fewest))
    mean = crossed_interval(first.mean(axis=2), second.mean(axis=2), confidence=level)
    if fewest < FEW:
        wider[1:3] = [_at_least_around(one, mean, shown) for one in wider[1:3]]
    median, middle = (replace(one, confidence=level) for one in wider[1:3])
    return _around(mean.value, mean, shown), median, middle, _at_least_wilson(wider[3], fewest, level)


def _around(centre: float, mean: Interval, shown: _Shown) -> Interval:
    """The interval of a mean of steps, moved to another centre, as it is stated."""
    ends = (centre + mean.low - mean.value, centre + mean.high - mean.value)
    low, high = (shown.one(end) for end in ends)
    return Interval(shown.one(centre), low, high, mean.confidence)


def _at_least_around(found: Interval, mean: Interval, shown: _Shown) -> Interval:
    other = _around(shown.back(found.value), mean, shown)
    return replace(other, low=min(found.low, other.low), high=max(found.high, other.high), value=found.value)


def _at_least_wilson(found: Interval, n: int, level: float) -> Interval:
    """Shares in percent; Wilson's score interval of this many samples is sound where all went one way."""
    z2 = t_quantile(1.0 - level, 1e6) ** 2 / n
    share = found.value / 100.0
    centre = (share + z2 / 2.0) / (1.0 + z2)
    half = math.sqrt(z2 * share * (1.0 - share) + z2 * z2 / 4.0) / (1.0 + z2)
    low, high = 100.0 * max(0.0, centre - half), 100.0 * min(1.0, centre + half)
    return Interval(found.value, min(found.low, low), max(found.high, high), level)


def _cubes(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Two arrays of costs on the same samples and points."""
    first, second = numbers(a, "a", ndim=3), numbers(b, "b", ndim=3)
    if first.shape[1:] != second.shape[1:] or first.shape[1] < 2 or not first.size or not second.size:
        expected = f"as many samples, at least 2, and points as in a {first.shape[1:]}"
        raise InputError(f"expected {expected}, got {second.shape[1:]}", field="b")
    return first, second


def _drawn_runs(costs: Floats, count: int, rng: np.random.Generator) -> Floats:
    """The mean over resampled runs, (count, num_samples, num_points); a single run is taken as it is."""
    if len(costs) == 1:
        return costs
    shares = rng.multinomial(len(costs), np.full(len(costs), 1 / len(costs)), count) / len(costs)
    return np.asarray(np.tensordot(shares, costs, axes=1))


def _expanded(level: float, n: int) -> float:
    return 1.0 - normal_two_sided(math.sqrt(n / (n - 1)) * t_quantile(1.0 - level, n - 1))


def _paired_summaries(steps: Floats, shown: _Shown) -> Floats:
    """Mean, median, interquartile mean as stated, and share below in percent, of every matrix: (count, 4)."""
    flat = steps.reshape(len(steps), -1)
    flat = np.where(np.abs(flat) <= _TIE, 0.0, flat)
    below = (flat < 0.0).mean(axis=1) + 0.5 * (flat == 0.0).mean(axis=1)
    centres = np.stack([flat.mean(axis=1), np.median(flat, axis=1), _middle_mean(flat)], axis=1)
    return np.concatenate([shown.every(centres), 100.0 * below[:, None]], axis=1)


def _middle_mean(values: Floats) -> Floats:
    """Interquartile mean over the last axis."""
    n = values.shape[-1]
    return np.asarray(np.sort(values, axis=-1)[..., n // 4 : n - n // 4].mean(axis=-1))


def _percentiles(values: Floats, replicates: Floats, level: float) -> list[Interval]:
    """One interval per column of the replicates."""
    low, high = np.quantile(replicates, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    rows = zip(values.tolist(), low.tolist(), high.tolist(), strict=True)
    return [Interval(*row, level) for row in rows]
