"""Which view a scheduler acts in."""

from __future__ import annotations

from weft.errors import UnsupportedError
from weft.model.problem import Problem
from weft.policies.learned import Learned
from weft.schedulers.dispatchers.queues import Dispatcher
from weft.schedulers.dispatchers.replanning import PlanDispatcher
from weft.schedulers.dispatchers.tasks import RuleDispatcher, TaskDispatcher
from weft.schedulers.own import OwnDispatcher
from weft.session.queue_view import QueueView
from weft.session.task_view import TaskView
from weft.session.view import View
from weft.sim.queues.layout import Rules

Scheduler = Dispatcher | Learned | TaskDispatcher


def view_of(
    problem: Problem, rules: Rules, scheduler: Scheduler, seed: int, *, has_jobs: bool = True
) -> View:
    """The queue view for rules by kind and policies, the task view for rules by task, plans and others' dispatchers.

    Without ``has_jobs`` the problem stands for its cluster alone.
    """
    if isinstance(scheduler, Dispatcher | Learned):
        return QueueView(problem, rules, scheduler, seed)
    if isinstance(scheduler, RuleDispatcher | PlanDispatcher | OwnDispatcher):
        return TaskView(problem, scheduler, seed, has_jobs=has_jobs)
    raise UnsupportedError(f"{scheduler.name}: sessions take rules, policies and plans", field="scheduler")
