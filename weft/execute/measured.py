"""From figures of workers to a cluster: classes of workers that are alike, nodes, links."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from weft.execute.probes import COMPUTING, WorkerInfo
from weft.model.cluster import INFINITE, Cluster, DeviceClass

ALIKE = 1.10
"""Speeds that differ by less than this factor are taken for equal."""


@dataclass(frozen=True)
class Figures:
    """What was measured of one worker; times in seconds."""

    worker: WorkerInfo
    probes: Mapping[str, float]
    """Probe -> best time, those of the user's kinds included."""
    kinds: tuple[str, ...] = ()
    """Which of the probes are kinds of the user's."""
    gap: float = 0.0
    """From the end of a task to the start of the next that waits."""
    first_task: float = 0.0
    """What a task takes on an idle worker, there and back, besides its run time."""
    is_measured: bool = True
    """Whether its speed was measured, not taken from a worker like it."""
    class_name: str = ""
    speed: float = 1.0
    """Relative to the reference."""

    @property
    def seconds(self) -> float:
        """Geometric mean over the probes that compute."""
        return _mean([self.probes[name] for name in COMPUTING if name in self.probes])

    def record(self, device: str) -> dict[str, Any]:
        """A row of ``[[calibration.worker]]``."""
        return {
            "device": device,
            "name": self.worker.name,
            "address": self.worker.address,
            "host": self.worker.host,
            "class": self.class_name,
            "measured": self.is_measured,
            "speed": digits(self.speed),
            "dispatch_gap": digits(self.gap),
            "first_task": digits(self.first_task),
            "seconds": {name: digits(value) for name, value in self.probes.items()},
        }


@dataclass(frozen=True)
class Link:
    """What was measured between two workers."""

    source: str
    target: str
    is_within: bool
    """Whether both are on one host."""
    latency: float
    """Seconds."""
    bandwidth: float
    """Bytes per second."""

    def record(self) -> dict[str, Any]:
        """A row of ``[[calibration.link]]``."""
        return {
            "from": self.source,
            "to": self.target,
            "one_host": self.is_within,
            "latency": digits(self.latency),
            "bandwidth": digits(self.bandwidth) if self.bandwidth < INFINITE else "infinite",
        }


class Made(NamedTuple):
    """A cluster, and the figures of its devices in their order."""

    cluster: Cluster
    figures: tuple[Figures, ...]
    reference: str


