"""The trade between makespan, cost and energy: plans on parts of a cluster that nothing else beats.

Parts are chosen by the number of devices of each class, 0, 1, 2, 4, ... up to all of them; devices
left out are taken to be switched off and unpaid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InputError, MissingExtra, WeftError
from weft.evaluation.figures.gantt import save
from weft.evaluation.questions.changes import device_counts, keep
from weft.model.graph import Bools, Floats
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.schedulers.base import until_stopped

ALL_COLOUR, BEST_COLOUR, MARK_COLOUR = "#BBBBBB", "#0072B2", "#D55E00"
"""Grey, and Okabe and Ito's blue and vermilion: told apart with any colour vision."""

Counts = tuple[int, ...]


@dataclass(frozen=True)
class Point:
    """One plan on one part of the cluster."""

    devices: Mapping[str, int]
    """Devices per class; classes without any are left out."""
    scheduler: str
    makespan: float
    cost: float
    energy: float

    @property
    def label(self) -> str:
        """The devices as a person reads them."""
        return ", ".join(f"{count} {name}" for name, count in self.devices.items())

    @property
    def objectives(self) -> tuple[float, float, float]:
        """What is traded: makespan, cost, energy."""
        return self.makespan, self.cost, self.energy


@dataclass(frozen=True)
class Exploration:
    """All plans that were made, and which are best."""

    points: tuple[Point, ...]
    num_clusters: int
    """Parts of the cluster that were tried."""
    num_possible: int
    """Parts on the whole grid."""
    num_infeasible: int
    """Tried parts on which some task can run nowhere."""
    skipped: Mapping[str, str]
    """Scheduler -> why it made no plan."""
    time_unit: str = "s"

    @property
    def best(self) -> tuple[Point, ...]:
        """The plans nothing beats, by makespan; of equal ones the first."""
        table = np.array([point.objectives for point in self.points]).reshape(-1, 3)
        first: dict[tuple[float, float, float], Point] = {}
        for i in np.flatnonzero(front(table)).tolist():
            first.setdefault(self.points[i].objectives, self.points[i])
        return tuple(sorted(first.values(), key=lambda point: point.objectives))


def front(points: Floats) -> Bools:
    """Which rows nothing beats: no other is as small in every column and smaller in one."""
    order = np.lexsort(points.T[::-1]) if points.size else np.arange(len(points))
    best = np.zeros(len(points), dtype=np.bool_)
    kept = np.empty((0, points.shape[1]))
    for i in order.tolist():
        beaten = (kept <= points[i]).all(axis=1) & (kept < points[i]).any(axis=1)
        if not beaten.any():
            best[i] = True
            kept = np.vstack([kept, points[i]])
    return best


def grid(count: int) -> list[int]:
    """0, 1, 2, 4, ... and the count itself."""
    powers = [2**k for k in range(count.bit_length()) if 2**k < count]
    return [0, *powers, count] if count else [0]


def parts(counts: Sequence[int], most: int, seed: int = 0) -> tuple[list[Counts], int]:
    """At most ``most`` combinations of the grids, and how many there are without the empty one.

    All of them in order where they are few enough; else the whole, then each class alone, then
    random ones drawn with the seed.
    """
    if most < 1:
        raise InputError(f"expected a number >= 1, got {most}", field="most")
    grids = [grid(count) for count in counts]
    possible = prod(len(values) for values in grids) - 1
    if possible <= most:
        return [chosen for chosen in product(*grids) if any(chosen)], possible
    rng = np.random.default_rng(seed)
    alone = [tuple(n if c == k else 0 for k, n in enumerate(counts)) for c in range(len(counts)) if counts[c]]
    chosen = dict.fromkeys([tuple(counts), *alone])
    for _ in range(20 * most):
        if len(chosen) >= most:
            break
        drawn = tuple(values[int(rng.integers(len(values)))] for values in grids)
        if any(drawn):
            chosen[drawn] = None
    return list(islice(chosen, most)), possible


