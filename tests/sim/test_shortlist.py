"""A rule below a level that hands it the most urgent tasks, and a weight that counts with overruns."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from weft import catalog
from weft.errors import InputError, UnsupportedError
from weft.execute.virtual_runs import drive_tasks
from weft.model import Cluster, DeviceClass, Job, Problem, Schedule, TaskGraph, realise
from weft.model.validate import validate
from weft.scenarios import scenario
from weft.schedulers.dispatchers.tasks import SHORTLIST, by_urgency, priced, run_one
from weft.session import Session
from weft.sim.tasks.layout import compile_tasks, facts_of, new_task_state
from weft.sim.tasks.rules import play_until, write_ready
from weft.sim.tasks.weights import NAMES


def wide(num_tasks: int = 400, noise: float = 0.2) -> Problem:
    """A workflow with many ready tasks on few devices."""
    return scenario("workflows", tasks=num_tasks, devices=4, noise=noise, family="layered").problem("test", 0)


def same(one: Schedule, other: Schedule) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("task", "device", "start")
    )


def test_shortlist_is_the_ready_tasks_of_the_smallest_keys():
    problem = wide()
    w = compile_tasks([problem])
    f, s = facts_of([realise(problem, 0)], w), new_task_state(w)
    rule = replace(priced, key=by_urgency, window=3).prepare([problem], s, [0])
    play_until(rule, w, f, s, 0, 40.0)
    count = int(s.num_ready[0])
    assert count > 12
    found = np.zeros(count, np.int64)
    assert write_ready(rule, w, s, 0, found, np.zeros(count)) == 12  # three for each of four slots
    ready = s.ready[:count]
    expected = ready[np.lexsort((ready, s.key[ready]))][:12]
    assert sorted(found[:12].tolist()) == sorted(expected.tolist())


def test_shortlist_of_all_changes_nothing():
    problem = wide(60)
    world = realise(problem, 1)
    flat = run_one(priced, problem, world)
    assert same(run_one(replace(priced, window=1000), problem, world), flat)


@pytest.mark.parametrize("name", ["es+shortlist", "priced+shortlist", "srw+shortlist"])
def test_rule_with_a_shortlist_has_a_name_and_gives_valid_schedules(name: str):
    problem = wide()
    world = realise(problem, 2)
    found = catalog.task_dispatcher(name)
    assert (found.name, found.window) == (name, SHORTLIST)
    short = run_one(replace(found, window=1), problem, world)
    assert validate(short) == ()
    assert not same(short, run_one(catalog.task_dispatcher(name.removesuffix("+shortlist")), problem, world))


def test_session_has_the_same_shortlist():
    problem = scenario("workflows", load=3.0, jobs=6, tasks=60, devices=2, noise=0.3).dispatched("test", 0, 0)
    world = realise(problem, 3)
    dispatcher = catalog.task_dispatcher("es+shortlist")
    assert dispatcher.window == SHORTLIST
    told = Session(problem.cluster, "es+shortlist", time_unit=problem.time_unit)
    driven = drive_tasks(told, problem, world, tells_graphs=True)
    expected = run_one(dispatcher, problem, world)
    rows = [sorted(zip(one.task, one.device, one.start, strict=True)) for one in (driven, expected)]
    assert rows[0] == rows[1]


def test_rule_without_weights_has_no_shortlist():
    with pytest.raises(UnsupportedError, match="fifo has no weights that could choose from a shortlist"):
        catalog.task_dispatcher("fifo+shortlist")


@pytest.mark.parametrize("name", ["lachesis", "decima-deft", "deft", "dask-like"])
def test_dispatcher_that_decides_by_itself_has_no_shortlist(name: str):
    with pytest.raises(UnsupportedError, match=f"{name} decides by itself what it looks at, so a shortlist"):
        catalog.task_dispatcher(f"{name}+shortlist")


def test_planner_has_no_shortlist():
    with pytest.raises(InputError, match="shortlist"):
        catalog.task_dispatcher("plan:heft+shortlist")


# -- overruns --------------------------------------------------------------------------------------


def overrun(weight: float, noise: float = 0.6) -> Schedule:
    """A task takes far longer than expected on the fast device; another one arrives and may wait for it."""
    cluster = Cluster.uniform([DeviceClass("fast", 4.0), DeviceClass("slow")], [1, 1], bandwidth=1e9)
    jobs = [Job(TaskGraph([40.0]), "long"), Job(TaskGraph([20.0]), "late", 20.0)]
    problem = Problem(jobs, cluster, noise=noise)
    world = realise(problem, 0)
    run = np.array([[100.0, 400.0], [5.0, 20.0]])
    weights = tuple(weight if name == "overrun" else 1.0 if name == "work left" else 0.0 for name in NAMES)
    return run_one(replace(priced, weights=weights), problem, replace(world, run_times=run))


def conditional_mean(ran: float, mean: float, noise: float) -> float:
    """Mean of a log-normal run time beyond a time, by summing up its tail."""
    spread = math.sqrt(math.log1p(noise**2))
    x = np.exp(np.linspace(math.log(ran), math.log(ran) + 12 * spread, 400_001))
    density = np.exp(-((np.log(x / mean) + spread**2 / 2) ** 2) / (2 * spread**2)) / x
    return float(np.trapezoid(x * density, x) / np.trapezoid(density, x))


def test_weight_of_overruns_gives_up_on_a_device_that_is_late():
    waits, goes = overrun(0.0), overrun(1.0)
    assert waits.start.tolist() == [0.0, 100.0]  # it was expected at any moment
    # of 10 expected 20 have passed; by the tail it ends too late to wait for
    assert conditional_mean(20.0, 10.0, 0.6) + 5.0 < 20.0 + 20.0
    assert goes.start.tolist() == waits.start.tolist()


def test_weight_of_overruns_is_by_the_tail_of_the_noise():
    """The longer the task has run, the later its end is expected, until the slow device is better."""
    assert overrun(8.0).start.tolist() == [0.0, 20.0]
    late = conditional_mean(20.0, 10.0, 0.6) - 20.0
    least = 15.0 / late  # with this weight waiting and then 5 takes as long as 20 now
    assert overrun(0.98 * least).start.tolist() == [0.0, 100.0]
    assert overrun(1.02 * least).start.tolist() == [0.0, 20.0]


def test_weight_of_overruns_is_nothing_without_noise():
    assert same(overrun(8.0, noise=0.0), overrun(0.0, noise=0.0))
