"""The sections that only sweeps of allocators have: the bound, use, types per cluster, tasks alive over time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.errors import WeftError
from weft.evaluation.report.blocks import Block, Figure, Figures, Section, Table, Text
from weft.evaluation.report.cluster_chart import alive_chart
from weft.evaluation.report.plans import Notice, find_instance, typical, where_is
from weft.evaluation.report.replay import doubt
from weft.evaluation.report.replay_clusters import Episode, episode
from weft.evaluation.report.sections import SMALL, axes_over, lines_over, matrix, place_of
from weft.evaluation.report.svg import bar_chart, legend_of, line_chart
from weft.evaluation.report.words import words
from weft.evaluation.sweep.elastic_runs import mean_bound
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.pairing import Sample
from weft.wording import number

_USE = "_use"
"""How the figures of resources end."""
_ON = " on "
"""Between type and cluster in the figures of rows."""
_MOST_ALIVE = 3
"""Samples whose tasks alive are drawn."""


def clusters(swept: Evaluation) -> list[Section | None]:
    """How busy clusters are, and which tasks each took."""
    return [_use(swept), _types(swept)]


def bound(swept: Evaluation) -> Section:
    """Mean completion time without contention, and how far above it everybody is."""
    least = {cell.label: number(mean_bound(swept, cell.label), 4) for cell in swept.cells}
    lead = (
        "The no-contention bound is the mean completion time if every task had a cluster of its own, with the units "
        "that gain it the most in each step."
    )
    caption = "Mean completion time above the no-contention bound (%)"
    if swept.varied:
        caption += "; the bound stands behind the point"
        places = [f"{place_of(swept, cell)}: {least[cell.label]}" for cell in swept.cells]
    else:
        lead += f" Here it is {least[swept.cells[0].label]} steps."
        places = [place_of(swept, swept.cells[0])]
    lines = [[place, *_above(swept, cell.label)] for place, cell in zip(places, swept.cells, strict=True)]
    table = matrix(swept, lines, caption, [])
    return Section(f"{swept.title}: the no-contention bound", (Text((lead,)), table), level=3)


def _above(swept: Evaluation, cell: str) -> list[str]:
    """The mean distance of every scheduler, in percent."""
    found = [np.mean([row["gap_percent"] for row in swept.rows_of(cell, name)]) for name in swept.schedulers]
    return [f"{gap:.1f}" for gap in found]


def _use(swept: Evaluation) -> Section | None:
    """Share of the units of each resource that was given, over the swept setting or as bars."""
    shown = [name for name in swept.metrics if name.endswith(_USE) and not swept.is_idle(name)]
    if not shown:
        return None
    text = "Share of the units of all clusters that tasks had, over whole episodes, mean over samples."
    drawn = _use_lines(swept, shown, text) if swept.setting else _use_bars(swept, shown, text)
    return Section(f"{swept.title}: use of the clusters", (drawn,))


def _use_lines(swept: Evaluation, shown: list[str], text: str) -> Figures:
    """One small drawing per resource."""
    drawn = []
    for metric in shown:
        at = {
            (cell.label, name): (100.0 * swept.sum_up(metric, cell.label, name).mean,)
            for cell in swept.cells
            for name in swept.schedulers
        }
        series = lines_over(swept, swept.schedulers, lambda *place, own=at: own[place])
        size = {"width": SMALL[0], "height": SMALL[1]}
        axes = axes_over(swept, f"{words(metric)} (%)", **size, y_range=(0.0, 104.0), has_legend=False)
        drawn.append(line_chart(series, axes))
    return Figures(tuple(drawn), text, text, _legend(swept, swept.schedulers))


def _use_bars(swept: Evaluation, shown: list[str], text: str) -> Figure:
    cell = swept.cells[len(swept.cells) // 2].label
    groups = [
        (
            metric.removesuffix(_USE).upper(),
            [swept.sum_up(metric, cell, name).mean for name in swept.schedulers],
        )
        for metric in shown
    ]
    names = [(swept.shown(name), swept.look(name)) for name in swept.schedulers]
    drawn = bar_chart(groups, names, "share in use")
    return Figure(drawn, f"{cell}: {text}" if cell else text, "Use of the clusters")


def _legend(swept: Evaluation, names: tuple[str, ...]) -> str:
    return legend_of([(swept.shown(name), swept.look(name)) for name in names])


def _types(swept: Evaluation) -> Section | None:
    """How many tasks of each type every cluster took, at the point in the middle."""
    cell = swept.cells[len(swept.cells) // 2].label
    found = {name: _taken(swept, cell, name) for name in swept.schedulers}
    keys = list(next(iter(found.values())))
    if not keys:
        return None
    kinds, places = (list(dict.fromkeys(key[k] for key in keys)) for k in (0, 1))
    rows = tuple(
        (swept.shown(name), *(_counts(taken, kinds, place) for place in places))
        for name, taken in found.items()
    )
    caption = f"Tasks that each cluster took, {' / '.join(kinds)}{f', at {cell}' if cell else ''}, mean over samples"
    table = Table(("scheduler", *places), rows, tuple(range(1, len(places) + 1)), caption)
    return Section(f"{swept.title}: task types per cluster", (table,))


def _counts(taken: Mapping[tuple[str, str], float], kinds: list[str], place: str) -> str:
    return " / ".join(number(taken.get((kind, place), np.nan), 3) for kind in kinds)


def _taken(swept: Evaluation, cell: str, name: str) -> dict[tuple[str, str], float]:
    """Type, cluster -> tasks, the mean over rows."""
    rows = swept.rows_of(cell, name)
    keys = [key for key in rows[0].more if _ON in key] if rows else []
    split = {key: (key.rpartition(_ON)[0], key.rpartition(_ON)[2]) for key in keys}
    return {split[key]: float(np.mean([row[key] for row in rows])) for key in keys}


def alive(swept: Evaluation, chosen: str, wanted: str | None, notice: Notice) -> Section | None:
    """Tasks alive over time, of a few samples: the one asked for, else a quick, a typical and a slow one."""
    if swept.asked is None:
        return None
    named = None if wanted is None else find_instance(swept, wanted)
    cell, samples = (named[0], [named[1]]) if named else _spread(swept, chosen)
    notice(f"drawing {swept.title}: tasks alive")
    names = tuple(swept.runs_of(name)[0] for name in swept.schedulers)
    try:
        found = [episode(swept, cell, sample, names) for sample in samples]
        blocks: tuple[Block, ...] = (_alive_charts(swept, cell, found),)
    except WeftError as error:
        blocks = (Text((f"Not drawn: {error}.",)),)
    return Section(f"{swept.title}: tasks alive over time", blocks)


def _spread(swept: Evaluation, chosen: str) -> tuple[str, list[Sample]]:
    """In the middle cell, the samples on which the chosen scheduler is quickest, typical and slowest."""
    cell, middle = typical(swept, chosen)
    costs = swept.costs(cell, chosen)
    own = swept.samples[cell]
    return cell, list(dict.fromkeys([own[int(costs.argmin())], middle, own[int(costs.argmax())]]))[
        :_MOST_ALIVE
    ]


def _alive_charts(swept: Evaluation, cell: str, found: list[Episode]) -> Figures:
    """One drawing per sample, all schedulers in each."""
    drawn = []
    for one in found:
        runs = [
            (swept.shown(n), run, swept.look(n)) for n, run in zip(swept.schedulers, one.runs, strict=True)
        ]
        drawn.append(alive_chart(runs, has_legend=False, size=SMALL))
    which = ", ".join(where_is(cell, one.sample) for one in found)
    text = f"Tasks that have arrived and not ended, one drawing per sample: {which}{doubt(all(one.is_same for one in found))}"
    return Figures(tuple(drawn), f"{text}.", "Tasks alive over time", _legend(swept, swept.schedulers))
