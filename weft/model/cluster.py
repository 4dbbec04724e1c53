"""Clusters: unequal devices, where they sit, and the links between them.

A class of devices carries what its devices share (speed, slots, memory, power, price, run times
per kind); a device is an index with a class, a node and a link group. Imports ``errors`` only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from weft.errors import InputError
from weft.model.graph import Floats, Ints32
from weft.model.units import SECONDS

INFINITE = float("inf")
SLOWEST = 1e-300
"""Least bandwidth: below it, seconds per byte are beyond what a number can hold."""
MOST_SLOTS = 2**31 - 1


@dataclass(frozen=True)
class DeviceClass:
    """What all devices of one class share.

    Run time of a task of kind k and work w: ``times[k]`` if given, else ``w / speeds[k]`` if
    given, else ``w / speed`` if given, else an error that names kind and class. ``overhead`` comes on top.
    """

    name: str
    speed: float | None = 1.0
    """Relative speed: run times in a graph hold at speed 1. None: only ``times``/``speeds`` count."""
    times: Mapping[str, float] = field(default_factory=dict)
    """Run time per kind, whatever the task's work."""
    speeds: Mapping[str, float] = field(default_factory=dict)
    """Relative speed per kind, where it differs from ``speed``."""
    slots: int = 1
    """How many task slots a device has; a task holds ``slots`` of them while it runs."""
    batch: int = 1
    """Largest number of tasks of one kind that run as one batch."""
    memory: float = INFINITE
    """Bytes of memory per device."""
    capacity: Mapping[str, float] = field(default_factory=dict)
    """Units per named resource; a resource not named here does not limit this class."""
    watts: float = 0.0
    """Power while busy."""
    idle_watts: float = 0.0
    """Power while idle."""
    price: float = 0.0
    """Money per hour of use."""
    time_unit: str | None = None
    """Unit of ``times``; None: that of the graph."""
    overhead: float = 0.0
    """Seconds that pass on a device for every task besides its run time, such as the gap of a dispatch."""

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("expected a class name", field="class")
        where = f"class {self.name}"
        if self.time_unit is not None and self.time_unit not in SECONDS:
            raise InputError(
                f"expected one of {', '.join(SECONDS)}, got {self.time_unit!r}", field=f"{where}: time_unit"
            )
        if self.speed is not None and not 0 < self.speed < INFINITE:
            raise InputError(f"expected a speed > 0, got {self.speed}", field=f"{where}: speed")
        if self.speed is None and not self.times and not self.speeds:
            raise InputError("expected speed, speeds or times", field=where)
        for kind, value in self.times.items():
            if not 0 <= value < INFINITE:
                raise InputError(f"expected a run time >= 0, got {value}", field=f"{where}: times.{kind}")
        for kind, value in self.speeds.items():
            if not 0 < value < INFINITE:
                raise InputError(f"expected a speed > 0, got {value}", field=f"{where}: speeds.{kind}")
        for name in ("slots", "batch"):
            count = getattr(self, name)
            if not 1 <= count < INFINITE or int(count) != count:
                raise InputError(f"expected a whole number >= 1, got {count}", field=f"{where}: {name}")
            if count > MOST_SLOTS:
                raise InputError(f"expected at most {MOST_SLOTS}, got {count}", field=f"{where}: {name}")
        if not self.memory > 0:
            raise InputError(f"expected memory > 0, got {self.memory}", field=f"{where}: memory")
        for name in ("watts", "idle_watts", "price", "overhead"):
            if not 0 <= getattr(self, name) < INFINITE:
                raise InputError(
                    f"expected a finite number >= 0, got {getattr(self, name)}", field=f"{where}: {name}"
                )
        for name, value in self.capacity.items():
            if not value >= 0:
                raise InputError(f"expected a capacity >= 0, got {value}", field=f"{where}: capacity.{name}")

    def times_in(self, unit: str) -> Mapping[str, float]:
        """``times`` in the unit of a graph."""
        if self.time_unit is None or SECONDS[self.time_unit] == SECONDS[unit]:
            return self.times
        scale = SECONDS[self.time_unit] / SECONDS[unit]
        return {kind: time * scale for kind, time in self.times.items()}

    def run_time(self, kind: str, work: float) -> float:
        """Run time of one task of this kind and work on this class, without overhead (NaN: unknown)."""
        if kind in self.times:
            return float(self.times[kind])
        speed = self.speeds.get(kind, self.speed)
        return float("nan") if speed is None else work / speed