def explore(
    problem: Problem,
    schedulers: Sequence[str],
    plan: Callable[[Problem, str], Schedule],
    *,
    most: int = 400,
    seed: int = 0,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> Exploration:
    """Plan with every scheduler on many parts of the cluster.

    Parameters
    ----------
    plan
        Makes the schedule of a problem with the scheduler of this name.
    most
        Largest number of plans, over all schedulers.
    tell
        Called before every plan with how many are done and how many there will be.
    """
    if not schedulers:
        raise InputError("expected at least one scheduler, got none", field="scheduler")
    chosen, possible = parts(device_counts(problem.cluster), max(1, most // len(schedulers)), seed)
    problems = {counts: _part(problem, counts) for counts in chosen}
    feasible = {counts: part for counts, part in problems.items() if part is not None}
    points: list[Point] = []
    skipped: dict[str, str] = {}
    total = len(feasible) * len(schedulers)
    reached: set[Counts] = set()
    for k, (counts, name) in until_stopped(enumerate(product(feasible, schedulers))):
        tell(k, total)
        reached.add(counts)
        try:
            points.append(_point(plan(feasible[counts], name), name))
        except InputError as error:
            skipped.setdefault(name, error.message.removeprefix(f"{name}: "))
    unit, infeasible = problem.jobs[0].graph.time_unit, len(chosen) - len(feasible)
    return Exploration(tuple(points), len(reached) + infeasible, possible, infeasible, skipped, unit)


def _part(problem: Problem, counts: Counts) -> Problem | None:
    """The problem on a part of its cluster; None where some task can run nowhere."""
    try:
        return problem.replaced(cluster=keep(problem.cluster, counts))
    except WeftError:
        return None


def _point(plan: Schedule, scheduler: str) -> Point:
    cluster = plan.problem.cluster
    counts = zip(cluster.classes, device_counts(cluster), strict=True)
    devices = {device_class.name: count for device_class, count in counts if count}
    return Point(devices, scheduler, plan.makespan, plan.cost, plan.energy)


def draw(found: Exploration, path: str | Path, *, title: str = "") -> None:
    """Write makespan against cost and against energy; the suffix (.png or .svg) says the format."""
    if Path(path).suffix.lower() not in (".png", ".svg"):
        raise InputError(f"expected a path that ends in .png or .svg, got {str(path)!r}", field="plot")
    if not found.points:
        raise InputError("nothing to draw: no plan was made", field="plot")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot", "a chart of the Pareto front") from None
    figure = Figure(figsize=(11.0, 4.8), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True)
    _panel(left, found, "cost", "cost (currency of the prices)", "cheapest")
    _panel(right, found, "energy", "energy", "least energy")
    figure.suptitle(title or "Pareto front of makespan, cost and energy", fontsize=11)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    save(figure, path)


def _panel(ax: Any, found: Exploration, name: str, label: str, least: str) -> None:
    """All plans, the best ones, and the line below which no plan was found."""
    scale, unit = _scale(found) if name == "energy" else (1.0, "")
    table = np.array([(point.makespan, getattr(point, name) * scale) for point in found.points])
    best = np.array([(point.makespan, getattr(point, name) * scale) for point in found.best])
    edge = table[front(table)]
    edge = edge[np.argsort(edge[:, 0], kind="stable")]
    ax.plot(*table.T, "o", color=ALL_COLOUR, markersize=4, label="beaten by another plan", zorder=1)
    ax.step(
        *edge.T, where="post", color=MARK_COLOUR, linewidth=1.2, label="best of these two alone", zorder=2
    )
    ax.plot(*best.T, "D", color=BEST_COLOUR, markersize=4.5, label="beaten by none", zorder=3)
    if 0 < 4.0 * table[:, 0].min() < table[:, 0].max():
        _logarithmic(ax)
    fastest = min(found.best, key=lambda point: point.makespan)
    lowest = min(found.best, key=lambda point: (getattr(point, name), point.makespan))
    _mark(ax, (fastest.makespan, getattr(fastest, name) * scale), f"fastest: {fastest.label}", True)
    _mark(ax, (lowest.makespan, getattr(lowest, name) * scale), f"{least}: {lowest.label}", False)
    ax.set_xlabel(f"makespan ({found.time_unit})")
    ax.set_ylabel(f"{label} ({unit})" if unit else label)
    ax.margins(0.08, 0.15)
    ax.spines[["top", "right"]].set_visible(False)


def _scale(found: Exploration) -> tuple[float, str]:
    """Factor and unit in which energies are short numbers."""
    most = max(point.energy for point in found.points)
    return next(
        ((1.0 / size, unit) for size, unit in ((1e9, "GJ"), (1e6, "MJ"), (1e3, "kJ")) if most >= size),
        (1.0, "J"),
    )


def _logarithmic(ax: Any) -> None:
    """Makespans that differ by a large factor, with plain numbers below."""
    from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(10.0, (1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_formatter(NullFormatter())


def _mark(ax: Any, at: tuple[float, float], text: str, is_high: bool) -> None:
    """A text in the upper left or lower right of the panel, with a line to its point."""
    ax.annotate(
        text,
        at,
        xytext=(0.03 if is_high else 0.97, 0.98 if is_high else 0.04),
        textcoords="axes fraction",
        ha="left" if is_high else "right",
        va="top" if is_high else "bottom",
        fontsize=8,
        arrowprops={"arrowstyle": "-", "color": "black", "linewidth": 0.6, "shrinkB": 4},
    )
