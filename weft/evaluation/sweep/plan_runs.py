"""Measures plans: every seed of a unit is a plan, carried out where run times vary.

Without noise the seed is the scheduler's. With noise it also draws the run times that happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from weft import catalog
from weft.evaluation.sweep.checking import digest, fault_of, is_drawn_for_check, trace_hash
from weft.evaluation.sweep.store import Key, Measured, Row
from weft.evaluation.sweep.unit import Unit
from weft.model.bounds import Bound
from weft.model.problem import Problem, Realisation, realise
from weft.model.schedule import Schedule
from weft.scenarios import Scenario
from weft.sim.tasks.replay import replayed

Judged = tuple[str, tuple[Bound, ...], bool]
"""What decides a row without noise: trace, bounds a solver proved, whether the oracle is asked."""


class PlanRuns:
    """Planners on whole problems."""

    def measure(self, unit: Unit) -> list[Measured]:
        problem = _problem(unit.scenario, unit.split, unit.index)
        seen: dict[Judged, Row] = {}
        return [_measured(unit, problem, seed, seen) for seed in unit.seeds]

    def warm(self, scheduler: str) -> None:
        catalog.warm(scheduler)

    def inputs(self, scenario: Scenario, schedulers: Sequence[str]) -> dict[str, object]:
        return {}


@lru_cache(maxsize=2)
def _problem(scenario: Scenario, split: str, index: int) -> Problem:
    return scenario.problem(split, index)


def _measured(unit: Unit, problem: Problem, seed: int, seen: dict[Judged, Row]) -> Measured:
    """One row; a plan that another seed gave already is not judged again."""
    key = (unit.scenario.label, unit.problem_name, seed, unit.scheduler)
    result = catalog.schedule(problem, unit.scheduler, seed=seed, effort=unit.effort)
    plan = result.schedule
    is_checked = is_drawn_for_check(unit.check, len(plan), key)
    if problem.varies:
        return Measured(_noisy_row(unit, key, plan, is_checked), result.seconds)
    same = (trace_hash(plan), plan.lower_bounds, is_checked)
    if same not in seen:
        seen[same] = _row(unit, key, plan, is_checked, fault_of(plan) if is_checked else None)
    return Measured(replace(seen[same], seed=seed), result.seconds)


def _noisy_row(unit: Unit, key: Key, plan: Schedule, is_checked: bool) -> Row:
    """The row of a plan that is carried out; one that breaks a rule is not."""
    _, problem, seed, _ = key
    fault = fault_of(plan) if is_checked else None
    if fault is not None:
        return _row(unit, key, plan, is_checked, fault)
    carried = replayed(plan, realise(plan.problem, noise_seed(problem, seed)))
    return _row(unit, key, as_it_happened(carried), is_checked, fault_of(carried) if is_checked else None)


def _row(unit: Unit, key: Key, plan: Schedule, is_checked: bool, fault: str | None) -> Row:
    cell, problem, seed, scheduler = key
    metric, own = unit.scenario.metric, unit.scenario.figures(plan)
    return Row(
        scenario=unit.scenario.name,
        cell=cell,
        problem=problem,
        seed=seed,
        scheduler=scheduler,
        metrics={
            "makespan": plan.makespan,
            "slr": plan.slr,
            "speedup": plan.speedup,
            "utilisation": plan.utilisation,
            "mean_jct": plan.mean_jct,
            "gap_percent": plan.gap_percent,
            "copies": plan.num_copies,
            **({} if metric in own else {metric: getattr(plan, metric)}),
            **own,
        },
        valid=fault is None if is_checked else None,
        fault=fault,
        trace=trace_hash(plan),
        more={"lower_bound": plan.bound.value},
    )


def noise_seed(problem: str, seed: int) -> int:
    """Seed of what happens: another one for every problem, the same one for every scheduler."""
    return digest("noise", problem, seed)


def realised_problem(problem: Problem, realisation: Realisation) -> Problem:
    """The problem of somebody who knows the run times that will happen."""
    names = tuple(c.name for c in problem.cluster.classes)
    jobs = []
    for j, job in enumerate(problem.jobs):
        times = realisation.run_times[problem.offsets[j] : problem.offsets[j + 1]]
        jobs.append(replace(job, graph=job.graph.replaced(classes=names, times=times)))
    return problem.replaced(jobs=tuple(jobs), noise=0.0, bias=0.0, drift=0.0)


def as_it_happened(carried: Schedule) -> Schedule:
    """A schedule that was carried out, with bounds and metrics by the realised run times."""
    if carried.realisation is None:
        return carried
    problem = realised_problem(carried.problem, carried.realisation)
    return replace(carried, problem=problem, realisation=None)
