"""From the name of a scheduler to sessions that carry out what it decides.

A planner makes its plan before anything runs, and the session keeps to it until something goes wrong; a dispatcher or
policy decides at every event.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from weft import catalog
from weft.catalog import Result
from weft.errors import UnsupportedError, WeftError
from weft.execute.split import SplitSession, parse_split
from weft.kinds import PROBLEMS, TASKS
from weft.model.cluster import Cluster
from weft.model.problem import Problem
from weft.schedulers.dispatchers.deciding import DecidingDispatcher
from weft.schedulers.dispatchers.replanning import DRIFT, GivenPlan, PlanDispatcher, can_join
from weft.session import Session

MakeSession = Callable[[Cluster], Session]


@dataclass(frozen=True)
class Wanted:
    """Which scheduler decides, and how."""

    scheduler: str | Any = "heft"
    seed: int = 0
    is_live: bool = False
    """Whether a name that is a planner and a dispatcher means the dispatcher."""
    is_strict: bool = False
    """Whether a plan is kept however late things are; a lost device still changes it."""
    budget: float | None = None
    effort: int | None = None
    max_attempts: int = 3
    split: str | None = None
    """``A:0.9,B:0.1``: jobs are divided between schedulers."""


@dataclass(frozen=True)
class Chosen:
    """Who decides in a run."""

    name: str
    make: MakeSession
    plan: Result | None = None
    """The plan that was made before, of a single job."""

    @property
    def policy(self) -> str:
        """``plan`` or ``live``."""
        return "live" if self.plan is None else "plan"


def refuse(wanted: Wanted, *, is_stream: bool) -> None:
    """Raise where nobody of that name can act on jobs that arrive like that; needs no machines."""
    if wanted.split is not None:
        for name, _ in parse_split(wanted.split):
            _refuse_unknown(name, "split")
    elif not _is_planner(wanted):
        catalog.task_dispatcher(wanted.scheduler)
    elif not can_join(catalog.planner(wanted.scheduler)) and is_stream:
        raise UnsupportedError(
            f"{_name(wanted)} cannot plan a job around others: heft, peft, cpop and lookahead can, or name a dispatcher",
            field="scheduler",
        )


def choose(wanted: Wanted, problem: Problem, *, is_stream: bool) -> Chosen:
    """The scheduler of a run; refused where it cannot act on the problem or cannot be carried out."""
    is_stream = is_stream or len(problem.jobs) > 1
    refuse(wanted, is_stream=is_stream)
    if wanted.split is not None:
        parts = [(_live(name), share) for name, share in parse_split(wanted.split)]
        return Chosen(wanted.split, lambda cluster: _split(cluster, parts, wanted, problem))
    name = _name(wanted)
    if not _is_planner(wanted):
        dispatcher = catalog.task_dispatcher(wanted.scheduler)
        return Chosen(name, _opener(dispatcher, wanted, problem))
    planner = catalog.planner(wanted.scheduler)
    drift = math.inf if wanted.is_strict else DRIFT
    if is_stream:
        return Chosen(name, _opener(PlanDispatcher(f"plan:{name}", planner, drift), wanted, problem))
    alone = _for_plan(problem)
    plan = catalog.schedule(
        alone, wanted.scheduler, seed=wanted.seed, budget=wanted.budget, effort=wanted.effort
    )
    given = GivenPlan(name, {problem.jobs[0].name: plan.schedule})
    return Chosen(name, _opener(PlanDispatcher(f"plan:{name}", given, drift), wanted, problem), plan)


def refuse_shadow(name: str | None, wanted: Wanted, *, is_stream: bool) -> None:
    """Raise where nobody of that name can be asked beside the one who decides."""
    if name is not None:
        try:
            refuse(replace(wanted, scheduler=name, split=None), is_stream=is_stream)
        except WeftError as error:
            error.field = "shadow"
            raise


def _refuse_unknown(name: str, field: str) -> None:
    try:
        catalog.task_dispatcher(_live(name))
    except WeftError as error:
        error.field = field
        raise


def _name(wanted: Wanted) -> str:
    return wanted.scheduler if isinstance(wanted.scheduler, str) else str(wanted.scheduler.name)


def _is_planner(wanted: Wanted) -> bool:
    name = wanted.scheduler
    if not isinstance(name, str):
        return callable(getattr(name, "plan", None)) and not callable(getattr(name, "decide", None))
    kinds = catalog.kinds_of(name)
    if wanted.is_live and (TASKS in kinds or not kinds):
        return False
    if PROBLEMS in kinds:
        return True
    if kinds:
        return False
    return not _acts_on_tasks(name)


def _acts_on_tasks(name: str) -> bool:
    """Of weights and code of others: whether they decide at events."""
    from weft.errors import InputError

    try:
        catalog.task_dispatcher(name)
    except InputError:
        return False
    return True


def _live(name: str) -> str:
    return f"plan:{name}" if PROBLEMS in catalog.kinds_of(name) else name


def _for_plan(problem: Problem) -> Problem:
    """Without copies: what is carried out is told apart by job and task; from time 0 on."""
    job = replace(problem.jobs[0], release=0.0)
    objective = replace(problem.objective, copies=False)
    return problem.replaced(jobs=(job,), objective=objective, noise=0.0, bias=0.0, drift=0.0)


def _opener(dispatcher: Any, wanted: Wanted, problem: Problem) -> MakeSession:
    if isinstance(dispatcher, DecidingDispatcher):
        dispatcher = dispatcher.made_for(problem)

    def make(cluster: Cluster) -> Session:
        return Session(
            cluster,
            dispatcher,
            seed=wanted.seed,
            max_attempts=wanted.max_attempts,
            on_failure="descendants",
            time_unit=problem.time_unit,
            noise=problem.noise,
            noise_law=problem.noise_law,
        )

    return make


def _split(
    cluster: Cluster, parts: list[tuple[str, float]], wanted: Wanted, problem: Problem
) -> SplitSession:
    makers = [(_opener(catalog.task_dispatcher(name), wanted, problem), name, share) for name, share in parts]
    return SplitSession([(make(cluster), name, share) for make, name, share in makers], wanted.seed)
