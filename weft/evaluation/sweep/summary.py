"""Means with intervals, which keep to the values that a figure can have."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from weft.evaluation.statistics import mean_interval
from weft.evaluation.sweep.metrics import metric as metric_of
from weft.model.graph import Floats

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """One metric of one scheduler in one cell, over samples."""

    cell: str
    scheduler: str
    metric: str
    mean: float
    se: float | None
    """Standard error; None with a single sample."""
    low: float | None
    high: float | None
    """Ends of the 95 % interval of the mean."""


def summary_of(cell: str, scheduler: str, metric: str, values: Floats) -> Summary:
    """Mean, standard error and interval of one value per sample."""
    mean, num = float(values.mean()), len(values)
    if num < 2 or not np.isfinite(values).all():  # or a metric that some rows lack
        return Summary(cell, scheduler, metric, mean, None, None, None)
    se = float(values.std(ddof=1) / num**0.5)
    found = mean_interval(values, confidence=CONFIDENCE)
    return bounded(Summary(cell, scheduler, metric, mean, se, found.low, found.high))


def bounded(found: Summary) -> Summary:
    """The same with an interval that keeps to the values that there can be."""
    least, most = metric_of(found.metric).least, metric_of(found.metric).most
    low, high = found.low, found.high
    if low is not None and least is not None:
        low = max(low, min(least, found.mean))
    if high is not None and most is not None:
        high = min(high, max(most, found.mean))
    return replace(found, low=low, high=high)
