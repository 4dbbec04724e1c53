"""Pictures of task graphs, level by level: PNG or SVG through matplotlib (loaded on use), or text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.evaluation.figures.gantt import SYMBOLS, kind_handles, save
from weft.evaluation.figures.gantt import check_path as check_path
from weft.evaluation.figures.looks import HATCHES, MOST_KINDS, KindLook, kind_look
from weft.model.graph import Floats, Ints

MOST_ROWS = 24
"""Levels in the terminal; of more, the middle is left out."""
MOST_TASKS, MOST_WIDE, MOST_DEEP = 250, 40, 40
"""A graph within these is drawn task by task, a larger one as levels."""
MOST_BANDS = 300
"""Rows of a picture of levels; of more levels, several share a row."""
OTHER = "."
BOX = (0.4, 0.22)
"""Half the width and height of a task, where neighbours are 1 apart."""


class Layers(NamedTuple):
    """A graph with the level of every task."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    kind: Ints  # (num_tasks,)
    level: Ints  # (num_tasks,)
    sources: Ints  # (num_edges,)
    targets: Ints  # (num_edges,)
    critical: Ints  # (length,) tasks of the critical path, first to last

    @property
    def depth(self) -> int:
        """Number of levels."""
        return int(self.level.max(initial=-1)) + 1


# -- terminal -------------------------------------------------------------------------------------


def terminal(levels: Sequence[Mapping[str, int]], kinds: Sequence[str], width: int = 100) -> str:
    """Levels as rows of blocks marked by kind; a block is a task, or several where the widest level has too many."""
    symbols = {kind: SYMBOLS[k] if k < len(SYMBOLS) else OTHER for k, kind in enumerate(kinds)}
    widest = max((sum(level.values()) for level in levels), default=0)
    scale = max(1, -(-widest // max(width - 16, 20)))
    lines = [f"{'level':>6}  {'tasks':>6}{f'  (a block is {scale} tasks)' if scale > 1 else ''}"]
    last = -1
    for k, level in _shown(levels):
        if k != last + 1:
            lines.append(_left_out(levels[last + 1 : k]))
        lines.append(f"{k + 1:>6}  {sum(level.values()):>6}  {_blocks(level, symbols, scale)}")
        last = k
    return "\n".join([*lines, *_key(kinds, symbols, width)])


def _shown(levels: Sequence[Mapping[str, int]]) -> list[tuple[int, Mapping[str, int]]]:
    numbered = list(enumerate(levels))
    half = MOST_ROWS // 2
    return numbered if len(levels) <= MOST_ROWS + 1 else numbered[:half] + numbered[-half:]


def _left_out(levels: Sequence[Mapping[str, int]]) -> str:
    sizes = [sum(level.values()) for level in levels]
    span = str(min(sizes)) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    return f"{'...':>6}  {sum(sizes):>6}  on {len(levels)} levels of {span}"


def _blocks(level: Mapping[str, int], symbols: Mapping[str, str], scale: int) -> str:
    """A block per ``scale`` tasks, each kind with its share of them."""
    total = sum(level.values())
    ends = np.rint(np.cumsum(list(level.values())) / total * -(-total // scale)).astype(int)
    widths = np.diff(ends, prepend=0).tolist()
    return "".join(symbols[kind] * width for kind, width in zip(level, widths, strict=True))


def _key(kinds: Sequence[str], symbols: Mapping[str, str], width: int) -> list[str]:
    parts = [f"{symbols[kind]} {kind}" for kind in kinds[: len(SYMBOLS)]]
    if len(kinds) > len(SYMBOLS):
        parts.append(f"{OTHER} {len(kinds) - len(SYMBOLS)} more kinds")
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1]) + 3 + len(part) > width:
            lines.append("")
        lines[-1] += ("   " if lines[-1] else "") + part
    return lines


# -- figures --------------------------------------------------------------------------------------


def draw(layers: Layers, path: str | Path, *, title: str) -> None:
    """Write the graph, coloured by kind; the suffix of ``path`` (.png or .svg) says the format."""
    check_path(path, "plot", "a picture of the graph")
    from matplotlib.figure import Figure

    wide = int(np.bincount(layers.level, minlength=1).max())
    is_small = len(layers.names) <= MOST_TASKS and wide <= MOST_WIDE and layers.depth <= MOST_DEEP
    size = (
        (min(max(1.1 * wide, 7.0), 20.0), min(max(0.75 * layers.depth + 1.4, 3.0), 16.0))
        if is_small
        else (9.0, 8.0)
    )
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    axes = figure.subplots()
    if is_small:
        _draw_tasks(axes, layers, inches=0.8 * size[0] / max(wide, 1))
    else:
        _draw_levels(axes, layers)
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    handles = _legend(layers, is_small)
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    save(figure, path)


def _legend(layers: Layers, is_small: bool) -> list[Any]:
    from matplotlib.lines import Line2D

    path = [Line2D([], [], color="black", linewidth=1.6, label="critical path")] if is_small else []
    return [*kind_handles(layers.kinds), *path]


def _draw_tasks(axes: Any, layers: Layers, inches: float) -> None:
    """A box per task, level below level, and a line per edge."""
    from matplotlib.collections import LineCollection, PolyCollection

    places = positions(layers)
    after = dict(zip(layers.critical[:-1].tolist(), layers.critical[1:].tolist(), strict=True))
    ends = np.stack([places[layers.sources] + [0, BOX[1]], places[layers.targets] - [0, BOX[1]]], axis=1)
    pairs = zip(layers.sources.tolist(), layers.targets.tolist(), strict=True)
    bold = np.array([after.get(a) == b for a, b in pairs], dtype=np.bool_)
    axes.add_collection(LineCollection(list(ends[~bold]), colors="#AAAAAA", linewidths=0.6, zorder=1))
    axes.add_collection(LineCollection(list(ends[bold]), colors="black", linewidths=1.6, zorder=2))
    corners = places[:, None] + np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]]) * BOX
    kind = np.minimum(layers.kind, MOST_KINDS)
    for k in np.unique(kind).tolist():
        look = kind_look(k)
        boxes = PolyCollection(corners[kind == k], facecolor=look.light, edgecolor="white", zorder=3)
        boxes.set_hatch(HATCHES[look.hatch])
        axes.add_collection(boxes)
        for i in np.flatnonzero(kind == k).tolist():
            _name(axes, layers.names[i], places[i], look, inches)
    half = float(np.abs(places[:, 0]).max(initial=0.0)) + 0.6
    axes.set(xlim=(-half, half), ylim=(max(layers.depth, 1) - 0.5, -0.5), xticks=[], ylabel="level")
    axes.set_yticks(range(layers.depth), [str(k + 1) for k in range(layers.depth)], fontsize=8)
    axes.spines["bottom"].set_visible(False)


