"""With fixed units and constant rates the elastic kernel does what the event kernel of single tasks does."""

from __future__ import annotations

import numpy as np
import pytest

from weft import catalog
from weft.kinds import ELASTIC
from weft.model.cluster import Cluster, DeviceClass
from weft.model.elastic import ElasticProblem, TaskType
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Objective, Problem, realise
from weft.model.validate import validate
from weft.schedulers.allocators.protocol import Allocation
from weft.schedulers.allocators.running import run_all

NAMES = ("cpu", "gpu")


def random_problem(seed: int, num_clusters: int) -> ElasticProblem:
    """Types with drawn units and rates of 1, 1/2, 1/4 and 1/8, which add up exactly."""
    rng = np.random.default_rng(seed)
    types = []
    for k in range(4):
        units = (int(rng.integers(1, 5)), int(rng.integers(0, 4)))
        types.append(TaskType(f"t{k}", units, units, np.zeros((1, 1)), np.full((1, 1), 0.5**k)))
    capacity = rng.integers(4, 10, (num_clusters, 2))
    return ElasticProblem(
        capacity,
        tuple(types),
        60,
        1.2 * num_clusters,
        stepping="multi",
        conflicts="lowest",
        num_slots=60,
        pending="earliest",
    )


class InTurn:
    """Clusters in turn take the first of their tasks that fits and is not taken."""

    name = "in-turn"

    def begin(self, problem, seeds):
        return self

    def decide(self, sight):
        num_clusters = sight.slot.shape[1]
        slot, units = np.full((1, num_clusters), -1), np.zeros((1, num_clusters, 2), np.int64)
        taken: set[int] = set()
        for n in range(num_clusters):
            for k, row in enumerate(sight.slot[0, n].tolist()):
                if row >= 0 and row not in taken and (sight.least[0, row] <= sight.most[0, n]).all():
                    slot[0, n], units[0, n] = k, sight.least[0, row]
                    taken.add(row)
                    break
        return Allocation(slot, units, np.ones(slot.shape))


class InTurnByEvents:
    """The same on single tasks; sets with the earliest tasks hold them in order of arrival."""

    name = "in-turn-by-events"

    def __init__(self) -> None:
        self._running: list[tuple[float, int, np.ndarray]] = []

    def decide(self, view):
        self._running = [one for one in self._running if one[0] > view.now]
        free = [
            np.array([device.device_class.capacity[name] for name in NAMES])
            - sum((held for _, number, held in self._running if number == device.number), np.zeros(2))
            for device in view.devices
        ]
        waiting = {task.job.name: task for task in view.ready}
        starts, any_placed = [], True
        while any_placed:
            any_placed = False
            claimed: list[str] = []
            for device in view.devices:
                for name, task in sorted(waiting.items()):
                    if name in claimed or device.device_class.name not in task.job.eligible:
                        continue
                    need = task.job.graph.demands[0]
                    if (need <= free[device.number]).all():
                        starts.append((task, device))
                        claimed.append(name)
                        free[device.number] = free[device.number] - need
                        self._running.append((view.now + view.run_time(task, device), device.number, need))
                        any_placed = True
                        break
            for name in claimed:
                del waiting[name]
        return starts


def as_tasks(problem: ElasticProblem, run) -> Problem:
    """Every elastic task as a job of one task, released when it arrives, on devices it is connected to."""
    classes = [
        DeviceClass(f"c{n}", slots=1000, capacity=dict(zip(NAMES, map(float, have), strict=True)))
        for n, have in enumerate(problem.capacity.tolist())
    ]
    jobs = []
    for j, (arrival, kind, links) in enumerate(zip(run.arrival, run.kind, run.links, strict=True)):
        one = problem.types[int(kind)]
        graph = TaskGraph(
            [float(one.steps(one.least))], resources=NAMES, demands=[list(map(float, one.least))]
        )
        eligible = tuple(f"c{n}" for n in range(problem.num_clusters) if (int(links) >> n) & 1)
        jobs.append(Job(graph, f"j{j:03}", float(arrival), eligible=eligible))
    return Problem(jobs, Cluster.uniform(classes, [1] * len(classes)), Objective("mean_jct", copies=False))


@pytest.mark.parametrize("num_clusters", [1, 2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_fixed_units_and_constant_rates_are_single_tasks(seed: int, num_clusters: int):
    problem = random_problem(seed, num_clusters)
    run = run_all(catalog.find(InTurn(), ELASTIC), problem, [seed])[0]
    tasks = as_tasks(problem, run)
    dispatcher = catalog.task_dispatcher(InTurnByEvents())
    (found,) = dispatcher.run_all([tasks], [realise(tasks, 0)], [0])
    assert list(validate(found)) == []
    by_task = np.argsort(found.task)
    assert found.start[by_task].tolist() == run.start.tolist()
    assert found.finish[by_task].tolist() == run.finish.tolist()
