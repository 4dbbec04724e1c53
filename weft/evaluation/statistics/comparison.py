"""One verdict on two schedulers from their costs on the same problems: by ratios, or by differences.

Ratios need costs above 0; differences allow for any.
"""

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
class Difference:
    """The mean of first - second, negative where the first is lower, with the ends of its interval."""

    mean: float
    low: float
    """Not a number with a single problem, like ``high``."""
    high: float
    unit: str = ""
    """What words call the numbers, ``points`` for one; empty: nothing."""


@dataclass(frozen=True)
class Comparison:
    """How the costs of a first scheduler relate to those of a second on the same problems.

    Percentages are of the geometric mean of the ratio first / second: -3 means 3 % lower costs. Where
    there is a ``difference``, everything rests on differences, and percentages are that difference
    over the mean of the second; they are not numbers where that mean is 0.
    """

    n: int
    percent: float
    low_percent: float
    high_percent: float
    """Ends of the interval of the mean log-ratio, or of the mean difference, as percentages."""
    confidence: float
    t_p: float
    """p of the paired t test of the log-ratios, or of the differences."""
    wilcoxon_p: float
    """p of the signed-rank test of the same."""
    wins: int
    ties: int
    losses: int
    effect_size: float
    """Cohen's d_z of the same, negative where the first is lower; infinite if they are all equal."""
    family: int = 1
    """How many comparisons p-values are corrected for."""
    difference: Difference | None = None
    """None: compared by ratios."""

    @property
    def value(self) -> float:
        """What is stated: the mean difference, or the ratio as a percentage; negative is lower."""
        return self.percent if self.difference is None else self.difference.mean

    @property
    def low(self) -> float:
        """The lower end of its interval."""
        return self.low_percent if self.difference is None else self.difference.low

    @property
    def high(self) -> float:
        """The upper end of its interval."""
        return self.high_percent if self.difference is None else self.difference.high

    @property
    def unit(self) -> str:
        """What these three are in, for words: ``%``, ``points`` or nothing."""
        return "%" if self.difference is None else self.difference.unit

    @property
    def verdict(self) -> Verdict:
        """Better or worse only if the interval excludes zero and both tests agree at the same level."""
        level = 1.0 - self.confidence
        if self.n < self.least_n and self.ties < self.n:
            return "too few samples"
        if max(self.t_p, self.wilcoxon_p) > level or self.low <= 0.0 <= self.high:
            return "not distinguishable"
        return "better" if self.value < 0.0 else "worse"

    @property
    def least_n(self) -> int:
        """The fewest samples that allow for a verdict: with fewer, the signed-rank test, corrected for all
        comparisons, cannot reach its level even where every sample is won.
        """
        return least_pairs((1.0 - self.confidence) / self.family)

    @property
    def is_open(self) -> bool:
        """Whether the interval leaves out 0, and yet the tests, corrected for all comparisons, say nothing."""
        return self.verdict == "not distinguishable" and not self.low <= 0.0 <= self.high

    @property
    def doubt(self) -> str:
        """Why nothing is distinguishable although most may have been won, as the end of a sentence; else empty."""
        if self.verdict != "not distinguishable" or self.value == 0.0:
            return ""
        return " (the paired tests say it may be chance)" if self.is_open else " (the interval includes 0)"

    def too_few(self, noun: str = "sample") -> str:
        """How many samples it would take, in words."""
        return f"{self.n} {noun}s are too few for a verdict; at least {self.least_n} are needed"

    def summary(self, first: str = "a", second: str = "b") -> str:
        """The comparison in one line of words, with the names of the two schedulers."""
        record = f"wins {self.wins} of {self.n}" + (f", ties {self.ties}" if self.ties else "")
        if self.verdict in ("not distinguishable", "too few samples"):
            interval = self._interval(self.low, self.high)
            said = f"mean difference {self.amount(self.value)} {interval}, {record}"
            if self.verdict == "too few samples":
                return f"{first} against {second}: {said}; {self.too_few()}"
            return f"{first} and {second} are not distinguishable: {said}"
        ends = (-self.high, -self.low) if self.verdict == "better" else (self.low, self.high)
        return f"{first} is {self.distance} {second} {self._interval(*ends)}, {record}"

    @property
    def distance(self) -> str:
        """How far the first is from the second, whose name follows: ``3.0 % below``, ``2.0 points (9.1 %) lower than``."""
        is_below = self.value < 0.0
        if self.difference is None:
            return f"{_short(abs(self.percent))} % {'below' if is_below else 'above'}"
        share = f" ({_short(abs(self.percent))} %)" if math.isfinite(self.percent) else ""
        return f"{self.amount(abs(self.value))}{share} {'lower' if is_below else 'higher'} than"

    def __str__(self) -> str:
        return self.summary()

    def to_dict(self) -> dict[str, object]:
        """The JSON form; None where a number is not finite."""
        named = asdict(self) | {"verdict": self.verdict, "least_n": self.least_n}
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in named.items()
        }

    def _interval(self, low: float, high: float) -> str:
        return f"({100 * self.confidence:g} % CI {_short(low)} to {self.amount(high)})"

    def amount(self, value: float) -> str:
        """A value in the unit of the comparison, as words show it."""
        return f"{_short(value)} {self.unit}".rstrip()

    @property
    def ends(self) -> str:
        """The interval with signs and unit."""
        return f"{self.low:+.1f} to {self.high:+.1f} {self.unit}".rstrip()


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
    found, interval = _tested(_log_ratios(first, second, tolerance), (first, second), confidence, tolerance)
    ends = (_percent(end) for end in (interval.value, interval.low, interval.high))
    return _stated(found, *ends)


