"""Dispatchers of the task view that decide outside the rules of ``sim/tasks/rules.py``, also in sessions.

What they are made with for one problem is a decider. A session tells it of further jobs and of those that are gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from weft.errors import UnsupportedError
from weft.model.graph import Ints
from weft.model.problem import Job, Problem
from weft.schedulers.dispatchers.tasks import RuleDispatcher
from weft.schedulers.own import StateDecider
from weft.sim.tasks.layout import refuse_bookings, refuse_tasks
from weft.sim.tasks.rules import VIRTUAL, TaskRule


class GrowingDecider(StateDecider, Protocol):
    """A decider that learns of jobs as they come."""

    def grow(self, rule: TaskRule, problem: Problem, first: int) -> None:
        """Learn of the tasks of a further problem, numbered from ``first``; the rule has grown for them."""

    def close_up(self, tasks: Ints) -> None:
        """Only these tasks are left, numbered anew in their order."""


@dataclass(frozen=True)
class DecidingDispatcher(RuleDispatcher):
    """A dispatcher whose rule starts nothing; its decider does."""

    device: int = VIRTUAL
    look: int = 0

    def shortlisted(self, name: str) -> RuleDispatcher:
        """Its decider goes by no key and no window, so that a shortlist would change nothing."""
        raise UnsupportedError(
            f"{name}: {self.name} decides by itself what it looks at, so a shortlist would change nothing"
        )

    @property
    def copies(self) -> bool:
        """Whether it was made to copy tasks, so that it is refused where it cannot."""
        return False

    @property
    def binds_ahead(self) -> bool:
        """Whether it keeps tasks for devices that have no room for them yet."""
        return self.copies

    def supports(self, problem: Problem) -> str | None:
        if not self.binds_ahead:
            return refuse_tasks(problem)
        return refuse_tasks(problem) or refuse_bookings(problem, has_copies=self.copies)

    @property
    def looks_back(self) -> bool:
        """Whether it looks at the first and last instance of every pipeline when they are over, too."""
        return False

    def made_for(self, problem: Problem) -> DecidingDispatcher:
        """The same for a session that will be told of the jobs of this problem."""
        return self

    def refuse_beside(self, problem: Problem, jobs: Sequence[Job]) -> str | None:
        """The reason why the jobs of a further problem cannot come to those that are there, or None."""
        return None

    def decider(self, problem: Problem, rule: TaskRule) -> GrowingDecider:
        """Who decides for one problem; tasks are copied only where its objective allows it."""
        raise NotImplementedError
