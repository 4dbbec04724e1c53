"""Driver-assistance pipelines on small boards: chains of stages that are released periodically.

``adas-tx2`` follows the WATERS 2019 challenge on a Jetson TX2 (4 A57 cores, 2 Denver cores, a GPU); run times of
detection on CPUs, shares of stages and sizes of transfers are assumed. ``odroid4`` has two kinds of small nets on the CPU
and the GPU of an Odroid XU4; the sums of their kernels were measured, apart and all
fused, how they divide is assumed; a kernel that follows another within one launch saves as much as the setting ``fused`` does. Times are in ms.

Every combination of the periods of its pipelines is a configuration, numbered with the last pipeline changing fastest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import InputError
from weft.model.cluster import Cluster, DeviceClass
from weft.model.draws import MODES, keyed_uniform
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Objective, Problem

if TYPE_CHECKING:
    from weft.scenarios.scenario import Scenario

MB = 1e6
IMAGE, FEATURES, BOXES = 3 * MB, 1 * MB, 0.05 * MB
"""Bytes that a stage hands on: a picture, what lies between two layers, results."""
CROSSING, RATE = 0.05e-3, 8e9
"""Seconds and bytes per second from CPU to GPU and back."""
NONE = math.nan
"""Run time of a stage on a class that cannot run it."""

Times = tuple[float, ...]
"""Run time on every class of the board; NONE: it cannot run there."""


@dataclass(frozen=True)
class Pipeline:
    """A chain of stages and the periods it may be released with."""

    name: str
    stages: tuple[tuple[str, Times, float], ...]
    """Name, run times and bytes handed on of every stage."""
    periods: tuple[float, ...]
    """What a configuration chooses from; one: it is the same in all."""
    saved: Times = ()
    """On every class, what each stage but the first saves where it follows the one before within a launch; none: it cannot."""

    def graph(self, classes: Sequence[str]) -> TaskGraph:
        """The chain as a task graph."""
        num = len(self.stages)
        kinds = [f"{self.name.rstrip('2')}-{name.rstrip('0123456789')}" for name, _, _ in self.stages]
        known = tuple(dict.fromkeys(kinds))
        return TaskGraph(
            np.full(num, NONE),
            np.arange(num - 1),
            np.arange(1, num),
            [data for _, _, data in self.stages[:-1]],
            names=[name for name, _, _ in self.stages],
            kinds=known,
            kind=[known.index(kind) for kind in kinds],
            classes=tuple(classes),
            times=[times for _, times, _ in self.stages],
            saved=self._shares(),
            name=self.name,
            time_unit="ms",
        )

    def _shares(self) -> list[list[float]] | None:
        """What is saved within a launch, as shares of run times; None: nothing is."""
        if not self.saved:
            return None
        rows = [
            [less / one for less, one in zip(self.saved, times, strict=True)] for _, times, _ in self.stages
        ]
        return [[0.0] * len(self.saved), *rows[1:]]


@dataclass(frozen=True)
class Board:
    """Classes of cores and the pipelines that run on them."""

    classes: tuple[tuple[str, int], ...]
    """Name and number of cores of every class; the last one is across the link."""
    pipelines: tuple[Pipeline, ...]

    @property
    def chosen(self) -> tuple[Pipeline, ...]:
        """Pipelines whose period a configuration chooses."""
        return tuple(one for one in self.pipelines if len(one.periods) > 1)

    @property
    def num_configurations(self) -> int:
        """How many combinations of periods there are."""
        return math.prod(len(one.periods) for one in self.chosen)

    def periods(self, configuration: int) -> dict[str, float]:
        """The period of every pipeline in a configuration."""
        sizes = [len(one.periods) for one in self.chosen]
        digits = np.unravel_index(configuration, sizes)
        found = {one.name: one.periods[int(k)] for one, k in zip(self.chosen, digits, strict=True)}
        return {one.name: found.get(one.name, one.periods[0]) for one in self.pipelines}

    def cluster(self, name: str) -> Cluster:
        """The board as a cluster: cores share memory, the last class is reached over a link."""
        counts = [count for _, count in self.classes]
        device_class = np.repeat(np.arange(len(counts)), counts)
        group = (device_class == len(counts) - 1).astype(np.int32)
        return Cluster(
            tuple(DeviceClass(one) for one, _ in self.classes),
            device_class.astype(np.int32),
            np.zeros(len(device_class), np.int32),
            group,
            np.array([[0.0, CROSSING], [CROSSING, 0.0]]),
            np.array([[math.inf, RATE], [RATE, math.inf]]),
            name=name,
        )


# -- Jetson TX2 --------------------------------------------------------------------------------------

_KERNELS: dict[str, tuple[Times, Times, Times, tuple[float, ...]]] = {
    "lane": ((3.59, 3.28), (49.3, 40.0, 26.5), (3.78, 3.70), (50.0, 66.0, 100.0)),
    "detect": ((3.46, 2.93), (385.0, 330.0, 110.0), (0.92, 0.71), (150.0, 200.0, 300.0)),
    "sfm": ((3.49, 2.88), (26.9, 24.8, 7.2), (3.61, 3.18), (25.0, 33.0, 50.0)),
    "loc": ((5.54, 4.62), (377.0, 281.0, 120.0), (5.30, 4.20), (300.0, 400.0, 600.0)),
}
"""Of the pipelines that can use the GPU: before, kernel and after on A57, Denver and GPU, and periods."""
_CONTROL = {"ekf": (4.40, 4.20, 15.0), "planner": (11.37, 10.14, 15.0), "dasm": (1.61, 1.20, 5.0), "can": (0.50, 0.50, 10.0)}  # fmt: skip
_SHARES = {"lane": (0.35, 0.40, 0.25), "sfm": (0.5, 0.5)}
"""How the kernels fall into groups; those of the other pipelines are equal."""


def _kernel_pipeline(name: str, number: int, groups: int) -> Pipeline:
    before, kernel, after, periods = _KERNELS[name]
    shares = _SHARES.get(name, (1.0 / groups,) * groups)
    middle = [
        (f"group{k}", tuple(share * one for one in kernel), FEATURES if k + 1 < len(shares) else BOXES)
        for k, share in enumerate(shares)
    ]
    stages = (("pre", (*before, NONE), IMAGE), *middle, ("post", (*after, NONE), 0.0))
    return Pipeline(name if number == 1 else f"{name}{number}", stages, periods)


def _one_stage(name: str, slow: float, fast: float, period: float) -> Pipeline:
    return Pipeline(name, ((name, (slow, fast, NONE), 0.0),), (period,))


@cache
def tx2(groups: int, cameras: int, *, control: bool, fusion: float) -> Board:
    """The board with its pipelines; ``fusion`` is the period of what fuses them, 0: nothing does."""
    found = [_kernel_pipeline(name, k + 1, groups) for k in range(cameras) for name in _KERNELS]
    found.append(_one_stage("lidar", 11.8, 10.2, 33.0))
    if fusion:
        found.append(_one_stage("fusion", 11.4, 10.1, fusion))
    if control:
        found += [_one_stage(name, slow, fast, period) for name, (slow, fast, period) in _CONTROL.items()]
    return Board((("a57", 4), ("denver", 2), ("gpu", 1)), tuple(found))


# -- Odroid XU4 --------------------------------------------------------------------------------------

_NETS = {"yolo": (12, (20.0, 8.4), (14.1, 8.1), (60.0, 90.0, 120.0)), "lenet": (9, (38.4, 17.1), (25.9, 16.1), (100.0, 150.0, 250.0))}  # fmt: skip
"""Kernels, their run times together on CPU and GPU, the same with all of them fused, and periods."""
_CONVOLUTION = 3.0
"""A convolution, which every other kernel is, takes so many times as long as what follows it."""


@cache
def odroid(speed: float, fused: int = 1) -> Board:
    """Two nets of either kind; run times are multiplied by ``speed``, and ``fused`` kernels in a row make a stage."""
    found = []
    for name, (num, apart, together, periods) in _NETS.items():
        weight = np.where(np.arange(num) % 2 == 0, _CONVOLUTION, 1.0)
        share = (weight / weight.sum() * speed).tolist()
        saved = [speed * (sum_ - one) / (num - 1) for sum_, one in zip(apart, together, strict=True)]
        stages = tuple(_fused(share[k : k + fused], k, apart, saved) for k in range(0, num, fused))
        found += [Pipeline(f"{name}{k}", stages, periods, tuple(saved)) for k in (1, 2)]
    return Board((("cpu", 1), ("gpu", 1)), tuple(found))


def _fused(
    parts: Sequence[float], first: int, apart: Times, saved: Sequence[float]
) -> tuple[str, Times, float]:
    """A stage of kernels in a row: from each to the next it saves the same, as one launch and one pass over memory."""
    if len(parts) == 1:
        return f"kernel{first}", tuple(one * parts[0] for one in apart), BOXES
    times = (one * sum(parts) - less * (len(parts) - 1) for one, less in zip(apart, saved, strict=True))
    return f"fused{first}", tuple(times), BOXES


# -- problems ----------------------------------------------------------------------------------------


def board_of(chosen: Scenario) -> Board:
    """The board of a scenario under its settings."""
    settings = chosen.settings
    if "speed" in settings:
        return odroid(chosen.number("speed"), chosen.whole("fused") if "fused" in settings else 1)
    has_control = bool(chosen.whole("control"))
    return tx2(
        chosen.whole("groups"), chosen.whole("cameras"), control=has_control, fusion=chosen.number("fusion")
    )


def count_configurations(chosen: Scenario) -> int:
    """How many problems every split has: all configurations, or the one that is set."""
    is_one = chosen.whole("configuration") >= 0 or chosen.settings["periods"]
    return 1 if is_one else board_of(chosen).num_configurations


LEAST_PERIOD = 1.0
"""Shorter periods, in ms, would release without end."""


def periods_of(chosen: Scenario, index: int) -> dict[str, float]:
    """The period of every pipeline at this index of a split."""
    board, text, number = board_of(chosen), str(chosen.settings["periods"]), chosen.whole("configuration")
    if text:
        return _written(board, text)
    if number >= board.num_configurations:
        raise InputError(
            f"expected a number below {board.num_configurations}, got {number}",
            field="settings.configuration",
        )
    return board.periods(number if number >= 0 else index)


def _written(board: Board, text: str) -> dict[str, float]:
    """Periods as text: ``50/150/25/300``."""
    names = [one.name for one in board.chosen]
    parts = text.split("/")
    try:
        values = [float(part) for part in parts]
    except ValueError:
        values = []
    if len(values) != len(names) or not all(LEAST_PERIOD <= value < math.inf for value in values):
        expected = f"{len(names)} numbers of at least {LEAST_PERIOD:g} ms for {', '.join(names)}, such as 50/150/25/300"
        raise InputError(f"expected {expected}, got {text!r}", field="settings.periods")
    return board.periods(0) | dict(zip(names, values, strict=True))


def pipeline_problem(chosen: Scenario, split: str, index: int) -> Problem:
    """All releases of all pipelines up to the horizon."""
    board = board_of(chosen)
    horizon = chosen.number("horizon")
    modes = [(0.0, periods_of(chosen, index))]
    _refuse_short(horizon, min(modes[0][1][one.name] for one in board.pipelines))
    for k in range(1, chosen.whole("switches") + 1):
        level = float(keyed_uniform(chosen.generator_seed(split, index), MODES, k))
        number = int(level * board.num_configurations)
        modes.append((horizon * k / (chosen.whole("switches") + 1), board.periods(number)))
    classes = [name for name, _ in board.classes]
    jobs = [
        Job(
            graph,
            f"{one.name}#{k}",
            release=release,
            deadline=period,
            series=one.name,
            interval=period,
            overrun=str(chosen.settings["overrun"]),
            in_order=bool(chosen.whole("order")),
        )
        for one in board.pipelines
        for graph in (one.graph(classes),)
        for k, (release, period) in enumerate(_releases(one.name, modes, horizon))
    ]
    return Problem(
        jobs,
        board.cluster(chosen.name),
        Objective(chosen.recipe.metric, copies=False),
        chosen.number("noise"),
        noise_law=str(chosen.settings["law"]),
        horizon=horizon,
    )


def _refuse_short(horizon: float, first_due: float) -> None:
    """Without a deadline that counts there is nothing to be judged by."""
    if horizon < first_due:
        raise InputError(
            f"expected at least {first_due:g} ms, the shortest deadline: none lies within the horizon, got {horizon:g}",
            field="settings.horizon",
        )


def _releases(
    name: str, modes: Sequence[tuple[float, Mapping[str, float]]], horizon: float
) -> list[tuple[float, float]]:
    """Releases of a pipeline with the period that holds at each; a switch counts from the next release on."""
    found: list[tuple[float, float]] = []
    last, place, start, period = 0.0, 0, 0.0, modes[0][1][name]
    while last < horizon:
        found.append((last, period))
        place += 1
        now = max((mode for mode in modes if mode[0] <= last + period), key=lambda mode: mode[0])[1][name]
        if now != period:
            start, place, last = last + period, 0, last + period
            period = now
        else:
            last = start + place * period  # no rounding adds up
    return found
