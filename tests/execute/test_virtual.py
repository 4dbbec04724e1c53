"""Engines of virtual time: what they tell of orders and faults, and that sessions recover from those."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LINKS, SEEDS, make_problem

from weft import Session
from weft.errors import InputError
from weft.execute.engine import Event, Order
from weft.execute.faults import Failure, Faults, Loss, Slowdown
from weft.execute.feed import Arrival
from weft.execute.virtual import NO_FAULTS, VirtualQueues, VirtualTasks
from weft.execute.virtual_runs import arrivals_of, play
from weft.model.arrivals import Arrivals
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Problem, expected, realise
from weft.model.schedule import DONE, Schedule
from weft.model.validate import validate
from weft.scenarios import scenario
from weft.sim.queues.environment import Setup, setup_of

SCHEDULERS = ("fifo", "priced", "plan:heft")
ENOUGH = 1000
"""More devices than a task can lose."""


def graph() -> TaskGraph:
    """a before b before d, and c beside them."""
    builder = GraphBuilder("work")
    for name in "abcd":
        builder.task(name, 1.0, kind=name)
    builder.edge("a", "b", data=10.0)
    builder.edge("b", "d", data=10.0)
    builder.edge("c", "d", data=10.0)
    return builder.build()


def problem(**given: object) -> Problem:
    return Problem(graph(), Cluster.uniform((DeviceClass("cpu", **given),), (2,), bandwidth=20.0))


def tasks(faults: Faults = NO_FAULTS, **given: object) -> VirtualTasks:
    chosen = problem(**given)
    return VirtualTasks(chosen, expected(chosen), faults)


def order(task: str, number: int = 0, start: float = 0.0, **given: object) -> Order:
    return Order(0, task, f"cpu-{number}", 1, 0, start=start, **given)


def story(events: list[Event]) -> list[tuple[str, float, str]]:
    return [(event.kind, event.time, event.task or event.device) for event in events]


# -- orders -------------------------------------------------------------------------------------------


def test_order_runs_when_its_data_is_there():
    engine = tasks()
    engine.submit(order("a"))
    engine.submit(order("c", 1, start=0.5))
    assert story(engine.events(None)) == [("started", 0.0, "a")]
    assert engine.events(0.25) == [] and engine.now == 0.25
    assert story(engine.events(None)) == [("started", 0.5, "c")]
    assert story(engine.events(None)) == [("finished", 1.0, "a")]
    assert story(engine.events(9.0)) == [("finished", 1.5, "c")]
    assert engine.events(None) == [] and engine.now == 1.5


def test_events_of_one_moment_come_together_ends_first():
    engine = tasks(Faults((Loss("cpu-1", 1.0),)))
    engine.submit(order("a"))
    engine.submit(order("c", 1, start=1.0))
    engine.events(None)
    assert story(engine.events(None)) == [
        ("finished", 1.0, "a"),
        ("started", 1.0, "c"),
        ("lost", 1.0, "cpu-1"),
    ]
    assert engine.events(None) == []


def test_order_given_ahead_waits_for_its_device_and_its_inputs():
    engine = tasks()
    for one in (order("a"), order("b", 0, inputs=("a",)), order("d", 1, inputs=("b",))):
        engine.submit(one)
    found = [event for _ in range(6) for event in engine.events(None)]
    assert story(found) == [
        ("started", 0.0, "a"), ("finished", 1.0, "a"), ("started", 1.0, "b"), ("finished", 2.0, "b"),
        ("started", 2.5, "d"), ("finished", 3.5, "d"),
    ]  # fmt: skip


def test_order_given_ahead_fails_with_its_input():
    engine = tasks(Faults(failures=(Failure(0, "a"),)))
    for one in (order("a"), order("b", inputs=("a",)), order("d", 1, inputs=("b",)), order("c")):
        engine.submit(one)
    engine.events(None)
    found = engine.events(None)
    assert [(event.kind, event.task, event.note) for event in found] == [
        ("failed", "a", "it was to fail"), ("failed", "b", "its input 'a' has failed"),
        ("failed", "d", "its input 'b' has failed"), ("started", "c", ""),
    ]  # fmt: skip


def test_order_given_ahead_is_lost_with_its_device():
    engine = tasks(Faults((Loss("cpu-0", 0.5, 2.0),)))
    engine.submit(order("a"))
    engine.submit(order("b", inputs=("a",)))
    engine.submit(order("d", 1, inputs=("b",)))
    assert story([*engine.events(None), *engine.events(None), *engine.events(None)]) == [
        ("started", 0.0, "a"), ("lost", 0.5, "cpu-0"), ("failed", 0.5, "d"), ("joined", 2.0, "cpu-0")
    ]  # fmt: skip
    engine.submit(order("c"))
    assert story(engine.events(None)) == [("started", 2.0, "c")]


def test_device_runs_as_many_as_it_has_slots():
    engine = tasks(slots=2)
    for name in "acb":
        engine.submit(order(name))
    assert story(engine.events(None)) == [("started", 0.0, "a"), ("started", 0.0, "c")]
    assert [kind for kind, *_ in story(engine.events(None))] == ["finished", "finished", "started"]


def test_cancelled_order_fails_wherever_it_is():
    engine = tasks()
    first, second = order("a"), order("b", inputs=("a",))
    engine.submit(first)
    engine.submit(second)
    engine.events(0.5)
    engine.events(0.5)
    engine.cancel(second)
    engine.cancel(first)
    assert [(event.task, event.note) for event in engine.events(0.5)] == [
        ("b", "cancelled"),
        ("a", "cancelled"),
    ]
    engine.cancel(first)
    assert engine.events(None) == []


def test_closed_engine_has_nothing_to_tell():
    engine = tasks()
    engine.submit(order("a"))
    engine.close()
    engine.close()
    assert engine.events(None) == []


# -- faults -------------------------------------------------------------------------------------------


def test_order_that_hangs_ends_when_it_is_cancelled_or_its_device_is_lost():
    faults = Faults(
        (Loss("cpu-1", 50.0),), failures=(Failure(0, "a", hangs=True), Failure(0, "c", hangs=True))
    )
    engine = tasks(faults)
    engine.submit(order("a"))
    engine.submit(order("c", 1))
    engine.events(None)
    assert engine.events(40.0) == []
    engine.cancel(order("a"))
    assert story(engine.events(40.0)) == [("failed", 40.0, "a")]
    assert story(engine.events(None)) == [("lost", 50.0, "cpu-1")]
    assert engine.events(None) == []


def test_lost_device_takes_no_order_until_it_joins():
    engine = tasks(Faults((Loss("cpu-0", 0.0, 2.0),)))
    assert story(engine.events(0.0)) == [("lost", 0.0, "cpu-0")]
    engine.submit(order("a"))
    assert [(event.kind, event.note) for event in engine.events(0.0)] == [("failed", "the device is lost")]
    assert story(engine.events(None)) == [("joined", 2.0, "cpu-0")]
    engine.submit(order("a"))
    assert story(engine.events(None)) == [("started", 2.0, "a")]


@pytest.mark.parametrize(
    ("start", "end"), [(0.0, 2.0), (2.0, 4.0), (3.0, 8.0), (4.0, 10.25), (9.0, 10.875), (11.0, 12.0)]
)
def test_device_that_slows_down_takes_longer_for_what_is_left(start: float, end: float):
    faults = Faults(slowdowns=(Slowdown("x", 10.0, 0.5), Slowdown("x", 4.0, 4.0), Slowdown("y", 0.0, 9.0)))
    assert faults.end("x", start, 2.0) == end


REFUSED = {
    "losses[0]: expected 0 <= time < until, got 2.0 and 1.0": {"losses": (Loss("a", 2.0, 1.0),)},
    "losses[1]: expected one loss of 'a' at a time": {"losses": (Loss("a", 0.0, 2.0), Loss("a", 2.0))},
    "slowdowns[0]: expected a time >= 0 and a factor > 0, got 0.0 and 0.0": {"slowdowns": (Slowdown("a", 0.0, 0.0),)},
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_faults_that_cannot_be_are_refused(message: str):
    with pytest.raises(InputError) as caught:
        Faults(**REFUSED[message])
    assert str(caught.value) == message


def test_faults_of_unknown_devices_are_refused():
    with pytest.raises(InputError, match=r"slowdowns\[0\]: no device 'gpu' in the cluster"):
        tasks(Faults(slowdowns=(Slowdown("gpu", 0.0, 2.0),)))


# -- sessions -----------------------------------------------------------------------------------------


def drawn_faults(
    rng: np.random.Generator, cluster: Cluster, jobs: dict[int, TaskGraph], span: float
) -> Faults:
    """Every device but the first may be lost and slow; some first and second attempts fail."""
    losses, slowdowns = [], []
    for device in cluster.device_names:
        if device != cluster.device_names[0] and rng.random() < 0.6:
            times = np.sort(rng.uniform(0.0, span, 3)) * [rng.random() < 0.7, 1.0, 1.0]
            losses += [Loss(device, float(times[0]), float(times[1])), Loss(device, float(times[2]))]
        if rng.random() < 0.4:
            slowdowns.append(
                Slowdown(device, float(rng.uniform(0.0, span)), float(rng.choice([0.5, 2.0, 4.0])))
            )
    failures = [
        Failure(job, name, attempt)
        for job, one in jobs.items() for name in one.names for attempt in (1, 2) if rng.random() < 0.2
    ]  # fmt: skip
    return Faults(tuple(losses), tuple(slowdowns), tuple(failures))


class Played:
    """A session and an engine, until nothing is left to happen, and all that happened."""

    def __init__(
        self, session: Session, engine: VirtualTasks | VirtualQueues, arrivals: list[Arrival]
    ) -> None:
        self.events: list[Event] = []
        tell = engine.events

        def watched(until: float | None) -> list[Event]:
            self.events += (found := tell(until))
            return found

        engine.events = watched  # type: ignore[method-assign]
        drive = play(session, engine, arrivals)
        self.starts, self.ended = drive.starts, drive.told.ends


def assert_once(played: Played, faults: Faults, num_tasks: int) -> None:
    """Every order ends once at most, every task ends well once, and only what was to fail fails."""
    ends = Counter(event.key for event in played.events if event.kind in ("finished", "failed"))
    done = Counter(event.key[:2] for event in played.events if event.kind == "finished")
    assert set(ends.values()) <= {1}
    assert len(done) == num_tasks and set(done.values()) <= {1}
    to_fail = {(one.job, one.task, one.attempt) for one in faults.failures}
    assert {event.key for event in played.events if event.kind == "failed"} <= to_fail


def assert_record(record: Schedule, num_tasks: int) -> None:
    assert validate(record) == ()
    assert sorted(record.task[record.outcome == DONE].tolist()) == list(range(num_tasks))


def carry_out(scheduler: str, chosen: Problem, faults: Faults, seed: int) -> tuple[Played, Session]:
    session = Session(
        chosen.cluster, scheduler, seed=seed, keeps_record=True, max_losses=ENOUGH, time_unit=chosen.time_unit
    )
    engine = VirtualTasks(chosen, realise(chosen, seed), faults)
    return Played(session, engine, arrivals_of(chosen, tells_graphs=True)), session


@settings(max_examples=90, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from(LINKS), st.sampled_from(("chain", "fork", "diamond", "random")), st.sampled_from(SCHEDULERS))  # fmt: skip
def test_every_task_ends_once_whatever_goes_wrong(seed: int, links: str, shape: str, scheduler: str):
    rng = np.random.default_rng(seed)
    sizes = (int(rng.integers(1, 4)), int(rng.integers(3, 14)), int(rng.integers(1, 5)), 3)
    chosen = make_problem(
        seed, sizes=sizes, graph_style=(shape, "some zero", "uniform"), links=links, is_plain=True,
        has_copies=False,
    )  # fmt: skip
    jobs = tuple(replace(job, eligible=None) for job in chosen.jobs)  # the first device is enough
    chosen = chosen.replaced(jobs=jobs, noise=0.3)
    span = max(float(chosen.mean_run_times.sum()) / 2, 1.0)
    faults = drawn_faults(rng, chosen.cluster, {j: job.graph for j, job in enumerate(chosen.jobs)}, span)
    played, session = carry_out(scheduler, chosen, faults, seed)
    assert_once(played, faults, chosen.num_tasks)
    assert [end.outcome for end in played.ended] == ["done"] * len(chosen.jobs)
    assert_record(session.record(), chosen.num_tasks)
    again, _ = carry_out(scheduler, chosen, faults, seed)
    assert again.events == played.events and again.starts == played.starts


@pytest.mark.filterwarnings("ignore:.*far outside what it was trained on")
@settings(max_examples=60, deadline=None, derandomize=True)
@given(SEEDS, st.integers(1, 12), st.sampled_from(("fifo", "fifo+wait", "heavy-last-3", "ppo")))
def test_every_task_of_a_stream_ends_once_whatever_goes_wrong(seed: int, num_jobs: int, scheduler: str):
    rng = np.random.default_rng(seed)
    case = scenario("conditional", p_c=0.5, jobs=num_jobs, expiry=0).stream("test", 0)
    setup = setup_of(case)
    (what,) = case.problem.jobs
    span = 40.0 * num_jobs
    faults = drawn_faults(rng, case.problem.cluster, dict.fromkeys(range(num_jobs), what.graph), span)
    session = Session(case, scheduler, seed=seed, keeps_record=True, max_losses=ENOUGH)
    coming = [
        Arrival(time, job, what, is_known=True) for job, time in enumerate(setup.arrivals.draw(seed).tolist())
    ]
    played = Played(session, VirtualQueues(setup, seed, faults=faults), coming)
    record = session.record()
    assert_once(played, faults, int((record.outcome == DONE).sum()))
    assert [end.outcome for end in played.ended] == ["done"] * num_jobs
    assert validate(record) == ()


def test_batch_goes_on_without_what_fails_in_it():
    chosen = Problem(graph(), Cluster.uniform((DeviceClass("cpu", batch=3),), (1,)))
    engine = VirtualQueues(
        Setup(chosen, Arrivals("periodic", 3, 1.0)),
        0,
        faults=Faults(failures=(Failure(1, "a"), Failure(2, "a", hangs=True))),
    )
    for job in range(3):
        engine.submit(Order(job, "a", "cpu-0", 1, job, batch=7))
    assert [event.kind for event in engine.events(None)] == ["started"] * 3
    assert [(event.kind, event.job) for event in engine.events(None)] == [("finished", 0)]
    assert [(event.kind, event.job) for event in engine.events(None)] == [("failed", 1)]
    assert engine.events(None) == []  # and the device is not vacated


def test_task_that_fails_too_often_takes_its_job_along_and_what_runs_is_cancelled():
    chosen = problem()
    faults = Faults(slowdowns=(Slowdown("cpu-1", 0.0, 100.0),), failures=(Failure(0, "a"),))
    session = Session(chosen, "fifo", max_attempts=1)
    played = Played(
        session,
        VirtualTasks(chosen, expected(chosen), faults),
        [Arrival(0.0, 0, chosen.jobs[0], is_known=True)],
    )
    assert [(event.kind, event.task, event.note) for event in played.events if event.kind == "failed"] == [
        ("failed", "a", "it was to fail"), ("failed", "c", "cancelled")
    ]  # fmt: skip
    assert [end.outcome for end in played.ended] == ["failed"]


def test_device_that_joins_late_is_used():
    chosen = problem()
    faults = Faults((Loss("cpu-0", 0.0, 0.5),), (Slowdown("cpu-1", 0.0, 10.0),))
    for scheduler in SCHEDULERS:
        played, _ = carry_out(scheduler, chosen, faults, 0)
        assert story(played.events)[0] == ("lost", 0.0, "cpu-0")
        assert {event.device for event in played.events if event.kind == "finished"} == {"cpu-0", "cpu-1"}
