"""``auto``: never worse than what it is made of, says who won, and needs no extra."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from strategies import problems

from weft import catalog
from weft.errors import UnsupportedError
from weft.evaluation.sets.instances import suite
from weft.io.clusters import builtin_cluster
from weft.model.cluster import Cluster, DeviceClass
from weft.model.generate import generate
from weft.model.graph import TaskGraph
from weft.model.problem import Objective, Problem
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.schedulers.base import Limit
from weft.schedulers.exact.planner import Exact
from weft.schedulers.planners.auto import Auto
from weft.schedulers.planners.rules import RULES
from weft.schedulers.planners.tabu import Tabu

PROPERTY = settings(max_examples=40, deadline=None, derandomize=True)
CHEAP = ("heft", *RULES)


@PROPERTY
@given(problem=problems())
def test_auto_is_never_worse_than_heft_or_a_rule(problem: Problem):
    found = Auto().plan(problem, limit=Limit(effort=5))
    assert validate(found) == ()
    best = min(catalog.planner(name).plan(problem).makespan for name in CHEAP)
    assert found.makespan <= best * (1 + 1e-12)


@PROPERTY
@given(problem=problems())
def test_auto_is_never_worse_under_the_smallest_budget(problem: Problem):
    found = Auto().plan(problem, limit=Limit(budget=1e-9))
    assert validate(found) == ()
    best = min(catalog.planner(name).plan(problem).makespan for name in CHEAP)
    assert found.makespan <= best * (1 + 1e-12)


def test_auto_finds_both_optima_of_the_fork(fork_problem: Problem):
    assert Auto().plan(fork_problem, limit=Limit(effort=50)).makespan == 11.0
    without = fork_problem.replaced(objective=Objective(copies=False))
    found = Auto().plan(without, limit=Limit(effort=50))
    assert (found.makespan, found.num_copies) == (21.0, 0)


def test_auto_bound_without_copies_does_not_bind_a_schedule_with_them(fork_problem: Problem):
    found = Auto().plan(fork_problem, limit=Limit(effort=50))
    assert found.num_copies
    assert found.bound.copies
    assert found.bound.value <= 11.0


def test_auto_says_who_won_and_what_was_tried():
    auto = Auto()
    auto.plan(suite("taillard").instance("ta01").problem, limit=Limit(effort=200))
    assert auto.note == "won by exact; tried rules and list planners, tabu, exact"


def test_auto_repeats_in_another_process():
    paths = [*sys.path, str(Path(__file__).parent)]
    code = f"import sys; sys.path[:0] = {paths!r}; import test_auto; print(test_auto.trace())"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str(trace())


def trace() -> list[list[float]]:
    """Devices and starts of a small graph with transfers and of a job shop."""
    graph = Problem(
        generate("layered", 24, seed=2), Cluster.uniform([DeviceClass("cpu")], [3], bandwidth=1e6)
    )
    problems = [graph, suite("taillard").instance("ta01").problem]
    found = [Auto().plan(problem, seed=1, limit=Limit(effort=30)) for problem in problems]
    return [column.tolist() for plan in found for column in (plan.device, plan.start)]


@pytest.fixture
def no_ortools(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if ortools were not installed."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "ortools"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ortools", None)


@pytest.mark.usefixtures("no_ortools")
@pytest.mark.parametrize("limit", [{"effort": 100}, {"budget": 0.3}])
def test_auto_does_without_ortools(limit: dict[str, float], fork_problem: Problem):
    for problem in (fork_problem, suite("taillard").instance("ta01").problem):
        auto = Auto()
        found = auto.plan(problem, limit=Limit(**limit))
        assert validate(found) == ()
        assert "exact" not in auto.note


@pytest.mark.usefixtures("no_ortools")
def test_exact_without_ortools_names_the_extra(fork_problem: Problem):
    with pytest.raises(UnsupportedError, match=r"ortools.*weft\[solve\]"):
        catalog.schedule(fork_problem, "exact")


@pytest.mark.parametrize("broken", [OSError("no such library"), ModuleNotFoundError("no 'x'", name="x")])
def test_auto_does_with_an_ortools_that_does_not_load(
    broken: Exception, monkeypatch: pytest.MonkeyPatch, fork_problem: Problem
):
    def fail(name: str) -> None:
        raise broken

    monkeypatch.setattr("weft.schedulers.exact.cpsat.importlib", SimpleNamespace(import_module=fail))
    assert validate(Auto().plan(fork_problem, limit=Limit(effort=20))) == ()
    reason = Exact().supports(fork_problem)
    assert reason is not None and "does not load" in reason


@pytest.mark.parametrize("effort", [1, 2, 7, 100])
def test_auto_spends_one_effort_in_all(effort: int, monkeypatch: pytest.MonkeyPatch):
    given: list[int] = []

    def noted(part: type) -> Callable[..., Schedule]:
        plan = part.plan  # type: ignore[attr-defined]

        def planned(self: object, problem: Problem, *, seed: int = 0, limit: Limit) -> Schedule:
            given.append(limit.effort or 0)
            found: Schedule = plan(self, problem, seed=seed, limit=limit)
            return found

        return planned

    for part in (Tabu, Exact):
        monkeypatch.setattr(part, "plan", noted(part))
    Auto().plan(suite("taillard").instance("ta01").problem, limit=Limit(effort=effort))
    assert 0 < sum(given) <= effort


def test_auto_goes_on_from_a_learned_plan():
    problem = suite("taillard").instance("ta41").problem
    alone, helped = Auto(), catalog.planner("auto")
    first = alone.plan(problem, limit=Limit(effort=160)).makespan
    second = helped.plan(problem, limit=Limit(effort=160)).makespan
    assert second < first
    assert "oneshot" in helped.note and "oneshot" not in alone.note  # type: ignore[attr-defined]


def test_auto_keeps_to_its_budget_on_a_large_graph():
    graph = generate("layered", 5000, seed=1)
    cluster = Cluster.uniform([DeviceClass("slow"), DeviceClass("fast", speed=2.0)], [8, 8], bandwidth=1e6)
    problem = Problem(graph, cluster)
    Auto().plan(Problem(generate("layered", 30, seed=1), cluster), limit=Limit(budget=0.1))  # compiles
    began = time.perf_counter()
    Auto().plan(problem, limit=Limit(budget=0.5))
    assert time.perf_counter() - began < 5.0


def test_auto_is_done_at_once_where_heft_meets_the_bound():
    problem = Problem(TaskGraph([3.3] * 20_000), Cluster.uniform([DeviceClass("cpu")], [1]))
    auto = Auto()
    auto.plan(problem, limit=Limit(effort=10))
    assert auto.note == "won by heft; tried rules and list planners"


def test_auto_is_done_where_all_time_is_a_transfer_that_cannot_be_avoided():
    cluster = Cluster.uniform([DeviceClass("a"), DeviceClass("b")], [1, 1], bandwidth=1.0)
    times = [[0.0, float("inf")], [float("inf"), 0.0]]
    graph = TaskGraph([float("nan")] * 2, [0], [1], [5.0], classes=("a", "b"), times=times)
    auto = Auto()
    found = auto.plan(Problem(graph, cluster), limit=Limit(effort=10))
    assert (found.makespan, found.bound.value) == (5.0, pytest.approx(5.0))
    assert auto.note == "won by heft; tried rules and list planners"


@pytest.mark.parametrize("limit", [{"effort": 300}, {"budget": 3.0}])
def test_auto_asks_cp_sat_wherever_exact_takes_the_problem(limit: dict[str, float]):
    cluster = Cluster.uniform([DeviceClass("cpu"), DeviceClass("gpu", 4.0)], [3, 1], bandwidth=1e6)
    problem = Problem(generate("layered", 60, seed=1), cluster)
    auto = Auto()
    found = auto.plan(problem, limit=Limit(**limit))
    assert "exact" in auto.note
    assert any(bound.method == "cp-sat" for bound in found.lower_bounds)


@pytest.mark.parametrize("copies", [True, False])
def test_auto_searches_without_copies_too_where_they_are_allowed(copies: bool):
    objective = Objective(copies=copies)
    problem = Problem(generate("fork-join", 60, seed=1), builtin_cluster("gpu-mix-8"), objective=objective)
    auto = Auto()
    found = auto.plan(problem, limit=Limit(budget=1.0))
    assert ("search without copies" in auto.note) == copies
    assert validate(found) == ()


def test_auto_starts_nothing_large_for_which_there_is_no_time():
    """CP-SAT would be set up for longer than the budget; a learned planner would score for as long."""
    problem = Problem(generate("layered", 2_400, seed=1), builtin_cluster("gpu-mix-8"))
    auto = Auto(catalog.planner("oneshot"))
    auto.plan(problem, limit=Limit(budget=0.2))
    assert "exact" not in auto.note
    assert "oneshot" not in auto.note


def test_tabu_refuses_devices_that_run_batches():
    problem = Problem(TaskGraph([1.0] * 4), Cluster.uniform([DeviceClass("gpu", batch=4)], [1]))
    reason = Tabu().supports(problem)
    assert reason is not None
    assert "'gpu-0' runs batches" in reason
    found = Auto().plan(problem, limit=Limit(effort=10))
    assert found.bound.value == 1.0  # four at a time: the load of the device is no bound
