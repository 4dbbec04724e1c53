"""Planners and dispatchers that are not weft's, given as objects."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import numpy as np
import pytest
from example_package.weft_example import ByNumber, FirstFinish

import weft
from weft import catalog, doctor
from weft.execute.virtual_runs import drive_tasks
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Problem, realise
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.scenarios import scenario
from weft.schedulers.dispatchers.outages import Outage
from weft.schedulers.dispatchers.python_view import DispatchView, Start
from weft.schedulers.dispatchers.replanning import PlanDispatcher
from weft.schedulers.dispatchers.tasks import run_one
from weft.schedulers.own import is_others


class Fifo:
    """What ``fifo`` of the task view does, in plain Python."""

    name = "my-fifo"

    def decide(self, view: DispatchView) -> list[Start]:
        for task in view.ready:
            able = view.options(task)
            if able:
                return [Start(task, min(able, key=lambda device: view.finish(task, device)))]
        return []


@pytest.fixture(scope="module")
def stream() -> Problem:
    """Workflows that keep arriving, with noise."""
    return scenario("workflows", load=0.8, jobs=8, tasks=12, noise=0.3).dispatched("validation", 0, 0)


def same(one: Schedule, other: Schedule) -> bool:
    """Whether two schedules have the same rows."""
    names = ("task", "device", "start", "finish", "outcome")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


# -- planners --------------------------------------------------------------------------------------


def test_schedule_takes_an_object_and_a_class(fork_problem: Problem):
    by_object = weft.schedule(fork_problem, ByNumber())
    assert by_object.scheduler == "by-number"
    assert validate(by_object.schedule) == ()
    assert same(weft.schedule(fork_problem, ByNumber).schedule, by_object.schedule)


class Watched(ByNumber):
    """Remembers on what it was called."""

    name = "watched"
    seen: ClassVar[list[str]] = []

    def plan(self, problem: Problem, **given: Any) -> Schedule:
        self.seen.append(problem.name)
        return super().plan(problem, **given)


class WatchedFifo(Fifo):
    """Remembers the machines it was shown."""

    name = "watched-fifo"
    seen: ClassVar[set[str]] = set()

    def decide(self, view: DispatchView) -> list[Start]:
        self.seen.add(view.cluster.name)
        return super().decide(view)


def test_own_planner_is_called_on_the_given_problem_alone(fork_problem: Problem):
    """Kernels are warmed with weft's own planners."""
    Watched.seen.clear()
    weft.schedule(fork_problem, Watched())
    assert doctor.warm((Watched(),)) == ("heft",)
    assert Watched.seen == [fork_problem.name]


def test_own_schedulers_are_swept_on_the_given_problems_alone():
    """No dispatcher is called to warm kernels."""
    settings = {"load": 0.8, "jobs": 3, "tasks": 5, "devices": 3}
    weft.evaluate("workflows", ["fifo", WatchedFifo()], settings=settings, seeds=1)
    assert len(WatchedFifo.seen) == 1


def test_planner_behind_a_dispatcher_of_weft_is_known_as_others():
    assert is_others(PlanDispatcher("plan:watched", catalog.planner(Watched())))
    assert not is_others(catalog.task_dispatcher("plan:heft"))
    assert not is_others(catalog.planner("auto"))


def test_own_planner_that_says_nothing_refuses_what_no_planner_plans():
    problem = Problem(Job(TaskGraph([1.0]), period=3.0), Cluster.uniform((DeviceClass("cpu"),), (1,)))
    with pytest.raises(weft.InputError, match="by-number: job 'job' is periodic"):
        weft.schedule(problem, ByNumber())


def test_own_planner_as_dispatcher_carries_streams_out(stream: Problem):
    chosen = PlanDispatcher("plan:by-number", catalog.planner(ByNumber()))
    assert validate(run_one(chosen, stream, realise(stream, 0))) == ()


class NoName:
    """A planner without a name."""

    def plan(self, problem: Problem, **_: Any) -> Schedule:
        raise AssertionError


class Planned:
    """Returns what it was made with."""

    name = "planned"

    def __init__(self, found: Any) -> None:
        self.found = found

    def plan(self, problem: Problem, **_: Any) -> Any:
        return self.found() if callable(self.found) else self.found


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (object(), "expected a planner, and object has no method 'plan'"),
        (NoName(), "expected a planner, and NoName has no text 'name'"),
        (FirstFinish(), "FirstFinish is a dispatcher: it decides while jobs arrive and makes no plan"),
        (Planned, "Planned cannot be made without arguments: TypeError: .*missing 1 required"),
        (Planned([]), "Planned.plan: expected a weft.Schedule, got list"),
        (Planned(lambda: 1 / 0), r"test_own.py:\d+: .*Planned.plan failed: ZeroDivisionError: division"),
    ],
    ids=["nothing", "no name", "dispatcher", "arguments", "no schedule", "error"],
)
def test_own_planner_is_refused_by_what_is_wrong(given: object, message: str, fork_problem: Problem):
    with pytest.raises(weft.InputError, match=message):
        weft.schedule(fork_problem, given)


def test_own_planner_returns_a_schedule_of_this_problem(fork_problem: Problem):
    other = weft.schedule(fork_problem.replaced(name="other"), "heft").schedule
    with pytest.raises(weft.InputError, match="expected a schedule of the problem it was given"):
        weft.schedule(fork_problem, Planned(other))


# -- dispatchers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("outages", [(), (Outage(1, 5.0, 60.0), Outage(3, 20.0, 40.0))], ids=["", "outages"])
def test_own_dispatcher_that_does_what_a_rule_does_gives_its_schedule(stream: Problem, outages: Any):
    world = realise(stream, 1)
    expected = run_one(catalog.task_dispatcher("fifo"), stream, world, outages=outages)
    assert same(run_one(Fifo(), stream, world, outages=outages), expected)


