"""Which choices are made to learn and not because they seem best. Loads no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from weft.policies.tensors import Array
from weft.training.dqn.config import EXPONENTIAL, LADDER, DQNConfig
from weft.training.draws import Draws
from weft.training.environment import Bools, CandidateEnv, Floats, Ints

_SALT = 2
"""Keeps these draws apart from those of batches."""


class Exploration:
    """Explored choices and those of the base rule; every environment draws from a sequence of its own.

    Parameters
    ----------
    slots
        Number of the first of the B environments among all that explore, and how many those are; None: they
        are all.
    """

    def __init__(self, config: DQNConfig, seed: int, slots: tuple[int, int] | None = None) -> None:
        self._config = config
        self._first, self._num_slots = slots or (0, config.num_envs)
        self._draws = Draws("exploration", config.num_envs, seed, _SALT, first=self._first)

    def epsilon(self, collected: int) -> Floats:
        """The probability (B,) that a choice is explored, after so many decisions."""
        config = self._config
        if config.exploration == LADDER:
            slots = np.arange(self._first, self._first + config.num_envs)
            return np.asarray(
                config.epsilon ** (1.0 + config.ladder * (slots / max(self._num_slots - 1, 1))), np.float64
            )
        if config.exploration == EXPONENTIAL:
            gone = -math.expm1(-collected / config.epsilon_decisions)
        else:
            gone = min(1.0, collected / (config.epsilon_share * config.samples))
        return np.full(config.num_envs, config.epsilon + gone * (config.epsilon_end - config.epsilon))

    def choose(self, env: CandidateEnv, best: Ints, collected: int, epsilon: Floats | None = None) -> Ints:
        """Choices (B,): mostly the best ones; all draws are made whether or not they are used.

        ``epsilon`` (B,) stands in for what the configuration says.
        """
        explores, waits, which, follows = (self._draws.uniform() for _ in range(4))
        chosen = best
        if env.base_column is not None and collected < self._config.warmup:
            chosen = np.where(follows < self._config.base_share, base_choices(env), chosen)
        drawn = drawn_choices(env.mask[:, 0], waits < self._config.wait_share, which)
        level = self.epsilon(collected) if epsilon is None else epsilon
        return np.where(explores < level, drawn, chosen)

    def state(self) -> dict[str, Array]:
        """What a resumed run needs."""
        return self._draws.state()

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self._draws.restore(state)


def drawn_choices(mask: Bools, waits: Bools, level: Floats) -> Ints:
    """A choice (B,) for every mask (B, K): the wait, which is the last one, or a start at this level in [0, 1).

    Where nothing can start it waits, and where it may not wait it starts something, whatever was drawn.
    """
    starts = mask[:, :-1]
    count = starts.sum(axis=1)
    wanted = np.minimum((level * count).astype(np.int64), count - 1) + 1
    start = (starts.cumsum(axis=1) >= wanted[:, None]).argmax(axis=1)
    is_waiting = (count == 0) | (waits & mask[:, -1])
    return np.where(is_waiting, mask.shape[1] - 1, start)


def base_choices(env: CandidateEnv) -> Ints:
    """What the base rule, whose choices are marked, would do in every environment: (B,)."""
    rows = env.observation[:, env.num_world :].reshape(env.num_envs, env.num_choices, env.num_columns)
    marked = np.where(env.mask[:, 0], rows[..., env.base_column or 0], -1.0)
    return marked.argmax(axis=1)
