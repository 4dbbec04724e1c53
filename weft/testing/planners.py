"""What holds for planners: ``check_planner`` asks for what any planner owes, the rest for what weft's own keep."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from weft import catalog
from weft.errors import UnsupportedError
from weft.model.bounds import lower_bound
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import Ints, TaskGraph
from weft.model.problem import Job, Problem
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.schedulers.base import Limit, Planner
from weft.testing.problems import drawn_problem

EFFORT = 4
"""Evaluations for planners that search."""
COLUMNS = ("task", "device", "start", "finish", "copy", "attempt", "batch", "outcome")
_PAIR = Cluster.uniform((DeviceClass("cpu"),), (2,), bandwidth=1.0)
_BRANCHES = TaskGraph([1.0] * 3, [0, 0], [1, 2], probability=[0.5, 0.5], branch=[0, 0])
REFUSED = {
    "conditional": Problem(_BRANCHES, _PAIR),
    "elastic": Problem(TaskGraph([1.0], curves=[[1.0, 2.0]], curve=[0]), _PAIR),
    "periodic": Problem(Job(TaskGraph([1.0]), period=3.0), _PAIR),
    "one-port": Problem(TaskGraph([1.0]), _PAIR.replaced(one_port=True)),
}
"""Problems that weft's planners refuse, by a word that the reason must hold."""


def check_planner(planner: Any, *, problems: int = 100) -> None:
    """Hold a planner (an object, a class or a name) against what every planner owes.

    It has a name, gives valid schedules that are not below any bound, the same ones for the same seed, leaves
    problems as they are, and says in words what it cannot plan.

    Parameters
    ----------
    problems
        How many drawn problems it is tried on.
    """
    chosen = catalog.planner(planner)
    num_planned = 0
    for number in range(problems):
        problem = drawn_problem(number)
        with told(f"problem {number} of weft.testing.problems.drawn_problem"):
            if chosen.supports(problem) is None:
                num_planned += 1
                check_valid(chosen, problem, number % 3)
                check_repeats(chosen, problem, number % 3)
    ensure(num_planned > 0, f"{chosen.name} supports none of {problems} drawn problems")
    for cause, problem in REFUSED.items():
        with told(f"a problem that is {cause}"):
            check_answers(chosen, problem)


def planned(planner: Planner, problem: Problem, seed: int = 0) -> Schedule:
    """A plan with little effort."""
    return planner.plan(problem, seed=seed, limit=Limit(effort=EFFORT))


def columns(schedule: Schedule) -> list[bytes]:
    """Every column of a schedule, as bytes."""
    return [getattr(schedule, name).tobytes() for name in COLUMNS]


def check_valid(planner: Planner, problem: Problem, seed: int = 0) -> None:
    """The schedule breaks no rule and is not shorter than any bound."""
    schedule = planned(planner, problem, seed)
    faults = validate(schedule)
    ensure(not faults, f"{planner.name} breaks a rule: {faults[0] if faults else ''}")
    bound = lower_bound(problem)
    is_above = schedule.makespan >= bound.value * (1 - 1e-9) and schedule.slr >= 1 - 1e-9
    ensure(
        is_above, f"{planner.name} takes {schedule.makespan}, below the bound {bound.value} by {bound.method}"
    )


def check_repeats(planner: Planner, problem: Problem, seed: int = 0) -> None:
    """The same seed gives the same schedule."""
    first, second = planned(planner, problem, seed), planned(planner, problem, seed)
    ensure(columns(first) == columns(second), f"{planner.name} makes two schedules of one problem and seed")


def check_answers(planner: Planner, problem: Problem) -> None:
    """A problem out of the ordinary is refused with a reason, or planned as it should be."""
    reason = planner.supports(problem)
    if reason is None:
        check_valid(planner, problem)
    else:
        ensure(bool(reason.strip()), f"{planner.name} refuses a problem and does not say why")


# -- what weft's own keep besides ------------------------------------------------------------------


