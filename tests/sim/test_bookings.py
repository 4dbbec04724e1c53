"""Devices and memory that are held for one job: granted in order, kept from others, given back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import SEEDS, make_cluster, make_graph, with_needs

from weft import catalog
from weft.errors import InfeasibleError, InputError, UnsupportedError
from weft.execute.virtual_runs import drive_tasks
from weft.model import Booking, Cluster, DeviceClass, Job, Problem, Schedule, TaskGraph, realise
from weft.model.validate import validate
from weft.schedulers.dispatchers.python_view import DispatchView, Start
from weft.schedulers.dispatchers.tasks import run_one
from weft.session import Session
from weft.sim.tasks.candidates import CandidateSight
from weft.sim.tasks.environment import TaskEnv, TaskSetup
from weft.testing.problems import COSTS, DATA, LINKS, SHAPES
from weft.training.recipes import read_recipe

RULES = ("fifo", "edf", "eft", "heft", "srw", "priced", "es", "dask-like")
GPU = DeviceClass("gpu", memory=16.0)


class Greedy:
    """A dispatcher of one's own that starts the first task that can start."""

    name = "greedy"

    def decide(self, view: DispatchView) -> list[Start]:
        for task in view.ready:
            for device in view.options(task):
                return [Start(task, device)]
        return []


def booked(seed: int, share: float) -> Problem:
    """Several jobs on unequal devices, this share of which books where that is possible."""
    rng = np.random.default_rng(seed)
    is_plain = bool(rng.random() < 0.4)
    cluster = make_cluster(
        seed, int(rng.integers(2, 6)), int(rng.integers(1, 4)), str(rng.choice(LINKS)), is_plain=is_plain
    )
    names = [*cluster.device_names, *(one.name for one in cluster.classes)]
    jobs = []
    for j in range(int(rng.integers(2, 7))):
        style = [str(rng.choice(kind)) for kind in (SHAPES, COSTS, DATA)]
        graph = make_graph(seed + j, int(rng.integers(0, 9)), *style)
        graph = with_needs(graph, seed + j, cluster) if not is_plain and rng.random() < 0.5 else graph
        release = float(rng.choice([0.0, rng.uniform(0.0, 20.0)]))
        job = Job(graph, f"job{j}", release)
        some = tuple(rng.choice(names, size=int(rng.integers(1, 3)), replace=False).tolist())
        share_of = (
            (int(rng.integers(1, 4)), float(rng.choice([0.0, 8.0, 30.0])))
            if rng.random() < 0.5
            else (None, 0.0)
        )
        booking = Booking(some, int(rng.integers(1, 3)), *share_of)
        jobs.append(
            replace(job, booking=booking) if rng.random() < share and can_book(job, booking, cluster) else job
        )
    return Problem(jobs, cluster, noise=0.3)


def can_book(job: Job, booking: Booking, cluster: Cluster) -> bool:
    try:
        Problem(replace(job, booking=booking), cluster)
    except InfeasibleError:
        return False
    return True


def without(problem: Problem) -> Problem:
    """The same problem without bookings."""
    return problem.replaced(jobs=tuple(replace(job, booking=None) for job in problem.jobs))


def same(one: Schedule, other: Schedule) -> bool:
    names = ("task", "device", "start", "finish", "outcome")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def rules_of(schedule: Schedule, problem: Problem) -> set[str]:
    return {violation.rule for violation in validate(schedule, problem)}


# -- what is promised ------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from(RULES))
def test_whatever_is_booked_every_job_ends_and_nobody_takes_it(seed: int, rule: str):
    problem = booked(seed, 0.7)
    assert validate(run_one(catalog.task_dispatcher(rule), problem, realise(problem, seed), seed)) == ()


@settings(max_examples=25, deadline=None, derandomize=True)
@given(SEEDS)
def test_dispatcher_of_ones_own_is_kept_from_what_others_booked(seed: int):
    problem = booked(seed, 0.7)
    assert validate(run_one(Greedy(), problem, realise(problem, seed))) == ()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from(("fifo", "srw", "priced")), st.booleans())
def test_session_does_what_the_kernel_does(seed: int, rule: str, tells_graphs: bool):
    problem = booked(seed, 0.7)
    order = sorted(range(len(problem.jobs)), key=lambda j: problem.jobs[j].release)
    problem = problem.replaced(jobs=tuple(problem.jobs[j] for j in order))
    world = realise(problem, seed)
    known = problem.cluster if tells_graphs else problem
    more = {"time_unit": problem.time_unit} if tells_graphs else {}
    driven = drive_tasks(Session(known, rule, seed=seed, **more), problem, world, tells_graphs=tells_graphs)
    expected = run_one(catalog.task_dispatcher(rule), problem, world, seed)
    rows = [
        sorted(zip(one.task, one.device, one.start, one.finish, strict=True)) for one in (driven, expected)
    ]
    assert rows[0] == rows[1]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from(("fifo", "priced", "es")))
