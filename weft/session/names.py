"""Names of tasks, devices and branches, looked up with errors that say the event and the field."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from weft.errors import InputError
from weft.model.graph import ALWAYS
from weft.model.problem import Problem
from weft.session.messages import Name


class Names:
    """What is called what in one problem; a device of several slots is several lanes."""

    def __init__(self, problem: Problem) -> None:
        graph, cluster = problem.graph, problem.cluster
        self.tasks = graph.names
        devices = np.repeat(np.arange(cluster.num_devices), cluster.slots).tolist()
        self.lane_names = [cluster.device_names[d] for d in devices]
        self._index, self._device_index = graph.index, cluster.device_index
        self._device_lanes: list[list[int]] = [[] for _ in range(cluster.num_devices)]
        for lane, device in enumerate(devices):
            self._device_lanes[device].append(lane)
        self._targets: list[dict[int, int]] = []
        """Of every task: target to place among its edges, of the edges in branches."""
        self._groups: list[dict[int, int]] = []
        """Of every task: place of an edge to its branch."""
        pointer = graph.successor_pointer.tolist()
        for first, last in pairwise(pointer):
            places = [k for k in range(last - first) if graph.branch[first + k] != ALWAYS]
            self._targets.append({int(graph.targets[first + k]): k for k in places})
            self._groups.append({k: int(graph.branch[first + k]) for k in places})

    def node(self, event: str, task: Name) -> int:
        """Number of a task."""
        if isinstance(task, str) and task in self._index:
            return self._index[task]
        if type(task) is int and 0 <= task < len(self.tasks):
            return task
        raise InputError(f"no task {task!r} in the graph", field=f"{event}.task")

    def lanes(self, event: str, device: Name) -> list[int]:
        """Lanes of a device."""
        if isinstance(device, str) and device in self._device_index:
            return self._device_lanes[self._device_index[device]]
        if type(device) is int and 0 <= device < len(self._device_lanes):
            return self._device_lanes[device]
        raise InputError(f"no device {device!r} in the cluster", field=f"{event}.device")

    def edges(self, event: str, node: int, branch: Name | Sequence[Name] | None) -> list[int]:
        """Places of the edges that are taken, one for each branch of a task."""
        groups, field = self._groups[node], f"{event}.branch"
        if not groups and branch is None:
            return []
        given = () if branch is None else (branch,) if isinstance(branch, str | int) else branch
        taken: dict[int, int] = {}
        for name in given:
            target = self.node(event, name)
            place = self._targets[node].get(target)
            if place is None:
                raise InputError(
                    f"no branch of {self.tasks[node]!r} leads to {self.tasks[target]!r}", field=field
                )
            if groups[place] in taken:
                raise InputError(f"two ways out of one branch of {self.tasks[node]!r}", field=field)
            taken[groups[place]] = place
        for place, group in groups.items():
            if group not in taken:
                ways = [self.tasks[t] for t, k in self._targets[node].items() if groups[k] == group]
                if len(ways) > 1:
                    raise InputError(
                        f"expected which of {', '.join(ways)} follows {self.tasks[node]!r}", field=field
                    )
                taken[group] = place
        return list(taken.values())
