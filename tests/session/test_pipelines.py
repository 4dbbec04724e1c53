"""Instances of pipelines told one by one: kept in order, skipped, and seen by policies of pipelines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from weft import catalog
from weft.errors import UnsupportedError
from weft.execute.virtual_runs import drive_tasks
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.job import Job
from weft.model.problem import Problem, realise
from weft.model.schedule import DONE, Schedule
from weft.model.validate import validate
from weft.scenarios import scenario
from weft.schedulers.dispatchers.outages import Outage
from weft.schedulers.dispatchers.tasks import run_one
from weft.session import Session
from weft.session.plan_limits import without_copies
from weft.testing.sessions import checked


def pipelines(overrun: str, which: int) -> Problem:
    """A configuration of adas-tx2, jobs by release: numbers, and so ties, are as they are told."""
    problem = scenario("adas-tx2", overrun=overrun, horizon=500.0).problem("test", which)
    jobs = sorted(problem.jobs, key=lambda job: job.release)
    return without_copies(problem.replaced(jobs=tuple(jobs)))


def rows(schedule: Schedule) -> list[tuple[Any, ...]]:
    """What was done where and when."""
    done = schedule.outcome == DONE
    columns = (schedule.task, schedule.device, schedule.start, schedule.finish)
    return sorted(zip(*(column[done].tolist() for column in columns), strict=True))


@pytest.mark.parametrize("tells", [False, True], ids=["known", "told"])
@pytest.mark.parametrize("scheduler", ["adas-ppo", "edf-eft", "rm-pinned"])
@pytest.mark.parametrize(("overrun", "which"), [("queue", 0), ("skip", 0), ("queue", 80)])
def test_session_of_pipelines_does_what_the_simulator_does(
    scheduler: str, overrun: str, which: int, tells: bool
):
    """Also stored and restored on the way, which forgets all that is over."""
    problem = pipelines(overrun, which)
    world = realise(problem, 5)
    inside = run_one(catalog.task_dispatcher(scheduler), problem, world)
    given = problem.cluster if tells else problem
    settings = {"time_unit": problem.time_unit, "noise": problem.noise, "noise_law": problem.noise_law}
    session = checked(given, scheduler, keeps_record=which == 0, **settings)
    outside = drive_tasks(session, problem, world, tells_graphs=tells)
    assert rows(outside) == rows(inside)
    if which == 0:
        session.decide(session.now)
        record = session.record()
        assert validate(record) == ()
        assert (record.outcome != DONE).sum() == (inside.outcome != DONE).sum()
    else:
        assert len(session.snapshot()["view"]["numbers"]) <= 10  # first and last of five pipelines


@pytest.mark.parametrize("scheduler", ["adas-ppo", "rm-pinned"])
def test_policy_of_pipelines_goes_on_without_devices_that_are_away(scheduler: str):
    problem = pipelines("queue", 0)
    away = [Outage(0, 100.0, 300.0), Outage(6, 150.0, 350.0)]
    found = run_one(catalog.task_dispatcher(scheduler), problem, realise(problem, 5), 0, away)
    assert validate(found) == ()
    on_gpu = (found.device == 6) & (found.start >= 150.0) & (found.start < 350.0)
    assert not on_gpu.any()


def line() -> TaskGraph:
    """A stage, then another."""
    return TaskGraph([1.0, 1.0], [0], [1], [0.0], names=["a", "b"])


def session_of_one(overrun: str = "queue", **settings: Any) -> Session:
    """Two devices and a pipeline whose first instance runs stage a."""
    session = Session(Cluster.uniform((DeviceClass("cpu"),), (2,)), "fifo", **settings)
    tell = {"graph": line(), "series": "camera", "overrun": overrun, "in_order": True}
    session.arrived("first", 0.0, **tell)
    (start,) = session.decide(0.0).starts
    session.started("first", "a", start.device, 0.0)
    session.arrived("second", 0.5, **tell)
    return session


def test_stage_waits_for_the_same_stage_of_the_instance_before():
    session = session_of_one()
    assert session.decide(0.5).starts == ()
    session.finished("first", "a", "cpu-0", 1.0)
    assert [(start.job, start.task) for start in session.decide(1.0).starts] == [
        ("first", "b"),
        ("second", "a"),
    ]


def test_instance_that_comes_too_early_is_skipped_and_said_to_be_over():
    session = session_of_one("skip")
    decision = session.decide(0.5)
    assert decision.starts == ()
    assert [(end.job, end.outcome) for end in decision.ended] == [("second", "expired")]


@pytest.mark.parametrize("on_failure", ["job", "descendants"])
def test_instance_that_fails_lets_the_next_one_in(on_failure: str):
    session = session_of_one(max_attempts=1, on_failure=on_failure)
    session.failed("first", "a", "cpu-0", 1.0)
    assert [(start.job, start.task) for start in session.decide(1.0).starts] == [("second", "a")]


def test_skipped_instance_passes_its_turn_on_though_it_was_stored_and_restored():
    cluster = Cluster.uniform((DeviceClass("cpu"),), (2,))
    session = session_of_one("skip")
    session.decide(0.5)
    session = Session.restore(cluster, session.snapshot())
    session.arrived("third", 0.75, graph=line(), series="camera", in_order=True)
    assert session.decide(0.75).starts == ()
    session.finished("first", "a", "cpu-0", 1.0)
    started = [(start.job, start.task) for start in session.decide(1.0).starts]
    assert started == [("first", "b"), ("third", "a")]


def test_aborted_overruns_and_pipelines_beyond_a_policy_are_refused():
    problem = pipelines("queue", 0)
    aborting = problem.replaced(jobs=tuple(replace(job, overrun="abort") for job in problem.jobs))
    with pytest.raises(UnsupportedError, match="is aborted when it is due"):
        Session(aborting, "rm-pinned")
    settings = {"time_unit": problem.time_unit, "noise": problem.noise}
    session = Session(problem.cluster, "adas-ppo", **settings)
    stages = problem.jobs[0].graph
    for k in range(5):
        session.arrived(k, 0.0, graph=stages, deadline=50.0, series=f"camera {k}")
    with pytest.raises(UnsupportedError, match=r"at most 5 pipelines .* here are 6"):
        session.arrived(5, 0.0, graph=stages, deadline=50.0, series="camera 5")
    with pytest.raises(UnsupportedError, match="periodic pipelines with deadlines"):
        session.arrived(5, 0.0, graph=stages)
    assert len(session.decide(0.0).starts) > 0


def test_job_of_the_problem_brings_no_series():
    problem = Problem(Job(line(), "one"), Cluster.uniform((DeviceClass("cpu"),), (1,)))
    with pytest.raises(Exception, match="expected a graph with it"):
        Session(problem, "fifo").arrived("one", 0.0, series="camera")


def test_policy_of_pipelines_waits_for_no_release_once_none_will_come():
    """With releases to come it leaves the one stage that is ready waiting, or starts it: closed, it starts."""
    problem = pipelines("queue", 0)
    session = Session(problem.cluster, "adas-ppo", time_unit=problem.time_unit)
    session.arrived("one", 0.0, graph=problem.jobs[0].graph, deadline=50.0, series="camera", interval=50.0)
    session.closed(0.0)
    again = Session.restore(problem.cluster, session.snapshot())
    for one in (session, again):
        decision = one.decide(0.0)
        assert len(decision.starts) == 1
        assert decision.wake_at is None


@pytest.mark.parametrize("change", [{"is_faithful": True}, {"depths": (1, 2)}], ids=["queues", "launches"])
def test_policy_that_starts_more_than_single_stages_is_refused_one_by_one(change: dict[str, Any]):
    """In sessions, and where devices go away."""
    problem = pipelines("queue", 0)
    policy = catalog.task_dispatcher("adas-ppo")
    other = replace(policy, sight=policy.sight._replace(**change))
    with pytest.raises(UnsupportedError, match="tasks start one by one, and it was trained with"):
        Session(problem, other)
    with pytest.raises(UnsupportedError, match="tasks start one by one, and it was trained with"):
        run_one(other, problem, realise(problem, 0), 0, [Outage(0, 10.0, 20.0)])
