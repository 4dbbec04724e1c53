"""Schedules without copies for a search to start from, cheap to make."""

from __future__ import annotations

from dataclasses import replace

from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.schedulers.base import Limit, Planner
from weft.schedulers.planners.lists import Cpop, Heft, Lookahead, MinMin, Peft, Perturbed

FIRST_EFFORT, FIRST_SHARE, FIRST_SECONDS = 1_064, 0.1, 0.005
"""What the planner of the caller may use: evaluations, or this share of the time, at most this long per task."""


def cheap_plans(problem: Problem, first: Planner | None, seed: int, limit: Limit) -> list[Schedule]:
    """What the list planners make of the problem, and ``first`` where there is one and time is left."""
    planners = (Heft(), Cpop(), Peft(), Lookahead(), MinMin(), Perturbed())
    few = Limit(effort=min(Perturbed.effort, limit.effort or Perturbed.effort))
    plans = [planner.plan(problem, seed=seed, limit=few) for planner in planners]
    if first is not None and limit.left() > 0:
        plans.append(without_copies(problem, first, seed, _part(problem, limit)))
    return plans


def _part(problem: Problem, limit: Limit) -> Limit:
    if limit.is_repeatable:
        return Limit(effort=min(FIRST_EFFORT, limit.effort or FIRST_EFFORT))
    return Limit(budget=max(1e-3, min(FIRST_SHARE * limit.left(), FIRST_SECONDS * problem.num_tasks)))


def without_copies(problem: Problem, planner: Planner, seed: int, limit: Limit) -> Schedule:
    """What a planner makes of the problem where copies are not allowed."""
    alone = problem.replaced(objective=replace(problem.objective, copies=False))
    return replace(planner.plan(alone, seed=seed, limit=limit), problem=problem)
