"""Dispatchers for deadlines and pipelines: an order of the ready tasks and a way to choose devices, named together.

``rm-pinned`` is rate-monotonic on hand-made classes, ``edf-eft`` earliest deadline first to the earliest finish, and so on.
``+late`` puts what is past its deadline behind all others, ``+hopeless`` what could not be in time even on the fastest devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from weft.model.draws import DEVICES, keyed_uniform
from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import Problem, Realisation
from weft.model.schedule import Schedule
from weft.schedulers.dispatchers.deciding import DecidingDispatcher
from weft.schedulers.dispatchers.outages import Outage
from weft.schedulers.dispatchers.paths import fastest_left, shares_done
from weft.schedulers.dispatchers.pins import pinned_classes
from weft.schedulers.dispatchers.playing import Playing
from weft.schedulers.dispatchers.tasks import Place, with_room
from weft.sim.tasks.deadline_rules import (
    DRAWN,
    EARLIEST,
    IDLE,
    DeadlineRule,
    decide_by_deadline,
    play_by_deadline,
    run_by_deadline,
)
from weft.sim.tasks.rules import VIRTUAL, TaskRule, keyed_rule
from weft.sim.tasks.state import Facts, Tasks, TaskState

ENV = 0
TIE = 1e-9
"""Of equal intervals the earlier release goes first: how much its time counts."""
NEVER, LATE, HOPELESS = PUT_LAST = ("never", "late", "hopeless")
"""What is put behind all others: nothing, what is late, or what cannot be in time any more."""

Order = Callable[[Problem], Floats]
Classes = Callable[[Problem], Bools]


def _of_jobs(problem: Problem, value: Callable[[Any], float]) -> Floats:
    return np.array([value(job) for job in problem.jobs], np.float64)[problem.job_of]


def due_times(problem: Problem) -> Floats:
    """When the job of every task is due; infinite: never."""
    return _of_jobs(problem, lambda job: np.inf if job.deadline is None else job.release + job.deadline)


def by_release(problem: Problem) -> Floats:
    """The instance that came first."""
    return _of_jobs(problem, lambda job: job.release)


def by_interval(problem: Problem) -> Floats:
    """The shortest period first: rate-monotonic; a job without one by its deadline."""
    return _of_jobs(problem, lambda job: (job.interval or job.deadline or np.inf) + TIE * job.release)


def by_laxity(problem: Problem) -> Floats:
    """The least time to spare on the fastest devices first: at one moment the same as due time less what is left."""
    return due_times(problem) - fastest_left(problem)


def by_local_deadline(problem: Problem) -> Floats:
    """The deadline divided along the chain, in proportion to the shortest run times."""
    release = by_release(problem)
    return release + (due_times(problem) - release) * shares_done(problem)


def anywhere(problem: Problem) -> Bools:
    """Wherever a task can run."""
    return np.isfinite(problem.run_times)


def on_the_last(problem: Problem) -> Bools:
    """On the last class, the accelerator, if it can run a task; it waits for it. Else anywhere."""
    can = np.isfinite(problem.run_times)
    last = np.zeros_like(can)
    last[:, -1] = True
    return np.where(can[:, -1:], last, can)


ORDERS: dict[str, tuple[Order, str]] = {
    "edf": (due_times, "earliest deadline first"),
    "rm": (by_interval, "shortest period first"),
    "llf": (by_laxity, "least laxity first"),
    "fifo": (by_release, "oldest release first"),
    "ledf": (by_local_deadline, "earliest local deadline of the stage first"),
}
PLACES: dict[str, tuple[int, Classes, str]] = {
    "gpu-first": (IDLE, on_the_last, "to the last class, the accelerator, waiting for it; what cannot run there where it ends first"),
    "fastest-idle": (IDLE, anywhere, "to the idle device where it ends first"),
    "eft": (EARLIEST, anywhere, "to the device where it ends first, waiting if that is busy"),
    "pinned": (IDLE, pinned_classes, "to the classes its pipeline is pinned to by hand"),
    "random": (DRAWN, anywhere, "to any idle device"),
}  # fmt: skip


@dataclass(frozen=True)
class DeadlineDispatcher(DecidingDispatcher):
    """An order, a place, and what is put last."""

    device: int = VIRTUAL
    order: Order = field(default=due_times, kw_only=True)
    place: int = field(default=IDLE, kw_only=True)
    classes: Classes = field(default=anywhere, kw_only=True)
    put_last: str = field(default=NEVER, kw_only=True)

    def putting_last(self, what: str, name: str) -> DeadlineDispatcher:
        """The same rule, which puts some tasks last."""
        return replace(self, name=name, put_last=what)

    def run_all(
        self,
        problems: Sequence[Problem],
        realisations: Sequence[Realisation],
        seeds: Sequence[int],
        outages: Sequence[Outage] = (),
    ) -> list[Schedule]:
        """All problems in one call of the kernel; with outages one after the other."""
        keys = np.concatenate([self.order(problem) for problem in problems])

        def prepare(s: TaskState) -> DeadlineRule:
            s.learns[:] = self.profiles
            if outages:
                s.key[:] = keys
            return self.kernel_rule(problems, seeds)

        def run(rule: DeadlineRule, w: Tasks, f: Facts, s: TaskState) -> None:
            run_by_deadline(rule, w, f, s, keys)

        return Playing(prepare, run, play_by_deadline).all(problems, realisations, outages)

    def kernel_rule(self, problems: Sequence[Problem], seeds: Sequence[int]) -> DeadlineRule:
        """The rule for problems side by side."""
        width = max(problem.cluster.num_classes for problem in problems)
        tables = [self.classes(problem) for problem in problems]
        wide = [np.pad(table, ((0, 0), (0, width - table.shape[1]))) for table in tables]
        until = np.concatenate([self.until(problem) for problem in problems])
        allowed = np.ascontiguousarray(np.concatenate(wide))
        return DeadlineRule(self.place, allowed, until, _draws(seeds))

    def until(self, problem: Problem) -> Floats:
        """From when on every task is put last."""
        if self.put_last == NEVER:
            return np.full(problem.num_tasks, np.inf)
        due = due_times(problem)
        return due if self.put_last == LATE else due - fastest_left(problem)

    def rule(self, problems: Sequence[Problem], s: TaskState, seeds: Sequence[int]) -> TaskRule:
        """Keys, and as a tally what draws devices: the decider does the rest."""
        s.key[:] = np.concatenate([self.order(problem) for problem in problems])
        draws = _draws(seeds).astype(np.float64)
        return keyed_rule(VIRTUAL)._replace(tally=draws[:, None])  # starts nothing itself

    def grown(self, rule: TaskRule, problem: Problem, s: TaskState, seed: int, first: Place) -> TaskRule:
        """The same with a further problem; writes its keys."""
        last = first.task + problem.num_tasks
        s.key[first.task : last] = self.order(problem)
        return rule

    def decider(self, problem: Problem, rule: TaskRule) -> DeadlineDecider:
        """Who decides for one problem."""
        return DeadlineDecider(self, problem, rule)


def _draws(seeds: Sequence[int]) -> Ints:
    """A whole number below 2**53 for every seed, which a float holds exactly."""
    return np.array([int(2.0**53 * float(keyed_uniform(seed, DEVICES))) for seed in seeds], np.int64)


class DeadlineDecider:
    """A rule at work in a state of the task view with one environment."""

    def __init__(self, dispatcher: DeadlineDispatcher, problem: Problem, rule: TaskRule) -> None:
        self.title, self._dispatcher = dispatcher.name, dispatcher
        made = dispatcher.kernel_rule([problem], [0])
        self._rule = made._replace(draw=rule.tally[:, 0].astype(np.int64))

    def grow(self, rule: TaskRule, problem: Problem, first: int) -> None:
        """Learn of the tasks of a further problem, numbered from ``first``."""
        last, own, rule_ = first + problem.num_tasks, self._dispatcher, self._rule
        have = len(rule_.until)
        room = have if last <= have else max(last, 2 * have)
        allowed = np.ones((room, rule_.allowed.shape[1]), np.bool_)
        allowed[: len(rule_.allowed)] = rule_.allowed
        grown = rule_._replace(allowed=allowed, until=with_room(rule_.until, room, np.inf))
        grown.allowed[first:last] = own.classes(problem)
        grown.until[first:last] = own.until(problem)
        self._rule = grown

    def close_up(self, tasks: Ints) -> None:
        """Only these tasks are left, numbered anew in their order."""
        for column in (self._rule.until, self._rule.allowed):
            column[: len(tasks)] = column[tasks]

    def decide(self, w: Tasks, f: Facts, s: TaskState) -> None:
        """Start what the rule starts now."""
        if s.num_ready[ENV] > 0 and s.num_free[ENV] > 0:
            decide_by_deadline(self._rule, w, f, s, ENV)

    def can_start(self, w: Tasks, f: Facts, s: TaskState) -> bool:
        """Whether some ready task could start now."""
        return bool(s.num_ready[ENV] > 0 and s.num_free[ENV] == len(w.device_class))


RULES = {
    f"{order}-{place}": DeadlineDispatcher(f"{order}-{place}", order=key, place=how, classes=classes)
    for order, (key, _) in ORDERS.items()
    for place, (how, classes, _) in PLACES.items()
}
RULES |= {name: replace(RULES[f"{name}-fastest-idle"], name=name) for name in ("rm", "llf")}
"""All of them by name."""


def __getattr__(name: str) -> DeadlineDispatcher:
    """A rule as an attribute: ``rm_pinned``."""
    found = RULES.get(name.replace("_", "-"))
    if found is None:
        raise AttributeError(name)
    return found
