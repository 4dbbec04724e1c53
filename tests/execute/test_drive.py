"""Drives in virtual time: whatever goes wrong, the history keeps every promise, and the same faults give the same one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import mean

import pytest
from driving import STYLES, Drove, drawn, faults_of, go
from hypothesis import given, settings
from hypothesis import strategies as st

from weft import catalog
from weft.execute.faults import Failure, Faults, Loss, Slowdown
from weft.execute.scheduling import Wanted
from weft.execute.virtual import NO_FAULTS
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder
from weft.model.problem import Job, Problem

SMALL = st.integers(0, 10_000)
WANTED = st.sampled_from(STYLES)


def problem_of(seed: int, wanted: Wanted, noise: float = 0.0) -> Problem:
    return drawn(seed, jobs=3 if wanted.split else 1 + seed % 3 // 2, noise=noise)


def ancestors(problem: Problem, job: str, task: str) -> set[str]:
    """All that a task needs, however far."""
    graph = next(one.graph for one in problem.jobs if one.name == job)
    found, stack = set[str](), [task]
    while stack:
        node = graph.index[stack.pop()]
        more = {graph.names[k] for k in graph.predecessors(node).tolist()} - found
        found |= more
        stack += more
    return found


def fates(drove: Drove) -> Counter[tuple[str, str]]:
    """How often each task was reported or dropped."""
    return Counter((row["job"], row["task"]) for row in drove.of("reported", "dropped"))


# -- promises ----------------------------------------------------------------------------------------


@settings(max_examples=120, deadline=None)
@given(SMALL, SMALL, WANTED, st.sampled_from((0.0, 0.3)), st.sampled_from((0, 1, 2)))
def test_history_keeps_its_promises_whatever_goes_wrong(
    seed: int, fault_seed: int, wanted: Wanted, noise: float, ahead: int
):
    problem = problem_of(seed, wanted, noise)
    drove = go(problem, wanted, faults_of(fault_seed, problem), seed=seed, ahead=ahead)
    assert drove.violations == []
    gone_wrong = {(row["job"], row["task"]) for row in drove.of("failed")}
    told = fates(drove)
    reported = {(row["job"], row["task"]) for row in drove.of("reported")}
    for job in problem.jobs:
        for task in job.graph.names:
            key = (job.name, task)
            if told[key] == 0:
                assert key in gone_wrong  # it failed for good itself
            assert told[key] <= 1
    for row in drove.of("dropped"):
        because = (row["job"], row["because"])
        assert because in gone_wrong - reported
        assert row["because"] in ancestors(problem, row["job"], row["task"])


@settings(max_examples=30, deadline=None)
@given(SMALL, SMALL, WANTED)
def test_same_faults_give_the_same_history(seed: int, fault_seed: int, wanted: Wanted):
    problem = problem_of(seed, wanted, 0.3)
    faults = faults_of(fault_seed, problem)
    first, second = (go(problem, wanted, faults, seed=seed).rows for _ in range(2))
    assert first == second


@settings(max_examples=40, deadline=None)
@given(SMALL, SMALL, st.sampled_from((Wanted("heft"), Wanted("plan:heft"))), st.integers(1, 3))
def test_what_is_queued_ahead_starts_after_its_parents(seed: int, fault_seed: int, wanted: Wanted, ahead: int):
    problem = problem_of(seed, wanted, 0.3)
    drove = go(problem, wanted, faults_of(fault_seed, problem), seed=seed, ahead=ahead)
    done = set()
    for row in drove.of("reported", "started"):
        if row["event"] == "reported":
            done.add((row["job"], row["task"]))
            continue
        graph = next(job.graph for job in problem.jobs if job.name == row["job"])
        parents = graph.predecessors(graph.index[row["task"]]).tolist()
        assert {(row["job"], graph.names[k]) for k in parents} <= done


def test_most_tasks_of_a_plan_are_queued_ahead():
    rows = [row for seed in range(20) for row in go(drawn(seed), Wanted("heft")).of("submitted")]
    assert mean(row["ahead"] for row in rows) > 0.2
    assert not any(
        row["ahead"] for seed in range(5) for row in go(drawn(seed), STYLES[0], ahead=0).of("submitted")
    )


# -- shadows -----------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(SMALL, SMALL, WANTED, st.sampled_from(("fifo", "priced", "plan:heft")))
def test_shadow_is_written_down_and_changes_nothing(seed: int, fault_seed: int, wanted: Wanted, shadow: str):
    problem = problem_of(seed, wanted, 0.3)
    faults = faults_of(fault_seed, problem)
    alone = go(problem, wanted, faults, seed=seed)
    shadowed = go(problem, wanted, faults, seed=seed, shadow=shadow)
    assert [row for row in shadowed.rows if row["event"] != "shadow"] == alone.rows
    names = {(job.name, task) for job in problem.jobs for task in job.graph.names}
    for row in shadowed.of("shadow"):
        assert row["scheduler"] == shadow
        assert {(job, task) for job, task, _ in row["starts"]} <= names


def test_shadow_says_what_it_would_start():
    problem = drawn(4)
    drove = go(problem, Wanted("heft"), shadow="fifo")
    first = drove.of("shadow")[0]
    assert first["time"] == 0.0 and first["starts"]


# -- plans -------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(SMALL, st.sampled_from((Wanted("heft"), Wanted("cpop"), Wanted("heft", is_strict=True))))
def test_plan_without_faults_is_what_happens(seed: int, wanted: Wanted):
    problem = drawn(seed)
    schedule = catalog.schedule(problem, wanted.scheduler).schedule
    drove = go(problem, wanted)
    names = problem.cluster.device_names
    planned = {
        problem.task_name(one.task).rpartition("/")[2]: (names[one.device], one.start, one.finish)
        for one in schedule.placements
    }
    began = {row["task"]: (row["device"], row["time"]) for row in drove.of("started")}
    ended = {row["task"]: row["time"] for row in drove.of("finished")}
    assert began.keys() == planned.keys()
    for task, (device, start, finish) in planned.items():
        assert began[task] == (device, pytest.approx(start, abs=2e-6))
        assert ended[task] == pytest.approx(finish, abs=2e-6)
