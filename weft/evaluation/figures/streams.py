"""Figures of a stream, one file each in a folder: relative job times, devices, adaptation to drift."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InputError
from weft.evaluation.figures.gantt import save
from weft.evaluation.figures.looks import DASHES, SERIES, TONES, legend_name, series_look
from weft.evaluation.figures.sweeps import comparison_line, label_points, place_of
from weft.evaluation.statistics import mean_interval
from weft.evaluation.sweep.adaptation import Adaptation, adaptations
from weft.evaluation.sweep.claims import Table, shown_name
from weft.evaluation.sweep.config_form import Cell
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.runner import Progress
from weft.evaluation.sweep.summary import CONFIDENCE
from weft.model.graph import Floats
from weft.scenarios.groups import Group

HIGHEST = 60.0
"""Relative job times above this percentage are cut off, and the title says so."""
MOST_ROWS = 3
"""Settings shown in the figure of the devices: the first, the middle and the last."""
_GREY = "#555555"


def draw_all(found: Evaluation, folder: Path, progress: Progress | None = None) -> list[Path]:
    """Write every figure that the rows allow into a folder, which is made; returns their paths."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror or error}", file=str(folder)) from None
    drawn = [_draw_devices(found, folder / "devices.png")]
    groups = Table(found).groups if len(found.units) > 1 else ()
    if groups:
        drawn.append(_draw_relative(found, groups, folder / "relative.png"))
    for n, one in enumerate(adaptations(found, progress)):
        name = "adaptation.png" if n == 0 else f"adaptation-{n + 1}.png"
        drawn.append(_draw_adaptation(one, folder / name))
    return drawn


