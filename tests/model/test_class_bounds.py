"""Bounds of scarce devices: values worked out by hand, and never above a schedule, copies or not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedulers.test_brute_force import brute_force
from schedulers.test_exact import small
from strategies import problems

from weft import catalog
from weft.model.bounds import lower_bound, simple_bound
from weft.model.class_bounds import path_and_work
from weft.model.cluster import Cluster, DeviceClass
from weft.model.generate import generate
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Problem
from weft.schedulers.base import Limit
from weft.schedulers.exact.planner import Exact
from weft.schedulers.exact.ticks import TickProblem

CPU, GPU = DeviceClass("cpu", slots=32), DeviceClass("gpu", 4.0)
FEW_FAST = Cluster.uniform((CPU, GPU), (4, 2))
"""128 slow slots and two fast devices."""


def work_bound(problem: Problem) -> float:
    return path_and_work(problem)[1]


def test_many_tasks_cannot_all_be_on_the_few_fast_devices():
    """Forty tasks of 8 s: the two GPUs do eight of them in 8 s, the rest takes 8 s on the CPUs."""
    problem = Problem(TaskGraph(np.full(40, 8.0)), FEW_FAST)
    assert simple_bound(problem).value == 2.0
    assert lower_bound(problem).value == pytest.approx(8.0)
    assert lower_bound(problem).method == "work on scarce devices"


def test_only_the_longest_tasks_need_the_fast_devices():
    """Ten tasks of 8 s beside one of 4 s: with T = 5 the ten take 10 s of each GPU, so T is 8."""
    assert work_bound(Problem(TaskGraph([*[8.0] * 10, 4.0]), FEW_FAST)) == pytest.approx(8.0)
    assert work_bound(Problem(TaskGraph([*[8.0] * 4, *[4.0] * 30]), FEW_FAST)) == pytest.approx(4.0)


def test_stages_add_up():
    """Two stages of 40 tasks with a task of no work between them: 8 s each, not 8 s in all."""
    work = [*[8.0] * 40, 0.0, *[8.0] * 40]
    sources, targets = [*range(40), *[40] * 40], [*[40] * 40, *range(41, 81)]
    graph = TaskGraph(work, sources, targets, np.zeros(80))
    assert lower_bound(Problem(graph, FEW_FAST)).value == pytest.approx(16.0)


def test_path_counts_a_transfer_between_classes_that_share_no_task():
    graph = TaskGraph(
        [np.nan, np.nan], [0], [1], [1e9], classes=("cpu", "gpu"), times=[[2.0, np.inf], [np.inf, 1.0]]
    )
    problem = Problem(graph, Cluster.uniform((CPU, GPU), (1, 1), bandwidth=1e9, latency=0.5))
    assert lower_bound(problem).value == pytest.approx(4.5)
    assert lower_bound(problem).method == "critical path with transfers"


def test_path_stays_on_the_slow_class_where_moving_takes_longer():
    """A task that only a CPU runs, then one that a GPU does 3 s sooner, but 1 GB takes 10 s."""
    graph = TaskGraph(
        [np.nan, 4.0], [0], [1], [1e9], classes=("cpu", "gpu"), times=[[2.0, np.inf], [4.0, 1.0]]
    )
    problem = Problem(graph, Cluster.uniform((CPU, GPU), (1, 1), bandwidth=1e8))
    assert lower_bound(problem).value == pytest.approx(6.0)


def test_memory_limits_what_runs_at_once():
    cluster = Cluster.uniform((DeviceClass("cpu", slots=8, memory=10.0),), (2,))
    problem = Problem(TaskGraph(np.full(8, 3.0), memory=np.full(8, 5.0)), cluster)
    assert lower_bound(problem).value == pytest.approx(6.0)


def test_named_resources_limit_what_runs_at_once():
    cluster = Cluster.uniform(
        (DeviceClass("cpu", slots=8, capacity={"licence": 1.0}), DeviceClass("big", slots=8)), (1, 1)
    )
    graph = TaskGraph(np.full(6, 3.0), resources=("licence",), demands=np.ones((6, 1)))
    assert lower_bound(Problem(graph, cluster)).value == pytest.approx(3.0)
    alone = Problem(graph, Cluster.uniform(cluster.classes[:1], (1,)))
    assert lower_bound(alone).value == pytest.approx(18.0)


def test_jobs_that_may_not_use_the_fast_class_are_bound_by_the_slow_one():
    job = Job(TaskGraph([8.0]), "a", eligible=("cpu",))
    assert lower_bound(Problem(job, FEW_FAST)).value == pytest.approx(8.0)


def test_tasks_that_may_not_run_count_nothing():
    graph = TaskGraph([1.0, 10.0, 2.0], [0, 0], [1, 2], probability=[0.5, 0.5], branch=[0, 0])
    problem = Problem([Job(graph, "a"), Job(TaskGraph([8.0], curves=[[1.0, 2.0]], curve=[0]), "b")], FEW_FAST)
    assert path_and_work(problem) == (0.0, 0.0)
    assert lower_bound(problem) == simple_bound(problem)


def test_bound_of_a_large_problem_is_that_of_its_areas():
    """Too many edges to walk in Python: the work of sets of classes still counts."""
    graph = generate("layered", 30_000, seed=1)
    problem = Problem(graph, FEW_FAST)
    assert lower_bound(problem).value >= simple_bound(problem).value
    assert path_and_work(problem)[0] == 0.0


def test_bound_is_found_once_per_problem():
    problem = Problem(TaskGraph(np.full(40, 8.0)), FEW_FAST)
    assert lower_bound(problem) is lower_bound(problem)


@pytest.mark.parametrize("seed", range(60))
def test_bound_is_never_above_the_optimum(seed: int):
    problem = small(seed)
    assert lower_bound(problem).value <= brute_force(problem) * (1 + 1e-9)


PLANNERS = ("heft", "deft", "tdca", "lookahead", "search", "perturbed")


@settings(max_examples=150, deadline=None, derandomize=True)
@given(problems(max_tasks=25), st.sampled_from(PLANNERS))
def test_bound_is_never_above_a_plan(problem: Problem, name: str):
    planner = catalog.planner(name)
    if planner.supports(problem) is None:
        found = planner.plan(problem, limit=Limit(effort=50)).makespan
        assert found >= lower_bound(problem).value * (1 - 1e-9)
        assert lower_bound(problem).value >= simple_bound(problem).value


@settings(max_examples=60, deadline=None, derandomize=True)
@given(problems(max_tasks=9))
def test_bound_is_never_above_what_exact_finds(problem: Problem):
    """CP-SAT is not told the bound here, so it finds shorter schedules where there are any."""
    exact = Exact()
    if exact.supports(problem) is None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TickProblem, "least", 0)
            found = exact.plan(problem, limit=Limit(effort=500))
        assert found.makespan >= lower_bound(problem).value * (1 - 1e-9)
