"""Policies that differ only in their training seed, judged together against the best rules.

A folder of runs ``seed-1``, ``seed-2``, ... is a scheduler name that stands for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weft.evaluation.curves import Spread
from weft.evaluation.statistics import Difference, crossed_interval
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.metrics import Metric
from weft.model.graph import Floats

AVERAGE = "average"
"""Name of the row over all cells."""


@dataclass(frozen=True)
class GroupResult:
    """A group in one cell, or on average over cells, against the best rule there."""

    group: str
    cell: str
    num_runs: int
    mean: float
    """Of the metric, over runs and workloads."""
    rule: str
    """The best rule; empty where it differs between cells."""
    percent: Spread
    """Above the best rule on the same workloads, over training seeds and workloads; negative is below.

    Where there is a ``difference``, that over the mean of the rule; not a number where that is 0.
    """
    difference: Difference | None = None
    """The same where costs may be 0: of plain means."""

    def __str__(self) -> str:
        where = f"{self.cell}: " if self.cell else ""
        against = self.rule or "the best rule of each cell"
        return f"{where}{self.group} ({self.num_runs} training seeds): {self._distance} against {against}"

    @property
    def _distance(self) -> str:
        one = self.difference
        if one is None:
            return str(self.percent)
        ends = "" if math.isnan(one.low) else f" ({one.low:+.1f} to {one.high:+.1f})"
        share = f", {self.percent.mean:+.1f} %" if math.isfinite(self.percent.mean) else ""
        return f"{one.mean:+.1f} {one.unit}".rstrip() + ends + share


def expand(names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """The names with every group replaced by its runs' best policies, and the groups."""
    found: list[str] = []
    groups: dict[str, tuple[str, ...]] = {}
    for name in names:
        runs = _runs(Path(name))
        if runs:
            groups[name] = runs
        found += runs or (name,)
    return tuple(dict.fromkeys(found)), groups


def _runs(folder: Path) -> tuple[str, ...]:
    if not folder.is_dir() or (folder / "best.json").exists():
        return ()
    cards = sorted(folder.glob("seed-*/best.json"), key=lambda card: (len(card.parent.name), card))
    return tuple(f"{card.parent}@best" for card in cards)


ENVELOPE = "envelope"
"""Key of the group of rules, the best of which groups of runs are compared with."""


def group_results(found: Evaluation, groups: Mapping[str, Sequence[str]]) -> tuple[GroupResult, ...]:
    """Every group in every cell, and on average over cells where there are several."""
    known = () if found.asked is None else found.asked.groups
    named = [name for one in known if one.key == ENVELOPE for name in one.members]
    rules = [name for name in named if name in found.schedulers] or [found.baseline]
    cells = [cell.label for cell in found.cells]
    best = {cell: min(rules, key=lambda rule: found.costs(cell, rule).mean()) for cell in cells}
    results: list[GroupResult] = []
    for group, runs in groups.items():
        costs = {cell: np.stack([found.costs(cell, run) for run in runs]) for cell in cells}
        rivals = {cell: found.costs(cell, best[cell]) for cell in cells}
        against = _differences if found.deciding.may_be_zero else _against
        steps = {cell: against(costs[cell], rivals[cell]) for cell in cells}
        means = {cell: float(costs[cell].mean()) for cell in cells}
        for cell in cells:
            stated = _stated(found.deciding, steps[cell], float(rivals[cell].mean()))
            results.append(GroupResult(group, cell, len(runs), means[cell], best[cell], *stated))
        if len(cells) > 1:
            base = float(np.mean([rivals[cell].mean() for cell in cells]))
            stated = _stated(found.deciding, np.mean([steps[cell] for cell in cells], axis=0), base)
            average = float(np.mean([means[cell] for cell in cells]))
            results.append(GroupResult(group, AVERAGE, len(runs), average, "", *stated))
    return tuple(results)


def _differences(costs: Floats, rule: Floats) -> Floats:
    """How far every run is above the rule on every workload: (num_runs, num_workloads)."""
    return costs - rule


def _against(costs: Floats, rule: Floats) -> Floats:
    """Percent of every run above the rule on every workload: (num_runs, num_workloads).

    The mean is that of the ratio of means. Around it each value is how far the run was off on that
    workload from what the rule's cost there lets expect: the spread of a ratio, to first order.
    """
    ratio = costs.mean() / rule.mean()
    return np.asarray(100.0 * (ratio - 1.0 + (costs - ratio * rule) / rule.mean()))


def _stated(metric: Metric, steps: Floats, base: float) -> tuple[Spread, Difference | None]:
    """Percentages as they are, or differences and their percentages of the mean of the rule."""
    if not metric.may_be_zero:
        return _spread(steps), None
    found = _spread(steps, least=-math.inf)
    mean, low, high = (math.nan if end is None else end for end in (found.mean, found.low, found.high))
    factor, unit = metric.step
    stated = Difference(factor * mean, factor * low, factor * high, unit)
    percent = _spread(100.0 * steps / base) if base > 0.0 else Spread(math.nan, None, None)
    return percent, stated


def _spread(values: Floats, least: float = -100.0) -> Spread:
    """Over training seeds and workloads where there are several of both."""
    if min(values.shape) < 2:
        return Spread.of(values.mean(axis=1), least)
    found = crossed_interval(values, np.zeros((1, values.shape[1])))
    return Spread.within(found, least)
