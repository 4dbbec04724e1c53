"""A trained policy as a dispatcher of single tasks: in the simulator, in sessions, wherever a name will do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from weft.errors import InputError
from weft.model.graph import Ints
from weft.model.problem import Problem, Realisation
from weft.model.schedule import Schedule
from weft.policies.candidates.architecture import CandidateArchitecture
from weft.policies.candidates.forward import CandidatePolicy
from weft.policies.checkpoint import Card, load_policy
from weft.policies.oneshot.encoder_shape import EncoderShape
from weft.schedulers.dispatchers.deciding import DecidingDispatcher
from weft.schedulers.dispatchers.outages import Outage, moves_of
from weft.schedulers.dispatchers.peers import copy_rows
from weft.schedulers.dispatchers.tasks import with_room
from weft.schedulers.own import Run
from weft.sim.tasks.ahead import Ahead, look_ahead, new_ahead
from weft.sim.tasks.candidates import (
    FEATURE_VERSION,
    WORLD,
    CandidateSight,
    base_of,
    check_sight,
    columns_of,
    known_of,
    list_candidates,
    new_listed,
    prepare,
    rule_of,
)
from weft.sim.tasks.deft import start_behind_copy
from weft.sim.tasks.features import Known
from weft.sim.tasks.moves import commit
from weft.sim.tasks.rules import LATE, TaskRule
from weft.sim.tasks.state import NUM_ASKED, Facts, Tasks, TaskState
from weft.sim.tasks.weights import PRICED, check_weights

ENV = 0
ALGORITHMS = ("candidate-ppo", "candidate-dqn")
"""Those whose nets point at candidates."""


@dataclass(frozen=True)
class CandidateDispatcher(DecidingDispatcher):
    """A policy that starts candidates one by one until it waits; its rule orders them and starts nothing."""

    device: int = LATE
    weights: tuple[float, ...] = PRICED
    """Of the base rule, which orders the candidates and whose choice is marked; those of training."""
    policy: CandidatePolicy = field(kw_only=True)
    sight: CandidateSight = field(kw_only=True)

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
            more = copy_rows(moves_of(outages, problem), problem) if self.sight.copies else 0
            run = Run(problem, world, outages, more)
            run.s.learns[:] = self.profiles
            found.append(run.play(CandidateDecider(self, prepare([problem], run.s, self.weights))))
        return found

    @property
    def copies(self) -> bool:
        return self.sight.copies

    def rule(self, problems: Sequence[Problem], s: TaskState, seeds: Sequence[int]) -> TaskRule:
        """The order of the candidates, without prices yet."""
        return rule_of(problems, self.weights)

    def decider(self, problem: Problem, rule: TaskRule) -> CandidateDecider:
        """Who decides for one problem, with the prices that the rule will have."""
        return CandidateDecider(self, known_of([problem], rule))


class CandidateDecider:
    """Lists candidates in a state of the task view and starts what the policy points at."""

    def __init__(self, dispatcher: CandidateDispatcher, known: Known) -> None:
        self.title, self._policy, self._sight = dispatcher.name, dispatcher.policy, dispatcher.sight
        self._known = known
        choices = self._sight.num_choices
        self._listed = new_listed(choices)
        self._observation = np.zeros(self._sight.num_features, np.float32)
        self._mask = np.zeros(choices, np.bool_)
        self._ahead: tuple[Tasks, TaskState, Ahead] | None = None

    def grow(self, rule: TaskRule, problem: Problem, first: int) -> None:
        """Learn of the tasks of a further problem, numbered from ``first``; the rule has grown for them."""
        last, columns = first + problem.num_tasks, self._known[3:]
        room = last if last <= len(columns[0]) else max(last, 2 * len(columns[0]))
        grown = [with_room(column, room) for column in columns]
        for column, own in zip(grown, columns_of(problem), strict=True):
            column[first:last] = own
        self._known = Known(rule, base_of(rule), self._known.copies, *grown)

    def close_up(self, tasks: Ints) -> None:
        """Only these tasks are left, numbered anew in their order."""
        for column in self._known[3:]:
            column[: len(tasks)] = column[tasks]

    def decide(self, w: Tasks, f: Facts, s: TaskState) -> None:
        """Start candidates until the policy waits or none is left; ``s.wake`` is when to ask again."""
        while self.can_start(w, f, s):
            s.count[ENV, NUM_ASKED] += 1
            listed, count = self._listed, int(self._listed.count[0])
            chosen = self._policy.decide(self._observation, self._mask)
            if chosen >= count:
                s.wake[ENV] = min(s.wake[ENV], listed.later[0])
                return
            if self._sight.stages == 2 and listed.picked[0] < 0:
                listed.picked[0] = listed.task[chosen]
                continue
            listed.picked[0] = -1
            start = start_behind_copy if listed.copies[chosen] else commit
            start(w, f, s, ENV, int(listed.task[chosen]), int(listed.device[chosen]))

    def can_start(self, w: Tasks, f: Facts, s: TaskState) -> bool:
        """Whether some ready task could start now; lists the candidates."""
        if s.num_ready[ENV] == 0 or s.num_free[ENV] == 0:
            return False
        listed, mask = self._listed, self._mask
        can_wait = list_candidates(self._sight, self._known, w, f, s, ENV, listed, self._observation)
        mask[:] = np.arange(len(mask)) < listed.count[0]
        mask[-1] = can_wait
        if self._sight.ahead:
            rows = self._observation[len(WORLD) :].reshape(len(mask), -1)
            look_ahead(self._sight, self._known, s, self._room_for(w, s), ENV, listed, rows)
        return bool(listed.count[0] > 0)

    def _room_for(self, w: Tasks, s: TaskState) -> Ahead:
        """Where to play ahead, made anew when the state has grown."""
        if self._ahead is None or self._ahead[0] is not w or self._ahead[1] is not s:
            self._ahead = w, s, new_ahead(w, s)
        return self._ahead[2]


@cache
def load_dispatcher(name: str) -> CandidateDispatcher:
    """The policy of a weights file, of its card or of a run folder, if it acts on single tasks."""
    weights, card = load_policy(name)
    try:
        shape = _shape(card)
        sight = _sight(card)
        _refuse_other_size(shape, sight)
        policy = CandidatePolicy(weights, shape, card)
        base = _base(card)
        return CandidateDispatcher(name, weights=base, profiles=sight.profile, policy=policy, sight=sight)
    except InputError as error:
        raise error.at(file=name) from None


def _shape(card: Card) -> CandidateArchitecture:
    """The net, if it points at candidates as they are seen now."""
    shape = card.architecture
    if isinstance(shape, EncoderShape):
        raise InputError(
            f"{card.name} plans whole graphs: as a dispatcher it is plan:WEIGHTS", field="scheduler"
        )
    if not isinstance(shape, CandidateArchitecture):
        raise InputError(
            f"{card.name} acts on queues by kind (one repeated job) or elastic tasks, not on single tasks",
            field="scheduler",
        )
    if card.feature_version != FEATURE_VERSION:
        raise InputError(
            f"trained on another feature version: expected {FEATURE_VERSION!r}, got {card.feature_version!r}",
            field="feature_version",
        )
    if card.algorithm not in ALGORITHMS:
        raise InputError(f"expected {' or '.join(ALGORITHMS)}, got {card.algorithm!r:.60}", field="algorithm")
    return shape


def _refuse_other_size(shape: CandidateArchitecture, sight: CandidateSight) -> None:
    sizes, here = (shape.world, shape.column), (len(WORLD), len(sight.columns))
    if sizes != here:
        raise InputError(f"expected {here[0]} and {here[1]} features, got {sizes}", field="architecture")


def _base(card: Card) -> tuple[float, ...]:
    """Weights of the base rule of training; of a number that is none, its place is told."""
    given = card.training.get("base", PRICED)
    for k, weight in enumerate(given if isinstance(given, list | tuple) else ()):
        if isinstance(weight, float) and not np.isfinite(weight):
            raise InputError(f"expected a finite number, got {weight}", field=f"training.base[{k}]")
    return check_weights(given, "training.base")


def _sight(card: Card) -> CandidateSight:
    stored = card.training.get("sight")
    known = CandidateSight._fields
    if not isinstance(stored, dict) or not {"tasks", "pools"} <= set(stored) <= set(known):
        raise InputError(
            f"expected a table with tasks and pools, of {', '.join(known)}, got {stored!r:.60}",
            field="training.sight",
        )
    return check_sight(CandidateSight(**stored))