def test_bookings_to_come_change_nothing_earlier(seed: int, rule: str):
    problem = booked(seed, 0.5)
    last = max(range(len(problem.jobs)), key=lambda j: problem.jobs[j].release)
    time = problem.jobs[last].release
    jobs = [replace(job, booking=None) if j == last else job for j, job in enumerate(problem.jobs)]
    rows = []
    for one in (problem, problem.replaced(jobs=tuple(jobs))):
        found = run_one(catalog.task_dispatcher(rule), one, realise(one, seed), seed)
        early = found.start < time
        rows.append(sorted(zip(found.task[early], found.device[early], found.start[early], strict=True)))
    assert rows[0] == rows[1]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(SEEDS, st.sampled_from(("fifo", "priced")))
def test_room_for_bookings_that_nobody_makes_changes_nothing(seed: int, rule: str):
    """Columns of bookings are there for one problem of a batch, and empty for the other."""
    problem = without(booked(seed, 0.0))
    other = Problem(
        [Job(TaskGraph([1.0]), booking=Booking(("gpu",)))], Cluster.uniform([GPU], [2], bandwidth=1.0)
    )
    worlds = [realise(problem, seed), realise(other, seed)]
    dispatcher = catalog.task_dispatcher(rule)
    alone = dispatcher.run_all([problem], worlds[:1], [seed])[0]
    beside = dispatcher.run_all([problem, other], worlds, [seed, seed])[0]
    assert same(alone, beside)


def test_validator_sees_bookings_that_are_not_kept():
    broken = 0
    for seed in range(30):
        problem = booked(seed, 0.8)
        free = without(problem)
        plain = run_one(catalog.task_dispatcher("fifo"), free, realise(free, seed), seed)
        broken += "booked" in rules_of(
            Schedule(problem, plain.task, plain.device, plain.start, plain.finish), problem
        )
    assert broken >= 10


# -- by hand ---------------------------------------------------------------------------------------


def two_gpus(*jobs: Job) -> Problem:
    return Problem(jobs, Cluster.uniform([GPU], [2], bandwidth=1e9))


def starts(problem: Problem, rule: str = "fifo") -> dict[str, tuple[int, float]]:
    """Device and start of every task."""
    found = run_one(catalog.task_dispatcher(rule), problem, realise(problem, 0))
    rows = zip(found.task.tolist(), found.device.tolist(), found.start.tolist(), strict=True)
    return {problem.task_name(task): (device, start) for task, device, start in rows}


@pytest.mark.parametrize("rule", ["fifo", "srw", "priced"])
def test_idle_device_is_kept_for_whoever_booked_it(rule: str):
    chain = TaskGraph([2.0, 2.0], [0], [1], 0.0)
    problem = two_gpus(Job(chain, "first", booking=Booking(("gpu-0",))), Job(TaskGraph([5.0, 5.0]), "second"))
    found = starts(problem, rule)
    assert found["first/t0"][1] == 0.0 and found["first/t1"][1] == 2.0
    assert sorted([found["second/t0"], found["second/t1"]], key=lambda one: one[1]) == [(1, 0.0), (0, 4.0)]


def test_bookings_are_granted_in_the_order_of_releases():
    jobs = [
        Job(TaskGraph([3.0]), f"job{k}", float(k) / 10, booking=Booking(("gpu",), 1 + k % 2))
        for k in range(3)
    ]
    found = starts(two_gpus(*jobs))
    assert found == {"job0/t0": (0, 0.0), "job1/t0": (0, 3.0), "job2/t0": (0, 6.0)}


def test_what_runs_when_a_booking_is_granted_ends():
    problem = two_gpus(
        Job(TaskGraph([4.0, 4.0]), "first"), Job(TaskGraph([1.0]), "second", 1.0, booking=Booking(("gpu-1",)))
    )
    assert starts(problem)["second/t0"] == (0, 4.0) or starts(problem)["second/t0"] == (1, 4.0)


