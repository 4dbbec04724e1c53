"""What training needs of an environment: many copies stepped at once, and all state in arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from weft.policies.tensors import Array

Floats = npt.NDArray[np.float64]
Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class BatchEnv(Protocol):
    """Environments in step; where one is done, it already shows its next episode.

    Three further attributes are used where they exist: ``elapsed`` float32 (B,), the time that
    passed in the last step; ``narrow(mask, head, choices)``, which rules out choices of later heads
    after an earlier one chose; ``report()``, named figures of the episodes since it was last asked.
    """

    num_envs: int
    """B"""
    num_heads: int
    """H, one choice each."""
    num_choices: int
    """K, the same for every head."""
    num_features: int
    """F"""
    observation: Floats32  # (B, F) updated in place
    mask: Bools  # (B, H, K) updated in place; every head may choose something

    def reset(self, seed: int) -> None:
        """Start all over."""

    def step(self, actions: Ints) -> tuple[Floats32, Bools]:
        """Act (B, H); reward (B,) and whether the episode ended (B,)."""

    def snapshot(self) -> dict[str, Array]:
        """All state, as copies."""

    def restore(self, snapshot: Mapping[str, Array]) -> None:
        """Put back a snapshot."""


Rule = Callable[[BatchEnv], Ints]
"""A hand-made policy: choices (B, H) for the environments as they stand."""


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
        ended, self._ended = self._ended, []
        returns, lengths = [r for r, _ in ended], [n for _, n in ended]
        return {
            "episodes": len(ended),
            "episode_return": float(np.mean(returns)) if ended else None,
            "episode_length": float(np.mean(lengths)) if ended else None,
        }

    def state(self) -> dict[str, Array]:
        """What a resumed run needs; nothing is pending between updates."""
        return {"episodes.total": self._total.copy(), "episodes.length": self._length.copy()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self._total[:] = state["episodes.total"].astype(np.float64)
        self._length[:] = state["episodes.length"].astype(np.int64)
