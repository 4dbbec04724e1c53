"""Actors and shards at work for a learner: orders out, blocks to shards, batches in; what DQN does in one loop, spread.

Nothing here learns: :class:`weft.training.distributed.apex.Apex` and the learners of ``gradients.py`` do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from weft.errors import WeftError
from weft.policies.candidates.architecture import CandidateArchitecture
from weft.policies.tensors import Array, below
from weft.training.distributed.actor import Actor, Acts, EnvMaker, Order, Report
from weft.training.distributed.config import OWN, Distributed
from weft.training.distributed.crew import Crew, Heard
from weft.training.distributed.scheduler import ConfigScheduler
from weft.training.distributed.shards import ReplayShard, Share, Standing, shares_of
from weft.training.distributed.transport import Call, Part, Transport
from weft.training.dqn.config import DQNConfig
from weft.training.environment import Floats, episode_figures
from weft.training.replay import ReplayShape, level_of
from weft.training.run.metrics import Metric

COLLECT, ADD, ERRORS, FIGURES = "collect", "add", "set_errors", "figures"
MOST_BLOCKS = 4
"""Blocks on their way to a shard, beyond which actors wait."""


class About(NamedTuple):
    """What a call is about."""

    kind: str
    what: Any = None


@dataclass
class Tally:
    """What happened since the last row."""

    rewards: float = 0.0
    decisions: int = 0
    episodes: list[tuple[float, int]] = field(default_factory=list)
    lags: list[int] = field(default_factory=list)
    """Versions by which blocks were behind when they came."""
    epsilon: float = 0.0
    started: float = field(default_factory=time.perf_counter)


@dataclass
class Member:
    """What is known of an actor."""

    orders: int = 0
    """Given and not answered."""
    number: int = 0
    """Of the next order in this life."""
    version: int = -1
    """Of the weights that it was sent last."""
    figures: Mapping[str, float | None] = field(default_factory=dict)


class Collecting:
    """The acting half of spread training.

    Parameters
    ----------
    maker
        Makes environments wherever actors are.
    kept
        What all shards together have room for.
    """

    def __init__(
        self,
        transport: Transport,
        maker: EnvMaker,
        kept: ReplayShape,
        architecture: CandidateArchitecture,
        config: DQNConfig,
        spread: Distributed,
        seed: int,
        scheduler: ConfigScheduler | None,
        on_notice: Any,
    ) -> None:
        self.spread, self._config = spread, config
        self.crew = Crew(transport, spread.max_failures, self.forget, on_notice)
        self.scheduler = scheduler
        has_errors = config.knows_errors(spread.actors)
        self._acts = Acts(maker, architecture, config, seed, spread.actors, has_errors)
        self._shape = replace(
            kept, decisions=kept.decisions // spread.shards, rows=kept.rows // spread.shards
        )
        width = kept.num_world + kept.num_columns
        self.actors = {f"actor-{k}": Member() for k in range(spread.actors)}
        self.shards = {f"shard-{k}": Standing() for k in range(spread.shards)}
        self.tally = Tally()
        self.ranges: Floats = np.repeat([[np.inf], [-np.inf]], width, 1)
        self.counted: dict[tuple[str, int], int] = {}
        """Actor and life -> number of the last order whose block was counted."""
        self.lost_decisions = 0
        """Made, counted, and gone with a shard."""
        self._blocks = 0
        self.num_blocks = 0
        """Blocks that came."""
        self.actor_seconds = 0.0
        """What actors spent on them, all together."""
        self._writes = 0  # blocks and errors on their way to shards
        self._adds = 0  # blocks alone
        self._weights: tuple[int, Part] | None = None
        self._rate = 0.0  # decisions per second, of the last row in which there were any

    def start(self, lives: int = 0) -> None:
        """Start all roles."""
        for k, role in enumerate(self.actors):
            self.crew.add(role, Actor, self._acts, k, life=lives)
        for role in self.shards:
            self.crew.add(
                role, ReplayShard, self._shape, self._config.alpha, self._config.priority_epsilon, life=lives
            )

    # Orders

    def publish(self, version: int, weights: object) -> None:
        """From now on actors get these weights with their orders."""
        if self._weights is not None:
            self.crew.drop(self._weights[1].call)
        self._weights = version, self.crew.put(weights)

    @property
    def version(self) -> int:
        """Of the weights that are published; -1: none are."""
        return -1 if self._weights is None else self._weights[0]

    @property
    def is_settled(self) -> bool:
        """Whether shards have all that was sent to them."""
        return self._writes == 0

    @property
    def is_full(self) -> bool:
        """Whether shards have as many blocks before them as they may."""
        return self._adds >= MOST_BLOCKS * len(self.shards)

    def order(self, collected: int) -> None:
        """Give every actor that has room another order."""
        if self._weights is None:
            raise WeftError("no weights are published")
        version, part = self._weights
        for role, member in self.actors.items():
            while member.orders < self.spread.in_flight:
                leases = (
                    () if self.scheduler is None else self.scheduler.leases_for(role, self._config.num_envs)
                )
                order = Order(member.number, self.spread.block, collected, version, leases)
                is_new = member.version != version
                given = part if is_new else None
                self.crew.ask(role, COLLECT, order, given, parts=2, about=About(COLLECT, order))
                member.orders += 1
                member.number += 1
                member.version = version

    # Answers

    def handle(self, heard: Heard) -> int:
        """Take an answer that concerns actors or what they sent; returns how many decisions were made."""
        about: About = heard.about
        if about.kind == COLLECT:
            if heard.is_lost:
                return 0
            self.actors[heard.call.role].orders -= self.crew.is_of_now(heard)
            return self._counted(heard.call)
        if about.kind in (ADD, ERRORS):
            self._writes -= 1
            self._adds -= about.kind == ADD
            if heard.is_lost:
                self.lost_decisions += about.what if about.kind == ADD else 0
            else:
                self.note_standing(heard)
            self.crew.drop(heard.call)
            return 0
        if about.kind == FIGURES and not heard.is_lost:
            self.actors[heard.call.role].figures = self.crew.value(heard.call)
            self.crew.drop(heard.call)
        return 0

    def _counted(self, call: Call) -> int:
        """Count a block once and hand it on to a shard."""
        report: Report = self.crew.value(call)
        key = report.actor, report.life
        if report.number <= self.counted.get(key, -1):
            raise WeftError(f"block {report.number} of {report.actor} came twice")
        self.counted[key] = report.number
        tally = self.tally
        self.num_blocks += 1
        self.actor_seconds += report.seconds
        tally.rewards += report.rewards
        tally.decisions += report.decisions
        tally.episodes += report.episodes
        tally.lags.append(max(0, self.version - report.version))
        tally.epsilon = report.epsilon
        self.ranges[0] = np.minimum(self.ranges[0], report.ranges[0])
        self.ranges[1] = np.maximum(self.ranges[1], report.ranges[1])
        if self.scheduler is not None:
            for one in report.leases:
                self.scheduler.report(report.actor, one)
        self.crew.ask(self._shard_for(report.actor), ADD, Part(call, 1), about=About(ADD, report.decisions))
        self.crew.drop(call)
        self._writes += 1
        self._adds += 1
        return report.decisions

    def _shard_for(self, actor: str) -> str:
        """Shards in turn; with a replay of their own, learners get the blocks of their own actors."""
        roles = list(self.shards)
        if self.spread.replay == OWN:
            return roles[list(self.actors).index(actor) % len(roles)]
        self._blocks += 1
        return roles[(self._blocks - 1) % len(roles)]

    def forget(self, role: str) -> None:
        """A role began another life: what it had is gone."""
        if role in self.actors:
            self.actors[role] = Member()
            if self.scheduler is not None:
                self.scheduler.give_back(role)
        elif role in self.shards:
            self.shards[role] = Standing()

    # Drawing

    def shares(self, level: Floats, roles: Sequence[str] | None = None) -> dict[str, Share] | None:
        """What to draw from which shard; None: nothing can be drawn yet."""
        names = list(self.shards) if roles is None else list(roles)
        standings = [self.shards[name] for name in names]
        if not any(one.num_ready and one.total > 0.0 for one in standings):
            return None
        found = shares_of(level, self._config.uniform_share, standings)
        return {name: share for name, share in zip(names, found, strict=True) if share is not None}

    def note_standing(self, heard: Heard) -> None:
        """Remember what a shard says of itself, unless that was in an earlier life."""
        if self.crew.is_of_now(heard):
            self.shards[heard.call.role] = self.crew.value(heard.call)

    def set_errors(self, role: str, life: int, *given: object) -> None:
        """Let a shard know the errors of what was drawn from it; another life of it knows nothing of that."""
        if life == self.crew.lives[role]:
            self.crew.ask(role, ERRORS, *given, about=About(ERRORS))
            self._writes += 1

    def level(self) -> float:
        """What a state is worth if all are worth the same, by what all shards keep."""
        sums = [self.crew.answer(role, "level_sums") or (0.0, 0.0) for role in self.shards]
        return level_of(sum(one[0] for one in sums), sum(one[1] for one in sums))

    # Log and state

    def ask_figures(self) -> None:
        """Have actors say what their environments report."""
        for role in self.actors:
            self.crew.ask(role, FIGURES, about=About(FIGURES))

    def row(self) -> dict[str, Metric]:
        """What was collected since the last row."""
        tally, self.tally = self.tally, Tally()
        standings = list(self.shards.values())
        found: dict[str, Metric] = {
            **episode_figures(tally.episodes),
            "epsilon": tally.epsilon,
            "replay_fill": sum(one.fill for one in standings) / len(standings),
            "decisions_per_second": self._rate_of(tally),
            **means_of([member.figures for member in self.actors.values()]),
            "staleness": sum(tally.lags) / len(tally.lags) if tally.lags else 0.0,
            "restarts": self.crew.restarts,
            "lost_decisions": self.lost_decisions,
        }
        return found if self.scheduler is None else {**found, **self.scheduler.figures()}

    def _rate_of(self, tally: Tally) -> float:
        """Decisions per second; the first time by what actors spent at work, so that starting them does not count."""
        seconds = time.perf_counter() - tally.started
        if not self._rate:
            seconds = min(seconds, self.actor_seconds / len(self.actors))
        if tally.decisions:
            self._rate = round(tally.decisions / max(seconds, 1e-9), 1)
        return self._rate

    def state(self) -> dict[str, Array]:
        """What a resumed run needs; of roles elsewhere only how often they lived, and of shards on request."""
        saves_shards = self.spread.is_here or self.spread.is_replay_saved
        roles = [*(self.actors if self.spread.is_here else ()), *(self.shards if saves_shards else ())]
        found: dict[str, Array] = {}
        for role in roles:
            for name, array in (self.crew.answer(role, "state") or {}).items():
                found[f"{role}/{name}"] = array
        lives = max(self.crew.lives.values(), default=0)
        counts = [lives, self.crew.failures, self.crew.restarts, self.lost_decisions, self._blocks]
        numbers = [member.number for member in self.actors.values()]
        own = {"spread.counts": np.array(counts), "spread.orders": np.array(numbers), "ranges": self.ranges}
        return {**found, **own, **({} if self.scheduler is None else self.scheduler.state())}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned: actors elsewhere begin another life."""
        counts = state["spread.counts"].astype(np.int64).tolist()
        lives, self.crew.failures, self.crew.restarts, self.lost_decisions, self._blocks = counts
        self.ranges[:] = state["ranges"].astype(np.float64)
        if self.scheduler is not None:
            self.scheduler.restore(state)
        self.start(lives if self.spread.is_here else lives + 1)
        for role in (*self.actors, *self.shards):
            if own := below(f"{role}/", state):
                self.crew.answer(role, "restore", own)
        if self.spread.is_here:
            for member, number in zip(self.actors.values(), state["spread.orders"].tolist(), strict=True):
                member.number = int(number)
        elif self.scheduler is not None:
            for role in self.actors:
                self.scheduler.give_back(role)
        for role in self.shards:
            self.shards[role] = self.crew.answer(role, "standing") or Standing()


def means_of(figures: Sequence[Mapping[str, float | None]]) -> dict[str, Metric]:
    """The means of what several report under the same names."""
    found: dict[str, Metric] = {}
    for name in dict.fromkeys(name for one in figures for name in one):
        known = [value for one in figures if (value := one.get(name)) is not None]
        found[name] = known[0] if len(known) == 1 else sum(known) / len(known) if known else None
    return found
