"""Replays, makespans under noise, slack."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import problems, tie_free_problems

from weft import catalog
from weft.errors import InputError
from weft.evaluation.questions.robustness import robustness, slack
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Problem, expected, realise
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.schedulers.explain import explain
from weft.sim.tasks.replay import replayed

PLANNERS = ("heft", "deft", "min-min", "tdca")
PROPERTY = settings(max_examples=200, deadline=None, derandomize=True)
FEWER = settings(max_examples=100, deadline=None, derandomize=True)


def planned(problem: Problem, name: str = "heft") -> Schedule | None:
    """A plan, or None where the planner refuses the problem."""
    if catalog.planner(name).supports(problem) is not None:
        return None
    return catalog.schedule(problem, name).schedule


@pytest.fixture
def two_lanes() -> Schedule:
    """a (2), then b (3) on one device; c (4), which needs a, on the other; 1 to send."""
    graph = TaskGraph([2.0, 3.0, 4.0], [0], [2], [1.0], names=("a", "b", "c"))
    cluster = Cluster.uniform([DeviceClass("cpu")], [2], bandwidth=1.0)
    return Schedule(Problem(graph, cluster), [0, 1, 2], [0, 0, 1], [0.0, 2.0, 3.0], [2.0, 5.0, 7.0])


# -- replay -----------------------------------------------------------------------------------------


@PROPERTY
@given(problems(), st.sampled_from(PLANNERS))
def test_replay_without_noise_starts_nothing_later(problem: Problem, name: str) -> None:
    plan = planned(problem, name)
    if plan is None:
        return
    again = replayed(plan, expected(problem))
    by_key = {(t, c): s for t, c, s in zip(again.task, again.copy, again.start, strict=True)}
    for task, copy, start in zip(plan.task, plan.copy, plan.start, strict=True):
        assert by_key[task, copy] <= start + 1e-9 * abs(start)
    assert again.makespan <= plan.makespan * (1 + 1e-9)


@PROPERTY
@given(tie_free_problems())
def test_replay_without_noise_keeps_a_left_shifted_plan(problem: Problem) -> None:
    plan = planned(problem)
    assert plan is not None
    again = replayed(plan, expected(problem))
    assert again.makespan == pytest.approx(plan.makespan, rel=1e-12)
    np.testing.assert_allclose(replayed(again, expected(problem)).start, again.start, rtol=1e-12)


@PROPERTY
@given(problems(), st.sampled_from(PLANNERS), st.integers(0, 1000))
def test_replay_under_noise_is_valid(problem: Problem, name: str, seed: int) -> None:
    plan = planned(problem, name)
    if plan is not None:
        assert validate(replayed(plan, realise(problem.replaced(noise=0.8), seed))) == ()


@FEWER
@given(problems(), st.integers(0, 1000))
def test_replay_keeps_devices_and_their_order(problem: Problem, seed: int) -> None:
    plan = planned(problem, "deft")
    if plan is None:
        return
    again = replayed(plan, realise(problem.replaced(noise=0.8), seed))
    rows = {key: row for row, key in enumerate(zip(again.task, again.copy, strict=True))}
    moved = [rows[key] for key in zip(plan.task, plan.copy, strict=True)]
    np.testing.assert_array_equal(again.device[moved], plan.device)
    for device in range(problem.cluster.num_devices):
        if problem.cluster.slots[device] == 1:
            on = plan.device == device
            starts = again.start[moved][on & (plan.finish > plan.start)]
            assert (np.diff(starts) >= 0).all()


def test_replay_pulls_in_what_waits_for_nothing() -> None:
    graph = TaskGraph([2.0], names=("late",))
    late = Schedule(Problem(graph, Cluster.uniform([DeviceClass("cpu")], [1])), [0], [0], [5.0], [7.0])
    assert replayed(late, expected(late.problem)).start.tolist() == [0.0]


def test_replay_waits_for_the_release() -> None:
    job = Job(TaskGraph([2.0]), release=4.0)
    plan = Schedule(Problem(job, Cluster.uniform([DeviceClass("cpu")], [1])), [0], [0], [4.0], [6.0])
    assert replayed(plan, expected(plan.problem)).start.tolist() == [4.0]


def test_replay_takes_data_from_the_copy_that_is_first(fork_problem: Problem) -> None:
    plan = planned(fork_problem, "deft")
    assert plan is not None and plan.num_copies == 1
    again = replayed(plan, expected(fork_problem))
    assert again.makespan == plan.makespan == 11.0


def test_replay_takes_the_slot_that_is_free_first() -> None:
    """Two slots: a (1) turns out to take 4 and b (9) 1, so c (2) begins in b's place, and d (2) after c."""
    graph = TaskGraph([1.0, 9.0, 2.0, 2.0])
    problem = Problem(graph, Cluster.uniform([DeviceClass("cpu", slots=2)], [1]))
    plan = Schedule(problem, [0, 1, 2, 3], [0] * 4, [0.0, 0.0, 1.0, 3.0], [1.0, 9.0, 3.0, 5.0])
    run = expected(problem)
    times = np.array([[4.0], [1.0], [2.0], [2.0]])
    again = replayed(plan, type(run)(0, times, run.taken, run.runs))
    assert again.start.tolist() == [0.0, 0.0, 1.0, 3.0]
    assert validate(again) == ()


