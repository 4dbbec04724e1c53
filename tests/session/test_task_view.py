"""Sessions of the task view: several jobs, links, capacities; failures and lost devices."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import SEEDS, make_problem

from weft.errors import InputError, UnsupportedError
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Job, Problem
from weft.session import Decision, End, Session, Start


def chain(*work: float, data: float = 10.0) -> TaskGraph:
    builder = GraphBuilder("chain")
    for k, amount in enumerate(work):
        builder.task(f"t{k}", amount, after={f"t{k - 1}": data} if k else {})
    return builder.build()


def pair(num_devices: int = 2) -> Cluster:
    return Cluster.uniform((DeviceClass("cpu"),), (num_devices,), bandwidth=10.0)


def new(num_jobs: int = 2, num_devices: int = 2, rule: str = "fifo", **given: int) -> Session:
    jobs = [Job(chain(1.0, 2.0), f"job{j}") for j in range(num_jobs)]
    return Session(Problem(jobs, pair(num_devices)), rule, **given)


def begin(session: Session, decision: Decision, time: float) -> None:
    for start in decision.starts:
        session.started(start.job, start.task, start.device, time, attempt=start.attempt)


def test_jobs_of_the_problem_arrive_by_name_or_number():
    session = new()
    session.arrived("job0", 0.0)
    session.arrived(1, 0.0)
    assert session.decide(0.0).starts == (
        Start("job0", "t0", "cpu-0", 1, 0, 0.0, 1.0),
        Start(1, "t0", "cpu-1", 1, 1, 0.0, 1.0),
    )


@pytest.mark.parametrize(("job", "message"), [("job7", "no job 'job7' in the problem"), (9, "no job 9 in the"), (0, "job 0 has arrived before")])  # fmt: skip
def test_job_that_cannot_arrive_is_refused(job: str | int, message: str):
    session = new()
    session.arrived("job0", 0.0)
    before = session.snapshot()
    with pytest.raises(InputError, match=rf"arrived\.job: {message}"):
        session.arrived(job, 0.0)
    assert session.snapshot() == before


def test_start_says_when_its_data_should_be_there():
    session = new(1)
    session.arrived("job0", 0.0)
    begin(session, session.decide(0.0), 0.0)
    session.finished("job0", "t0", "cpu-0", 1.0)
    session.device_lost("cpu-0", 1.0)
    assert session.decide(1.0).starts == (Start("job0", "t1", "cpu-1", 1, 1, 2.0, 4.0),)


def test_child_stays_where_its_data_is():
    session = new(1)
    session.arrived("job0", 0.0)
    begin(session, session.decide(0.0), 0.0)
    session.finished("job0", "t0", "cpu-0", 1.5)
    assert session.decide(1.5).starts == (Start("job0", "t1", "cpu-0", 1, 1, 1.5, 3.5),)


def test_rule_that_starts_late_says_when_to_ask_again():
    jobs = [Job(chain(1.0, 5.0), "a"), Job(chain(0.5), "b")]
    session = Session(Problem(jobs, pair()), "priced")
    session.arrived("a", 0.0)
    begin(session, session.decide(0.0), 0.0)
    session.finished("a", "t0", "cpu-0", 1.0)
    session.device_lost("cpu-0", 1.0)
    decision = session.decide(1.0)
    assert (decision.starts, decision.wake_at) == ((), 2.0)
    assert [start.task for start in session.decide(2.0).starts] == ["t1"]


def test_failed_task_is_tried_again_and_its_job_fails_in_the_end():
    session = new(1, max_attempts=2)
    session.arrived("job0", 0.0)
    begin(session, session.decide(0.0), 0.0)
    session.failed("job0", "t0", "cpu-0", 0.5)
    decision = session.decide(0.5)
    assert [start.attempt for start in decision.starts] == [2]
    begin(session, decision, 0.5)
    session.failed("job0", "t0", "cpu-0", 0.6)
    assert session.decide(0.6).ended == (End("job0", "failed", 0.6, "task 't0' has failed 2 times", ("t0",)),)
    assert session.num_waiting == 0 and not session.is_due


@pytest.mark.parametrize("scheduler", ["fifo", "plan:heft"])
def test_job_fails_with_a_task_whose_devices_are_lost_again_and_again(scheduler: str):
    session = Session(
        Problem([Job(chain(1.0, 1.0), "a"), Job(chain(1.0), "b")], pair()), scheduler, max_losses=2
    )
    session.arrived("a", 0.0)
    for _ in range(2):
        decision = session.decide(0.0)
        (start,) = decision.starts
        begin(session, decision, 0.0)
        session.device_lost(start.device, 0.0)
        session.device_joined(start.device, 0.0)
    session.arrived("b", 0.0)
    decision = session.decide(0.0)
    reason = "the device of task 't0' was lost 2 times while it ran"
    assert decision.ended == (End("a", "failed", 0.0, reason, ("t0",)),)
    assert [start.job for start in decision.starts] == ["b"]


def test_job_without_tasks_is_done_when_it_arrives():
    jobs = [Job(TaskGraph([], [], []), "empty"), Job(chain(1.0), "one")]
    session = Session(Problem(jobs, pair()), "fifo")
    session.arrived("empty", 3.0)
    assert session.decide(3.0).ended == (End("empty", "done", 3.0),)


def test_vacated_is_refused_where_devices_are_shared():
    session = new(1)
    session.arrived("job0", 0.0)
    begin(session, session.decide(0.0), 0.0)
    with pytest.raises(InputError, match=r"vacated\.task: expected the end"):
        session.vacated("job0", "t0", "cpu-0", 0.5)


def test_planner_that_cannot_plan_around_others_is_refused():
    with pytest.raises(UnsupportedError, match="plan:tdca: it cannot plan around what runs already"):
        new(rule="plan:tdca")


def test_plan_is_made_again_without_a_lost_device():
    session = new(1, rule="plan:heft")
    session.arrived("job0", 0.0)
    begin(session, session.decide(0.0), 0.0)
    session.device_lost("cpu-0", 0.5)
    assert [(start.task, start.device, start.attempt) for start in session.decide(0.5).starts] == [
        ("t0", "cpu-1", 2)
    ]


def test_problem_the_view_cannot_run_is_refused():
    jobs = [Job(chain(1.0), "a", period=2.0), Job(chain(1.0), "b")]
    with pytest.raises(UnsupportedError, match="fifo: job 'a' is periodic"):
        Session(Problem(jobs, pair()), "fifo")


class Chaos:
    """Random ends, failures and losses; checks order, devices and that each task ends once."""

    def __init__(self, session: Session, seed: int) -> None:
        self.session, self.rng, self.now = session, np.random.default_rng(seed), 0.0
        self.jobs = {job.name: job.graph for job in session.problem.jobs}
        self.coming = list(self.jobs)
        self.running: dict[tuple[str, str], Start] = {}
        self.finished: set[tuple[str, str]] = set()
        self.lost: set[str] = set()
        self.ended: dict[str, str] = {}

    def play(self, num_steps: int = 10**6) -> None:
        while len(self.ended) < len(self.jobs) and num_steps > 0:
            num_steps -= 1
            self.now += float(self.rng.choice([0.0, 0.5, 3.0]))
            self.happen(self.rng.random())
            self.obey(self.session.decide(self.now))

    def obey(self, decision: Decision) -> None:
        for start in decision.starts:
            key = (start.job, start.task)
            graph = self.jobs[start.job]
            parents = [graph.names[i] for i in graph.predecessors(graph.index[start.task]).tolist()]
            assert key not in self.running and key not in self.finished and start.device not in self.lost
            assert all((start.job, parent) in self.finished for parent in parents)
            self.running[key] = start
            self.session.started(*key, start.device, self.now, attempt=start.attempt)
        for end in decision.ended:
            assert end.job not in self.ended
            self.ended[end.job] = end.outcome

    def happen(self, draw: float) -> None:
        names = self.session.problem.cluster.device_names
        if draw < 0.3 and self.coming:
            self.session.arrived(self.coming.pop(), self.now)
        elif draw < 0.4:
            self.toggle(names[int(self.rng.integers(len(names)))])
        elif self.running:
            key = list(self.running)[int(self.rng.integers(len(self.running)))]
            start = self.running.pop(key)
            if self.rng.random() < 0.1:
                self.session.failed(*key, start.device, self.now, attempt=start.attempt)
            else:
                self.finished.add(key)
                self.session.finished(*key, start.device, self.now, attempt=start.attempt)

    def toggle(self, device: str) -> None:
        if device in self.lost:
            self.lost.remove(device)
            self.session.device_joined(device, self.now)
            return
        self.lost.add(device)
        self.session.device_lost(device, self.now)
        self.running = {key: start for key, start in self.running.items() if start.device != device}


def make(seed: int, shape: str, is_plain: bool) -> Problem:
    return make_problem(
        seed, sizes=(3, 15, 4, 2), graph_style=(shape, "uniform", "uniform"), links="nodes",
        is_plain=is_plain, has_copies=False,
    )  # fmt: skip


SHAPES = st.sampled_from(("chain", "fork", "diamond", "random"))
RULES = st.sampled_from(("fifo", "eft", "srw", "heft", "random", "plan:heft", "plan:heft+again", "heft-job"))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(SEEDS, SHAPES, st.booleans(), RULES)
def test_no_task_is_lost_or_doubled(seed: int, shape: str, is_plain: bool, rule: str):
    problem = make(seed, shape, is_plain)
    world = Chaos(Session(problem, rule), seed)
    world.play()
    for name, graph in world.jobs.items():
        done = {task for job, task in world.finished if job == name}
        assert world.ended[name] == "failed" or done == set(graph.names)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(SEEDS, SHAPES, st.booleans(), st.integers(1, 40), RULES)
def test_restored_session_goes_on_as_the_first(
    seed: int, shape: str, is_plain: bool, num_steps: int, rule: str
):
    problem = make(seed, shape, is_plain)
    session = Session(problem, rule)
    world = Chaos(session, seed)
    world.play(num_steps)
    text = json.dumps(session.snapshot(), allow_nan=False)
    twin = Session.restore(problem, json.loads(text))
    assert twin.snapshot() == session.snapshot()
    for device in sorted(world.lost):
        session.device_joined(device, world.now)
        twin.device_joined(device, world.now)
    assert twin.decide(world.now) == session.decide(world.now)
