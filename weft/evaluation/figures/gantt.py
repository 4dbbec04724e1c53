"""Gantt charts of schedules: PNG or SVG through matplotlib (loaded on use), or text.

One lane per device; a device with several slots is a taller lane in which tasks are stacked.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InputError, MissingExtra
from weft.evaluation.figures.looks import COPY_HATCH, HATCHES, MOST_KINDS, REST, kind_look, legend_name
from weft.evaluation.figures.packing import Bars
from weft.evaluation.figures.packing import pack as pack
from weft.io.sources import write_bytes
from weft.model.graph import Floats, Ints
from weft.model.schedule import Schedule

IDLE = "#EFEFEF"
SYMBOLS = "=#%@+*&$-:;?!/<>"
OTHER_SYMBOL = ","
"""Of all kinds beyond those that have a symbol of their own."""
POOL = 16
"""A device with more slots than this is drawn as a pool: a high lane of thin bars."""
MOST_LINES = 8
"""In a terminal, a device with more slots than this is one line that shows its load."""


def labels(schedule: Schedule) -> tuple[tuple[str, ...], Ints]:
    """What colours mean, and the index of each task: kinds, or jobs where there is one kind only."""
    jobs = schedule.problem.jobs
    used = [job.graph.kinds[k] for job in jobs for k in np.unique(job.graph.kind).tolist()]
    kinds = tuple(dict.fromkeys(used))
    if len(kinds) == 1 and len(jobs) > 1:
        return tuple(job.name for job in jobs), schedule.problem.job_of.astype(np.int64)
    index = {kind: i for i, kind in enumerate(kinds)}
    columns = [np.array([index.get(k, 0) for k in job.graph.kinds])[job.graph.kind] for job in jobs]
    return kinds, np.concatenate(columns).astype(np.int64)


def _first(schedule: Schedule) -> float:
    return min(job.release for job in schedule.problem.jobs)


def quality(schedule: Schedule) -> str:
    """Makespan, bound and use of a schedule in a line."""
    bound = schedule.bound
    text = f"makespan {schedule.makespan:.5g} {schedule.time_unit}"
    if bound.value > 0:
        text += f", lower bound {bound.value:.5g} ({bound.method}), {schedule.gap_percent:.1f} % above it"
    count = schedule.num_copies
    copies = f", {count} {'copy' if count == 1 else 'copies'}" if count else ""
    return f"{text}; {100 * schedule.utilisation:.0f} % busy{copies}"


# -- figures --------------------------------------------------------------------------------------


def check_path(path: str | Path, field: str = "path", what: str = "a Gantt chart") -> None:
    """Refuse a chart that cannot be drawn; worth asking before a long plan is made for it."""
    if Path(path).suffix.lower() not in (".png", ".svg"):
        raise InputError(f"expected a path that ends in .png or .svg, got {str(path)!r}", field=field)
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtra("matplotlib", "plot", what) from None


def draw(schedule: Schedule, path: str | Path, *, title: str | None = None) -> None:
    """Write one schedule as a chart; the suffix of ``path`` (.png or .svg) says the format."""
    several([(title or schedule.problem.name, schedule)], path)


def several(schedules: Sequence[tuple[str, Schedule]], path: str | Path) -> None:
    """Write titled schedules below one another on one time axis."""
    check_path(path)
    if not schedules:
        raise InputError("expected at least one schedule, got none", field="schedules")
    from matplotlib.figure import Figure

    units = [float(_offsets(plan)[-1]) for _, plan in schedules]
    lane = min(0.4, 12.0 / sum(units))
    height = lane * sum(units) + 0.9 * len(units) + 0.8
    figure = Figure(figsize=(12.0, max(height, 2.6)), dpi=150, layout="constrained")
    axes = figure.subplots(len(schedules), 1, sharex=True, squeeze=False, height_ratios=units)[:, 0]
    names = tuple(dict.fromkeys(name for _, plan in schedules for name in labels(plan)[0]))
    for ax, (title, plan) in zip(axes, schedules, strict=True):
        _panel(ax, plan, title, names, lane)
    end = max(_first(plan) + max(plan.makespan, plan.bound.value) for _, plan in schedules)
    axes[-1].set_xlim(min(_first(plan) for _, plan in schedules), (end or 1.0) * 1.005)
    axes[-1].set_xlabel(f"time ({schedules[0][1].time_unit})")
    handles = _legend(names, any(plan.num_copies for _, plan in schedules))
    columns = -(-len(handles) // -(-len(handles) // 9))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)
    save(figure, path)


def save(figure: Any, path: str | Path) -> Path:
    """Render a figure in the format of the suffix, the same bytes every time, and write all or nothing."""
    import matplotlib
    import matplotlib.text

    out, drawn = Path(path), BytesIO()
    kind = out.suffix.lower().removeprefix(".")
    for text in figure.findobj(matplotlib.text.Text):
        text.set_parse_math(False)  # a name with two $ is no formula
    with matplotlib.rc_context({"svg.hashsalt": "weft", "hatch.linewidth": 0.7}):
        figure.savefig(drawn, format=kind, metadata={"Date": None} if kind == "svg" else None)
    write_bytes(drawn.getvalue(), out)
    return out


def _offsets(schedule: Schedule) -> Floats:
    """Top of every device's lane, and the end of the last."""
    return np.concatenate([[0.0], np.cumsum(_heights(schedule) + 0.25)])


