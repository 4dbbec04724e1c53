"""Policies that differ only in their training seed, judged together against the best rules.

A folder of runs ``seed-1``, ``seed-2``, ... is a scheduler name that stands for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weft.evaluation.curves import Spread
from weft.evaluation.statistics import crossed_interval
from weft.evaluation.sweep.evaluation import Evaluation
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
    """Above the best rule on the same workloads, over training seeds and workloads; negative is below."""

    def __str__(self) -> str:
        where = f"{self.cell}: " if self.cell else ""
        against = self.rule or "the best rule of each cell"
        return f"{where}{self.group} ({self.num_runs} training seeds): {self.percent} against {against}"


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
        against = {cell: _against(costs[cell], found.costs(cell, best[cell])) for cell in cells}
        for cell in cells:
            spread = _spread(against[cell])
            results.append(GroupResult(group, cell, len(runs), float(costs[cell].mean()), best[cell], spread))
        if len(cells) > 1:
            spread = _spread(np.mean([against[cell] for cell in cells], axis=0))
            average = float(np.mean([costs[cell].mean() for cell in cells]))
            results.append(GroupResult(group, AVERAGE, len(runs), average, "", spread))
    return tuple(results)


def _against(costs: Floats, rule: Floats) -> Floats:
    """Percent of every run above the rule on every workload: (num_runs, num_workloads).

    The mean is that of the ratio of means. Around it each value is how far the run was off on that
    workload from what the rule's cost there lets expect: the spread of a ratio, to first order.
    """
    ratio = costs.mean() / rule.mean()
    return np.asarray(100.0 * (ratio - 1.0 + (costs - ratio * rule) / rule.mean()))


def _spread(percents: Floats) -> Spread:
    """Over training seeds and workloads where there are several of both."""
    if min(percents.shape) < 2:
        return Spread.of(percents.mean(axis=1))
    found = crossed_interval(percents, np.zeros((1, percents.shape[1])))
    return Spread.within(found)
