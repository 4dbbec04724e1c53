"""The section on training runs: what was trained, for how long, and how it learned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.evaluation.report.blocks import Block, Figure, Section, Table
from weft.evaluation.report.runs import AGAINST, REWARDS, TrainingRun
from weft.evaluation.report.svg import Axes, Series, line_chart
from weft.model.graph import Floats

MOST_POINTS = 400
"""A curve of more points is thinned to this many, its last one kept."""


def learning(runs: Sequence[TrainingRun]) -> Section:
    """Curves of all runs over samples, and a table."""
    blocks = [
        _against(runs, column) for column in AGAINST if any(run.best(column) is not None for run in runs)
    ]
    for name in dict.fromkeys(run.first_of(REWARDS) for run in runs):
        if name is not None:
            own = [(k, run) for k, run in enumerate(runs) if run.first_of(REWARDS) == name]
            series = [_series(run.name, *run.column(name), k) for k, run in own]
            text = f"{name.replace('_', ' ').capitalize()} of training over the decisions collected; higher is better."
            blocks.append(_figure(series, f"{name.replace('_', ' ')}", text))
    blocks.append(_table(runs))
    return Section("Training", tuple(blocks))


def _against(runs: Sequence[TrainingRun], column: str) -> Block:
    """Validated job time against rules while training; below zero the policy is ahead."""
    series = [
        _series(run.name, *run.column(column), k)
        for k, run in enumerate(runs)
        if run.best(column) is not None
    ]
    rules = AGAINST[column]
    text = (
        f"Mean job time on validation workloads against {rules} at each point, averaged over the points; "
        "below zero the policy is ahead."
    )
    return _figure(series, "job time against rules (%)", text, rules)


def _series(name: str, x: Floats, y: Floats, look: int) -> Series:
    every = max(1, -(-len(x) // MOST_POINTS))
    kept = np.unique(np.append(np.arange(0, len(x), every), len(x) - 1))
    return Series(name, x[kept], y[kept], look=look)


def _figure(series: Sequence[Series], y_label: str, text: str, zero: str = "") -> Figure:
    axes = Axes(
        "decisions collected (millions)", y_label, zero=zero, x_format=lambda value: f"{value / 1e6:g}"
    )
    return Figure(line_chart(series, axes, has_marks=False), text, text)


def _table(runs: Sequence[TrainingRun]) -> Table:
    rows = tuple(
        (
            run.name,
            str(run.recipe.get("name", "-")),
            str(run.config.get("seed", "-")),
            f"{run.samples:,}",
            _seconds(run.seconds),
            _seconds(run.cpu_seconds),
            *(_percent(run.best(column)) for column in AGAINST),
        )
        for run in runs
    )
    headers = (
        "run",
        "recipe",
        "seed",
        "decisions",
        "wall time (s)",
        "processor time (s)",
        "best validated job time",
    )
    return Table(headers, rows, tuple(range(2, 8)), "Training runs")


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _percent(value: float | None) -> str:
    return "not measured" if value is None else f"{value:+.1f} %"
