"""Who is best over all points of a sweep, and in which other figures that is paid for.

The ranking is by ratios: geometric means, in which every sample counts the same. Tables show plain
means of one point, in which long samples count more; sentences say which of the two they speak of.
Where costs may be 0, plain means rank too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from weft.evaluation.statistics import Comparison, holm_family
from weft.evaluation.sweep import scales
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.metrics import METRICS, Metric
from weft.evaluation.sweep.metrics import metric as metric_of
from weft.wording import listed

LEAST = 1.0
"""Percent from which on a figure that may be behind by chance is named."""


@dataclass(frozen=True)
class Standing:
    """Who is best over all samples, and how every other one compares with it."""

    winner: str
    others: tuple[tuple[str, Comparison], ...]
    """The next best first; empty with a single sample."""


@dataclass(frozen=True)
class Price:
    """A figure in which the winner is behind another scheduler, where it is furthest behind."""

    metric: str
    num_points: int
    """Points of the sweep at which it is behind anybody."""
    cell: str
    rival: str
    value: float
    rival_value: float
    """Means there."""
    percent: float | None
    """How far above the rival: geometric mean of the ratio; where values may be 0 that of the means, None above 0."""
    verdict: str
    """Of the paired tests, corrected for all points and rivals; "worse" is certain, else it is by means."""

    @property
    def is_certain(self) -> bool:
        """Whether the paired tests say so."""
        return self.verdict == "worse"


def standing(found: Evaluation) -> Standing:
    """The lowest geometric mean cost over all samples of all cells, which then all count the same; or plain mean.

    Cells share samples, so statistics are over samples, each with its mean over the cells. Who broke a
    rule takes no part.
    """
    if len(found.ranked) > 1 and len(found.units) > 1:
        found.check_costs(found.ranked)
    means = {name: scales.level(found.deciding, found.pooled(name)) for name in found.ranked}
    order = sorted(found.ranked, key=lambda name: (means[name], found.schedulers.index(name)))
    winner, others = order[0], order[1:]
    if len(found.units) < 2 or not others:
        return Standing(winner, ())
    made = [scales.compare(found.deciding, *map(found.over_cells, (winner, name))) for name in others]
    return Standing(winner, tuple(zip(others, holm_family(made), strict=True)))


def judged_metrics(found: Evaluation) -> tuple[Metric, ...]:
    """Other figures of which less is better, and of which rows say what the deciding one does not."""
    decides = metric_of(found.metric).rescales or found.metric
    known = [METRICS[name] for name in found.metrics if name in METRICS and name != decides]
    return tuple(
        one for one in known if one.lower_is_better and not one.rescales and not found.is_idle(one.name)
    )


def prices(found: Evaluation, name: str) -> tuple[Price, ...]:
    """Every such figure in which a scheduler is behind another one at some point of the sweep.

    Where the paired tests say nothing, or cannot, it is by means, from ``LEAST`` percent on.
    """
    made = []
    for metric in judged_metrics(found):
        behind = list(_behind(found, name, metric))
        certain = [one for one in behind if one.is_certain]
        kept = certain or [one for one in behind if one.percent is None or one.percent >= LEAST]
        if kept:
            worst = max(kept, key=lambda one: math.inf if one.percent is None else one.percent)
            made.append(replace(worst, num_points=len({one.cell for one in kept})))
    return tuple(sorted(made, key=lambda one: not one.is_certain))


def _behind(found: Evaluation, name: str, metric: Metric) -> Iterator[Price]:
    """Points and rivals that have a lower mean, or are lower for certain."""
    rivals = [other for other in found.ranked if other != name]
    places = [(cell.label, rival) for cell in found.cells for rival in rivals]
    made: Sequence[Comparison | None] = [None] * len(places)
    if places and min(len(found.samples[cell]) for cell, _ in places) >= 2:
        made = holm_family(
            [
                scales.compare(metric, *(found.by_run(metric.name, cell, who) for who in (name, rival)))
                for cell, rival in places
            ]
        )
    for (cell, rival), one in zip(places, made, strict=True):
        own, other = (float(found.values(metric.name, cell, who).mean()) for who in (name, rival))
        verdict = "too few samples" if one is None else one.verdict
        if verdict == "worse" or own > other:
            percent = _percent_above(own, other)
            if one is not None and not metric.may_be_zero:
                percent = one.percent
            yield Price(metric.name, 1, cell, rival, own, other, percent, verdict)


def _percent_above(own: float, other: float) -> float | None:
    """How far one mean is above another; of one below 0, as a percentage of its size."""
    if other > 0.0:
        return 100.0 * (own / other - 1.0)
    return 100.0 * (own - other) / -other if other else None


# -- in words -------------------------------------------------------------------------------------


def who_wins(found: Evaluation, place: Standing) -> str:
    """The winner and by how much, as far as the statistics carry it."""
    name = found.shown(place.winner)
    words = metric_of(found.metric).words
    what = f"the lowest mean {words}" if found.deciding.may_be_zero else f"the lowest {words} by ratios"
    if len(found.ranked) == 1 and found.breaches:
        return f"{name} alone broke no rule."
    if not place.others:
        return f"{name} has the lowest {words}; one sample says nothing about others."
    other, comparison = place.others[0]
    rival, over = found.shown(other), _over(found)
    low, high = comparison.low, comparison.high
    if low == high == 0.0:
        equal = [found.shown(one) for one, by in place.others if by.low == by.high == 0.0]
        names = " and ".join([", ".join([name, *equal[:-1]]), equal[-1]])
        return f"{names} have the lowest {words}: they are equal {over}."
    if comparison.verdict == "too few samples":
        few = comparison.too_few(noun_of(found))
        to = f", before {rival}" if found.deciding.may_be_zero else f" to {rival}"
        return f"{name} has {what}{to}, the next best ({comparison.ends}), {over}, but {few}."
    if comparison.verdict != "better":
        return (
            f"{name} has {what}, but {rival} cannot be told apart from it ({comparison.ends}) "
            f"{over}{comparison.doubt}."
        )
    if found.deciding.may_be_zero:
        return (
            f"{name} wins. Its mean {words} is {comparison.distance} that of {rival}, the next best, "
            f"and at least {comparison.amount(-high)} with 95 % confidence, {over}."
        )
    return (
        f"{name} wins. By ratios its {words} is {-comparison.percent:.1f} % below that of "
        f"{rival}, the next best, and at least {-high:.1f} % with 95 % confidence, {over}."
    )


def what_it_costs(found: Evaluation, winner: str) -> str:
    """The other figures in which the winner is behind somebody; empty where there are none to be behind in."""
    metrics, name = judged_metrics(found), found.shown(winner)
    if not metrics or len(found.ranked) < 2:
        return ""
    paid = prices(found, winner)
    if not paid and len(found.units) < 2:
        return ""
    if not paid:
        figures = listed([f"the {one.words}" for one in metrics])
        return f"in {figures} nobody is ahead of {name} for certain."
    certain = "; ".join(_price_in_words(found, one) for one in paid if one.is_certain)
    perhaps = "; ".join(_price_in_words(found, one) for one in paid if not one.is_certain)
    said = [f"what it costs: {name} is behind in {certain}."] if certain else []
    if perhaps:
        is_few = any(one.verdict == "too few samples" for one in paid)
        why = (
            f"the {noun_of(found)}s are too few to test that" if is_few else "that cannot be told from chance"
        )
        may = "It may also" if certain else f"what it costs: {name} may"
        said.append(f"{may} be behind in {perhaps}, but {why}.")
    return " ".join(said)


def _price_in_words(found: Evaluation, price: Price) -> str:
    metric, rival = metric_of(price.metric), found.shown(price.rival)
    what = f"the {metric.words}"
    if metric.may_be_zero or price.percent is None:
        far = f"{price.value:.4g} against {price.rival_value:.4g} of {rival}"
    else:
        far = f"{_digits(price.percent)} % above {rival}"
    if len(found.cells) == 1:
        return f"{what} ({far})"
    where = f"at {price.num_points} of {len(found.cells)} points"
    return f"{what} {where} (most at {price.cell}: {far})"


def _digits(percent: float) -> str:
    return f"{percent:.1f}" if percent >= 0.095 else f"{percent:.2g}"


def noun_of(found: Evaluation) -> str:
    """What a sample is."""
    return "seed" if found.has_seed_samples else "problem"


def _over(found: Evaluation) -> str:
    """What the statistics over all cells are over."""
    num, noun = len(found.units), noun_of(found)
    points = f", each over all {len(found.cells)} points" if len(found.cells) > 1 else ""
    return f"over {num:,} paired {noun}{'' if num == 1 else 's'}{points}"
