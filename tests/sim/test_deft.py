"""DEFT while jobs run: a plain-Python twin on published examples and random problems; copies, room, lost devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedulers.test_lists import A, B, C
from strategies import LINKS, SEEDS, make_problem

from weft import catalog
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Job, Objective, Problem, expected, realise
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.scenarios import scenario
from weft.schedulers.dispatchers.outages import Outage
from weft.schedulers.dispatchers.tasks import run_one
from weft.sim.tasks.ranks import rank_of

NAMES = ("fifo-deft", "deft")
PEERS = (*NAMES, "dask-like")


def run(name: str, problem: Problem, seed: int = 0, outages: Any = ()) -> Schedule:
    return run_one(catalog.task_dispatcher(name), problem, realise(problem, seed), seed, outages)


def stream(seed: int, **changes: object) -> Problem:
    asked = {"load": 0.9, "jobs": 6, "tasks": 12, "noise": 0.3, **changes}
    return scenario("workflows", **asked).dispatched("test", 0, seed)


# -- a twin in plain Python: devices with one slot, run times as expected --------------------------------


class Twin:
    """Jobs carried out event by event; a row is [task, device, planned start, start, end]."""

    def __init__(self, problem: Problem, *, by_rank: bool) -> None:
        self.problem, self.by_rank, self.rank = problem, by_rank, rank_of(problem)
        self.run = problem.run_times[:, problem.cluster.device_class]  # (num_tasks, num_devices)
        self.parents: list[list[tuple[int, float]]] = [[] for _ in range(problem.num_tasks)]
        for j, job in enumerate(problem.jobs):
            base, graph = int(problem.offsets[j]), job.graph
            for source, target, data in zip(graph.sources, graph.targets, graph.data, strict=True):
                self.parents[base + target].append((base + int(source), float(data)))
        self.release = [problem.jobs[j].release for j in problem.job_of.tolist()]
        self.now, self.devices = 0.0, range(problem.cluster.num_devices)
        self.queue: list[list[list[float]]] = [[] for _ in self.devices]
        self.running: list[list[float] | None] = [None for _ in self.devices]
        self.rows: list[list[float]] = []

    def may_use(self, i: int, p: int) -> bool:
        allowed = self.problem.eligible
        return np.isfinite(self.run[i, p]) and (not allowed.size or allowed[self.problem.job_of[i], p])

    def ended(self, i: int) -> float:
        return min((row[4] for row in self.rows if row[0] == i and row[4] <= self.now), default=np.inf)

    def waiting(self) -> list[int]:
        placed = {row[0] for row in self.rows} | {row[0] for queue in self.queue for row in queue}
        return [
            i
            for i in range(self.problem.num_tasks)
            if i not in placed
            and self.release[i] <= self.now
            and all(self.ended(k) < np.inf for k, _ in self.parents[i])
        ]

    def transfer(self, q: int, p: int, data: float) -> float:
        latency, bandwidth = self.problem.links
        g, h = self.problem.cluster.link_group[q], self.problem.cluster.link_group[p]
        return 0.0 if q == p else latency[g, h] + data * (1.0 / bandwidth[g, h])

    def arrivals(self, i: int, p: int, *, hopes: bool) -> list[tuple[float, int]]:
        """When data of each parent is on device p; with what is only expected yet if asked for."""
        found = []
        for k, data in self.parents[i]:
            times = [
                row[4] + self.transfer(int(row[1]), p, data)
                for row in self.rows
                if row[0] == k and (hopes or row[4] <= self.now)
            ]
            times += [
                max(self.now, row[2]) + self.run[k, q] + self.transfer(q, p, data)
                for q in self.devices
                for row in self.queue[q]
                if hopes and row[0] == k
            ]
            found.append((min(times), k))
        return found

    def free_at(self, p: int) -> float:
        time = self.now if self.running[p] is None else max(self.now, self.running[p][4])
        for row in self.queue[p]:
            time = max(time, row[2]) + self.run[int(row[0]), p]
        return time

    def options(self, i: int) -> list[tuple[float, int, int, list[list[float]]]]:
        """Finish, device, whether with a copy, and the rows, for every device and with and without a copy."""
        found = []
        for p in self.devices:
            if not self.may_use(i, p):
                continue
            room, there = self.free_at(p), self.arrivals(i, p, hopes=True)
            start = max([room, self.release[i], *(time for time, _ in there)])
            found.append((start + self.run[i, p], p, 0, [[i, p, start]]))
            here = {int(row[0]) for row in (*self.rows, *self.queue[p]) if row[1] == p}
            for late, k in there:
                if k in here or late < max(time for time, _ in there) or not self.problem.objective.copies:
                    continue
                own = [time for time, _ in self.arrivals(k, p, hopes=True)]
                begins = max([room, self.release[k], *own])
                others = [time for time, parent in there if parent != k]
                start = max([room, begins + self.run[k, p], self.release[i], *others])
                found.append((start + self.run[i, p], p, 1, [[k, p, begins], [i, p, start]]))
        return found

    def decide(self) -> None:
        while (ready := self.waiting()) and any(
            self.running[p] is None and not self.queue[p] for p in self.devices
        ):
            i = min(ready, key=self.order)
            best = min(self.options(i), key=lambda option: option[:3])
            self.queue[best[1]] += [[*row, np.nan, np.inf] for row in best[3]]
            self.serve()

    def order(self, i: int) -> tuple[float, float, int]:
        since = max([self.release[i], *(self.ended(k) for k, _ in self.parents[i])])
        return self.release[i], -self.rank[i] if self.by_rank else since, i

    def ready_at(self, row: list[float]) -> float:
        i, p = int(row[0]), int(row[1])
        return max([self.release[i], *(time for time, _ in self.arrivals(i, p, hopes=False))])

    def serve(self) -> None:
        for p in self.devices:
            if self.running[p] is None and self.queue[p] and self.ready_at(self.queue[p][0]) <= self.now:
                row = self.queue[p].pop(0)
                row[3], row[4] = self.now, self.now + self.run[int(row[0]), p]
                self.running[p] = row
                self.rows.append(row)

    def play(self) -> set[tuple[int, int, float]]:
        while True:
            self.step()
            times = [row[4] for row in self.running if row is not None]
            times += [time for time in self.release if time > self.now]
            heads = [self.queue[p][0] for p in self.devices if self.running[p] is None and self.queue[p]]
            times += map(self.ready_at, heads)
            if not times:
                return {(int(i), int(p), round(start, 9)) for i, p, _, start, _ in self.rows}
            self.now = min(times)

    def step(self) -> None:
        for p in self.devices:
            if self.running[p] is not None and self.running[p][4] <= self.now:
                self.running[p] = None
        self.serve()
        self.decide()


def rows_of(schedule: Schedule) -> set[tuple[int, int, float]]:
    columns = (schedule.task.tolist(), schedule.device.tolist(), schedule.start.tolist())
    return {(i, p, round(start, 9)) for i, p, start in zip(*columns, strict=True)}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("problem", [A, B, C], ids=["topcuoglu", "peft", "misread"])
def test_published_graphs_are_dispatched_as_by_the_twin(name: str, problem: Problem):
    found = run(name, problem)
    assert rows_of(found) == Twin(problem, by_rank=name == "deft").play()
    assert not validate(found)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from(LINKS), st.sampled_from(("chain", "fork", "diamond", "random")), st.booleans(), st.sampled_from(NAMES))  # fmt: skip
def test_random_graphs_are_dispatched_as_by_the_twin(
    seed: int, links: str, shape: str, copies: bool, name: str
):
    rng = np.random.default_rng(seed)
    problem = make_problem(
        seed, sizes=(1, int(rng.integers(2, 14)), int(rng.integers(1, 5)), 2),
        graph_style=(shape, "uniform", "uniform"), links=links, is_plain=True, has_copies=copies,
    )  # fmt: skip
    assert rows_of(run(name, problem)) == Twin(problem, by_rank=name == "deft").play()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_streams_are_dispatched_as_by_the_twin(name: str, seed: int):
    problem = stream(seed, noise=0.0)
    found = run(name, problem)
    assert found.num_copies > 0
    assert rows_of(found) == Twin(problem, by_rank=name == "deft").play()


# -- whatever the devices are like ------------------------------------------------------------------------


@settings(max_examples=80, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from(LINKS), st.booleans(), st.booleans(), st.sampled_from(PEERS))
def test_schedules_are_valid_with_slots_memory_copies_and_noise(
    seed: int, links: str, is_plain: bool, copies: bool, name: str
):
    rng = np.random.default_rng(seed)
    sizes = (int(rng.integers(1, 4)), int(rng.integers(0, 14)), int(rng.integers(1, 6)), 3)
    problem = make_problem(
        seed, sizes=sizes, graph_style=("random", "some zero", "uniform"), links=links, is_plain=is_plain,
        has_copies=copies,
    ).replaced(noise=0.4)  # fmt: skip
    found = run(name, problem, seed % 7)
    assert not validate(found)
    assert copies or found.num_copies == 0


@pytest.mark.parametrize("name", PEERS)
def test_lost_devices_are_not_used_and_all_ends(name: str):
    problem = stream(3)
    outages = [Outage(0, 5.0, 60.0), Outage(3, 1.0)]
    found = run(name, problem, 3, outages)
    assert not validate(found)
    gone = (found.device == 3) & (found.finish > 1.0)
    assert not gone.any()
    assert np.isfinite(found.mean_jct)


def star() -> TaskGraph:
    """A root of 1, two children of 10, transfers of 100."""
    builder = GraphBuilder("star")
    builder.task("root", 1.0)
    builder.task("left", 10.0, after={"root": 100.0})
    builder.task("right", 10.0, after={"root": 100.0})
    return builder.build()


@pytest.mark.parametrize(("copies", "makespan"), [(True, 12.0), (False, 21.0)])
def test_root_is_copied_where_that_helps_and_the_objective_allows_it(copies: bool, makespan: float):
    cluster = Cluster.uniform((DeviceClass("cpu"),), (2,), bandwidth=1.0)
    found = run("deft", Problem(star(), cluster, Objective(copies=copies)))
    assert found.makespan == makespan  # the copy is begun when the children are ready, at 1
    assert found.num_copies == int(copies)


def test_two_children_share_one_copy():
    """The second child counts on the copy that the first one brought."""
    builder = GraphBuilder("pair")
    builder.task("root", 1.0)
    for name in "abcd":
        builder.task(name, 10.0, after={"root": 100.0})
    cluster = Cluster.uniform((DeviceClass("cpu"),), (2,), bandwidth=1.0)
    found = run("deft", Problem(builder.build(), cluster))
    assert found.num_copies == 1


@pytest.mark.parametrize("name", NAMES)
def test_without_transfers_nothing_is_copied(name: str):
    problem = stream(1, noise=0.0)
    free = problem.replaced(
        jobs=tuple(
            replace(job, graph=job.graph.replaced(data=np.zeros(job.graph.num_edges))) for job in problem.jobs
        )
    )
    assert run(name, free).num_copies == 0


def test_fifo_takes_equally_old_tasks_as_they_became_ready():
    builder = GraphBuilder("order")
    builder.task("late", 3.0)
    builder.task("early", 1.0)
    builder.task("after late", 5.0, after={"late": 0.0})
    builder.task("after early", 5.0, after={"early": 0.0})
    problem = Problem([Job(builder.build(), "one")], Cluster.uniform((DeviceClass("cpu"),), (2,)))
    found = run_one(catalog.task_dispatcher("fifo-deft"), problem, expected(problem))
    starts = {problem.task_name(i): start for i, start in zip(found.task.tolist(), found.start, strict=True)}
    assert starts["after early"] == 1.0 and starts["after late"] == 3.0


# -- Dask's rule --------------------------------------------------------------------------------------------


def test_dask_like_keeps_a_chain_where_its_data_is():
    builder = GraphBuilder("chain")
    builder.task("a", 1.0)
    builder.task("b", 1.0, after={"a": 5.0})
    builder.task("c", 1.0, after={"b": 5.0})
    slow_first = Cluster.uniform((DeviceClass("slow"), DeviceClass("fast", 10.0)), (1, 1), bandwidth=1.0)
    found = run("dask-like", Problem(builder.build(), slow_first))
    assert found.device.tolist() == [0, 0, 0]  # it knows no faster devices


def test_dask_like_lets_an_idle_device_take_over_what_waits():
    graph = TaskGraph([1.0] + [10.0] * 6, [0] * 6, range(1, 7), [0.1] * 6)
    found = run("dask-like", Problem(graph, Cluster.uniform((DeviceClass("cpu"),), (3,), bandwidth=1.0)))
    assert sorted(np.bincount(found.device).tolist()) == [2, 2, 3]


def test_dask_like_leaves_what_is_too_large_to_fetch():
    graph = TaskGraph([1.0] + [1.0] * 4, [0] * 4, range(1, 5), [1000.0] * 4)
    found = run("dask-like", Problem(graph, Cluster.uniform((DeviceClass("cpu"),), (3,), bandwidth=1.0)))
    assert set(found.device.tolist()) == {0}