def _heights(schedule: Schedule) -> Floats:
    """Height of every lane: 1 for one slot, up to 4 for several, 8 for a pool."""
    slots = schedule.problem.cluster.slots
    return np.where(slots > POOL, 8.0, np.minimum(slots, 4.0))


def _panel(ax: Any, schedule: Schedule, title: str, names: tuple[str, ...], lane: float) -> None:
    """One schedule: lanes, bars, bound, shares."""
    tops = _offsets(schedule)
    centres = (tops[:-1] + tops[1:] - 0.25) / 2.0
    first, end = _first(schedule), _first(schedule) + schedule.makespan
    ax.broken_barh([(first, schedule.makespan)], (0, 0))  # fixes the limits of an empty schedule
    for top, centre in zip(tops, centres, strict=False):
        ax.fill_between([first, end], top, 2 * centre - top, color=IDLE, linewidth=0, zorder=0)
    _bars(ax, schedule, tops, names, lane)
    ax.axvline(first + schedule.bound.value, color="black", linestyle="--", linewidth=1.2, zorder=3)
    ax.set_ylim(tops[-1] - 0.1, -0.15)
    every = max(1, int(np.ceil(0.13 / (lane * float(np.diff(tops).mean())))))
    shown = range(0, len(centres), every)
    size = 9 if every == 1 and lane > 0.18 else 7
    cluster = schedule.problem.cluster
    ax.set_yticks(centres[::every], [cluster.device_names[d] for d in shown], fontsize=size)
    for d in shown:
        share = f"{100 * schedule.device_utilisation[d]:.0f} %"
        ax.text(1.01, centres[d], share, transform=ax.get_yaxis_transform(), va="center", fontsize=size)
    ax.text(1.01, 1.01, "busy", transform=ax.transAxes, fontsize=size, va="bottom")
    ax.set_title(f"{title}: {quality(schedule)}", loc="left", fontsize=10)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)


def _bars(ax: Any, schedule: Schedule, tops: Floats, names: tuple[str, ...], lane: float) -> None:
    """All bars as one collection per colour and hatch, with names where they fit."""
    from matplotlib.collections import PolyCollection

    bars = pack(schedule)
    corners = _corners(schedule, bars, tops)
    own_names, label = labels(schedule)
    place = np.array([names.index(name) for name in own_names], dtype=np.int64)
    look = np.minimum(place[label[schedule.task[bars.row]]], MOST_KINDS) if len(bars.row) else bars.row
    is_copy = schedule.copy[bars.row] > 0
    edge = 0.8 if len(look) <= 300 else 0.3 if len(look) <= 3000 else 0.0
    edge = edge / 4.0 if (schedule.problem.cluster.slots > POOL).any() else edge
    for key in np.unique(look).tolist():
        for copies in (False, True):
            chosen = corners[(look == key) & (is_copy == copies)]
            style = kind_look(key)
            bars_drawn = PolyCollection(
                chosen, facecolor=style.light, edgecolor="white", linewidth=edge, zorder=2
            )
            bars_drawn.set_hatch(HATCHES[style.hatch] + (COPY_HATCH if copies else ""))
            ax.add_collection(bars_drawn, autolim=False)
    if len(look) <= 400:
        _names(ax, schedule, bars, corners, look, lane)


