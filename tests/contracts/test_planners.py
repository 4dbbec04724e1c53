"""One contract for every planner in the catalog."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from strategies import SEEDS, graphs, make_cluster, make_graph, problems, tie_free_problems

from weft import catalog
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Problem
from weft.schedulers.base import Planner
from weft.testing import planners as checks

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


def able(name: str, problem: Problem) -> Planner:
    """A fresh planner; examples of problems it does not support are left out."""
    planner = catalog.planner(name)
    if planner.supports(problem) is not None:
        reject()
    return planner


@EVERY
@holds(problem=problems(), seed=st.integers(0, 3))
def test_planner_schedule_is_valid_and_never_below_a_bound(name: str, problem: Problem, seed: int):
    checks.check_valid(able(name, problem), problem, seed)


@EVERY
@holds(graph=graphs(), seed=SEEDS)
def test_planner_on_one_device_takes_the_sum_of_run_times(name: str, graph: TaskGraph, seed: int):
    problem = Problem(graph, make_cluster(seed, 1, 1, "uniform", is_plain=True))
    checks.check_sum_on_one_device(able(name, problem), problem)


@EVERY
@holds(problem=problems())
def test_planner_doubled_times_double_the_makespan(name: str, problem: Problem):
    checks.check_doubled_times(able(name, problem), problem)


@EVERY
@holds(problem=problems(), seed=st.integers(0, 3))
def test_planner_repeats_with_the_seed_under_other_names(name: str, problem: Problem, seed: int):
    checks.check_other_names(able(name, problem), problem, seed)


@pytest.mark.parametrize(
    "name", [n for n, entry in catalog.PLANNERS.items() if not entry.is_search and n not in TIES_BY_INDEX]
)
@holds(problem=tie_free_problems(), seed=SEEDS)
def test_planner_ignores_the_order_of_tasks_without_ties(name: str, problem: Problem, seed: int):
    checks.check_order_of_tasks(able(name, problem), problem, seed)


@EVERY
@holds(problem=tie_free_problems())
def test_planner_neutral_fields_change_nothing(name: str, problem: Problem):
    checks.check_neutral_fields(able(name, problem), problem)


@EVERY
@pytest.mark.parametrize("cause", checks.REFUSED)
def test_planner_refuses_by_name_of_the_cause(name: str, cause: str):
    checks.check_refuses(catalog.planner(name), cause)


@EVERY
def test_planner_plans_nothing_for_no_tasks(name: str):
    problem = Problem(TaskGraph(np.zeros(0)), PAIR)
    schedule = checks.planned(able(name, problem), problem)
    assert (len(schedule), schedule.makespan) == (0, 0.0)


@EVERY
def test_planner_plans_a_single_task(name: str):
    problem = Problem(TaskGraph([3.0]), Cluster.uniform((CPU,), (1,)))
    schedule = checks.planned(able(name, problem), problem)
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
            for column in checks.columns(checks.planned(planner, problem)):
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
