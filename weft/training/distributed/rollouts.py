"""PPO whose decisions are made by actors: every update waits for all of them, so that all act by the same weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from weft.errors import WeftError
from weft.policies.checkpoint import Card, Weights
from weft.policies.tensors import Array, below
from weft.sim.tasks.environment import TaskEnv, TaskSetup
from weft.sim.tasks.pipeline_environment import PipelineEnv, PipelineSetup
from weft.training.cells import shares
from weft.training.distributed.actor import seed_of_life
from weft.training.distributed.config import Distributed
from weft.training.distributed.crew import Crew
from weft.training.distributed.transport import Part, Transport
from weft.training.environment import Rule
from weft.training.optimiser import one_thread
from weft.training.ppo.candidate_learner import CandidatePPO, follow_base
from weft.training.ppo.config import PPOConfig
from weft.training.run.metrics import Metric


@dataclass(frozen=True)
class RolloutActs:
    """What an actor needs to know."""

    setup: TaskSetup | PipelineSetup
    config: PPOConfig
    """With the environments of one actor."""
    seed: int


class RolloutOrder(NamedTuple):
    """What an actor is asked for: the steps of one update."""

    update: int
    is_imitating: bool
    random: Array | None
    """State of the random numbers to draw from; None: its own."""


class RolloutBlock(NamedTuple):
    """What the environments of an actor went through during one update; b of them."""

    update: int
    columns: dict[str, Array]
    """Arrays of :class:`weft.training.ppo.rollout.Rollout` by name, (T, b, ...)."""
    episodes: list[tuple[float, int]]
    figures: dict[str, float | None]
    random: Array


class RolloutActor(CandidatePPO):
    """Acts as PPO does, and never learns."""

    def collect(self, order: RolloutOrder, weights: Weights) -> RolloutBlock:
        """Carry out an order with these weights."""
        self.net.load_weights({name: np.require(x, requirements="W") for name, x in weights.items()})
        if order.random is not None:
            self._random.set_state(torch.from_numpy(order.random.copy()))
        with one_thread():
            self._collect(self._rule if order.is_imitating else None)
        made = self._rollout
        tensors = {name: getattr(made, name).numpy() for name in ("observation", "bias", "logits", "actions")}
        columns = {**tensors, "reward": made.reward, "discount": made.discount}
        figures, random = dict(self.env.report()), self._random.get_state().numpy()
        return RolloutBlock(order.update, columns, self._episodes.ended(), figures, random)


def env_from(
    setup: TaskSetup | PipelineSetup, num_envs: int, seed: int, *, shared: bool = False
) -> TaskEnv | PipelineEnv:
    """So many environments of streams or of pipelines."""
    if isinstance(setup, PipelineSetup):
        return PipelineEnv(setup, num_envs, seed, shared=shared)
    return TaskEnv(setup, num_envs, seed, shared=shared)


def rollout_actor(acts: RolloutActs, index: int, life: int) -> RolloutActor:
    """An actor at the beginning of a life."""
    seed = seed_of_life(acts.seed, index, life)
    env = env_from(acts.setup, acts.config.num_envs, seed)
    rule: Rule[TaskEnv | PipelineEnv] | None = follow_base if acts.config.imitation_updates else None
    return RolloutActor(env, acts.config, seed=seed, rule=rule)


class SpreadPPO(CandidatePPO):
    """Learns here from what actors did; with one actor in this process, what PPO alone learns."""

    def __init__(
        self,
        transport: Transport,
        env: TaskEnv | PipelineEnv,
        config: PPOConfig,
        spread: Distributed,
        *,
        seed: int = 0,
        device: str = "cpu",
        start: Mapping[str, Array] | None = None,
        card: Card | None = None,
        on_notice: Callable[[str], None] = lambda line: None,
    ) -> None:
        rule = follow_base if config.imitation_updates else None
        super().__init__(env, config, seed=seed, device=device, rule=rule, start=start, card=card)
        self.spread, self._lives = spread, 0
        self.crew = Crew(transport, spread.max_failures, lambda role: None, on_notice)
        self._actors = [f"actor-{k}" for k in range(spread.actors)]
        self._acts = [
            RolloutActs(env.setup, replace(config, num_envs=own), seed)
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
        self.crew.ask(role, "collect", RolloutOrder(self.update, is_imitating, random), weights)

    def _join(self, blocks: list[RolloutBlock]) -> None:
        """Environments of actors side by side."""
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

        return {**means_of(self._figures), "restarts": self.crew.restarts}

    def state(self) -> dict[str, Array]:
        """What the next update depends on; actors elsewhere begin another life."""
        self._begin()
        own = {name: array for name, array in super().state().items() if not name.startswith("env.")}
        for role in self._actors if self.spread.is_here else ():
            found = self.crew.answer(role, "state") or {}
            own |= {f"{role}/{name}": array for name, array in found.items()}
        return {**own, "spread.lives": np.array(max(self.crew.lives.values()))}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        unused = {f"env.{name}": array for name, array in self.env.snapshot().items()}
        super().restore({**state, **unused})
        self._lives = int(state["spread.lives"]) + (0 if self.spread.is_here else 1)
        self._begin()
        for role in self._actors:
            if found := below(f"{role}/", state):
                self.crew.answer(role, "restore", found)

    def close(self) -> None:
        """End all actors."""
        self.crew.close()