def _corners(schedule: Schedule, bars: Bars, tops: Floats) -> Floats:
    """Four corners per bar."""
    device = schedule.device[bars.row]
    scale = (_heights(schedule) / schedule.problem.cluster.slots)[device]
    x0, x1 = schedule.start[bars.row], schedule.finish[bars.row]
    y0, y1 = tops[device] + bars.low * scale, tops[device] + bars.high * scale
    corners: Floats = np.stack([x0, y0, x0, y1, x1, y1, x1, y0], axis=1).reshape(-1, 4, 2)
    return corners


def _names(ax: Any, schedule: Schedule, bars: Bars, corners: Floats, look: Ints, lane: float) -> None:
    """Write the task into every bar that is wide and high enough for it."""
    inches = 10.3 / max(schedule.makespan, 1e-300)
    size = 8 if lane > 0.25 else 6
    together = np.bincount(schedule.batch + 1)
    for b, row in enumerate(bars.row.tolist()):
        (x0, y0), (x1, y1) = corners[b, [0, 2]].tolist()
        name = schedule.placement(row).task
        batch = int(schedule.batch[row])
        if batch >= 0 and together[batch + 1] > 1:
            name += f" +{together[batch + 1] - 1}"
        if (x1 - x0) * inches > 0.0095 * size * len(name) and (y1 - y0) * lane > size / 72.0:
            style = kind_look(int(look[b]))
            is_hatched = style.hatch > 0 or schedule.copy[row] > 0
            box = {"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.9} if is_hatched else None
            ink = "black" if is_hatched else style.light_ink
            place = {"ha": "center", "va": "center", "fontsize": size, "zorder": 4}
            ax.text((x0 + x1) / 2, (y0 + y1) / 2, name, color=ink, bbox=box, **place)


def kind_handles(names: Sequence[str]) -> list[Any]:
    """What the kinds look like, for a legend."""
    from matplotlib.patches import Patch

    looks = [(name, kind_look(key)) for key, name in enumerate(names[:MOST_KINDS])]
    handles: list[Any] = [
        Patch(facecolor=one.light, hatch=HATCHES[one.hatch], edgecolor="white", label=legend_name(name))
        for name, one in looks
    ]
    if len(names) > MOST_KINDS:
        handles.append(Patch(facecolor=REST[0], label=f"{len(names) - MOST_KINDS} more kinds"))
    return handles


def _legend(names: tuple[str, ...], has_copies: bool) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = kind_handles(names)
    if has_copies:
        handles.append(
            Patch(facecolor="#777777", hatch=COPY_HATCH, edgecolor="white", label="copy of a task")
        )
    handles.append(Patch(facecolor=IDLE, label="idle"))
    return [*handles, Line2D([], [], color="black", linestyle="--", label="lower bound")]


# -- terminal -------------------------------------------------------------------------------------


def terminal(schedule: Schedule, width: int = 100, *, markup: bool = False) -> str:
    """The schedule as lines of text, one per lane; with ``markup``, coloured for rich."""
    names = schedule.problem.cluster.device_names
    margin = max(len(name) for name in names) + 1
    cells = max(width - margin - 7, 20)
    lines = [_escape(quality(schedule), markup)]
    canvas, marks = _canvas(schedule, cells)
    for device, name in enumerate(names):
        share = f" {100 * schedule.device_utilisation[device]:4.0f} %"
        for lane, (text, mark) in enumerate(zip(canvas[device], marks[device], strict=True)):
            ends = (name, share) if lane == 0 else ("", "")
            lines.append(f"{ends[0]:<{margin}}{_paint(text, mark, markup)}{ends[1]}")
    scale = schedule.makespan / cells
    lines += [" " * margin + line for line in _axis(schedule, cells, scale)]
    return "\n".join([*lines, *_key(schedule, width, markup)])


def _canvas(schedule: Schedule, cells: int) -> tuple[list[list[list[str]]], list[list[list[int]]]]:
    """Per device and line: the characters, and the colour of each (-1 none, -2 - k copy of k)."""
    lines = [n if n <= MOST_LINES else 1 for n in schedule.problem.cluster.slots.tolist()]
    canvas = [[["."] * cells for _ in range(n)] for n in lines]
    marks = [[[-1] * cells for _ in range(n)] for n in lines]
    scale = cells / max(schedule.makespan, 1e-300)
    label = labels(schedule)[1]
    bars, load = pack(schedule), np.zeros((len(lines), cells))
    for row, low, high in zip(bars.row.tolist(), bars.low.tolist(), bars.high.tolist(), strict=True):
        d, key = int(schedule.device[row]), int(label[schedule.task[row]])
        x0, x1 = ((t - _first(schedule)) * scale for t in (schedule.start[row], schedule.finish[row]))
        left = min(int(x0 + 1e-9), cells - 1)
        right = min(max(int(x1 + 1e-9), left + 1), cells)
        if high > lines[d]:
            edges = np.arange(cells)
            load[d] += (high - low) * np.clip(np.minimum(edges + 1, x1) - np.maximum(edges, x0), 0, 1)
            continue
        is_copy = bool(schedule.copy[row] > 0)
        symbol = "~" if is_copy else symbol_of(key)
        text = _bar_text(schedule.placement(row).task, right - left, symbol)
        for lane in range(low, high):
            canvas[d][lane][left:right] = text if lane == low else [symbol] * (right - left)
            marks[d][lane][left:right] = [-2 - key if is_copy else key] * (right - left)
    for d in np.flatnonzero(load.any(axis=1)).tolist():
        share = load[d] / schedule.problem.cluster.slots[d]
        canvas[d][0] = [".▁▂▃▄▅▆▇█"[int(np.ceil(8 * min(s, 1.0) - 1e-9))] for s in share.tolist()]
    return canvas, marks


def symbol_of(key: int) -> str:
    """How a kind is drawn in a terminal."""
    return SYMBOLS[key] if key < len(SYMBOLS) else OTHER_SYMBOL


def _bar_text(name: str, width: int, symbol: str) -> list[str]:
    """A bar of this width, with its name inside if it fits."""
    if width < 3:
        return [symbol] * width
    inner = name.center(width - 2, symbol) if len(name) <= width - 2 else symbol * (width - 2)
    return ["[", *inner, "]"]


def _axis(schedule: Schedule, cells: int, scale: float) -> list[str]:
    """Tick labels at round times, and a mark at the lower bound."""
    if scale <= 0:
        return []
    first, unit = _first(schedule), schedule.time_unit
    rough = 12.0 * scale
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(k * power for k in (1.0, 2.0, 5.0, 10.0) if k * power >= rough * (1 - 1e-9))
    line = [" "] * (cells + 12)
    for k in range(int(schedule.makespan / step + 1e-9) + 1):
        at, text = int(k * step / scale), f"|{first + k * step:g}"
        line[at : at + len(text)] = text
    at = min(int(schedule.bound.value / scale), cells)
    return [f"{''.join(line).rstrip()} {unit}", " " * at + "^ lower bound"]


def _key(schedule: Schedule, width: int, markup: bool) -> list[str]:
    """What the marks mean, in lines of at most ``width`` columns where names allow it."""
    names, most = labels(schedule)[0], len(SYMBOLS)
    parts = [(SYMBOLS[k], k, f" {name}") for k, name in enumerate(names[:most])]
    if len(names) > most:
        parts.append((OTHER_SYMBOL, most, f" {len(names) - most} more"))
    if schedule.num_copies:
        parts.append(("~", -1, " copy of a task"))
    parts.append((".", -1, " idle"))
    if (schedule.problem.cluster.slots > MOST_LINES).any():
        parts.append(("▁", -1, " to █ share of the slots in use"))
    lines, used = [""], 0
    for symbol, mark, text in parts:
        size = len(symbol) + len(text)
        if used and used + 3 + size > width:
            lines.append("")
            used = 0
        gap = "   " if used else ""
        # a blank after the name is escaped with it: a backslash at the very end would be doubled
        shown = _escape(f"{text} ", markup)[:-1]
        lines[-1] += gap + _paint(symbol, [mark] * len(symbol), markup) + shown
        used += len(gap) + size
    return lines


def _escape(text: str, markup: bool) -> str:
    if not markup:
        return text
    from rich.markup import escape

    return escape(text)


def _paint(text: Sequence[str], marks: Sequence[int], markup: bool) -> str:
    """The characters, with rich's colour tags around stretches of one mark."""
    if not markup:
        return "".join(text)
    cuts = [i for i in range(1, len(marks)) if marks[i] != marks[i - 1]]
    painted = []
    for low, high in zip([0, *cuts], [*cuts, len(marks)], strict=True):
        mark, piece = marks[low], _escape("".join(text[low:high]), markup)
        style = None if mark == -1 else kind_look(mark if mark >= 0 else -2 - mark)
        painted.append(f"[{style.light_ink} on {style.light}]{piece}[/]" if style else piece)
    return "".join(painted)
