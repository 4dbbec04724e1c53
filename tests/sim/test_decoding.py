"""The capacity decoders against plain Python twins that read the problem, not the kernel's arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import COSTS, SEEDS, SHAPES, make_edges, make_problem

from weft.io.jssp import job_shop_problem
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Problem
from weft.model.validate import validate
from weft.schedulers.planners.rules import ACTIVE, BACKFILL, WAIT, Decoder
from weft.sim.timeline.decoding import decode_batch, descendant_sum

PROPERTY = settings(max_examples=150, deadline=None, derandomize=True)
SLACK = 1 + 1e-9


class Twin:
    """A problem in plain lists."""

    def __init__(self, problem: Problem) -> None:
        cluster = problem.cluster
        self.n = problem.num_tasks
        self.run = problem.run_times.tolist()
        self.device_class = cluster.device_class.tolist()
        self.release = [problem.jobs[j].release for j in problem.job_of]
        self.job = problem.job_of.tolist()
        self.allowed = problem.eligible.tolist()
        self.preds: list[list[int]] = [[] for _ in range(self.n)]
        self.needs: list[dict[str, float]] = []
        for first, job in zip(problem.offsets.tolist(), problem.jobs, strict=False):
            graph = job.graph
            for source, target in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True):
                self.preds[first + target].append(first + source)
            for i in range(graph.num_tasks):
                named = dict(zip(graph.resources, graph.demands[i].tolist(), strict=True))
                self.needs.append({"": graph.slots[i], "memory": graph.memory[i], **named})
        self.has = [
            {"": cluster.classes[c].slots, "memory": cluster.classes[c].memory, **cluster.classes[c].capacity}
            for c in self.device_class
        ]

    def classes(self, i: int) -> list[int]:
        """Classes that can run a task and have a device, fastest first."""
        there = [c for c in set(self.device_class) if self.run[i][c] < np.inf]
        return sorted(there, key=lambda c: (self.run[i][c], c))

    def room(self, i: int, c: int, busy: Sequence[tuple[int, int]]) -> int | None:
        """First device of a class with room for a task beside what runs (task, device)."""
        for p, other in enumerate(self.device_class):
            if other != c or (self.allowed and not self.allowed[self.job[i]][p]):
                continue
            there = [self.needs[j] for j, q in busy if q == p]
            if all(
                sum(need.get(name, 0) for need in there) + amount <= self.has[p].get(name, np.inf) * SLACK
                for name, amount in self.needs[i].items()
            ):
                return p
        return None

    def decode(self, priority: Sequence[float], hold: Sequence[bool]) -> list[tuple[float, int]]:
        """Start and device of every task, non-delay."""
        placed: dict[int, tuple[float, int]] = {}
        running: list[tuple[float, int, int]] = []  # finish, task, device
        done: set[int] = set()
        now = 0.0
        order = sorted(range(self.n), key=lambda i: (-priority[i], i))
        while len(done) < self.n:
            ready = [
                i for i in order if i not in placed and self.release[i] <= now and done >= {*self.preds[i]}
            ]
            held: set[int] = set()
            for i in ready:
                busy = [(j, p) for _, j, p in running]
                free = [c for c in self.classes(i) if c not in held]
                device = next((p for c in free if (p := self.room(i, c, busy)) is not None), None)
                if device is not None:
                    placed[i] = (now, device)
                    running.append((now + self.run[i][self.device_class[device]], i, device))
                elif hold[i]:
                    held |= {*self.classes(i)}
            later = [at for at in self.release if at > now]
            now = min([finish for finish, *_ in running] + later)
            done |= {i for finish, i, _ in running if finish == now}
            running = [one for one in running if one[0] != now]
        return [placed[i] for i in range(self.n)]

    def decode_active(self, priority: Sequence[float]) -> list[float]:
        """Starts by Giffler and Thompson; one class per task, one task per device."""
        start, finish = dict[int, float](), dict[int, float]()
        idle = [0.0] * len(self.device_class)
        while len(start) < self.n:
            ready = [i for i in range(self.n) if i not in start and all(k in finish for k in self.preds[i])]
            found = []
            for i in ready:
                (c,) = self.classes(i)
                p = min((p for p, d in enumerate(self.device_class) if d == c), key=lambda p: (idle[p], p))
                at = max([idle[p], self.release[i], *(finish[k] for k in self.preds[i])])
                found.append((at + self.run[i][c], at, i, p))
            end, _, _, device = min(found, key=lambda one: one[0])
            here = [one for one in found if one[3] == device]
            rivals = [one for one in here if one[1] < end] or [one for one in here if one[0] == end]
            first, at, i, p = min(rivals, key=lambda one: (-priority[one[2]], one[2]))
            start[i], finish[i], idle[p] = at, first, first
        return [start[i] for i in range(self.n)]


def free_problems(max_tasks: int = 14) -> st.SearchStrategy[Problem]:
    """Problems in which transfers take no time: slots, memory, a resource, releases, eligible devices."""
    sizes = st.tuples(
        st.sampled_from((1, 2, 3)), st.integers(3, max_tasks), st.integers(1, 6), st.integers(1, 4)
    )
    style = st.tuples(st.sampled_from(SHAPES), st.sampled_from(COSTS), st.just("none"))
    booleans = st.booleans()
    return st.builds(
        make_problem, SEEDS, sizes=sizes, graph_style=style, links=st.just("free"), is_plain=booleans, has_copies=booleans
    )  # fmt: skip


def shop(seed: int, num_jobs: int, num_machines: int, per_class: int = 1, shortest: int = 0) -> Problem:
    """A job shop, or one with several equal machines per class, released one after another."""
    rng = np.random.default_rng(seed)
    machines = np.argsort(rng.random((num_jobs, num_machines)), axis=1)
    durations = rng.integers(shortest, 10, (num_jobs, num_machines))
    problem = job_shop_problem(machines, durations, "shop")
    classes = problem.cluster.classes
    cluster = Cluster.uniform(classes, [per_class] * len(classes))
    return Problem([Job(problem.graph), Job(problem.graph, name="late", release=7.0)], cluster)


@PROPERTY
@given(problem=free_problems(), seed=SEEDS, holds=st.sampled_from((0.0, 0.3, 1.0)))
def test_decode_list_equals_its_twin(problem: Problem, seed: int, holds: float):
    rng = np.random.default_rng(seed)
    priority = rng.integers(0, 6, problem.num_tasks).astype(float)  # many ties
    hold = rng.random(problem.num_tasks) < holds
    decoder = Decoder(problem)
    assert not decoder.by_finish
    schedule = decoder.schedule(priority, hold=hold)
    rows = np.argsort(schedule.task)
    found = list(zip(schedule.start[rows].tolist(), schedule.device[rows].tolist(), strict=True))
    assert found == Twin(problem).decode(priority.tolist(), hold.tolist())
    assert validate(schedule) == ()


@PROPERTY
@given(
    seed=SEEDS, sizes=st.tuples(st.integers(1, 4), st.integers(1, 4)), per_class=st.integers(1, 2)
)  # fmt: skip
def test_decode_active_equals_its_twin(seed: int, sizes: tuple[int, int], per_class: int):
    problem = shop(seed, *sizes, per_class)
    priority = np.random.default_rng(seed).integers(0, 5, problem.num_tasks).astype(float)
    decoder = Decoder(problem)
    assert decoder.is_active_possible
    schedule = decoder.schedule(priority, ACTIVE)
    assert schedule.start[np.argsort(schedule.task)].tolist() == Twin(problem).decode_active(
        priority.tolist()
    )
    assert validate(schedule) == ()


@PROPERTY
@given(seed=SEEDS, sizes=st.tuples(st.integers(1, 5), st.integers(1, 5)))
def test_decode_active_leaves_no_gap_that_a_later_task_fits(seed: int, sizes: tuple[int, int]):
    problem = shop(seed, *sizes, shortest=1)
    priority = np.random.default_rng(seed).random(problem.num_tasks)
    schedule = Decoder(problem).schedule(priority, ACTIVE)
    twin, rows = Twin(problem), np.argsort(schedule.task)
    start, finish = schedule.start[rows], schedule.finish[rows]
    for i in range(problem.num_tasks):
        ready = max([twin.release[i], *(finish[k] for k in twin.preds[i])])
        mates = [
            j
            for j in range(problem.num_tasks)
            if j != i and schedule.device[rows][j] == schedule.device[rows][i]
        ]
        length = finish[i] - start[i]
        for at in [ready, *(finish[j] for j in mates)]:
            fits = all(finish[j] <= at or start[j] >= at + length for j in mates)
            assert not (ready <= at < start[i] and fits), f"task {i} could start at {at}"


@pytest.mark.parametrize("decoder", [BACKFILL, WAIT, ACTIVE])
def test_decode_batch_equals_single_lists(decoder: str):
    problem = shop(3, 6, 5)
    priorities = np.random.default_rng(1).random((64, problem.num_tasks))
    one = Decoder(problem)
    single = [one.schedule(row, decoder).finish.max() for row in priorities]
    assert one.makespans(priorities, decoder).tolist() == single
    assert Decoder(problem).makespans(priorities[::-1].copy(), decoder).tolist() == single[::-1]


def test_decode_batch_takes_holds_per_list_and_returns_the_best():
    problem = pool()
    decoder = Decoder(problem)
    rng = np.random.default_rng(2)
    priorities, holds = rng.random((40, problem.num_tasks)), rng.random((40, problem.num_tasks)) < 0.5
    makespans = np.empty(40)
    best = decode_batch(decoder.pools, decoder.scratch, priorities, holds, False, makespans)
    single = [
        decoder.schedule(row, hold=hold).finish.max() for row, hold in zip(priorities, holds, strict=True)
    ]
    assert makespans.tolist() == single
    assert best == int(np.argmin(makespans))


def pool() -> Problem:
    """Twenty tasks of 1 to 4 slots on a pool of 4."""
    rng = np.random.default_rng(7)
    graph = TaskGraph(rng.integers(1, 9, 20).astype(float), slots=rng.integers(1, 5, 20))
    return Problem(graph, Cluster.uniform([DeviceClass("pool", slots=4)], [1]))


def test_decode_active_starts_no_empty_task_before_one_that_ends_when_it_starts():
    times = [[2.0, np.inf], [np.inf, 2.0], [0.0, np.inf]]
    graph = TaskGraph([np.nan] * 3, [1], [2], classes=("a", "b"), times=times)
    problem = Problem(graph, Cluster.uniform([DeviceClass("a"), DeviceClass("b")], [1, 1]))
    schedule = Decoder(problem).schedule(np.array([0.0, 1.0, 2.0]), ACTIVE)
    assert schedule.start[np.argsort(schedule.task)].tolist() == [0.0, 0.0, 2.0]


def test_decode_wait_holds_no_class_that_the_job_may_not_use():
    cluster = Cluster.uniform([DeviceClass("a"), DeviceClass("b")], [1, 1])
    two, one = TaskGraph([3.0, 3.0], name="two"), TaskGraph([1.0], name="one")
    jobs = [Job(two, name="two", eligible=("a-0",)), Job(one, name="one")]
    schedule = Decoder(Problem(jobs, cluster)).schedule(np.array([2.0, 1.0, 0.0]), WAIT)
    assert schedule.start[schedule.task == 2].tolist() == [0.0]


def test_decode_wait_keeps_small_tasks_behind_a_big_one():
    graph = TaskGraph([3.0, 5.0, 9.0], slots=[1, 2, 1])
    problem = Problem(graph, Cluster.uniform([DeviceClass("pool", slots=2)], [1]))
    priority = np.array([3.0, 2.0, 1.0])
    assert Decoder(problem).schedule(priority, BACKFILL).start.tolist() == [0.0, 0.0, 9.0]  # rows by start
    assert Decoder(problem).schedule(priority, WAIT).start.tolist() == [0.0, 3.0, 8.0]


@PROPERTY
@given(seed=SEEDS, n=st.integers(1, 150))
def test_descendant_sum_counts_each_descendant_once(seed: int, n: int):
    rng = np.random.default_rng(seed)
    edges = make_edges(rng, n, "random")
    graph = TaskGraph(rng.integers(0, 100, n).astype(float), [e[0] for e in edges], [e[1] for e in edges])
    after: list[set[int]] = [set() for _ in range(n)]
    for i in range(n - 1, -1, -1):  # edges go from lower to higher
        after[i] = {i}.union(*(after[j] for s, j in edges if s == i))
    found = descendant_sum(
        graph.order.astype(np.int64), graph.successor_pointer.astype(np.int64), graph.targets.astype(np.int64), graph.work.copy()
    )  # fmt: skip
    assert found.tolist() == [sum(graph.work[j] for j in after[i]) for i in range(n)]
