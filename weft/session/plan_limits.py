"""What sessions ask of plans: no copies, and a planner that plans around what runs."""

from __future__ import annotations

from dataclasses import replace

from weft.model.problem import Problem
from weft.schedulers.dispatchers.replanning import PlanDispatcher, can_join


def without_copies(problem: Problem) -> Problem:
    """A session tells tasks apart by job and task alone, so that a plan must not copy them."""
    return problem.replaced(objective=replace(problem.objective, copies=False))


def refuse_planner(dispatcher: object) -> str | None:
    if isinstance(dispatcher, PlanDispatcher) and not can_join(dispatcher.planner):
        return "it cannot plan around what runs already"
    return None
