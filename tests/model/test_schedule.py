"""Schedules: metrics against examples worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from weft.errors import InputError
from weft.model.bounds import Bound
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Objective, Problem
from weft.model.schedule import ABORTED, EXPIRED, SKIPPED, Schedule


@pytest.fixture
def copied(fork_problem: Problem) -> Schedule:
    """The fork with its root on both devices: 11."""
    return Schedule(
        fork_problem,
        [2, 0, 1, 0],
        [1, 0, 0, 1],
        [1.0, 0.0, 1.0, 0.0],
        [11.0, 1.0, 11.0, 1.0],
        copy=[0, 0, 0, 1],
    )


@pytest.fixture
def sent(fork_problem: Problem) -> Schedule:
    """The fork with one child across the slow link: 111."""
    return Schedule(fork_problem, [0, 1, 2], [0, 0, 1], [0.0, 1.0, 101.0], [1.0, 11.0, 111.0])


def two_owners(starts: tuple[float, float]) -> Schedule:
    """Two jobs of one task of 2 s on one device each, released at 0 and 1."""
    jobs = [Job(TaskGraph([2.0]), "a", owner="ada"), Job(TaskGraph([2.0]), "b", release=1.0, owner="bob")]
    problem = Problem(jobs, Cluster.uniform((DeviceClass("cpu"),), (2,)))
    return Schedule(problem, [0, 1], [0, 1], list(starts), [start + 2.0 for start in starts])


def test_schedule_sorts_rows_by_start_device_task(copied: Schedule):
    assert copied.task.tolist() == [0, 0, 1, 2]
    assert copied.device.tolist() == [0, 1, 0, 1]
    assert copied.copy.tolist() == [0, 1, 0, 0]


def test_schedule_fills_neutral_columns(sent: Schedule):
    assert (sent.copy.tolist(), sent.batch.tolist(), sent.outcome.tolist()) == ([0] * 3, [-1] * 3, [0] * 3)


def test_schedule_columns_are_read_only(sent: Schedule):
    with pytest.raises(ValueError, match="read-only"):
        sent.start[0] = 5.0


def test_schedule_with_copies_reaches_the_bound(copied: Schedule):
    assert (copied.makespan, copied.num_copies, copied.transfer_time) == (11.0, 1, 0.0)
    assert (copied.bound, copied.gap_percent, copied.slr) == (Bound(11.0, "critical-path"), 0.0, 1.0)
    assert copied.utilisation == 1.0


def test_schedule_across_a_link_pays_the_transfer(sent: Schedule):
    assert (sent.makespan, sent.num_copies, sent.transfer_time) == (111.0, 0, 100.0)
    assert sent.slr == pytest.approx(111 / 11)
    assert sent.gap_percent == pytest.approx(100 * (111 / 11 - 1))


def test_schedule_speedup_is_over_the_best_single_device(copied: Schedule):
    assert copied.sequential_time == 21.0
    assert copied.speedup == pytest.approx(21 / 11)
    assert copied.efficiency == pytest.approx(21 / 22)


def test_schedule_utilisation_counts_slots():
    cluster = Cluster.uniform((DeviceClass("a", slots=4), DeviceClass("b")), (1, 1))
    problem = Problem(TaskGraph([2.0, 4.0], slots=[3, 1]), cluster)
    plan = Schedule(problem, [0, 1], [0, 1], [0.0, 0.0], [2.0, 4.0])
    assert plan.device_utilisation.tolist() == [6 / 16, 1.0]
    assert plan.utilisation == pytest.approx(10 / 20)


def test_schedule_makespan_counts_from_the_first_release():
    jobs = [Job(TaskGraph([2.0]), "a", release=5.0), Job(TaskGraph([2.0]), "b", release=6.0)]
    plan = Schedule(
        Problem(jobs, Cluster.uniform((DeviceClass("cpu"),), (1,))), [0, 1], [0, 0], [5.0, 7.0], [7.0, 9.0]
    )
    assert (plan.makespan, plan.job_completion_times.tolist()) == (4.0, [2.0, 3.0])


def test_schedule_job_times_take_the_first_copy_to_finish(fork_problem: Problem):
    plan = Schedule(
        fork_problem,
        [0, 0, 1, 2],
        [0, 1, 0, 0],
        [0.0, 50.0, 1.0, 11.0],
        [1.0, 51.0, 11.0, 21.0],
        copy=[0, 1, 0, 0],
    )
    assert (plan.mean_jct, plan.makespan) == (21.0, 51.0)


def test_schedule_mean_weighted_and_worst_job_times():
    plan = two_owners((0.0, 5.0))
    assert plan.job_completion_times.tolist() == [2.0, 6.0]
    assert (plan.mean_jct, plan.weighted_jct) == (4.0, 4.0)
    assert plan.p99_jct == pytest.approx(5.96)


def test_schedule_misses_count_late_jobs():
    jobs = [Job(TaskGraph([2.0]), "a", deadline=2.0), Job(TaskGraph([2.0]), "b", deadline=3.0)]
    problem = Problem(jobs, Cluster.uniform((DeviceClass("cpu"),), (1,)))
    assert Schedule(problem, [0, 1], [0, 0], [0.0, 2.0], [2.0, 4.0]).misses == 1


@pytest.mark.parametrize(("deadline", "misses"), [(9.0, 1), (None, 0)])
def test_schedule_misses_count_jobs_that_expired(deadline: float | None, misses: int):
    problem = Problem(
        Job(TaskGraph([2.0, 2.0]), deadline=deadline), Cluster.uniform((DeviceClass("cpu"),), (1,))
    )
    plan = Schedule(problem, [0, 1], [0, -1], [0.0, 0.0], [2.0, 0.0], outcome=[0, EXPIRED])
    assert plan.misses == misses


@pytest.mark.parametrize(("starts", "index"), [((0.0, 1.0), 1.0), ((0.0, 5.0), 0.8)])
def test_schedule_fairness_is_jains_index_of_slowdown(starts: tuple[float, float], index: float):
    """Slowdowns 1 and 3 give 4 ** 2 / (2 * 10)."""
    assert two_owners(starts).fairness == pytest.approx(index)


def test_schedule_fairness_of_nothing_done_is_one(fork_problem: Problem):
    assert Schedule(fork_problem, [], [], [], []).fairness == 1.0


def test_schedule_energy_adds_busy_and_idle_power():
    cluster = Cluster.uniform((DeviceClass("a", watts=100.0, idle_watts=10.0),), (2,))
    problem = Problem(TaskGraph([2.0, 6.0]), cluster)
    plan = Schedule(problem, [0, 1], [0, 1], [0.0, 0.0], [2.0, 6.0])
    assert plan.device_energy == pytest.approx([100 * 2 + 10 * 4, 100 * 6])
    assert plan.energy == pytest.approx(100 * 2 + 10 * 4 + 100 * 6)


def test_schedule_energy_counts_overlapping_tasks_once():
    cluster = Cluster.uniform((DeviceClass("a", slots=2, watts=100.0),), (1,))
    plan = Schedule(Problem(TaskGraph([2.0, 4.0]), cluster), [0, 1], [0, 0], [0.0, 1.0], [2.0, 5.0])
    assert plan.busy_time == pytest.approx([5.0])
    assert plan.energy == pytest.approx(500.0)


def test_schedule_cost_runs_from_first_start_to_last_finish():
    cluster = Cluster.uniform((DeviceClass("a", price=7.2), DeviceClass("b", price=1e6)), (1, 1))
    graph = TaskGraph([500.0, 500.0], time_unit="ms")
    plan = Schedule(Problem(graph, cluster), [0, 1], [0, 0], [0.0, 1500.0], [500.0, 2000.0])
    assert plan.device_cost == pytest.approx([7.2 * 2.0 / 3600, 0.0])
    assert plan.cost == pytest.approx(7.2 * 2.0 / 3600)


def test_schedule_batch_occupies_its_device_once():
    cluster = Cluster.uniform((DeviceClass("a", batch=4),), (1,))
    plan = Schedule(
        Problem(TaskGraph([2.0, 2.0]), cluster), [0, 1], [0, 0], [0.0, 0.0], [2.0, 2.0], batch=[0, 0]
    )
    assert (plan.batch_fill, plan.busy_slot_time.tolist(), plan.utilisation) == (0.5, [2.0], 1.0)


def test_schedule_elastic_rows_are_not_copies():
    graph = TaskGraph([4.0], curves=[[1.0, 2.0]], curve=[0])
    problem = Problem(graph, Cluster.uniform((DeviceClass("cpu"),), (1,)))
    assert Schedule(problem, [0, 0], [0, 0], [0.0, 2.0], [2.0, 3.0]).num_copies == 0


def test_schedule_ignores_rows_that_were_not_done(fork_problem: Problem):
    plan = Schedule(
        fork_problem,
        [0, 0, 1, 2],
        [0, 0, 0, -1],
        [0.0, 1.0, 2.0, 0.0],
        [500.0, 2.0, 12.0, 0.0],
        attempt=[0, 1, 0, 0],
        outcome=[ABORTED, 0, 0, SKIPPED],
    )
    assert (plan.makespan, plan.num_copies) == (12.0, 0)
    assert np.isnan(plan.first_finish[2])


def test_schedule_bound_uses_proven_ones_only_where_they_hold(fork_problem: Problem, copied: Schedule):
    proven = Bound(21.0, "cp-sat", copies=False)
    rows = (copied.task, copied.device, copied.start, copied.finish, copied.copy)
    assert Schedule(fork_problem, *rows, lower_bounds=(proven,)).bound.value == 11.0
    single = Schedule(
        fork_problem, [0, 1, 2], [0, 0, 0], [0.0, 1.0, 11.0], [1.0, 11.0, 21.0], lower_bounds=(proven,)
    )
    assert single.bound == proven
    strict = fork_problem.replaced(objective=Objective(copies=False))
    assert Schedule(strict, *rows, lower_bounds=(proven,)).bound == proven


def test_schedule_story_tells_all_rows_of_a_task(copied: Schedule):
    story = copied.story("root")
    assert [(p.task, p.copy, p.device, p.start, p.outcome) for p in story] == [
        ("root", 0, "cpu-0", 0.0, "done"),
        ("root", 1, "cpu-1", 0.0, "done"),
    ]
    assert story == copied.story(0)


def test_schedule_story_of_an_unknown_task_is_refused(copied: Schedule):
    with pytest.raises(InputError, match="no task 'ghost' in problem 'fork'"):
        copied.story("ghost")


def test_schedule_gap_above_a_bound_of_nothing_is_infinite():
    cluster = Cluster.uniform((DeviceClass("cpu"),), (2,), latency=5.0)
    problem = Problem(TaskGraph([0.0, 0.0], [0], [1]), cluster)
    assert Schedule(problem, [0, 1], [0, 1], [0.0, 5.0], [0.0, 5.0]).gap_percent == np.inf
    assert Schedule(problem, [0, 1], [0, 0], [0.0, 0.0], [0.0, 0.0]).gap_percent == 0.0


def test_schedule_transfer_time_is_in_the_unit_of_the_graph():
    cluster = Cluster.uniform((DeviceClass("cpu"),), (2,), bandwidth=1000.0, latency=0.25)
    problem = Problem(TaskGraph([1.0, 1.0], [0], [1], 500.0, time_unit="ms"), cluster)
    assert Schedule(problem, [0, 1], [0, 1], [0.0, 751.0], [1.0, 752.0]).transfer_time == 750.0


def test_schedule_of_nothing_has_neutral_metrics():
    plan = Schedule(
        Problem(TaskGraph(np.zeros(0)), Cluster.uniform((DeviceClass("cpu"),), (1,))), [], [], [], []
    )
    assert (plan.makespan, plan.slr, plan.speedup, plan.gap_percent, plan.utilisation) == (
        0.0,
        1.0,
        1.0,
        0.0,
        0.0,
    )
    assert (plan.batch_fill, plan.energy, plan.cost, plan.fairness) == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (([0, 9], [0, 0], [0.0, 0.0], [1.0, 1.0]), "task: expected task numbers below 3"),
        (([0, 1], [0, 2], [0.0, 0.0], [1.0, 1.0]), "device: expected device numbers below 2"),
        (([0, 1], [0, 0], [0.0], [1.0, 1.0]), "start: expected 2 values, got shape (1,)"),
    ],
)
def test_schedule_refuses_bad_columns_in_one_line(
    fork_problem: Problem, columns: tuple[list[float], ...], text: str
):
    with pytest.raises(InputError) as caught:
        Schedule(fork_problem, *columns)
    assert str(caught.value) == text
