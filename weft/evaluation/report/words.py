"""What the numbers allow to say: who wins, how certain that is, what it costs, and where it loses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft import catalog
from weft.evaluation.statistics import Comparison
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.metrics import TIME
from weft.evaluation.sweep.metrics import metric as metric_of
from weft.evaluation.sweep.pairing import Sample
from weft.evaluation.sweep.standing import Standing, standing, what_it_costs, who_wins

_MOST_NAMED = 4


@dataclass(frozen=True)
class Loss:
    """One sample, and the best rival on it."""

    cell: str
    sample: Sample
    cost: float
    rival: str
    rival_cost: float
    step: tuple[float, str] | None = None
    """How a difference is stated: so many of this unit. None: as a ratio."""

    @property
    def percent(self) -> float:
        """How far above the rival; negative where it wins."""
        return 100.0 * (self.cost / self.rival_cost - 1.0)

    @property
    def behind(self) -> float:
        """The same, or the difference in its unit where costs may be 0."""
        return self.percent if self.step is None else self.step[0] * (self.cost - self.rival_cost)

    @property
    def shown(self) -> str:
        """The same with its unit."""
        return f"{self.behind:.1f} {'%' if self.step is None else self.step[1]}".rstrip()


def words(metric: str) -> str:
    """A metric as a person calls it."""
    return metric_of(metric).words


def count(number: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def quantity(swept: Evaluation, metric: str) -> str:
    """A metric with its unit, for an axis or a header."""
    unit = metric_of(metric).unit
    unit = swept.unit if unit == TIME else unit
    return f"{words(metric)} ({unit})" if unit else words(metric)


def subject(swept: Evaluation, wanted: str | None = None) -> str:
    """Whom the report looks at most closely: the one asked for, the first policy, or the winner."""
    if wanted in swept.schedulers and wanted is not None:
        return wanted
    policies = [name for name in swept.schedulers if _is_policy(swept, name)]
    return policies[0] if policies else standing(swept).winner


def _is_policy(swept: Evaluation, name: str) -> bool:
    """Whether a scheduler was trained: a policy of queues, weights, or a run by ``RUN@best`` or its folder."""
    known = name in swept.learned or name in swept.runs
    return known or (catalog.is_policy(name) and not catalog.kinds_of(name))


def losses(swept: Evaluation, name: str) -> list[Loss]:
    """Every sample against the best of the others that broke no rule, the worst loss first."""
    rivals = [other for other in swept.ranked if other != name]
    step = swept.deciding.step if swept.deciding.may_be_zero else None
    found = []
    for cell in swept.cells if rivals else ():
        costs = np.stack([swept.costs(cell.label, other) for other in rivals])
        best, own = costs.argmin(axis=0), swept.costs(cell.label, name)
        for k, sample in enumerate(swept.samples[cell.label]):
            rival = int(best[k])
            both = float(own[k]), rivals[rival], float(costs[rival, k])
            found.append(Loss(cell.label, sample, *both, step))
    return sorted(found, key=lambda loss: -loss.behind)


def headline(swept: Evaluation, chosen: str) -> list[str]:
    """The findings in a few sentences, each of which the statistics carry."""
    lines = [f"{swept.title}: {swept.shown(name)} {breach}." for name, breach in swept.breaches.items()]
    if len(swept.breaches) == len(swept.schedulers):
        return [*lines, f"{swept.title}: nobody wins, every scheduler broke a rule.", *_unfinished(swept)]
    place = standing(swept)
    costs = what_it_costs(swept, place.winner)
    lines += [f"{swept.title}: {line}" for line in (who_wins(swept, place), costs) if line]
    if len(swept.ranked) > 1:
        lines.append(_by_cell(swept, place.winner))
    if chosen in dict(place.others[1:]):
        lines.append(_about(swept, place, chosen))
    if swept.baseline not in (place.winner, place.others[0][0] if place.others else ""):
        lines += [
            f"{swept.title}: {_compared(swept, place.winner, comparison, f'the baseline {swept.shown(name)}')}."
            for name, comparison in place.others
            if name == swept.baseline
        ]
    if chosen not in swept.breaches:
        lines.append(_worst(swept, chosen))
    return [line for line in [*lines, *_unfinished(swept)] if line]


def _unfinished(swept: Evaluation) -> list[str]:
    have, expected = len(swept.rows), swept.num_expected
    if not have or have >= expected:
        return []
    return [f"{swept.title}: the sweep is not finished, {have:,} of {expected:,} rows."]


def samples_in_all(swept: Evaluation) -> str:
    """How many samples there are, and at how many points where there are several."""
    total = count(swept.num_samples, "sample")
    return (
        total
        if len(swept.cells) == 1
        else f"{total} ({len(swept.units)} at each of {len(swept.cells)} points)"
    )


def _about(swept: Evaluation, place: Standing, chosen: str) -> str:
    comparison = dict(place.others)[chosen]
    return f"{swept.title}: {_compared(swept, place.winner, comparison, swept.shown(chosen))}."


def _compared(swept: Evaluation, name: str, comparison: Comparison, other: str) -> str:
    """A comparison in words, with the reason where nothing is distinguishable."""
    return f"{comparison.summary(swept.shown(name), other)}{comparison.doubt}"


def _by_cell(swept: Evaluation, winner: str) -> str:
    """Where the overall winner has not the lowest plain mean, which tables show, and who has."""
    best = {cell.label: _best(swept, cell.label) for cell in swept.cells}
    others = [label for label, name in best.items() if name != winner]
    total, name = len(swept.cells), swept.shown(winner)
    if total == 1 and not others:
        return ""
    if total == 1:
        rival = swept.shown(best[others[0]])
        return f"{swept.title}: by plain means, in which long samples count more, {rival} is the lowest."
    if not others:
        return f"{swept.title}: {name} has the lowest plain mean at each of the {total} points of the sweep."
    named = [f"{label} ({swept.shown(best[label])})" for label in others[:_MOST_NAMED]]
    more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    return (
        f"{swept.title}: {name} has the lowest plain mean at {total - len(others)} of {total} points; "
        f"not at {', '.join(named)}{more}."
    )


def _best(swept: Evaluation, cell: str) -> str:
    means = [float(swept.costs(cell, name).mean()) for name in swept.ranked]
    return swept.ranked[int(np.argmin(means))]


def _worst(swept: Evaluation, chosen: str) -> str:
    found = losses(swept, chosen)
    if not found:
        return ""
    worst, name = found[0], swept.shown(chosen)
    where = ", ".join(part for part in (worst.cell, str(worst.sample)) if part)
    if worst.behind <= 0:
        if swept.num_samples == 1:
            return f"{swept.title}: by {words(swept.metric)}, nobody beats {name} on the only sample."
        return f"{swept.title}: by {words(swept.metric)}, {name} loses on none of {samples_in_all(swept)}."
    num = sum(loss.behind > 1e-7 for loss in found)
    return (
        f"{swept.title}: by {words(swept.metric)}, {name} loses to the best of the others on {num} of {samples_in_all(swept)}; the worst is "
        f"{worst.shown} above {swept.shown(worst.rival)} ({where})."
    )
