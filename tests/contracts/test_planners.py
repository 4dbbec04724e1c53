"""One contract for every planner in the catalog."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from strategies import SEEDS, graphs, make_cluster, make_graph, problems, tie_free_problems

from weft import catalog
from weft.model.bounds import lower_bound
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Problem
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.schedulers.base import Limit

EFFORT = 4
TIES_BY_INDEX = {
    "random": "draws by index",
    "oneshot": "draws by index",
    "peft": "tasks before the exit often share an optimistic cost, all exits have none",
    "fifo-deft": "tasks that become ready together go in index order",
    "mopnr": "counts operations, whatever their times",
    "ratio": "every exit is all of its work remaining",
}
"""Rules whose makespan may depend on the order of the tasks even where all times differ."""

CPU = DeviceClass("cpu")
PAIR = Cluster.uniform((CPU,), (2,), bandwidth=1.0)
EVERY = pytest.mark.parametrize("name", catalog.PLANNERS)
PROPERTY = settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.filter_too_much]
)


SLOW = {"exact": 25, "auto": 50, "oneshot": 50, "oneshot+search": 50}
"""Planners that take milliseconds even on tiny problems get fewer examples."""


def holds(**strategies: st.SearchStrategy):
    """A property of one planner, as many examples as the planner is worth."""

    def decorate(check: Callable[..., None]) -> Callable[[str], None]:
        def test(name: str) -> None:
            def run(**drawn: object) -> None:
                check(name, **drawn)

            settings(PROPERTY, max_examples=SLOW.get(name, 200))(given(**strategies)(run))()

        test.__name__ = check.__name__
        return test

    return decorate


def plan(name: str, problem: Problem, seed: int = 0) -> Schedule:
    """Plan with a fresh planner; examples of problems it does not support are left out."""
    planner = catalog.planner(name)
    if planner.supports(problem) is not None:
        reject()
    return planner.plan(problem, seed=seed, limit=Limit(effort=EFFORT))


def columns(schedule: Schedule) -> list[bytes]:
    """Every column of a schedule, as bytes."""
    names = ("task", "device", "start", "finish", "copy", "attempt", "batch", "outcome")
    return [getattr(schedule, name).tobytes() for name in names]


def doubled(problem: Problem) -> Problem:
    """The problem with every time twice as long."""
    cluster = problem.cluster.scaled_links(2.0)
    classes = tuple(replace(c, times={k: 2.0 * t for k, t in c.times.items()}) for c in cluster.classes)
    jobs = []
    for job in problem.jobs:
        graph = job.graph.replaced(work=2.0 * job.graph.work, times=2.0 * job.graph.times)
        jobs.append(replace(job, graph=graph, release=2.0 * job.release))
    return problem.replaced(jobs=jobs, cluster=cluster.replaced(classes=classes))


def renumbered(graph: TaskGraph, place: np.ndarray) -> TaskGraph:
    """The same graph with task i at index ``place[i]``."""
    order = np.argsort(place)
    return graph.replaced(
        work=graph.work[order],
        kind=graph.kind[order],
        names=tuple(graph.names[i] for i in order),
        sources=place[graph.sources],
        targets=place[graph.targets],
    )


@EVERY
@holds(problem=problems(), seed=st.integers(0, 3))
def test_planner_schedule_is_valid_and_never_below_a_bound(name: str, problem: Problem, seed: int):
    schedule = plan(name, problem, seed)
    assert validate(schedule) == ()
    assert schedule.makespan >= lower_bound(problem).value * (1 - 1e-9)
    assert schedule.slr >= 1 - 1e-9


@EVERY
@holds(graph=graphs(), seed=SEEDS)
def test_planner_on_one_device_takes_the_sum_of_run_times(name: str, graph: TaskGraph, seed: int):
    problem = Problem(graph, make_cluster(seed, 1, 1, "uniform", is_plain=True))
    assert plan(name, problem).makespan == pytest.approx(problem.run_times.sum(), rel=1e-9)


@EVERY
@holds(problem=problems())
def test_planner_doubled_times_double_the_makespan(name: str, problem: Problem):
    assert plan(name, doubled(problem)).makespan == 2.0 * plan(name, problem).makespan


@EVERY
@holds(problem=problems(), seed=st.integers(0, 3))
def test_planner_repeats_with_the_seed_under_other_names(name: str, problem: Problem, seed: int):
    jobs = [
        replace(job, graph=job.graph.with_names([f"z{-i}" for i in range(job.graph.num_tasks)]))
        for job in problem.jobs
    ]
    assert columns(plan(name, problem.replaced(jobs=jobs), seed)) == columns(plan(name, problem, seed))


@pytest.mark.parametrize(
    "name", [n for n, entry in catalog.PLANNERS.items() if not entry.is_search and n not in TIES_BY_INDEX]
)
@holds(problem=tie_free_problems(), seed=SEEDS)
def test_planner_ignores_the_order_of_tasks_without_ties(name: str, problem: Problem, seed: int):
    place = np.random.default_rng(seed).permutation(problem.num_tasks)
    other = problem.replaced(jobs=[replace(problem.jobs[0], graph=renumbered(problem.graph, place))])
    assert plan(name, other).makespan == pytest.approx(plan(name, problem).makespan, rel=1e-9)


@EVERY
@holds(problem=tie_free_problems())
def test_planner_neutral_fields_change_nothing(name: str, problem: Problem):
    classes = tuple(replace(c, memory=64.0, capacity={"disk": 1.0}) for c in problem.cluster.classes)
    graph = problem.graph.replaced(
        memory=0.0, resources=("disk",), demands=np.zeros((problem.num_tasks, 1)), slots=1
    )
    job = Job(graph, eligible=tuple(c.name for c in classes), deadline=1e9, weight=2.0, owner="ada")
    other = problem.replaced(jobs=[job], cluster=problem.cluster.replaced(classes=classes))
    assert columns(plan(name, other)) == columns(plan(name, problem))


BRANCHES = TaskGraph([1.0] * 3, [0, 0], [1, 2], probability=[0.5, 0.5], branch=[0, 0])
REFUSED = {
    "conditional": Problem(BRANCHES, PAIR),
    "elastic": Problem(TaskGraph([1.0], curves=[[1.0, 2.0]], curve=[0]), PAIR),
    "periodic": Problem(Job(TaskGraph([1.0]), period=3.0), PAIR),
    "one-port": Problem(TaskGraph([1.0]), PAIR.replaced(one_port=True)),
}


@EVERY
@pytest.mark.parametrize("cause", REFUSED)
def test_planner_refuses_by_name_of_the_cause(name: str, cause: str):
    reason = catalog.planner(name).supports(REFUSED[cause])
    assert reason is not None
    assert cause in reason


@EVERY
def test_planner_plans_nothing_for_no_tasks(name: str):
    schedule = plan(name, Problem(TaskGraph(np.zeros(0)), PAIR))
    assert (len(schedule), schedule.makespan) == (0, 0.0)


@EVERY
def test_planner_plans_a_single_task(name: str):
    schedule = plan(name, Problem(TaskGraph([3.0]), Cluster.uniform((CPU,), (1,))))
    assert (len(schedule), schedule.makespan) == (1, 3.0)


@EVERY
def test_planner_carries_its_name(name: str):
    assert catalog.planner(name).name == name


def digest() -> str:
    """Hash of what every planner makes of one graph."""
    problem = Problem(
        make_graph(5, 40, "random", "equal", "uniform"), make_cluster(5, 6, 3, "nodes", is_plain=True)
    )
    whole = hashlib.sha256()
    for name in catalog.PLANNERS:
        planner = catalog.planner(name)
        if planner.supports(problem) is None:
            for column in columns(planner.plan(problem, limit=Limit(effort=EFFORT))):
                whole.update(column)
    return whole.hexdigest()


def test_planners_do_not_depend_on_the_hash_seed():
    code = "import test_planners; print(test_planners.digest())"
    found = []
    for hash_seed in ("0", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        result = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            cwd=os.path.dirname(__file__),
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(result.stdout.split()[-1])
    assert found == [digest()] * 2
