"""A picture of learning curves: reward and job time over samples, or makespan over updates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.evaluation.curves import COMPLETION, MISSED, Curve
from weft.evaluation.figures.gantt import check_path, save
from weft.evaluation.figures.looks import DASHES, SERIES, legend_name, series_look

PANELS = (
    ("mean_reward", "mean reward per decision", "reward"),
    ("baselines_percent", "job time above {} (%)", "against the baselines"),
    ("envelope_percent", "job time above {} (%)", "against the envelope"),
)
"""Metric, label of its axis with the rules left open, title."""
ONESHOT_PANELS = (
    ("greedy_percent", "makespan above the bound (%)", "one schedule, greedy"),
    ("best_of_16_percent", "makespan above the bound (%)", "best of 16 schedules"),
)
"""The same for one-shot planners."""

ALLOCATOR_PANELS = ((COMPLETION, "mean completion time (world steps)", "in validation"),)
"""The same for agents of edge clusters."""
DEADLINE_PANELS = (
    ("mean_reward", "mean reward per decision", "reward"),
    (MISSED, "share of deadlines missed", "in validation"),
)
"""The same for pipelines."""


def draw_curves(curves: Sequence[Curve], path: str | Path) -> None:
    """Write the figure; the suffix (.png or .svg) says the format. Bands span the training seeds."""
    check_path(Path(path), "--plot", "learning curves")
    panels = _panels(curves)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 4.2), dpi=150, layout="constrained")
    for axes, (metric, label, title) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
    ):
        for k, curve in enumerate(curves):
            if metric in curve.columns:
                _line(axes, curve, metric, k)
        _dress(axes, label.format(_rules(curves, metric)), title)
        if panels is ONESHOT_PANELS:
            axes.set_xlabel("updates")
        elif metric not in ("mean_reward", COMPLETION, MISSED):
            _mark_zero(axes)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    save(figure, path)


def _panels(curves: Sequence[Curve]) -> tuple[tuple[str, str, str], ...]:
    """What is drawn of these curves, which are all of one kind."""
    oneshot = [curve.name for curve in curves if curve.is_planner]
    if oneshot and len(oneshot) < len(curves):
        raise InputError(
            f"expected runs of one kind in a figure, got one-shot planners ({', '.join(oneshot)}) and others",
            field="--plot",
        )
    for panels, words, found in (
        (ALLOCATOR_PANELS, "agents of edge clusters", [curve.is_allocator for curve in curves]),
        (DEADLINE_PANELS, "policies of pipelines", [curve.is_of_deadlines for curve in curves]),
    ):
        if all(found):
            return panels
        if any(found):
            raise InputError(f"expected runs of one kind in a figure, got {words} and others", field="--plot")
    return ONESHOT_PANELS if oneshot else PANELS


def _rules(curves: Sequence[Curve], metric: str) -> str:
    return " or ".join(dict.fromkeys(curve.against.get(metric, "") for curve in curves))


def _line(axes: Any, curve: Curve, metric: str, k: int) -> None:
    """The mean over seeds, and a band from the least to the greatest of them."""
    values, x = curve.columns[metric], curve.samples / (1 if curve.is_planner else 1e6)
    seeds = f" ({len(curve.runs)} seeds)" if len(curve.runs) > 1 else ""
    look = series_look(k)
    colour, name = SERIES[look.colour][0], legend_name(f"{curve.name}{seeds}")
    axes.plot(x, values.mean(0), color=colour, linewidth=1.5, linestyle=DASHES[look.dash], label=name)
    if len(values) > 1:
        axes.fill_between(x, values.min(0), values.max(0), color=colour, alpha=0.18, linewidth=0)


def _dress(axes: Any, label: str, title: str) -> None:
    axes.set_xlabel("samples (millions)")
    axes.set_ylabel(label, fontsize=9)
    axes.set_title(title, fontsize=10)
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _mark_zero(axes: Any) -> None:
    axes.axhline(0.0, color="#555555", linewidth=1.0, linestyle="--")
    axes.set_ylim(top=min(axes.get_ylim()[1], 30.0))
