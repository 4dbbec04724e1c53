"""A trained policy that picks the next task, as a dispatcher of single tasks: in the simulator and in sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from weft.errors import InputError
from weft.model.graph import Ints
from weft.model.problem import Problem, Realisation
from weft.model.schedule import Schedule
from weft.policies.checkpoint import Card, load_policy
from weft.policies.picks.architecture import PickArchitecture
from weft.policies.picks.forward import Embedded, PickPolicy
from weft.schedulers.dispatchers.deciding import DecidingDispatcher
from weft.schedulers.dispatchers.outages import Outage, moves_of
from weft.schedulers.dispatchers.peers import copy_rows
from weft.schedulers.own import Run
from weft.sim.tasks.deft import place
from weft.sim.tasks.picks import FEATURE_VERSION, STYLES, WORLD, PickKnown, known_of, new_seen, see
from weft.sim.tasks.rules import TaskRule
from weft.sim.tasks.state import NUM_ASKED, Facts, Tasks, TaskState

ENV = 0


@dataclass(frozen=True)
class PickDispatcher(DecidingDispatcher):
    """A policy that picks ready tasks one by one while some device has room; each is placed by DEFT."""

    policy: PickPolicy = field(kw_only=True)

    @property
    def binds_ahead(self) -> bool:
        """DEFT places tasks on busy devices too."""
        return True

    def run_all(
        self,
        problems: Sequence[Problem],
        worlds: Sequence[Realisation],
        seeds: Sequence[int],
        outages: Sequence[Outage] = (),
    ) -> list[Schedule]:
        """One problem after the other."""
        found = []
        for problem, world in zip(problems, worlds, strict=True):
            run = Run(problem, world, outages, copy_rows(moves_of(outages, problem), problem))
            found.append(run.play(PickDecider(self, problem)))
        return found

    def decider(self, problem: Problem, rule: TaskRule) -> PickDecider:
        return PickDecider(self, problem)


class PickDecider:
    """Shows the policy jobs and ready tasks of a state with one environment, and places what it picks."""

    def __init__(self, dispatcher: PickDispatcher, problem: Problem) -> None:
        self.title, self._policy = dispatcher.name, dispatcher.policy
        self._copies = bool(problem.objective.copies)
        self._known, self._nodes = self._embedded(problem)
        self._envs = np.zeros(1, np.int64)
        self._seen = new_seen(1, 0, 0, self._nodes.shape[1])

    def _embedded(self, problem: Problem) -> tuple[PickKnown, np.ndarray]:
        made: Embedded = self._policy.embed([problem])
        return known_of([problem], made.pooled), made.nodes

    def grow(self, rule: TaskRule, problem: Problem, first: int) -> None:
        """Learn of the tasks of a further problem, numbered from ``first``."""
        known, nodes = self._embedded(problem)
        pairs = ((getattr(self._known, name), getattr(known, name)) for name in PickKnown._fields)
        self._known = PickKnown(*(_put(old, new, first) for old, new in pairs))
        self._nodes = _put(self._nodes, nodes, first)

    def close_up(self, tasks: Ints) -> None:
        """Only these tasks are left, numbered anew in their order."""
        for column in (*self._known, self._nodes):
            column[: len(tasks)] = column[tasks]

    def decide(self, w: Tasks, f: Facts, s: TaskState) -> None:
        """Pick and place while some task is ready and some device has room; what no device can take is passed over."""
        passed: list[int] = []
        while s.num_ready[ENV] > len(passed) and s.num_free[ENV] > 0 and not s.overflow[ENV]:
            s.count[ENV, NUM_ASKED] += 1
            task = self._pick(w, f, s, passed)
            if place(w, f, s, ENV, task, self._copies) < 0:
                passed.append(task)

    def _pick(self, w: Tasks, f: Facts, s: TaskState, passed: list[int]) -> int:
        """The ready task with the greatest score, ties by number."""
        if s.num_ready[ENV] == 1:
            return int(s.ready[w.task_ptr[ENV]])
        self._make_room(w)
        see(self._known, w, f, s, self._envs, self._seen)
        tasks = self._seen.task[: self._seen.task_ptr[1]]
        scores = self._policy.logits(self._nodes, self._seen, 1)
        if passed:
            scores[np.isin(tasks, passed)] = -np.inf
        return int(tasks[scores.argmax()])

    def _make_room(self, w: Tasks) -> None:
        """Buffers for as many jobs and tasks as there are."""
        jobs, tasks = len(w.job_release), len(w.job)
        if jobs > len(self._seen.job) or tasks > len(self._seen.task):
            self._seen = new_seen(1, jobs, tasks, self._nodes.shape[1])

    def can_start(self, w: Tasks, f: Facts, s: TaskState) -> bool:
        """Whether some ready task could start now."""
        return bool(s.num_ready[ENV] > 0 and s.num_free[ENV] > 0)


def _put(old: np.ndarray, new: np.ndarray, first: int) -> np.ndarray:
    """The column with further rows from ``first`` on."""
    last = first + len(new)
    grown = old
    if last > len(old):
        grown = np.zeros((max(last, 2 * len(old)), *new.shape[1:]), new.dtype)
        grown[: len(old)] = old
    grown[first:last] = new
    return grown


def pick_architecture(style: str, hidden: int) -> PickArchitecture:
    """The net of a style."""
    columns = STYLES[style]
    return PickArchitecture(len(columns.node), len(columns.job), len(columns.pick), len(WORLD), hidden, style)


@cache
def load_picker(name: str) -> PickDispatcher:
    """The policy of a weights file, of its card or of a run folder, if it picks tasks."""
    weights, card = load_policy(name)
    try:
        return PickDispatcher(name, policy=PickPolicy(weights, checked_shape(card), card))
    except InputError as error:
        raise error.at(file=name) from None


def checked_shape(card: Card) -> PickArchitecture:
    """The shape of a net that picks tasks, if it sees what is seen here."""
    shape = card.architecture
    if not isinstance(shape, PickArchitecture):
        raise InputError(f"{card.name} does not pick tasks", field="architecture")
    if card.feature_version != FEATURE_VERSION:
        raise InputError(
            f"trained on another feature version: expected {FEATURE_VERSION!r}, got {card.feature_version!r}",
            field="feature_version",
        )
    if shape != pick_architecture(shape.style, shape.hidden):
        raise InputError(f"expected the features of style {shape.style}", field="architecture")
    return shape
