"""One verdict on two schedulers from their costs on the same problems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from weft.evaluation.statistics.bootstrap import Interval
from weft.evaluation.statistics.intervals import crossed_interval, mean_interval
from weft.evaluation.statistics.paired import (
    cohens_d_z,
    holm,
    least_pairs,
    paired_t,
    tied,
    wilcoxon,
    win_tie_loss,
)
from weft.evaluation.statistics.samples import check_confidence, crossed, pairs, refuse_not_positive
from weft.model.graph import Floats

Verdict = Literal["better", "worse", "not distinguishable", "too few samples"]
_DECIMALS = 12
"""Log-ratios are rounded to this many decimals, so that 9/10 and 18/20 tie."""


@dataclass(frozen=True)
class Comparison:
    """How the costs of a first scheduler relate to those of a second on the same problems.

    Percentages are of the geometric mean of the ratio first / second: -3 means 3 % lower costs.
    """

    n: int
    percent: float
    low_percent: float
    high_percent: float
    """Ends of the interval of the mean log-ratio, as percentages."""
    confidence: float
    t_p: float
    """p of the paired t test of the log-ratios."""
    wilcoxon_p: float
    """p of the signed-rank test of the log-ratios."""
    wins: int
    ties: int
    losses: int
    effect_size: float
    """Cohen's d_z of the log-ratios, negative where the first is lower; infinite if they are all equal."""
    family: int = 1
    """How many comparisons p-values are corrected for."""

    @property
    def verdict(self) -> Verdict:
        """Better or worse only if the interval excludes zero and both tests agree at the same level."""
        level = 1.0 - self.confidence
        if self.n < self.least_n and self.ties < self.n:
            return "too few samples"
        if max(self.t_p, self.wilcoxon_p) > level or self.low_percent <= 0.0 <= self.high_percent:
            return "not distinguishable"
        return "better" if self.percent < 0.0 else "worse"

    @property
    def least_n(self) -> int:
        """The fewest samples that allow for a verdict: with fewer, the signed-rank test, corrected for all
        comparisons, cannot reach its level even where every sample is won.
        """
        return least_pairs((1.0 - self.confidence) / self.family)

    @property
    def is_open(self) -> bool:
        """Whether the interval leaves out 0, and yet the tests, corrected for all comparisons, say nothing."""
        return self.verdict == "not distinguishable" and not self.low_percent <= 0.0 <= self.high_percent

    @property
    def doubt(self) -> str:
        """Why nothing is distinguishable although most may have been won, as the end of a sentence; else empty."""
        if self.verdict != "not distinguishable" or self.percent == 0.0:
            return ""
        return " (the paired tests say it may be chance)" if self.is_open else " (the interval includes 0)"

    def too_few(self, noun: str = "sample") -> str:
        """How many samples it would take, in words."""
        return f"{self.n} {noun}s are too few for a verdict; at least {self.least_n} are needed"

    def summary(self, first: str = "a", second: str = "b") -> str:
        """The comparison in one line of words, with the names of the two schedulers."""
        record = f"wins {self.wins} of {self.n}" + (f", ties {self.ties}" if self.ties else "")
        if self.verdict in ("not distinguishable", "too few samples"):
            interval = self._interval(self.low_percent, self.high_percent)
            said = f"mean difference {_short(self.percent)} % {interval}, {record}"
            if self.verdict == "too few samples":
                return f"{first} against {second}: {said}; {self.too_few()}"
            return f"{first} and {second} are not distinguishable: {said}"
        if self.verdict == "better":
            interval = self._interval(-self.high_percent, -self.low_percent)
            return f"{first} is {_short(-self.percent)} % below {second} {interval}, {record}"
        interval = self._interval(self.low_percent, self.high_percent)
        return f"{first} is {_short(self.percent)} % above {second} {interval}, {record}"

    def __str__(self) -> str:
        return self.summary()

    def to_dict(self) -> dict[str, object]:
        """The JSON form; None where a number is infinite."""
        named = asdict(self) | {"verdict": self.verdict, "least_n": self.least_n}
        return {key: None if value in (math.inf, -math.inf) else value for key, value in named.items()}

    def _interval(self, low: float, high: float) -> str:
        return f"({100 * self.confidence:g} % CI {_short(low)} to {_short(high)} %)"


