"""Sessions: events in, decisions out, whatever order the world takes."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.errors import InputError, UnsupportedError
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Problem
from weft.scenarios import scenario
from weft.session import Cancel, Decision, End, Session, Start, jobs
from weft.sim.queues.layout import Rules

FORK = "a"


def fork() -> TaskGraph:
    """a, then b or c (a branch), then d; and e beside them."""
    builder = GraphBuilder("fork")
    for name, work in (("a", 1.0), ("b", 2.0), ("c", 4.0), ("d", 1.0), ("e", 3.0)):
        builder.task(name, work, kind=name)
    builder.edge("a", "b", branch=0, probability=0.5)
    builder.edge("a", "c", branch=0, probability=0.5)
    for source in ("b", "c"):
        builder.edge(source, "d")
    return builder.build()


def devices(*batches: int) -> Cluster:
    classes = [DeviceClass(f"c{k}", 1.0, batch=batch) for k, batch in enumerate(batches)]
    return Cluster.uniform(classes, [1] * len(classes))


def new(scheduler: str = "fifo+wait", *batches: int, **given: int) -> Session:
    return Session(Problem(fork(), devices(*(batches or (1, 1)))), scheduler, **given)


def begin(session: Session, decision: Decision, time: float) -> None:
    for start in decision.starts:
        session.started(start.job, start.task, start.device, time, attempt=start.attempt)


def running(session: Session, time: float = 0.0) -> tuple[Start, ...]:
    """One job has arrived, its first tasks a and e run."""
    session.arrived("j", time)
    decision = session.decide(time)
    begin(session, decision, time)
    return decision.starts


# -- what a session says ------------------------------------------------------------------------------


def test_decision_starts_the_tasks_without_predecessors():
    assert running(new()) == (
        Start("j", "a", "c0-0", 1, 0, 0.0, 1.0),
        Start("j", "e", "c1-0", 1, 1, 0.0, 3.0),
    )


def test_decision_waits_while_no_device_is_free():
    session = new()
    running(session)
    session.arrived("k", 0.5)
    assert session.decide(0.5) == Decision((), (), (), None)


def test_branch_that_is_told_is_the_one_that_runs():
    session = new()
    running(session)
    session.finished("j", "a", "c0-0", 1.0, branch="c")
    assert [start.task for start in session.decide(1.0).starts] == ["c"]


def test_job_is_reported_done_once():
    session = new()
    running(session)
    session.finished("j", "a", "c0-0", 1.0, branch="b")
    begin(session, session.decide(1.0), 1.0)
    session.finished("j", "b", "c0-0", 3.0)
    session.finished("j", "e", "c1-0", 3.0)
    begin(session, session.decide(3.0), 3.0)
    session.finished("j", "d", "c0-0", 4.0)
    assert session.decide(4.0).ended == (End("j", "done", 4.0),)
    assert session.decide(4.0).ended == ()


def test_batch_runs_as_one_and_frees_its_device_with_the_last():
    session = new("fifo+wait", 2)
    session.arrived(1, 0.0)
    session.arrived(2, 0.0)
    decision = session.decide(0.0)
    assert [(start.job, start.task, start.batch) for start in decision.starts] == [(1, "a", 0), (2, "a", 0)]
    begin(session, decision, 0.0)
    session.finished(1, "a", "c0-0", 1.0, branch="b")
    assert session.decide(1.0).starts == ()
    session.finished(2, "a", "c0-0", 1.5, branch="b")
    assert len(session.decide(1.5).starts) == 2


def test_vacated_device_starts_before_the_end_is_told():
    session = new("fifo+wait", 1)
    running(session)
    session.vacated("j", "a", "c0-0", 0.5)
    assert [start.task for start in session.decide(0.5).starts] == ["e"]
    session.finished("j", "a", "c0-0", 0.7, branch="c")


def test_device_that_is_late_stays_busy():
    session = new()
    running(session)
    session.arrived("k", 50.0)
    assert session.decide(50.0).starts == ()


def test_block_of_an_idle_device_says_when_to_ask_again():
    session = Session(Problem(fork(), devices(1, 1, 1)), "fifo", rules=Rules(idle_block=2.0))
    running(session)
    session.finished("j", "a", "c0-0", 1.0, branch="b")
    assert session.decide(1.0).wake_at is None
    session.arrived("k", 1.0)
    assert session.decide(1.0).wake_at == 2.0


def test_expired_job_is_reported_and_its_time_is_a_wake_up():
    session = Session(Problem(fork(), devices(1)), "fifo+wait", rules=Rules(expiry=10.0))
    session.arrived("old", 0.0)
    begin(session, session.decide(0.0), 0.0)
    wake_at = session.decide(0.0).wake_at
    assert wake_at == np.nextafter(10.0, np.inf)
    assert session.decide(wake_at).ended == (End("old", "expired", wake_at),)


def test_rule_that_waits_for_company_starts_alone_once_no_job_will_come():
    builder = GraphBuilder("heavy")
    builder.task("x", 1.0, kind="x")
    builder.task("y", 1.0, kind="y")
    builder.task("big", 30.0, kind="big")
    session = Session(Problem(builder.build(), devices(4)), "heavy-last-5")
    running(session)
    for name in ("y", "x"):
        session.finished("j", name, "c0-0", session.now + 1.0)
        begin(session, session.decide(session.now), session.now)
    assert session.num_waiting == 1
    session.closed(3.0)
    decision = session.decide(3.0)
    assert [start.task for start in decision.starts] == ["big"]
    assert decision.wake_at == 3.0


# -- attempts and devices -----------------------------------------------------------------------------


def test_failed_task_is_tried_again_with_the_next_attempt():
    session = new()
    running(session)
    session.failed("j", "a", "c0-0", 0.5)
    assert session.decide(0.5).starts == (Start("j", "a", "c0-0", 2, 2, 0.5, 1.5),)


def test_job_fails_with_a_task_that_failed_too_often():
    session = new(max_attempts=2)
    running(session)
    session.failed("j", "a", "c0-0", 0.5)
    begin(session, session.decide(0.5), 0.5)
    session.failed("j", "a", "c0-0", 0.7)
    decision = session.decide(0.7)
    ended = End("j", "failed", 0.7, "task 'a' has failed 2 times", ("a",))
    assert decision == Decision((), (Cancel("j", "e", "c1-0", 1),), (ended,), None)
    session.finished("j", "e", "c1-0", 0.8)
    assert session.decide(0.8) == Decision((), (), (), None)


def test_failed_job_takes_its_waiting_tasks_along():
    session = new("fifo+wait", 1, max_attempts=1)
    running(session)
    session.failed("j", "a", "c0-0", 0.5)
    assert session.num_waiting == 0


def test_lost_device_leaves_and_its_task_runs_elsewhere():
    session = new()
    running(session)
    session.device_lost("c0-0", 0.5)
    assert session.decide(0.5).starts == ()
    session.finished("j", "e", "c1-0", 3.0)
    assert session.decide(3.0).starts == (Start("j", "a", "c1-0", 2, 2, 3.0, 4.0),)


def test_lost_device_does_not_count_as_a_failure():
    session = new(max_attempts=1)
    running(session)
    session.device_lost("c0-0", 0.5)
    session.device_joined("c0-0", 0.6)
    assert [start.attempt for start in session.decide(0.6).starts] == [2]


def lose_and_join(session: Session, device: str) -> Decision:
    """A device goes and comes back at once; what it gets is started."""
    session.device_lost(device, session.now)
    session.device_joined(device, session.now)
    decision = session.decide(session.now)
    begin(session, decision, session.now)
    return decision


def test_job_fails_with_a_task_whose_devices_are_lost_again_and_again():
    session = new("fifo+wait", 1, 1, max_losses=3)
    running(session)
    assert [lose_and_join(session, "c0-0").starts[0].attempt for _ in range(2)] == [2, 3]
    decision = lose_and_join(session, "c0-0")
    ended = End("j", "failed", 0.0, "the device of task 'a' was lost 3 times while it ran", ("a",))
    assert decision == Decision((), (Cancel("j", "e", "c1-0", 1),), (ended,), None)
    session.finished("j", "e", "c1-0", 1.0)
    assert session.num_waiting == 0 and session.decide(1.0) == Decision((), (), (), None)


def test_tasks_of_one_job_that_lose_their_device_together_fail_it_once():
    cluster = Cluster.uniform([DeviceClass("c", 1.0, slots=2)], [1])
    session = Session(Problem(fork(), cluster), "fifo+wait", max_losses=1)
    running(session)
    session.device_lost("c-0", 0.5)
    assert [end.outcome for end in session.decide(0.5).ended] == ["failed"]
    assert session.num_waiting == 0


def test_other_jobs_go_on_when_one_loses_its_devices_too_often():
    session = new("fifo+wait", 1, max_losses=2)
    running(session)
    session.arrived("k", 0.0)
    lose_and_join(session, "c0-0")
    decision = lose_and_join(session, "c0-0")
    assert [end.job for end in decision.ended] == ["j"]
    assert [start.job for start in decision.starts] == ["k"]


def test_device_lost_before_a_task_ran_is_no_loss_of_the_task():
    session = new("fifo+wait", 1, max_losses=1)
    session.arrived("j", 0.0)
    session.decide(0.0)
    session.device_lost("c0-0", 0.5)
    session.device_joined("c0-0", 0.5)
    decision = session.decide(0.5)
    assert decision.ended == () and [start.attempt for start in decision.starts] == [2]


def test_joined_device_takes_work_again():
    session = new("fifo+wait", 1)
    running(session)
    session.device_lost("c0-0", 0.5)
    session.device_joined("c0-0", 0.6)
    assert len(session.decide(0.6).starts) == 1


def test_event_of_an_attempt_that_is_over_is_refused():
    session = new()
    running(session)
    session.device_lost("c0-0", 0.5)
    session.device_joined("c0-0", 0.5)
    begin(session, session.decide(0.5), 0.5)
    with pytest.raises(InputError, match=r"finished\.attempt: task 'a' of job 'j' is at attempt 2, not 1"):
        session.finished("j", "a", "c0-0", 1.0, attempt=1, branch="b")


def test_rule_that_cannot_act_without_a_lost_device_serves_the_oldest_job():
    case = scenario("conditional", p_c=0.0, jobs=10).stream("test", 0)
    session = Session(case, "heavy-last-1")
    for device in ("gpu-small-0", "gpu-large-0"):
        session.device_lost(device, 0.0)
    session.arrived(0, 0.0)
    for task, branch in (("A", None), ("B", "D"), ("D", "F")):
        begin(session, session.decide(session.now), session.now)
        session.finished(0, task, "cpu-0", session.now + 8.0, branch=branch)
    assert [start.task for start in session.decide(session.now).starts] == ["F"]


def test_policy_goes_on_without_a_lost_device():
    case = scenario("conditional", jobs=10).stream("test", 0)
    session = Session(case, "ppo")
    session.device_lost("cpu-0", 0.0)
    for job in range(20):
        session.arrived(job, 0.0)
    used = {start.device for start in session.decide(0.0).starts}
    assert used and "cpu-0" not in used


def test_device_of_two_slots_runs_two_tasks():
    cluster = Cluster.uniform([DeviceClass("c", 1.0, slots=2)], [1])
    session = Session(Problem(fork(), cluster), "fifo+wait")
    assert [start.device for start in running(session)] == ["c-0", "c-0"]
    session.device_lost("c-0", 0.5)
    assert session.num_waiting == 2
    assert session.decide(0.5).starts == ()


# -- refusals -----------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Callable[[Session], object], str]] = {
    "time goes back": (lambda s: s.decide(-1.0), "decide.time: expected a time >= 0, got -1"),
    "time is no number": (lambda s: s.decide(float("nan")), "decide.time: expected a finite number, got nan"),
    "time is text": (lambda s: s.arrived("k", "soon"), "arrived.time: expected a finite number, got 'soon'"),
    "job twice": (lambda s: s.arrived("j", 1.0), "arrived.job: job 'j' has arrived before"),
    "job is a list": (lambda s: s.arrived([1], 1.0), "arrived.job: expected a text or a whole number"),
    "unknown job": (lambda s: s.finished("k", "a", "c0-0", 1.0), "finished.job: no job 'k' has arrived"),
    "unknown task": (lambda s: s.finished("j", "z", "c0-0", 1.0), "finished.task: no task 'z' in the graph"),
    "unknown device": (lambda s: s.failed("j", "a", "gpu", 1.0), "failed.device: no device 'gpu'"),
    "not started": (lambda s: s.finished("j", "b", 0, 1.0), "finished.task: task 'b' of job 'j' is not running"),
    "started twice": (lambda s: s.started("j", "a", 0, 1.0), "started.task: task 'a' of job 'j' was started"),
    "other device": (lambda s: s.failed("j", "a", 1, 1.0), "failed.device: task 'a' of job 'j' was given to 'c0-0'"),
    "no branch": (lambda s: s.finished("j", "a", 0, 1.0), "finished.branch: expected which of b, c follows 'a'"),
    "wrong branch": (lambda s: s.finished("j", "a", 0, 1.0, branch="d"), "finished.branch: no branch of 'a' leads"),
    "two ways": (lambda s: s.finished("j", "a", 0, 1.0, branch=["b", "c"]), "finished.branch: two ways out"),
    "branch of none": (lambda s: s.finished("j", "e", 1, 1.0, branch="a"), "finished.branch: no branch of 'e'"),
    "lost twice": (lambda s: (s.device_lost(2, 0.0), s.device_lost(2, 0.0)), "device_lost.device: device 2 was lost"),
    "joined twice": (lambda s: s.device_joined(0, 1.0), "device_joined.device: device 0 is there already"),
    "after the last": (lambda s: (s.closed(0.0), s.arrived("k", 0.0)), "arrived.job: no job was to come"),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_event_is_refused_by_name_and_field(reason: str):
    event, message = REFUSED[reason]
    session = new("fifo+wait", 1, 1, 1)
    running(session)
    with pytest.raises(InputError) as caught:
        event(session)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("reason", [r for r in REFUSED if r not in ("lost twice", "after the last")])
def test_refused_event_changes_nothing(reason: str):
    session = new("fifo+wait", 1, 1, 1)
    running(session)
    before = session.snapshot()
    with pytest.raises(InputError):
        REFUSED[reason][0](session)
    assert session.snapshot() == before


def test_task_that_was_decided_but_not_started_cannot_finish():
    session = new()
    session.arrived("j", 0.0)
    session.decide(0.0)
    with pytest.raises(InputError, match=r"finished\.task: task 'a' of job 'j' was not started"):
        session.finished("j", "a", "c0-0", 1.0, branch="b")


def test_scheduler_that_cannot_act_is_refused():
    graph = GraphBuilder("plain")
    graph.task("a", 1.0)
    graph.task("b", 1.0)
    with pytest.raises(UnsupportedError, match="mru: it chooses between kinds"):
        Session(Problem(graph.build(), devices(1)), "mru")


WIRE: dict[str, tuple[object, str]] = {
    "no mapping": (["finished"], "event: expected an event with named fields"),
    "unknown event": ({"event": "__init__"}, "event: expected one of arrived, closed, started"),
    "event is a list": ({"event": ["decide"]}, "event: expected one of arrived"),
    "missing field": ({"event": "arrived", "time": 1.0}, "arrived.job: expected this field, found none"),
    "unknown field": (
        {"event": "arrived", "job": 1, "time": 1.0, "self": 3},
        "arrived.self: no such field; expected job, time",
    ),
}


@pytest.mark.parametrize("reason", WIRE)
def test_plain_event_is_refused_by_field(reason: str):
    event, message = WIRE[reason]
    with pytest.raises(InputError) as caught:
        new().tell(event)
    assert str(caught.value).startswith(message)


def test_plain_events_do_what_methods_do():
    told, called = new(), new()
    running(called)
    called.finished("j", "a", "c0-0", 1.0, branch="b")
    told.tell({"event": "arrived", "job": "j", "time": 0.0})
    for start in told.decide(0.0).starts:
        told.tell({"event": "started", "job": "j", "task": start.task, "device": start.device, "time": 0.0})
    end = {"event": "finished", "job": "j", "task": "a", "device": "c0-0", "time": 1.0, "branch": "b"}
    told.tell(end)
    assert told.snapshot() == called.snapshot()


def test_started_late_is_expected_to_end_late():
    session = new("eft", 1)
    session.arrived("j", 0.0)
    (start,) = session.decide(0.0).starts
    session.started("j", start.task, start.device, 5.0)
    assert session.snapshot()["view"]["columns"]["free_at"] == [5.0 + start.expected_end]


def test_whole_number_of_numpy_is_a_time():
    session = new()
    session.arrived("j", np.int64(3))
    json.dumps(session.snapshot())
    assert session.decide(np.float32(3.5)).starts[0].expected_end == 4.5


def test_session_is_a_public_name():
    assert weft.Session is Session


def test_refusal_says_why_queues_cannot_be_used():
    builder = GraphBuilder("large")
    builder.task("a", 1.0, kind="a", memory=4.0)
    cluster = Cluster.uniform([DeviceClass("c", batch=2, slots=2, memory=6.0)], [1])
    with pytest.raises(UnsupportedError, match=r"class 'c' takes batches: .* may need 8 of its 6 memory"):
        Session(Problem(builder.build(), cluster), "fifo")


# -- any order of events ------------------------------------------------------------------------------


class Chaos:
    """A world of random ends, failures, lost and joined devices; checks what it is told to do."""

    def __init__(self, session: Session, seed: int, num_jobs: int) -> None:
        self.session, self.rng = session, np.random.default_rng(seed)
        self.num_jobs, self.next_job, self.now = num_jobs, 0, 0.0
        self.running: dict[tuple[object, str], Start] = {}
        self.finished: set[tuple[object, str]] = set()
        self.lost: set[str] = set()
        self.ended: dict[object, str] = {}

    def play(self) -> None:
        while self.next_job < self.num_jobs or len(self.ended) < self.num_jobs:
            self.now += float(self.rng.choice([0.0, 0.5, 3.0]))
            self.happen(self.rng.random())
            if self.rng.random() < 0.8:
                self.obey(self.session.decide(self.now))

    def obey(self, decision: Decision) -> None:
        for start in decision.starts:
            key = (start.job, start.task)
            assert key not in self.running and key not in self.finished and start.device not in self.lost
            if self.rng.random() < 0.1:
                self.session.failed(*key, start.device, self.now, attempt=start.attempt)
                continue
            self.running[key] = start
            self.session.started(*key, start.device, self.now, attempt=start.attempt)
            if self.rng.random() < 0.1:
                self.session.vacated(*key, start.device, self.now)
        for end in decision.ended:
            assert end.job not in self.ended
            self.ended[end.job] = end.outcome

    def happen(self, draw: float) -> None:
        names = self.session.problem.cluster.device_names
        if draw < 0.25 and self.next_job < self.num_jobs:
            self.session.arrived(self.next_job, self.now)
            self.next_job += 1
        elif draw < 0.35:
            device = names[int(self.rng.integers(len(names)))]
            self.toggle(device)
        elif self.running:
            keys = list(self.running)
            self.end(keys[int(self.rng.integers(len(keys)))], has_failed=bool(self.rng.random() < 0.2))

    def toggle(self, device: str) -> None:
        if device in self.lost:
            self.lost.remove(device)
            self.session.device_joined(device, self.now)
            return
        self.lost.add(device)
        self.session.device_lost(device, self.now)
        self.running = {key: start for key, start in self.running.items() if start.device != device}

    def end(self, key: tuple[object, str], *, has_failed: bool) -> None:
        start = self.running.pop(key)
        if has_failed:
            self.session.failed(*key, start.device, self.now, attempt=start.attempt)
            return
        branch = str(self.rng.choice(["b", "c"])) if start.task == FORK else None
        self.finished.add(key)
        self.session.finished(*key, start.device, self.now, attempt=start.attempt, branch=branch)


RULES = ("fifo", "fifo+wait", "mru", "eft", "heavy-last-3", "random", "srw", "batch-fifo")
NEUTRAL, STRICT = Rules(), Rules(expiry=15.0, idle_block=1.0)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.sampled_from(RULES), st.booleans())
def test_no_task_is_lost_or_doubled(seed: int, num_jobs: int, rule: str, is_strict: bool):
    problem = Problem(fork(), devices(1, 2, 3))
    session = Session(problem, rule, seed=seed, rules=STRICT if is_strict else NEUTRAL)
    world = Chaos(session, seed, num_jobs)
    world.play()
    for job, outcome in world.ended.items():
        tasks = {task for other, task in world.finished if other == job}
        assert outcome != "done" or tasks in ({"a", "b", "d", "e"}, {"a", "c", "d", "e"})
    assert len(world.ended) == num_jobs and (is_strict or session.num_waiting == 0)


# -- snapshots ----------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from(RULES))
def test_restored_session_goes_on_as_the_first(seed: int, num_events: int, rule: str):
    problem = Problem(fork(), devices(1, 2, 3))
    session = Session(problem, rule, seed=seed, rules=STRICT)
    world = Chaos(session, seed, 12)
    for _ in range(num_events):
        world.now += 0.5
        world.happen(world.rng.random())
        world.obey(session.decide(world.now))
    text = json.dumps(session.snapshot(), allow_nan=False)
    twin = Session.restore(problem, json.loads(text), rules=STRICT)
    assert twin.snapshot() == session.snapshot()
    for time in (world.now, world.now + 4.0):
        assert twin.decide(time) == session.decide(time)


def test_snapshot_of_another_problem_is_refused():
    with pytest.raises(InputError, match="fingerprint: taken with another graph, cluster or rules"):
        Session.restore(Problem(fork(), devices(1, 1, 1)), new().snapshot())


@pytest.mark.parametrize("key", ["view", "ledger", "jobs", "now", "scheduler"])
def test_snapshot_with_a_part_missing_is_refused(key: str):
    session = new()
    damaged = {name: value for name, value in session.snapshot().items() if name != key}
    with pytest.raises(InputError, match="not a whole snapshot of a session"):
        Session.restore(session.problem, damaged)


def test_document_that_is_no_snapshot_is_refused():
    with pytest.raises(InputError, match="schema: expected a snapshot of a session"):
        Session.restore(new().problem, {"schema": "other"})


def test_session_has_room_for_jobs_that_stay_long():
    session = new("fifo+wait", 1)
    running(session)
    for job in range(500):
        session.arrived(job, 1.0)
    session.finished("j", "a", "c0-0", 1.0, branch="b")
    assert session.num_waiting == 1002


def with_ended(count: int) -> Session:
    """A session of one task per job that has seen so many jobs end."""
    builder = GraphBuilder("one")
    builder.task("a", 1.0, kind="a")
    session = Session(Problem(builder.build(), devices(1)), "fifo+wait")
    for job in range(count):
        session.arrived(job, float(job))
        begin(session, session.decide(session.now), session.now)
        session.finished(job, "a", "c0-0", session.now)
        assert session.decide(session.now).ended == (End(job, "done", float(job)),)
    return session


def test_session_forgets_jobs_that_ended_long_ago(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs, "KEPT", 10)
    stored = with_ended(100).snapshot()
    assert 10 <= len(stored["jobs"]) <= 20
    assert [name for name, _ in stored["jobs"]] == list(range(100 - len(stored["jobs"]), 100))


def test_session_takes_a_forgotten_name_again_and_refuses_a_known_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs, "KEPT", 10)
    session = with_ended(50)
    with pytest.raises(InputError, match="job 49 has arrived before"):
        session.arrived(49, 60.0)
    session.arrived(0, 60.0)
    assert [start.job for start in session.decide(60.0).starts] == [0]


def test_session_knows_a_failed_job_while_its_tasks_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs, "KEPT", 1)
    session = new("fifo+wait", 1, 1, max_attempts=1)
    running(session)
    session.failed("j", "a", "c0-0", 0.5)
    for job in range(10):
        session.arrived(job, 1.0)
        begin(session, session.decide(1.0), 1.0)
        session.failed(job, "a", "c0-0", 1.0)
    session.decide(1.0)
    assert [name for name, _ in session.snapshot()["jobs"]] == ["j", 9]
    session.finished("j", "e", "c1-0", 2.0)


def test_restored_session_forgets_as_the_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs, "KEPT", 10)
    first = with_ended(45)
    twin = Session.restore(first.problem, json.loads(json.dumps(first.snapshot())))
    for session in (first, twin):
        for job in range(100, 130):
            session.arrived(job, 100.0)
            begin(session, session.decide(100.0), 100.0)
            session.finished(job, "a", "c0-0", 100.0)
    assert json.dumps(first.snapshot()) == json.dumps(twin.snapshot())


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_losses": True}, "max_losses"),
        ({"problem": None}, "problem"),
        ({"scheduler": None}, "scheduler"),
        ({"seed": 10**30}, "seed"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
    ],
)
def test_session_refuses_wrong_arguments_by_name(arguments: dict[str, object], field: str):
    usual = {"problem": scenario("conditional", jobs=5).stream("test", 0), "scheduler": "fifo", "seed": 0}
    with pytest.raises(InputError) as caught:
        Session(**(usual | arguments))
    assert caught.value.field == field


@pytest.mark.parametrize("time", [10**400, 10**5000, float("nan"), None, "now"], ids=range(5))
def test_session_refuses_a_time_no_float_can_hold(time: object):
    session = Session(scenario("conditional", jobs=5).stream("test", 0))
    with pytest.raises(InputError, match="expected a finite number") as caught:
        session.arrived(1, time)
    assert caught.value.field == "arrived.time"