def _name(axes: Any, name: str, place: Floats, look: KindLook, inches: float) -> None:
    """The task's name in its box, without its middle where it is too long; none in a tiny box."""
    room = int(inches / 0.075)
    if room < 5:
        return
    if len(name) > room:
        name = f"{name[: room // 2]}…{name[-(room - room // 2 - 1) :]}"
    box = {"facecolor": "white", "alpha": 0.8, "linewidth": 0, "pad": 0.9} if look.hatch else None
    ink = "black" if look.hatch else look.light_ink
    axes.text(*place, name, ha="center", va="center", fontsize=7, color=ink, bbox=box, zorder=4)


def positions(layers: Layers) -> Floats:
    """Place of every task: its level, and beside it in the order of the mean place of its neighbours."""
    x = np.zeros(len(layers.names))
    order = [np.flatnonzero(layers.level == k) for k in range(layers.depth)]
    for members in order:
        x[members] = np.arange(len(members)) - (len(members) - 1) / 2.0
    down, up = (layers.sources, layers.targets), (layers.targets, layers.sources)
    for ends, numbers in (
        (down, range(layers.depth)),
        (up, range(layers.depth)[::-1]),
        (down, range(layers.depth)),
    ):
        for k in numbers:
            _sort(x, order[k], *ends)
    return np.stack([x, layers.level.astype(np.float64)], axis=1)


def _sort(x: Floats, members: Ints, sources: Ints, targets: Ints) -> None:
    """Reorder the ``x`` of one level, in place, by the mean over the neighbours at ``sources``."""
    counts = np.bincount(targets, minlength=len(x))[members]
    sums = np.bincount(targets, x[sources], minlength=len(x))[members]
    means = np.where(counts > 0, sums / np.maximum(counts, 1), x[members])
    x[members[np.lexsort((x[members], means))]] = np.sort(x[members])


def _draw_levels(axes: Any, layers: Layers) -> None:
    """Tasks per level, stacked by kind; levels that share a row are averaged."""
    share = -(-layers.depth // MOST_BANDS)
    band, edges = layers.level // share, np.append(np.arange(0, layers.depth, share), layers.depth) + 0.5
    rows, per_band = len(edges) - 1, np.diff(edges)
    left = np.zeros(rows)
    kind = np.minimum(layers.kind, MOST_KINDS)
    for k in np.unique(kind).tolist():
        right = left + np.bincount(band[kind == k], minlength=rows) / per_band
        look = kind_look(k)
        sides = (np.append(side, side[-1]) for side in (left, right))
        style = {"facecolor": look.light, "hatch": HATCHES[look.hatch], "edgecolor": "white", "linewidth": 0}
        axes.fill_betweenx(edges, *sides, step="post", **style)
        left = right
    axes.set(xlim=(0, left.max() * 1.02), ylim=(edges[-1], edges[0]), ylabel="level")
    axes.set_xlabel("tasks" if share == 1 else f"tasks per level, mean over {share} levels")
