"""The tables of a cluster file as plain dataclasses, in seconds, bytes and bytes per second.

What users give is checked by pydantic first (``headers.py``). What weft brings is not, so that the built-in clusters
can be read where pydantic is missing; a test compares both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from weft.io.units import parse_bandwidth, parse_bytes, parse_seconds

if TYPE_CHECKING:
    from weft.io.headers import ClusterPart

SCHEMA = "weft/cluster/1"


@dataclass(frozen=True)
class DeviceTable:
    """``[[device]]`` or ``[[node.device]]``."""

    class_name: str
    count: int = 1
    is_mention: bool = False
    """Whether it has nothing but class and count, and so refers to the full one."""
    speed: float | None = None
    times: Mapping[str, float] = field(default_factory=dict)
    time_unit: str | None = None
    speeds: Mapping[str, float] = field(default_factory=dict)
    slots: int = 1
    memory: float = float("inf")
    batch: int = 1
    watts: float = 0.0
    idle_watts: float = 0.0
    price: float = 0.0
    overhead: float = 0.0
    capacity: Mapping[str, float] = field(default_factory=dict)

    @property
    def of_class(self) -> dict[str, Any]:
        """What all devices of the class have, without its name."""
        own = ("class_name", "count", "is_mention")
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in own}


@dataclass(frozen=True)
class NodeTable:
    """``[[node]]``: devices that sit together."""

    device: tuple[DeviceTable, ...]
    count: int = 1
    inner_bandwidth: float | None = None
    inner_latency: float | None = None


@dataclass(frozen=True)
class LinkTable:
    """``[[link]]``: an exception for two classes or two nodes."""

    between: list[str] | None = None
    nodes: list[int] | None = None
    bandwidth: float | None = None
    latency: float | None = None


@dataclass(frozen=True)
class FullTables:
    """``links``: tables over all devices, whose quantities are read where they are used."""

    bandwidth: list[list[float | str]] | None = None
    latency: list[list[float | str]] | None = None


@dataclass(frozen=True)
class ClusterTables:
    """A whole cluster file."""

    schema_name: str = SCHEMA
    name: str | None = None
    provenance: str = ""
    bandwidth: float | None = None
    latency: float | None = None
    one_port: bool = False
    node: tuple[NodeTable, ...] = ()
    device: tuple[DeviceTable, ...] = ()
    link: tuple[LinkTable, ...] = ()
    links: FullTables | None = None
    workers: Mapping[str, str] = field(default_factory=dict)


def tables_of(part: ClusterPart) -> ClusterTables:
    """The tables of a file that was checked."""
    values = part.model_dump(exclude={"description", "calibration", "node", "device", "link", "links"})
    return ClusterTables(
        **values,
        node=tuple(
            NodeTable(tuple(map(_checked, node.device)), node.count, node.inner_bandwidth, node.inner_latency)
            for node in part.node
        ),
        device=tuple(map(_checked, part.device)),
        link=tuple(LinkTable(**link.model_dump()) for link in part.link),
        links=None if part.links is None else FullTables(**part.links.model_dump()),
    )


def _checked(device: Any) -> DeviceTable:
    is_mention = device.model_fields_set <= {"class_name", "count"}
    return DeviceTable(**device.model_dump(), is_mention=is_mention)


def own_tables(document: Mapping[str, Any]) -> ClusterTables:
    """The tables of a cluster that weft brings, which needs no check: nodes and devices with equal links."""
    top = ("name", "provenance", "bandwidth", "latency")
    return ClusterTables(
        **_read({key: document[key] for key in top if key in document}),
        node=tuple(_own_node(node) for node in document.get("node", ())),
        device=tuple(map(_own_device, document.get("device", ()))),
    )


def _own_node(node: Mapping[str, Any]) -> NodeTable:
    own = {key: value for key, value in node.items() if key != "device"}
    return NodeTable(tuple(map(_own_device, node["device"])), **_read(own))


def _own_device(row: Mapping[str, Any]) -> DeviceTable:
    given = {key: value for key, value in row.items() if key != "class"}
    return DeviceTable(row["class"], **_read(given), is_mention=given.keys() <= {"count"})


def _each(values: Mapping[str, Any]) -> dict[str, float]:
    return {kind: float(value) for kind, value in values.items()}


_READERS: Mapping[str, Callable[[Any], object]] = {
    **dict.fromkeys(("bandwidth", "inner_bandwidth"), parse_bandwidth),
    **dict.fromkeys(("latency", "inner_latency", "overhead"), parse_seconds),
    **dict.fromkeys(("speed", "watts", "idle_watts", "price"), float),
    **dict.fromkeys(("times", "speeds", "capacity"), _each),
    "memory": parse_bytes,
}


def _read(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _READERS[key](value) if key in _READERS else value for key, value in values.items()}
