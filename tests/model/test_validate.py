"""The oracle: each rule is broken once, and valid schedules pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from strategies import problems, tie_free_problems

from weft.errors import InputError
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Objective, Problem, Realisation, realise
from weft.model.schedule import ABORTED, EXPIRED, SKIPPED, Schedule
from weft.model.validate import RULES, Violation, validate

CPU = DeviceClass("cpu")
ONE = Cluster.uniform((CPU,), (1,))


def rules(
    schedule: Schedule, problem: Problem | None = None, happened: Realisation | None = None
) -> list[str]:
    """Names of the broken rules."""
    return [violation.rule for violation in validate(schedule, problem, happened)]


def serial(problem: Problem) -> Schedule:
    """Every task on device 0, one after another, jobs in order of release."""
    run_time = problem.run_times[:, problem.cluster.device_class[0]]
    tasks: list[int] = []
    starts: list[float] = []
    now = 0.0
    for j in sorted(range(len(problem.jobs)), key=lambda j: problem.jobs[j].release):
        now = max(now, problem.jobs[j].release)
        for i in problem.jobs[j].graph.order.tolist():
            tasks.append(int(problem.offsets[j]) + i)
            starts.append(now)
            now += float(run_time[tasks[-1]])
    finish = [start + float(run_time[task]) for task, start in zip(tasks, starts, strict=True)]
    return Schedule(problem, tasks, [0] * len(tasks), starts, finish)


@pytest.fixture
def sent(fork_problem: Problem) -> Schedule:
    """A valid schedule of the fork with one child across the link."""
    return Schedule(fork_problem, [0, 1, 2], [0, 0, 1], [0.0, 1.0, 101.0], [1.0, 11.0, 111.0])


def coin(probability: float = 0.5) -> Problem:
    """A task followed by one of two others."""
    graph = TaskGraph([1.0] * 3, [0, 0], [1, 2], probability=[probability, 1 - probability], branch=[0, 0])
    return Problem(graph, ONE)


def test_validate_accepts_a_valid_schedule(sent: Schedule):
    assert validate(sent) == ()


def test_validate_reports_task_device_and_numbers(sent: Schedule):
    early = replace(sent, start=[0.0, 1.0, 100.0], finish=[1.0, 11.0, 110.0])
    (violation,) = validate(early)
    assert violation == Violation(
        "precedence", "right", "cpu-1", "starts at 100.0, data of root arrives at 101.0"
    )
    assert str(violation) == "precedence (right, cpu-1): starts at 100.0, data of root arrives at 101.0"


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"start": [0.0, 1.0, np.nan]}, "numbers"),
        ({"finish": [1.0, 11.0, np.inf]}, "numbers"),
        ({"start": [2.0, 1.0, 101.0]}, "numbers"),
        ({"device": [0, 0, -1]}, "device"),
        ({"outcome": [0, 0, ABORTED]}, "missing"),
        ({"outcome": [0, 0, SKIPPED], "device": [0, 0, -1]}, "missing"),
        ({"finish": [1.0, 11.0, 112.0]}, "duration"),
        ({"finish": [1.0, 11.0, 110.9]}, "duration"),
        ({"start": [-1.0, 1.0, 101.0], "finish": [0.0, 11.0, 111.0]}, "release"),
        ({"start": [0.0, 0.5, 101.0], "finish": [1.0, 10.5, 111.0]}, "slots"),
        ({"start": [0.0, 0.5, 101.0], "finish": [1.0, 10.5, 111.0]}, "precedence"),
        ({"start": [11.0, 1.0, 112.0], "finish": [12.0, 11.0, 122.0]}, "precedence"),
    ],
)
def test_validate_finds_a_broken_row(sent: Schedule, changes: dict[str, list[float]], rule: str):
    assert rule in rules(replace(sent, **changes))


def test_validate_tolerates_rounding_only(sent: Schedule):
    assert rules(replace(sent, finish=[1.0, 11.0, 111.0 + 1e-9])) == []
    assert rules(replace(sent, finish=[1.0, 11.0, 111.0 + 1e-6])) == ["duration"]


def test_validate_finds_a_missing_task(fork_problem: Problem):
    assert rules(Schedule(fork_problem, [0, 1], [0, 0], [0.0, 1.0], [1.0, 11.0])) == ["missing"]


def test_validate_finds_tasks_and_devices_of_another_problem(sent: Schedule):
    small = Problem(TaskGraph([1.0]), ONE)
    assert rules(sent, small) == ["task", "task"]
    narrow = sent.problem.replaced(cluster=ONE)
    assert rules(sent, narrow) == ["device", "missing"]


def test_validate_accepts_copies_that_spare_a_transfer(fork_problem: Problem):
    rows = ([0, 0, 1, 2], [0, 1, 0, 1], [0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 11.0, 11.0])
    assert rules(Schedule(fork_problem, *rows, copy=[0, 1, 0, 0])) == []
    assert rules(Schedule(fork_problem, *rows)) == ["duplicate"]
    strict = fork_problem.replaced(objective=Objective(copies=False))
    assert rules(Schedule(strict, *rows, copy=[0, 1, 0, 0])) == ["copies"]


def test_validate_checks_the_parents_of_every_copy(fork_problem: Problem):
    plan = Schedule(
        fork_problem,
        [0, 1, 2, 2],
        [0, 0, 0, 1],
        [0.0, 1.0, 11.0, 50.0],
        [1.0, 11.0, 21.0, 60.0],
        copy=[0, 0, 0, 1],
    )
    assert rules(plan) == ["precedence"]


def test_validate_lets_an_aborted_attempt_be_short_but_not_free():
    problem = Problem(TaskGraph([4.0]), ONE)
    columns = {"attempt": [0, 1], "outcome": [ABORTED, 0]}
    assert rules(Schedule(problem, [0, 0], [0, 0], [0.0, 2.0], [2.0, 6.0], **columns)) == []
    assert rules(Schedule(problem, [0, 0], [0, 0], [0.0, 1.0], [2.0, 5.0], **columns)) == ["slots"]
    assert rules(Schedule(problem, [0, 0], [0, 0], [0.0, 5.0], [5.0, 9.0], **columns)) == ["duration"]


def test_validate_lets_a_job_with_a_deadline_expire():
    for deadline, found in ((1.0, []), (None, ["missing"])):
        problem = Problem(Job(TaskGraph([4.0]), deadline=deadline), ONE)
        assert rules(Schedule(problem, [0], [-1], [0.0], [0.0], outcome=[EXPIRED])) == found


def test_validate_finds_a_start_before_the_release():
    problem = Problem(Job(TaskGraph([1.0]), release=5.0), ONE)
    assert rules(Schedule(problem, [0], [0], [4.0], [5.0])) == ["release"]


def test_validate_finds_a_device_the_job_may_not_use():
    cluster = Cluster.uniform((CPU, DeviceClass("gpu")), (2, 1))
    problem = Problem(Job(TaskGraph([1.0]), eligible=("cpu-1", "gpu")), cluster)
    found = [rules(Schedule(problem, [0], [device], [0.0], [1.0])) for device in range(3)]
    assert found == [["eligible"], [], []]


@pytest.mark.parametrize(
    ("needs", "detail"),
    [
        ({"slots": 2}, "class 'small' cannot run it: too little slots"),
        ({"memory": 9.0}, "class 'small' cannot run it: too little memory"),
        ({"resources": ("disk",), "demands": [[3.0]]}, "class 'small' cannot run it: too little disk"),
        (
            {"classes": ("small",), "times": [[np.inf]]},
            "class 'small' cannot run it: no run time for kind 'task'",
        ),
    ],
)
def test_validate_finds_a_class_that_cannot_run_the_task(needs: dict[str, object], detail: str):
    big, small = DeviceClass("big", slots=2), DeviceClass("small", memory=8.0, capacity={"disk": 2.0})
    problem = Problem(TaskGraph([1.0]).replaced(**needs), Cluster.uniform((big, small), (1, 1)))
    assert validate(Schedule(problem, [0], [0], [0.0], [1.0])) == ()
    violations = validate(Schedule(problem, [0], [1], [0.0], [1.0]))
    assert ("class", detail) in [(violation.rule, violation.detail) for violation in violations]


@pytest.mark.parametrize(
    ("needs", "rule"),
    [
        ({"slots": [2, 2, 1]}, "slots"),
        ({"memory": [5.0, 5.0, 3.0]}, "memory"),
        ({"resources": ("disk",), "demands": [[2.0], [1.0], [0.0]]}, "resource"),
    ],
)
def test_validate_sums_what_runs_at_one_instant(needs: dict[str, object], rule: str):
    cluster = Cluster.uniform((DeviceClass("a", slots=3, memory=8.0, capacity={"disk": 2.0}),), (1,))
    problem = Problem(TaskGraph([2.0] * 3).replaced(**needs), cluster)
    assert rules(Schedule(problem, [0, 1, 2], [0] * 3, [0.0, 2.0, 0.0], [2.0, 4.0, 2.0])) == []
    assert rules(Schedule(problem, [0, 1, 2], [0] * 3, [0.0, 1.0, 4.0], [2.0, 3.0, 6.0])) == [rule]


def test_validate_ignores_resources_the_class_does_not_limit():
    graph = TaskGraph([1.0] * 2, resources=("disk",), demands=[[9.0], [9.0]])
    problem = Problem(graph, Cluster.uniform((DeviceClass("a", slots=2),), (1,)))
    assert rules(Schedule(problem, [0, 1], [0, 0], [0.0, 0.0], [1.0, 1.0])) == []


def batched(start: list[float], kind: list[int], batch: list[int], size: int = 2) -> Schedule:
    """Tasks of 2 s on one device that takes batches."""
    graph = TaskGraph([2.0] * len(kind), kinds=("x", "y"), kind=kind)
    problem = Problem(graph, Cluster.uniform((DeviceClass("a", batch=size),), (1,)))
    return Schedule(problem, range(len(kind)), [0] * len(kind), start, [s + 2.0 for s in start], batch=batch)


@pytest.mark.parametrize(
    ("schedule", "found"),
    [
        (batched([0.0, 0.0], [0, 0], [0, 0]), []),
        (batched([0.0, 0.0], [0, 0], [-1, -1]), ["slots"]),
        (batched([0.0, 0.0], [0, 0], [0, 1]), ["slots"]),
        (batched([0.0, 0.0], [0, 1], [0, 0]), ["batch"]),
        (batched([0.0, 0.5], [0, 0], [0, 0]), ["batch"]),
        (batched([0.0] * 3, [0] * 3, [0] * 3), ["batch"]),
    ],
)
def test_validate_checks_batches(schedule: Schedule, found: list[str]):
    assert rules(schedule) == found


def test_validate_batch_takes_as_long_as_its_longest_member():
    cluster = Cluster.uniform((DeviceClass("a", batch=2),), (1,))
    plan = Schedule(
        Problem(TaskGraph([1.0, 2.0]), cluster), [0, 1], [0, 0], [0.0, 0.0], [2.0, 2.0], batch=[0, 0]
    )
    assert rules(plan) == []


def test_validate_refuses_branches_without_a_realisation():
    with pytest.raises(InputError, match="judging it needs a realisation"):
        validate(Schedule(coin(), [0], [0], [0.0], [1.0]))


def test_validate_wants_exactly_the_branch_that_is_taken():
    problem = coin(1.0)
    happened = realise(problem, 0)
    assert rules(Schedule(problem, [0, 1], [0, 0], [0.0, 1.0], [1.0, 2.0]), happened=happened) == []
    assert rules(Schedule(problem, [0, 2], [0, 0], [0.0, 1.0], [1.0, 2.0]), happened=happened) == [
        "missing",
        "not-taken",
    ]
    skipped = Schedule(
        problem, [0, 1, 2], [0, 0, -1], [0.0, 1.0, 0.0], [1.0, 2.0, 0.0], outcome=[0, 0, SKIPPED]
    )
    assert rules(skipped, happened=happened) == []


def test_validate_ignores_parents_that_do_not_run():
    graph = TaskGraph(
        [1.0] * 4, [0, 0, 1, 2], [1, 2, 3, 3], probability=[1.0, 0.0, 1, 1], branch=[0, 0, -1, -1]
    )
    problem = Problem(graph, ONE)
    plan = Schedule(problem, [0, 1, 3], [0] * 3, [0.0, 1.0, 2.0], [1.0, 2.0, 3.0])
    assert rules(plan, happened=realise(problem, 0)) == []


def test_validate_judges_durations_by_what_happened():
    problem = Problem(TaskGraph([1.0]), ONE, noise=0.5)
    happened = realise(problem, 4)
    took = float(happened.run_times[0, 0])
    assert rules(Schedule(problem, [0], [0], [0.0], [took]), happened=happened) == []
    assert rules(Schedule(problem, [0], [0], [0.0], [took], realisation=happened)) == []
    assert rules(Schedule(problem, [0], [0], [0.0], [1.0], realisation=happened)) == ["duration"]


def elastic(start: list[float], finish: list[float], units: list[float]) -> Schedule:
    """One task of 4 s whose speed is 1 with one unit and 2 with three."""
    graph = TaskGraph([4.0], curves=[[1.0, 1.5, 2.0]], curve=[0], resources=("gpu",), demands=[[1.0]])
    problem = Problem(graph, Cluster.uniform((DeviceClass("a", capacity={"gpu": 3.0}),), (1,)))
    rows = len(start)
    return Schedule(problem, [0] * rows, [0] * rows, start, finish, units=[[u] for u in units])


@pytest.mark.parametrize(
    ("schedule", "found"),
    [
        (elastic([0.0], [4.0], [1.0]), []),
        (elastic([0.0, 2.0], [2.0, 3.0], [1.0, 3.0]), []),
        (elastic([0.0, 5.0], [2.0, 6.0], [1.0, 3.0]), []),
        (elastic([0.0], [3.0], [1.0]), ["duration"]),
        (elastic([0.0], [3.0], [3.0]), ["duration"]),
        (elastic([0.0], [1.0], [4.0]), ["duration", "resource"]),
        (elastic([0.0, 0.0], [2.0, 2.0], [1.0, 1.0]), ["duration", "slots"]),
    ],
)
def test_validate_adds_up_the_work_of_elastic_rows(schedule: Schedule, found: list[str]):
    assert rules(schedule) == found


def one_port(starts: tuple[float, float]) -> Schedule:
    """A root that feeds two children on two other devices, 10 s of transfer each."""
    graph = TaskGraph([1.0] * 3, [0, 0], [1, 2], [10.0, 10.0])
    problem = Problem(graph, Cluster.uniform((CPU,), (3,), bandwidth=1.0).replaced(one_port=True))
    start = [0.0, *starts]
    return Schedule(problem, [0, 1, 2], [0, 1, 2], start, [s + 1.0 for s in start])


def test_validate_places_one_transfer_at_a_time():
    assert rules(one_port((11.0, 21.0))) == []
    assert rules(one_port((21.0, 11.0))) == []
    assert rules(one_port((11.0, 11.0))) == ["one-port"]
    assert rules(one_port((11.0, 20.0))) == ["one-port"]


def test_validate_needs_no_port_for_data_at_hand():
    graph = TaskGraph([1.0, 20.0, 1.0], [0, 0], [1, 2], [5.0, 5.0])
    cluster = Cluster.uniform((CPU,), (2,), bandwidth=1.0).replaced(one_port=True)
    plan = Schedule(Problem(graph, cluster), [0, 1, 2], [0, 0, 0], [0.0, 1.0, 21.0], [1.0, 21.0, 22.0])
    assert rules(plan) == []


def test_validate_knows_only_listed_rules(sent: Schedule):
    assert len(set(RULES)) == len(RULES)
    assert set(rules(replace(sent, start=[np.nan] * 3))) <= set(RULES)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(problems())
def test_validate_accepts_all_tasks_one_after_another(problem: Problem):
    assert validate(serial(problem)) == ()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(tie_free_problems())
def test_validate_rejects_a_start_moved_forward(problem: Problem):
    plan = serial(problem)
    assume(len(plan) > 1)
    start, finish = plan.start.copy(), plan.finish.copy()
    step = 0.01 * (finish[-2] - start[-2])
    start[-1] -= step
    finish[-1] -= step
    assert "slots" in rules(replace(plan, start=start, finish=finish))


def test_validate_reads_many_rows():
    n = 20_000
    graph = TaskGraph(np.ones(n), np.arange(n - 1), np.arange(1, n), 1.0)
    assert validate(serial(Problem(graph, ONE))) == ()


def test_validate_is_as_strict_where_releases_are_dates():
    date = 1.7e9
    problem = Problem(Job(TaskGraph([1.0, 1.0], [0], [1]), release=date), ONE)
    good = Schedule(problem, [0, 1], [0, 0], [date, date + 1.0], [date + 1.0, date + 2.0])
    assert rules(good) == []
    assert rules(replace(good, start=[date, date + 0.5], finish=[date + 1.0, date + 1.5])) == [
        "slots",
        "precedence",
    ]
    assert rules(replace(good, start=[date - 0.5, date + 1.0], finish=[date + 0.5, date + 2.0])) == [
        "release"
    ]


@pytest.mark.parametrize(("start", "broken"), [(751.0, []), (750.0, ["precedence"])])
def test_validate_counts_links_in_the_unit_of_the_graph(start: float, broken: list[str]):
    cluster = Cluster.uniform((CPU,), (2,), bandwidth=1000.0, latency=0.25)
    problem = Problem(TaskGraph([1.0, 1.0], [0], [1], 500.0, time_unit="ms"), cluster)
    assert rules(Schedule(problem, [0, 1], [0, 1], [0.0, start], [1.0, start + 1.0])) == broken
