"""Launches: tasks of one chain that are started together and run as one, on one device.

Of a launch the first task takes its run time; every further one saves a share of its own (``TaskGraph.saved``). Nothing runs in between,
nothing is handed on in between, and what a launch has made is there when it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from weft.model.columns import ALWAYS, Floats, Ints

if TYPE_CHECKING:
    from weft.model.cluster import Cluster
    from weft.model.graph import TaskGraph


def parent_in_chain(graph: TaskGraph) -> Ints:
    """The only parent of every task, where the task is its only child and always follows; -1: there is none."""
    sources, targets = graph.sources.astype(np.int64), graph.targets.astype(np.int64)
    out = np.bincount(sources, minlength=graph.num_tasks)
    into = np.bincount(targets, minlength=graph.num_tasks)
    links = (out[sources] == 1) & (into[targets] == 1) & (graph.branch == ALWAYS)
    found = np.full(graph.num_tasks, -1, np.int64)
    found[targets[links]] = sources[links]
    return found


def saved_on(graph: TaskGraph, cluster: Cluster) -> Floats:
    """Share of its run time that every task saves within a launch, on every class of a cluster; (num_tasks, num_classes)."""
    table = np.zeros((graph.num_tasks, cluster.num_classes))
    for c, device_class in enumerate(cluster.classes):
        if graph.saved.size and device_class.name in graph.classes:
            table[:, c] = graph.saved[:, graph.classes.index(device_class.name)]
    return table
