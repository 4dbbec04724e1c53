"""The exact planner against brute force, known optima, and its own promises."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from schedulers.test_brute_force import brute_force
from strategies import make_cluster, make_graph, with_needs

from weft import catalog, doctor
from weft.errors import InfeasibleError, InputError, MissingExtra
from weft.io.clusters import builtin_cluster
from weft.io.jssp import job_shop_problem
from weft.io.schedules import schedule_document
from weft.model.bounds import lower_bound
from weft.model.cluster import Cluster, DeviceClass
from weft.model.generate import generate, tpch_cluster, tpch_like
from weft.model.graph import Ints, TaskGraph
from weft.model.problem import Job, Problem
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.schedulers.base import Limit
from weft.schedulers.exact.cpsat import OLDEST, Program
from weft.schedulers.exact.planner import MOST_CHOICES, Exact
from weft.schedulers.exact.ticks import Answer, TickProblem
from weft.schedulers.planners.lists import Heft, ListPlanner, Random
from weft.schedulers.planners.tabu import Tabu

FT06 = (
    "2 1 0 3 1 6 3 7 5 3 4 6",
    "1 8 2 5 4 10 5 10 0 10 3 4",
    "2 5 3 4 5 8 0 9 1 1 4 7",
    "1 5 0 5 2 5 3 3 4 8 5 9",
    "2 9 1 3 4 5 5 4 0 3 3 1",
    "1 3 3 3 5 9 0 10 4 4 2 1",
)
"""Fisher and Thompson's 6 x 6 job shop: machine and time of every operation; the optimum is 55."""
CPU = DeviceClass("cpu")
ONE = Cluster.uniform((CPU,), (1,))


def plan(exact: Exact, problem: Problem, effort: int = 20_000) -> Schedule:
    """A schedule that was checked: valid, and not below its bounds."""
    schedule = exact.plan(problem, limit=Limit(effort=effort))
    assert validate(schedule) == ()
    assert schedule.makespan >= schedule.bound.value
    return schedule


