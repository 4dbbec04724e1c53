"""Runs dispatchers over streams of different workflows: all seeds of a unit in one batch.

What happens (workflows, arrivals, run times) is a function of problem and seed alone, so rows are
paired whatever dispatches.
"""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from weft import catalog
from weft.errors import UnsupportedError
from weft.evaluation.sweep.checking import digest, is_drawn_for_check, trace_hash
from weft.evaluation.sweep.store import Measured, Row
from weft.model.bounds import longest_path
from weft.model.problem import Problem, Realisation, realise
from weft.model.schedule import EXPIRED, Schedule
from weft.model.validate import validate
from weft.scenarios import scenario

if TYPE_CHECKING:
    from weft.evaluation.sweep.runner import Unit


def measure_jobs(unit: Unit) -> list[Measured]:
    """Carry out all seeds of a unit with one dispatcher."""
    name = unit.scenario.problem_name(unit.split, unit.index)
    chosen = catalog.task_dispatcher(unit.scheduler)
    problems = [unit.scenario.job_stream(unit.split, unit.index, seed) for seed in unit.seeds]
    for problem in problems:
        reason = chosen.supports(problem)
        if reason is not None:
            raise UnsupportedError(f"{unit.scheduler}: {reason}", field="scheduler")
    worlds = [
        realise(problem, digest("jobs", unit.scenario.recipe.seed, name, seed))
        for problem, seed in zip(problems, unit.seeds, strict=True)
    ]
    warm_jobs(unit.scheduler)
    started = time.perf_counter()
    found = chosen.run_all(problems, worlds, unit.seeds)
    seconds = (time.perf_counter() - started) / len(found)
    return [
        Measured(_row(unit, name, seed, schedule), seconds)
        for seed, schedule in zip(unit.seeds, found, strict=True)
    ]


@cache
def warm_jobs(scheduler: str) -> None:
    """Dispatch a few workflows, so that loading the kernels is not counted as dispatching."""
    problem = scenario("workflows", load=0.5, jobs=2, tasks=4).job_stream("test", 0, 0)
    catalog.task_dispatcher(scheduler).run_all([problem], [realise(problem, 0)], [0])


def least_mean_time(problem: Problem, world: Realisation) -> float:
    """Mean over the jobs of the longest path, each task at its fastest: a bound on the mean job time."""
    present = problem.device_counts > 0
    best = world.run_times[:, present].min(axis=1)
    alone = [
        longest_path(job.graph, best[problem.offsets[j] : problem.offsets[j + 1]])
        for j, job in enumerate(problem.jobs)
    ]
    return float(np.mean(alone))


def _row(unit: Unit, name: str, seed: int, found: Schedule) -> Row:
    key = (unit.scenario.label, name, seed, unit.scheduler)
    is_checked = is_drawn_for_check(unit.check, len(found), key)
    faults = validate(found) if is_checked else ()
    world = found.realisation
    bound = least_mean_time(found.problem, world) if world is not None else 0.0
    mean = found.mean_jct
    return Row(
        scenario=unit.scenario.name,
        cell=unit.scenario.label,
        problem=name,
        seed=seed,
        scheduler=unit.scheduler,
        metrics={
            "mean_jct": mean,
            "p99_jct": found.p99_jct,
            "utilisation": found.utilisation,
            "batch_fill": 1.0,
            "makespan": found.makespan,
            "expired": int((found.outcome == EXPIRED).sum()),
        },
        valid=not faults if is_checked else None,
        fault=str(faults[0]) if faults else None,
        trace=trace_hash(found),
        more={
            "gap_percent": 100.0 * (mean / bound - 1.0) if bound > 0 else None,
            "lower_bound": bound,
            "copies": found.num_copies,
        },
    )
