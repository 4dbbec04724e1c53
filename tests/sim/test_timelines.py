"""Timelines against a slow twin in plain Python, with slots, memory, releases and eligible devices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import SEEDS, make_problem

from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Problem
from weft.schedulers.base import Limit
from weft.schedulers.planners.lists import Heft, HeftAppend, ListPlanner, Lookahead, MinMin, heft_rank
from weft.sim.arrays import Arrays, compile_problem
from weft.sim.timeline.list_planning import list_order
from weft.sim.timeline.timelines import new_timeline


class Twin:
    """Rows per task; what a device has free is counted anew for every question."""

    def __init__(self, a: Arrays) -> None:
        self.a = a
        self.devices = range(len(a.device_class))
        self.rows: list[tuple[int, int, float, float]] = []  # task, device, start, finish

    def run(self, i: int, p: int) -> float:
        """Run time of a task on a device."""
        return float(self.a.run[i, self.a.device_class[p]])

    def may_run(self, i: int, p: int) -> bool:
        """Whether a task can and may use a device."""
        is_allowed = not self.a.allowed.size or self.a.allowed[self.a.job[i], p]
        return bool(is_allowed) and self.run(i, p) < math.inf

    def ready(self, i: int, p: int) -> float:
        """When the data of all parents placed so far is on a device."""
        a, ready = self.a, float(self.a.release[i])
        for e in range(a.pred_ptr[i], a.pred_ptr[i + 1]):
            for task, q, _, finish in self.rows:
                if task == a.pred[e]:
                    g, h = a.group[q], a.group[p]
                    moved = 0.0 if p == q else a.latency[g, h] + a.pred_data[e] * a.inverse[g, h]
                    ready = max(ready, finish + float(moved))
        return ready

    def fits(self, i: int, p: int, start: float) -> bool:
        """Whether a task has room on a device from this start to its finish."""
        mine = [row for row in self.rows if row[1] == p]
        finish = start + self.run(i, p)
        for now in [start, *(row[2] for row in mine if start < row[2] < finish)]:
            used = sum((self.a.demand[k] for k, _, s, f in mine if s <= now < f), self.a.demand[i])
            if (used > self.a.capacity[p] * (1 + 1e-9)).any():
                return False
        return True

    def earliest(self, i: int, p: int, *, insert: bool = True) -> float:
        """Earliest start of a task on a device."""
        mine = [row for row in self.rows if row[1] == p]
        ready = self.ready(i, p)
        if not insert:
            ready = max([ready, *(row[3] if self.a.is_unary[p] else row[2] for row in mine)])
        later = sorted(row[3] for row in mine if row[3] > ready)
        return next(start for start in [ready, *later] if self.fits(i, p, start))

    def best(self, i: int, *, insert: bool = True) -> tuple[float, int, float]:
        """Least finish, its device, its start."""
        found = [
            (self.earliest(i, p, insert=insert) + self.run(i, p), p, self.earliest(i, p, insert=insert))
            for p in self.devices
            if self.may_run(i, p)
        ]
        return min(found)

    def put(self, i: int, p: int, start: float) -> None:
        """Place a task."""
        self.rows.append((i, p, start, start + self.run(i, p)))

    def heft(self, order: list[int], *, insert: bool = True) -> None:
        """Every task where it finishes first."""
        for i in order:
            _, p, start = self.best(i, insert=insert)
            self.put(i, p, start)

    def lookahead(self, order: list[int]) -> None:
        """Every task where its children, placed after it, finish first."""
        for i in order:
            self.put(i, *min(self._score(i, p, order) for p in self.devices if self.may_run(i, p))[2:])

    def _score(self, i: int, p: int, order: list[int]) -> tuple[float, float, int, float]:
        start, count = self.earliest(i, p), len(self.rows)
        self.put(i, p, start)
        children = set(self.a.succ[self.a.succ_ptr[i] : self.a.succ_ptr[i + 1]].tolist())
        self.heft([j for j in order if j in children])
        score = max(row[3] for row in self.rows[count:])
        del self.rows[count:]
        return score, start + self.run(i, p), p, start

    def min_min(self) -> None:
        """Always the ready task that can finish first."""
        a, left = self.a, set(range(len(self.a.release)))
        while left:
            ready = [i for i in left if not left & set(a.pred[a.pred_ptr[i] : a.pred_ptr[i + 1]].tolist())]
            i = min(ready, key=lambda i: (self.best(i)[0], i))
            left.remove(i)
            self.heft([i])


def small_problem(seed: int) -> Problem:
    """Several jobs with whole or broken demands; no task takes no time."""
    rng = np.random.default_rng(seed)
    problem = make_problem(
        seed,
        sizes=(int(rng.integers(1, 3)), int(rng.integers(1, 16)), int(rng.integers(1, 4)), 2),
        graph_style=(str(rng.choice(["fork", "diamond", "random"])), "uniform", "uniform"),
        links=str(rng.choice(["uniform", "nodes", "matrix"])),
        is_plain=bool(rng.random() < 0.3),
        has_copies=True,
    )
    jobs = []
    for job in problem.jobs:
        graph = job.graph
        memory = graph.memory * rng.uniform(0.1, 0.9, graph.num_tasks)
        graph = graph.replaced(work=np.maximum(graph.work, 0.5), memory=memory)
        jobs.append(type(job)(graph, job.name, job.release, eligible=job.eligible))
    return problem.replaced(jobs=tuple(jobs))


@pytest.mark.parametrize("planner", [Heft(), HeftAppend(), MinMin(), Lookahead()], ids=lambda p: p.name)
def test_planner_equals_its_slow_twin(planner: ListPlanner):
    @settings(max_examples=200, deadline=None, derandomize=True)
    @given(seed=SEEDS)
    def check(seed: int) -> None:
        problem = small_problem(seed)
        a = compile_problem(problem)
        order = list_order(a, heft_rank(problem, a)).tolist()
        twin = Twin(a)
        if isinstance(planner, MinMin):
            twin.min_min()
        elif isinstance(planner, Lookahead):
            twin.lookahead(order)
        else:
            twin.heft(order, insert=planner.insert)
        plan = planner.plan(problem)
        rows = sorted(zip(plan.task.tolist(), plan.device.tolist(), plan.start.tolist(), strict=True))
        assert rows == [pytest.approx(row[:3], rel=1e-12) for row in sorted(twin.rows)]

    check()


@pytest.mark.parametrize("slots", [1, 2])
@settings(max_examples=50, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_min_min_without_edges_equals_its_slow_twin(slots: int, seed: int):
    """Few and broken run times, so that finishes tie exactly and by rounding."""
    rng = np.random.default_rng(seed)
    work = rng.choice([0.1, 0.2, 0.3, 0.1 + 0.2, 0.5, 1.0, 3.0], int(rng.integers(1, 25)))
    classes = (DeviceClass("slow", slots=slots), DeviceClass("fast", 2.0), DeviceClass("odd", 3.0))
    cluster = Cluster.uniform(classes, [int(n) for n in rng.integers(1, 3, 3)])
    problem = Problem(TaskGraph(work), cluster)
    twin = Twin(compile_problem(problem))
    twin.min_min()
    plan = MinMin().plan(problem)
    rows = sorted(zip(plan.task.tolist(), plan.device.tolist(), plan.start.tolist(), strict=True))
    assert rows == sorted(row[:3] for row in twin.rows)


def test_lookahead_on_broken_demands_keeps_to_its_room():
    """Adding and taking back 0.1 and 0.2 leaves rounding behind; no step may stay because of it."""
    rng = np.random.default_rng(0)
    n = 400
    sources = np.concatenate([rng.choice(j, min(j, 3), replace=False) for j in range(1, n)])
    targets = np.repeat(np.arange(1, n), np.minimum(np.arange(1, n), 3))
    graph = TaskGraph(
        rng.uniform(1.0, 10.0, n),
        sources,
        targets,
        rng.uniform(0.0, 5.0, len(sources)),
        memory=rng.uniform(0.01, 0.4, n),
    )
    cluster = Cluster.uniform((DeviceClass("cpu", slots=8, memory=1.0),), (3,), bandwidth=1.0)
    problem = Problem(graph, cluster)
    a = compile_problem(problem)
    t = new_timeline(a, Lookahead().extra_rows(a))
    Lookahead().place(problem, a, t, 0, Limit())
    assert t.top[1] <= len(t.step_time)
    assert t.size.sum() <= 2 * n + len(t.size)
