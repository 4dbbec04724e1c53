"""Cluster files, and the clusters that come with weft.

Without ``bandwidth`` links are infinitely fast; without ``inner_bandwidth`` the devices of a node
reach one another as fast as other nodes. ``[[link]] between`` holds between nodes, not inside one.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np

from weft.errors import InputError
from weft.io.cluster_tables import SCHEMA as SCHEMA
from weft.io.cluster_tables import ClusterTables, DeviceTable, LinkTable, NodeTable, own_tables, tables_of
from weft.io.link_groups import merged_groups
from weft.io.sources import shown
from weft.io.units import parse_bandwidth, parse_seconds
from weft.model.cluster import INFINITE, Cluster, DeviceClass
from weft.model.graph import Floats, Ints32

MAX_DEVICES = 1_000_000
MAX_GROUPS = 4096
"""Link tables are square over groups of devices that share their links."""
_SHARED = -1


@functools.cache
def _builtin_texts() -> dict[str, str]:
    folder = resources.files("weft.io").joinpath("clusters")
    files = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".toml")), key=lambda e: e.name
    )
    return {entry.name.removesuffix(".toml"): entry.read_text("utf-8") for entry in files}


def builtin_clusters() -> dict[str, str]:
    """Name and one-line description of every cluster that comes with weft."""
    return {name: str(tomllib.loads(text)["description"]) for name, text in _builtin_texts().items()}


def builtin_cluster(name: str) -> Cluster:
    """The built-in cluster of this name; the error lists them."""
    return _cluster(own_tables(tomllib.loads(own_text(name))), name)


def own_text(name: str) -> str:
    """The TOML of the built-in cluster of this name."""
    texts = _builtin_texts()
    if name not in texts:
        close = difflib.get_close_matches(name, texts, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise InputError(
            f"no file and no built-in cluster {shown(name)}{hint} (built in: {', '.join(texts)})",
            field="cluster",
        )
    return texts[name]


def is_builtin(name: str) -> bool:
    """Whether a built-in cluster has this name."""
    return name in _builtin_texts()


def cluster_from_document(document: dict[str, Any], name: str = "cluster", where: str = "") -> Cluster:
    """A cluster from the tables of its file."""
    from weft.io.headers import ClusterPart, checked

    return _cluster(tables_of(checked(ClusterPart, document, where)), name)


def _cluster(part: ClusterTables, name: str) -> Cluster:
    if part.schema_name != SCHEMA:
        raise InputError(f"expected {SCHEMA!r}, got {shown(part.schema_name)}", field="schema")
    layout = _Layout.of(part)
    group, latency, bandwidth = _full_table(part, layout) if part.links else _link_groups(part, layout)
    cluster = Cluster(
        layout.device_classes(),
        layout.device_class,
        layout.node,
        group,
        latency,
        bandwidth,
        one_port=part.one_port,
        name=part.name or name,
        provenance=part.provenance,
    )
    for device in part.workers:
        if device not in cluster.device_index:
            raise InputError(f"no device {shown(device)} in the cluster", field="workers")
    return cluster


@dataclass
class _Layout:
    """Devices in file order: those of the nodes first, then the lone ones, each a node of its own."""

    classes: dict[str, DeviceTable] = field(default_factory=dict)
    places: list[tuple[int, int]] = field(default_factory=list)  # (class, node) of every device
    nodes: list[NodeTable | None] = field(default_factory=list)

    @classmethod
    def of(cls, part: ClusterTables) -> _Layout:
        """Lay out the devices of a cluster file."""
        layout = cls()
        for i, node in enumerate(part.node):
            layout._refuse_more(node.count * sum(device.count for device in node.device))
            for j, device in enumerate(node.device):
                layout._define(device, f"node[{i}].device[{j}]")
            for _ in range(node.count):
                for device in node.device:
                    layout._place(device.class_name, device.count, len(layout.nodes))
                layout.nodes.append(node)
        for i, device in enumerate(part.device):
            layout._refuse_more(device.count)
            layout._define(device, f"device[{i}]")
            for _ in range(device.count):
                layout._place(device.class_name, 1, len(layout.nodes))
                layout.nodes.append(None)
        if not layout.places:
            raise InputError("expected at least one device, got none", field="device")
        return layout

    def _refuse_more(self, count: int) -> None:
        if len(self.places) + count > MAX_DEVICES:
            raise InputError(f"expected at most {MAX_DEVICES} devices", field="count")

    def _define(self, device: DeviceTable, where: str) -> None:
        """Note a class; a mention with nothing but class and count refers to the full one."""
        known = self.classes.get(device.class_name)
        if known is None or known.is_mention:
            self.classes[device.class_name] = device
        elif not device.is_mention and known.of_class != device.of_class:
            ours, theirs = known.of_class, device.of_class
            different = ", ".join(key for key in ours if ours[key] != theirs[key])
            raise InputError(
                f"class {shown(device.class_name)} is defined twice with different {different}", field=where
            )

    def _place(self, class_name: str, count: int, node: int) -> None:
        self.places += [(list(self.classes).index(class_name), node)] * count

    @property
    def device_class(self) -> Ints32:
        """Class of every device."""
        return np.array([c for c, _ in self.places], dtype=np.int32)

    @property
    def node(self) -> Ints32:
        """Node of every device."""
        return np.array([n for _, n in self.places], dtype=np.int32)

    def device_classes(self) -> tuple[DeviceClass, ...]:
        """The classes in order of first mention."""
        return tuple(_device_class(device) for device in self.classes.values())


def _device_class(device: DeviceTable) -> DeviceClass:
    """Without times and speeds a class has speed 1; with them only a speed that is given."""
    values = device.of_class
    if values["speed"] is None and not device.times and not device.speeds:
        values["speed"] = 1.0
    return DeviceClass(device.class_name, **values)


def _link_groups(part: ClusterTables, layout: _Layout) -> tuple[Ints32, Floats, Floats]:
    """Link group of every device, and the two tables over the groups."""
    group, group_node, group_class = _group(part, layout)
    latency = np.full((len(group_node), len(group_node)), part.latency or 0.0)
    bandwidth = np.full_like(latency, INFINITE if part.bandwidth is None else part.bandwidth)
    names = list(layout.classes)
    for i, link in enumerate(part.link):
        if link.between is not None:
            a, b = (_find(names, name, f"link[{i}].between") for name in link.between)
            _set_link(latency, bandwidth, group_class == a, group_class == b, link)
    for i, link in enumerate(part.link):
        if link.nodes is not None:
            _refuse_nodes(link.nodes, len(layout.nodes), f"link[{i}].nodes")
            _set_link(latency, bandwidth, group_node == link.nodes[0], group_node == link.nodes[1], link)
    for n in np.unique(group_node[group_node != _SHARED]).tolist():
        node = layout.nodes[n]
        if node is not None:
            inside = np.ix_(group_node == n, group_node == n)
            if node.inner_bandwidth is not None:
                bandwidth[inside] = node.inner_bandwidth
            if node.inner_latency is not None:
                latency[inside] = node.inner_latency
    return group, latency, bandwidth


def _group(part: ClusterTables, layout: _Layout) -> tuple[Ints32, Ints32, Ints32]:
    """Group per device; node (-1: shared by all lone devices) and class (-1: any) per group.

    Groups are split by class only where links between classes are given.
    """
    for i, link in enumerate(part.link):
        if (link.between is None) == (link.nodes is None):
            raise InputError(
                "expected between = [class, class] or nodes = [index, index]", field=f"link[{i}]"
            )
    named = {n for link in part.link for n in link.nodes or ()}
    sizes = np.bincount(layout.node)
    by_class = any(link.between is not None for link in part.link)
    index: dict[tuple[int, int], int] = {}
    group = []
    for c, n in layout.places:
        key = (n if sizes[n] > 1 or n in named else _SHARED, c if by_class else -1)
        group.append(index.setdefault(key, len(index)))
    if len(index) > MAX_GROUPS:
        raise InputError(
            f"expected at most {MAX_GROUPS} nodes with links of their own, got {len(index)}", field="node"
        )
    keys = np.array(list(index), dtype=np.int32)
    return np.array(group, dtype=np.int32), keys[:, 0], keys[:, 1]


def _set_link(latency: Floats, bandwidth: Floats, first: Any, second: Any, link: LinkTable) -> None:
    """Both directions between two masks of groups."""
    for a, b in ((first, second), (second, first)):
        if link.latency is not None:
            latency[np.ix_(a, b)] = link.latency
        if link.bandwidth is not None:
            bandwidth[np.ix_(a, b)] = link.bandwidth


def _find(names: Sequence[str], name: str, where: str) -> int:
    if name not in names:
        close = difflib.get_close_matches(name, names, 1)
        hint = f"; did you mean {close[0]!r}?" if close else f" (classes: {', '.join(names)})"
        raise InputError(f"no class {shown(name)} in the cluster{hint}", field=where)
    return names.index(name)


def _refuse_nodes(nodes: Sequence[int], count: int, where: str) -> None:
    for n in nodes:
        if not 0 <= n < count:
            raise InputError(f"expected node numbers 0 to {count - 1}, got {n}", field=where)
    if nodes[0] == nodes[1]:
        raise InputError(f"expected two different nodes, got {nodes[0]} twice", field=where)


def _full_table(part: ClusterTables, layout: _Layout) -> tuple[Ints32, Floats, Floats]:
    """Devices with the same links are one group; the diagonal of the tables does not matter."""
    inner = any(node.inner_bandwidth is not None or node.inner_latency is not None for node in part.node)
    if part.link or inner:
        raise InputError("give full tables, or link and inner_bandwidth, not both", field="links")
    assert part.links is not None
    num = len(layout.places)
    outer = INFINITE if part.bandwidth is None else part.bandwidth
    bandwidth = _square(part.links.bandwidth, num, outer, parse_bandwidth, "links.bandwidth")
    latency = _square(part.links.latency, num, part.latency or 0.0, parse_seconds, "links.latency")
    np.fill_diagonal(bandwidth, INFINITE)
    np.fill_diagonal(latency, 0.0)
    return merged_groups(latency, bandwidth)


def _square(
    table: list[list[float | str]] | None,
    num: int,
    default: float,
    parse: Callable[[object], float],
    where: str,
) -> Floats:
    values = np.full((num, num), default)
    if table is not None and len(table) != num:
        raise InputError(f"expected {num} rows, one per device, got {len(table)}", field=where)
    for i, row in enumerate(table or ()):
        if len(row) != num:
            raise InputError(f"expected {num} values, one per device, got {len(row)}", field=f"{where}[{i}]")
        for j, value in enumerate(row):
            if i != j:
                values[i, j] = _quantity(value, parse, f"{where}[{i}][{j}]")
    return values


def _quantity(value: float | str, parse: Callable[[object], float], where: str) -> float:
    try:
        return parse(value)
    except ValueError as error:
        raise InputError(str(error), field=where) from None


def cluster_document(cluster: Cluster) -> dict[str, Any]:
    """The tables of a cluster file; reading them gives the same devices and links."""
    document: dict[str, Any] = {"schema": SCHEMA, "name": cluster.name}
    if cluster.provenance:
        document["provenance"] = cluster.provenance
    if cluster.one_port:
        document["one_port"] = True
    inner, links = _link_fields(cluster)
    return document | links | _device_entries(cluster, inner)


_Inner = dict[int, tuple[float, float]]  # node: latency, bandwidth


def _link_fields(cluster: Cluster) -> tuple[_Inner, dict[str, Any]]:
    """Inner links per node and the fields at the top; full tables where nothing shorter says it."""
    if len(cluster.latency) == 1:
        return {}, _link(float(cluster.latency[0, 0]), float(cluster.bandwidth[0, 0]))
    every = np.ix_(cluster.link_group, cluster.link_group)
    pairs = np.stack([cluster.latency[every], cluster.bandwidth[every]])
    apart = cluster.node[:, None] != cluster.node[None, :]
    outer = np.unique(pairs[:, apart], axis=1)
    inner: _Inner = {}
    is_short = outer.shape[1] <= 1
    for n in np.flatnonzero(np.bincount(cluster.node) > 1).tolist():
        together = (cluster.node == n)[:, None] & (cluster.node == n)[None, :]
        np.fill_diagonal(together, False)
        own = np.unique(pairs[:, together], axis=1)
        is_short &= own.shape[1] == 1
        inner[n] = (float(own[0, 0]), float(own[1, 0]))
    if is_short:
        return inner, _link(float(outer[0, 0]), float(outer[1, 0])) if outer.size else {}
    tables = {
        "latency": pairs[0].tolist(),
        "bandwidth": [[_rate(v) for v in row] for row in pairs[1].tolist()],
    }
    return {}, {"links": tables}


def _link(latency: float, bandwidth: float, prefix: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    if bandwidth < INFINITE or prefix:
        values[f"{prefix}bandwidth"] = _rate(bandwidth)
    if latency > 0 or prefix:
        values[f"{prefix}latency"] = latency
    return values


def _rate(value: float) -> float | str:
    return "infinite" if value == INFINITE else value


def _device_entries(cluster: Cluster, inner: _Inner) -> dict[str, Any]:
    """``node`` and ``device`` lists; a class is written out at its first mention."""
    order = list(dict.fromkeys(cluster.node.tolist()))
    if (np.diff(cluster.node) != 0).sum() + 1 != len(order):
        raise InputError("a cluster file lists the devices of a node together; these are not", field="node")
    contents = [_runs(cluster.device_class[cluster.node == n].tolist()) for n in order]
    is_lone = [sum(count for _, count in runs) == 1 for runs in contents]
    first_lone = is_lone.index(True) if True in is_lone else len(order)
    if not all(is_lone[first_lone:]):
        first_lone = len(order)
    written: set[int] = set()
    nodes: list[tuple[Any, int]] = []
    for n, runs in zip(order[:first_lone], contents[:first_lone], strict=True):
        key = (inner.get(n), tuple(runs))
        count = nodes.pop()[1] if nodes and nodes[-1][0] == key else 0
        nodes.append((key, count + 1))
    entries: dict[str, Any] = {"node": [_node_entry(cluster, key, count, written) for key, count in nodes]}
    lone = _runs([runs[0][0] for runs in contents[first_lone:]])
    idle = sorted(set(range(cluster.num_classes)) - set(cluster.device_class.tolist()))
    lone += [(c, 0) for c in idle]
    entries["device"] = [_device_entry(cluster, c, count, written) for c, count in lone]
    return {key: rows for key, rows in entries.items() if rows}


def _runs(values: list[int]) -> list[tuple[int, int]]:
    """(value, how often in a row)."""
    return [(value, len(list(group))) for value, group in itertools.groupby(values)]


def _node_entry(cluster: Cluster, key: Any, count: int, written: set[int]) -> dict[str, Any]:
    link, runs = key
    inner = {} if link is None else _link(link[0], link[1], "inner_")
    return {"count": count, **inner, "device": [_device_entry(cluster, c, k, written) for c, k in runs]}


def _device_entry(cluster: Cluster, c: int, count: int, written: set[int]) -> dict[str, Any]:
    device_class = cluster.classes[c]
    entry: dict[str, Any] = {"class": device_class.name, "count": count}
    if c in written:
        return entry
    written.add(c)
    neutral = DeviceClass("neutral")
    for key in (
        "speed",
        "times",
        "time_unit",
        "speeds",
        "slots",
        "memory",
        "batch",
        "capacity",
        "watts",
        "idle_watts",
        "price",
        "overhead",
    ):
        value = getattr(device_class, key)
        is_needed = key == "speed" and value is not None and (device_class.times or device_class.speeds)
        if (value != getattr(neutral, key) or is_needed) and value is not None:
            entry[key] = dict(value) if isinstance(value, Mapping) else value
    return entry
