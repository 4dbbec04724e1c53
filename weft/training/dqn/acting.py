"""One batch of environments and what explores in them: what DQN learns from is made here, in one process or in many."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch

from weft.policies.candidates.net import CandidateNet
from weft.policies.candidates.packed import Packed, pack
from weft.policies.tensors import Array
from weft.training.dqn.config import DQNConfig
from weft.training.dqn.exploration import Exploration
from weft.training.environment import Bools, CandidateEnv, Episodes, Floats, Floats32, Ints


class Moment(NamedTuple):
    """What B environments saw, did and got at once."""

    seen: Packed
    row: Ints  # (B,) number of the chosen row in its state
    reward: Floats32  # (B,) scaled
    discount: Floats32  # (B,) of what follows; 0 where the episode ended
    error: Floats32 | None
    """(B,) of the decisions n moments before, by the nets that made them; None: not wanted, or not known yet."""


class Acting:
    """Steps environments by a net that explores.

    Parameters
    ----------
    env
        Is reset with ``env_seed`` here. Its last choice waits, if it has one that does.
    slots
        Number of the first environment among all that explore, and how many those are; None: they are all.
    has_errors
        Whether moments come with the errors of earlier decisions.
    """

    def __init__(
        self,
        env: CandidateEnv,
        config: DQNConfig,
        seed: int,
        *,
        env_seed: int | None = None,
        slots: tuple[int, int] | None = None,
        has_errors: bool = False,
    ) -> None:
        self.env, self._config = env, config
        self.exploration = Exploration(config, seed, slots)
        self.episodes = Episodes(env.num_envs)
        self._errors = FirstErrors(config.return_steps) if has_errors else None
        self.ranges = np.repeat([[np.inf], [-np.inf]], env.num_world + env.num_columns, 1)  # (2, W + C)
        env.reset(seed if env_seed is None else env_seed)

    @torch.no_grad()
    def step(self, net: CandidateNet, collected: int, epsilon: Floats | None = None) -> tuple[Moment, float]:
        """One step of every environment, and the sum of rewards; ``collected`` decisions were made before by all."""
        env = self.env
        seen, choice = pack(env.observation, env.mask, env.num_world)
        self._widen_ranges(seen)
        begin = np.cumsum(seen.sizes) - seen.sizes
        worth = net.q_values(seen)
        best = worth.argmax(1).cpu().numpy()
        chosen = self.exploration.choose(env, choice[begin + best], collected, epsilon)
        row = _rows_of(seen, choice, chosen)
        reward, done = env.step(np.ascontiguousarray(chosen[:, None]))
        scaled = reward * np.float32(self._config.reward_scale)
        discount = np.where(done, np.float32(0.0), self._discount())
        error = None
        if self._errors is not None:
            each = worth.cpu().numpy()
            at = np.arange(len(row))
            error = self._errors.add(each[at, row], each[at, best], scaled, discount)
        self.episodes.add(reward, done)
        return Moment(seen, row, scaled, discount, error), float(reward.sum(dtype=np.float64))

    def _discount(self) -> Floats32:
        """Discount (B,) of the step just taken."""
        config = self._config
        if config.time_unit is None:
            return np.full(self.env.num_envs, config.gamma, np.float32)
        return np.asarray(config.gamma ** (self.env.elapsed / config.time_unit), np.float32)

    def _widen_ranges(self, seen: Packed) -> None:
        for at, least in enumerate((np.min, np.max)):
            now = np.concatenate([least(seen.world, axis=0), least(seen.rows, axis=0)])
            self.ranges[at] = least([self.ranges[at], now], axis=0)

    def state(self) -> dict[str, Array]:
        """What a resumed run needs."""
        return {
            **{f"env.{name}": array for name, array in self.env.snapshot().items()},
            **self.episodes.state(),
            **self.exploration.state(),
            **(self._errors.state() if self._errors is not None else {}),
            "ranges": self.ranges.copy(),
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        at = len("env.")
        self.env.restore({name[at:]: array for name, array in state.items() if name.startswith("env.")})
        self.episodes.restore(state)
        self.exploration.restore(state)
        if self._errors is not None:
            self._errors.restore(state)
        self.ranges[:] = state["ranges"].astype(np.float64)


class FirstErrors:
    """Errors of decisions by what the acting nets thought of them and of what came n decisions later (Horgan et al., 2018)."""

    def __init__(self, num_steps: int) -> None:
        self._kept: deque[tuple[Floats32, Floats32, Floats32]] = deque(maxlen=num_steps)

    def add(self, worth: Floats32, best: Floats32, reward: Floats32, discount: Floats32) -> Floats32 | None:
        """Of decisions (B,) that were thought to be worth this, in states whose best choice was: errors n decisions back."""
        found = None
        if len(self._kept) == self._kept.maxlen:
            total, left = np.zeros_like(worth), np.ones_like(worth)
            for _, paid, kept in self._kept:
                total += left * paid
                left *= kept
            found = np.asarray(total + left * best - self._kept[0][0], np.float32)
        self._kept.append((worth.copy(), reward.copy(), discount.copy()))
        return found

    def state(self) -> dict[str, Array]:
        """What a resumed run needs."""
        columns = zip(*self._kept, strict=True) if self._kept else ((), (), ())
        names = ("first.worth", "first.reward", "first.discount")
        return {name: np.array(column, np.float32) for name, column in zip(names, columns, strict=True)}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        names = ("first.worth", "first.reward", "first.discount")
        columns = [state[name].astype(np.float32) for name in names]
        self._kept.clear()
        self._kept.extend(zip(*columns, strict=True))


def _rows_of(seen: Packed, choice: Ints, chosen: Ints) -> Ints:
    """The number (N,) of the row that stands for every chosen choice (N,)."""
    is_chosen: Bools = choice == np.repeat(chosen, seen.sizes)
    return seen.place[is_chosen]
