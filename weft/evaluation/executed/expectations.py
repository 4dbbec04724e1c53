"""What was expected of a run: run times of tasks on devices, and how long data travels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weft.evaluation.executed.records import Key, Name, Placed
from weft.evaluation.executed.story import Story
from weft.model.graph import TaskGraph
from weft.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Expectations:
    """The problem of a run, as far as it is known, and its first plan."""

    story: Story
    problem: Problem | None

    @cached_property
    def device_class(self) -> dict[str, str]:
        """Class of every device."""
        return {one["name"]: str(one.get("class", "")) for one in self.story.head["devices"]}

    @cached_property
    def slots(self) -> dict[str, int]:
        """Slots of every device."""
        return {one["name"]: int(one.get("slots", 1)) for one in self.story.head["devices"]}

    @cached_property
    def _jobs(self) -> dict[Name, int]:
        jobs = () if self.problem is None else self.problem.jobs
        return {job.name: j for j, job in enumerate(jobs)}

    @cached_property
    def _data(self) -> dict[tuple[Name, str, str], float]:
        """Bytes on every edge."""
        found: dict[tuple[Name, str, str], float] = {}
        for job in () if self.problem is None else self.problem.jobs:
            graph, names = job.graph, job.graph.names
            for a, b, data in zip(
                graph.sources.tolist(), graph.targets.tolist(), graph.data.tolist(), strict=True
            ):
                found[job.name, names[a], names[b]] = data
        return found

    def kind(self, key: Key) -> str:
        """Kind of a task."""
        graph = None if self.problem is None or key[0] not in self._jobs else self._graph(key[0])
        if self.story.kinds[key] or graph is None or key[1] not in graph.index:
            return self.story.kinds[key]
        return graph.kinds[int(graph.kind[graph.index[key[1]]])]

    def _graph(self, job: Name) -> TaskGraph:
        assert self.problem is not None
        return self.problem.jobs[self._jobs[job]].graph

    def num_slots(self, key: Key) -> int:
        """Slots that a task takes."""
        if key[0] not in self._jobs:
            return 1
        graph = self._graph(key[0])
        return int(graph.slots[graph.index[key[1]]]) if key[1] in graph.index else 1

    def overhead(self, device: str) -> float:
        """What plans allow on a device for every task besides its run time."""
        if self.problem is None or device not in self.problem.cluster.device_index:
            return 0.0
        c = int(self.problem.cluster.device_class[self.problem.cluster.device_index[device]])
        return float(self.problem.cluster.overheads_in(self.problem.time_unit)[c])

    def run_time(self, key: Key, device: str) -> float | None:
        """Run time that was expected of a task on a device, without overhead: by the first plan, if of the same class."""
        whole = self._whole_time(key, device)
        return None if whole is None else max(whole - self.overhead(device), 0.0)

    def _whole_time(self, key: Key, device: str) -> float | None:
        planned: Placed | None = self.story.planned.get(key)
        own = self.device_class.get(device)
        if planned is not None and self.device_class.get(planned.device) == own:
            return planned.length
        if (
            self.problem is None
            or key[0] not in self._jobs
            or device not in self.problem.cluster.device_index
        ):
            return None
        number = self._graph(key[0]).index.get(key[1])
        if number is None:
            return None
        c = int(self.problem.cluster.device_class[self.problem.cluster.device_index[device]])
        time = float(self.problem.run_times[int(self.problem.offsets[self._jobs[key[0]]]) + number, c])
        return time if np.isfinite(time) else None

    def transfer(self, job: Name, parent: str, child: str, source: str, target: str) -> float:
        """How long the data of an edge travels between two devices; 0 where nothing is known."""
        data = self._data.get((job, parent, child))
        if data is None or self.problem is None or source == target:
            return 0.0
        index = self.problem.cluster.device_index
        if source not in index or target not in index:
            return 0.0
        return self.problem.transfer_time(index[source], index[target], data)
