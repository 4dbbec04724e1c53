"""Tabu search: published optima, brute force, repeatability, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import SEEDS, make_data, make_edges

from weft.errors import InputError, UnsupportedError
from weft.io.jssp import job_shop_problem
from weft.model import Cluster, DeviceClass, Job, Problem, Schedule, TaskGraph
from weft.model.validate import validate
from weft.schedulers.base import Limit, Planner
from weft.schedulers.planners.lists import Heft, Random
from weft.schedulers.planners.tabu import (
    Tabu,
    compile_shop,
    dispatch_orders,
    improve,
    one_machine_bound,
    order_of,
    search_orders,
)

PROPERTY = settings(max_examples=200, deadline=None, derandomize=True)

FT06 = """
2 1 0 3 1 6 3 7 5 3 4 6
1 8 2 5 4 10 5 10 0 10 3 4
2 5 3 4 5 8 0 9 1 1 4 7
1 5 0 5 2 5 3 3 4 8 5 9
2 9 1 3 4 5 5 4 0 3 3 1
1 3 3 3 5 9 0 10 4 4 2 1
"""
LA01 = """
1 21 0 53 4 95 3 55 2 34
0 21 3 52 4 16 2 26 1 71
3 39 4 98 1 42 2 31 0 12
1 77 0 55 4 79 2 66 3 77
0 83 3 34 2 64 1 19 4 37
1 54 2 43 4 79 0 92 3 62
3 69 4 77 1 87 2 87 0 93
2 38 0 60 1 41 3 24 4 83
3 17 1 49 4 25 0 44 2 98
4 77 3 79 2 43 1 75 0 96
"""


def shop_of(text: str) -> Problem:
    """A job shop from rows of machine and time pairs."""
    table = np.array([[int(x) for x in row.split()] for row in text.split("\n") if row])
    return job_shop_problem(table[:, ::2], table[:, 1::2])


def random_shop(seed: int, num_jobs: int, num_machines: int) -> Problem:
    """A classical job shop with run times in 1..20."""
    rng = np.random.default_rng(seed)
    machines = np.argsort(rng.random((num_jobs, num_machines)), axis=1)
    return job_shop_problem(machines, rng.integers(1, 21, (num_jobs, num_machines)))


def pinned(seed: int, n: int, num_devices: int, data: str) -> Problem:
    """Two jobs of any precedence on given devices, with links between them and a release."""
    rng = np.random.default_rng(seed)
    classes = tuple(f"m{k}" for k in range(num_devices))
    jobs = []
    for j, size in enumerate((n, n // 2)):
        edges = make_edges(rng, size, "random")
        times = np.full((size, num_devices), np.inf)
        times[np.arange(size), rng.integers(0, num_devices, size)] = rng.uniform(0.0, 9.0, size) * (
            rng.random(size) < 0.9
        )
        graph = TaskGraph(
            np.full(size, np.nan),
            [source for source, _ in edges],
            [target for _, target in edges],
            make_data(rng, len(edges), data),
            classes=classes,
            times=times,
        )
        jobs.append(Job(graph, name=f"job{j}", release=3.5 * j))
    cluster = Cluster.uniform(
        [DeviceClass(c) for c in classes], [1] * num_devices, bandwidth=4.0, latency=0.25
    )
    return Problem(jobs, cluster)


PINNED = st.builds(
    pinned, SEEDS, st.integers(0, 14), st.integers(1, 4), st.sampled_from(("none", "uniform", "huge"))
)


def earliest_starts(schedule: Schedule) -> list[float]:
    """Left-shifted starts of the schedule's device orders, task by task in time order."""
    problem, cluster = schedule.problem, schedule.problem.cluster
    device = dict(zip(schedule.task.tolist(), schedule.device.tolist(), strict=True))
    finish: dict[int, float] = {}
    starts = [0.0] * problem.num_tasks
    free: dict[int, float] = {}
    for i in order_of(problem, schedule).tolist():
        j = int(problem.job_of[i])
        graph, base = problem.jobs[j].graph, int(problem.offsets[j])
        start = max(problem.jobs[j].release, free.get(device[i], 0.0))
        for e in np.flatnonzero(graph.targets == i - base).tolist():
            parent = base + int(graph.sources[e])
            arrival = cluster.transfer_time(device[parent], device[i], float(graph.data[e]))
            start = max(start, finish[parent] + arrival)
        starts[i] = start
        finish[i] = start + float(problem.run_times[i, cluster.device_class[device[i]]])
        free[device[i]] = finish[i]
    return starts


