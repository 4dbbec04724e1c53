"""Clusters of separate devices, read without pydantic, which training machines often lack.

A document with anything else in it, right or wrong, goes the usual way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.model.cluster import Cluster, DeviceClass

_KEYS = {"class": str, "count": int, "speed": float, "batch": int}


def cluster_of(document: dict[str, Any], where: str = "") -> Cluster:
    """A cluster from the tables of its file."""
    if document.keys() <= {"name", "device"} and _is_simple(document.get("device")):
        return _simple(str(document.get("name", "cluster")), document["device"])
    from weft.io.clusters import cluster_from_document

    return cluster_from_document(document, where=where)


def _is_simple(devices: object) -> bool:
    """Whether these are devices of different classes, with no more than class, count, speed and batch."""
    if not isinstance(devices, list) or not 1 <= len(devices) <= 1000:
        return False
    rows = [row if isinstance(row, dict) else {} for row in devices]
    return len({row.get("class") for row in rows}) == len(rows) and all(_is_row(row) for row in rows)


def _is_row(row: dict[str, Any]) -> bool:
    """Whether the values are such that no check could refuse them."""
    if not row.get("class") or not row.keys() <= _KEYS.keys():
        return False
    is_typed = all(type(value) is _KEYS[key] for key, value in row.items())
    return (
        is_typed
        and 0 < row.get("speed", 1.0) < 1e300
        and all(1 <= row.get(key, 1) <= 1000 for key in ("count", "batch"))
    )


def _simple(name: str, rows: list[dict[str, Any]]) -> Cluster:
    counts = [row.get("count", 1) for row in rows]
    classes = tuple(
        DeviceClass(row["class"], speed=row.get("speed", 1.0), batch=row.get("batch", 1)) for row in rows
    )
    num = sum(counts)
    return Cluster(
        classes,
        np.repeat(np.arange(len(rows), dtype=np.int32), counts),
        np.arange(num, dtype=np.int32),
        np.zeros(num, np.int32),
        np.zeros((1, 1)),
        np.full((1, 1), np.inf),
        name=name,
    )