def check_sum_on_one_device(planner: Planner, problem: Problem) -> None:
    """On one device of one slot the makespan is the sum of all run times."""
    found, expected = planned(planner, problem).makespan, float(problem.run_times.sum())
    ensure(
        math.isclose(found, expected, rel_tol=1e-9), f"{planner.name} takes {found}, the sum is {expected}"
    )


def check_doubled_times(planner: Planner, problem: Problem) -> None:
    """Doubling every time doubles the makespan."""
    found, once = planned(planner, doubled(problem)).makespan, planned(planner, problem).makespan
    ensure(found == 2.0 * once, f"{planner.name} takes {found} with doubled times, {once} before")


def check_other_names(planner: Planner, problem: Problem, seed: int = 0) -> None:
    """Names of tasks change nothing."""
    jobs = [
        replace(job, graph=job.graph.with_names([f"z{-i}" for i in range(job.graph.num_tasks)]))
        for job in problem.jobs
    ]
    other = planned(planner, problem.replaced(jobs=jobs), seed)
    ensure(columns(other) == columns(planned(planner, problem, seed)), f"{planner.name} looks at names")


def check_order_of_tasks(planner: Planner, problem: Problem, seed: int) -> None:
    """Where all times differ, the makespan does not depend on how tasks are numbered."""
    place = np.random.default_rng(seed).permutation(problem.num_tasks)
    other = problem.replaced(jobs=[replace(problem.jobs[0], graph=renumbered(problem.graph, place))])
    found, once = planned(planner, other).makespan, planned(planner, problem).makespan
    ensure(math.isclose(found, once, rel_tol=1e-9), f"{planner.name} takes {once}, renumbered {found}")


def check_neutral_fields(planner: Planner, problem: Problem) -> None:
    """Needs and fields that bind nothing change nothing."""
    classes = tuple(replace(c, memory=64.0, capacity={"disk": 1.0}) for c in problem.cluster.classes)
    graph = problem.graph.replaced(
        memory=0.0, resources=("disk",), demands=np.zeros((problem.num_tasks, 1)), slots=1
    )
    job = Job(graph, eligible=tuple(c.name for c in classes), deadline=1e9, weight=2.0, owner="ada")
    other = problem.replaced(jobs=[job], cluster=problem.cluster.replaced(classes=classes))
    same = columns(planned(planner, other)) == columns(planned(planner, problem))
    ensure(same, f"{planner.name} looks at a field that binds nothing")


def check_refuses(planner: Planner, cause: str) -> None:
    """A problem of ``REFUSED`` is refused with a reason that names the cause."""
    reason = planner.supports(REFUSED[cause])
    ensure(
        reason is not None and cause in reason, f"{planner.name} says {reason!r} of a problem that is {cause}"
    )


def doubled(problem: Problem) -> Problem:
    """The problem with every time twice as long."""
    cluster = problem.cluster.scaled_links(2.0)
    classes = tuple(
        replace(c, times={k: 2.0 * t for k, t in c.times.items()}, overhead=2.0 * c.overhead)
        for c in cluster.classes
    )
    jobs = []
    for job in problem.jobs:
        graph = job.graph.replaced(work=2.0 * job.graph.work, times=2.0 * job.graph.times)
        jobs.append(replace(job, graph=graph, release=2.0 * job.release))
    return problem.replaced(jobs=jobs, cluster=cluster.replaced(classes=classes))


def renumbered(graph: TaskGraph, place: Ints) -> TaskGraph:
    """The same graph with task i at index ``place[i]``."""
    order = np.argsort(place)
    return graph.replaced(
        work=graph.work[order],
        kind=graph.kind[order],
        names=tuple(graph.names[i] for i in order),
        sources=place[graph.sources],
        targets=place[graph.targets],
    )


def ensure(holds: bool, text: str) -> None:
    """Raise an AssertionError unless it holds, also where Python leaves asserts out."""
    if not holds:
        raise AssertionError(text)


@contextmanager
def told(where: str) -> Iterator[None]:
    """Say where an error of a check came up."""
    try:
        yield
    except UnsupportedError as error:
        raise AssertionError(f"{where}: it said that it supports this: {error}") from error
    except Exception as error:
        raise AssertionError(f"{where}: {error}") from error
