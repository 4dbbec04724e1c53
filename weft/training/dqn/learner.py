"""Deep Q-learning on candidates: double (van Hasselt et al., 2016), dueling, prioritised, with returns of n decisions.

Reads from top to bottom: the configuration (``config.py``), what explores (``exploration.py``), acting (``acting.py``), what is
kept (``replay.py``), a gradient step (``learning.py``), and here the loop over them, with its log.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np
import torch
from torch import Tensor

from weft.errors import InputError
from weft.policies.candidates.architecture import CandidateArchitecture, Q
from weft.policies.candidates.net import CandidateNet
from weft.policies.checkpoint import Card, Weights
from weft.policies.tensors import Array
from weft.scenarios.splits import check_training_seed
from weft.sim.tasks.environment import TaskEnv
from weft.training.dqn.acting import Acting
from weft.training.dqn.config import ERROR, TARGET, DQNConfig
from weft.training.dqn.learning import Learning, new_net, replay_shape
from weft.training.dqn.rollouts import check_rollouts, learn_first_values
from weft.training.draws import Draws
from weft.training.environment import CandidateEnv, Floats, Floats32
from weft.training.optimiser import device_named, finite, one_thread
from weft.training.replay import Drawn, Replay
from weft.training.run.counts import EvenUpdates
from weft.training.run.metrics import Metric

SCORE_WINDOW = 10
"""Updates over which the mean reward is averaged into the score."""
_SALT = 1
"""Keeps the draws of batches apart from those of exploration."""


class QLearner(EvenUpdates):
    """What DQN has whoever acts and whatever keeps the decisions: nets, counts, score, log, policy."""

    config: DQNConfig

    def __init__(
        self,
        env: CandidateEnv,
        config: DQNConfig,
        *,
        seed: int,
        device: str,
        start: Mapping[str, Array] | None,
        card: Card | None,
    ) -> None:
        self.config, self.seed = config, check_training_seed(seed)
        shape = CandidateArchitecture(env.num_world, env.num_columns, config.hidden[0], head=Q)
        self._card = replace(card or Card("dqn", "candidate-dqn", shape), architecture=shape)
        self._is_started = start is not None
        net = new_net(shape, seed, env.base_column, config.base_margin, start)
        self.learning = Learning(net, config, device_named(device))
        self._levels = Draws("levels", config.minibatch, seed, _SALT)
        self._recent = np.full(SCORE_WINDOW, np.nan)  # (SCORE_WINDOW,) mean rewards, newest last
        self.update = self.collected = self.drawn = 0
        self._owed = 0.0

    @property
    def net(self) -> CandidateNet:
        """The net that is trained."""
        return self.learning.net

    @property
    def target(self) -> CandidateNet:
        """The net that values what follows."""
        return self.learning.target

    @property
    def learned(self) -> int:
        """Gradient steps so far."""
        return self.learning.learned

    @property
    def samples(self) -> int:
        """Decisions collected so far."""
        return self.collected

    @property
    def score(self) -> float | None:
        """Mean reward per decision over the last updates; None before the first."""
        known = self._recent[~np.isnan(self._recent)]
        return float(known.mean()) if len(known) else None

    def _count(self, decisions: int) -> None:
        """So many more were collected; after warm-up each is owed its share of learning."""
        self.collected += decisions
        if self.collected > self.config.warmup:
            self._owed += decisions * self.config.replay_ratio

    def _learn_from(self, batch: Drawn) -> Floats32:
        """A gradient step on a batch; returns its errors (m,)."""
        error = self.learning.learn(batch, self._learning_rate())
        self.drawn += self.config.minibatch
        return error

    def targets(self, batch: Drawn) -> Tensor:
        """What the chosen rows (m,) of a batch should be worth."""
        return self.learning.targets(batch)

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

    def _log(self, mean_reward: float, num_learned: int, others: Mapping[str, Metric]) -> dict[str, Metric]:
        """The row of an update."""
        self._recent = np.append(self._recent[1:], mean_reward)
        means = finite(self.learning.sums / max(num_learned, 1), self.update - 1)
        names = ("loss", "mean_error", "mean_q")
        return {
            "samples": self.samples,
            "mean_reward": mean_reward,
            **{name: others[name] for name in ("episodes", "episode_return", "episode_length")},
            **{name: mean if num_learned else None for name, mean in zip(names, means, strict=True)},
            "phase": "dqn" if num_learned else "warm-up",
            "learning_rate": self._learning_rate(),
            "epsilon": others["epsilon"],
            "beta": self.beta,
            "replay_ratio": self.drawn / max(self.collected, 1),
            **others,
        }

    def _policy(self, ranges: Floats) -> tuple[Weights, Card]:
        """The weights as they are now, and what they are; ``ranges`` (2, W + C) of features."""
        about = {"seed": self.seed, "samples": self.samples, "config": asdict(self.config)}
        seen = tuple((float(low), float(high)) for low, high in ranges.T) if self.update else ()
        card = replace(self._card, ranges=seen, training={**self._card.training, **about})
        kept = self.target if self.config.policy == TARGET else self.net
        return kept.weights(), card

    def _own_state(self) -> dict[str, Array]:
        return {
            **self.learning.state(),
            **self._levels.state(),
            "counts": np.array([self.update, self.collected, self.drawn, self.learned]),
            "owed": np.array(self._owed),
            "recent": self._recent,
        }

    def _restore_own(self, state: Mapping[str, Array]) -> None:
        self.learning.restore(state)
        self._levels.restore(state)
        counts = state["counts"].astype(np.int64).tolist()
        self.update, self.collected, self.drawn, self.learning.learned = counts
        self._owed = float(state["owed"])
        self._recent[:] = state["recent"].astype(np.float64)


class DQN(QLearner):
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
        check_fit(env, config)
        super().__init__(env, config, seed=seed, device=device, start=start, card=card)
        self.env = env
        self.acting = Acting(env, config, seed, has_errors=config.first_priority == ERROR)
        self.replay = Replay(replay_shape(env, config), config.alpha, config.priority_epsilon)
        self._played = None if start is not None else check_rollouts(env, config)

    def step(self) -> dict[str, Metric]:
        """One update: steps of all environments, and as many batches as the replay ratio asks for in between."""
        started, learned, rewards = time.perf_counter(), self.learned, 0.0
        self.learning.sums.zero_()
        loss: dict[str, Metric] = {}
        with one_thread():
            if self._played is not None:
                loss["rollout_loss"] = self._learn_first_values(self._played) if self.update == 0 else None
            for _ in range(self.config.num_steps):
                rewards += self.act()
                while self._owed >= self.config.minibatch and self.replay.num_ready:
                    self.learn()
        self.update += 1
        seconds = time.perf_counter() - started
        others = {
            **self.acting.episodes.take(),
            "epsilon": float(self.acting.exploration.epsilon(self.collected).mean()),
            "replay_fill": self.replay.fill,
            "decisions_per_second": round(self.config.batch / seconds, 1),
            **loss,
            **self.env.report(),
        }
        return self._log(rewards / self.config.batch, self.learned - learned, others)

    def _learn_first_values(self, env: TaskEnv) -> float:
        """Before the first update: values from rollouts, for both nets."""
        loss = learn_first_values(self.net, env, self.config, self.seed)
        self.learning.move_target(1.0)
        return loss

    @torch.no_grad()
    def act(self) -> float:
        """One step of every environment, kept to learn from; returns the sum of rewards."""
        moment, rewards = self.acting.step(self.net, self.collected)
        self.replay.add(*moment)
        self._count(self.env.num_envs)
        return rewards

    def learn(self) -> None:
        """One gradient step on a drawn batch, whose errors become its priorities."""
        if self.learned == 0 and not self._is_started:
            self.learning.set_level(self.replay.level)
        batch = self.replay.draw(self._levels.uniform(), self.config.uniform_share, self.beta)
        self.replay.set_errors(batch.slot, self._learn_from(batch))
        self._owed -= self.config.minibatch

    def policy(self) -> tuple[Weights, Card]:
        """The weights as they are now, and what they are."""
        return self._policy(self.acting.ranges)

    def state(self) -> dict[str, Array]:
        """Everything that the next update depends on."""
        return {**self._own_state(), **self.acting.state(), **self.replay.state()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self._restore_own(state)
        self.acting.restore(state)
        self.replay.restore(state)


def check_fit(env: CandidateEnv, config: DQNConfig) -> None:
    """Refuse environments that the configuration cannot be used with."""
    if env.num_envs != config.num_envs:
        raise InputError(
            f"expected {env.num_envs} as the environment has, got {config.num_envs}", field="num_envs"
        )
