"""A picture of a sweep: every scheduler against the baseline, over the setting that varies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.evaluation.figures.gantt import check_path, save
from weft.evaluation.statistics import Comparison
from weft.evaluation.sweep.claims import shown_name
from weft.evaluation.sweep.evaluation import Evaluation
from weft.model.graph import Floats

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Okabe and Ito's palette: told apart with any colour vision."""
MARKS = "osD^vPX*"


def draw(found: Evaluation, path: str | Path) -> None:
    """Write the figure; the suffix (.png or .svg) says the format."""
    check_path(Path(path), "--plot", "a figure of the sweep")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 5.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    setting = found.setting
    names = [name for name in found.schedulers if name != found.baseline]
    for k, name in enumerate(names):
        _line(axes, found, setting, name, k, len(names))
    axes.axhline(0.0, color="#555555", linewidth=1.0, linestyle="--", label=f"{found.baseline} (baseline)")
    axes.set_ylabel(f"{found.metric} against {found.baseline} (%), lower is better")
    axes.set_title(
        f"{found.title}: {len(found.units)} paired samples per point, 95 % intervals",
        fontsize=10,
    )
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel(setting or "scheduler")
    if not setting:
        axes.set_xticks([])
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    save(figure, path)


def _line(axes: Any, found: Evaluation, setting: str, name: str, k: int, total: int) -> None:
    """One scheduler: its mean ratio to the baseline in every cell, with the interval."""
    points: list[tuple[float, Comparison]] = []
    for n, cell in enumerate(found.cells):
        if (cell.label, name) in found.against:
            value = cell.settings.get(setting)
            place = float(value) if isinstance(value, int | float) else n + k / (total + 1.0)
            points.append((place, found.against[cell.label, name]))
    if not points:
        return
    comparison_line(axes, [place for place, _ in points], [one for _, one in points], name, k, bool(setting))


def comparison_line(
    axes: Any, x: Sequence[float], found: Sequence[Comparison], name: str, k: int, is_joined: bool
) -> Floats:
    """Comparisons of one scheduler with their intervals; returns the percentages."""
    y = np.array([[one.percent, one.low_percent, one.high_percent] for one in found])  # (num_points, 3)
    is_far = k >= len(COLOURS)
    axes.errorbar(
        x, y[:, 0], yerr=np.abs(y[:, 1:] - y[:, :1]).T, color=COLOURS[k % len(COLOURS)],
        marker=MARKS[k % len(MARKS)], markersize=4.5, linewidth=1.4 if is_joined else 0.0,
        linestyle="--" if is_far else "-", markerfacecolor="white" if is_far else None,
        elinewidth=0.9, capsize=2.0, label=shown_name(name),
    )  # fmt: skip
    return y[:, 0]