def _draw_relative(found: Evaluation, groups: tuple[Group, ...], path: Path) -> Path:
    """Mean job time of every scheduler against the best of each group, over the setting that varies."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4 * len(groups), 5.4), dpi=150, layout="constrained")
    table = Table(found)
    for axes, group in zip(np.atleast_1d(figure.subplots(1, len(groups))), groups, strict=True):
        is_cut = False
        for name in found.schedulers:
            is_cut |= _relative_line(axes, found, table, name, group)
        axes.axhline(0.0, color=_GREY, linewidth=1.0, linestyle="--")
        cut = f" (cut off at {HIGHEST:g} %)" if is_cut else ""
        axes.set_title(f"against {group.title}{cut}", fontsize=10)
        axes.set_ylabel("mean job time, difference (%), lower is better")
        label_points(axes, found)
        _clean(axes)
    figure.suptitle(_samples(found), fontsize=10)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    return save(figure, path)


def _relative_line(axes: Any, found: Evaluation, table: Table, name: str, group: Group) -> bool:
    """One scheduler with its intervals; returns whether some of it lies above the axis."""
    points = [point.comparison for point in table.points(name, group)]
    x = [place_of(found, n, name) for n in range(len(found.cells))]
    is_cut = bool((comparison_line(axes, x, points, found, name) > HIGHEST).any())
    if is_cut:
        axes.set_ylim(top=HIGHEST)
    return is_cut


def _draw_devices(found: Evaluation, path: Path) -> Path:
    """Utilisation and batch fill of every device under every scheduler, as groups of bars."""
    from matplotlib.figure import Figure

    cells = _some(found.cells)
    figure = Figure(figsize=(13.0, 3.2 * len(cells) + 1.0), dpi=150, layout="constrained")
    panels = figure.subplots(len(cells), 2, squeeze=False, sharey=True)
    for row, cell in zip(panels, cells, strict=True):
        for axes, metric, title in zip(
            row, ("utilisation", "batch_fill"), ("busy time", "batch fill"), strict=True
        ):
            _device_bars(axes, found, cell.label, metric)
            axes.set_title(f"{title}{f', {cell.label}' if cell.label else ''}", fontsize=10)
            _clean(axes)
        row[0].set_ylabel("share of the time (%)")
        row[1].set_ylabel("mean batch / largest batch (%)")
        row[1].tick_params(labelleft=True)
    figure.suptitle(_samples(found), fontsize=10)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    return save(figure, path)


def _device_bars(axes: Any, found: Evaluation, cell: str, metric: str) -> None:
    names = found.schedulers
    width = 0.84 / len(names)
    devices: list[str] = []
    for k, name in enumerate(names):
        look = series_look(found.look(name))
        colour = SERIES[look.colour][0]
        rows = [row for row in found.rows if (row.cell, row.scheduler) == (cell, name)]
        per_seed = [json.loads(row.devices or "[]") for row in rows]
        devices = [one["device"] for one in per_seed[0]]
        shares = 100.0 * np.array([[one[metric] for one in seed] for seed in per_seed])  # (seeds, devices)
        axes.bar(
            np.arange(len(devices)) + (k - (len(names) - 1) / 2.0) * width, shares.mean(axis=0), 0.92 * width,
            yerr=half_widths(shares, 100.0) if len(shares) > 1 else None, facecolor=(colour, TONES[look.dash]),
            edgecolor=colour, linewidth=0.8, error_kw={"elinewidth": 0.8, "ecolor": _GREY},
            label=legend_name(shown_name(name)),
        )  # fmt: skip
    axes.set_xticks(range(len(devices)), devices)
    axes.set_ylim(0.0, 105.0)


def half_widths(values: Floats, most: float = np.inf, least: float = 0.0) -> Floats:
    """How far the 95 % interval of the mean over the first axis reaches below and above: (2, num_columns).

    It keeps within ``least`` and ``most``, beyond which no value lies.
    """
    found = [mean_interval(column, confidence=CONFIDENCE) for column in values.T]
    ends = [(one.value - max(one.low, least), min(one.high, most) - one.value) for one in found]
    return np.array(ends).T


def _draw_adaptation(one: Adaptation, path: Path) -> Path:
    """True probability and estimates, then the job times around each arrival, plain and relative."""
    from matplotlib.figure import Figure

    has_error = bool(one.estimates) and one.is_drawn
    heights = [1.0, *([0.7] if has_error else []), 1.0, 1.2]
    figure = Figure(figsize=(9.5, 3.1 * len(heights)), dpi=150, layout="constrained")
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    _probability_panel(panels[0], one)
    if has_error:
        _error_panel(panels[1], one)
    _time_panels(panels[-2], panels[-1], one)
    for axes in panels:
        _clean(axes)
    figure.suptitle(f"{one.title}: {one.num_seeds} seeds, bands are 95 % intervals of the mean", fontsize=10)
    return save(figure, path)


def _time_panels(plain: Any, relative: Any, one: Adaptation) -> None:
    """Job times over the window, and what each differs from the first scheduler, paired by seed."""
    names = list(one.job_times)
    first = one.windowed(one.job_times[names[0]])
    for k, name in enumerate(names):
        times = one.windowed(one.job_times[name])
        _band(plain, one.jobs, times, k, name)
        if k > 0:
            _band(relative, one.jobs, 100.0 * (times / first - 1.0), k, name, least=-100.0)
    relative.axhline(0.0, color=SERIES[0][0], linewidth=1.4)
    low, high = relative.get_ylim()
    relative.set_ylim(max(low, -HIGHEST), min(high, HIGHEST))
    plain.set_yscale("log")
    plain.yaxis.set_major_formatter("{x:g}")
    plain.yaxis.set_minor_formatter("{x:g}")
    plain.set_ylabel(f"mean job time ({one.time_unit})\nover {one.window} jobs")
    plain.legend(frameon=False, fontsize=8, ncols=2)
    relative.set_ylabel(f"the same against\n{names[0]} (%)")
    relative.set_xlabel("jobs arrived")


def _probability_panel(axes: Any, one: Adaptation) -> None:
    where = ", first seed" if one.is_drawn else ""
    axes.plot(
        one.jobs,
        one.probability[0][one.jobs],
        color="#000000",
        linewidth=1.6,
        label=f"true probability{where}",
    )
    for k, (name, estimates) in enumerate(one.estimates.items()):
        if one.is_drawn:
            axes.plot(
                one.jobs,
                estimates[0][one.jobs],
                linewidth=1.2,
                label=legend_name(f"{name}{where}"),
                **_line(k),
            )
        else:
            _band(axes, one.jobs, estimates[:, one.jobs], k, name, most=1.0)
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel("probability and its estimate")
    axes.legend(frameon=False, fontsize=8, ncols=2)


def _error_panel(axes: Any, one: Adaptation) -> None:
    for k, (name, estimates) in enumerate(one.estimates.items()):
        _band(axes, one.jobs, np.abs(estimates - one.probability)[:, one.jobs], k, name)
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("error of the estimate\n|estimate - probability|")


def _line(k: int) -> dict[str, str]:
    look = series_look(k)
    return {"color": SERIES[look.colour][0], "linestyle": DASHES[look.dash]}


def _band(axes: Any, jobs: Any, values: Floats, k: int, label: str, **bounds: float) -> None:
    """Mean over seeds (rows) with its interval, which keeps within bounds."""
    mean, style = values.mean(axis=0), _line(k)
    axes.plot(jobs, mean, linewidth=1.4, label=legend_name(label), **style)
    if len(values) > 1:
        below, above = half_widths(values, **bounds)
        axes.fill_between(jobs, mean - below, mean + above, color=style["color"], alpha=0.18, linewidth=0.0)


def _samples(found: Evaluation) -> str:
    num = len(found.units)
    seeds = f"{num} paired seeds" if num > 1 else "1 seed"
    intervals = f", {100 * CONFIDENCE:g} % intervals" if num > 1 else ""
    chosen = f", {', '.join(found.chosen)}" if found.chosen else ""
    return f"{found.title}{chosen}: {seeds}{intervals}"


def _some(cells: tuple[Cell, ...]) -> list[Cell]:
    """The first, the middle and the last, or all where they are few."""
    if len(cells) <= MOST_ROWS:
        return list(cells)
    return [cells[0], cells[len(cells) // 2], cells[-1]]


def _clean(axes: Any) -> None:
    axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
