"""A tiny batch of environments that list candidates, with a known optimum, for the tests of Q-learning.

A cell is charged (cost 0.1, one level up), fired (pays 0, 0.2 or 2 at level 0, 1 or 2; not listed at level 0), or left
alone: the last choice waits. At level 2 a second candidate that charges is listed but masked. Charging twice before
firing is best: three steps earn 1.8. Steps take 1, 2 or 3 units of time in turn.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.policies.tensors import Array

PAY = np.array([0.0, 0.2, 2.0], np.float32)
LENGTH, BEST_PER_STEP = 12, 0.6
CHARGE, FIRE, AGAIN, WAIT = range(4)


class ToyCandidates:
    """B copies; 4 choices, 3 features of the world (one-hot level), 4 of candidates: starts, waits, charges, base rule."""

    num_heads = num_agents = 1
    num_choices, num_world, num_columns = 4, 3, 4
    num_features = 3 + 4 * 4
    narrow = None
    feature_version = "toy/1"

    def __init__(self, num_envs: int, *, base_column: int | None = None) -> None:
        self.num_envs, self.base_column = num_envs, base_column
        self.observation = np.zeros((num_envs, self.num_features), np.float32)
        self.mask = np.zeros((num_envs, 1, 4), np.bool_)
        self.elapsed = np.ones(num_envs, np.float32)
        self._level = np.zeros(num_envs, np.int64)
        self.time = np.zeros(num_envs, np.int64)
        self.reset(0)

    def reset(self, seed: int) -> None:
        self._level[:] = 0
        self.time[:] = (np.arange(self.num_envs) + seed) % LENGTH
        self._show()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert np.take_along_axis(self.mask, actions[:, :, None], 2).all()
        does = actions[:, 0]
        reward = -0.1 * (does == CHARGE) + np.where(does == FIRE, PAY[self._level], 0.0)
        self._level = np.where(does == FIRE, 0, np.minimum(self._level + (does == CHARGE), 2))
        self.time += 1
        self.elapsed[:] = 1.0 + self.time % 3
        done = self.time == LENGTH
        self.time[done] = 0
        self._level[done] = 0
        self._show()
        return reward.astype(np.float32), done

    def report(self) -> dict[str, float | None]:
        return {}

    def snapshot(self) -> dict[str, Array]:
        names = ("observation", "mask", "elapsed")
        own = {"level": self._level.copy(), "time": self.time.copy()}
        return own | {name: getattr(self, name).copy() for name in names}

    def restore(self, snapshot: Mapping[str, Array]) -> None:
        self._level[:], self.time[:] = snapshot["level"], snapshot["time"]
        for name in ("observation", "mask", "elapsed"):
            getattr(self, name)[:] = snapshot[name]

    def _show(self) -> None:
        """Write observation and mask; the base rule, where marked, fires whenever it can."""
        world, rows = self.observation[:, :3], self.observation[:, 3:].reshape(-1, 4, 4)
        rows[:] = 0.0
        world[:] = np.eye(3, dtype=np.float32)[self._level]
        rows[:, CHARGE] = [1.0, 0.0, 1.0, 0.0]
        rows[:, FIRE, 0] = rows[:, FIRE, 3] = self._level > 0
        rows[:, AGAIN, 0] = rows[:, AGAIN, 2] = self._level == 2
        rows[:, CHARGE, 3] = self._level == 0
        rows[:, WAIT, 1] = 1.0
        self.mask[:] = True
        self.mask[:, 0, FIRE] = self._level > 0
        self.mask[:, 0, AGAIN] = False


def best_choices(env: ToyCandidates) -> np.ndarray:
    """The optimal choices (B,), unless the episode ends before they pay."""
    return np.where(env.observation[:, :3].argmax(1) == 2, FIRE, CHARGE)