@dataclass(frozen=True, eq=False, repr=False)
class Cluster:
    """Devices with their classes, nodes and links.

    ``link_group`` maps a device to a row of the link tables; the diagonal holds between two
    *different* devices of one group. Data never travels within one device.
    """

    classes: tuple[DeviceClass, ...]
    device_class: Ints32  # (num_devices,)
    node: Ints32  # (num_devices,)
    link_group: Ints32  # (num_devices,)
    latency: Floats  # (num_groups, num_groups) seconds
    bandwidth: Floats  # (num_groups, num_groups) bytes per second
    one_port: bool = False
    """Whether a device sends, and receives, one transfer at a time (default: no contention)."""
    name: str = "cluster"
    provenance: str = ""

    def __post_init__(self) -> None:
        for key, dtype in (
            ("device_class", np.int32),
            ("node", np.int32),
            ("link_group", np.int32),
            ("latency", np.float64),
            ("bandwidth", np.float64),
        ):
            column = np.array(getattr(self, key), dtype=dtype)
            column.setflags(write=False)
            object.__setattr__(self, key, column)
        object.__setattr__(self, "classes", tuple(self.classes))
        _check(self)

    @classmethod
    def uniform(
        cls,
        classes: Sequence[DeviceClass],
        counts: Sequence[int],
        *,
        bandwidth: float = INFINITE,
        latency: float = 0.0,
        name: str = "cluster",
    ) -> Cluster:
        """Devices outside any node, all pairs linked alike (bytes per second, seconds)."""
        device_class = np.repeat(np.arange(len(classes)), np.array(counts, dtype=np.int64))
        num = len(device_class)
        return cls(
            tuple(classes),
            device_class.astype(np.int32),
            np.arange(num, dtype=np.int32),
            np.zeros(num, dtype=np.int32),
            np.array([[latency]]),
            np.array([[bandwidth]]),
            name=name,
        )

    @property
    def num_devices(self) -> int:
        """Number of devices."""
        return len(self.device_class)

    @property
    def num_classes(self) -> int:
        """Number of device classes."""
        return len(self.classes)

    def equals(self, other: Cluster) -> bool:
        """Whether the other cluster has the same devices and links, whatever it is called."""
        columns = ("device_class", "node", "link_group", "latency", "bandwidth")
        is_alike = (self.classes, self.one_port) == (other.classes, other.one_port)
        return is_alike and all(np.array_equal(getattr(self, key), getattr(other, key)) for key in columns)

    def __len__(self) -> int:
        return self.num_devices

    def __repr__(self) -> str:
        counts = np.bincount(self.device_class, minlength=self.num_classes)
        inside = ", ".join(f"{n} x {c.name}" for n, c in zip(counts, self.classes, strict=True))
        return f"Cluster({self.name!r}, {inside})"

    @cached_property
    def device_names(self) -> tuple[str, ...]:
        """``<class>-<index within the class>`` for every device."""
        seen = [0] * self.num_classes
        names = []
        for c in self.device_class.tolist():
            names.append(f"{self.classes[c].name}-{seen[c]}")
            seen[c] += 1
        return tuple(names)

    @cached_property
    def device_index(self) -> dict[str, int]:
        """Device name to index."""
        return {name: i for i, name in enumerate(self.device_names)}

    def class_column(self, name: str) -> Floats:
        """One numeric field of every class, e.g. ``class_column("price")``."""
        return np.array([getattr(c, name) for c in self.classes], dtype=np.float64)

    def overheads_in(self, unit: str) -> Floats:
        """``overhead`` of every class in the unit of a graph."""
        return self.class_column("overhead") / SECONDS[unit]

    @cached_property
    def slots(self) -> Ints32:
        """Slots of every device."""
        per_class = np.array([c.slots for c in self.classes], dtype=np.int32)
        return per_class[self.device_class]

    def transfer_time(self, source: int, target: int, data: float) -> float:
        """Time for ``data`` bytes from one device to another; 0 within a device."""
        if source == target:
            return 0.0
        a, b = self.link_group[source], self.link_group[target]
        return float(self.latency[a, b] + (data / self.bandwidth[a, b] if data else 0.0))

    @cached_property
    def mean_link(self) -> tuple[float, float]:
        """Mean latency and mean inverse bandwidth over ordered pairs of different devices."""
        num = self.num_devices
        if num < 2:
            return 0.0, 0.0
        size = np.bincount(self.link_group, minlength=len(self.latency)).astype(np.float64)
        pairs = np.outer(size, size) - np.diag(size)
        used = pairs > 0
        total = num * (num - 1.0)
        inverse = 1.0 / self.bandwidth[used]
        return (
            float((pairs[used] * self.latency[used]).sum() / total),
            float((pairs[used] * inverse).sum() / total),
        )

    def scaled_links(self, factor: float) -> Cluster:
        """Every transfer takes ``factor`` times as long."""
        with np.errstate(over="ignore"):  # what is not finite is refused
            latency, bandwidth = self.latency * factor, self.bandwidth / factor
        return replace(self, latency=latency, bandwidth=bandwidth)

    def replaced(self, **changes: Any) -> Cluster:
        """A copy with some fields changed; everything is checked again."""
        return replace(self, **changes)


def _check(cluster: Cluster) -> None:
    if not cluster.num_devices:
        raise InputError("expected at least one device, got none", field="device")
    names = [c.name for c in cluster.classes]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"class {name!r} is defined twice with different fields", field="device")
    num_groups = len(cluster.latency)
    if cluster.latency.shape != (num_groups, num_groups) or cluster.bandwidth.shape != (
        num_groups,
        num_groups,
    ):
        raise InputError("expected square link tables of one size", field="links")
    if len(cluster.node) != cluster.num_devices:
        raise InputError(
            f"expected one index per device, got {len(cluster.node)} for {cluster.num_devices}", field="node"
        )
    for key, limit in (("device_class", len(names)), ("link_group", num_groups)):
        column = getattr(cluster, key)
        if len(column) != cluster.num_devices or (column < 0).any() or (column >= limit).any():
            raise InputError(f"expected one index below {limit} per device", field=key)
    if not (cluster.bandwidth > 0).all():
        raise InputError(f"expected a bandwidth > 0, got {cluster.bandwidth.min()}", field="links.bandwidth")
    if (cluster.bandwidth < SLOWEST).any():
        raise InputError(
            f"expected a bandwidth of at least {SLOWEST}, got {cluster.bandwidth.min()}",
            field="links.bandwidth",
        )
    if not ((cluster.latency >= 0) & np.isfinite(cluster.latency)).all():
        raise InputError("expected a finite latency >= 0", field="links.latency")
