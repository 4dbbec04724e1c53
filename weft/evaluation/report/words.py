"""What the numbers allow to say: who wins, by how much for sure, and where it loses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.evaluation.report.frame import Frame
from weft.evaluation.report.pairing import Sample
from weft.evaluation.statistics import Comparison, compare_crossed, holm_family

METRIC_WORDS = {
    "makespan": "makespan",
    "mean_jct": "mean job time",
    "p99_jct": "99th percentile of the job time",
    "slr": "makespan over the critical path",
    "speedup": "speed-up over one device",
    "utilisation": "utilisation",
    "batch_fill": "batch fill",
    "gap_percent": "distance above the lower bound",
    "copies": "copies of tasks",
    "expired": "expired jobs",
}
TIMES = ("makespan", "mean_jct", "p99_jct")
_MOST_NAMED = 4
_TOO_FEW = "The interval leaves out 0, but the samples are too few for the test corrected for all comparisons; take more."


@dataclass(frozen=True)
class Standing:
    """Who is best over all samples, and how every other one compares with it."""

    winner: str
    others: tuple[tuple[str, Comparison], ...]
    """The next best first; empty with a single sample."""


@dataclass(frozen=True)
class Loss:
    """One sample, and the best rival on it."""

    cell: str
    sample: Sample
    cost: float
    rival: str
    rival_cost: float

    @property
    def percent(self) -> float:
        """How far above the rival; negative where it wins."""
        return 100.0 * (self.cost / self.rival_cost - 1.0)


def words(metric: str) -> str:
    """A metric as a person calls it."""
    return METRIC_WORDS.get(metric, metric)


def count(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def quantity(frame: Frame, metric: str) -> str:
    """A metric with its unit, for an axis or a header."""
    unit = frame.unit if metric in TIMES else "%" if metric == "gap_percent" else ""
    return f"{words(metric)} ({unit})" if unit else words(metric)


def standing(frame: Frame) -> Standing:
    """The lowest geometric mean cost over all samples of all cells, which then all count the same.

    Cells share samples, so statistics are over samples, each with its geometric mean over the cells.
    Who broke a rule takes no part.
    """
    means = {name: float(np.log(frame.pooled(name)).mean()) for name in frame.lawful}
    order = sorted(frame.lawful, key=lambda name: (means[name], frame.schedulers.index(name)))
    winner, others = order[0], order[1:]
    if len(frame.units) < 2 or not others:
        return Standing(winner, ())
    found = [compare_crossed(frame.overall(winner), frame.overall(name)) for name in others]
    return Standing(winner, tuple(zip(others, holm_family(found), strict=True)))


def subject(frame: Frame, wanted: str | None = None) -> str:
    """Whom the report looks at most closely: the one asked for, the first policy, or the winner."""
    if wanted in frame.schedulers and wanted is not None:
        return wanted
    return frame.learned[0] if frame.learned else standing(frame).winner


def losses(frame: Frame, name: str) -> list[Loss]:
    """Every sample against the best of the others that broke no rule, the worst loss first."""
    rivals = [other for other in frame.lawful if other != name]
    found = []
    for cell in frame.cells if rivals else ():
        costs = np.stack([frame.costs(cell.label, other) for other in rivals])
        best, own = costs.argmin(axis=0), frame.costs(cell.label, name)
        for k, sample in enumerate(frame.samples[cell.label]):
            rival = int(best[k])
            found.append(Loss(cell.label, sample, float(own[k]), rivals[rival], float(costs[rival, k])))
    return sorted(found, key=lambda loss: -loss.percent)


def headline(frame: Frame, chosen: str) -> list[str]:
    """The findings in a few sentences, each of which the statistics carry."""
    lines = [f"{frame.title}: {frame.shown(name)} {breach}." for name, breach in frame.breaches.items()]
    if len(frame.breaches) == len(frame.schedulers):
        return [*lines, f"{frame.title}: no scheduler wins, every one broke a rule.", *_unfinished(frame)]
    place = standing(frame)
    lines.append(_first(frame, place))
    if len(frame.cells) > 1:
        lines.append(_by_cell(frame, place.winner))
    if chosen in dict(place.others[1:]):
        lines.append(_about(frame, place, chosen))
    if frame.baseline not in (place.winner, place.others[0][0] if place.others else ""):
        lines += [
            f"{frame.title}: {comparison.summary(frame.shown(place.winner), f'the baseline {frame.shown(name)}')}."
            for name, comparison in place.others
            if name == frame.baseline
        ]
    if chosen not in frame.breaches:
        lines.append(_worst(frame, chosen))
    return [line for line in [*lines, *_unfinished(frame)] if line]


def _unfinished(frame: Frame) -> list[str]:
    have, expected = len(frame.rows), frame.num_expected
    if not have or have >= expected:
        return []
    return [f"{frame.title}: the sweep is not finished, {have:,} of {expected:,} rows."]


def _first(frame: Frame, place: Standing) -> str:
    name = frame.shown(place.winner)
    what = f"the lowest {words(frame.metric)}"
    if len(frame.lawful) == 1 and frame.breaches:
        return f"{frame.title}: {name} alone broke no rule."
    if not place.others:
        return f"{frame.title}: {name} has {what}; one sample says nothing about others."
    other, comparison = place.others[0]
    rival, over = frame.shown(other), _over(frame)
    if comparison.verdict != "better":
        low, high = comparison.low_percent, comparison.high_percent
        few = "" if low <= 0.0 <= high else f" {_TOO_FEW}"
        return (
            f"{frame.title}: {name} has {what}, but {rival} cannot be told apart from it "
            f"({low:+.1f} to {high:+.1f} %) {over}.{few}"
        )
    return (
        f"{frame.title}: {name} wins. Its {words(frame.metric)} is {-comparison.percent:.1f} % below that of "
        f"{rival}, the next best, and at least {-comparison.high_percent:.1f} % with 95 % confidence, {over}."
    )


def _over(frame: Frame) -> str:
    """What the statistics over all cells are over."""
    noun = "seed" if frame.has_seed_samples else "problem"
    points = f", each over all {len(frame.cells)} points" if len(frame.cells) > 1 else ""
    return f"over {count(len(frame.units), f'paired {noun}')}{points}"


def samples_in_all(frame: Frame) -> str:
    """How many samples there are, and at how many points where there are several."""
    total = count(frame.num_samples, "sample")
    return (
        total
        if len(frame.cells) == 1
        else f"{total} ({len(frame.units)} at each of {len(frame.cells)} points)"
    )


def _about(frame: Frame, place: Standing, chosen: str) -> str:
    comparison = dict(place.others)[chosen]
    mirrored = comparison.summary(frame.shown(place.winner), frame.shown(chosen))
    return f"{frame.title}: {mirrored}."


def _by_cell(frame: Frame, winner: str) -> str:
    """Where the overall winner is not the best, and who is."""
    best = {cell.label: _best(frame, cell.label) for cell in frame.cells}
    others = [label for label, name in best.items() if name != winner]
    total, name = len(frame.cells), frame.shown(winner)
    if not others:
        return f"{frame.title}: {name} has the lowest mean at each of the {total} points of the sweep."
    named = [f"{label} ({frame.shown(best[label])})" for label in others[:_MOST_NAMED]]
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    return (
        f"{frame.title}: {name} has the lowest mean at {total - len(others)} of {total} points; "
        f"not at {', '.join(named)}{more}."
    )


def _best(frame: Frame, cell: str) -> str:
    means = [float(frame.costs(cell, name).mean()) for name in frame.lawful]
    return frame.lawful[int(np.argmin(means))]


def _worst(frame: Frame, chosen: str) -> str:
    found = losses(frame, chosen)
    if not found:
        return ""
    worst, name = found[0], frame.shown(chosen)
    where = ", ".join(part for part in (worst.cell, str(worst.sample)) if part)
    if worst.percent <= 0:
        return f"{frame.title}: {name} loses on none of {samples_in_all(frame)}."
    num = sum(loss.percent > 1e-7 for loss in found)
    return (
        f"{frame.title}: {name} loses to the best of the others on {num} of {samples_in_all(frame)}; the worst is "
        f"{worst.percent:.1f} % above {frame.shown(worst.rival)} ({where})."
    )