def optimum(problem: Problem) -> float:
    """Shortest makespan of a classical job shop, by trying every order of its tasks."""
    graph, run = problem.graph, problem.best_run_times.tolist()
    machine = np.isfinite(problem.run_times).argmax(axis=1).tolist()
    first = np.flatnonzero(np.diff(graph.predecessor_pointer) == 0).tolist()
    ends = [*first[1:], graph.num_tasks]

    @cache
    def shortest(at: tuple[int, ...], ready: tuple[float, ...], free: tuple[float, ...]) -> float:
        best = np.inf
        for j, i in enumerate(at):
            if i < ends[j]:
                finish = max(ready[j], free[machine[i]]) + run[i]
                times = tuple(finish if m == machine[i] else t for m, t in enumerate(free))
                now = tuple(finish if k == j else t for k, t in enumerate(ready))
                best = min(best, shortest((*at[:j], i + 1, *at[j + 1 :]), now, times))
        return max(ready) if best == np.inf else best

    return shortest(tuple(first), (0.0,) * len(first), (0.0,) * problem.cluster.num_classes)


def columns(schedule: Schedule) -> list[bytes]:
    """What a schedule says, as bytes."""
    return [column.tobytes() for column in (schedule.task, schedule.device, schedule.start, schedule.finish)]


@pytest.mark.parametrize(("text", "best"), [(FT06, 55.0), (LA01, 666.0)])
def test_tabu_finds_the_published_optimum(text: str, best: float):
    schedule = Tabu().plan(shop_of(text), limit=Limit(effort=5000))
    assert schedule.makespan == best
    assert validate(schedule) == ()


def test_tabu_stops_and_says_so_when_the_order_is_proven_optimal():
    planner = Tabu()
    schedule = planner.plan(shop_of(LA01), limit=Limit(effort=100_000))
    assert schedule.bound.value == schedule.makespan == 666.0
    assert planner.note.endswith("proven optimal")


@PROPERTY
@given(problem=PINNED, seed=st.integers(0, 3))
def test_tabu_schedule_is_valid_and_left_shifted(problem: Problem, seed: int):
    schedule = Tabu().plan(problem, seed=seed, limit=Limit(effort=60))
    assert validate(schedule) == ()
    starts = dict(zip(schedule.task.tolist(), schedule.start.tolist(), strict=True))
    assert [starts[i] for i in range(problem.num_tasks)] == pytest.approx(
        earliest_starts(schedule), rel=1e-12
    )


@PROPERTY
@given(problem=PINNED, seed=st.integers(0, 3))
def test_tabu_bound_is_below_any_schedule(problem: Problem, seed: int):
    schedule = Tabu().plan(problem, limit=Limit(effort=200))
    assert schedule.bound.value <= Random().plan(problem, seed=seed).makespan * (1 + 1e-9)


@PROPERTY
@given(problem=PINNED, seed=st.integers(0, 3))
def test_improve_is_never_worse_than_its_start(problem: Problem, seed: int):
    start = Random().plan(problem, seed=seed)
    better = improve(problem, start, seed=seed, limit=Limit(effort=30))
    assert better.makespan <= start.makespan
    assert validate(better) == ()


@PROPERTY
@given(problem=PINNED, seed=st.integers(0, 3))
def test_tabu_repeats_with_the_seed(problem: Problem, seed: int):
    one, other = (Tabu().plan(problem, seed=seed, limit=Limit(effort=40)) for _ in range(2))
    assert columns(one) == columns(other)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_tabu_is_never_below_the_optimum(seed: int):
    problem = random_shop(seed, 3, 3)
    assert Tabu().plan(problem, limit=Limit(effort=300)).makespan >= optimum(problem)