def test_replay_keeps_the_order_of_starts_among_slots() -> None:
    """Two slots: c waits for data of a, which is late; d, planned after c, does not overtake it."""
    graph = TaskGraph([1.0, 9.0, 2.0, 2.0], [0], [2], [0.0])
    problem = Problem(graph, Cluster.uniform([DeviceClass("cpu", slots=2)], [2]))
    plan = Schedule(problem, [0, 1, 2, 3], [1, 0, 0, 0], [0.0, 0.0, 1.0, 3.0], [1.0, 9.0, 3.0, 5.0])
    run = expected(problem)
    times = np.array([[5.0], [1.0], [2.0], [2.0]])
    again = replayed(plan, type(run)(0, times, run.taken, run.runs))
    assert again.start.tolist() == [0.0, 0.0, 5.0, 5.0]


def test_replay_lets_tasks_of_no_length_share_a_busy_device() -> None:
    problem = Problem(TaskGraph([9.0, 0.0]), Cluster.uniform([DeviceClass("cpu")], [1]))
    plan = Schedule(problem, [0, 1], [0, 0], [0.0, 5.0], [9.0, 5.0])
    assert validate(plan) == ()
    assert replayed(plan, expected(problem)).start.tolist() == [0.0, 0.0]


def test_replay_refuses_batches(two_lanes: Schedule) -> None:
    batched = Schedule(
        two_lanes.problem,
        two_lanes.task,
        two_lanes.device,
        two_lanes.start,
        two_lanes.finish,
        batch=[0, 0, 0],
    )
    with pytest.raises(InputError, match="has batches"):
        replayed(batched, expected(batched.problem))


def test_replay_refuses_branches() -> None:
    graph = TaskGraph([1.0] * 3, [0, 0], [1, 2], probability=[0.5, 0.5], branch=[0, 0])
    problem = Problem(graph, Cluster.uniform([DeviceClass("cpu")], [1]))
    plan = Schedule(problem, [0, 1], [0, 0], [0.0, 1.0], [1.0, 2.0])
    with pytest.raises(InputError, match="has branches or elastic tasks"):
        replayed(plan, realise(problem, 0))


def test_replay_refuses_a_task_before_its_parent() -> None:
    problem = Problem(TaskGraph([1.0, 1.0], [0], [1]), Cluster.uniform([DeviceClass("cpu")], [1]))
    wrong = Schedule(problem, [0, 1], [0, 0], [1.0, 0.0], [2.0, 1.0])
    with pytest.raises(InputError, match="'t1' starts before its parent 't0'"):
        replayed(wrong, expected(problem))


