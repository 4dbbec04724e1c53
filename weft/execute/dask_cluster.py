"""The workers of a Dask cluster as devices: a cluster to plan for, and which worker each device is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.errors import InputError
from weft.execute.dask_connect import DaskWorker
from weft.execute.dask_orders import DaskDevice
from weft.io.files import read_cluster
from weft.io.workers import read_workers
from weft.model.cluster import Cluster, DeviceClass

BANDWIDTH, LATENCY = 100e6, 0.002
"""Bytes per second and seconds between workers, where nobody measured them; the first is Dask's own guess."""


def cluster_of(workers: Sequence[DaskWorker]) -> tuple[Cluster, dict[str, str]]:
    """A cluster of these workers, and device -> worker.

    Threads are slots, resources are taken over. Workers are one class if their names differ by a number at the end
    only (``fast-0`` and ``fast-1``) and they are alike otherwise; all are equally fast until somebody measures.
    """
    kinds = sorted({name for worker in workers for name in worker.resources})
    groups: dict[tuple[str, int, tuple[float, ...]], list[DaskWorker]] = {}
    for worker in workers:
        capacity = tuple(worker.resources.get(name, 0.0) for name in kinds)
        groups.setdefault((_stem(worker.name), worker.threads, capacity), []).append(worker)
    classes: list[DeviceClass] = []
    mapping: dict[str, str] = {}
    for (stem, threads, capacity), members in groups.items():
        number = sum(one.name.startswith(stem) for one in classes)
        name = stem if not number else f"{stem}-{'abcdefghijklmnopqrstuvwxyz'[number % 26]}{number}"
        classes.append(DeviceClass(name, slots=threads, capacity=dict(zip(kinds, capacity, strict=True))))
        mapping |= {f"{name}-{i}": worker.name for i, worker in enumerate(members)}
    counts = [len(members) for members in groups.values()]
    cluster = Cluster.uniform(classes, counts, bandwidth=BANDWIDTH, latency=LATENCY, name="dask")
    return cluster, mapping


def given_cluster(
    cluster: Cluster | str | Path | None, workers: Sequence[DaskWorker]
) -> tuple[Cluster, list[DaskDevice]]:
    """The cluster to plan for and its devices; None: one made of the workers, a name or file: as calibrated."""
    if cluster is None:
        found, mapping = cluster_of(workers)
    elif isinstance(cluster, Cluster):
        found, mapping = cluster, {}
    else:
        found, mapping = read_cluster(cluster), read_workers(cluster)
    return found, devices_of(found, mapping, workers)


def devices_of(
    cluster: Cluster, mapping: Mapping[str, str], workers: Sequence[DaskWorker]
) -> list[DaskDevice]:
    """Every device of a cluster and its worker: the one it is mapped to, else the one of its name."""
    known = {name for worker in workers for name in (worker.name, worker.address)}
    devices = []
    for device, c in zip(cluster.device_names, cluster.device_class.tolist(), strict=True):
        worker = mapping.get(device, device)
        if worker not in known:
            names = ", ".join(one.name for one in workers)
            raise InputError(
                f"no worker {worker!r} for device {device}; there are {names:.200}", field="cluster"
            )
        one = cluster.classes[c]
        devices.append(DaskDevice(device, one.name, one.slots, worker))
    return devices


def _stem(name: str) -> str:
    """The name of a worker without the number at its end; ``worker`` where that leaves nothing to go by."""
    stem = "" if "://" in name else re.sub(r"[-_.]?\d*$", "", name)
    return stem or "worker"
