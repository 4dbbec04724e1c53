"""Changes of a cluster: devices more or fewer, other links, other speeds.

Devices leave from the end of their class. A new device is a node of its own, linked to every other
as the last device of its class is linked to other nodes (the last lone one where there is one; in
a cluster of one node, as inside it). A class the cluster does not have is linked like the last device.
Bandwidth and latency are those of links between nodes; in a cluster of one node, of all links.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weft.errors import InfeasibleError, InputError, WeftError
from weft.io.clusters import builtin_cluster, builtin_clusters
from weft.io.units import parse_bandwidth, parse_seconds
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import Bools, Floats, Ints, TaskGraph
from weft.model.problem import Problem

MOST_ADDED = 10_000
_NUMBER = re.compile(r"([0-9]*\.?[0-9]+(?:e[+-]?[0-9]+)?)")


class Change:
    """Something else about the machines; ``str()`` is what a person reads."""

    @property
    def aspect(self) -> str | None:
        """What it sets: two changes of one aspect are alternatives. None: it adds to any other."""
        return None

    def of_cluster(self, cluster: Cluster) -> Cluster:
        """The cluster with this change."""
        raise NotImplementedError

    def of_graph(self, graph: TaskGraph) -> TaskGraph:
        """A graph with this change: its tasks may bring run times of their own."""
        return graph


@dataclass(frozen=True)
class Devices(Change):
    """Devices of one class more, or fewer where ``count`` is negative."""

    class_name: str
    count: int

    def __str__(self) -> str:
        return f"{self.count:+d} {self.class_name}"

    def of_cluster(self, cluster: Cluster) -> Cluster:
        return _with(cluster, self) if self.count > 0 else _without(cluster, self)


@dataclass(frozen=True)
class Links(Change):
    """Another bandwidth or latency between nodes: ``amount`` times as much, or ``amount`` itself."""

    what: str
    """``bandwidth`` or ``latency``."""
    amount: float
    """A factor, bytes per second or seconds."""
    is_factor: bool
    text: str
    """As it was given."""

    def __str__(self) -> str:
        return f"{self.what} {self.text}"

    @property
    def aspect(self) -> str:
        return self.what

    def of_cluster(self, cluster: Cluster) -> Cluster:
        if cluster.num_devices == 1:
            raise InputError("the cluster has one device and no links", field=self.what)
        table = cluster.bandwidth if self.what == "bandwidth" else cluster.latency
        chosen = _between_nodes(cluster)
        if self.is_factor:
            self._refuse_multiple(table[chosen])
        with np.errstate(over="ignore"):  # what is too much for a number is without limit
            changed = np.where(chosen, table * self.amount if self.is_factor else self.amount, table)
        return cluster.replaced(**{self.what: changed})

    def _refuse_multiple(self, values: Floats) -> None:
        """Refuse a multiple of what stays as it is: no latency, or bandwidth without limit."""
        if values.any() and not np.isinf(values).all():
            return
        now, example = ("infinite", "10Gbit/s") if values.any() else ("0", "10us")
        raise InputError(
            f"expected a {self.what} such as {example}, got {self.text}: that of the cluster is {now}",
            field=self.what,
        )


@dataclass(frozen=True)
class Speed(Change):
    """Every run time on the devices of one class divided by ``factor``."""

    class_name: str
    factor: float

    @property
    def aspect(self) -> str:
        return f"speed of {self.class_name}"

    def __str__(self) -> str:
        return f"{self.class_name} x{self.factor:g}"

    def of_cluster(self, cluster: Cluster) -> Cluster:
        names = [one.name for one in cluster.classes]
        if self.class_name not in names:
            raise _unknown(self.class_name, names, "the cluster", "speed")
        classes = [self._faster(one) if one.name == self.class_name else one for one in cluster.classes]
        return cluster.replaced(classes=tuple(classes))

    def _faster(self, one: DeviceClass) -> DeviceClass:
        return replace(
            one,
            speed=None if one.speed is None else one.speed * self.factor,
            speeds={kind: speed * self.factor for kind, speed in one.speeds.items()},
            times={kind: time / self.factor for kind, time in one.times.items()},
        )

    def of_graph(self, graph: TaskGraph) -> TaskGraph:
        if self.class_name not in graph.classes:
            return graph
        times = graph.times.copy()
        times[:, graph.classes.index(self.class_name)] /= self.factor
        return graph.replaced(times=times)


def parse_change(text: str, sign: int, field: str) -> Devices:
    """A change from ``class=count``; ``sign`` is 1 for more devices and -1 for fewer."""
    name, equals, count = text.rpartition("=")
    is_whole = count.strip().isascii() and count.strip().isdigit() and len(count.strip()) < 10
    if not equals or not name.strip() or not is_whole or not 1 <= int(count) <= MOST_ADDED:
        raise InputError(
            f"expected CLASS=COUNT such as a100=1 (at most {MOST_ADDED}), got {text!r}", field=field
        )
    return Devices(name.strip(), sign * int(count))


def parse_links(text: str, what: str) -> Links:
    """A change of ``bandwidth`` or ``latency`` from a factor, ``x2``, or a quantity, ``40Gbit/s`` or ``5us``."""
    factor = _factor(text)
    if factor is not None:
        return Links(what, factor, True, f"x{factor:g}")
    try:
        amount = _quantity(text, parse_bandwidth if what == "bandwidth" else parse_seconds)
    except ValueError as error:
        expected = str(error).removeprefix("expected ")
        raise InputError(f"expected a factor > 0 such as x2, or {expected}", field=what) from None
    return Links(what, amount, False, text.strip())


def parse_speed(text: str) -> Speed:
    """A change of the speed of one class from ``class=xfactor``."""
    name, _, amount = text.rpartition("=")
    factor = _factor(amount)
    if not name.strip() or factor is None:
        raise InputError(f"expected CLASS=xFACTOR such as a100=x1.5, got {text!r}", field="speed")
    return Speed(name.strip(), factor)


def _factor(text: str) -> float | None:
    """The number of ``x1.5`` where it is above 0 and finite."""
    found = _NUMBER.fullmatch(text.strip().lower().removeprefix("x").strip())
    if not text.strip().lower().startswith("x") or found is None:
        return None
    value = float(found[1])
    return value if 0.0 < value < math.inf else None


def _quantity(text: str, read: Callable[[object], float]) -> float:
    return read(float(text) if _NUMBER.fullmatch(text.strip().lower()) else text)


def label(changes: Sequence[Change]) -> str:
    """Changes as a person reads them."""
    return ", ".join(str(change) for change in changes)


def apply(problem: Problem, changes: Sequence[Change]) -> Problem:
    """The problem on the changed cluster; an error names the change."""
    cluster, graphs = problem.cluster, {id(job.graph): job.graph for job in problem.jobs}
    try:
        for change in changes:
            cluster = change.of_cluster(cluster)
            graphs = {key: change.of_graph(graph) for key, graph in graphs.items()}
        jobs = tuple(replace(job, graph=graphs[id(job.graph)]) for job in problem.jobs)
        return problem.replaced(cluster=cluster, jobs=jobs)
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


def _without(cluster: Cluster, change: Devices) -> Cluster:
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


def _with(cluster: Cluster, change: Devices) -> Cluster:
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


def _between_nodes(cluster: Cluster) -> Bools:
    """Which entries of the link tables hold between nodes; all of them in a cluster of one node."""
    num = len(cluster.latency)
    if len(np.unique(cluster.node)) == 1:
        return np.ones((num, num), dtype=np.bool_)
    least, most = np.full(num, cluster.node.max() + 1), np.full(num, -1)
    np.minimum.at(least, cluster.link_group, cluster.node)
    np.maximum.at(most, cluster.link_group, cluster.node)
    inside: Bools = (least == most)[:, None] & (least[:, None] == least) & (most[:, None] == most)
    return ~inside
