"""Prices of classes from the jobs that have arrived."""

from __future__ import annotations

import numpy as np
import pytest

from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import Floats, TaskGraph
from weft.model.prices import class_prices
from weft.model.problem import Job, Problem
from weft.scenarios import scenario
from weft.sim.tasks.prices import LivePrices, market_of, new_worth, price_all

FAST = Cluster.uniform((DeviceClass("slow"), DeviceClass("fast", 3.0)), (1, 1))


def priced(problem: Problem) -> tuple[Floats, Floats]:
    """Prices after every arrival, in the order of the jobs, and the work of all tasks."""
    market = market_of(problem)
    prices, work = np.ones((len(problem.jobs), problem.cluster.num_classes)), np.zeros(problem.num_tasks)
    price_all(market, new_worth(market), np.arange(len(problem.jobs)), prices, work)
    return prices, work


@pytest.mark.parametrize("seed", range(3))
def test_prices_come_near_to_those_of_all_jobs(seed: int):
    problem = scenario("workflows", load=0.8, jobs=60, tasks=20).dispatched("validation", 0, seed)
    prices, _ = priced(problem)
    assert prices[-1] == pytest.approx(class_prices(problem), rel=0.1)
    assert prices @ problem.device_counts == pytest.approx(problem.cluster.num_devices)


def test_later_jobs_change_no_price_and_no_work():
    problem = scenario("workflows", load=0.8, jobs=20, tasks=20).dispatched("validation", 0, 1)
    fewer = problem.replaced(jobs=problem.jobs[:8])
    (prices, work), (few_prices, few_work) = priced(problem), priced(fewer)
    assert prices[:8].tobytes() == few_prices.tobytes()
    assert work[: fewer.num_tasks].tobytes() == few_work.tobytes()


def test_a_session_has_the_prices_of_the_kernel():
    problem = scenario("workflows", load=0.8, jobs=10, tasks=20).dispatched("validation", 0, 2)
    prices, work = priced(problem)
    live, live_prices, live_work = (
        LivePrices(problem.device_counts),
        np.ones_like(prices),
        np.zeros_like(work),
    )
    for j in range(len(problem.jobs)):
        tasks = slice(problem.offsets[j], problem.offsets[j + 1])
        live.arrive(np.array(problem.run_times[tasks]), live_prices, j, live_work[tasks])
    assert live_prices.tobytes() == prices.tobytes()
    assert live_work.tobytes() == work.tobytes()


def test_faster_class_gets_dearer_by_its_speed():
    prices, work = priced(Problem([Job(TaskGraph([1.0] * 8)) for _ in range(30)], FAST))
    slow, fast = prices[-1]
    assert prices[0, 1] < fast
    assert fast / slow == pytest.approx(3.0, rel=0.1)
    assert work[-1] == pytest.approx(min(slow, fast / 3.0))


def test_prices_forget_what_came_long_ago():
    """First everything runs faster on the second class, then nothing does."""
    early = TaskGraph([np.nan], classes=("slow", "fast"), times=[[9.0, 1.0]])
    late = TaskGraph([np.nan], classes=("slow", "fast"), times=[[1.0, 9.0]])
    jobs = [Job(graph) for graph in [early] * 40 + [late] * 120]
    prices, _ = priced(Problem(jobs, FAST))
    assert prices[39, 1] > 1.5
    assert prices[-1, 1] < 0.5


def test_tasks_without_run_time_and_absent_classes_cost_nothing():
    classes = (DeviceClass("a"), DeviceClass("b"))
    cluster = Cluster.uniform(classes, (2, 1)).replaced(device_class=np.array([0, 0, 0]))
    prices, work = priced(Problem(TaskGraph([0.0, 4.0]), cluster))
    assert prices.tolist() == [[1.0, 1.0]]
    assert work.tolist() == [0.0, 4.0]
