"""What training needs of an environment: many copies stepped at once, and all state in arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from weft.policies.tensors import Array

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


Narrow = Callable[[Bools, int, Ints], None]
"""Called as (mask (B, H, K), head, choices (B,)) after each head: rules out choices of later heads."""


class BatchEnv(Protocol):
    """Environments in step; where one is done, it already shows its next episode.

    Heads choose independently of one another, or one after the other where the environment narrows.
    """

    num_envs: int
    """B"""
    num_heads: int
    """H, one choice each."""
    num_choices: int
    """K, the same for every head."""
    num_features: int
    """F"""
    num_agents: int
    """A: 1 where one reward is paid for all heads, else H: every head is an agent with rewards of its own."""
    observation: Floats32  # (B, F) updated in place
    mask: Bools  # (B, H, K) updated in place; every head may choose something
    elapsed: Floats32  # (B,) updated in place: time that passed in the last step

    @property
    def narrow(self) -> Narrow | None:
        """What rules out choices of later heads after an earlier one chose; None: nothing does."""

    def reset(self, seed: int) -> None:
        """Start all over."""

    def step(self, actions: Ints) -> tuple[Floats32, Bools]:
        """Act (B, H); reward (B,), or (B, A) of agents, and whether the episode ended (B,)."""

    def report(self) -> Mapping[str, float | None]:
        """Named figures of the episodes that ended since the last call; may be empty."""

    def snapshot(self) -> dict[str, Array]:
        """All state, as copies."""

    def restore(self, snapshot: Mapping[str, Array]) -> None:
        """Put back a snapshot."""


class CandidateEnv(BatchEnv, Protocol):
    """Environments whose one head points to one of at most K candidates, each with features of one meaning.

    A row of ``observation`` holds W features of the world, then K times C features of a candidate, zero
    where there is none. ``mask`` is (B, 1, K).
    """

    num_world: int
    """W"""
    num_columns: int
    """C"""
    feature_version: str
    """Of names and meaning of the features."""

    @property
    def base_column(self) -> int | None:
        """Of the C features that which is 1 for the choice of a hand-made rule, one in every state; None: none is."""


E = TypeVar("E", bound=BatchEnv)
Rule = Callable[[E], Ints]
"""A hand-made policy: choices (B, H) for the environments as they stand."""


def joint_reward(reward: Floats32) -> Floats32:
    """What all agents of an environment get together: (B,) of rewards (B,) or (B, A)."""
    return reward if reward.ndim == 1 else reward.sum(axis=1)


class Episodes:
    """Returns and lengths of the episodes under way, and of those that ended since the last row."""

    def __init__(self, num_envs: int) -> None:
        self._total = np.zeros(num_envs)  # (B,)
        self._length = np.zeros(num_envs, np.int64)  # (B,)
        self._ended: list[tuple[float, int]] = []

    def add(self, reward: Floats32, done: Bools) -> None:
        """Count one step of every environment."""
        self._total += reward
        self._length += 1
        if done.any():
            ended = np.flatnonzero(done)
            self._ended += zip(self._total[ended].tolist(), self._length[ended].tolist(), strict=True)
            self._total[ended] = 0.0
            self._length[ended] = 0

    def take(self) -> dict[str, float | int | None]:
        """Figures of the episodes that ended since the last call."""
        return episode_figures(self.ended())

    def ended(self) -> list[tuple[float, int]]:
        """Return and length of each episode that ended since the last call."""
        found, self._ended = self._ended, []
        return found

    def add_ended(self, ended: Sequence[tuple[float, int]]) -> None:
        """Count episodes that ended elsewhere."""
        self._ended += ended

    def state(self) -> dict[str, Array]:
        """What a resumed run needs; nothing is pending between updates."""
        return {"episodes.total": self._total.copy(), "episodes.length": self._length.copy()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self._total[:] = state["episodes.total"].astype(np.float64)
        self._length[:] = state["episodes.length"].astype(np.int64)


def episode_figures(ended: Sequence[tuple[float, int]]) -> dict[str, float | int | None]:
    """Figures of episodes of these returns and lengths."""
    returns, lengths = [r for r, _ in ended], [n for _, n in ended]
    return {
        "episodes": len(ended),
        "episode_return": float(np.mean(returns)) if ended else None,
        "episode_length": float(np.mean(lengths)) if ended else None,
    }
