"""Published examples and own vectors: every number here is exact."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.model import Cluster, DeviceClass, Job, Problem, TaskGraph
from weft.model.bounds import critical_path
from weft.model.validate import validate
from weft.schedulers.planners.lists import HeftAppend, Peft, critical_tasks, heft_rank
from weft.schedulers.planners.tdca import build_clusters, parameters
from weft.sim.arrays import compile_problem
from weft.sim.timeline.list_planning import downward_rank, optimistic_cost

TOPCUOGLU_TIMES = "14,16,9 13,19,18 11,13,19 13,8,17 12,13,10 13,16,9 7,15,11 5,11,14 18,12,20 21,7,16"
TOPCUOGLU_EDGES = (
    "0-1:18 0-2:12 0-3:9 0-4:11 0-5:14 1-7:19 1-8:16 2-6:23 3-7:27 3-8:23 4-8:13 5-7:15 6-9:17 7-9:11 8-9:13"
)
PEFT_TIMES = "22,21,36 22,18,18 32,27,43 7,10,4 29,27,35 26,17,24 14,25,30 29,23,36 15,21,8 13,16,33"
PEFT_EDGES = (
    "0-1:17 0-2:31 0-3:29 0-4:13 0-5:7 1-7:3 1-8:30 2-6:16 3-7:11 3-8:7 4-8:57 5-7:5 6-9:9 7-9:42 8-9:7"
)
MISREAD_EDGES = (
    "0-1:18 0-2:12 0-3:19 0-4:11 0-5:14 1-6:19 2-6:16 2-7:23 3-7:27 3-8:23 4-7:13 4-8:15 5-8:15 "
    "6-9:17 7-9:11 8-9:13"
)


def problem_from(times: str, edges: str) -> Problem:
    """Tasks with one run time per device, unit bandwidth."""
    table = np.array([[float(x) for x in row.split(",")] for row in times.split()])
    ends = [edge.split(":") for edge in edges.split()]
    sources = [int(pair.split("-")[0]) for pair, _ in ends]
    targets = [int(pair.split("-")[1]) for pair, _ in ends]
    classes = [DeviceClass(f"p{k}") for k in range(table.shape[1])]
    graph = TaskGraph(
        np.full(len(table), np.nan),
        sources,
        targets,
        [float(data) for _, data in ends],
        classes=[c.name for c in classes],
        times=table,
    )
    return Problem(graph, Cluster.uniform(classes, [1] * len(classes), bandwidth=1.0))


A = problem_from(TOPCUOGLU_TIMES, TOPCUOGLU_EDGES)
B = problem_from(PEFT_TIMES, PEFT_EDGES)
C = problem_from(TOPCUOGLU_TIMES, MISREAD_EDGES)
D1 = problem_from("7,5 7,4 7,3 3,9 2,9 2,3", "0-2:1 0-3:10 1-3:7 2-3:2 0-5:10")
D2 = problem_from("3,6 7,8 3,2 4,3 6,2 6,3", "0-2:6 1-2:8 0-3:1 0-4:1 2-5:1 3-5:2")


@pytest.mark.parametrize(
    ("problem", "scheduler", "makespan"),
    [
        (A, "heft", 80),
        (A, "cpop", 86),
        (A, "peft", 85),
        (A, "lookahead", 76),
        (A, "deft", 73),
        (A, "fifo-deft", 73),
        (B, "heft", 133),
        (B, "lookahead", 127),
        (B, "peft", 122),
        (B, "cpop", 167),
        (B, "deft", 118),
        (B, "fifo-deft", 111),
        (C, "heft", 85),
        (C, "cpop", 93),
        (C, "peft", 76),
        (C, "lookahead", 81),
        (C, "deft", 74),
        (D1, "heft", 18),
        (D2, "heft", 19),
    ],
)
def test_planner_reproduces_vector(problem: Problem, scheduler: str, makespan: float) -> None:
    assert weft.schedule(problem, scheduler).schedule.makespan == makespan


@pytest.mark.parametrize(("problem", "makespan"), [(A, 80), (D1, 20), (D2, 21)])
def test_append_only_heft_reproduces_vector(problem: Problem, makespan: float) -> None:
    assert HeftAppend().plan(problem).makespan == makespan


def test_perturbed_reaches_the_known_best_of_a_thousand() -> None:
    assert weft.schedule(A, "perturbed", effort=1000).schedule.makespan == 73


@pytest.mark.parametrize(
    ("problem", "ranks"),
    [
        (A, [108, 77, 80, 80, 69, 63.333, 42.667, 35.667, 44.333, 14.667]),
        (B, [169, 114.3, 102.7, 110, 129.7, 119.3, 52.7, 92, 42.3, 20.7]),
        (C, [112, 78.333, 73, 80, 71, 72, 42.667, 35.667, 44.333, 14.667]),
        (D1, [22, 18.5, 13, 6, 5.5, 2.5]),
        (D2, [18.5, 23.5, 8, 10, 4, 4.5]),
    ],
)
def test_upward_rank_reproduces_vector(problem: Problem, ranks: list[float]) -> None:
    np.testing.assert_allclose(heft_rank(problem, compile_problem(problem)), ranks, atol=0.05)


def test_cpop_priorities_and_critical_path_reproduce_vector() -> None:
    a = compile_problem(A)
    priority = heft_rank(A, a) + downward_rank(a, A.mean_run_times)
    expected = [108, 108, 105, 102, 93, 90.333, 105, 102.333, 108, 108]
    np.testing.assert_allclose(priority, expected, atol=1e-3)
    assert critical_tasks(a, priority) == [0, 1, 8, 9]


def test_heft_places_the_published_schedule() -> None:
    rows = {p.task: (p.device, p.start, p.finish) for p in weft.schedule(A, "heft").schedule.placements()}
    assert rows["t3"] == ("p1-0", 18, 26)
    assert rows["t1"] == ("p0-0", 27, 40)
    assert rows["t8"] == ("p1-0", 56, 68)
    assert rows["t9"] == ("p1-0", 73, 80)


@pytest.mark.parametrize(
    ("problem", "ranks"),
    [
        (A, [46.33, 29.67, 25.67, 31, 27.67, 23.67, 14.67, 13.67, 14.33, 0]),
        (B, [72.7, 41, 37, 43.7, 31, 41.7, 17, 20.7, 16.3, 0]),
    ],
)
def test_optimistic_cost_table_reproduces_vector(problem: Problem, ranks: list[float]) -> None:
    table = optimistic_cost(compile_problem(problem))
    np.testing.assert_allclose(table.mean(axis=1), ranks, atol=0.05)


def test_optimistic_cost_of_the_first_task_reproduces_vector() -> None:
    assert optimistic_cost(compile_problem(B))[0].tolist() == [64, 68, 86]


def test_metrics_of_the_published_example() -> None:
    schedule = weft.schedule(A, "heft").schedule
    assert schedule.speedup == 1.5875
    assert critical_path(A).value == 41
    assert schedule.slr == pytest.approx(1.951, abs=1e-3)


def test_deft_with_infinite_bandwidth_equals_earliest_finish() -> None:
    free = A.replaced(cluster=A.cluster.scaled_links(1e-12))
    assert weft.schedule(free, "deft").schedule.num_copies == 0
    assert weft.schedule(free, "deft").schedule.makespan == weft.schedule(free, "heft").schedule.makespan


def test_peft_with_zero_table_selects_like_heft(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.schedulers.planners import lists as listing

    rank = heft_rank(A, compile_problem(A))
    monkeypatch.setattr(listing, "optimistic_cost", lambda a: np.zeros(a.run.shape))
    monkeypatch.setattr(listing, "list_order", lambda a, _: np.argsort(-rank, kind="stable"))
    assert Peft().plan(A).makespan == 80


def test_tdca_has_room_for_a_chain_copied_to_every_device() -> None:
    chain, leaves = 30, 40
    sources = [*range(chain - 1), *[chain - 1] * leaves]
    graph = TaskGraph([1.0] * chain + [50.0] * leaves, sources, range(1, chain + leaves), 1e3)
    problem = Problem(graph, Cluster.uniform((DeviceClass("cpu"),), (16,), bandwidth=1.0))
    schedule = weft.schedule(problem, "tdca").schedule
    assert validate(schedule) == ()
    assert schedule.makespan == 180


def test_tdca_copies_at_most_once_per_device_on_average() -> None:
    chain, leaves = 60, 200
    sources = [*range(chain - 1), *[chain - 1] * leaves]
    graph = TaskGraph([1.0] * chain + [50.0] * leaves, sources, range(1, chain + leaves), 1e3)
    problem = Problem(graph, Cluster.uniform((DeviceClass("cpu"),), (2,), bandwidth=1.0))
    a = compile_problem(problem)
    clusters = build_clusters(a, parameters(a, problem.best_run_times))
    members = [i for cluster in clusters for i in cluster]
    assert sorted(dict.fromkeys(members)) == list(range(chain + leaves))
    assert len(members) == 3 * (chain + leaves)


def milliseconds(problem: Problem) -> Problem:
    """The same graph on the same cluster, its run times counted in ms."""
    graph = problem.graph
    return problem.replaced(
        jobs=(Job(graph.replaced(time_unit="ms", times=graph.times * 1000.0), problem.jobs[0].name),)
    )


@pytest.mark.parametrize("scheduler", ["heft", "peft", "lookahead", "deft", "tdca", "min-min"])
@pytest.mark.parametrize("problem", [A, B, D1, D2], ids=["A", "B", "D1", "D2"])
def test_planner_does_not_depend_on_the_time_unit(problem: Problem, scheduler: str) -> None:
    plan = weft.schedule(problem, scheduler).schedule
    again = weft.schedule(milliseconds(problem), scheduler).schedule
    assert validate(again) == ()
    assert again.makespan == pytest.approx(1000.0 * plan.makespan, rel=1e-12)
    assert again.transfer_time == pytest.approx(1000.0 * plan.transfer_time, rel=1e-12)
