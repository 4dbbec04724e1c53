"""Schedulers against the best rule of every problem (the envelope) and the best single rule.

Ratios are taken problem by problem, so that a slow problem weighs no more than a fast one; means are
geometric. The best rule is picked on the same runs it is compared on, which favours the envelope.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft import catalog
from weft.evaluation.statistics import mean_interval
from weft.model.graph import Floats

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Ratio:
    """A mean ratio as a distance in percent, negative is less; ends of its 95 % interval."""

    percent: float
    low_percent: float | None
    high_percent: float | None
    """None with a single problem."""


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
            f"{self.cell}: {self.scheduler} {self.against_envelope.percent:+.2f} % against the best rule of each "
            f"problem, {self.against_single.percent:+.2f} % against {self.single}"
        )


def is_rule(name: str) -> bool:
    """Whether a scheduler is a hand-made dispatcher."""
    return name.removesuffix("+wait") in catalog.DISPATCHERS


def envelopes(cell: str, values: Sequence[tuple[str, Floats]]) -> tuple[Envelope, ...]:
    """Every scheduler of a cell, given its metric on every problem; empty without two rules."""
    rules = [(name, means) for name, means in values if is_rule(name)]
    if len(rules) < 2:
        return ()
    best = np.min([means for _, means in rules], axis=0)
    single, single_means = min(rules, key=lambda rule: float(np.log(rule[1] / best).mean()))
    return tuple(
        Envelope(
            cell,
            name,
            _ratio(means, best),
            100.0 * float((means < best).mean()),
            single,
            _ratio(means, single_means),
        )
        for name, means in values
    )


def _ratio(values: Floats, others: Floats) -> Ratio:
    logs = np.log(values / others)
    if len(logs) < 2:
        return Ratio(_percent(float(logs.mean())), None, None)
    found = mean_interval(logs, confidence=CONFIDENCE)
    return Ratio(_percent(found.value), _percent(found.low), _percent(found.high))


def _percent(log_ratio: float) -> float:
    return 100.0 * float(np.expm1(log_ratio))
