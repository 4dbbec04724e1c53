"""Schedulers against the best rule of every problem (the envelope) and the best single rule.

Ratios are taken problem by problem, so that a slow problem weighs no more than a fast one; means are
geometric. Where costs may be 0, they are differences and plain means. The best rule is picked on the same runs it is compared on, which favours the envelope.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft import catalog
from weft.evaluation.statistics import Difference, mean_interval
from weft.evaluation.sweep.metrics import METRICS, Metric
from weft.evaluation.sweep.scales import level
from weft.model.graph import Floats

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Ratio:
    """A mean ratio as a distance in percent, negative is less; ends of its 95 % interval.

    Where there is a ``difference``, percentages are that over the mean of the rule, and not numbers
    where that is 0.
    """

    percent: float
    low_percent: float | None
    high_percent: float | None
    """None with a single problem."""
    difference: Difference | None = None

    def __str__(self) -> str:
        return self.text(2)

    def text(self, decimals: int) -> str:
        """The distance with its unit."""
        if self.difference is None:
            return f"{self.percent:+.{decimals}f} %"
        return f"{self.difference.mean:+.{decimals}f} {self.difference.unit}".rstrip()

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval in the unit of the text; None with a single problem."""
        if self.low_percent is None or self.high_percent is None:
            return None
        if self.difference is None:
            return self.low_percent, self.high_percent
        return self.difference.low, self.difference.high


@dataclass(frozen=True)
class Envelope:
    """One scheduler in one cell."""

    cell: str
    scheduler: str
    against_envelope: Ratio
    """Against the best rule of each problem."""
    better_percent: float
    """Share of the problems on which it is below the best rule."""
    single: str
    """The one rule that is nearest to the envelope over all problems."""
    against_single: Ratio

    def __str__(self) -> str:
        return (
            f"{self.cell}: {self.scheduler} {self.against_envelope} against the best rule of each "
            f"problem, {self.against_single} against {self.single}"
        )


def is_rule(name: str) -> bool:
    """Whether a scheduler is a hand-made dispatcher."""
    return name.removesuffix("+wait") in catalog.DISPATCHERS


def envelopes(
    cell: str, values: Sequence[tuple[str, Floats]], metric: Metric = METRICS["mean_jct"]
) -> tuple[Envelope, ...]:
    """Every scheduler of a cell, given its metric on every problem; empty without two rules."""
    rules = [(name, means) for name, means in values if is_rule(name)]
    if len(rules) < 2:
        return ()
    best = np.min([means for _, means in rules], axis=0)
    single, single_means = min(rules, key=lambda rule: _distance(metric, rule[1], best))
    return tuple(
        Envelope(
            cell,
            name,
            _ratio(metric, means, best),
            100.0 * float((means < best).mean()),
            single,
            _ratio(metric, means, single_means),
        )
        for name, means in values
    )


def _distance(metric: Metric, values: Floats, best: Floats) -> float:
    """What the nearest rule has the least of."""
    return level(metric, values - best if metric.may_be_zero else values / best)


def _ratio(metric: Metric, values: Floats, others: Floats) -> Ratio:
    if metric.may_be_zero:
        return _difference(metric, values - others, float(others.mean()))
    logs = np.log(values / others)
    if len(logs) < 2:
        return Ratio(_percent(float(logs.mean())), None, None)
    found = mean_interval(logs, confidence=CONFIDENCE)
    return Ratio(_percent(found.value), _percent(found.low), _percent(found.high))


def _difference(metric: Metric, steps: Floats, base: float) -> Ratio:
    """Differences as they are stated, and over the mean of the rule."""
    mean, low, high = float(steps.mean()), math.nan, math.nan
    if len(steps) > 1:
        found = mean_interval(steps, confidence=CONFIDENCE)
        mean, low, high = found.value, found.low, found.high
    percent, low_percent, high_percent = (
        100.0 * end / base if base > 0.0 else math.nan for end in (mean, low, high)
    )
    factor, unit = metric.step
    stated = Difference(factor * mean, factor * low, factor * high, unit)
    if len(steps) < 2:
        return Ratio(percent, None, None, stated)
    return Ratio(percent, low_percent, high_percent, stated)


def _percent(log_ratio: float) -> float:
    return 100.0 * float(np.expm1(log_ratio))
