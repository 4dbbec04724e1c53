"""Pipelines: figures of deadlines, laws of noise, the fluid bound, and rules of the validator about instances."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weft.errors import InputError
from weft.io.problems import problem_document, problem_from_document
from weft.model.cluster import Cluster, DeviceClass
from weft.model.fluid import fluid_load, fluid_misses, simplex
from weft.model.graph import TaskGraph
from weft.model.noise import FOLDED, LAWS, factors, log_mean
from weft.model.problem import Job, Problem
from weft.model.schedule import ABORTED, DONE, EXPIRED, SKIPPED, Schedule
from weft.model.validate import validate

ONE = Cluster.uniform([DeviceClass("cpu")], [1])


def pipeline(num: int, work: float = 4.0, period: float = 10.0, **fields: object) -> Problem:
    """Instances of one stage on one device."""
    graph = TaskGraph([work], name="lane", time_unit="ms")
    base = Job(graph, "lane", deadline=period, period=period, **fields)
    return Problem(base, ONE).unrolled(num * period)


def run(problem: Problem, starts: list[float], outcome: list[int] | None = None, **more: object) -> Schedule:
    """One row per instance."""
    ends = np.array(starts) + problem.run_times[:, 0]
    device = np.where(np.isin(outcome, (SKIPPED, EXPIRED)), -1, 0) if outcome else np.zeros(len(starts))
    ends = np.where(device < 0, starts, ends)
    kept = {"outcome": outcome or [DONE] * len(starts)} | more
    return Schedule(problem, np.arange(len(starts)), device, np.array(starts), ends, **kept)


def test_unrolled_instances_know_their_series():
    jobs = pipeline(3).jobs
    assert [(one.series, one.interval, one.release) for one in jobs] == [
        ("lane", 10.0, 10.0 * k) for k in range(3)
    ]


def test_late_and_missing_instances_are_missed():
    found = run(pipeline(4), [0.0, 10.0, 27.0, 31.0])
    assert found.series.misses == {"lane": 0.25} and found.miss_macro == found.miss_worst == 0.25
    assert found.series.lateness == pytest.approx(0.1)
    assert found.series.response(50) == pytest.approx(0.45)


def test_deadlines_beyond_the_horizon_do_not_count():
    problem = pipeline(4).replaced(horizon=30.0)
    assert run(problem, [0.0, 10.0, 20.0, 99.0]).miss_macro == 0.0


def test_firm_violations_count_windows():
    late = run(pipeline(12), [10.0 * k + (7.0 if k in (2, 3, 4) else 0.0) for k in range(12)])
    assert late.series.firm_violations == 3


def test_age_grows_with_a_missed_instance():
    on_time, late = run(pipeline(3), [0.0, 10.0, 20.0]), run(pipeline(3), [0.0, 10.0, 28.0])
    assert on_time.series.age == pytest.approx(1.4) and late.series.age > on_time.series.age


@pytest.mark.parametrize("law", LAWS)
def test_noise_has_the_mean_that_its_law_says(law: str):
    first, second = np.random.default_rng(0).random((2, 200_000))
    drawn = factors(law, 0.2, first, second)
    mean = 1.0 + 0.2 * np.sqrt(2 / np.pi) - 0.1 if law == FOLDED else 1.0
    assert drawn.mean() == pytest.approx(mean, abs=2e-3) and (drawn > 0).all()
    assert -np.log(drawn).mean() == pytest.approx(log_mean(law, 0.2), abs=2e-3)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"noise_law": "cauchy"}, "noise_law: expected one of lognormal, uniform"),
        ({"noise": 0.6, "noise_law": "truncated"}, "noise: expected less than 0.5 with the law truncated"),
        ({"horizon": -1.0}, "horizon: expected a finite number >= 0"),
    ],
)
def test_problem_refuses_wrong_values(fields: dict[str, object], text: str):
    with pytest.raises(InputError, match=text):
        Problem(TaskGraph([1.0]), ONE, **fields)


def test_job_refuses_an_unknown_overrun():
    with pytest.raises(InputError, match="job lane: overrun: expected one of queue, skip, abort, got 'wait'"):
        Job(TaskGraph([1.0]), "lane", overrun="wait")


def test_documents_keep_all_fields():
    problem = pipeline(2, overrun="skip", in_order=True).replaced(noise=0.1, noise_law="folded", horizon=15.0)
    again = problem_from_document(problem_document(problem))
    assert (again.noise_law, again.horizon) == ("folded", 15.0)
    keys = ("series", "interval", "overrun", "in_order", "deadline")
    assert [[getattr(j, k) for k in keys] for j in again.jobs] == [
        [getattr(j, k) for k in keys] for j in problem.jobs
    ]


def test_simplex_solves_a_known_programme():
    value, x = simplex(
        np.array([3.0, 5.0]), np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 2.0]]), np.array([4.0, 12.0, 18.0])
    )
    assert value == pytest.approx(36.0) and x == pytest.approx([2.0, 6.0])


def test_fluid_load_agrees_with_scipy():
    optimize = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(1)
    for _ in range(5):
        times = rng.uniform(1, 10, (3, 2))
        graphs = [
            TaskGraph([np.nan], classes=("a", "b"), times=[row], name=f"g{k}") for k, row in enumerate(times)
        ]
        jobs = [Job(g, g.name, period=10.0 + k, deadline=10.0) for k, g in enumerate(graphs)]
        cluster = Cluster.uniform([DeviceClass("a"), DeviceClass("b")], [1, 2])
        problem = Problem(jobs, cluster).unrolled(40.0)
        use = times / np.array([[10.0], [11.0], [12.0]])
        upper = np.zeros((2, 7))
        for c in range(2):
            upper[c, c:6:2], upper[c, 6] = use[:, c], -(1.0, 2.0)[c]
        equal = np.zeros((3, 7))
        for k in range(3):
            equal[k, 2 * k : 2 * k + 2] = 1.0
        best = optimize.linprog(np.eye(7)[6], upper, np.zeros(2), equal, np.ones(3))
        assert fluid_load(problem) == pytest.approx(best.fun, rel=1e-7)


def test_fluid_misses_bounds_an_overload():
    assert fluid_misses(pipeline(4, work=20.0)) == pytest.approx(0.5)
    assert fluid_misses(pipeline(4)) == 0.0


def rules_of(schedule: Schedule) -> set[str]:
    return {one.rule for one in validate(schedule)}


def test_validator_knows_skipped_instances():
    problem = pipeline(3, work=14.0, overrun="skip")
    assert rules_of(run(problem, [0.0, 10.0, 20.0], [DONE, SKIPPED, DONE])) == set()
    late = replace(run(problem, [0.0, 10.0, 20.0], [DONE, SKIPPED, DONE]), realisation=None)
    assert rules_of(late) == set()
    assert "overrun" in rules_of(run(problem, [0.0, 14.0, 28.0]))
    short = pipeline(2, work=4.0, overrun="skip")
    assert "overrun" in rules_of(run(short, [0.0, 10.0], [DONE, SKIPPED]))
    queued = pipeline(2, work=14.0)
    assert "missing" in rules_of(run(queued, [0.0, 10.0], [DONE, SKIPPED]))


def test_validator_knows_aborted_instances():
    problem = pipeline(2, work=14.0, overrun="abort")
    cut = Schedule(problem, [0, 1, 0, 1], [0, 0, -1, -1], [0, 10, 10, 20], [10, 20, 10, 20],
                   outcome=[ABORTED, ABORTED, EXPIRED, EXPIRED])  # fmt: skip
    assert rules_of(cut) == set()
    assert "overrun" in rules_of(run(problem, [0.0, 14.0]))


def test_validator_knows_the_order_of_instances():
    two = Cluster.uniform([DeviceClass("cpu")], [2])
    problem = pipeline(2, work=14.0, in_order=True).replaced(cluster=two)
    assert rules_of(run(problem, [0.0, 14.0])) == set()
    beside = Schedule(problem, [0, 1], [0, 1], [0.0, 10.0], [14.0, 24.0])
    assert rules_of(beside) == {"order"}
