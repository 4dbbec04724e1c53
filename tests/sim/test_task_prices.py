"""Prices of classes from the jobs that have arrived."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import Floats, TaskGraph
from weft.model.prices import class_prices, priced_work
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


def with_slots(problem: Problem) -> Problem:
    """Devices of the first class have eight slots, and tasks hold one or two."""
    first, *others = problem.cluster.classes
    cluster = problem.cluster.replaced(
        classes=(replace(first, slots=8), *(replace(c, slots=2) for c in others))
    )
    jobs = [
        replace(job, graph=job.graph.replaced(slots=1 + np.arange(job.graph.num_tasks) % 2))
        for job in problem.jobs
    ]
    return problem.replaced(cluster=cluster, jobs=tuple(jobs))


@pytest.mark.parametrize("has_slots", [False, True])
def test_a_session_has_the_prices_of_the_kernel(has_slots: bool):
    problem = scenario("workflows", load=0.8, jobs=10, tasks=20).dispatched("validation", 0, 2)
    problem = with_slots(problem) if has_slots else problem
    prices, work = priced(problem)
    live, live_prices, live_work = (
        LivePrices(problem.slot_counts),
        np.ones_like(prices),
        np.zeros_like(work),
    )
    for j in range(len(problem.jobs)):
        tasks = slice(problem.offsets[j], problem.offsets[j + 1])
        slots = problem.task_slots[tasks]
        live.arrive(np.array(problem.run_times[tasks]), slots, live_prices, j, live_work[tasks])
    assert live_prices.tobytes() == prices.tobytes()
    assert live_work.tobytes() == work.tobytes()


def test_slots_are_priced_as_devices_of_one_slot_are():
    """Four tasks run faster on the second class: two devices of it, or one with two slots."""
    jobs = [Job(TaskGraph([4.0, 2.0, 1.0, 1.0], classes=("a", "b"), times=[[4.0, 1.0], [2.0, 3.0]] * 2))] * 5
    classes = (DeviceClass("a"), DeviceClass("b"))
    wide = (DeviceClass("a", slots=6), DeviceClass("b", slots=2))
    many, few = (Problem(jobs, Cluster.uniform(*what)) for what in ((classes, (6, 2)), (wide, (1, 1))))
    assert class_prices(many).tobytes() == class_prices(few).tobytes()
    assert priced_work(many, class_prices(many)).tobytes() == priced_work(few, class_prices(few)).tobytes()
    for one, other in zip(priced(many), priced(few), strict=True):
        assert one.tobytes() == other.tobytes()


def test_work_is_counted_in_slot_time():
    cluster = Cluster.uniform((DeviceClass("wide", slots=4),), (1,))
    problem = Problem(TaskGraph([2.0, 2.0], slots=[1, 3]), cluster)
    assert priced(problem)[1] == pytest.approx([2.0, 6.0])
    assert priced_work(problem, class_prices(problem)).tolist() == [2.0, 6.0]


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
