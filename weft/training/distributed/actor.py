"""The role that acts: environments of its own, weights of others, blocks for the shards."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from weft.policies.candidates.architecture import CandidateArchitecture
from weft.policies.candidates.net import CandidateNet
from weft.policies.checkpoint import Weights
from weft.policies.tensors import Array, below
from weft.scenarios.splits import SEEDS_PER_SPLIT
from weft.training.distributed.blocks import Block, columns_of, moments_of
from weft.training.distributed.leases import Lease, LeaseReport, Seats
from weft.training.dqn.acting import Acting, Moment
from weft.training.dqn.config import DQNConfig
from weft.training.environment import CandidateEnv, Floats
from weft.training.optimiser import one_thread

_SALT = 3
"""Keeps the seeds of actors apart."""


class EnvMaker(Protocol):
    """Makes the environments of an actor, wherever that is."""

    def env(self, num_envs: int) -> CandidateEnv:
        """So many of them."""

    def seats(self, env: CandidateEnv, seed: int) -> Seats | None:
        """What leases are played in; None: episodes are not leased."""


@dataclass(frozen=True)
class Acts:
    """What an actor needs to know; the same for all of them."""

    maker: EnvMaker
    architecture: CandidateArchitecture
    config: DQNConfig
    seed: int
    num_actors: int
    has_errors: bool
    """Whether decisions come with their errors."""


class Order(NamedTuple):
    """What an actor is asked for."""

    number: int
    """Of this life of the actor."""
    steps: int
    """Moments."""
    collected: int
    """Decisions that all actors had made when it was given."""
    version: int
    """Of the weights that come with it."""
    leases: tuple[Lease, ...] = ()
    """Configurations to play next."""


@dataclass(frozen=True)
class Report:
    """What an actor says of a block."""

    actor: str
    life: int
    number: int
    """Of the order."""
    decisions: int
    rewards: float
    version: int
    """Of the weights that it acted with."""
    episodes: Sequence[tuple[float, int]]
    """Return and length of each that ended."""
    ranges: Floats  # (2, W + C) of features, so far
    epsilon: float
    leases: Sequence[LeaseReport] = ()
    seconds: float = 0.0


class Actor:
    """Steps environments by the newest weights that it was given; a life starts from nothing but its number."""

    def __init__(self, acts: Acts, index: int, life: int) -> None:
        self._acts, self._name, self._life = acts, f"actor-{index}", life
        config, env = acts.config, acts.maker.env(acts.config.num_envs)
        self._seats = acts.maker.seats(env, seed_of_life(acts.seed, index, life))
        self._acting = Acting(
            env,
            config,
            acts.seed if life == 0 else seed_of_life(acts.seed, index, life),
            env_seed=seed_of_life(acts.seed, index, life),
            slots=(index * config.num_envs, acts.num_actors * config.num_envs),
            has_errors=acts.has_errors,
        )
        self._net = CandidateNet(acts.architecture)
        self._version = -1
        self._tail: deque[Moment] = deque(maxlen=config.return_steps)
        self._next = 0  # number of the next moment

    def collect(self, order: Order, weights: Weights | None) -> tuple[Report, Block]:
        """Carry out an order, with new weights if there are any."""
        started = time.perf_counter()
        if weights is not None:
            own = {name: np.require(array, requirements="W") for name, array in weights.items()}
            self._net.load_weights(own)  # what Ray holds may not be written to, which torch warns of
            self._version = order.version
        seats, acting = self._seats, self._acting
        if seats is not None:
            seats.take(order.leases)
        old, num, rewards = list(self._tail), acting.env.num_envs, 0.0
        fresh: list[Moment] = []
        with one_thread():
            for k in range(order.steps):
                epsilon = None if seats is None else seats.epsilon(self._base_epsilon(order, k))
                moment, paid = acting.step(self._net, order.collected + k * num, epsilon)
                if seats is not None:
                    seats.note(moment)
                fresh.append(moment)
                rewards += paid
        first = self._next - len(old)
        self._tail.extend(fresh)
        self._next += order.steps
        columns = columns_of([*old, *fresh], is_half=self._acts.config.is_half)
        block = Block(self._name, self._life, first, len(old), columns)
        return self._report(order, rewards, time.perf_counter() - started), block

    def _base_epsilon(self, order: Order, k: int) -> Floats:
        collected = order.collected + k * self._acting.env.num_envs
        return self._acting.exploration.epsilon(collected)

    def _report(self, order: Order, rewards: float, seconds: float) -> Report:
        acting, num = self._acting, self._acting.env.num_envs
        return Report(
            self._name,
            self._life,
            order.number,
            order.steps * num,
            rewards,
            self._version,
            acting.episodes.ended(),
            acting.ranges.copy(),
            float(acting.exploration.epsilon(order.collected + order.steps * num).mean()),
            () if self._seats is None else self._seats.reports(),
            seconds,
        )

    def figures(self) -> dict[str, float | None]:
        """What the environments report since the last call."""
        return dict(self._acting.env.report())

    def state(self) -> dict[str, Array]:
        """What a resumed run needs."""
        tail = columns_of(list(self._tail), is_half=False)
        return {
            **self._acting.state(),
            **{f"tail.{name}": column for name, column in tail.items()},
            **({} if self._seats is None else self._seats.state()),
            "actor.counts": np.array([self._next, self._version]),
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned; weights come with the next order."""
        if self._seats is not None:
            self._seats.restore(state)
        self._acting.restore(state)
        self._tail.clear()
        self._tail.extend(moments_of(below("tail.", state)))
        self._next, self._version = state["actor.counts"].astype(np.int64).tolist()


def seed_of_life(seed: int, index: int, life: int) -> int:
    """The seed of an actor's environments; those of the first actor's first life are the run's own."""
    if index == life == 0:
        return seed
    return int(
        np.random.SeedSequence([seed, _SALT, index, life]).generate_state(1, np.uint64)[0] % SEEDS_PER_SPLIT
    )
