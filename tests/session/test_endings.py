"""How tasks and jobs of a session fail, what is reserved ahead, and the record of what happened."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import SEEDS, make_problem

from weft.errors import InputError
from weft.evaluation.sweep.queue_runs import setup_of
from weft.execute.virtual_runs import drive_queues, drive_tasks
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Job, Problem, expected, realise
from weft.model.schedule import ABORTED, DONE, EXPIRED
from weft.model.validate import validate
from weft.scenarios import scenario
from weft.session import Decision, End, Reservation, Session, jobs


def graph() -> TaskGraph:
    """a before b before d, and c beside them; kinds for queues."""
    builder = GraphBuilder("work")
    for name in "abcd":
        builder.task(name, 1.0, kind=name)
    builder.edge("a", "b")
    builder.edge("b", "d")
    builder.edge("c", "d")
    return builder.build()


def cluster() -> Cluster:
    return Cluster.uniform((DeviceClass("cpu"),), (2,))


VIEWS = ("queues", "fifo", "plan:heft", "priced")


def new(view: str, **given: object) -> Session:
    """A session to which jobs of the one graph arrive."""
    if view == "queues":
        batches = Cluster.uniform((DeviceClass("cpu", batch=3),), (2,))
        return Session(Problem(graph(), batches), "fifo+wait", **given)
    return Session(cluster(), view, **given)


def begin(session: Session, decision: Decision) -> dict[str, str]:
    """Start what was decided; returns the device of each task."""
    for start in decision.starts:
        session.started(start.job, start.task, start.device, session.now)
    return {start.task: start.device for start in decision.starts}


# -- failures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
def test_failed_task_fails_its_descendants_and_the_rest_goes_on(view: str):
    session = new(view, max_attempts=1, on_failure="descendants", keeps_record=True)
    session.arrived("j", 0.0, graph=graph())
    devices = begin(session, session.decide(0.0))
    session.failed("j", "a", devices["a"], 0.5)
    assert session.decide(0.5) == Decision((), (), (), None)
    session.finished("j", "c", devices["c"], 1.0)
    reason = "task 'a' has failed once"
    assert session.decide(1.0).ended == (End("j", "failed", 1.0, reason, ("a",), ("b", "d")),)
    assert session.num_waiting == 0
    assert validate(session.record()) == ()


@pytest.mark.parametrize("view", VIEWS)
def test_job_fails_with_a_task_unless_asked_otherwise(view: str):
    session = new(view, max_attempts=1)
    session.arrived("j", 0.0, graph=graph())
    devices = begin(session, session.decide(0.0))
    session.failed("j", "a", devices["a"], 0.5)
    decision = session.decide(0.5)
    assert [cancel.task for cancel in decision.cancels] == ["c"]
    assert decision.ended == (End("j", "failed", 0.5, "task 'a' has failed once", ("a",)),)


@pytest.mark.parametrize("view", VIEWS)
def test_job_ends_when_all_that_is_left_has_failed(view: str):
    session = new(view, max_attempts=1, on_failure="descendants")
    session.arrived("j", 0.0, graph=graph())
    devices = begin(session, session.decide(0.0))
    session.failed("j", "c", devices["c"], 0.5)
    session.failed("j", "a", devices["a"], 0.5)
    reason = "task 'c' has failed once; task 'a' has failed once"
    assert session.decide(0.5).ended == (End("j", "failed", 0.5, reason, ("c", "a"), ("d", "b")),)


@pytest.mark.parametrize("view", VIEWS)
def test_task_whose_devices_are_lost_fails_its_descendants(view: str):
    session = new(view, max_losses=1, on_failure="descendants")
    session.arrived("j", 0.0, graph=graph())
    devices = begin(session, session.decide(0.0))
    session.device_lost(devices["a"], 0.5)
    text = json.dumps(session.snapshot())
    problem = session.problem if view == "queues" else cluster()
    for one in (session, Session.restore(problem, json.loads(text))):
        assert one.decide(0.5) == Decision((), (), (), None)
        one.finished("j", "c", devices["c"], 1.0)
        (end,) = one.decide(1.0).ended
        assert (end.outcome, end.failed, end.dropped) == ("failed", ("a",), ("b", "d"))


def test_unknown_word_for_failures_is_refused():
    with pytest.raises(InputError, match="on_failure: expected 'job' or 'descendants', got 'task'"):
        new("fifo", on_failure="task")


# -- reservations -------------------------------------------------------------------------------------


def test_plan_says_what_it_has_reserved():
    session = new("plan:heft")
    session.arrived("j", 0.0, graph=graph())
    starts = session.decide(0.0).starts
    first = next(start.device for start in starts if start.task == "a")
    assert session.reservations() == (
        Reservation("j", "b", first, 1.0, 2.0),
        Reservation("j", "d", first, 2.0, 3.0),
    )
    assert session.reservations(first) == session.reservations()
    assert session.reservations(next(start.device for start in starts if start.task == "c")) == ()
    with pytest.raises(InputError, match=r"reservations\.device: no device 'gpu' in the cluster"):
        session.reservations("gpu")


@pytest.mark.parametrize("view", ["queues", "fifo", "priced"])
def test_rule_reserves_nothing(view: str):
    session = new(view)
    session.arrived("j", 0.0, graph=graph())
    session.decide(0.0)
    assert session.reservations() == ()


class Watched:
    """A session that keeps what was reserved after every decision."""

    def __init__(self, session: Session) -> None:
        self._session, self.reserved = session, list[tuple[Reservation, ...]]()

    def decide(self, time: float) -> Decision:
        decision = self._session.decide(time)
        self.reserved.append(self._session.reservations())
        return decision

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from(("chain", "fork", "diamond", "random")), st.booleans())
def test_what_is_reserved_is_what_starts_when_nothing_unexpected_happens(
    seed: int, shape: str, is_plain: bool
):
    problem = make_problem(
        seed, sizes=(1, 12, 3, 2), graph_style=(shape, "uniform", "uniform"), links="uniform",
        is_plain=is_plain, has_copies=False,
    )  # fmt: skip
    session = Watched(Session(problem.cluster, "plan:heft", time_unit=problem.time_unit))
    found = drive_tasks(session, problem, expected(problem), tells_graphs=True)
    names = problem.graph.names
    started = {names[i]: (p, at) for i, p, at in zip(found.task, found.device, found.start, strict=True)}
    for reserved in session.reserved:
        for one in reserved:
            device, start = started[one.task]
            assert problem.cluster.device_names[device] == one.device
            assert start <= one.expected_start * (1 + 1e-9)
        on_one = [started[one.task][1] for one in reserved if one.device == problem.cluster.device_names[0]]
        assert on_one == sorted(on_one)


# -- records ------------------------------------------------------------------------------------------


def test_record_of_a_driven_session_is_the_schedule_of_the_kernel():
    problem = scenario("workflows", load=0.8, jobs=8, tasks=12, noise=0.3).dispatched("validation", 0, 1)
    world = realise(problem, 3)
    for known, tells in ((problem, False), (problem.cluster, True)):
        session = Session(known, "priced", keeps_record=True, time_unit=problem.time_unit)
        found = drive_tasks(session, problem, world, tells_graphs=tells)
        session.decide(session.now)
        record = session.record()
        assert validate(record) == ()
        for name in ("task", "device", "start"):
            assert (getattr(record, name) == getattr(found, name)).all()
        assert record.finish == pytest.approx(found.finish)


def test_record_of_queues_has_batches_and_branches():
    case = scenario("conditional", jobs=40).stream("test", 0)
    session = Session(case, "heavy-last-3", seed=1, keeps_record=True)
    driven = drive_queues(session, setup_of(case), seed=1)
    record = session.record()
    assert validate(record) == ()
    assert record.job_completion_times == pytest.approx(driven.job_times)
    assert (record.batch >= 0).any()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from(("job", "descendants")), st.sampled_from(("fifo", "plan:heft", "queues")))
def test_record_of_any_disorder_is_valid(seed: int, on_failure: str, view: str):
    rng = np.random.default_rng(seed)
    session = new(view, max_attempts=2, on_failure=on_failure, keeps_record=True)
    running: dict[tuple[object, str], str] = {}
    lost: set[str] = set()
    for step in range(60):
        time = session.now + float(rng.choice([0.0, 0.5, 2.0])) if step else 0.0
        draw = rng.random()
        if draw < 0.3 and step < 30:
            session.arrived(step, time, graph=graph())
        elif draw < 0.4:
            device = f"cpu-{rng.integers(2)}"
            (session.device_joined if device in lost else session.device_lost)(device, time)
            lost ^= {device}
            running = {key: where for key, where in running.items() if where not in lost}
        elif running:
            key = list(running)[int(rng.integers(len(running)))]
            (session.failed if rng.random() < 0.3 else session.finished)(*key, running.pop(key), time)
        for start in session.decide(time).starts:
            running[start.job, start.task] = start.device
            session.started(start.job, start.task, start.device, time)
        if step == 40:
            problem = session.problem if view == "queues" else cluster()
            session = Session.restore(problem, json.loads(json.dumps(session.snapshot())))
    if any(outcome for outcome in session.snapshot()["ended"]):
        record = session.record()
        assert validate(record) == ()
        assert set(record.outcome.tolist()) <= {DONE, ABORTED, EXPIRED}


def test_record_tells_failed_attempts_and_dropped_tasks():
    session = new("fifo", max_attempts=2, on_failure="descendants", keeps_record=True)
    session.arrived("j", 1.0, graph=graph())
    devices = begin(session, session.decide(1.0))
    session.finished("j", "c", devices["c"], 2.0)
    session.failed("j", "a", devices["a"], 4.0)
    devices = begin(session, session.decide(4.0))
    session.failed("j", "a", devices["a"], 4.5)
    story = [
        (row.task, row.attempt, row.start, row.finish, row.outcome) for row in session.record().placements()
    ]
    assert story == [
        ("a", 0, 1.0, 4.0, "aborted"),
        ("c", 0, 1.0, 2.0, "done"),
        ("a", 1, 4.0, 4.5, "aborted"),
        ("a", 0, 4.5, 4.5, "expired"),
        ("b", 0, 4.5, 4.5, "expired"),
        ("d", 0, 4.5, 4.5, "expired"),
    ]


def test_record_covers_the_jobs_that_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs, "KEPT", 5)
    session = Session(cluster(), "fifo", keeps_record=True)
    with pytest.raises(InputError, match="record: expected a job that has ended"):
        session.record()
    for k in range(40):
        session.arrived(k, float(k), graph=TaskGraph([1.0]))
        devices = begin(session, session.decide(float(k)))
        session.finished(k, 0, *devices.values(), float(k))
    session.decide(40.0)
    assert 5 <= len(session.record().problem.jobs) <= 10
    assert len(session.snapshot()["graphs"]) <= 10


def test_record_is_kept_on_demand_only():
    with pytest.raises(InputError, match="record: the session keeps none: open it with keeps_record=True"):
        new("fifo").record()


def test_job_of_the_problem_has_a_record_too():
    session = Session(Problem([Job(graph(), "x"), Job(graph(), "y")], cluster()), "fifo", keeps_record=True)
    session.arrived("y", 3.0)
    while True:
        decision = session.decide(session.now)
        if decision.ended:
            break
        for task, device in begin(session, decision).items():
            session.finished("y", task, device, session.now)
    record = session.record()
    assert [job.name for job in record.problem.jobs] == ["y"]
    assert validate(record) == ()