def cluster_of(
    figures: Sequence[Figures], links: Sequence[Link], reference: str | None, *, is_uniform: bool
) -> Made:
    """Workers as devices: equal ones share a class, those of one host a node."""
    order = sorted(figures, key=lambda one: one.seconds)
    known = [one for one in order if one.is_measured]
    basis = next((one for one in order if one.worker.name == reference), known[len(known) // 2])
    groups = _groups(order, is_uniform=is_uniform)
    names = _names(groups)
    unit = next(group for group in groups if basis in group)
    classes = [_class(name, group, unit) for name, group in zip(names, groups, strict=True)]
    rows = [
        (c, replace(one, class_name=names[c], speed=basis.seconds / one.seconds))
        for c, group in enumerate(groups)
        for one in group
    ]
    hosts = list(dict.fromkeys(one.worker.host for one in figures))
    rows.sort(key=lambda row: (hosts.index(row[1].worker.host), row[0], _natural(row[1].worker.name)))
    used = list(dict.fromkeys(c for c, _ in rows))  # classes in the order in which a file mentions them
    node = np.array([hosts.index(one.worker.host) for _, one in rows], dtype=np.int32)
    latency, bandwidth = _tables(links, len(hosts))
    cluster = Cluster(
        tuple(classes[c] for c in used),
        np.array([used.index(c) for c, _ in rows], dtype=np.int32),
        node,
        node if len(hosts) > 1 else np.zeros_like(node),
        latency,
        bandwidth,
        name="calibrated",
        provenance="measured by weft calibrate",
    )
    return Made(cluster, tuple(one for _, one in rows), basis.worker.name)


def _groups(order: Sequence[Figures], *, is_uniform: bool) -> list[list[Figures]]:
    """Workers that are alike, from the fastest class to the slowest."""
    groups: list[list[Figures]] = []
    for one in order:
        for group in groups:
            if _has_equal_size(group[0], one) and (is_uniform or _is_as_fast(group[0], one)):
                group.append(one)
                break
        else:
            groups.append([one])
    return groups


def _has_equal_size(first: Figures, other: Figures) -> bool:
    """Slots and resources are equal, memory nearly: hosts that are alike differ by some pages."""
    a, b = first.worker, other.worker
    is_close = max(a.memory, b.memory) <= 1.01 * min(a.memory, b.memory)
    return (a.slots, dict(a.resources)) == (b.slots, dict(b.resources)) and is_close


def _is_as_fast(first: Figures, other: Figures) -> bool:
    pairs = [(first.seconds, other.seconds), *((first.probes[k], other.probes[k]) for k in first.kinds)]
    return all(max(pair) <= ALIKE * min(pair) for pair in pairs)


def _names(groups: Sequence[Sequence[Figures]]) -> list[str]:
    """``cpu`` or ``gpu`` where there is one class of it; else by how fast they are; else numbered."""
    bases = ["gpu" if _has_gpu(group[0].worker) else "cpu" for group in groups]
    names = []
    for g, base in enumerate(bases):
        same = [i for i, other in enumerate(bases) if other == base]
        speeds = [groups[i][0].seconds for i in same]
        is_apart = all(b > ALIKE * a for a, b in pairwise(speeds))
        words = {2: ("fast", "slow"), 3: ("fast", "medium", "slow")}.get(len(same)) if is_apart else None
        if len(same) == 1:
            names.append(base)
        elif words is None:
            names.append(f"{base}{same.index(g) + 1}")
        else:
            names.append(words[same.index(g)] if len(set(bases)) == 1 else f"{words[same.index(g)]}-{base}")
    return names


def _has_gpu(worker: WorkerInfo) -> bool:
    return any("gpu" in name.lower() and amount > 0 for name, amount in worker.resources.items())


def _class(name: str, group: Sequence[Figures], unit: Sequence[Figures]) -> DeviceClass:
    """Speeds are relative to the class of the reference, which has speed 1."""

    def ratio(of: Any) -> float:
        return digits(_mean([of(one) for one in unit]) / _mean([of(one) for one in group]))

    worker = group[0].worker
    return DeviceClass(
        name,
        ratio(lambda one: one.seconds),
        speeds={kind: ratio(lambda one, k=kind: one.probes[k]) for kind in group[0].kinds},
        slots=worker.slots,
        memory=min(one.worker.memory for one in group),
        capacity=dict(worker.resources),
        overhead=digits(median([one.gap for one in group])),
    )


def _tables(links: Sequence[Link], num_hosts: int) -> tuple[np.ndarray, np.ndarray]:
    """Medians over the pairs within a host and over those between hosts; either stands in for the other."""
    within = [one for one in links if one.is_within] or links
    between = [one for one in links if not one.is_within] or links
    inner, outer = _typical(within), _typical(between)
    latency = np.full((num_hosts, num_hosts), outer[0])
    bandwidth = np.full((num_hosts, num_hosts), outer[1])
    np.fill_diagonal(latency, inner[0])
    np.fill_diagonal(bandwidth, inner[1])
    return latency, bandwidth


def _typical(links: Sequence[Link]) -> tuple[float, float]:
    if not links:
        return 0.0, INFINITE
    return digits(median([one.latency for one in links])), digits(median([one.bandwidth for one in links]))


def _mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(max(value, 1e-9)) for value in values) / len(values))


def _natural(name: str) -> tuple[int, str]:
    return len(name), name


def digits(value: float) -> float:
    """The value with four digits: more are noise."""
    return float(f"{value:.4g}")
