"""Names of tasks, devices and branches, looked up with errors that say the event and the field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise

import numpy as np

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.graph import ALWAYS, Ints, TaskGraph
from weft.session.messages import Name


class DeviceNames:
    """Lanes of a cluster: a device that runs several tasks apart from one another has several."""

    def __init__(self, cluster: Cluster, lane_device: Ints) -> None:
        self.of_lane = [cluster.device_names[device] for device in lane_device.tolist()]
        self._index = cluster.device_index
        self._lanes: list[list[int]] = [[] for _ in range(cluster.num_devices)]
        for lane, device in enumerate(lane_device.tolist()):
            self._lanes[device].append(lane)

    def lanes(self, event: str, device: Name) -> list[int]:
        """Lanes of a device."""
        if isinstance(device, str) and device in self._index:
            return self._lanes[self._index[device]]
        if type(device) is int and 0 <= device < len(self._lanes):
            return self._lanes[device]
        raise InputError(f"no device {device!r} in the cluster", field=f"{event}.device")


class TaskNames:
    """Tasks and branches of one graph."""

    def __init__(self, graph: TaskGraph) -> None:
        self.of_node = graph.names
        self._index = graph.index
        self._targets: list[dict[int, int]] = []  # of every task: target to place, for edges in branches
        self._groups: list[dict[int, int]] = []  # of every task: place of an edge to its branch
        for first, last in pairwise(graph.successor_pointer.tolist()):
            places = [k for k in range(last - first) if graph.branch[first + k] != ALWAYS]
            self._targets.append({int(graph.targets[first + k]): k for k in places})
            self._groups.append({k: int(graph.branch[first + k]) for k in places})

    def node(self, event: str, task: Name, field: str = "task") -> int:
        """Number of a task within the graph."""
        if isinstance(task, str) and task in self._index:
            return self._index[task]
        if type(task) is int and 0 <= task < len(self.of_node):
            return task
        raise InputError(f"no task {task!r} in the graph", field=f"{event}.{field}")

    def edges(self, event: str, node: int, branch: Name | Sequence[Name] | None) -> list[int]:
        """Places, among the edges of a task, of those that are taken: one for each of its branches."""
        groups = self._groups[node]
        if not groups and branch is None:
            return []
        given = () if branch is None else (branch,) if isinstance(branch, str | int) else branch
        taken: dict[int, int] = {}
        for name in given:
            place = self._place(event, node, name)
            if groups[place] in taken:
                raise InputError(
                    f"two ways out of one branch of {self.of_node[node]!r}", field=f"{event}.branch"
                )
            taken[groups[place]] = place
        for place, group in groups.items():
            if group not in taken:
                self._refuse_open(event, node, group)
                taken[group] = place
        return list(taken.values())

    def _place(self, event: str, node: int, name: Name) -> int:
        """Place of the edge of a branch that leads to this task."""
        target = self.node(event, name, "branch")
        if target not in self._targets[node]:
            names = self.of_node
            raise InputError(
                f"no branch of {names[node]!r} leads to {names[target]!r}", field=f"{event}.branch"
            )
        return self._targets[node][target]

    def _refuse_open(self, event: str, node: int, group: int) -> None:
        """It was not said which way a branch goes, and there is more than one."""
        ways = [self.of_node[t] for t, k in self._targets[node].items() if self._groups[node][k] == group]
        if len(ways) > 1:
            raise InputError(
                f"expected which of {', '.join(ways)} follows {self.of_node[node]!r}", field=f"{event}.branch"
            )


def descendants(graph: TaskGraph, node: int) -> list[int]:
    """All tasks that need the result of this one, in order."""
    found, left = set[int](), [node]
    while left:
        new = set(graph.successors(left.pop()).tolist()) - found
        found |= new
        left += new
    return sorted(found)


def is_same_graph(one: TaskGraph, other: TaskGraph) -> bool:
    """Whether two graphs have the same tasks and edges, whatever they are called."""
    if one is other:
        return True
    columns = [f.name for f in fields(TaskGraph) if f.name not in ("name", "metadata")]
    return all(_is_same(getattr(one, name), getattr(other, name)) for name in columns)


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())
    return one == other
