"""Whether a dispatcher knows what is yet to come, in the task view.

What comes after a time T is changed, and starts before T are compared.

Known at T are the jobs that have arrived, the tasks that have ended with their run times and branches,
and the devices that are away. Everything else changes: later jobs (graphs, sizes, arrivals, number), run
times and branches of what has not ended, and later outages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from weft.execute.virtual_runs import drive_tasks
from weft.model.graph import ALWAYS, Bools, Floats, TaskGraph
from weft.model.problem import Job, Problem, Realisation, realise
from weft.model.schedule import DONE, Schedule
from weft.scenarios import scenario
from weft.schedulers.dispatchers.outages import Outage
from weft.schedulers.dispatchers.tasks import run_one
from weft.session import Session

JOBS, TASKS, NOISE = 12, 15, 0.3


@dataclass(frozen=True)
class Compared:
    """Two runs of one scheduler that know the same up to a time."""

    decisions: int
    """Decisions up to that time in the first run."""
    differ: int
    """Those that the second run did not make, or made in addition."""

    def __add__(self, other: Compared) -> Compared:
        return Compared(self.decisions + other.decisions, self.differ + other.differ)


@dataclass(frozen=True)
class World:
    """One stream and all that happens in it."""

    problem: Problem
    happens: Realisation
    outages: tuple[Outage, ...] = ()


Run = Callable[[World, int], Schedule]
"""Carries a world out with a seed of the scheduler's own."""


def by_kernel(dispatcher: Any) -> Run:
    """The dispatcher inside the event kernel."""
    return lambda world, seed: run_one(dispatcher, world.problem, world.happens, seed, world.outages)


def by_session(scheduler: Any) -> Run:
    """The dispatcher, by name or as an object, in a session to which events are reported."""
    return lambda world, seed: drive_tasks(
        Session(world.problem, scheduler, seed=seed), world.problem, world.happens
    )


@cache
def drawn(number: int, *, branches: bool, outages: bool) -> World:
    """A stream of workflows with deadlines, and with branches and outages if asked for."""
    rng = np.random.default_rng([1, number])
    chosen = scenario("workflows", load=0.8, jobs=JOBS, tasks=TASKS, noise=NOISE)
    problem = chosen.dispatched("validation", number, 0)
    problem = problem.replaced(jobs=tuple(_varied(job, rng, branches=branches) for job in problem.jobs))
    end = 2.0 * problem.jobs[-1].release
    away = [Outage(device, *_times(rng, 0.0, end)) for device in (1, 4)] if outages else []
    return World(problem, realise(problem, number), tuple(away))


@cache
def drawn_pipelines(number: int) -> World:
    """Periodic pipelines with deadlines, whose periods change once."""
    chosen = scenario("adas-tx2", horizon=400.0, switches=1)
    problem = chosen.dispatched("validation", number, 0)
    problem = problem.replaced(jobs=tuple(sorted(problem.jobs, key=lambda job: job.release)))
    return World(problem, realise(problem, number))


def compare(run: Run, world: World, number: int) -> Compared:
    """Change what is yet to come at a random time; every start before it must be the same."""
    rng = np.random.default_rng([2, number])
    first = run(world, number)
    release = [job.release for job in world.problem.jobs]
    time = float(rng.uniform(np.quantile(release, 0.3), np.quantile(release, 0.85)))
    second = run(changed(world, first, time, rng), number)
    before, after = starts(first, time), starts(second, time)
    return Compared(len(before), len(before ^ after))


def starts(schedule: Schedule, time: float) -> set[tuple[int, int, int, float]]:
    """Job, task, device and start of every row that starts before a time."""
    problem = schedule.problem
    rows = np.flatnonzero((schedule.device >= 0) & (schedule.start < time))
    tasks = schedule.task[rows]
    job = problem.job_of[tasks]
    columns = (job, tasks - problem.offsets[job], schedule.device[rows], schedule.start[rows])
    return set(zip(*(column.tolist() for column in columns), strict=True))


def changed(world: World, found: Schedule, time: float, rng: np.random.Generator) -> World:
    """Another realisation that cannot be distinguished from this one before the time."""
    old = world.problem
    kept = [job for job in old.jobs if job.release <= time]
    assert kept == list(old.jobs[: len(kept)]), "jobs are numbered as they arrive"
    if any(job.series for job in old.jobs):
        return _other_instances(world, found, time, kept, rng)
    branches = any(job.graph.is_conditional for job in old.jobs)
    coming = drawn(int(rng.integers(1 << 30)), branches=branches, outages=False).problem.jobs
    coming = coming[: int(rng.integers(1, len(coming) + 1))]
    release = time + np.cumsum(rng.exponential(old.jobs[-1].release / JOBS, len(coming)))
    new = [replace(job, release=float(at)) for job, at in zip(coming, release, strict=True)]
    problem = old.replaced(jobs=(*kept, *(replace(job, name=f"new-{k}") for k, job in enumerate(new))))
    return _world(world, problem, found, time, rng)


