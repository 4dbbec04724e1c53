"""Stated run times of the tasks of a graph on the classes of a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.graph import Bools, Floats, TaskGraph

INFINITE = float("inf")


def run_times_on(graph: TaskGraph, cluster: Cluster) -> Floats:
    """Run time of every task on every class, infinity where it cannot run; (num_tasks, num_classes).

    The first that is given of: times per class, times per kind, speed per kind, speed; and the overhead of the class.
    """
    overhead = cluster.overheads_in(graph.time_unit).tolist()
    table = np.full((graph.num_tasks, cluster.num_classes), np.nan)
    column = {name: i for i, name in enumerate(graph.classes)}
    explicit = ~np.isnan(graph.times).all(axis=1) & np.isnan(graph.work)
    kinds_used = np.unique(graph.kind).tolist()
    for c, device_class in enumerate(cluster.classes):
        by_kind = np.full((len(graph.kinds), 2), np.nan)  # constant time, inverse speed
        constant = device_class.times_in(graph.time_unit)
        for k in kinds_used:
            kind = graph.kinds[k]
            by_kind[k, 0] = constant.get(kind, np.nan)
            by_kind[k, 1] = 1.0 / device_class.speeds.get(kind, device_class.speed or np.nan)
        times = np.where(
            np.isnan(by_kind[graph.kind, 0]), graph.work * by_kind[graph.kind, 1], by_kind[graph.kind, 0]
        )
        times[explicit & np.isnan(times)] = INFINITE
        if device_class.name in column:
            given = graph.times[:, column[device_class.name]]
            times = np.where(np.isnan(given), times, given)
        _refuse_unknown(times, graph, device_class.name)
        times[~_fits(graph, device_class)] = INFINITE
        table[:, c] = times + overhead[c]
    return table


def _refuse_unknown(times: Floats, graph: TaskGraph, class_name: str) -> None:
    unknown = np.flatnonzero(np.isnan(times))
    if len(unknown):
        task = graph.task(int(unknown[0]))
        raise InputError(
            f"no run time for kind {task.kind!r} (task {task.name!r}): give the class a speed, "
            f"or list the kind in its times or speeds",
            field=f"class {class_name}: times",
        )


def _fits(graph: TaskGraph, device_class: Any) -> Bools:
    fits = (graph.slots <= device_class.slots) & (graph.memory <= device_class.memory)
    for r, resource in enumerate(graph.resources):
        fits &= graph.demands[:, r] <= device_class.capacity.get(resource, INFINITE)
    result: Bools = fits
    return result
