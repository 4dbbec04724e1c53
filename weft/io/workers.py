"""Cluster files whose devices are workers of an engine, as ``weft calibrate`` writes them.

Beside the tables of a cluster file they have ``[workers]``, device -> name or address of its worker, and
``[calibration]``, how the figures were measured. Plans read neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.io import clusters, files, json_files, toml_files
from weft.io.sources import read_bytes, write_bytes
from weft.model.cluster import Cluster


def read_workers(path: str | Path) -> dict[str, str]:
    """Worker of every device that a cluster file maps; empty for one that maps none, and for a built-in name."""
    if isinstance(path, str) and not Path(path).exists() and clusters.is_builtin(path):
        return {}
    files.read_cluster(path)  # whatever is wrong with the file is said there
    return dict(_document(path).get("workers", {}))


def read_calibration(path: str | Path) -> dict[str, Any]:
    """How the figures of a cluster file were measured; empty where it does not say."""
    return dict(_document(path).get("calibration", {}))


def write_workers(
    cluster: Cluster,
    workers: Mapping[str, str],
    path: str | Path,
    calibration: Mapping[str, Any] | None = None,
) -> None:
    """Write a cluster, the worker of each device, and how it was measured, as TOML."""
    for device in workers:
        if device not in cluster.device_index:
            raise InputError(f"no device {device!r} in the cluster", field="workers")
    parts = [
        toml_files.dump_toml(clusters.cluster_document(cluster)),
        toml_files.dump_table("workers", workers),
    ]
    if calibration:
        parts.append(toml_files.dump_table("calibration", calibration))
    write_bytes(b"\n".join(parts), path)


def _document(path: str | Path) -> dict[str, Any]:
    data = read_bytes(path)
    if json_files.detect(data, Path(path)):
        return json_files.parse_json(data, path)
    return toml_files.parse_toml(data, path)
