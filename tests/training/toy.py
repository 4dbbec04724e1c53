"""A tiny batch of environments with a known optimum, for the training tests.

Head 0 charges a cell (cost 0.1, one level up), fires it (pays 0, 0.2 or 2 at level 0, 1 or 2; masked
at level 0) or waits. Head 1 must match a signal shown to it, for 0.5; one wrong choice is masked.
Charging twice before firing is best: three steps earn 1.8, so an episode of 30 steps is worth
18 + 15 = 33, and a step 1.1.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.policies.tensors import Array
from weft.training.environment import Narrow

PAY = np.array([0.0, 0.2, 2.0], np.float32)
LENGTH, BEST_PER_STEP = 30, 1.1
CHARGE, FIRE, WAIT = 0, 1, 2


class ToyEnv:
    """B copies; 2 heads of 3 choices, 6 features: one-hot level, one-hot signal."""

    num_heads, num_choices, num_features = 2, 3, 6
    narrow: Narrow | None = None

    def __init__(self, num_envs: int, *, num_agents: int = 1) -> None:
        self.num_envs, self.num_agents = num_envs, num_agents
        self.observation = np.zeros((num_envs, 6), np.float32)
        self.mask = np.ones((num_envs, 2, 3), np.bool_)
        self.elapsed = np.ones(num_envs, np.float32)
        self._level = np.zeros(num_envs, np.int64)
        self._time = np.zeros(num_envs, np.int64)
        self._state = np.zeros(num_envs, np.uint64)
        self.reset(0)

    def reset(self, seed: int) -> None:
        self._state[:] = np.arange(self.num_envs, dtype=np.uint64) + np.uint64(1_000_003 * (seed + 1))
        self._level[:] = 0
        self._time[:] = np.arange(self.num_envs) % LENGTH
        self._show()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        assert np.take_along_axis(self.mask, actions[:, :, None], 2).all()
        does = actions[:, 0]
        reward = np.stack([-0.1 * (does == CHARGE), 0.5 * (actions[:, 1] == self._signal)], 1)
        reward[:, 0] += np.where(does == FIRE, PAY[self._level], 0.0)
        self._level = np.where(does == FIRE, 0, np.minimum(self._level + (does == CHARGE), 2))
        self._time += 1
        done = self._time == LENGTH
        self._time[done] = 0
        self._level[done] = 0
        self._show()
        paid = reward if self.num_agents > 1 else reward.sum(1)
        return paid.astype(np.float32), done

    def report(self) -> dict[str, float | None]:
        return {}

    def snapshot(self) -> dict[str, Array]:
        return {"level": self._level.copy(), "time": self._time.copy(), "state": self._state.copy()} | {
            "observation": self.observation.copy(),
            "mask": self.mask.copy(),
        }

    def restore(self, snapshot: Mapping[str, Array]) -> None:
        self._level[:], self._time[:] = snapshot["level"], snapshot["time"]
        self._state[:] = snapshot["state"]
        self.observation[:], self.mask[:] = snapshot["observation"], snapshot["mask"]

    @property
    def _signal(self) -> np.ndarray:
        return self.observation[:, 3:].argmax(1)

    def _show(self) -> None:
        """Draw the next signal (a linear congruential step) and write observation and mask."""
        self._state = self._state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        signal = (self._state >> np.uint64(40)).astype(np.int64) % 3
        rows = np.arange(self.num_envs)
        self.observation[:] = 0.0
        self.observation[rows, self._level] = 1.0
        self.observation[rows, 3 + signal] = 1.0
        self.mask[:] = True
        self.mask[:, 0, FIRE] = self._level > 0
        self.mask[rows, 1, (signal + 1) % 3] = False


def best_rule(env: ToyEnv) -> np.ndarray:
    """The optimal choices."""
    level = env.observation[:, :3].argmax(1)
    return np.stack([np.where(level == 2, FIRE, CHARGE), env.observation[:, 3:].argmax(1)], 1)
