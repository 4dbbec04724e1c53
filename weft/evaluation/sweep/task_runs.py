"""Runs dispatchers over streams of different workflows: all seeds of a unit in one batch.

What happens (workflows, arrivals, run times) is a function of problem and seed alone, so rows are
paired whatever dispatches.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache

import numpy as np

from weft import catalog
from weft.errors import UnsupportedError
from weft.evaluation.sweep.checking import digest, fault_of, is_drawn_for_check, trace_hash
from weft.evaluation.sweep.store import Measured, Row
from weft.evaluation.sweep.unit import Unit
from weft.model.bounds import longest_path
from weft.model.problem import Problem, Realisation, realise
from weft.model.schedule import EXPIRED, Schedule
from weft.scenarios import Scenario, scenario
from weft.schedulers.dispatchers.python_view import Device, DispatchView, ReadyTask
from weft.schedulers.dispatchers.replanning import PlanDispatcher
from weft.schedulers.own import OwnDispatcher, is_others


class TaskRuns:
    """Dispatchers on single tasks: all seeds of a unit in one batch."""

    def measure(self, unit: Unit) -> list[Measured]:
        name = unit.problem_name
        chosen = catalog.task_dispatcher(unit.scheduler)
        problems = [unit.scenario.dispatched(unit.split, unit.index, seed) for seed in unit.seeds]
        for problem in problems:
            reason = chosen.supports(problem)
            if reason is not None:
                raise UnsupportedError(f"{unit.scheduler}: {reason}", field="scheduler")
        worlds = [
            realise(problem, digest("jobs", unit.scenario.recipe.seed, name, seed))
            for problem, seed in zip(problems, unit.seeds, strict=True)
        ]
        warm(unit.scheduler)
        started = time.perf_counter()
        found = chosen.run_all(problems, worlds, unit.seeds)
        seconds = (time.perf_counter() - started) / len(found)
        return [
            Measured(_row(unit, name, seed, schedule), seconds)
            for seed, schedule in zip(unit.seeds, found, strict=True)
        ]

    def warm(self, scheduler: str) -> None:
        warm(scheduler)

    def inputs(self, scenario: Scenario, schedulers: Sequence[str]) -> dict[str, object]:
        return {}


@cache
def warm(scheduler: str) -> None:
    """Dispatch a few workflows, once; where others' code decides, not with that code."""
    problem = scenario("workflows", load=0.5, jobs=2, tasks=4).dispatched("test", 0, 0)
    chosen = catalog.task_dispatcher(scheduler)
    if is_others(chosen):
        has_plan = isinstance(chosen, PlanDispatcher)
        chosen = catalog.task_dispatcher("plan:heft") if has_plan else OwnDispatcher(_FirstOption())
    if chosen.supports(problem) is not None:  # it acts on periodic pipelines alone
        problem = scenario("adas-tx2", configuration=0, horizon=60.0).problem("test", 0)
    chosen.run_all([problem], [realise(problem, 0)], [0])


class _FirstOption:
    """Needs the kernels that a dispatcher in plain Python needs."""

    name = "first-option"

    def decide(self, view: DispatchView) -> list[tuple[ReadyTask, Device]]:
        options = [
            (view.finish(task, device), task, device) for task in view.ready for device in view.options(task)
        ]
        return [(task, device) for _, task, device in options[:1]]


def least_mean_time(problem: Problem, world: Realisation) -> float:
    """Mean over the jobs of the longest path, each task at its fastest: a bound on the mean job time."""
    present = problem.device_counts > 0
    best = world.run_times[:, present].min(axis=1)
    alone = [
        longest_path(job.graph, best[problem.offsets[j] : problem.offsets[j + 1]])
        for j, job in enumerate(problem.jobs)
    ]
    return float(np.mean(alone))


def _figures_of(found: Schedule) -> dict[str, float]:
    """What only some streams have: missed deadlines, and how long all took where all jobs were there from the start."""
    jobs = found.problem.jobs
    due: dict[str, float] = {"misses": found.misses} if any(job.deadline is not None for job in jobs) else {}
    at_once = all(job.release == 0 for job in jobs)
    due |= found.series.to_dict() if due else {}
    return {**due, **({"slr": found.slr, "speedup": found.speedup} if at_once else {})}


def _row(unit: Unit, name: str, seed: int, found: Schedule) -> Row:
    key = (unit.scenario.label, name, seed, unit.scheduler)
    is_checked = is_drawn_for_check(unit.check, len(found), key)
    fault = fault_of(found) if is_checked else None
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
            **_figures_of(found),
            **unit.scenario.figures(found),
        },
        valid=fault is None if is_checked else None,
        fault=fault,
        trace=trace_hash(found),
        more={
            "gap_percent": 100.0 * (mean / bound - 1.0) if bound > 0 else None,
            "lower_bound": bound,
            "copies": found.num_copies,
        },
    )