def test_tabu_usually_reaches_the_optimum():
    problems = [random_shop(seed, 3, 3) for seed in range(40)]
    gaps = [Tabu().plan(p, limit=Limit(effort=300)).makespan - optimum(p) for p in problems]
    assert sum(gap == 0 for gap in gaps) >= 38


def test_tabu_long_runs_relink_and_repeat():
    problem = random_shop(7, 8, 8)
    one, other = (Tabu().plan(problem, seed=3, limit=Limit(effort=60_000)) for _ in range(2))
    assert columns(one) == columns(other)
    assert one.makespan <= Tabu().plan(problem, seed=3, limit=Limit(effort=1000)).makespan


def test_tabu_spends_its_effort_and_no_more():
    shop, _ = compile_shop(random_shop(9, 15, 10))
    found = search_orders(shop, dispatch_orders(shop), limit=Limit(effort=321))
    assert found.moves <= 321


def test_tabu_makespan_doubles_with_all_times():
    problem = random_shop(1, 6, 5)
    graph = problem.graph.replaced(times=2.0 * problem.graph.times)
    doubled = problem.replaced(jobs=[replace(problem.jobs[0], graph=graph)])
    limit = Limit(effort=500)
    assert Tabu().plan(doubled, limit=limit).makespan == 2.0 * Tabu().plan(problem, limit=limit).makespan


def test_tabu_under_a_budget_is_valid():
    assert validate(Tabu().plan(random_shop(2, 10, 10), limit=Limit(0.05))) == ()


def test_tabu_plans_nothing_for_no_tasks():
    schedule = Tabu().plan(Problem(TaskGraph(np.zeros(0)), Cluster.uniform([DeviceClass("cpu")], [1])))
    assert (len(schedule), schedule.makespan) == (0, 0.0)


def test_tabu_is_a_planner():
    assert isinstance(Tabu(), Planner)


def test_one_machine_bound_counts_what_surrounds_the_load():
    problem = job_shop_problem([[0, 1, 2], [0, 1, 2]], [[2, 5, 3], [4, 6, 1]])
    assert one_machine_bound(compile_shop(problem)[0]) == 2.0 + 11.0 + 1.0


def test_improve_starts_from_any_planner():
    problem = random_shop(4, 10, 5)
    start = Heft().plan(problem)
    assert improve(problem, start, limit=Limit(effort=1000)).makespan < start.makespan


def test_improve_keeps_an_optimal_start():
    problem = shop_of(LA01)
    start = Tabu().plan(problem)
    assert improve(problem, start) is start


def test_improve_refuses_a_schedule_with_tasks_missing():
    problem = random_shop(5, 2, 2)
    full = Heft().plan(problem)
    part = Schedule(problem, full.task[:-1], full.device[:-1], full.start[:-1], full.finish[:-1])
    with pytest.raises(InputError, match="expected a start for every task, got none for"):
        improve(problem, part)


CPU = DeviceClass("cpu")
CHAIN = TaskGraph([1.0, 2.0], [0], [1])
PAIR = Cluster.uniform([CPU], [2])
REFUSED = {
    "may run on 2 devices": Problem(CHAIN, PAIR),
    "'cpu-0' runs several tasks at once": Problem(CHAIN, Cluster.uniform([replace(CPU, slots=2)], [1])),
    "periodic": Problem(Job(CHAIN, period=3.0), Cluster.uniform([CPU], [1])),
    "one-port": Problem(CHAIN, Cluster.uniform([CPU], [1]).replaced(one_port=True)),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_tabu_refuses_with_a_reason(reason: str):
    assert reason in (Tabu().supports(REFUSED[reason]) or "")


def test_tabu_supports_jobs_that_may_use_one_device():
    problem = Problem(Job(CHAIN, eligible=("cpu-1",)), PAIR)
    assert Tabu().supports(problem) is None
    assert Tabu().plan(problem).device.tolist() == [1, 1]


def test_improve_refuses_with_a_reason():
    problem = Problem(CHAIN, PAIR)
    with pytest.raises(UnsupportedError, match="task 't0' may run on 2 devices"):
        improve(problem, Heft().plan(problem))
