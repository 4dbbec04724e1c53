"""Schedulers over all points of a sweep, beyond means: typical differences, and how often close to the best.

A row of costs is a problem, or a seed of a stream; it is met at every point, so rows are what is
resampled, whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weft.evaluation.statistics import Interval, PairedAggregates, PairedDifferences, performance_profile
from weft.evaluation.sweep import scales
from weft.evaluation.sweep.metrics import Metric
from weft.model.graph import Floats

WITHIN = (0.0, 1.0, 5.0, 10.0, 25.0)
"""Percentages above the best at which a performance profile is given."""
NO_PROFILE = (
    "Left out: how often each is close to the best (a performance profile); percentages of 0 say nothing."
)
"""Where costs may be 0."""
Costs = Mapping[str, Floats]
"""Scheduler -> (num_runs, num_samples, num_points) costs on the same samples and points; a rule is one run."""


@dataclass(frozen=True)
class Overall:
    """One scheduler over all samples and points."""

    scheduler: str
    baseline: str
    num_samples: int
    num_points: int
    against: PairedAggregates | PairedDifferences | None
    """Against the baseline; None of the baseline itself."""
    within: Mapping[str, float]
    """Percentage above the best of all -> percentage of samples and points that are within it; empty where costs may be 0."""


def overall_of(costs: Costs, baseline: str, metric: Metric) -> tuple[Overall, ...]:
    """Every scheduler, in the order given; none with fewer than two samples or schedulers."""
    if len(costs) < 2 or baseline not in costs or costs[baseline].shape[1] < 2:
        return ()
    shares, base = {} if metric.may_be_zero else profile_shares(costs), costs[baseline]
    _, num_samples, num_points = base.shape
    found = {
        name: None if name == baseline else scales.aggregates(metric, own, base)
        for name, own in costs.items()
    }
    return tuple(
        Overall(name, baseline, num_samples, num_points, found[name], shares.get(name, {})) for name in costs
    )


def profile_shares(costs: Costs) -> dict[str, dict[str, float]]:
    """Scheduler -> how often it is within each percentage of the best, in percent."""
    ratios = performance_profile(
        np.stack([own.mean(axis=0).ravel() for own in costs.values()], axis=1)
    ).ratios
    return {
        name: {f"{p:g}": 100.0 * float((ratios[:, k] <= 1.0 + p / 100.0 + 1e-9).mean()) for p in WITHIN}
        for k, name in enumerate(costs)
    }


def in_percent(found: Interval, decimals: int = 1, sign: str = "+") -> str:
    """An interval of percentages as a table shows it."""
    value, low, high = (f"{one:{sign}.{decimals}f}" for one in (found.value, found.low, found.high))
    return f"{value} ({low} to {high})"
