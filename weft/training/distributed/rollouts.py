"""PPO whose decisions are made by actors: every update waits for all of them, so that all act by the same weights.

Where a scheduler lends configurations, the environments of an actor play what it was lent, an episode at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
import torch

from weft.errors import WeftError
from weft.policies.checkpoint import Card, Weights
from weft.policies.tensors import Array, below
from weft.sim.tasks.environment import TaskEnv
from weft.sim.tasks.pipeline_environment import PipelineEnv
from weft.training.cells import shares
from weft.training.distributed.actor import seed_of_life
from weft.training.distributed.config import Distributed
from weft.training.distributed.crew import Crew
from weft.training.distributed.leases import Lease, LeaseReport, Seats
from weft.training.distributed.scheduler import ConfigScheduler
from weft.training.distributed.transport import Part, Transport
from weft.training.environment import Floats32, Rule
from weft.training.optimiser import one_thread
from weft.training.ppo.candidate_learner import CandidatePPO, follow_base
from weft.training.ppo.config import PPOConfig
from weft.training.run.metrics import Metric


class RolloutMaker(Protocol):
    """Makes the environments of an actor, wherever that is."""

    def env(self, num_envs: int) -> TaskEnv | PipelineEnv:
        """So many of them."""

    def seats(self, env: TaskEnv | PipelineEnv, seed: int) -> Seats | None:
        """What leases are played in; None: episodes are not leased."""


@dataclass(frozen=True)
class RolloutActs:
    """What an actor needs to know."""

    maker: RolloutMaker
    config: PPOConfig
    """With the environments of one actor."""
    seed: int


class RolloutOrder(NamedTuple):
    """What an actor is asked for: the steps of one update."""

    update: int
    is_imitating: bool
    random: Array | None
    """State of the random numbers to draw from; None: its own."""
    leases: tuple[Lease, ...] = ()
    """Configurations to play next."""


class RolloutBlock(NamedTuple):
    """What the environments of an actor went through during one update; b of them."""

    update: int
    columns: dict[str, Array]
    """Arrays of :class:`weft.training.ppo.rollout.Rollout` by name, (T, b, ...)."""
    episodes: list[tuple[float, int]]
    figures: dict[str, float | None]
    random: Array
    leases: tuple[LeaseReport, ...] = ()
    """Episodes of leases that ended."""


class Step(NamedTuple):
    """What a step brought; a :class:`weft.training.distributed.leases.Played`."""

    reward: Floats32  # (B,)
    discount: Floats32  # (B,)
    error: Floats32 | None = None


class RolloutActor(CandidatePPO):
    """Acts as PPO does, and never learns."""

    seats: Seats | None = None
    """What leases are played in; None: episodes are not leased."""

    def collect(self, order: RolloutOrder, weights: Weights) -> RolloutBlock:
        """Carry out an order with these weights."""
        self.net.load_weights({name: np.require(x, requirements="W") for name, x in weights.items()})
        if order.random is not None:
            self._random.set_state(torch.from_numpy(order.random.copy()))
        if self.seats is not None:
            self.seats.take(order.leases)
        with one_thread():
            self._collect(self._rule if order.is_imitating else None)
        made = self._rollout
        tensors = {name: getattr(made, name).numpy() for name in ("observation", "bias", "logits", "actions")}
        columns = {**tensors, "reward": made.reward, "discount": made.discount}
        figures, random = dict(self.env.report()), self._random.get_state().numpy()
        played = () if self.seats is None else self.seats.reports()
        return RolloutBlock(order.update, columns, self._episodes.ended(), figures, random, played)

    def _note_step(self, t: int) -> None:
        if self.seats is not None:
            self.seats.note(Step(self._rollout.reward[t], self._rollout.discount[t]))

    def state(self) -> dict[str, Array]:
        return {**super().state(), **({} if self.seats is None else self.seats.state())}

    def restore(self, state: Mapping[str, Array]) -> None:
        if self.seats is not None:
            self.seats.restore(state)
        super().restore(state)


def rollout_actor(acts: RolloutActs, index: int, life: int) -> RolloutActor:
    """An actor at the beginning of a life."""
    seed = seed_of_life(acts.seed, index, life)
    env = acts.maker.env(acts.config.num_envs)
    rule: Rule[TaskEnv | PipelineEnv] | None = follow_base if acts.config.imitation_updates else None
    actor = RolloutActor(env, acts.config, seed=seed, rule=rule)
    actor.seats = acts.maker.seats(env, seed)
    return actor


class SpreadPPO(CandidatePPO):
    """Learns here from what actors did; with one actor in this process, what PPO alone learns."""

    def __init__(
        self,
        transport: Transport,
        maker: RolloutMaker,
        env: TaskEnv | PipelineEnv,
        config: PPOConfig,
        spread: Distributed,
        *,
        seed: int = 0,
        device: str = "cpu",
        start: Mapping[str, Array] | None = None,
        card: Card | None = None,
        scheduler: ConfigScheduler | None = None,
        on_notice: Callable[[str], None] = lambda line: None,
    ) -> None:
        rule = follow_base if config.imitation_updates else None
        super().__init__(env, config, seed=seed, device=device, rule=rule, start=start, card=card)
        self.spread, self._lives = spread, 0
        self.scheduler = scheduler
        on_lost = scheduler.give_back if scheduler is not None else lambda role: None
        self.crew = Crew(transport, spread.max_failures, on_lost, on_notice)
        self._actors = [f"actor-{k}" for k in range(spread.actors)]
        self._acts = [
            RolloutActs(maker, replace(config, num_envs=own), seed)
            for own in shares(config.num_envs, spread.actors)
        ]
        self._figures: list[dict[str, float | None]] = []

    def _begin(self) -> None:
        """Start all actors, once."""
        if not self.crew.lives:
            for k, role in enumerate(self._actors):
                self.crew.add(role, rollout_actor, self._acts[k], k, life=self._lives)

    def _collect(self, rule: Rule[TaskEnv | PipelineEnv] | None) -> None:
        """Have every actor do its part; one that is lost does it again in another life."""
        self._begin()
        weights = self.crew.put(self.net.weights())
        for role in self._actors:
            self._ask(role, weights, rule is not None)
        blocks: dict[str, RolloutBlock] = {}
        while len(blocks) < len(self._actors):
            heard = self.crew.heard(self.spread.patience)
            if not heard:
                raise WeftError(f"no actor has answered for {self.spread.patience:g} s")
            for one in heard:
                if one.is_lost:
                    self._ask(one.call.role, weights, rule is not None)
                else:
                    blocks[one.call.role] = self.crew.value(one.call)
                    self.crew.drop(one.call)
        self.crew.drop(weights.call)
        self._join([blocks[role] for role in self._actors])

    def _ask(self, role: str, weights: Part, is_imitating: bool) -> None:
        """The first actor draws from the learner's own random numbers, as it would alone."""
        random = self._random.get_state().cpu().numpy() if role == self._actors[0] else None
        order = RolloutOrder(self.update, is_imitating, random, self._leases_for(role))
        self.crew.ask(role, "collect", order, weights)

    def _leases_for(self, role: str) -> tuple[Lease, ...]:
        """As many leases as the environments of an actor may come to play in this update."""
        if self.scheduler is None:
            return ()
        own = self._acts[self._actors.index(role)].config
        each = 2 + int(own.num_steps / self.scheduler.usual_length)
        return self.scheduler.leases_for(role, own.num_envs, each)

    def _join(self, blocks: list[RolloutBlock]) -> None:
        """Environments of actors side by side."""
        if self.scheduler is not None:
            for role, block in zip(self._actors, blocks, strict=True):
                for one in block.leases:
                    self.scheduler.report(role, one)
        made = self._rollout
        for name in ("observation", "bias", "logits", "actions"):
            joined = np.concatenate([block.columns[name] for block in blocks], axis=1)
            getattr(made, name).copy_(torch.from_numpy(joined))
        made.reward[:], made.discount[:] = (
            np.concatenate([block.columns[name] for block in blocks], axis=1)
            for name in ("reward", "discount")
        )
        self._episodes.add_ended([one for block in blocks for one in block.episodes])
        self._figures = [block.figures for block in blocks]
        if self._device.type == "cpu":
            self._random.set_state(torch.from_numpy(blocks[0].random.copy()))

    def _report(self) -> Mapping[str, Metric]:
        from weft.training.distributed.collecting import means_of

        played = {} if self.scheduler is None else self.scheduler.figures()
        return {**means_of(self._figures), "restarts": self.crew.restarts, **played}

    def state(self) -> dict[str, Array]:
        """What the next update depends on; actors elsewhere begin another life."""
        self._begin()
        own = {name: array for name, array in super().state().items() if not name.startswith("env.")}
        for role in self._actors if self.spread.is_here else ():
            found = self.crew.answer(role, "state") or {}
            own |= {f"{role}/{name}": array for name, array in found.items()}
        lent = {} if self.scheduler is None else self.scheduler.state()
        return {**own, **lent, "spread.lives": np.array(max(self.crew.lives.values()))}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        unused = {f"env.{name}": array for name, array in self.env.snapshot().items()}
        super().restore({**state, **unused})
        self._lives = int(state["spread.lives"]) + (0 if self.spread.is_here else 1)
        if self.scheduler is not None:
            self.scheduler.restore(state)
        self._begin()
        for role in self._actors:
            if found := below(f"{role}/", state):
                self.crew.answer(role, "restore", found)
            elif self.scheduler is not None:
                self.scheduler.give_back(role)

    def close(self) -> None:
        """End all actors."""
        self.crew.close()
