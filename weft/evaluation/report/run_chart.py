"""A run as a chart of a page: planned and actual below one another on one time axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weft.evaluation.executed import Executed
from weft.evaluation.executed.records import FINISHED, Key
from weft.evaluation.report.blocks import Gantt, Panel
from weft.evaluation.report.plan_chart import MOST_BARS, fitted
from weft.model.graph import Floats
from weft.wording import number

BADLY = "failed, lost or cut off"


class _Bar(NamedTuple):
    device: int
    start: float
    finish: float
    kind: int
    name: str


def run_chart(run: Executed) -> Gantt:
    """What was planned first, where there is a plan, and what happened."""
    kinds = list(dict.fromkeys(_kind(task.kind) for task in run.tasks))
    of = {(task.job, task.task): kinds.index(_kind(task.kind)) for task in run.tasks}
    has_bad = any(one.started is not None and one.outcome != FINISHED for one in run.attempts)
    kinds += [BADLY] if has_bad else []
    planned, actual = _planned(run, of), _actual(run, of, len(kinds) - 1)
    unit = run.time_unit
    panels, said = [], []
    titles = {"planned": (planned, run.planned_makespan), "actual": (actual, run.makespan)}
    for title, (bars, makespan) in titles.items():
        if bars:
            length = "" if makespan is None else f": makespan {number(makespan, 5)} {unit}"
            panel, left_out = fitted(_panel(run, f"{title}{length}", bars), MOST_BARS // 2)
            panels.append(panel)
            said += [f"Of what was {title}, {left_out}"] if left_out else []
    both = "Both on one time axis; planned as it was when jobs arrived." if planned else ""
    return Gantt(tuple(panels), tuple(kinds), unit, " ".join([both, *said]).strip())


def _kind(name: str) -> str:
    return name or "task"


def _planned(run: Executed, kind: dict[Key, int]) -> list[_Bar]:
    number_of = {worker.name: k for k, worker in enumerate(run.workers)}
    return [
        _Bar(
            number_of[task.planned.device],
            task.planned.start,
            task.planned.finish,
            kind[task.job, task.task],
            _name(run, task.job, task.task),
        )
        for task in run.tasks
        if task.planned is not None and task.planned.device in number_of
    ]


def _actual(run: Executed, kind: dict[Key, int], badly: int) -> list[_Bar]:
    number_of = {worker.name: k for k, worker in enumerate(run.workers)}
    bars = []
    for one in run.attempts:
        if one.started is not None and one.ended is not None and one.device in number_of:
            own = kind[one.key] if one.outcome == FINISHED else badly
            again = f" (attempt {one.number})" if one.number > 1 else ""
            name = f"{_name(run, one.job, one.task)}{again}"
            bars.append(_Bar(number_of[one.device], one.started, one.ended, own, name))
    return bars


def _name(run: Executed, job: str | int, task: str) -> str:
    return task if len(run.jobs) == 1 else f"{job}/{task}"


def _panel(run: Executed, title: str, bars: Sequence[_Bar]) -> Panel:
    bars = sorted(bars)
    place, depth = _places(run, bars)
    device = np.array([bar.device for bar in bars], dtype=np.int64)
    start, finish = (np.array([bar[k] for bar in bars]) for k in (1, 2))
    span = max(float(finish.max(initial=0.0)) - run.begin, 1e-300)
    slots = np.array([worker.slots for worker in run.workers])
    busy = np.bincount(device, finish - start, minlength=len(slots)) / (slots * span)
    return Panel(
        title=title,
        lanes=tuple(worker.name for worker in run.workers),
        lane=device,
        low=place / depth[device],
        high=(place + 1) / depth[device],
        start=start,
        finish=finish,
        kind=np.array([bar.kind for bar in bars], dtype=np.int64),
        is_copy=np.zeros(len(bars), np.int64),
        names=tuple(bar.name for bar in bars),
        size=np.ones(len(bars), np.int64),
        busy=tuple(np.minimum(busy, 1.0).tolist()),
    )


def _places(run: Executed, bars: Sequence[_Bar]) -> tuple[Floats, Floats]:
    """The slot in which each bar is drawn, (num_bars,), and how many its device has, (num_devices,)."""
    free: list[list[float]] = [[-np.inf] * worker.slots for worker in run.workers]
    place = np.zeros(len(bars))
    for k, bar in enumerate(bars):
        own = free[bar.device]
        slot = next((s for s, until in enumerate(own) if until <= bar.start + 1e-9), len(own))
        if slot == len(own):
            own.append(-np.inf)
        own[slot] = bar.finish
        place[k] = slot
    return place, np.array([len(own) for own in free], dtype=np.float64)
