"""What a plan would gain or lose on a changed cluster: more or fewer devices of some classes.

Devices leave from the end of their class. A new device is a node of its own, linked to every other
as the last device of its class is linked to other nodes (the last lone one where there is one; in
a cluster of one node, as inside it). A class the cluster does not have is linked like the last device.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from weft.errors import InfeasibleError, InputError, WeftError
from weft.io.clusters import builtin_cluster, builtin_clusters
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import Problem
from weft.model.schedule import Schedule

AS_IS = "as it is"
MOST_ADDED = 10_000


@dataclass(frozen=True)
class Change:
    """Devices of one class more, or fewer where ``count`` is negative."""

    class_name: str
    count: int

    def __str__(self) -> str:
        return f"{self.count:+d} {self.class_name}"


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
    """A change not asked for by name that leaves no way to run everything."""

    change: str
    reason: str


@dataclass(frozen=True)
class Answer:
    """The cluster as it is first, then one row per change."""

    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...]


def parse_change(text: str, sign: int, field: str) -> Change:
    """A change from ``class=count``; ``sign`` is 1 for more devices and -1 for fewer."""
    name, equals, count = text.rpartition("=")
    is_whole = count.strip().isascii() and count.strip().isdigit() and len(count.strip()) < 10
    if not equals or not name.strip() or not is_whole or not 1 <= int(count) <= MOST_ADDED:
        raise InputError(
            f"expected CLASS=COUNT such as a100=1 (at most {MOST_ADDED}), got {text!r}", field=field
        )
    return Change(name.strip(), sign * int(count))


def one_of_each(cluster: Cluster) -> list[Change]:
    """One device more and one fewer of every class the cluster has devices of."""
    names = [cluster.classes[c].name for c in np.unique(cluster.device_class).tolist()]
    return [Change(name, count) for name in names for count in (1, -1)]


def whatif(
    problem: Problem, changes: Sequence[Change], plan: Callable[[Problem], Schedule], *, each: bool = False
) -> Answer:
    """Plan on the cluster as it is, with each change, and with all of them together.

    Parameters
    ----------
    plan
        Makes the schedule of a problem; the same for all.
    each
        Also try one device more and one fewer of every class; what cannot work is skipped.
    """
    cases: list[tuple[Change, ...]] = [(change,) for change in changes]
    if len(changes) > 1:
        cases.append(tuple(changes))
    problems = {label(case): apply(problem, case) for case in cases}
    skipped = []
    for change in one_of_each(problem.cluster) if each else ():
        try:
            problems.setdefault(label((change,)), apply(problem, (change,)))
        except WeftError as error:
            skipped.append(Skipped(str(change), error.message))
    base = plan(problem)
    rows = [_row(AS_IS, base, base)]
    rows += [_row(name, plan(changed), base) for name, changed in problems.items()]
    return Answer(tuple(rows), tuple(skipped))


def label(changes: Sequence[Change]) -> str:
    """Changes as a person reads them."""
    return ", ".join(str(change) for change in changes)


def apply(problem: Problem, changes: Sequence[Change]) -> Problem:
    """The problem on the changed cluster; an error names the change."""
    cluster = problem.cluster
    try:
        for change in changes:
            cluster = _with(cluster, change) if change.count > 0 else _without(cluster, change)
        return problem.replaced(cluster=cluster)
    except WeftError as error:
        error.message = f"with {label(changes)}: {error.message}"
        raise


def keep(cluster: Cluster, counts: Sequence[int]) -> Cluster:
    """The first ``counts[c]`` devices of every class c."""
    seen = [0] * cluster.num_classes
    kept = np.zeros(cluster.num_devices, dtype=np.bool_)
    for device, c in enumerate(cluster.device_class.tolist()):
        kept[device] = seen[c] < counts[c]
        seen[c] += 1
    return _restricted(cluster, kept)


def device_counts(cluster: Cluster) -> list[int]:
    """Number of devices per class."""
    counts: list[int] = np.bincount(cluster.device_class, minlength=cluster.num_classes).tolist()
    return counts


def _restricted(cluster: Cluster, kept: Bools) -> Cluster:
    return cluster.replaced(
        device_class=cluster.device_class[kept], node=cluster.node[kept], link_group=cluster.link_group[kept]
    )


def _without(cluster: Cluster, change: Change) -> Cluster:
    names = [c.name for c in cluster.classes]
    if change.class_name not in names:
        raise _unknown(change.class_name, names, "the cluster", "remove")
    counts = device_counts(cluster)
    at = names.index(change.class_name)
    if counts[at] < -change.count:
        raise InputError(
            f"cannot remove {-change.count} of {change.class_name!r}: the cluster has {counts[at]}",
            field="remove",
        )
    counts[at] += change.count
    if not any(counts):
        raise InfeasibleError("no device is left", field="remove")
    return keep(cluster, counts)


def _with(cluster: Cluster, change: Change) -> Cluster:
    names = [c.name for c in cluster.classes]
    classes = cluster.classes
    if change.class_name not in names:
        classes = (*classes, _builtin_class(change.class_name, names))
    at = [c.name for c in classes].index(change.class_name)
    group, latency, bandwidth = _links(cluster, _model(cluster, at))
    num = change.count
    return cluster.replaced(
        classes=classes,
        device_class=np.append(cluster.device_class, [at] * num),
        node=np.append(cluster.node, cluster.node.max() + 1 + np.arange(num)),
        link_group=np.append(cluster.link_group, [group] * num),
        latency=latency,
        bandwidth=bandwidth,
    )


def _builtin_class(name: str, names: Sequence[str]) -> DeviceClass:
    """The class of this name in the first built-in cluster that has one."""
    known: dict[str, DeviceClass] = {}
    for cluster in builtin_clusters():
        for device_class in builtin_cluster(cluster).classes:
            known.setdefault(device_class.name, device_class)
    if name not in known:
        every = list(dict.fromkeys([*names, *known]))
        raise _unknown(name, every, "the cluster or the built-in ones", "add")
    return known[name]


def _unknown(name: str, names: Sequence[str], place: str, field: str) -> InputError:
    close = difflib.get_close_matches(name, names, 1)
    hint = f"; did you mean {close[0]!r}?" if close else f" (classes: {', '.join(names)})"
    return InputError(f"no class {name!r} in {place}{hint}", field=field)


def _model(cluster: Cluster, class_index: int) -> int:
    """The device whose links a new one of this class gets: the last of the class, a lone one if any."""
    alike = np.flatnonzero(cluster.device_class == class_index)
    alike = alike if len(alike) else np.arange(cluster.num_devices)
    lone = alike[np.bincount(cluster.node)[cluster.node[alike]] == 1]
    return int((lone if len(lone) else alike)[-1])


def _links(cluster: Cluster, model: int) -> tuple[int, Floats, Floats]:
    """Link group of new devices and the tables with it; a new group where the model's is its node's own."""
    group = int(cluster.link_group[model])
    is_inside = cluster.node == cluster.node[model]
    others = cluster.link_group[~is_inside]
    if (others == group).any() or cluster.num_devices == 1:
        return group, cluster.latency, cluster.bandwidth
    beyond = int(others[0]) if len(others) else _beside(cluster, model)
    own = np.setdiff1d(cluster.link_group[is_inside], others)
    tables = [_grown(table, group, beyond, own) for table in (cluster.latency, cluster.bandwidth)]
    return len(cluster.latency), tables[0], tables[1]


def _beside(cluster: Cluster, model: int) -> int:
    """Group of another device of the model's node, where there is one node only."""
    others = np.delete(cluster.link_group, model)
    return int(others[-1])


def _grown(table: Floats, group: int, beyond: int, own: Ints) -> Floats:
    """One more row and column: as ``group``, but to the ``own`` groups of its node as ``beyond`` it."""
    row, column = table[group].copy(), table[:, group].copy()
    row[own], column[own] = table[group, beyond], table[beyond, group]
    grown = np.empty((len(table) + 1, len(table) + 1))
    grown[:-1, :-1] = table
    grown[-1, :-1], grown[:-1, -1] = row, column
    grown[-1, -1] = table[group, beyond]
    return grown


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
