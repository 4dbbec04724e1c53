"""Ape-X (Horgan et al., 2018): many actors, replay in shards, one learner at a fixed replay ratio."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.errors import WeftError
from weft.policies.checkpoint import Card, Weights
from weft.policies.tensors import Array
from weft.training.distributed.actor import EnvMaker
from weft.training.distributed.collecting import About, Collecting
from weft.training.distributed.config import Distributed
from weft.training.distributed.crew import Heard
from weft.training.distributed.scheduler import ConfigScheduler
from weft.training.distributed.shards import Standing, batch_of
from weft.training.distributed.transport import Call, Transport
from weft.training.dqn.config import DQNConfig
from weft.training.dqn.learner import QLearner
from weft.training.dqn.learning import replay_shape
from weft.training.optimiser import one_thread
from weft.training.run.metrics import Metric

DRAW = "draw"


@dataclass
class Batch:
    """A batch on its way: parts of it come from several shards."""

    number: int
    wanted: int
    num_uniform: int
    calls: dict[str, Call] = field(default_factory=dict)
    lives: dict[str, int] = field(default_factory=dict)
    """Shard -> its life when it was asked."""
    standings: dict[str, Standing] = field(default_factory=dict)
    is_lost: bool = False


class Spread(QLearner):
    """A :class:`weft.training.run.folder.Learner` whose decisions are collected by actors; who learns is added below.

    Parameters
    ----------
    maker
        Makes environments, here and wherever actors are.
    """

    def __init__(
        self,
        transport: Transport,
        maker: EnvMaker,
        config: DQNConfig,
        spread: Distributed,
        *,
        seed: int = 0,
        device: str = "cpu",
        start: Mapping[str, Array] | None = None,
        card: Card | None = None,
        scheduler: ConfigScheduler | None = None,
        on_notice: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.spread = spread.effective
        env = maker.env(1)  # only to know what is seen: actors have their own
        super().__init__(env, config, seed=seed, device=device, start=start, card=card)
        shape = self.net.architecture
        self.collecting = Collecting(
            transport,
            maker,
            replay_shape(env, config),
            shape,
            config,
            self.spread,
            seed,
            scheduler,
            on_notice,
        )
        self.crew = self.collecting.crew
        self._is_begun = False

    def step(self) -> dict[str, Metric]:
        """One update: as many decisions as the configuration says, and the learning that they are owed."""
        learned = self.learned
        self.learning.sums.zero_()
        self._begin()
        with one_thread():
            while self.collected < (self.update + 1) * self.config.batch or self._is_behind():
                self._pump()
            self.collecting.ask_figures()
            while self.spread.is_here and self.crew.num_pending:
                self._hear(None)
        self.update += 1
        tally = self.collecting.tally
        last = self._recent[-1] if self.update > 1 else 0.0  # where only learning was left to do
        mean = tally.rewards / tally.decisions if tally.decisions else float(last)
        return self._log(mean, self.learned - learned, {**self.collecting.row(), **self._figures()})

    def _begin(self) -> None:
        """Start all roles, once."""
        if not self._is_begun:
            self._is_begun = True
            self.collecting.start()

    def _is_behind(self) -> bool:
        """Whether an update cannot end yet: here, nothing that is owed is left to the next one, elsewhere no more than allowed."""
        if self.spread.is_here:
            return self.crew.num_pending > 0 or self._can_learn()
        return self._has_to_wait()

    def _can_learn(self) -> bool:
        """Whether a batch is owed and can be drawn."""
        ready = any(one.num_ready for one in self.collecting.shards.values())
        return self._owed >= self.config.minibatch and ready

    def _pump(self) -> None:
        """Ask for what can be asked for, then take what comes."""
        self._learn()
        is_short = self.collected < (self.update + 1) * self.config.batch
        if is_short and not self._has_to_wait():
            if self.learned - max(self.collecting.version, -1) >= self._publish_gap():
                self.collecting.publish(self.learned, self.net.weights())
            self.collecting.order(self.collected)
        self._hear(self.spread.patience)

    def _publish_gap(self) -> int:
        return 1 if self.collecting.version < 0 else self.spread.publish_every

    def _has_to_wait(self) -> bool:
        """Whether actors must wait for learning, so that the replay ratio is kept, or for shards."""
        if self.spread.is_here and (self.crew.num_pending or not self.collecting.is_settled):
            return True
        is_much = self._owed >= self.config.minibatch * (1 + self.spread.ahead)
        return (is_much and self._can_learn()) or self.collecting.is_full

    def _hear(self, timeout: float | None) -> None:
        heard = self.crew.heard(timeout)
        if not heard:
            raise WeftError(
                f"no role has answered for {timeout:g} s" if timeout else "nothing is left to wait for"
            )
        for one in heard:
            if not self._take(one):
                self._count(self.collecting.handle(one))

    def _learn(self) -> None:
        """Ask for batches."""
        raise NotImplementedError

    def _take(self, heard: Heard) -> bool:
        """Take an answer that concerns learning; False: it does not."""
        raise NotImplementedError

    def _figures(self) -> dict[str, Metric]:
        return {}

    def policy(self) -> tuple[Weights, Card]:
        """The weights as they are now, and what they are."""
        return self._policy(self.collecting.ranges)

    def close(self) -> None:
        """End all roles."""
        self.crew.close()


class Apex(Spread):
    """One learner, in this process."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._batches: dict[int, Batch] = {}  # on their way, by number
        self._num_batches = 0

    def _learn(self) -> None:
        """Draw the batches that are owed, some of them ahead."""
        while self._can_learn() and len(self._batches) < self.spread.prefetch:
            if self.spread.is_here and self.crew.num_pending:
                return
            if self.learned == 0 and not self._is_started and not self._batches:
                self.learning.set_level(self.collecting.level())
            self._owed -= self.config.minibatch
            self._draw()

    def _draw(self) -> None:
        """Ask for a batch."""
        level = self._levels.uniform()
        shares = self.collecting.shares(level) or {}
        batch = Batch(self._num_batches, len(shares), round(self.config.uniform_share * len(level)))
        self._num_batches += 1
        self._batches[batch.number] = batch
        for role, share in shares.items():
            self.crew.ask(role, DRAW, share, parts=2, about=About(DRAW, batch.number))

    def _take(self, heard: Heard) -> bool:
        """Learn from a batch once all of it is there."""
        if heard.about.kind != DRAW:
            return False
        batch = self._batches[heard.about.what]
        batch.calls[heard.call.role], batch.lives[heard.call.role] = heard.call, heard.life
        batch.is_lost = batch.is_lost or heard.is_lost
        if not heard.is_lost:
            self.collecting.note_standing(heard)
        if len(batch.calls) < batch.wanted:
            return True
        del self._batches[batch.number]
        if batch.is_lost:  # what it was owed is drawn elsewhere
            self._owed += self.config.minibatch
        else:
            self._learn_batch(batch)
        for call in batch.calls.values():
            self.crew.drop(call)
        return True

    def _learn_batch(self, batch: Batch) -> None:
        """A gradient step; its errors go back to the shards that the decisions are kept in."""
        roles = [role for role in self.collecting.shards if role in batch.calls]
        parts = [self.crew.value(batch.calls[role], 1) for role in roles]
        now = self.collecting.shards
        standings = [self.crew.value(batch.calls[role]) if role in roles else now[role] for role in now]
        found = batch_of(parts, standings, batch.num_uniform, self.beta)
        error, at = self._learn_from(found), 0
        for role, part in zip(roles, parts, strict=True):
            self.collecting.set_errors(role, batch.lives[role], part.slot, error[at : at + len(part.slot)])
            at += len(part.slot)

    def state(self) -> dict[str, Array]:
        """What the next update depends on; what is on its way elsewhere is asked for again."""
        self._begin()
        owed = self._owed
        self._owed += len(self._batches) * self.config.minibatch
        try:
            return {**self._own_state(), **self.collecting.state()}
        finally:
            self._owed = owed

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self._restore_own(state)
        self.collecting.restore(state)
        self._is_begun = True
