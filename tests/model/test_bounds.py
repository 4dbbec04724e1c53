"""Bounds: values worked out by hand, and never above a schedule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import problems

from weft.model.bounds import area, critical_path, longest_path, lower_bound
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Problem

CPU, GPU = DeviceClass("cpu"), DeviceClass("gpu", 4.0)


def test_bound_allows_for_copies(fork_problem: Problem):
    """21 is optimal without copies, 11 with: a bound for all schedules is at most 11."""
    bound = lower_bound(fork_problem)
    assert (bound.value, bound.copies) == (11.0, True)


def test_critical_path_takes_the_fastest_class_and_no_transfers():
    graph = TaskGraph([8.0, 4.0, 100.0], [0], [1], [1e9])
    problem = Problem(graph, Cluster.uniform((CPU, GPU), (1, 1), bandwidth=1.0))
    assert critical_path(problem).value == 25.0


def test_critical_path_starts_at_the_first_release():
    jobs = [Job(TaskGraph([1.0]), "a", release=2.0), Job(TaskGraph([5.0]), "b", release=10.0)]
    assert critical_path(Problem(jobs, Cluster.uniform((CPU,), (1,)))).value == 13.0


def test_critical_path_leaves_out_jobs_without_tasks():
    jobs = [Job(TaskGraph([1.0]), "a"), Job(TaskGraph(np.zeros(0)), "b", release=10.0)]
    assert critical_path(Problem(jobs, Cluster.uniform((CPU,), (1,)))).value == 1.0


def test_longest_path_of_no_tasks_is_zero():
    assert longest_path(TaskGraph(np.zeros(0)), np.zeros(0)) == 0.0


def test_critical_path_of_branches_takes_the_cheapest():
    graph = TaskGraph(
        [1.0, 10.0, 2.0, 4.0], [0, 0, 0], [1, 2, 3], probability=[0.5, 0.5, 1.0], branch=[0, 0, -1]
    )
    assert critical_path(Problem(graph, Cluster.uniform((CPU,), (1,)))).value == 5.0


@pytest.mark.parametrize(
    ("slots", "batch", "value"),
    [(1, 1, 6.0), (2, 1, 3.0), (1, 3, 2.0)],
)
def test_area_spreads_work_over_slots_and_batches(slots: int, batch: int, value: float):
    cluster = Cluster.uniform((DeviceClass("cpu", slots=slots, batch=batch),), (2,))
    assert area(Problem(TaskGraph(np.full(6, 2.0)), cluster)).value == value


def test_area_weighs_tasks_by_the_slots_they_hold():
    cluster = Cluster.uniform((DeviceClass("cpu", slots=4),), (1,))
    assert area(Problem(TaskGraph([2.0, 2.0], slots=[4, 2]), cluster)).value == 3.0


def test_bound_of_restricted_tasks_counts_only_their_classes():
    """Ten tasks that only the one gpu can run, whatever the number of cpus."""
    graph = TaskGraph(np.full(10, np.nan), classes=("gpu",), times=np.full((10, 1), 3.0))
    bound = lower_bound(Problem(graph, Cluster.uniform((CPU, GPU), (9, 1))))
    assert (bound.value, bound.method) == (30.0, "area of restricted tasks")


def test_bound_of_elastic_tasks_holds_at_the_best_rate():
    graph = TaskGraph([8.0], curves=[[1.0, 2.0]], curve=[0])
    assert lower_bound(Problem(graph, Cluster.uniform((CPU,), (1,)))).value == 4.0


def test_bound_of_no_tasks_is_zero():
    assert lower_bound(Problem(TaskGraph(np.zeros(0)), Cluster.uniform((CPU, GPU), (1, 1)))).value == 0.0


@settings(max_examples=200, deadline=None, derandomize=True)
@given(problems())
def test_bound_is_never_above_all_tasks_one_after_another(problem: Problem):
    on_first = problem.run_times[:, problem.cluster.device_class[0]].sum()
    releases = [job.release for job in problem.jobs]
    serial = max(releases) - min(releases) + on_first
    assert lower_bound(problem).value <= serial * (1 + 1e-9)
