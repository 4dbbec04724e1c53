"""Problems: run times, feasibility, ratios, and the draws of a realisation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import make_cluster, make_graph, problems

from weft.errors import InfeasibleError, InputError, WeftError
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import METRICS, Job, Objective, Problem, expected, realise
from weft.model.schedule import Schedule
from weft.model.units import SECONDS

CPU = DeviceClass("cpu")
GPU = DeviceClass("gpu", 4.0)
MIXED = Cluster.uniform((CPU, GPU), (1, 2), bandwidth=1.0)


def coin(probability: float) -> TaskGraph:
    """A task followed by one of two others."""
    return TaskGraph(
        [1.0] * 3, [0, 0], [1, 2], probability=[probability, 1 - probability], branch=[0, 0], name="coin"
    )


def test_run_times_prefer_graph_then_kind_then_speed():
    fast = DeviceClass("gpu", 4.0, times={"bert": 7.0}, speeds={"cnn": 8.0})
    graph = TaskGraph(
        [8.0, 8.0, 8.0, 8.0],
        kinds=("mlp", "cnn", "bert"),
        kind=[0, 1, 2, 2],
        classes=("gpu",),
        times=[[np.nan], [np.nan], [np.nan], [0.5]],
    )
    problem = Problem(graph, Cluster.uniform((CPU, fast), (1, 1)))
    assert problem.run_times.tolist() == [[8.0, 2.0], [8.0, 1.0], [8.0, 7.0], [8.0, 0.5]]


def test_run_times_without_work_hold_only_where_given():
    graph = TaskGraph([np.nan], classes=("gpu",), times=[[3.0]])
    assert Problem(graph, MIXED).run_times.tolist() == [[np.inf, 3.0]]


def test_run_times_are_infinite_where_a_task_does_not_fit():
    small = DeviceClass("small", memory=10.0)
    graph = TaskGraph([1.0, 1.0], memory=[10.0, 11.0])
    problem = Problem(graph, Cluster.uniform((CPU, small), (1, 1)))
    assert problem.run_times.tolist() == [[1.0, 1.0], [1.0, np.inf]]


def test_mean_and_best_run_times_count_devices_not_classes():
    problem = Problem(TaskGraph([8.0]), MIXED)
    assert problem.mean_run_times.tolist() == [4.0]
    assert problem.best_run_times.tolist() == [2.0]


def test_best_run_times_of_elastic_tasks_are_at_the_best_rate():
    graph = TaskGraph([8.0, 8.0], curves=[[1.0, 1.6]], curve=[-1, 0])
    assert Problem(graph, Cluster.uniform((CPU,), (1,))).best_run_times.tolist() == [8.0, 5.0]


def test_problem_numbers_tasks_through_all_jobs():
    first, second = TaskGraph([1.0]), TaskGraph([1.0, 2.0], names=("a", "b"))
    problem = Problem([Job(first, "x"), Job(second, "y")], MIXED)
    assert (problem.offsets.tolist(), problem.job_of.tolist()) == ([0, 1, 3], [0, 1, 1])
    assert problem.task_name(2) == "y/b"
    assert Problem(second, MIXED).task_name(1) == "b"


def test_problem_with_several_jobs_has_no_single_graph():
    graph = TaskGraph([1.0])
    with pytest.raises(InputError, match="expected a problem with one job, got 2"):
        _ = Problem([Job(graph), Job(graph)], MIXED).graph


def test_problem_tells_jobs_of_one_name_apart():
    jobs = [Job(TaskGraph([1.0]), name) for name in ("a", "a", "a-2", "b", "a")]
    problem = Problem(jobs, MIXED)
    assert [job.name for job in problem.jobs] == ["a", "a-3", "a-2", "b", "a-4"]
    assert problem.replaced(noise=0.1).jobs == problem.jobs


@pytest.mark.parametrize("metric", METRICS)
def test_objective_metrics_are_properties_of_a_schedule(metric: str):
    assert hasattr(Schedule, metric) and Objective(metric).metric == metric


@pytest.mark.parametrize("unit", SECONDS)
def test_problem_counts_links_in_the_unit_of_its_graphs(unit: str):
    cluster = Cluster.uniform((CPU,), (2,), bandwidth=8.0, latency=0.5)
    problem = Problem(TaskGraph([1.0, 1.0], [0], [1], 4.0, time_unit=unit), cluster)
    one = SECONDS[unit]
    assert problem.transfer_time(0, 1, 4.0) == pytest.approx(1.0 / one, rel=1e-15)
    latency, bandwidth = problem.links
    assert (latency.tolist(), bandwidth.tolist()) == ([[0.5 / one]], [[8.0 * one]])
    assert problem.mean_link == pytest.approx((0.5 / one, 0.125 / one), rel=1e-15)


@pytest.mark.parametrize("unit", SECONDS)
def test_ccr_does_not_depend_on_the_unit(unit: str):
    cluster = Cluster.uniform((CPU,), (2,), bandwidth=8.0, latency=0.5)
    work = np.array([2.0, 4.0]) / SECONDS[unit]
    problem = Problem(TaskGraph(work, [0], [1], 4.0, time_unit=unit), cluster)
    assert problem.ccr == pytest.approx(1.0 / 3.0)
    assert problem.with_ccr(2.0).ccr == pytest.approx(2.0)


def test_problem_eligible_takes_devices_and_classes():
    graph = TaskGraph([1.0])
    jobs = [Job(graph, eligible=("gpu-1", "cpu")), Job(graph)]
    assert Problem(jobs, MIXED).eligible.tolist() == [[True, False, True], [True, True, True]]
    assert Problem(graph, MIXED).eligible.shape == (0, 0)


ONE = TaskGraph([1.0], names=("a",))
REFUSED: list[tuple[Callable[[], object], type[WeftError], str]] = [
    (lambda: Problem([], MIXED), InputError, "jobs: expected at least one job, got none"),
    (
        lambda: Problem(ONE, MIXED, noise=-1.0),
        InputError,
        "noise: expected a finite coefficient of variation >= 0, got -1.0",
    ),
    (
        lambda: Job(ONE, release=-1.0),
        InputError,
        "job job: release: expected a finite number >= 0, got -1.0",
    ),
    (lambda: Job(ONE, period=0.0), InputError, "job job: period: expected a finite number > 0, got 0.0"),
    (
        lambda: Job(ONE, deadline=float("nan")),
        InputError,
        "job job: deadline: expected a finite number >= 0, got nan",
    ),
    (
        lambda: Problem(Job(ONE, eligible=("tpu",)), MIXED),
        InputError,
        "job job: eligible: 'tpu' is neither a device nor a class of the cluster",
    ),
    (
        lambda: Problem(Job(ONE, eligible=()), MIXED),
        InfeasibleError,
        "eligible: job job may use no device",
    ),
    (
        lambda: Problem(ONE, Cluster.uniform((DeviceClass("tpu", None, times={"cnn": 1.0}),), (1,))),
        InputError,
        "class tpu: times: no run time for kind 'task' (task 'a'): give the class a speed, or list the kind "
        "in its times or speeds",
    ),
    (
        lambda: Problem(ONE.replaced(slots=3), MIXED),
        InfeasibleError,
        "tasks.a: task 'a' needs 3 slots, no device has more than 1",
    ),
    (
        lambda: Problem(ONE.replaced(memory=3.0), Cluster.uniform((DeviceClass("s", memory=2.0),), (1,))),
        InfeasibleError,
        "tasks.a: task 'a' needs 3 bytes of memory, no device has more than 2 bytes",
    ),
    (
        lambda: Problem(ONE.replaced(classes=("cpu", "gpu"), times=[[np.inf, np.inf]]), MIXED),
        InfeasibleError,
        "tasks.a: task 'a' (kind task) can run on no device of the cluster (cpu, gpu)",
    ),
    (
        lambda: Problem([Job(ONE), Job(ONE.replaced(time_unit="ms"), "late")], MIXED),
        InputError,
        "job late: time_unit: expected 's' as in job job, got 'ms'",
    ),
    (lambda: Objective("joy"), InputError, f"metric: expected one of {', '.join(METRICS)}, got 'joy'"),
    (lambda: Problem(ONE, MIXED).with_ccr(0.0), InputError, "ccr: expected a ratio > 0, got 0.0"),
    (
        lambda: Problem(TaskGraph([1.0] * 2, [0], [1], [1e-9]), MIXED).with_ccr(1e308),
        InputError,
        "ccr: expected a ratio that links can reach, got 1e+308",
    ),
    (
        lambda: Problem(ONE, MIXED).with_ccr(1.0),
        InputError,
        "ccr: the ratio cannot be set: it needs data on edges, finite bandwidth and at least two devices",
    ),
    (
        lambda: Problem(ONE, MIXED).unrolled(np.inf),
        InputError,
        "horizon: expected a finite number >= 0, got inf",
    ),
    (
        lambda: expected(Problem(coin(0.5), MIXED)),
        InputError,
        "job coin has conditional branches: they need a seed, see realise()",
    ),
]


@pytest.mark.parametrize("graph", [TaskGraph([1e308] * 3), TaskGraph([1.0] * 2, [0], [1], [1e305])])
def test_problem_refuses_times_whose_sum_no_number_can_hold(graph: TaskGraph):
    with pytest.raises(InputError, match=r"run times and transfers may add up to .*, expected less than 1e"):
        Problem(graph, Cluster.uniform((DeviceClass("cpu"),), (2,), bandwidth=1.0))


@pytest.mark.parametrize(("make", "error", "text"), REFUSED, ids=[text for *_, text in REFUSED])
def test_problem_refuses_bad_input_in_one_line(make: Callable[[], object], error: type[WeftError], text: str):
    with pytest.raises(error) as caught:
        make()
    assert str(caught.value) == text


def test_ccr_is_mean_transfer_over_mean_run_time():
    graph = TaskGraph([8.0, 8.0], [0], [1], [6.0])
    assert Problem(graph, MIXED).ccr == pytest.approx(6.0 / 4.0)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(problems(), st.sampled_from((0.1, 1.0, 5.0)))
def test_with_ccr_reaches_the_ratio(problem: Problem, target: float):
    assume(problem.ccr > 0)
    assert problem.with_ccr(target).ccr == pytest.approx(target, rel=1e-9)


def test_unrolled_releases_before_the_horizon():
    job = Job(ONE, "tick", release=1.0, period=2.0, deadline=1.5)
    jobs = Problem(job, MIXED).unrolled(6.0).jobs
    assert [(j.name, j.release, j.period, j.deadline) for j in jobs] == [
        ("tick#0", 1.0, None, 1.5),
        ("tick#1", 3.0, None, 1.5),
        ("tick#2", 5.0, None, 1.5),
    ]


def test_unrolled_never_releases_at_the_horizon():
    jobs = Problem(Job(ONE, period=0.1), MIXED).unrolled(1.1).jobs
    assert len(jobs) == 11


def test_unrolled_keeps_single_jobs():
    problem = Problem([Job(ONE, "once"), Job(ONE, "tick", period=1.0)], MIXED).unrolled(2.0)
    assert [job.name for job in problem.jobs] == ["once", "tick#0", "tick#1"]


def test_realise_pairs_draws_across_problems():
    """A job keeps its draws when another joins it."""
    graph = make_graph(0, 30, "random", "uniform", "none")
    alone = realise(Problem(Job(graph), MIXED, noise=0.5), 3)
    joined = realise(Problem([Job(graph), Job(graph)], MIXED, noise=0.5), 3)
    assert joined.run_times[:30].tolist() == alone.run_times.tolist()
    assert joined.run_times[30:].tolist() != alone.run_times.tolist()


def test_realise_repeats_with_the_seed_and_changes_without():
    problem = Problem(make_graph(0, 5, "chain", "uniform", "none"), MIXED, noise=0.3)
    assert realise(problem, 1).run_times.tolist() == realise(problem, 1).run_times.tolist()
    assert realise(problem, 1).run_times.tolist() != realise(problem, 2).run_times.tolist()


def test_realise_without_noise_is_as_expected():
    problem = Problem(make_graph(0, 5, "chain", "uniform", "none"), MIXED)
    assert realise(problem, 1).run_times.tolist() == expected(problem).run_times.tolist()
    assert realise(problem, 1).is_full


@pytest.mark.parametrize("noise", [0.1, 0.5])
def test_realise_noise_has_mean_one_and_the_given_variation(noise: float):
    problem = Problem(TaskGraph(np.ones(40_000)), Cluster.uniform((CPU,), (1,)), noise=noise)
    factors = realise(problem, 11).run_times[:, 0]
    assert factors.mean() == pytest.approx(1.0, abs=4 * noise / 200)
    assert factors.std() == pytest.approx(noise, rel=0.05)


def test_realise_takes_branches_as_often_as_their_probability():
    problem = Problem(coin(0.3), MIXED)
    taken = sum(bool(realise(problem, seed).taken[0][0]) for seed in range(2000))
    assert taken / 2000 == pytest.approx(0.3, abs=4 * (0.21 / 2000) ** 0.5)


def test_realise_takes_exactly_one_branch_and_runs_its_task():
    for seed in range(50):
        happened = realise(Problem(coin(0.5), MIXED), seed)
        assert happened.taken[0].sum() == 1
        assert happened.runs.tolist() == [True, *happened.taken[0].tolist()]


def test_realise_never_takes_a_branch_of_probability_zero():
    assert not any(realise(Problem(coin(0.0), MIXED), seed).taken[0][0] for seed in range(200))


def test_realise_joins_run_if_any_branch_reaches_them():
    graph = TaskGraph(
        [1.0] * 4, [0, 0, 1, 2], [1, 2, 3, 3], probability=[0.5, 0.5, 1, 1], branch=[0, 0, -1, -1]
    )
    assert all(realise(Problem(graph, MIXED), seed).runs[3] for seed in range(20))


def wrong(**spreads: float) -> Problem:
    """Five jobs of two kinds on two classes, with run times that are not as stated."""
    graph = TaskGraph([1.0, 2.0, 3.0], [0], [1], kind=[0, 1, 0], kinds=("x", "y"))
    return Problem([Job(graph, f"j{k}", release=float(k)) for k in range(5)], MIXED, **spreads)


def factors(problem: Problem, seed: int) -> np.ndarray:
    """(num_jobs, 3, num_classes) run times that happen over those stated."""
    return (realise(problem, seed).run_times / problem.run_times).reshape(5, 3, -1)


def test_bias_is_one_factor_per_kind_and_class():
    found = factors(wrong(bias=0.5), 1)
    np.testing.assert_allclose(found, np.broadcast_to(found[0], found.shape))
    np.testing.assert_allclose(found[:, 0], found[:, 2])
    assert abs(np.log(found[0, 0] / found[0, 1])).min() > 0.01
    logs = np.concatenate([np.log(factors(wrong(bias=0.5), seed)[0, :2]).ravel() for seed in range(500)])
    assert logs.std() == pytest.approx(0.5, rel=0.1)
    assert np.exp(logs).mean() == pytest.approx(1.0, rel=0.1)


def test_drift_walks_from_job_to_job():
    found = factors(wrong(drift=0.4), 1)
    np.testing.assert_array_equal(found[0], np.ones_like(found[0]))
    np.testing.assert_allclose(found[:, 0], found[:, 2])
    logs = np.array([np.log(factors(wrong(drift=0.4), seed)[:, 0, 0]) for seed in range(800)])
    assert logs[:, 4].std() == pytest.approx(0.4, rel=0.1)
    assert logs[:, 1].std() == pytest.approx(0.2, rel=0.1)


def test_spreads_leave_other_draws_alone():
    noisy, both = wrong(noise=0.3), wrong(noise=0.3, bias=0.5)
    np.testing.assert_allclose(factors(noisy, 3) * factors(wrong(bias=0.5), 3), factors(both, 3))


@pytest.mark.parametrize("spread", ["bias", "drift"])
def test_spread_beyond_reason_is_refused(spread: str):
    with pytest.raises(InputError, match=f"{spread}: expected a number from 0 to 5, got -1"):
        wrong(**{spread: -1})


def test_strategies_make_feasible_problems_of_every_link_kind():
    for links in ("free", "uniform", "nodes", "matrix"):
        cluster = make_cluster(1, 5, 3, links, is_plain=False)
        assert Problem(make_graph(1, 6, "diamond", "wide", "huge"), cluster).num_tasks == 6