def compare_paired(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    tolerance: float = 1e-9,
) -> Comparison:
    """Compare two schedulers by positive costs (lower is better), paired by problem.

    All figures rest on log-ratios, so every problem counts the same whatever its size. The order of
    the problems changes nothing, and exchanging a and b mirrors the result exactly.

    Parameters
    ----------
    tolerance
        Relative difference up to which two costs count as equal.
    """
    check_confidence(confidence)
    first, second = pairs(a, b, at_least=2)
    refuse_not_positive(first, "a")
    refuse_not_positive(second, "b")
    ratios, sign = _canonical(_log_ratios(first, second, tolerance))
    none = np.zeros_like(ratios)
    interval = _mean_interval(ratios, sign, confidence)
    record = win_tie_loss(first, second, tolerance=tolerance)
    return Comparison(
        n=len(ratios),
        percent=_percent(interval.value),
        low_percent=_percent(interval.low),
        high_percent=_percent(interval.high),
        confidence=confidence,
        t_p=paired_t(ratios, none, confidence=confidence).p,
        wilcoxon_p=wilcoxon(ratios, none).p,
        wins=record.wins,
        ties=record.ties,
        losses=record.losses,
        effect_size=sign * cohens_d_z(ratios, none) if sign else 0.0,
    )


def compare_crossed(a: npt.ArrayLike, b: npt.ArrayLike, *, confidence: float = 0.95) -> Comparison:
    """The same of costs as (runs, problems): policies of several training runs, in their geometric means.

    The interval is over runs and problems, both of them random; tests and wins are over problems.
    """
    first, second = crossed(a, b)
    refuse_not_positive(first, "a")
    refuse_not_positive(second, "b")
    if len(first) == len(second) == 1:
        return compare_paired(first[0], second[0], confidence=confidence)
    logs = np.log(first), np.log(second)
    found = compare_paired(*(np.exp(one.mean(axis=0)) for one in logs), confidence=confidence)
    ends = crossed_interval(*logs, confidence=confidence)
    return replace(found, low_percent=_percent(ends.low), high_percent=_percent(ends.high))


def holm_family(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """The comparisons with both p-values corrected by Holm for being made together."""
    t = holm([one.t_p for one in comparisons]).tolist()
    ranks = holm([one.wilcoxon_p for one in comparisons]).tolist()
    return tuple(
        replace(one, t_p=t[i], wilcoxon_p=ranks[i], family=len(comparisons))
        for i, one in enumerate(comparisons)
    )


def _log_ratios(a: Floats, b: Floats, tolerance: float) -> Floats:
    """log(a / b), exactly zero where a and b count as equal."""
    return np.where(tied(a, b, tolerance), 0.0, np.round(np.log(a) - np.log(b), _DECIMALS))


def _canonical(values: Floats) -> tuple[Floats, int]:
    """The values sorted, or their mirror image if that comes first, and the sign that undoes it.

    Sums then meet the same numbers in the same order however the caller ordered them. The sign is 0
    where the values are their own mirror image.
    """
    ascending, mirrored = np.sort(values), np.sort(-values)
    if np.array_equal(ascending, mirrored):
        return ascending, 0
    return (ascending, 1) if ascending.tolist() < mirrored.tolist() else (mirrored, -1)


def _mean_interval(canonical: Floats, sign: int, confidence: float) -> Interval:
    """Interval of the mean of the values as the caller has them; symmetric if they are."""
    found = mean_interval(canonical, confidence=confidence)
    if sign == 0:
        half = 0.5 * (found.high - found.low)
        return Interval(0.0, -half, half, confidence)
    low, high = sorted((sign * found.low, sign * found.high))
    return Interval(sign * found.value, low, high, confidence)


def _percent(log_ratio: float) -> float:
    """A log-ratio as percentage of change; infinite beyond the range of floats."""
    if log_ratio == 0.0:
        return 0.0
    return 100.0 * math.expm1(log_ratio) if log_ratio < 700.0 else math.inf


def _short(percent: float) -> str:
    """Two digits below 0.1, one decimal above."""
    return f"{percent:.1f}" if abs(percent) >= 0.095 or percent == 0.0 else f"{percent:.2g}"
