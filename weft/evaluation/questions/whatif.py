"""What a plan would gain or lose on changed machines: one row per change, and per combination of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from weft.errors import WeftError
from weft.evaluation.questions.changes import Change, Devices, apply, label
from weft.model.cluster import Cluster
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.schedulers.base import is_stopped, until_stopped

AS_IS = "as it is"


@dataclass(frozen=True)
class Row:
    """One cluster and the plan made for it; percentages are against the cluster as it is."""

    change: str
    devices: int
    makespan: float
    makespan_change_percent: float | None
    cost: float
    cost_change_percent: float | None
    energy: float
    energy_change_percent: float | None
    utilisation: float
    lower_bound: float
    lower_bound_change_percent: float | None
    gap_percent: float


@dataclass(frozen=True)
class Skipped:
    """A change without a row: one not asked for by name that cannot work, or one that Ctrl-C forestalled."""

    change: str
    reason: str


@dataclass(frozen=True)
class Answer:
    """The cluster as it is first, then one row per change."""

    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...]


def one_of_each(cluster: Cluster) -> list[Devices]:
    """One device more and one fewer of every class the cluster has devices of."""
    names = [cluster.classes[c].name for c in np.unique(cluster.device_class).tolist()]
    return [Devices(name, count) for name in names for count in (1, -1)]


def whatif(
    problem: Problem, changes: Sequence[Change], plan: Callable[[Problem], Schedule], *, each: bool = False
) -> Answer:
    """Plan on the cluster as it is, with each change, and with all of them together.

    Of changes of one aspect, such as two bandwidths, only one at a time is combined with the others.

    Parameters
    ----------
    plan
        Makes the schedule of a problem; the same for all.
    each
        Also try one device more and one fewer of every class; what cannot work is skipped.
    """
    cases = [*((change,) for change in changes), *_together(changes)]
    problems = {label(case): apply(problem, case) for case in cases}
    skipped = []
    for change in one_of_each(problem.cluster) if each else ():
        try:
            problems.setdefault(label((change,)), apply(problem, (change,)))
        except WeftError as error:
            skipped.append(Skipped(str(change), error.message))
    base = plan(problem)
    rows = [_row(AS_IS, base, base)]
    for name, changed in until_stopped(problems.items()):
        made = plan(changed)
        if not is_stopped():  # a search cut short says nothing about the change
            rows.append(_row(name, made, base))
    skipped += [
        Skipped(name, "interrupted before it was planned") for name in list(problems)[len(rows) - 1 :]
    ]
    return Answer(tuple(rows), tuple(skipped))


def _together(changes: Sequence[Change]) -> Iterator[tuple[Change, ...]]:
    """Every combination of all aspects that the changes are about."""
    groups: dict[str, list[Change]] = {}
    for k, change in enumerate(changes):
        groups.setdefault(change.aspect or f"change {k}", []).append(change)
    return product(*groups.values()) if len(groups) > 1 else iter(())


def _row(change: str, plan: Schedule, base: Schedule) -> Row:
    return Row(
        change=change,
        devices=plan.problem.cluster.num_devices,
        makespan=plan.makespan,
        makespan_change_percent=_percent(plan.makespan, base.makespan),
        cost=plan.cost,
        cost_change_percent=_percent(plan.cost, base.cost),
        energy=plan.energy,
        energy_change_percent=_percent(plan.energy, base.energy),
        utilisation=plan.utilisation,
        lower_bound=plan.bound.value,
        lower_bound_change_percent=_percent(plan.bound.value, base.bound.value),
        gap_percent=plan.gap_percent,
    )


def _percent(value: float, base: float) -> float | None:
    return 100.0 * (value / base - 1.0) if base else None
