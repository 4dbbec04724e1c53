"""Dispatchers of the task view: rules for problems with several jobs, links, capacities and noise.

A dispatcher of this kind carries a problem out: expected run times decide, realised ones happen. The
schedule it returns is what happened. ``sim/tasks/rules.py`` says how orders and device rules work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from weft.errors import UnsupportedError
from weft.model.draws import ORDER, keyed_uniform
from weft.model.graph import Floats
from weft.model.problem import Problem, Realisation
from weft.model.schedule import Schedule
from weft.schedulers.dispatchers.outages import Outage
from weft.schedulers.dispatchers.playing import Playing
from weft.schedulers.own import as_dispatcher
from weft.sim.tasks.forecast import NUM_COLUMNS, forecast_problems
from weft.sim.tasks.layout import refuse_tasks
from weft.sim.tasks.prices import price_problems
from weft.sim.tasks.ranks import rank_of
from weft.sim.tasks.rules import (
    BY_WEIGHTS,
    IDLE,
    LATE,
    VIRTUAL,
    TaskRule,
    keyed_rule,
    play_until,
    run_tasks,
)
from weft.sim.tasks.state import LOOK as LOOK
from weft.sim.tasks.state import TaskState
from weft.sim.tasks.weights import PRICED, SRW, TINY, about, about_all

SHORTLIST = 8
"""Ready tasks per slot among which a rule below another level chooses."""


class TaskDispatcher(Protocol):
    """Carries problems out, deciding at events."""

    name: str

    def supports(self, problem: Problem) -> str | None:
        """None if it can act on this problem, else the reason why not."""

    def run_all(
        self,
        problems: Sequence[Problem],
        realisations: Sequence[Realisation],
        seeds: Sequence[int],
        outages: Sequence[Outage] = (),
    ) -> list[Schedule]:
        """What happens when each problem meets its realisation; seeds are the dispatcher's own.

        ``outages`` hold for each of the problems.
        """


def run_one(
    dispatcher: Any,
    problem: Problem,
    realisation: Realisation,
    seed: int = 0,
    outages: Sequence[Outage] = (),
) -> Schedule:
    """One problem carried out, while devices are away as the outages say.

    ``dispatcher`` is a ``TaskDispatcher``, or any object with ``name`` and ``decide(view)``.
    """
    chosen = as_dispatcher(dispatcher)
    reason = chosen.supports(problem)
    if reason is not None:
        raise UnsupportedError(f"{chosen.name}: {reason}", field="scheduler")
    return chosen.run_all([problem], [realisation], [seed], outages)[0]


def by_age(problem: Problem, seed: int, first_job: int = 0) -> Floats:
    """Oldest job first."""
    return np.array([job.release for job in problem.jobs], dtype=np.float64)[problem.job_of]


def by_run_time(problem: Problem, seed: int, first_job: int = 0) -> Floats:
    """Shortest task first."""
    return problem.best_run_times


def by_due_time(problem: Problem, seed: int, first_job: int = 0) -> Floats:
    """Earliest deadline first, jobs without one last."""
    due = [np.inf if job.deadline is None else job.release + job.deadline for job in problem.jobs]
    return np.array(due, dtype=np.float64)[problem.job_of]


def by_draw(problem: Problem, seed: int, first_job: int = 0) -> Floats:
    """A number drawn for every task; the jobs are counted from ``first_job``."""
    task = np.arange(problem.num_tasks) - problem.offsets[problem.job_of]
    return keyed_uniform(seed, ORDER, first_job + problem.job_of, task, 0, 0)


def by_rank(problem: Problem, seed: int, first_job: int = 0) -> Floats:
    """Longest mean path to the end first, transfers included, whatever the job."""
    return -rank_of(problem)


def by_urgency(problem: Problem, seed: int, first_job: int = 0) -> Floats:
    """As ``priced`` orders tasks when their job arrives: short jobs, and within a job long paths to the end first."""
    rank, best, start = rank_of(problem), problem.best_run_times, problem.offsets
    key = np.zeros(problem.num_tasks)
    for j in range(len(problem.jobs)):
        own = slice(int(start[j]), int(start[j + 1]))
        longest, work = float(rank[own].max(initial=0.0)), float(best[own].sum())
        key[own] = np.log(max(work, TINY)) - rank[own] / max(longest, TINY)
    return key


class Place(NamedTuple):
    """Where the jobs of a further problem begin."""

    task: int
    """Number of its first task in the state."""
    number: int
    """How many jobs there have been before, those that are gone included."""


@dataclass(frozen=True)
class RuleDispatcher:
    """An order of the ready tasks and a way to choose devices."""

    name: str
    device: int
    """IDLE, VIRTUAL or LATE."""
    key: Callable[[Problem, int, int], Floats] = by_age
    """Fixed order, smallest first, where there are no weights. Of a problem, a seed and the number of its first job."""
    weights: tuple[float, ...] = ()
    """What order and devices go by (``sim/tasks/weights.py``); empty: the key, and the earliest finish."""
    look: int = LOOK
    profiles: bool = False
    """Whether run times that it observed correct those it expects, per kind and class."""
    window: int = 0
    """Ready tasks per slot, the first ones by the key, among which the weights choose; 0: among all."""

    def supports(self, problem: Problem) -> str | None:
        return refuse_tasks(problem)

    def run_all(
        self,
        problems: Sequence[Problem],
        realisations: Sequence[Realisation],
        seeds: Sequence[int],
        outages: Sequence[Outage] = (),
    ) -> list[Schedule]:
        """All problems in one call of the kernel; with outages one after the other."""

        def prepare(s: TaskState) -> TaskRule:
            s.learns[:] = self.profiles
            return self.prepare(problems, s, seeds)

        return Playing(prepare, run_tasks, play_until).all(problems, realisations, outages)

    def shortlisted(self, name: str) -> RuleDispatcher:
        """The same rule below another level, which hands it the most urgent of the ready tasks."""
        if not self.weights:
            raise UnsupportedError(f"{name}: {self.name} has no weights that could choose from a shortlist")
        return replace(self, name=name, key=by_urgency, window=SHORTLIST)

    @property
    def is_priced(self) -> bool:
        """Whether it counts work, at the prices that hold when a job arrives."""
        return bool(self.weights)

    def rule(self, problems: Sequence[Problem], s: TaskState, seeds: Sequence[int]) -> TaskRule:
        """The kernel's rule for these problems side by side, without prices and forecast yet; writes keys into an empty state."""
        s.key[:] = np.concatenate([self.key(p, seed, 0) for p, seed in zip(problems, seeds, strict=True)])
        if not self.weights:
            return keyed_rule(self.device, self.look)
        size = (len(s.job_left), max(p.cluster.num_classes for p in problems))
        price = np.ones(size if self.device == LATE else (0, 0))
        tally = np.zeros((len(s.job_left), 2))
        forecast = np.ones((len(s.job_left), NUM_COLUMNS))
        return TaskRule(
            BY_WEIGHTS, self.device, self.look, np.array(self.weights), about_all(problems), price, forecast,
            tally, self.window,
        )  # fmt: skip

    def grown(self, rule: TaskRule, problem: Problem, s: TaskState, seed: int, first: Place) -> TaskRule:
        """The rule with a further problem in a state that has room for it; writes keys there."""
        last = first.task + problem.num_tasks
        s.key[first.task : last] = self.key(problem, seed, first.number)
        if not self.weights:
            return rule
        rule = rule._replace(
            about=with_room(rule.about, len(s.key)), tally=with_room(rule.tally, len(s.job_left), 0.0)
        )
        rule.about[first.task : last] = about(problem)
        if self.device == LATE:
            rule = rule._replace(price=with_room(rule.price, len(s.job_left)))
        if len(rule.forecast):
            rule = rule._replace(forecast=with_room(rule.forecast, len(s.job_left)))
        return rule

    def prepare(self, problems: Sequence[Problem], s: TaskState, seeds: Sequence[int]) -> TaskRule:
        """The rule with prices and forecast of all arrivals; writes keys and work of the tasks into an empty state."""
        rule = self.rule(problems, s, seeds)
        if self.is_priced:
            price_problems(problems, rule.price, s.work)
            forecast_problems(problems, s.work, rule.forecast)
        return rule


def with_room(column: Floats, room: int, fill: float = 1.0) -> Floats:
    """The column, or a longer one that goes on with a number."""
    if len(column) >= room:
        return column
    return np.concatenate([column, np.full((room - len(column), *column.shape[1:]), fill)])


fifo = RuleDispatcher("fifo", IDLE)
shortest_first = RuleDispatcher("shortest-first", IDLE, by_run_time)
edf = RuleDispatcher("edf", IDLE, by_due_time)
random = RuleDispatcher("random", IDLE, by_draw)
eft = RuleDispatcher("eft", VIRTUAL)
heft = RuleDispatcher("heft", VIRTUAL, by_rank)
srw = RuleDispatcher("srw", VIRTUAL, weights=SRW)
priced = RuleDispatcher("priced", LATE, weights=PRICED)
