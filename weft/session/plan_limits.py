"""What sessions ask of plans and policies: no copies, and a planner that plans around what runs."""

from __future__ import annotations

from dataclasses import replace

from weft.model.problem import Problem
from weft.schedulers.dispatchers.deciding import DecidingDispatcher
from weft.schedulers.dispatchers.replanning import PlanDispatcher, can_join


def carried_out_by(dispatcher: object, problem: Problem) -> Problem:
    """The problem as a session gives it to a dispatcher: who may copy tasks must not."""
    may_copy = isinstance(dispatcher, PlanDispatcher | DecidingDispatcher)
    return without_copies(problem) if may_copy else problem


def without_copies(problem: Problem) -> Problem:
    """A session tells tasks apart by job and task alone, so that a plan must not copy them."""
    return problem.replaced(objective=replace(problem.objective, copies=False))


def refuse_planner(dispatcher: object, problem: Problem) -> str | None:
    """Why a session with this problem cannot do what the dispatcher does; None: it can."""
    if isinstance(dispatcher, DecidingDispatcher) and dispatcher.copies and problem.objective.copies:
        return "it learned to copy tasks, which a session cannot tell apart"
    if isinstance(dispatcher, PlanDispatcher) and not can_join(dispatcher.planner):
        return "it cannot plan around what runs already"
    return None
