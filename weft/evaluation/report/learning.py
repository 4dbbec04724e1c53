"""The section on training runs: what was trained, for how long, and how it learned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.evaluation.report.blocks import Block, Figure, Section, Table
from weft.evaluation.report.runs import REWARDS, TrainingRun
from weft.evaluation.report.svg import Axes, Series, line_chart
from weft.model.graph import Floats

MOST_POINTS = 400
"""A curve of more points is thinned to this many, its last one kept."""


def learning(runs: Sequence[TrainingRun]) -> Section:
    """Curves of all runs over samples, and a table."""
    blocks: list[Block] = []
    validated = [(k, run) for k, run in enumerate(runs) if run.validation is not None]
    if validated:
        series = [_series(run.name, *_both(run), k) for k, run in validated]
        text = "Mean job time on validation workloads while training, over the decisions collected; lower is better."
        blocks.append(_figure(series, "validated mean job time (ms)", text))
    for name in dict.fromkeys(run.first_of(REWARDS) for run in runs):
        if name is not None:
            own = [(k, run) for k, run in enumerate(runs) if run.first_of(REWARDS) == name]
            series = [_series(run.name, *run.column(name), k) for k, run in own]
            text = f"{name.replace('_', ' ').capitalize()} of training over the decisions collected; higher is better."
            blocks.append(_figure(series, f"{name.replace('_', ' ')}", text))
    blocks.append(_table(runs))
    return Section("Training", tuple(blocks))


def _both(run: TrainingRun) -> tuple[Floats, Floats]:
    found = run.validation
    assert found is not None
    return found


def _series(name: str, x: Floats, y: Floats, look: int) -> Series:
    every = max(1, -(-len(x) // MOST_POINTS))
    kept = np.unique(np.append(np.arange(0, len(x), every), len(x) - 1))
    return Series(name, x[kept], y[kept], look=look)


def _figure(series: Sequence[Series], y_label: str, text: str) -> Figure:
    axes = Axes("decisions collected (millions)", y_label, x_format=lambda value: f"{value / 1e6:g}")
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
            _last(run),
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
    return Table(headers, rows, (2, 3, 4, 5, 6), "Training runs")


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _last(run: TrainingRun) -> str:
    found = run.validation
    return "not measured" if found is None else f"{float(found[1].min()):.4g} ms"