def test_replay_refuses_a_device_that_cannot_run_the_task() -> None:
    graph = TaskGraph([np.nan], classes=("gpu", "cpu"), times=[[1.0, np.inf]])
    problem = Problem(graph, Cluster.uniform([DeviceClass("gpu"), DeviceClass("cpu")], [1, 1]))
    wrong = Schedule(problem, [0], [1], [0.0], [1.0])
    with pytest.raises(InputError, match="'t0' cannot run on cpu-0"):
        replayed(wrong, expected(problem))


# -- noise ------------------------------------------------------------------------------------------


def test_robustness_without_noise_is_the_plan(two_lanes: Schedule) -> None:
    found = robustness(two_lanes, 0.0, 3)
    assert found.rows.tolist() == [7.0] * 3
    assert (found.median, found.p95, found.mean, found.worst, found.planned) == (7.0,) * 5


@FEWER
@given(problems(), st.sampled_from(PLANNERS))
def test_robustness_equals_replaying_one_by_one(problem: Problem, name: str) -> None:
    plan = planned(problem, name)
    if plan is None:
        return
    noisy = problem.replaced(noise=0.4)
    single = [replayed(plan, realise(noisy, seed)).makespan for seed in range(4)]
    assert robustness(plan, 0.4, 4).rows.tolist() == single


def test_robustness_orders_its_figures(two_lanes: Schedule) -> None:
    found = robustness(two_lanes, 0.5, 200)
    assert found.rows.min() < found.median < found.p95 <= found.worst
    assert found.to_dict() == {
        "cv": 0.5,
        "seeds": 200,
        "median": found.median,
        "p95": found.p95,
        "mean": found.mean,
        "worst": found.worst,
    }


def test_robustness_draws_by_seed_alone(two_lanes: Schedule) -> None:
    many = robustness(two_lanes, 0.3, 130)
    some = robustness(two_lanes, 0.3, [129, 64, 5])
    assert some.rows.tolist() == many.rows[[129, 64, 5]].tolist()


def test_robustness_refuses_no_seed_and_bad_noise(two_lanes: Schedule) -> None:
    with pytest.raises(InputError, match="at least one seed"):
        robustness(two_lanes, 0.3, 0)
    with pytest.raises(InputError, match="coefficient of variation >= 0"):
        robustness(two_lanes, -0.3, 5)


# -- slack ------------------------------------------------------------------------------------------


def test_slack_counts_to_the_makespan(two_lanes: Schedule) -> None:
    assert slack(two_lanes).tolist() == [0.0, 2.0, 0.0]


def test_slack_of_a_copy_nobody_needs_reaches_the_end() -> None:
    problem = Problem(
        TaskGraph([1.0, 4.0], [0], [1], [9.0]), Cluster.uniform([DeviceClass("cpu")], [2], bandwidth=1.0)
    )
    plan = Schedule(problem, [0, 0, 1], [0, 1, 0], [0.0, 0.0, 1.0], [1.0, 1.0, 5.0], copy=[0, 1, 0])
    assert slack(plan).tolist() == [0.0, 4.0, 0.0]


@FEWER
@given(tie_free_problems())
def test_slack_is_that_of_explain(problem: Problem) -> None:
    plan = planned(problem)
    assert plan is not None
    for row, spare in enumerate(slack(plan).tolist()):
        told = explain(plan, problem.task_name(int(plan.task[row]))).slack
        assert told == pytest.approx(spare, abs=1e-8 * max(1.0, plan.makespan))


@FEWER
@given(problems(), st.integers(0, 1000))
def test_slack_delays_leave_the_makespan(problem: Problem, seed: int) -> None:
    """Any one task may take longer by its slack; the replay is no longer than the plan."""
    plan = planned(problem)
    if plan is None or not len(plan):
        return
    row = int(np.random.default_rng(seed).integers(len(plan)))
    run = expected(problem)
    longer = run.run_times.copy()
    if longer[plan.task[row], problem.cluster.device_class[plan.device[row]]] == 0:
        return
    longer[plan.task[row]] += slack(plan)[row]
    delayed = replayed(plan, type(run)(0, longer, run.taken, run.runs))
    assert delayed.makespan <= plan.makespan * (1 + 1e-9)
