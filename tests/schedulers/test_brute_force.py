"""A tiny oracle: the best makespan without copies by trying all orders and devices."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from strategies import make_cluster, make_graph

from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Problem
from weft.schedulers.planners.lists import Heft, Random


@dataclass
class Search:
    """Depth-first over (next task, device); tasks are placed in the order of their starts."""

    problem: Problem
    best: float = math.inf
    placed: dict[int, tuple[int, float, float]] = field(default_factory=dict)  # device, start, finish

    def __post_init__(self) -> None:
        problem, cluster = self.problem, self.problem.cluster
        self.parents: list[list[tuple[int, float]]] = [[] for _ in range(problem.num_tasks)]
        self.demands: list[dict[str, float]] = []
        for j, job in enumerate(problem.jobs):
            graph, first = job.graph, int(problem.offsets[j])
            for s, t, data in zip(graph.sources, graph.targets, graph.data, strict=True):
                self.parents[first + int(t)].append((first + int(s), float(data)))
            for i in range(graph.num_tasks):
                named = dict(zip(graph.resources, graph.demands[i].tolist(), strict=True))
                self.demands.append({"slots": int(graph.slots[i]), "memory": float(graph.memory[i]), **named})
        self.limits = [
            {"slots": c.slots, "memory": c.memory, **c.capacity}
            for c in (cluster.classes[k] for k in cluster.device_class)
        ]

    def run(self, last: float = 0.0) -> float:
        """The best makespan that continues what is placed; no later start is below ``last``."""
        if len(self.placed) == self.problem.num_tasks:
            self.best = min(self.best, max((finish for *_, finish in self.placed.values()), default=0.0))
        for i in range(self.problem.num_tasks):
            if i in self.placed or any(k not in self.placed for k, _ in self.parents[i]):
                continue
            for d in range(self.problem.cluster.num_devices):
                self._try(i, d, last)
        return self.best

    def _try(self, i: int, d: int, last: float) -> None:
        cluster, job = self.problem.cluster, int(self.problem.job_of[i])
        run = float(self.problem.run_times[i, cluster.device_class[d]])
        is_allowed = not self.problem.eligible.size or bool(self.problem.eligible[job, d])
        if not is_allowed or not math.isfinite(run):
            return
        start = self._earliest(i, d, run, self._ready(i, d))
        if start >= last and start + run < self.best:
            self.placed[i] = (d, start, start + run)
            self.run(start)
            del self.placed[i]

    def _ready(self, i: int, d: int) -> float:
        transfer = self.problem.cluster.transfer_time
        arrivals = [self.placed[k][2] + transfer(self.placed[k][0], d, data) for k, data in self.parents[i]]
        return max([self.problem.jobs[self.problem.job_of[i]].release, *arrivals])

    def _earliest(self, i: int, d: int, run: float, ready: float) -> float:
        if run == 0:
            return ready
        rows = [(k, s, f) for k, (device, s, f) in self.placed.items() if device == d and f > s]
        for at in sorted([ready, *(f for *_, f in rows if f > ready)]):
            busy = [k for k, s, f in rows if s < at + run and f > at]
            moments = [at, *(s for _, s, f in rows if at <= s < at + run)]
            if not busy or all(self._fits(i, d, [k for k, s, f in rows if s <= t < f]) for t in moments):
                return at
        raise AssertionError("a device is free after its last finish")

    def _fits(self, i: int, d: int, running: list[int]) -> bool:
        return all(
            sum(self.demands[k].get(name, 0.0) for k in (i, *running)) <= limit * (1 + 1e-9)
            for name, limit in self.limits[d].items()
        )


def brute_force(problem: Problem) -> float:
    """The least makespan of any schedule without copies; for at most about 6 tasks."""
    start = Heft().plan(problem)
    first = min(job.release for job in problem.jobs)
    return Search(problem, (start.makespan + first) * (1 + 1e-9) + 1e-9).run() - first


def test_brute_force_sees_that_a_transfer_is_not_worth_it(fork_problem: Problem):
    assert brute_force(fork_problem) == 21.0


def test_brute_force_shares_slots():
    cluster = Cluster.uniform([DeviceClass("cpu", slots=2)], [1])
    assert brute_force(Problem(TaskGraph([3.0, 2.0, 1.0, 4.0], slots=[1, 1, 1, 2]), cluster)) == 7.0


def test_brute_force_waits_for_releases():
    cluster = Cluster.uniform([DeviceClass("cpu")], [1])
    jobs = [Job(TaskGraph([2.0]), "a", release=1.0), Job(TaskGraph([1.0]), "b", release=5.0)]
    assert brute_force(Problem(jobs, cluster)) == 5.0


@pytest.mark.parametrize("seed", range(5))
def test_brute_force_is_never_above_a_planner(seed: int):
    graph = make_graph(seed, 5, "random", "uniform", "uniform")
    problem = Problem(graph, make_cluster(seed, 3, 2, "matrix", is_plain=True))
    best = brute_force(problem)
    for planner in (Heft(), Random()):
        assert best <= planner.plan(problem, seed=seed).makespan * (1 + 1e-9)
