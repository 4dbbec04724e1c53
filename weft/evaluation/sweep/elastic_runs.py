"""Runs allocators over elastic tasks: all seeds of a unit in one batch, every row checked by the oracle.

What arrives and how fast tasks are is a function of scenario and seed alone, so rows are paired.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from weft import catalog
from weft.evaluation.sweep.checking import digest, fault_of
from weft.evaluation.sweep.store import Measured, Row
from weft.evaluation.sweep.unit import Unit
from weft.kinds import ELASTIC
from weft.model.draws import PROGRESS, keyed_uniform
from weft.model.elastic import TaskType
from weft.model.elastic_oracle import episode_key, first_fault
from weft.model.elastic_run import ElasticRun
from weft.model.elastic_schedule import schedule_of
from weft.scenarios import Scenario, scenario
from weft.schedulers.allocators.running import run_all

if TYPE_CHECKING:
    from weft.evaluation.sweep.evaluation import Evaluation


class ElasticRuns:
    """Allocators on elastic tasks."""

    def measure(self, unit: Unit) -> list[Measured]:
        name = unit.problem_name
        chosen = catalog.find(unit.scheduler, ELASTIC)
        problem = unit.scenario.elastic(unit.split, unit.index)
        worlds = [world_of(unit.scenario, name, seed) for seed in unit.seeds]
        warm(unit.scheduler)
        started = time.perf_counter()
        found = run_all(chosen, problem, worlds)
        seconds = (time.perf_counter() - started) / len(found)
        return [
            Measured(_row(unit, name, seed, one), seconds)
            for seed, one in zip(unit.seeds, found, strict=True)
        ]

    def warm(self, scheduler: str) -> None:
        warm(scheduler)

    def inputs(self, scenario: Scenario, schedulers: Sequence[str]) -> dict[str, object]:
        return {}


def world_of(scenario: Scenario, problem_name: str, seed: int) -> int:
    """The seed of everything that happens in one episode."""
    return digest("elastic", scenario.recipe.seed, problem_name, seed)


@cache
def warm(scheduler: str) -> None:
    """Place a few tasks, once, if weft's own code decides."""
    if scheduler in catalog.ALLOCATORS:
        problem = scenario("edge-single-3", clusters=1, tasks=2).elastic("test", 0)
        run_all(catalog.find("min", ELASTIC), problem, [0])


def least_mean_time(run: ElasticRun) -> float:
    """Mean completion time if every task started when it arrives, with whatever units gain it the most in each step."""
    key, problem = episode_key(run.seed), run.problem
    best = [_best_gains(kind) for kind in problem.types]
    draws: list[list[float]] = []
    progress, steps = np.zeros(problem.num_tasks), np.zeros(problem.num_tasks, np.int64)
    while (left := np.flatnonzero(progress < 1.0)).size and len(draws) < 1_000_000:
        noise = keyed_uniform(key, PROGRESS, left, len(draws), 0, 0).tolist()
        draws.append([])
        for task, draw in zip(left.tolist(), noise, strict=True):
            kind = int(run.kind[task])
            wide = problem.types[kind].noise * (2.0 * draw - 1.0)
            factor = problem.types[kind].factor(float(progress[task]))
            progress[task] += max(max(0.0, rate * factor + base + wide) for rate, base in best[kind])
            steps[task] += 1
    return float(steps.mean())


def mean_bound(found: Evaluation, cell: str) -> float:
    """Mean over the samples of a cell of the time that tasks would take without contention; NaN where rows do not say."""
    rows = found.rows_of(cell, found.schedulers[0])
    return float(np.mean([row["lower_bound"] for row in rows])) if rows else math.nan


def _best_gains(kind: TaskType) -> list[tuple[float, float]]:
    """Rate and base of the units that no others beat in both."""
    inside = tuple(
        slice(None) if size == 1 else slice(low, None)
        for size, low in zip(kind.rate.shape, kind.least, strict=True)
    )
    pairs = sorted(
        set(zip(kind.rate[inside].ravel().tolist(), kind.base[inside].ravel().tolist(), strict=True))
    )
    return [one for one in pairs if not any(o[0] >= one[0] and o[1] >= one[1] and o != one for o in pairs)]


def _row(unit: Unit, name: str, seed: int, run: ElasticRun) -> Row:
    is_checked = unit.check != "none"  # the oracle is quick enough for every row
    fault = (first_fault(run) or _fault_of_file(unit, run)) if is_checked else None
    bound, figures = least_mean_time(run), run.figures
    return Row(
        scenario=unit.scenario.name,
        cell=unit.scenario.label,
        problem=name,
        seed=seed,
        scheduler=unit.scheduler,
        metrics=figures,
        valid=fault is None if is_checked else None,
        fault=fault,
        trace=run.trace,
        more={
            "lower_bound": bound,
            "gap_percent": 100.0 * (run.mean_completion / bound - 1.0),
            **_per_cluster(run),
        },
    )


def _fault_of_file(unit: Unit, run: ElasticRun) -> str | None:
    """The first rule of the file's own problem that the episode breaks, as a schedule of that problem."""
    if unit.scenario.recipe.generator != "files":
        return None
    posed, step = unit.scenario.problem(unit.split, unit.index), unit.scenario.number("step")
    return fault_of(schedule_of(posed, run, step))


def _per_cluster(run: ElasticRun) -> dict[str, float]:
    """How many tasks of each type every cluster took."""
    names, types = run.problem.cluster_names, [kind.name for kind in run.problem.types]
    return {
        f"{kind} on {cluster}": float(count)
        for cluster, counts in zip(names, run.types_per_cluster.tolist(), strict=True)
        for kind, count in zip(types, counts, strict=True)
    }