def small(seed: int) -> Problem:
    """Up to 6 tasks on up to 3 devices; links, releases and needs vary with the seed."""
    links = ("uniform", "nodes", "matrix", "free")[seed % 4]
    is_plain = seed % 3 != 2
    cluster = make_cluster(seed, 2 + seed % 2, 1 + seed % 3, links, is_plain=is_plain)
    costs = ("uniform", "equal", "some zero")[seed // 4 % 3]
    shapes = ("random", "diamond", "fork", "independent")
    sizes = (6,) if seed % 5 else (3, 3)
    jobs = []
    for j, size in enumerate(sizes):
        graph = make_graph(seed + 97 * j, size, shapes[seed // 2 % 4], costs, "uniform")
        graph = graph if is_plain else with_needs(graph, seed + j, cluster)
        jobs.append(Job(graph, f"job{j}", release=1.0 + 2.5 * j if len(sizes) > 1 else 0.0))
    return Problem(jobs, cluster)


def gpus(family: str, size: int, seed: int, ccr: float) -> Problem:
    """A generated graph on one GPU each of four classes."""
    cluster = builtin_cluster("gpu-mix-8")
    four = cluster.replaced(device_class=range(4), node=range(4), link_group=np.zeros(4))
    return Problem(generate(family, size, seed=seed), four).with_ccr(ccr)


@pytest.mark.parametrize("seed", range(40))
def test_exact_equals_brute_force(seed: int):
    problem, exact = small(seed), Exact()
    schedule = plan(exact, problem)
    assert schedule.makespan == pytest.approx(brute_force(problem), rel=1e-5)
    assert exact.is_proven
    assert schedule.num_copies == 0


@pytest.mark.parametrize("seed", range(10))
def test_exact_bound_is_never_above_the_optimum(seed: int):
    problem = small(seed)
    schedule = plan(Exact(), problem)
    assert schedule.lower_bounds[-1].value <= brute_force(problem) * (1 + 1e-9)


@pytest.mark.parametrize("ccr", [0.1, 1.0, 5.0])
def test_exact_bound_is_never_above_a_planner_without_copies(ccr: float):
    problem = gpus("layered", 12, 3, ccr)
    schedule = plan(Exact(), problem)
    for name in catalog.PLANNERS:
        planner = catalog.planner(name)
        if isinstance(planner, ListPlanner) and not planner.makes_copies:
            other = planner.plan(problem, limit=Limit(effort=20)).makespan
            assert schedule.makespan <= other
            assert schedule.lower_bounds[-1].value <= other


def test_exact_bound_says_that_it_holds_without_copies(fork_problem: Problem):
    schedule = plan(Exact(), fork_problem)
    bound = schedule.lower_bounds[-1]
    assert (schedule.makespan, bound.value, bound.method, bound.copies) == (21.0, 21.0, "cp-sat", False)
    assert schedule.gap_percent == 0.0


def test_exact_bound_is_never_below_the_cheap_one():
    problem = gpus("layered", 60, 1, 1.0)
    bound = plan(Exact(), problem, effort=200).lower_bounds[-1]
    assert bound.method == "cp-sat"
    assert bound.value >= lower_bound(problem).value * (1 - 1e-5)


def test_exact_note_says_what_was_proven(fork_problem: Problem):
    exact = Exact()
    plan(exact, fork_problem)
    assert exact.note == "proven optimal among schedules without copies"


def test_exact_solves_a_job_shop():
    rows = np.array([row.split() for row in FT06], dtype=np.int64)
    exact = Exact()
    schedule = plan(exact, job_shop_problem(rows[:, ::2], rows[:, 1::2]))
    assert (schedule.makespan, schedule.bound.value, exact.is_proven) == (55.0, 55.0, True)


def test_exact_model_of_a_job_shop_is_the_disjunctive_one():
    problem = job_shop_problem(*tables(4, 3), "shop")
    program = Program(TickProblem(problem, Heft().plan(problem), True))
    assert not any(constraint.enforcement_literal for constraint in program.model.proto.constraints)
    starts_makespan_and_one = problem.num_tasks + 2
    assert len(program.model.proto.variables) == starts_makespan_and_one


def test_exact_searches_a_small_shop_with_the_hint_and_then_without(monkeypatch: pytest.MonkeyPatch):
    seen: list[tuple[bool, float]] = []
    search = Program.search

    def noted(self: Program, parameters: dict[str, float]) -> Answer | None:
        has_hint = len(self.model.proto.solution_hint.vars) > 0
        seen.append((has_hint, parameters["max_deterministic_time"]))
        return search(self, parameters)

    monkeypatch.setattr(Program, "search", noted)
    plan(Exact(), job_shop_problem(*tables(12, 12), "shop"), effort=200)
    (is_first, ticks), (is_second, rest) = seen
    assert (is_first, is_second) == (True, False)
    assert ticks + rest == pytest.approx(0.2, abs=0.02)


def test_exact_repeats_a_shop_with_an_effort():
    problem = job_shop_problem(*tables(12, 12), "shop")
    first, second = (Exact().plan(problem, seed=3, limit=Limit(effort=120)) for _ in range(2))
    assert first.start.tobytes() == second.start.tobytes()
    assert first.lower_bounds == second.lower_bounds


def test_exact_joins_equal_devices_without_transfers():
    cluster = Cluster.uniform((CPU,), (10,))
    exact = Exact()
    schedule = plan(exact, Problem(TaskGraph([5.0, 1.0, 2.0, 2.0] * 5), cluster))
    assert (schedule.makespan, exact.is_proven) == (5.0, True)


def test_exact_keeps_to_the_slots_of_a_pool():
    exact = Exact()
    pool = tpch_cluster().replaced(classes=(DeviceClass("pool", slots=600),))
    schedule = plan(exact, Problem(tpch_like(4, seed=1), pool), effort=2_000)
    assert schedule.makespan >= schedule.lower_bounds[-1].value > 0


def test_exact_needs_all_of_a_devices_capacities():
    device = DeviceClass("gpu", slots=4, memory=10.0, capacity={"licence": 1.0})
    graph = TaskGraph(
        [2.0] * 4, memory=[6.0, 6.0, 1.0, 1.0], resources=("licence",), demands=[[0], [0], [1], [1]]
    )
    assert plan(Exact(), Problem(graph, Cluster.uniform((device,), (1,)))).makespan == 4.0


def test_exact_optimum_survives_the_presolve_of_the_solver():
    """The model once used intervals that made CP-SAT's presolve call this instance infeasible."""
    exact = Exact()
    schedule = plan(exact, gpus("layered", 30, 2, 0.1), effort=5_000)
    assert schedule.makespan == pytest.approx(48.776375, rel=1e-6)
    assert exact.is_proven


def test_exact_repeats_with_an_effort():
    problem = gpus("layered", 20, 5, 1.0)
    first, second = (Exact().plan(problem, seed=3, limit=Limit(effort=300)) for _ in range(2))
    for column in ("task", "device", "start", "finish"):
        assert getattr(first, column).tobytes() == getattr(second, column).tobytes()
    assert first.lower_bounds == second.lower_bounds


def test_exact_cut_by_the_wall_clock_does_not_say_that_it_repeats(monkeypatch: pytest.MonkeyPatch):
    problem = job_shop_problem(*tables(15, 15), "shop")
    monkeypatch.setattr("weft.schedulers.exact.planner.GUARD", 1e-3)
    for name in ("exact", "auto"):
        result = catalog.schedule(problem, name, effort=2_000)
        assert not result.is_repeatable
        assert "cut by the wall clock" in result.note
        assert schedule_document(result)["repeatable"] is False
        assert validate(result.schedule) == ()


def test_exact_that_spends_its_effort_says_that_it_repeats():
    problem, exact = job_shop_problem(*tables(15, 15), "shop"), Exact()
    exact.plan(problem, limit=Limit(effort=5))
    assert not exact.is_cut and not exact.is_proven
    assert "wall clock" not in exact.note


def test_exact_under_a_budget_is_not_cut():
    exact = Exact()
    exact.plan(job_shop_problem(*tables(15, 15), "shop"), limit=Limit(budget=0.2))
    assert not exact.is_cut


def test_exact_is_never_worse_than_its_start():
    problem = gpus("layered", 20, 5, 1.0)
    start = Random().plan(problem, seed=1)
    assert plan(Exact(start=start), problem, effort=1).makespan <= start.makespan


def test_exact_improves_on_its_start(fork_problem: Problem):
    start = Schedule(
        fork_problem, np.array([0, 1, 2]), np.array([0, 0, 1]), np.array([0.0, 1, 101]), np.array([1.0, 11, 111])
    )  # fmt: skip
    assert plan(Exact(start=start), fork_problem).makespan == 21.0


def test_exact_returns_the_start_when_there_is_no_time():
    problem, exact = gpus("layered", 20, 5, 1.0), Exact()
    schedule = exact.plan(problem, limit=Limit(budget=1e-9))
    assert schedule.makespan <= Heft().plan(problem).makespan
    assert validate(schedule) == ()
    assert "too short" in exact.note


@pytest.mark.parametrize("wrong", ["other problem", "copies", "invalid"])
def test_exact_refuses_a_start(wrong: str, fork_problem: Problem, pair: Cluster):
    task, device = np.array([0, 1, 2]), np.array([0, 0, 0])
    start, finish = np.array([0.0, 1, 11]), np.array([1.0, 11, 21])
    if wrong == "copies":
        task, device = np.append(task, 0), np.append(device, 1)
        start, finish = np.append(start, 0.0), np.append(finish, 1.0)
    if wrong == "invalid":
        start, finish = start - [0, 1, 1], finish - [0, 1, 1]
    owner = Problem(fork_problem.graph, pair) if wrong == "other problem" else fork_problem
    copy = np.array([0, 0, 0, 1])[: len(task)]
    with pytest.raises(InputError) as caught:
        Exact(start=Schedule(owner, task, device, start, finish, copy)).plan(fork_problem)
    assert caught.value.field == "start"


def test_exact_meets_deadlines_that_the_start_misses():
    jobs = [
        Job(TaskGraph([5.0, 5.0], [0], [1]), "long"),
        Job(TaskGraph([3.0]), "urgent", deadline=3.0),
        Job(TaskGraph([2.0]), "next", deadline=5.0),
    ]
    exact = Exact()
    schedule = plan(exact, Problem(jobs, ONE))
    assert (schedule.misses, schedule.makespan) == (0, 15.0)
    assert exact.note == "proven optimal among schedules without copies that meet the deadlines"
    assert schedule.lower_bounds[-1].method == "cp-sat, deadlines met"


def test_exact_says_that_deadlines_cannot_be_met():
    jobs = [Job(TaskGraph([3.0]), "a", deadline=4.0), Job(TaskGraph([3.0]), "b", deadline=4.0)]
    with pytest.raises(InfeasibleError, match="finishes all 2 jobs with deadlines in time") as caught:
        Exact().plan(Problem(jobs, ONE))
    assert caught.value.exit_code == 3


def test_exact_can_leave_deadlines_aside():
    problem = Problem(Job(TaskGraph([3.0]), "a", deadline=1.0), ONE)
    assert plan(Exact(deadlines=False), problem).makespan == 3.0


def test_exact_doubled_times_double_the_makespan():
    problem = gpus("layered", 14, 7, 1.0)
    twice = problem.replaced(
        jobs=[Job(problem.graph.replaced(work=2.0 * problem.graph.work))],
        cluster=problem.cluster.scaled_links(2.0),
    )
    limited = [Exact().plan(p, limit=Limit(effort=50)).makespan for p in (problem, twice)]
    assert limited[1] == 2.0 * limited[0]


def test_exact_reports_progress():
    seen: list[tuple[float, float, float]] = []
    problem = gpus("layered", 14, 7, 1.0)
    schedule = plan(Exact(on_progress=lambda *now: seen.append(now)), problem)
    makespans = [makespan for _, makespan, _ in seen]
    assert makespans == sorted(makespans, reverse=True)
    assert makespans[-1] == pytest.approx(schedule.makespan, rel=1e-5)


def test_exact_without_ortools_names_the_extra(monkeypatch: pytest.MonkeyPatch, fork_problem: Problem):
    monkeypatch.setitem(sys.modules, "ortools.sat.python.cp_model", None)
    assert "weft[solve]" in str(Exact().supports(fork_problem))
    with pytest.raises(MissingExtra, match=r"weft\[solve\]"):
        Exact().plan(fork_problem)


@pytest.mark.parametrize(
    ("version", "is_fine"), [("9.12.4544", False), ("9.15.6755", True), ("10.0.1", True)]
)
def test_exact_refuses_an_old_ortools(
    version: str, is_fine: bool, monkeypatch: pytest.MonkeyPatch, fork_problem: Problem
):
    monkeypatch.setattr("ortools.__version__", version)
    reason = Exact().supports(fork_problem)
    assert is_fine if reason is None else f"ortools 9.15 or newer, found {version}: pip install -U" in reason


def test_exact_oldest_ortools_is_the_one_of_the_extra_and_the_doctor():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    (wanted,) = tomllib.loads(text)["project"]["optional-dependencies"]["solve"]
    assert wanted == "ortools>=" + ".".join(map(str, OLDEST))
    assert doctor.OLDEST["ortools"] == OLDEST


def test_doctor_says_that_an_extra_is_too_old():
    old, new = (doctor.Extra("solve", "ortools", version, "") for version in ("9.12.4544", "9.15.1"))
    assert (old.is_old, old.install) == (True, "pip install -U 'weft[solve]'")
    assert (new.is_old, new.install) == (False, "pip install 'weft[solve]'")


def test_exact_refuses_batches():
    cluster = Cluster.uniform((DeviceClass("gpu", batch=4),), (1,))
    assert "batches" in str(Exact().supports(Problem(TaskGraph([1.0]), cluster)))


def test_exact_refuses_what_is_too_large():
    size = MOST_CHOICES // 2
    graph = TaskGraph(np.ones(size), [0], [1], [1.0])
    linked = Cluster.uniform((CPU,), (9,), bandwidth=1.0)
    assert "pairs" in str(Exact().supports(Problem(graph, linked)))
    assert Exact().supports(Problem(graph, Cluster.uniform((CPU,), (9,)))) is None


def test_exact_needs_a_worker():
    with pytest.raises(InputError, match="got 0"):
        Exact(workers=0)


def test_exact_plans_nothing_for_no_tasks():
    exact = Exact()
    assert len(plan(exact, Problem(TaskGraph(np.zeros(0)), ONE))) == 0
    assert exact.is_proven


class Given:
    """A planner that has its schedule already, of a problem without copies."""

    name = "given"

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def supports(self, problem: Problem) -> str | None:
        return None

    def plan(self, problem: Problem, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
        assert not problem.objective.copies
        return replace(self.schedule, problem=problem)


def test_exact_takes_the_schedule_of_its_first_planner_as_hint_and_horizon(monkeypatch: pytest.MonkeyPatch):
    problem = job_shop_problem(*tables(10, 8), "shop")
    better = Tabu().plan(problem, limit=Limit(effort=3000))
    seen: list[tuple[float, int]] = []
    hint = Program.hint
    monkeypatch.setattr(
        Program,
        "hint",
        lambda self, plan: (seen.append((plan.makespan, self.ticked.horizon)), hint(self, plan)),
    )
    found = Exact(Given(better)).plan(problem, limit=Limit(effort=1))
    assert seen == [(better.makespan, better.makespan)]
    assert found.makespan <= better.makespan


def test_exact_is_not_worse_for_a_poor_first_planner():
    problem = gpus("layered", 20, 5, 1.0)
    poor = Random().plan(problem)
    assert plan(Exact(Given(poor)), problem, 1).makespan <= Heft().plan(problem).makespan


@pytest.mark.parametrize("kind", ["layered", "fork-join"])
def test_exact_of_the_catalog_starts_from_the_one_shot_search(kind: str):
    problem = gpus(kind, 25, 5, 1.0)
    alone = problem.replaced(objective=replace(problem.objective, copies=False))
    start = catalog.schedule(alone, "oneshot+search", effort=300).schedule
    found = catalog.schedule(problem, "exact", effort=300).schedule
    assert validate(found) == ()
    assert found.makespan <= start.makespan


def tables(num_jobs: int, num_machines: int) -> tuple[Ints, Ints]:
    rng = np.random.default_rng(7)
    machines = rng.permuted(np.tile(np.arange(num_machines), (num_jobs, 1)), axis=1)
    return machines, rng.integers(1, 100, machines.shape)