def _tested(
    steps: Floats, costs: tuple[Floats, Floats], confidence: float, tolerance: float
) -> tuple[Comparison, Interval]:
    """Tests, wins and effect of log-ratios or differences, and the interval of their mean, still to be stated."""
    ordered, sign = _canonical(steps)
    none = np.zeros_like(ordered)
    record = win_tie_loss(*costs, tolerance=tolerance)
    found = Comparison(
        n=len(ordered),
        percent=math.nan,
        low_percent=math.nan,
        high_percent=math.nan,
        confidence=confidence,
        t_p=paired_t(ordered, none, confidence=confidence).p,
        wilcoxon_p=wilcoxon(ordered, none).p,
        wins=record.wins,
        ties=record.ties,
        losses=record.losses,
        effect_size=sign * cohens_d_z(ordered, none) if sign else 0.0,
    )
    return found, _mean_interval(ordered, sign, confidence)


def _stated(found: Comparison, percent: float, low: float, high: float) -> Comparison:
    return replace(found, percent=percent, low_percent=low, high_percent=high)


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


def compare_differences(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    tolerance: float = 1e-9,
    factor: float = 1.0,
    unit: str = "",
) -> Comparison:
    """The same by differences, for costs that may be 0 or below: (runs, problems), runs in their plain means.

    All figures rest on a - b per problem, so problems with greater costs count more. The order of the
    problems changes nothing, and exchanging a and b mirrors the differences exactly.

    Parameters
    ----------
    tolerance
        Relative difference up to which two costs count as equal.
    factor, unit
        A difference is stated as this many of this unit: 100 points for one of a share.
    """
    check_confidence(confidence)
    first, second = crossed(a, b)
    scale = float(max(np.abs(first).max(), np.abs(second).max())) or 1.0  # so that squares stay within range
    runs = (first / scale, second / scale)
    means = (runs[0].mean(axis=0), runs[1].mean(axis=0))
    steps = np.where(tied(*means, tolerance), 0.0, np.round(means[0] - means[1], _DECIMALS))
    found, interval = _tested(steps, means, confidence, tolerance)
    if max(map(len, runs)) > 1:
        ends = crossed_interval(*runs, confidence=confidence)
        interval = replace(interval, low=ends.low, high=ends.high)
    base = float(np.sort(means[1]).mean())
    mean, low, high = interval.value, interval.low, interval.high
    stated = _stated(found, *(100.0 * end / base if base > 0.0 else math.nan for end in (mean, low, high)))
    mean, low, high = (scale * factor * end + 0.0 for end in (mean, low, high))  # no minus before a 0
    return replace(stated, difference=Difference(mean, low, high, unit))


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
