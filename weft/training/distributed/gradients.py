"""Several learners and parameter servers: synchronous with backups, asynchronous with bounded staleness, Gorila."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.policies.tensors import Array, below
from weft.training.distributed.apex import DRAW, Batch, Spread
from weft.training.distributed.collecting import About
from weft.training.distributed.config import OWN, SYNC
from weft.training.distributed.crew import Heard
from weft.training.distributed.learners import GradientLearner, Learns, Work, Worked, flat_of, load_flat
from weft.training.distributed.servers import ParameterServer, Pushed, Serves, slices
from weft.training.distributed.transport import Call, Part
from weft.training.run.metrics import Metric

WORK, PUSH, FETCH = "work", "push", "fetch"


@dataclass
class Student:
    """What is known of a learner."""

    is_busy: bool = False
    tag: int = -1
    """Version of the weights it has."""
    since_fetch: int = 0
    given: int = 0
    """Batches that it was given."""


@dataclass
class Fetched:
    """Weights of one version, in parts, on their way or there."""

    calls: dict[str, Call] = field(default_factory=dict)
    wanted: int = 0
    version: int = -1


class Gradients(Spread):
    """Learners push gradients to servers; the weights here are those fetched last."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        spread, config = self.spread, self.config
        self._students = {f"learner-{k}": Student() for k in range(spread.num_learners)}
        self._servers = [f"server-{k}" for k in range(spread.servers)]
        self._learns = Learns(self.net.architecture, config, spread.servers, spread.push_every)
        self._serves = Serves(
            spread.mode, spread.learners, spread.max_staleness, config.target_every, config.target_rate
        )
        self._cuts = slices(len(flat_of(self.net)), spread.servers)
        self._weights: Fetched | None = None
        self._coming: Fetched | None = None
        self._batches: dict[str, Batch] = {}  # learner -> batch on its way
        self._is_loaded = False
        self._num_worked = 0  # batches since the last row
        self.staleness: Counter[int] = Counter()
        """Staleness -> gradients that had it when they came."""
        self.dropped = 0
        """Gradients that came too late."""

    def _begin(self) -> None:
        if self._is_begun:
            return
        super()._begin()
        self._start_learning()

    def _start_learning(self, lives: int = 0) -> None:
        last = list(self._students)[-1]
        for role in self._students:
            slowness = self.spread.slowest if role == last else 1.0
            self.crew.add(role, GradientLearner, self._learns, slowness, life=lives)
        for role in self._servers:
            self.crew.add(role, ParameterServer, self._serves, life=lives)
        self.crew.on_lost = self._lost

    def _lost(self, role: str) -> None:
        """A learner begins again with the next weights; a server gets those that were fetched last."""
        if role in self._students:
            self._students[role] = Student()
        elif role in self._servers and self._is_loaded:
            self._load(*self._servers)  # all, lest some are steps ahead of others
            self._coming = None
            self._ask_fetch()
            for student in self._students.values():
                student.tag = -1
        else:
            self.collecting.forget(role)

    # Weights

    def _load(self, *roles: str) -> None:
        """Give servers the weights as they are here."""
        weights, target = flat_of(self.net), flat_of(self.target)
        for role in roles:
            own = self._cuts[self._servers.index(role)]
            self.crew.ask(role, "load", weights[own], target[own], self.learned, about=About("load"))

    def _ask_fetch(self) -> None:
        """Have the newest weights sent."""
        if self._coming is not None:
            return
        self._coming = Fetched(wanted=len(self._servers))
        for role in self._servers:
            self.crew.ask(role, FETCH, parts=3, about=About(FETCH, self._coming))

    def _take_weights(self, heard: Heard) -> None:
        coming: Fetched = heard.about.what
        if coming is not self._coming:
            self.crew.drop(heard.call)
            return
        if heard.is_lost:  # asked for again when the server was started again
            return
        coming.calls[heard.call.role] = heard.call
        if len(coming.calls) < coming.wanted:
            return
        calls = [coming.calls[role] for role in self._servers]
        coming.version = min(self.crew.value(call) for call in calls)
        load_flat(self.net, np.concatenate([self.crew.value(call, 1) for call in calls]))
        load_flat(self.target, np.concatenate([self.crew.value(call, 2) for call in calls]))
        self.learning.learned = coming.version
        for call in (self._weights.calls if self._weights else {}).values():
            self.crew.drop(call)
        self._weights, self._coming = coming, None

    # Work

    def _learn(self) -> None:
        """Give every learner that waits a batch."""
        if not self._can_learn():
            return
        if not self._is_loaded:
            if self.learned == 0 and not self._is_started:
                self.learning.set_level(self.collecting.level())
            self._is_loaded = True
            self._load(*self._servers)
            self._ask_fetch()
        if self._weights is None:
            return
        by_turn = sorted(self._students.items(), key=lambda one: one[1].given)
        for role, student in by_turn:
            is_due = self.spread.mode != SYNC or student.tag < self._weights.version
            if not student.is_busy and is_due and self._can_learn():
                self._draw(role)

    def _draw(self, role: str) -> None:
        """Ask for a batch of a learner."""
        own = [list(self.collecting.shards)[list(self._students).index(role)]] if self._has_own else None
        level = self._levels.uniform()
        shares = self.collecting.shares(level, own)
        if shares is None:
            return
        self._owed -= self.config.minibatch
        self._students[role].is_busy = True
        self._students[role].given += 1
        self._batches[role] = batch = Batch(0, len(shares), round(self.config.uniform_share * len(level)))
        for shard, share in shares.items():
            self.crew.ask(shard, DRAW, share, parts=2, about=About(DRAW, (role, batch)))

    @property
    def _has_own(self) -> bool:
        return self.spread.replay == OWN

    def _take(self, heard: Heard) -> bool:
        kind = heard.about.kind
        if kind == DRAW:
            self._take_draw(heard)
        elif kind == FETCH:
            self._take_weights(heard)
        elif kind == WORK:
            self._take_work(heard)
        elif kind == PUSH:
            self._take_push(heard)
        return kind in (DRAW, FETCH, WORK, PUSH, "load")

    def _take_draw(self, heard: Heard) -> None:
        """Once all of a batch is there, it is handed on to its learner without being read here."""
        role, batch = heard.about.what
        batch.calls[heard.call.role], batch.lives[heard.call.role] = heard.call, heard.life
        batch.is_lost = batch.is_lost or heard.is_lost
        if not heard.is_lost:
            batch.standings[heard.call.role] = self.crew.value(heard.call)
            self.collecting.note_standing(heard)
        if len(batch.calls) < batch.wanted:
            return
        student = self._students[role]
        if batch.is_lost or self._weights is None:
            student.is_busy = False
            self._owed += self.config.minibatch
        else:
            self._send(role, student, batch, self._weights)
        for call in batch.calls.values():
            self.crew.drop(call)

    def _send(self, role: str, student: Student, batch: Batch, weights: Fetched) -> None:
        fetches = student.tag < 0 or student.since_fetch >= self.spread.fetch_every
        fetches = fetches and student.tag != weights.version
        student.since_fetch = 1 if fetches else student.since_fetch + 1
        given: list[Part] = []
        if fetches:
            student.tag = weights.version
            given = [Part(weights.calls[name], which) for which in (1, 2) for name in self._servers]
        shards = [name for name in self.collecting.shards if name in batch.calls]
        whole = shards if self._has_own else list(self.collecting.shards)
        order = Work(
            student.tag if fetches else -1,
            self._learning_rate(),
            self.beta,
            batch.num_uniform,
            tuple(batch.standings.get(name, self.collecting.shards[name]) for name in whole),
        )
        parts = [Part(batch.calls[name], 1) for name in shards]
        about = About(WORK, {name: batch.lives[name] for name in shards})
        self.crew.ask(role, WORK, order, *given, *parts, parts=1 + len(self._servers), about=about)

    def _take_work(self, heard: Heard) -> None:
        """Push a gradient; its errors go back to the shards."""
        role = heard.call.role
        if heard.is_lost:
            self._owed += self.config.minibatch
            return
        self._students[role].is_busy = False
        worked: Worked = self.crew.value(heard.call)
        lives: dict[str, int] = heard.about.what
        for (shard, life), stamps, errors in zip(lives.items(), worked.stamps, worked.errors, strict=True):
            self.collecting.set_errors(shard, life, stamps, errors)
        self.learning.sums += self.learning.sums.new_tensor(worked.sums)
        self._num_worked += 1
        if worked.is_pushed:
            index = list(self._students).index(role)
            for k, server in enumerate(self._servers):
                part = Part(heard.call, 1 + k)
                about = About(PUSH, k == 0)
                self.crew.ask(server, PUSH, worked.tag, index, self._learning_rate(), part, about=about)
        self.crew.drop(heard.call)

    def _take_push(self, heard: Heard) -> None:
        """Count what became of a gradient, once for all servers; newer weights are fetched."""
        if heard.is_lost:
            return
        pushed: Pushed = self.crew.value(heard.call)
        self.crew.drop(heard.call)
        if not heard.about.what:
            return
        self.staleness[pushed.staleness] += 1
        if pushed.is_accepted:
            self.drawn += self.config.minibatch * self.spread.push_every
        else:
            self.dropped += 1
            self._owed += self.config.minibatch * self.spread.push_every
        if self._weights is None or pushed.version > self._weights.version:
            self._ask_fetch()

    def _is_behind(self) -> bool:
        return self._can_learn() if self.spread.is_here else self._has_to_wait()

    def _has_to_wait(self) -> bool:
        if self.spread.is_here and not self.collecting.is_settled:
            return True
        is_much = self._owed >= self.config.minibatch * (1 + self.spread.ahead)
        return (is_much and self._can_learn()) or self.collecting.is_full

    def _figures(self) -> dict[str, Metric]:
        count = sum(self.staleness.values())
        mean = sum(k * n for k, n in self.staleness.items()) / count if count else 0.0
        return {"gradient_staleness": mean, "dropped_gradients": self.dropped, "steps": self.learned}

    # State

    def state(self) -> dict[str, Array]:
        """What the next update depends on."""
        self._begin()
        owed, busy = self._owed, sum(one.is_busy for one in self._students.values())
        self._owed += busy * self.config.minibatch
        found = {**self._own_state(), **self.collecting.state()}
        self._owed = owed
        if self._is_loaded:
            for role in self._servers:
                own = self.crew.answer(role, "state") or {}
                found |= {f"{role}/{name}": array for name, array in own.items()}
        return found

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self._restore_own(state)
        self.collecting.restore(state)
        self._start_learning(1)
        self._is_begun = True
        if f"{self._servers[0]}/version" in state:
            for role in self._servers:
                self.crew.answer(role, "restore", below(f"{role}/", state))
            self._is_loaded = True
            self._ask_fetch()