def _other_instances(
    world: World, found: Schedule, time: float, kept: list[Job], rng: np.random.Generator
) -> World:
    """Pipelines of which some later instances never come, and the others come later."""
    coming = [job for job in world.problem.jobs[len(kept) :] if rng.random() < 0.7]
    late = np.cumsum(rng.exponential(3.0, len(coming)))
    new = [replace(job, release=job.release + float(by)) for job, by in zip(coming, late, strict=True)]
    return _world(world, world.problem.replaced(jobs=(*kept, *new)), found, time, rng)


def _world(world: World, problem: Problem, found: Schedule, time: float, rng: np.random.Generator) -> World:
    """The new problem, in which what had not ended at the time goes on otherwise."""
    has_ended = np.zeros(world.problem.num_tasks, np.bool_)
    has_ended[found.task[(found.finish <= time) & (found.outcome == DONE)]] = True
    return World(problem, _happens(world, problem, found, time, has_ended, rng), _away(world, time, rng))


def _happens(
    world: World, problem: Problem, found: Schedule, time: float, has_ended: Bools, rng: np.random.Generator
) -> Realisation:
    """Run times and branches of the new world: as in the old one where a task has ended."""
    fresh, num_kept = realise(problem, int(rng.integers(1 << 30))), 0
    times, taken = fresh.run_times.copy(), list(fresh.taken)
    for j, job in enumerate(world.problem.jobs):
        if job.release > time:
            break
        first, last = (int(world.problem.offsets[j + k]) for k in (0, 1))
        is_old = has_ended[first:last]
        times[first:last][is_old] = world.happens.run_times[first:last][is_old]
        taken[j] = np.where(is_old[job.graph.sources], world.happens.taken[j], taken[j])
        num_kept = last
    _extend(times, num_kept, world, found, time, has_ended, rng)
    return Realisation(fresh.seed, times, tuple(taken), fresh.runs)


def _extend(
    times: Floats,
    num_kept: int,
    world: World,
    found: Schedule,
    time: float,
    has_ended: Bools,
    rng: np.random.Generator,
) -> None:
    """What has started and not ended takes until some moment after the time; changes ``times``."""
    class_of = world.problem.cluster.device_class
    for row in np.flatnonzero((found.device >= 0) & (found.start <= time)).tolist():
        i, c = int(found.task[row]), int(class_of[found.device[row]])
        if i < num_kept and not has_ended[i]:  # also what was cut short and would have ended later
            times[i, c] = max(times[i, c], (time - found.start[row]) * (1.0 + rng.exponential(0.5)) + 1e-6)


def _away(world: World, time: float, rng: np.random.Generator) -> tuple[Outage, ...]:
    """Outages: those that have begun may end otherwise, those to come are others."""
    end = 2.0 * world.problem.jobs[-1].release
    begun = [one for one in world.outages if one.start <= time]
    begun = [one if one.until <= time else one._replace(until=_times(rng, time, end)[1]) for one in begun]
    later = [Outage(6, *_times(rng, time, time + end))] if world.outages else []
    return (*begun, *later)


def _times(rng: np.random.Generator, low: float, high: float) -> tuple[float, float]:
    first, last = np.sort(rng.uniform(low, high, 2)).tolist()
    return float(first), float(last)


def _varied(job: Job, rng: np.random.Generator, *, branches: bool) -> Job:
    """The job with a deadline, and with branches if asked for."""
    graph = _branching(job.graph, rng) if branches else job.graph
    return replace(job, graph=graph, deadline=float(rng.uniform(50.0, 500.0)))


def _branching(graph: TaskGraph, rng: np.random.Generator) -> TaskGraph:
    """The graph with one branch out of about half of the tasks that have several children."""
    branch, probability = np.full(graph.num_edges, ALWAYS), np.ones(graph.num_edges)
    for source in range(graph.num_tasks):
        edges = np.flatnonzero(graph.sources == source)
        if len(edges) > 1 and rng.random() < 0.5:
            branch[edges], probability[edges] = 0, rng.dirichlet(np.ones(len(edges)))
    return graph.replaced(branch=branch, probability=probability)
