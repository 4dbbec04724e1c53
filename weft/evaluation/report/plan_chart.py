"""Plans as a chart of a page: what there is no room for is left out, and said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from weft.evaluation.figures.gantt import labels
from weft.evaluation.report.blocks import Gantt, Panel
from weft.evaluation.report.replay import plan_panel
from weft.evaluation.report.sections import capital
from weft.evaluation.report.words import count
from weft.model.graph import Bools, Floats, Ints
from weft.model.schedule import Schedule

MOST_BARS = 30_000
"""Bars in one chart, over all its plans."""
MOST_LANES = 300
LONGEST_NAME = 60


def chart(plans: Mapping[str, Schedule], caption: str = "") -> Gantt:
    """Plans by their titles, below one another on one time axis."""
    kinds = tuple(dict.fromkeys(kind for plan in plans.values() for kind in labels(plan)[0]))
    panels, said = [], [caption] if caption else []
    for title, plan in plans.items():
        panel, left_out = fitted(plan_panel(title, plan, kinds), MOST_BARS // len(plans))
        panels.append(panel)
        if left_out:
            said.append(f"Of {title}, {left_out}" if len(plans) > 1 else capital(left_out))
    unit = next(iter(plans.values())).time_unit
    return Gantt(tuple(panels), kinds, unit, " ".join(said))


def fitted(panel: Panel, most: int) -> tuple[Panel, str]:
    """The panel with as much as there is room for, and what was left out, in words."""
    said = []
    if len(panel.lanes) > MOST_LANES:
        said.append(f"the {MOST_LANES} busiest of {count(len(panel.lanes), 'device')} are drawn.")
        panel = _on_lanes(panel, np.sort(np.argsort(-np.array(panel.busy), kind="stable")[:MOST_LANES]))
    num = len(panel.start)
    if num > most:
        said.append(f"the {most:,} longest of {count(num, 'bar')} are drawn.")
        length: Floats = panel.finish - panel.start
        kept = np.zeros(num, dtype=np.bool_)
        kept[np.argsort(-length, kind="stable")[:most]] = True
        panel = _kept(panel, kept)
    return replace(panel, names=tuple(map(_short, panel.names))), " ".join(said)


def _on_lanes(panel: Panel, chosen: Ints) -> Panel:
    place = np.full(len(panel.lanes), -1)
    place[chosen] = np.arange(len(chosen))
    kept = _kept(panel, place[panel.lane] >= 0)
    lanes, busy = (tuple(column[k] for k in chosen.tolist()) for column in (panel.lanes, panel.busy))
    return replace(kept, lanes=lanes, busy=busy, lane=place[kept.lane])


def _kept(panel: Panel, chosen: Bools) -> Panel:
    """The panel with some of its bars."""
    return replace(
        panel,
        lane=panel.lane[chosen],
        low=panel.low[chosen],
        high=panel.high[chosen],
        start=panel.start[chosen],
        finish=panel.finish[chosen],
        kind=panel.kind[chosen],
        is_copy=panel.is_copy[chosen],
        names=tuple(panel.names[k] for k in np.flatnonzero(chosen).tolist()) if panel.names else (),
        size=panel.size[chosen],
    )


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
