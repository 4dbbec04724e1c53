"""What sessions ask of plans and policies: no copies, a planner that plans around what runs, and jobs that they can take on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from weft.errors import InfeasibleError, InputError, UnsupportedError
from weft.model.problem import Job, Problem
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


def further(problem: Problem, dispatcher: Any, jobs: tuple[Job, ...], there: Sequence[Job]) -> Problem:
    """These jobs on the cluster of a session; refused where they cannot run there or be dispatched beside those that are there."""
    if jobs[0].graph.time_unit != problem.time_unit:
        raise InputError(
            f"expected times in {problem.time_unit!r}, got {jobs[0].graph.time_unit!r}", field="arrived.graph"
        )
    try:
        found = problem.replaced(jobs=jobs, name=jobs[0].name)
    except (InputError, InfeasibleError) as error:
        raise InputError(str(error), field="arrived.graph") from None
    reason = dispatcher.supports(found)
    if reason is None and isinstance(dispatcher, DecidingDispatcher):
        reason = dispatcher.refuse_beside(found, there)
    if reason is not None:
        raise UnsupportedError(f"{dispatcher.name}: {reason}", field="arrived.graph")
    return found
