"""``search``: never worse than its starts, repeatable under an effort, anytime under a budget."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import make_cluster, make_graph, problems

from weft import catalog
from weft.io.jssp import job_shop_problem
from weft.model.cluster import Cluster, DeviceClass
from weft.model.generate import generate
from weft.model.graph import TaskGraph
from weft.model.problem import Objective, Problem
from weft.model.validate import validate
from weft.schedulers.base import Limit
from weft.schedulers.planners.rules import RULES, Decoder
from weft.schedulers.planners.search import Meter, Search

PROPERTY = settings(max_examples=60, deadline=None, derandomize=True)


def unrelated(num_tasks: int = 40, seed: int = 0) -> Problem:
    """Chains of five on four unrelated devices, transfers free."""
    rng = np.random.default_rng(seed)
    before = [i for i in range(num_tasks - 1) if (i + 1) % 5]
    graph = TaskGraph(
        np.full(num_tasks, np.nan),
        before,
        [i + 1 for i in before],
        classes=("a", "b", "c", "d"),
        times=rng.uniform(1.0, 30.0, (num_tasks, 4)),
    )
    return Problem(graph, Cluster.uniform([DeviceClass(name) for name in "abcd"], [1] * 4))


def linked(seed: int = 5, *, has_copies: bool = True) -> Problem:
    """Forty tasks on six devices with slow links."""
    graph = make_graph(seed, 40, "random", "uniform", "uniform")
    cluster = make_cluster(seed, 6, 3, "nodes", is_plain=True)
    return Problem(graph, cluster, Objective(copies=has_copies))


def pool() -> Problem:
    """Sixty tasks of 1 to 5 slots on a pool of 8."""
    rng = np.random.default_rng(1)
    graph = make_graph(1, 60, "random", "uniform", "none").replaced(slots=rng.integers(1, 6, 60))
    return Problem(graph, Cluster.uniform([DeviceClass("pool", slots=8)], [1]))


def shop() -> Problem:
    """A job shop of ten jobs."""
    rng = np.random.default_rng(2)
    machines = np.argsort(rng.random((10, 10)), axis=1)
    return job_shop_problem(machines, rng.integers(1, 30, (10, 10)), "shop")


MAKERS = {"unrelated": unrelated, "linked": linked, "pool": pool, "shop": shop}
EVERY = pytest.mark.parametrize("kind", MAKERS)


@PROPERTY
@given(problem=problems(), effort=st.integers(1, 60))
def test_search_is_never_worse_than_heft(problem: Problem, effort: int):
    found = Search().plan(problem, limit=Limit(effort=effort))
    assert validate(found) == ()
    assert found.makespan <= catalog.planner("heft").plan(problem).makespan * (1 + 1e-12)


@PROPERTY
@given(problem=problems(), effort=st.integers(1, 60))
def test_search_is_never_worse_than_a_rule_where_transfers_are_free(problem: Problem, effort: int):
    if Decoder(problem).by_finish:
        return
    found = Search().plan(problem, limit=Limit(effort=effort)).makespan
    assert found <= min(catalog.planner(name).plan(problem).makespan for name in RULES) * (1 + 1e-12)


def test_search_chooses_devices_where_transfers_are_free():
    graph = TaskGraph([1.0] * 4)
    cluster = Cluster.uniform([DeviceClass("fast"), DeviceClass("slow", speed=0.01)], [1, 1])
    assert Search().plan(Problem(graph, cluster), limit=Limit(effort=50)).makespan == 4.0


def test_search_improves_on_heft_on_unrelated_devices():
    problem = unrelated()
    found = Search().plan(problem, limit=Limit(effort=2000))
    assert found.makespan < 0.98 * catalog.planner("heft").plan(problem).makespan


@EVERY
def test_search_gains_with_effort(kind: str):
    problem = MAKERS[kind]()
    spans = [Search().plan(problem, limit=Limit(effort=effort)).makespan for effort in (20, 1500)]
    assert spans[1] < spans[0]


def test_search_repeats_in_another_process():
    paths = [*sys.path, str(Path(__file__).parent)]
    code = f"import sys; sys.path[:0] = {paths!r}; import test_search; print(test_search.trace())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str(trace())


def trace() -> list[list[float]]:
    """Devices and starts of every problem after 200 evaluations with seed 3."""
    found = [Search().plan(make(), seed=3, limit=Limit(effort=200)) for make in MAKERS.values()]
    return [column.tolist() for plan in found for column in (plan.device, plan.start)]


def test_search_makes_no_copies_where_they_are_forbidden():
    problem = linked(has_copies=False)
    found = Search().plan(problem, limit=Limit(effort=500))
    assert (found.num_copies, validate(found)) == (0, ())
    assert Search().plan(linked(), limit=Limit(effort=500)).makespan <= found.makespan * 1.05


@EVERY
def test_search_keeps_to_its_budget(kind: str):
    problem = MAKERS[kind]()
    Search().plan(problem, limit=Limit(effort=100))  # compiles
    began = time.perf_counter()
    found = Search().plan(problem, limit=Limit(budget=0.2))
    assert time.perf_counter() - began < 2.0
    assert validate(found) == ()


def test_meter_begins_with_one_evaluation_under_a_budget():
    assert Meter(Limit(budget=1.0), 100).next_chunk() == 1
    assert Meter(Limit(effort=10), 100).next_chunk() == 10


@pytest.mark.parametrize(
    ("name", "slots"), [("heft", 1), ("perturbed", 1), ("exact", 1), ("heft", 2), ("perturbed", 2)]
)
@pytest.mark.parametrize("seed", range(8))
def test_search_goes_on_from_a_plan_with_tasks_without_run_time(seed: int, name: str, slots: int):
    """Such a task may stand within another one on its device; in order of starts it would come after it."""
    graph = generate("layered", 24, seed=seed)
    work = np.where(np.random.default_rng(seed).random(24) < 0.4, 0.0, graph.work)
    graph = TaskGraph(work, graph.sources, graph.targets, graph.data)
    cluster = Cluster.uniform(
        [DeviceClass("cpu", slots=slots), DeviceClass("gpu", 3.0)], [2, 1], bandwidth=1e8
    )
    plan = catalog.planner(name).plan(Problem(graph, cluster), limit=Limit(effort=50))
    again = Search(plan, is_alone=True).plan(plan.problem, limit=Limit(effort=1))
    assert again.makespan <= plan.makespan * (1 + 1e-9)