def test_own_dispatcher_in_a_session_does_what_it_does_in_the_simulator(stream: Problem):
    world = realise(stream, 2)
    inside = run_one(FirstFinish(), stream, world)
    assert validate(inside) == ()
    assert same(drive_tasks(weft.Session(stream, FirstFinish()), stream, world), inside)


def test_session_of_an_own_dispatcher_goes_on_from_a_snapshot(stream: Problem):
    session = weft.Session(stream, Fifo())
    session.arrived(0, 0.0)
    starts = session.decide(0.0).starts
    kept = json.loads(json.dumps(session.snapshot()))
    again = weft.Session.restore(stream, kept, scheduler=Fifo())
    for one in (session, again):
        first = starts[0]
        one.started(first.job, first.task, first.device, first.expected_start)
        one.finished(first.job, first.task, first.device, first.expected_end)
    assert again.decide(first.expected_end) == session.decide(first.expected_end)


def test_own_dispatcher_fills_shared_devices():
    graph = TaskGraph([2.0] * 6, slots=1)
    problem = Problem(graph, Cluster.uniform((DeviceClass("box", slots=3),), (1,)))
    assert run_one(Fifo(), problem, realise(problem, 0)).makespan == 4.0


class Scripted:
    """Decides as the function it was made with."""

    name = "scripted"

    def __init__(self, decide: Any) -> None:
        self.decide = decide


def pair(view: DispatchView) -> Any:
    """The first task where it can start."""
    return view.ready[0], view.options(view.ready[0])[0]


@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (lambda view: None, "expected a list of starts, got None"),
        (lambda view: ["x"], "expected pairs of a task and a device, got 'x'"),
        (lambda view: [(0, view.devices[0])], "expected one of view.ready, got 0"),
        (lambda view: [(view.ready[0], 0)], "expected one of view.devices, got 0"),
        (lambda view: [pair(view)] * 2, "cannot start task 't0' of job .* it was started before"),
        (lambda view: [(t, view.devices[0]) for t in view.ready], "the device has no room for it"),
        (lambda view: [], "Scripted.decide started nothing at time .* wait forever"),
        (lambda view: [1 / 0], r"test_own.py:\d+: .*Scripted.decide failed at time 0: ZeroDivisionError"),
        (lambda view: view.ask_again(0.0), "expected a time after 0, got 0.0"),
    ],
)
def test_own_dispatcher_is_refused_by_what_is_wrong(decide: Any, message: str, stream: Problem):
    with pytest.raises(weft.InputError, match=message):
        run_one(Scripted(decide), stream, realise(stream, 0))


def test_tasks_of_an_earlier_decision_are_refused(stream: Problem):
    kept: list[Any] = []

    def decide(view: DispatchView) -> list[Any]:
        kept.append(pair(view))
        return [kept[0]]

    with pytest.raises(weft.InputError, match=r"it is not one of view\.ready"):
        run_one(Scripted(decide), stream, realise(stream, 0))


class Patient:
    """Waits a second before each start, and counts."""

    name = "patient"

    def __init__(self) -> None:
        self.asked: dict[Any, float] = {}

    def decide(self, view: DispatchView) -> list[Any]:
        task, device = pair(view)
        since = self.asked.setdefault((task.job.name, task.number), view.now)
        if view.now < since + 1.0:
            view.ask_again(since + 1.0)
            return []
        return [(task, device)]


def test_own_dispatcher_is_asked_again_when_it_wants_and_starts_afresh_in_each_run():
    problem = Problem(TaskGraph([2.0, 2.0], [0], [1]), Cluster.uniform((DeviceClass("cpu"),), (1,)))
    chosen, world = Patient(), realise(problem, 0)
    runs = [run_one(chosen, problem, world) for _ in range(2)]
    assert [run.start.tolist() for run in runs] == [[1.0, 4.0]] * 2
    session = drive_tasks(weft.Session(problem, chosen), problem, world)
    assert session.start.tolist() == [1.0, 4.0]
    assert chosen.asked == {}


def test_view_tells_of_devices_and_expected_times():
    graph = TaskGraph([4.0, 6.0], kinds=("cnn",), kind=[0, 0])
    problem = Problem(graph, Cluster.uniform((DeviceClass("slow"), DeviceClass("fast", 2.0)), (1, 1)))
    seen = []

    def decide(view: DispatchView) -> list[Any]:
        task = view.ready[0]
        seen.append(
            (
                view.now,
                [task.kind for task in view.ready],
                [(device.device_class.name, device.is_idle, device.free_slots) for device in view.devices],
                [(view.run_time(task, device), view.finish(task, device)) for device in view.devices],
            )
        )
        return [(task, view.options(task)[-1])]

    run_one(Scripted(decide), problem, realise(problem, 0))
    assert seen == [
        (0.0, ["cnn"] * 2, [("slow", True, 1.0), ("fast", True, 1.0)], [(4.0, 4.0), (2.0, 2.0)]),
        (0.0, ["cnn"], [("slow", True, 1.0), ("fast", False, 0.0)], [(6.0, 6.0), (3.0, 5.0)]),
    ]


def test_queues_by_kind_refuse_an_own_dispatcher_by_name(monkeypatch: pytest.MonkeyPatch):
    case = scenario("conditional", jobs=10).stream("validation", 0)
    with pytest.raises(weft.InputError, match="my-fifo: "):
        weft.Session(case, Fifo())
