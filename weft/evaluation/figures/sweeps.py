"""A picture of a sweep: every scheduler against the baseline, over the setting that varies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.evaluation.figures.gantt import check_path, save
from weft.evaluation.figures.looks import CUT, DASHES, MARKS, SERIES, legend_name, limits, series_look
from weft.evaluation.statistics import Comparison
from weft.evaluation.sweep.claims import shown_name
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.scales import in_brackets
from weft.model.graph import Floats

MOST_TICKS = 12
"""Points that are labelled; of more, some."""


def draw(found: Evaluation, path: str | Path) -> None:
    """Write the figure; the suffix (.png or .svg) says the format."""
    check_path(Path(path), "--plot", "a figure of the sweep")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 5.2), dpi=150, layout="constrained")
    axes = figure.subplots()
    base = shown_name(found.baseline)
    for name in found.schedulers:
        if name != found.baseline:
            _line(axes, found, name)
    cut = f"; {CUT}" if _limit(axes, found) else ""
    axes.axhline(0.0, color="#555555", linewidth=1.0, linestyle="--", label=f"{base} (baseline)")
    axes.set_ylabel(f"{found.deciding.words} against {base}{in_brackets(found.deciding)}, lower is better")
    chosen = f", {', '.join(found.chosen)}" if found.chosen else ""
    interval = ", 95 % intervals" if len(found.units) > 1 else ""
    axes.set_title(
        f"{found.title}{chosen}: {len(found.units)} paired samples per point{interval}{cut}", fontsize=10
    )
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    label_points(axes, found)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    save(figure, path)


def _limit(axes: Any, found: Evaluation) -> bool:
    """Cut the axis where intervals would hide the values; returns whether it is."""
    ends = [end for one in found.against.values() for end in (one.low, one.high) if np.isfinite(end)]
    values = [one.value for one in found.against.values() if np.isfinite(one.value)]
    low, high = limits([0.0, *values], ends)
    if all(low <= end <= high for end in ends):
        return False
    room = 0.05 * (high - low)
    axes.set_ylim(low - room, high + room)
    return True


def label_points(axes: Any, found: Evaluation) -> None:
    """What the places of the x axis are: the values of one setting, or the labels of points that differ in several."""
    axes.set_xlabel(", ".join(found.varied))
    if found.setting:
        return
    every = -(-len(found.cells) // MOST_TICKS)
    shown = list(enumerate(found.cells))[::every]
    ticks = [cell.label.replace(",", "\n") for _, cell in shown] if found.varied else [""]
    axes.set_xticks([n for n, _ in shown], ticks, fontsize=8 if len(shown) < 7 else 6)
    axes.set_xlim(-0.5, len(found.cells) - 0.5)


def place_of(found: Evaluation, n: int, name: str) -> float:
    """Where a scheduler is drawn at point n: at its setting, else beside the others."""
    if found.setting:
        return float(str(found.cells[n].settings[found.setting]))
    total = len(found.schedulers)
    return n + 0.8 * ((found.schedulers.index(name) + 0.5) / total - 0.5)


def _line(axes: Any, found: Evaluation, name: str) -> None:
    """One scheduler: its mean ratio or difference to the baseline in every cell, with the interval."""
    points = [
        (place_of(found, n, name), found.against[cell.label, name])
        for n, cell in enumerate(found.cells)
        if (cell.label, name) in found.against
    ]
    if points:
        comparison_line(axes, [place for place, _ in points], [one for _, one in points], found, name)


def comparison_line(
    axes: Any, x: Sequence[float], points: Sequence[Comparison], found: Evaluation, name: str
) -> Floats:
    """Comparisons of one scheduler with their intervals; returns the values."""
    y = np.array([[one.value, one.low, one.high] for one in points])  # (num_points, 3)
    look, is_joined = series_look(found.look(name)), bool(found.setting)
    axes.errorbar(
        x, y[:, 0], yerr=np.abs(y[:, 1:] - y[:, :1]).T, color=SERIES[look.colour][0],
        marker=MARKS[look.mark], markersize=4.5, linewidth=1.4 if is_joined else 0.0,
        linestyle=DASHES[look.dash], markerfacecolor="white" if look.dash else None,
        elinewidth=0.9, capsize=2.0, label=legend_name(shown_name(name)),
    )  # fmt: skip
    return y[:, 0]
