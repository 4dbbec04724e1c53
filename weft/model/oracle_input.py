"""What the oracle looks at: schedule, problem and realisation as plain lists.

Run times and transfers are worked out here from the fields of graphs and device classes, on
purpose not by the properties that schedulers and kernels use.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

from weft.errors import InputError
from weft.model.cluster import DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Problem, Realisation
from weft.model.schedule import DONE, Schedule

SECONDS_PER = {"s": 1.0, "unit": 1.0, "ms": 0.001, "us": 0.000001, "min": 60.0, "h": 3600.0}
"""Links are in seconds, run times in the unit of their graph."""
CLOSE = 1e-9
"""How far before a whole number of steps a time may be and still belong to the next one."""


class OracleInput:
    """Schedule, problem and realisation as plain lists."""

    def __init__(self, schedule: Schedule, problem: Problem, realisation: Realisation | None) -> None:
        self.problem, self.cluster = problem, problem.cluster
        self.task: list[int] = schedule.task.tolist()
        self.device: list[int] = schedule.device.tolist()
        self.start: list[float] = schedule.start.tolist()
        self.finish: list[float] = schedule.finish.tolist()
        self.copy: list[int] = schedule.copy.tolist()
        self.attempt: list[int] = schedule.attempt.tolist()
        self.batch: list[int] = schedule.batch.tolist()
        self.launch: list[int] = schedule.launch.tolist()
        self.outcome: list[int] = schedule.outcome.tolist()
        self.units: list[list[float]] = schedule.units.tolist()
        self.graphs: list[TaskGraph] = [job.graph for job in problem.jobs]
        self.origin = min(job.release for job in problem.jobs)
        self.job = [j for j, graph in enumerate(self.graphs) for _ in range(graph.num_tasks)]
        self.first = [0]
        for graph in self.graphs:
            self.first.append(self.first[-1] + graph.num_tasks)
        self.work = [x for graph in self.graphs for x in graph.work.tolist()]
        self.slots = [x for graph in self.graphs for x in graph.slots.tolist()]
        self.memory = [x for graph in self.graphs for x in graph.memory.tolist()]
        self.kind = [graph.kinds[k] for graph in self.graphs for k in graph.kind.tolist()]
        self.curve = [x for graph in self.graphs for x in graph.curve.tolist()]
        self.class_of: list[int] = self.cluster.device_class.tolist()
        self.group: list[int] = self.cluster.link_group.tolist()
        self.latency: list[list[float]] = self.cluster.latency.tolist()
        self.bandwidth: list[list[float]] = self.cluster.bandwidth.tolist()
        self.second = 1.0 / SECONDS_PER[self.graphs[0].time_unit]
        self.taken = self._taken(realisation)
        self.realised = None if realisation is None else realisation.run_times.tolist()
        self.jitter = None if realisation is None else realisation.jitter

    def _taken(self, realisation: Realisation | None) -> list[list[bool]]:
        if realisation is not None:
            return [edges.tolist() for edges in realisation.taken]
        for job in self.problem.jobs:
            if job.graph.is_conditional:
                raise InputError(f"job {job.name!r} has conditional branches: judging it needs a realisation")
        return [[True] * graph.num_edges for graph in self.graphs]

    def task_name(self, task: int) -> str:
        """Display name of a task."""
        return self.problem.task_name(task) if 0 <= task < len(self.work) else f"#{task}"

    def fault(self, row: int) -> tuple[str, str] | None:
        """Rule and detail where a row makes no sense in itself; None if it does."""
        start, finish = self.start[row], self.finish[row]
        if not 0 <= self.task[row] < len(self.work):
            return "task", f"expected a task number below {len(self.work)}"
        if not -1 <= self.device[row] < len(self.class_of):
            return "device", f"expected a device number below {len(self.class_of)}"
        if self.device[row] < 0:
            return ("device", "is done without a device") if self.outcome[row] == DONE else None
        if not (math.isfinite(start) and math.isfinite(finish) and start <= finish):
            return "numbers", f"expected finite start <= finish, got {start} and {finish}"
        return None

    @cached_property
    def good(self) -> list[int]:
        """Rows whose numbers, task and device make sense; the other rules look at these only."""
        return [row for row in range(len(self.task)) if self.fault(row) is None]

    @cached_property
    def ran(self) -> list[int]:
        """Good rows that held a device."""
        return [row for row in self.good if self.device[row] >= 0]

    @cached_property
    def rows_of(self) -> dict[int, list[int]]:
        """Rows per task, of those that held a device, in time order."""
        rows: dict[int, list[int]] = {}
        for row in self.ran:
            rows.setdefault(self.task[row], []).append(row)
        return rows

    def executions(self, task: int) -> list[list[int]]:
        """Rows of each execution of a task: one row, or several if it is elastic."""
        rows = self.rows_of.get(task, [])
        if self.curve[task] < 0:
            return [[row] for row in rows]
        groups: dict[tuple[int, int], list[int]] = {}
        for row in rows:
            groups.setdefault((self.copy[row], self.attempt[row]), []).append(row)
        return list(groups.values())

    @cached_property
    def runs(self) -> list[bool]:
        """Whether each task runs: it has no parents, or a taken edge from one that runs."""
        runs: list[bool] = []
        for graph, taken in zip(self.graphs, self.taken, strict=True):
            inner = [True] * graph.num_tasks
            for target in graph.targets.tolist():
                inner[target] = False
            sources, targets = graph.sources.tolist(), graph.targets.tolist()
            pointer = graph.successor_pointer.tolist()
            for i in graph.order.tolist():
                for e in range(pointer[i], pointer[i + 1]):
                    inner[targets[e]] |= taken[e] and inner[sources[e]]
            runs += inner
        return runs

    @cached_property
    def batches(self) -> dict[tuple[int, int], list[int]]:
        """Rows per (device, batch)."""
        groups: dict[tuple[int, int], list[int]] = {}
        for row in self.ran:
            if self.batch[row] >= 0:
                groups.setdefault((self.device[row], self.batch[row]), []).append(row)
        return groups

    def together(self, row: int) -> list[int]:
        """The rows that share this row's batch, itself included."""
        return [row] if self.batch[row] < 0 else self.batches[self.device[row], self.batch[row]]

    def expected(self, task: int, class_index: int) -> float:
        """Run time of a task on a class, its overhead included; infinity where it cannot run."""
        device_class = self.cluster.classes[class_index]
        if self.unfit(task, device_class):
            return math.inf
        if self.realised is not None:
            return self.realised[task][class_index]
        return self._alone(task, device_class) + self.overhead(class_index)

    @cached_property
    def launches(self) -> dict[int, list[int]]:
        """Rows per launch, in time order."""
        groups: dict[int, list[int]] = {}
        for row in self.ran:
            if self.launch[row] >= 0:
                groups.setdefault(self.launch[row], []).append(row)
        for rows in groups.values():
            rows.sort(key=lambda row: (self.start[row], self.finish[row]))
        return groups

    def through(self, row: int) -> float:
        """When what a row made is there: at its end, or at that of its launch."""
        rows = [row] if self.launch[row] < 0 else self.launches[self.launch[row]]
        return max(self.finish[one] for one in rows)

    def share_taken(self, row: int) -> float:
        """Share of its run time that a row takes: less where it follows another within a launch."""
        if self.launch[row] < 0 or self.launches[self.launch[row]][0] == row:
            return 1.0
        return 1.0 - self.share_saved(self.task[row], self.class_of[self.device[row]])

    def share_saved(self, task: int, class_index: int) -> float:
        """Share of its run time that a task saves within a launch on a class; 0: it cannot follow there."""
        graph, name = self.graphs[self.job[task]], self.cluster.classes[class_index].name
        if not graph.saved.size or name not in graph.classes:
            return 0.0
        return float(graph.saved[task - self.first[self.job[task]], graph.classes.index(name)])

    def overhead(self, class_index: int) -> float:
        """Time that passes for every task on a class besides its run time."""
        return self.cluster.classes[class_index].overhead * self.second

    def _alone(self, task: int, device_class: DeviceClass) -> float:
        graph = self.graphs[self.job[task]]
        if device_class.name in graph.classes:
            local = task - self.first[self.job[task]]
            given = float(graph.times[local, graph.classes.index(device_class.name)])
            if not math.isnan(given):
                return given
        if self.kind[task] in device_class.times:
            scale = SECONDS_PER[device_class.time_unit] * self.second if device_class.time_unit else 1.0
            return device_class.times[self.kind[task]] * scale
        speed = device_class.speeds.get(self.kind[task], device_class.speed)
        return math.inf if speed is None or math.isnan(self.work[task]) else self.work[task] / speed

    def unfit(self, task: int, device_class: DeviceClass) -> str | None:
        """What a device of this class has too little of for this task alone."""
        if self.slots[task] > device_class.slots:
            return "slots"
        if self.memory[task] > device_class.memory:
            return "memory"
        graph, local = self.graphs[self.job[task]], task - self.first[self.job[task]]
        for r, resource in enumerate(graph.resources):
            if graph.demands[local, r] > device_class.capacity.get(resource, math.inf):
                return resource
        return None

    def rate(self, row: int) -> float:
        """Progress per unit of time: the curve at the units held (all resources added up, at least 1; in a table, each)."""
        task = self.task[row]
        curve = self.graphs[self.job[task]].curves[self.curve[task]]
        if curve.ndim > 1:
            place = tuple(round(held) for held in self.units[row]) if self.units else (-1,)
            is_inside = len(place) == curve.ndim and all(
                0 <= u < n for u, n in zip(place, curve.shape, strict=True)
            )
            return float(curve[place]) if is_inside else math.nan
        units = max(1, round(sum(self.units[row]))) if self.units else 1
        return float(curve[units - 1]) if units <= len(curve) else math.nan

    def covered(self, row: int, start: float) -> float:
        """What a row covers from a time on: its rate times time, in each step with the draw of that step."""
        task, rate, end = self.task[row], self.rate(row), self.finish[row]
        half = float(self.graphs[self.job[task]].jitter[self.curve[task]])
        if self.jitter is None or half == 0.0 or rate == 0.0:
            return rate * (end - start)
        step = math.floor(start / self.jitter.step + CLOSE)
        total, at = 0.0, start
        while at < end:
            upto = min(end, (step + 1) * self.jitter.step)
            total += max(0.0, rate + half * self.jitter.draw(task, step)) * (upto - at)
            at, step = upto, step + 1
        return total

    def course(self, task: int) -> float:
        """How much more than its run time at rate 1 a task takes, for its rate changes with its progress."""
        courses = self.graphs[self.job[task]].courses
        if not courses.size:
            return 1.0
        factors = courses[self.curve[task]].tolist()
        return sum(1.0 / factor for factor in factors) / len(factors)

    def lost(self, row: int, before: int) -> float:
        """Time without progress at the start of a row, where units are others than in the row before."""
        task = self.task[row]
        is_same = not self.units or self.units[row] == self.units[before]
        return 0.0 if is_same else float(self.graphs[self.job[task]].switching[self.curve[task]])

    def held(self, row: int) -> dict[str, float]:
        """What a row holds of its device, by name: slots, memory, and each resource."""
        task = self.task[row]
        graph, local = self.graphs[self.job[task]], task - self.first[self.job[task]]
        held = {"slots": float(self.slots[task]), "memory": self.memory[task]}
        if graph.resources:
            is_allocated = self.curve[task] >= 0 and bool(self.units)
            amounts = self.units[row] if is_allocated else graph.demands[local].tolist()
            held |= {f"resource {name}": x for name, x in zip(graph.resources, amounts, strict=False)}
        return held

    def transfer(self, source: int, target: int, data: float) -> float:
        """Time the data of an edge takes between two devices."""
        if source == target:
            return 0.0
        a, b = self.group[source], self.group[target]
        seconds = self.latency[a][b] + (data / self.bandwidth[a][b] if data > 0 else 0.0)
        return seconds * self.second

    def edges(self) -> Iterator[tuple[int, int, float]]:
        """(parent, child, data) of every taken edge from a task that runs."""
        for j, graph in enumerate(self.graphs):
            columns = (graph.sources.tolist(), graph.targets.tolist(), graph.data.tolist(), self.taken[j])
            for source, target, data, taken in zip(*columns, strict=True):
                if taken and self.runs[self.first[j] + source]:
                    yield self.first[j] + source, self.first[j] + target, data

    def first_arrival(self, parent: int, device: int, data: float) -> tuple[float, int]:
        """When the data of an edge can be on a device, and the row it comes from (-1: none)."""
        best, origin = math.inf, -1
        for rows in self.executions(parent):
            last = max(rows, key=self.finish.__getitem__) if len(rows) > 1 else rows[0]
            arrival = self.finish[last] + self.transfer(self.device[last], device, data)
            if self.outcome[last] == DONE and (origin < 0 or arrival < best):
                best, origin = arrival, last
        return best, origin
