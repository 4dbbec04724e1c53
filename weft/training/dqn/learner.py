"""Deep Q-learning on candidates: double (van Hasselt et al., 2016), dueling, prioritised, with returns of n decisions.

Reads from top to bottom, after the configuration in ``config.py``, what explores in ``exploration.py`` and what is kept
in ``replay.py``: agent, acting, learning, log.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from weft.errors import InputError
from weft.policies.candidates.architecture import CandidateArchitecture, Q
from weft.policies.candidates.net import CandidateNet
from weft.policies.candidates.packed import Packed, pack
from weft.policies.checkpoint import Card, Weights
from weft.policies.tensors import Array, below
from weft.scenarios.splits import check_training_seed
from weft.training.dqn.config import DQNConfig
from weft.training.dqn.exploration import Exploration
from weft.training.draws import Draws
from weft.training.environment import Bools, CandidateEnv, Episodes, Floats32, Ints
from weft.training.optimiser import FlatAdam, device_named, finite, one_thread
from weft.training.replay import Drawn, Replay, ReplayShape
from weft.training.run.metrics import Metric

SCORE_WINDOW = 10
"""Updates over which the mean reward is averaged into the score."""
_SALT = 1
"""Keeps the draws of batches apart from those of exploration."""


# Agent


class DQN:
    """Trains one net on one batch of environments; a :class:`weft.training.run.folder.Learner`.

    Parameters
    ----------
    env
        Is reset with ``seed`` here. Its last choice waits, if it has one that does.
    start
        Weights of the same architecture to begin with.
    card
        Names and training data for the policy's card.
    """

    def __init__(
        self,
        env: CandidateEnv,
        config: DQNConfig,
        *,
        seed: int = 0,
        device: str = "cpu",
        start: Mapping[str, Array] | None = None,
        card: Card | None = None,
    ) -> None:
        if env.num_envs != config.num_envs:
            raise InputError(
                f"expected {env.num_envs} as the environment has, got {config.num_envs}", field="num_envs"
            )
        self.env, self.config, self.seed = env, config, check_training_seed(seed)
        shape = CandidateArchitecture(env.num_world, env.num_columns, config.hidden[0], head=Q)
        self._card = replace(card or Card("dqn", "candidate-dqn", shape), architecture=shape)
        self._is_started = start is not None
        where = device_named(device)
        self.net = new_net(shape, seed, env.base_column, config.base_margin, start).to(where)
        self.target = CandidateNet(shape).to(where)
        self._move_target(1.0)
        self._adam = FlatAdam(self.net)
        self.replay = Replay(_replay_shape(env, config), config.alpha, config.priority_epsilon)
        self._exploration = Exploration(config, seed)
        self._levels = Draws("levels", config.minibatch, seed, _SALT)
        self._episodes = Episodes(env.num_envs)
        self._recent = np.full(SCORE_WINDOW, np.nan)  # (SCORE_WINDOW,) mean rewards, newest last
        self._ranges = np.repeat([[np.inf], [-np.inf]], env.num_world + env.num_columns, 1)  # (2, W + C)
        self._sums = torch.zeros(3, device=where)  # loss, |error|, worth of the chosen, of this update
        self.update = self.collected = self.drawn = self.learned = 0
        self._owed = 0.0
        env.reset(seed)

    @property
    def num_updates(self) -> int:
        """Updates to do in all."""
        return self.config.num_updates

    @property
    def samples(self) -> int:
        """Decisions collected so far."""
        return self.collected

    @property
    def num_samples(self) -> int:
        """Decisions to collect in all."""
        return self.num_updates * self.config.batch

    @property
    def score(self) -> float | None:
        """Mean reward per decision over the last updates; None before the first."""
        known = self._recent[~np.isnan(self._recent)]
        return float(known.mean()) if len(known) else None

    def step(self) -> dict[str, Metric]:
        """One update: steps of all environments, and as many batches as the replay ratio asks for in between."""
        started, learned, rewards = time.perf_counter(), self.learned, 0.0
        self._sums.zero_()
        with one_thread():
            for _ in range(self.config.num_steps):
                rewards += self.act()
                while self._owed >= self.config.minibatch and self.replay.num_ready:
                    self.learn()
        self.update += 1
        seconds = time.perf_counter() - started
        return self._log(rewards / self.config.batch, self.learned - learned, seconds)

    # Acting

    @torch.no_grad()
    def act(self) -> float:
        """One step of every environment, kept to learn from; returns the sum of rewards."""
        env = self.env
        seen, choice = pack(env.observation, env.mask, env.num_world)
        self._widen_ranges(seen)
        begin = np.cumsum(seen.sizes) - seen.sizes
        best = self.net.q_values(seen).argmax(1).cpu().numpy()
        chosen = self._exploration.choose(env, choice[begin + best], self.collected)
        row = _rows_of(seen, choice, chosen)
        reward, done = env.step(np.ascontiguousarray(chosen[:, None]))
        scaled = reward * np.float32(self.config.reward_scale)
        self.replay.add(seen, row, scaled, np.where(done, np.float32(0.0), self._discount()))
        self._episodes.add(reward, done)
        self.collected += env.num_envs
        if self.collected > self.config.warmup:
            self._owed += env.num_envs * self.config.replay_ratio
        return float(reward.sum(dtype=np.float64))

    def _discount(self) -> Floats32:
        """Discount (B,) of the step just taken."""
        config = self.config
        if config.time_unit is None:
            return np.full(self.env.num_envs, config.gamma, np.float32)
        return np.asarray(config.gamma ** (self.env.elapsed / config.time_unit), np.float32)

    # Learning

    def learn(self) -> None:
        """One gradient step on a drawn batch, whose errors become its priorities."""
        config = self.config
        if self.learned == 0 and not self._is_started:
            self._set_level()
        batch = self.replay.draw(self._levels.uniform(), config.uniform_share, self.beta)
        target = self.targets(batch)
        action, weight = (self._tensor(x) for x in (batch.action, batch.weight))
        worth = self.net.q_values(batch.state).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = (weight * huber_loss(worth, target, reduction="none", delta=config.huber)).mean()
        self._adam.step(loss, self._learning_rate(), config.gradient_clip)
        error = (target - worth).detach()
        self._sums += torch.stack([loss.detach(), error.abs().mean(), worth.detach().mean()])
        self.replay.set_errors(batch.slot, error.cpu().numpy())
        self.learned += 1
        self.drawn += config.minibatch
        self._owed -= config.minibatch
        if self.learned % config.target_every == 0:
            self._move_target(config.target_rate)

    @torch.no_grad()
    def _set_level(self) -> None:
        """Begin with values of about the right size: learning that first would spoil what scores say at the start."""
        for net in (self.net, self.target):
            net.value_out_bias.fill_(self.replay.level)

    @torch.no_grad()
    def targets(self, batch: Drawn) -> Tensor:
        """What the chosen rows (m,) should be worth: the net picks among what is allowed then, the target net values it."""
        best = self.net.q_values(batch.after).argmax(1, keepdim=True)
        later = self.target.q_values(batch.after).gather(1, best).squeeze(1)
        return self._tensor(batch.reward) + self._tensor(batch.discount) * later

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self._sums.device)

    @torch.no_grad()
    def _move_target(self, rate: float) -> None:
        for theirs, ours in zip(self.target.parameters(), self.net.parameters(), strict=True):
            theirs.copy_(ours) if rate == 1.0 else theirs.lerp_(ours, rate)

    @property
    def _gone(self) -> float:
        """Share of the decisions that are collected."""
        return min(1.0, self.collected / self.num_samples)

    @property
    def beta(self) -> float:
        """Power of the importance weights now."""
        return self.config.beta + (1.0 - self.config.beta) * self._gone

    def _learning_rate(self) -> float:
        rate = self.config.learning_rate
        return rate if self.config.decay == "constant" else rate * (1.0 - self._gone)

    # Log

    def _log(self, mean_reward: float, num_learned: int, seconds: float) -> dict[str, Metric]:
        """The row of an update."""
        self._recent = np.append(self._recent[1:], mean_reward)
        means = finite(self._sums / max(num_learned, 1), self.update - 1)
        names = ("loss", "mean_error", "mean_q")
        return {
            "samples": self.samples,
            "mean_reward": mean_reward,
            **self._episodes.take(),
            **{name: mean if num_learned else None for name, mean in zip(names, means, strict=True)},
            "phase": "dqn" if num_learned else "warm-up",
            "learning_rate": self._learning_rate(),
            "epsilon": float(self._exploration.epsilon(self.collected).mean()),
            "beta": self.beta,
            "replay_ratio": self.drawn / self.collected,
            "replay_fill": self.replay.fill,
            "decisions_per_second": round(self.config.batch / seconds, 1),
            **self.env.report(),
        }

    def _widen_ranges(self, seen: Packed) -> None:
        for at, least in enumerate((np.min, np.max)):
            now = np.concatenate([least(seen.world, axis=0), least(seen.rows, axis=0)])
            self._ranges[at] = least([self._ranges[at], now], axis=0)

    def policy(self) -> tuple[Weights, Card]:
        """The weights as they are now, and what they are."""
        about = {"seed": self.seed, "samples": self.samples, "config": asdict(self.config)}
        ranges = tuple((float(low), float(high)) for low, high in self._ranges.T) if self.update else ()
        card = replace(self._card, ranges=ranges, training={**self._card.training, **about})
        return self.net.weights(), card

    def state(self) -> dict[str, Array]:
        """Everything that the next update depends on."""
        return {
            **{f"net.{name}": tensor for name, tensor in self.net.weights().items()},
            **{f"target.{name}": tensor for name, tensor in self.target.weights().items()},
            **self._adam.state(),
            **{f"env.{name}": array for name, array in self.env.snapshot().items()},
            **self._episodes.state(),
            **self.replay.state(),
            **self._exploration.state(),
            **self._levels.state(),
            "counts": np.array([self.update, self.collected, self.drawn, self.learned]),
            "owed": np.array(self._owed),
            "recent": self._recent,
            "ranges": self._ranges,
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self.net.load_weights(below("net.", state))
        self.target.load_weights(below("target.", state))
        self._adam.restore(state)
        self.env.restore(below("env.", state))
        self._episodes.restore(state)
        self.replay.restore(state)
        self._exploration.restore(state)
        self._levels.restore(state)
        self.update, self.collected, self.drawn, self.learned = state["counts"].astype(np.int64).tolist()
        self._owed = float(state["owed"])
        self._recent[:] = state["recent"].astype(np.float64)
        self._ranges[:] = state["ranges"].astype(np.float64)


@torch.no_grad()
def new_net(
    shape: CandidateArchitecture,
    seed: int,
    base_column: int | None,
    margin: float,
    start: Mapping[str, Array] | None = None,
) -> CandidateNet:
    """A net to begin with: these weights, else values near 0 that prefer what the base rule does by a margin."""
    net = CandidateNet(shape)
    if start is not None:
        net.load_weights(start)
        return net
    net.initialise(torch.Generator().manual_seed(seed))
    net.value_out.mul_(0.01)
    if base_column is not None:
        net.score_out.mul_(0.1 * margin)
        net.score_direct.zero_()
        net.score_direct[0, base_column] = margin
    return net


def _replay_shape(env: CandidateEnv, config: DQNConfig) -> ReplayShape:
    return ReplayShape(
        env.num_envs,
        env.num_world,
        env.num_columns,
        env.num_choices,
        config.replay,
        config.replay * config.replay_candidates,
        config.return_steps,
        config.is_half,
    )


def _rows_of(seen: Packed, choice: Ints, chosen: Ints) -> Ints:
    """The number (N,) of the row that stands for every chosen choice (N,)."""
    is_chosen: Bools = choice == np.repeat(chosen, seen.sizes)
    return seen.place[is_chosen]
