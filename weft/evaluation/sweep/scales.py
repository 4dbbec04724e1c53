"""How schedulers are compared by one figure: by ratios, or by differences where it may be 0.

The table of metrics says which. Ratios go with geometric means, in which every sample counts the
same; differences with plain means.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.evaluation.statistics import (
    Comparison,
    PairedAggregates,
    PairedDifferences,
    compare_crossed,
    compare_differences,
    paired_aggregates,
    paired_differences,
)
from weft.evaluation.sweep.metrics import Metric
from weft.model.graph import Bools, Floats


def compare(metric: Metric, own: Floats, other: Floats) -> Comparison:
    """Two schedulers by one figure, (num_runs, num_samples) each."""
    if not metric.may_be_zero:
        return compare_crossed(own, other)
    factor, unit = metric.step
    return compare_differences(own, other, factor=factor, unit=unit)


def aggregates(metric: Metric, own: Floats, other: Floats) -> PairedAggregates | PairedDifferences:
    """Typical differences of two schedulers, (num_runs, num_samples, num_points) each."""
    if not metric.may_be_zero:
        return paired_aggregates(own, other)
    factor, unit = metric.step
    return paired_differences(own, other, factor=factor, unit=unit)


def centre(metric: Metric, values: Floats | Sequence[Floats], axis: int) -> Floats:
    """The geometric or the plain mean over one axis."""
    if metric.may_be_zero:
        return np.asarray(np.mean(values, axis=axis), dtype=np.float64)
    return np.asarray(np.exp(np.log(values).mean(axis=axis)), dtype=np.float64)


def level(metric: Metric, values: Floats) -> float:
    """What schedulers are ranked by: the mean of the logarithms, or of the values."""
    if metric.may_be_zero:
        return float(values.mean())
    with np.errstate(divide="ignore"):  # the lowest there can be, where a single sample is only shown
        return float(np.log(values).mean())


def is_refused(metric: Metric, costs: Floats) -> Bools:
    """Which costs cannot be compared: infinite ones, and those that have no ratio or lie below what there can be."""
    least = -np.inf if metric.least is None else metric.least
    allowed = costs >= least if metric.may_be_zero else costs > 0.0
    return np.asarray(~(np.isfinite(costs) & allowed))


def in_brackets(metric: Metric) -> str:
    """The unit of comparisons, for a label or a header; nothing where they are plain numbers."""
    return f" ({metric.compared_in})" if metric.compared_in else ""


def expected(metric: Metric) -> str:
    """What costs have to be, in words."""
    if not metric.may_be_zero:
        return "a number > 0"
    return "a number" if metric.least is None else f"a number >= {metric.least:g}"