def test_share_of_slots_and_memory_leaves_the_rest_to_others():
    cluster = Cluster.uniform([DeviceClass("node", slots=4, memory=16.0)], [1], bandwidth=1e9)
    own = TaskGraph([1.0, 1.0], [0], [1], 0.0, memory=[8.0, 8.0])
    others = TaskGraph([3.0] * 4, memory=[4.0] * 4)
    problem = Problem(
        [Job(own, "own", booking=Booking(("node",), slots=1, memory=8.0)), Job(others, "others")], cluster
    )
    found = starts(problem)
    assert [found["own/t0"][1], found["own/t1"][1]] == [0.0, 1.0]
    assert sorted(found[f"others/t{k}"][1] for k in range(4)) == [0.0, 0.0, 2.0, 2.0]


def test_session_gives_back_what_a_job_booked_that_is_given_up():
    session = Session(Cluster.uniform([GPU], [1], bandwidth=1e9), "fifo")
    session.arrived("first", 0.0, graph=TaskGraph([3.0]), booking={"devices": ["gpu"]})
    session.arrived("second", 0.0, graph=TaskGraph([1.0]), booking=Booking(("gpu",)))
    first = session.decide(0.0)
    assert [start.job for start in first.starts] == ["first"]
    session.started("first", "t0", "gpu-0", 0.0)
    for _ in range(20):
        session.failed("first", "t0", "gpu-0", 1.0)
        decision = session.decide(1.0)
        if any(end.job == "first" for end in decision.ended):
            break
        session.started("first", "t0", "gpu-0", 1.0)
    assert [start.job for start in decision.starts] == ["second"]


def test_environment_lists_only_what_bookings_allow():
    problems = tuple(booked(seed, 0.8) for seed in (3, 5, 8))
    env = TaskEnv(TaskSetup(problems, CandidateSight(tasks=4, pools=4)), 3)
    env.reset(seed=1)
    for _ in range(400):
        env.step(env.follow(env.known.base))
    assert np.isfinite(env.observation).all()


# -- refused ---------------------------------------------------------------------------------------

REFUSED = {
    "no devices": (lambda: Booking(()), "devices: expected names of devices or classes"),
    "a text": (lambda: Booking("gpu"), "devices: expected names of devices or classes"),  # type: ignore[arg-type]
    "no count": (lambda: Booking(("gpu",), 0), "count: expected a whole number >= 1, got 0"),
    "no slots": (lambda: Booking(("gpu",), slots=0), "slots: expected a whole number >= 1, got 0"),
    "memory": (lambda: Booking(("gpu",), slots=1, memory=-1.0), "memory: expected a finite number >= 0, got -1"),
    "memory alone": (lambda: Booking(("gpu",), memory=1.0), "memory: expected slots with it"),
    "unknown": (lambda: two_gpus(Job(TaskGraph([1.0]), booking=Booking(("tpu",)))), "'tpu' is neither a device nor"),
    "too many": (lambda: two_gpus(Job(TaskGraph([1.0]), booking=Booking(("gpu",), 3))), "books 3 of gpu, the cluster has 2"),
    "too small": (
        lambda: two_gpus(Job(TaskGraph([1.0], memory=[9.0]), booking=Booking(("gpu",), slots=1, memory=8.0))),
        "task 't0' of job 'job' has no room in what the job books",
    ),
    "not eligible": (
        lambda: two_gpus(Job(TaskGraph([1.0]), eligible=("gpu-0",), booking=Booking(("gpu-1",)))),
        "expected devices that the job may use",
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_booking_that_cannot_be_is_refused(reason: str):
    make, message = REFUSED[reason]
    with pytest.raises((InputError, InfeasibleError), match=message):
        make()


@pytest.mark.parametrize("name", ["plan:heft", "heft-job", "fifo-deft", "deft", "decima-deft"])
def test_who_binds_ahead_refuses_bookings(name: str):
    problem = two_gpus(Job(TaskGraph([1.0]), booking=Booking(("gpu",))))
    reason = catalog.task_dispatcher(name).supports(problem)
    assert reason is not None and "books devices: who binds tasks to devices ahead of time" in reason


def test_recipe_with_copies_refuses_bookings_and_names_copies():
    recipe = read_recipe("tasks-quick", {"bookings": 1, "candidates.copies": True})
    with pytest.raises(
        InputError, match=r"^copies: job .* books devices: a task behind a copy .* go without copies$"
    ):
        recipe.check(0)


def test_planner_refuses_bookings_beside_other_jobs_only():
    job = Job(TaskGraph([1.0]), booking=Booking(("gpu",)))
    assert catalog.schedule(two_gpus(job), "heft").schedule.makespan == 1.0
    with pytest.raises(UnsupportedError, match="books devices, which a plan of several jobs does not know"):
        catalog.schedule(two_gpus(job, Job(TaskGraph([1.0]), "other")), "heft")
