"""Sessions that take graphs their problem did not have."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from example_package.weft_example import FirstFinish
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import LINKS, SEEDS, make_problem

from weft.errors import InputError
from weft.execute.virtual_runs import drive_tasks
from weft.io.native import graph_document
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Job, Problem, realise
from weft.session import Decision, End, Session
from weft.sim.tasks import growing
from weft.sim.tasks.state import Tasks, TaskState

RULES = ("fifo", "shortest-first", "edf", "random", "eft", "srw", "heft", "priced", "es")
PLANS = ("plan:heft", "plan:peft", "heft-job")
SCHEDULERS = (*RULES, *PLANS, FirstFinish)


def chain(*work: float, kind: str = "task") -> TaskGraph:
    builder = GraphBuilder("chain")
    for k, amount in enumerate(work):
        builder.task(f"t{k}", amount, kind=kind, after={f"t{k - 1}": 10.0} if k else {})
    return builder.build()


def two(**given: object) -> Cluster:
    return Cluster.uniform((DeviceClass("cpu", **given), DeviceClass("gpu", 2.0)), (1, 1), bandwidth=10.0)


class Told:
    """A session that keeps what it decided."""

    def __init__(self, session: Session) -> None:
        self._session, self.decisions = session, list[Decision]()

    def decide(self, time: float) -> Decision:
        self.decisions.append(self._session.decide(time))
        return self.decisions[-1]

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)


class Stored(Told):
    """The same, stored as text and restored before every third decision."""

    def decide(self, time: float) -> Decision:
        if len(self.decisions) % 3 == 2:
            text = json.dumps(self._session.snapshot(), allow_nan=False)
            scheduler = None if self._session.scheduler in (*RULES, *PLANS) else FirstFinish
            self._session = Session.restore(
                self._session.problem.cluster, json.loads(text), scheduler=scheduler
            )
        return super().decide(time)


def arriving(seed: int, links: str, shape: str, is_plain: bool) -> Problem:
    """Jobs with deadlines, numbered as they arrive."""
    rng = np.random.default_rng(seed)
    sizes = (int(rng.integers(1, 9)), int(rng.integers(9, 40)), int(rng.integers(1, 6)), 3)
    problem = make_problem(
        seed, sizes=sizes, graph_style=(shape, "some zero", "uniform"), links=links, is_plain=is_plain,
        has_copies=False,
    )  # fmt: skip
    release = np.cumsum(rng.exponential(4.0, len(problem.jobs)) * (rng.random(len(problem.jobs)) < 0.8))
    jobs = [
        replace(job, release=float(at), deadline=float(rng.uniform(1.0, 50.0)))
        for job, at in zip(problem.jobs, release, strict=True)
    ]
    return problem.replaced(jobs=tuple(jobs), noise=0.3)


ANY = (SEEDS, st.sampled_from(LINKS), st.sampled_from(("chain", "fork", "diamond", "random")), st.booleans())


@settings(max_examples=80, deadline=None, derandomize=True)
@given(*ANY, st.sampled_from(SCHEDULERS))
def test_session_decides_the_same_whenever_it_learns_of_graphs(
    seed: int, links: str, shape: str, is_plain: bool, scheduler: object
):
    problem = arriving(seed, links, shape, is_plain)
    world = realise(problem, seed)
    known = Told(Session(problem, scheduler, seed=seed))
    unit = problem.time_unit
    told = Told(Session(problem.cluster, scheduler, seed=seed, time_unit=unit))
    stored = Stored(Session(problem.cluster, scheduler, seed=seed, time_unit=unit))
    drive_tasks(known, problem, world)
    drive_tasks(told, problem, world, tells_graphs=True)
    drive_tasks(stored, problem, world, tells_graphs=True)
    assert told.decisions == known.decisions
    assert stored.decisions == known.decisions


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_session_of_a_cluster_lives_for_long_in_little_room(scheduler: object):
    session = Session(two(), scheduler)
    for k in range(60):
        session.arrived(f"job{k}", float(k), graph=chain(0.2, 0.1))
        for _ in range(2):
            for start in session.decide(session.now).starts:
                session.started(start.job, start.task, start.device, session.now)
                session.finished(start.job, start.task, start.device, session.now)
        assert [end.job for end in session.decide(session.now).ended] == [f"job{k}"]
    stored = session.snapshot()
    assert stored["graphs"] == [] and stored["view"]["numbers"] == []
    assert len(session._view._w.job) < 20  # noqa: SLF001
    assert len(session._view._s.row_task) < 20  # noqa: SLF001


def test_every_column_grows_or_never_does():
    """A column added to the kernel must be sorted into ``growing``."""
    fixed = {
        "task_ptr", "job_ptr", "device_ptr", "pool_ptr", "link_ptr", "num_groups", "device_class", "group",
        "is_unary", "capacity", "pool", "pool_device_ptr", "pool_devices", "number", "latency", "inverse",
        "drops_late", "kind_ptr", "log_noise",
        "overrun", "former", "waits_for", "lets_in", "saved",
    }  # fmt: skip
    grows = {*growing.TASK_COLUMNS, *growing.EDGE_COLUMNS, *growing.JOB_COLUMNS, *growing.TASK_POINTERS}
    assert {*fixed, *grows, *growing.JOB_POINTERS} == set(Tasks._fields)
    fixed = {
        "now", "wake", "next_job", "num_ready", "free", "is_up", "has_room", "num_free", "pool_heap",
        "pool_place", "pool_size", "running", "queue", "queue_end", "queued", "dirty", "is_dirty", "num_dirty",
        "look_at", "row_ptr", "num_rows", "spare", "event_time", "event_item", "event_ptr", "num_events",
        "count", "overflow", "used", "recent", "learns", "seen", "ratio", "factor", "class_ratio", "num_waiting",
        "may_grant", "booked", "is_its_turn", "lead",
    }  # fmt: skip
    assert {*fixed, *growing.TASK_STATE, *growing.JOB_STATE, *growing.ROW_STATE} == set(TaskState._fields)


REFUSED = {
    "unknown kind": ({"graph": chain(1.0, kind="x")}, r"arrived.graph: class other: times: no run time for kind 'x'"),
    "too large": ({"graph": TaskGraph([1.0], memory=[9.0])}, "arrived.graph: tasks.t0: task 't0' needs 9 bytes"),
    "name of the problem": ({"graph": chain(1.0), "job": "later"}, "arrived.graph: the problem has a job 'later'"),
    "name in use": ({"graph": chain(1.0), "job": "first"}, "arrived.job: job 'first' has arrived before"),
    "unit": ({"graph": TaskGraph([1.0], time_unit="h")}, "arrived.graph: expected times in 's', got 'h'"),
    "no graph": ({}, "arrived.job: no job 'new' in the problem: tell its graph"),
    "no graph but more": ({"deadline": 3.0}, "arrived.deadline: expected a graph with it"),
    "not a graph": ({"graph": 3}, "arrived.graph: expected a task graph, got 3"),
    "deadline": ({"graph": chain(1.0), "deadline": "soon"}, "arrived.deadline: expected a finite number"),
    "weight": ({"graph": chain(1.0), "weight": -1.0}, "job new: weight: expected a finite number >= 0"),
    "owner": ({"graph": chain(1.0), "owner": 3}, "arrived.owner: expected a text, got 3"),
    "devices": ({"graph": chain(1.0), "eligible": "cpu"}, "arrived.eligible: expected a list of devices"),
    "no device": ({"graph": chain(1.0), "eligible": ["tpu"]}, "arrived.graph: job new: eligible: 'tpu' is neither a device"),
    "elastic": ({"graph": TaskGraph([1.0], curves=[[1.0, 2.0]], curve=[0])}, "has elastic tasks"),
    "document": ({"graph": {"schema": "weft/graph/1", "tasks": []}}, "arrived.graph.tasks: no tasks"),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
@pytest.mark.parametrize("scheduler", ["priced", "plan:heft"])
def test_graph_that_does_not_fit_is_refused_and_changes_nothing(reason: str, scheduler: str):
    given, message = REFUSED[reason]
    classes = (DeviceClass("cpu", memory=4.0), DeviceClass("other", None, {"task": 1.0}, memory=4.0))
    cluster = Cluster.uniform(classes, (1, 1), bandwidth=10.0)
    session = Session(Problem([Job(chain(1.0), "first"), Job(chain(1.0), "later")], cluster), scheduler)
    session.arrived("first", 1.0)
    before = session.snapshot()
    with pytest.raises(InputError) as caught:
        session.tell({"event": "arrived", "job": "new", "time": 2.0, **given})
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert session.snapshot() == before


def test_branches_are_refused_by_a_planner_and_taken_by_a_rule():
    builder = GraphBuilder("either")
    for name in ("a", "b", "c"):
        builder.task(name, 1.0)
    builder.edge("a", "b", probability=0.5, branch=0)
    builder.edge("a", "c", probability=0.5, branch=0)
    graph = builder.build()
    with pytest.raises(InputError, match=r"arrived\.graph: plan:heft: .*branches"):
        Session(two(), "plan:heft").arrived("j", 0.0, graph=graph)
    session = Session(two(), "eft")
    session.arrived("j", 0.0, graph=graph)
    (start,) = session.decide(0.0).starts
    session.started("j", "a", start.device, 0.0)
    session.finished("j", "a", start.device, 1.0, branch="c")
    assert [start.task for start in session.decide(1.0).starts] == ["c"]


def test_graph_may_be_a_document():
    told, called = Session(two(), "fifo"), Session(two(), "fifo")
    graph = chain(1.0, 2.0)
    called.arrived("j", 0.0, graph=graph, deadline=9.0, weight=2.0, owner="me", eligible=["gpu"])
    event = {"event": "arrived", "job": "j", "time": 0.0, "graph": graph_document(graph)}
    told.tell({**event, "deadline": 9.0, "weight": 2.0, "owner": "me", "eligible": ["gpu"]})
    assert json.dumps(told.snapshot()) == json.dumps(called.snapshot())
    assert told.decide(0.0).starts[0].device == "gpu-0"


def test_jobs_of_the_problem_and_others_share_the_devices():
    session = Session(Problem([Job(chain(1.0), "a"), Job(chain(1.0), "b")], two()), "fifo")
    session.arrived("a", 0.0)
    session.arrived("c", 0.0, graph=chain(5.0))
    assert [(start.job, start.device) for start in session.decide(0.0).starts] == [
        ("a", "gpu-0"),
        ("c", "cpu-0"),
    ]
    session.arrived("b", 1.0)
    assert session.num_waiting == 1


def test_job_without_tasks_may_be_added():
    session = Session(two(), "priced", keeps_record=True)
    session.arrived("none", 1.0, graph=TaskGraph([]))
    assert session.decide(1.0).ended == (End("none", "done", 1.0),)
    Session.restore(two(), json.loads(json.dumps(session.snapshot())))


def test_late_event_of_a_job_that_is_gone_is_refused():
    session = Session(two(), "fifo")
    session.arrived("j", 0.0, graph=chain(1.0))
    (start,) = session.decide(0.0).starts
    session.started("j", "t0", start.device, 0.0)
    session.finished("j", "t0", start.device, 0.0)
    for _ in range(2):
        with pytest.raises(
            InputError, match=r"finished\.task: task 't0' of job 'j' is not running: the job is done"
        ):
            session.finished("j", "t0", start.device, 0.0)
        session.snapshot()


def test_queue_view_takes_its_own_graph_only():
    builder = GraphBuilder("one")
    builder.task("a", 1.0, kind="a")
    session = Session(Problem(builder.build(), Cluster.uniform((DeviceClass("cpu"),), (1,))), "fifo+wait")
    session.arrived("j", 0.0, graph=builder.build())
    with pytest.raises(
        InputError, match=r"arrived\.graph: expected the graph of 'one': .* keeps queues by its kinds"
    ):
        session.arrived("k", 0.0, graph=chain(1.0))
    with pytest.raises(InputError, match=r"arrived\.deadline: queues by kind know none"):
        session.arrived("k", 0.0, graph=builder.build(), deadline=1.0)
    assert session.decide(0.0).starts[0].job == "j"
