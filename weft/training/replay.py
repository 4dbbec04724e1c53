"""Decisions kept to be learned from again and again, drawn by priority.

Environments are stored in step: what B of them saw, did and got at once is one *moment*. A state is kept once, its
candidates without padding in a ring of rows, and the state after n decisions is found n moments later. Where an
episode ended the discount is 0, so that nothing beyond it counts. The oldest moments make room for new ones,
be it of moments or of rows. Proportional priorities after Schaul et al. (2016). Loads no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.policies.candidates.packed import Packed
from weft.policies.tensors import Array
from weft.sim.sum_tree import SumTree
from weft.training.environment import Floats, Floats32, Ints


@dataclass(frozen=True)
class ReplayShape:
    """How much is kept, and of what."""

    num_envs: int
    """B"""
    num_world: int
    """W"""
    num_columns: int
    """C"""
    num_choices: int
    """K: candidates of a state at most."""
    decisions: int
    """Decisions that are kept at most, rounded down to whole moments."""
    rows: int
    """Candidates that are kept at most, of all states together."""
    num_steps: int
    """n: decisions between a state and the one that its return ends with."""
    is_half: bool = True
    """Whether features are kept in 16 bits."""

    def __post_init__(self) -> None:
        if self.num_moments < self.num_steps + 2:
            least = self.num_envs * (self.num_steps + 2)
            raise InputError(
                f"expected at least {least} for {self.num_envs} environments, got {self.decisions}",
                field="replay",
            )
        most = self.num_envs * self.num_choices * (self.num_steps + 2)
        if self.rows < most:
            raise InputError(
                f"expected room for at least {most} candidates, got {self.rows}: raise replay", field="replay"
            )

    @property
    def num_moments(self) -> int:
        """T"""
        return self.decisions // self.num_envs


class Drawn(NamedTuple):
    """A batch of m decisions."""

    slot: Ints  # (m,) where they are kept
    weight: Floats32  # (m,) importance weights, the greatest 1
    state: Packed
    action: Ints  # (m,) number of the chosen row in its state
    reward: Floats32  # (m,) discounted sum over n decisions, or until the episode ended
    discount: Floats32  # (m,) of what the state after them is worth; 0 where the episode ended before
    after: Packed


class Replay:
    """A ring of moments with a sum tree of priorities.

    Parameters
    ----------
    alpha, epsilon
        A decision whose error was d is drawn in proportion to (|d| + epsilon) ** alpha; a new one as if its
        error were the greatest so far.
    """

    def __init__(self, shape: ReplayShape, alpha: float, epsilon: float) -> None:
        self.shape, self._alpha, self._epsilon = shape, alpha, epsilon
        size, kind = (shape.num_moments, shape.num_envs), np.float16 if shape.is_half else np.float32
        self._world: npt.NDArray[np.floating] = np.zeros((*size, shape.num_world), kind)  # (T, B, W)
        self._first = np.zeros(size, np.int64)  # (T, B) first row, counted since the beginning
        self._count = np.zeros(size, np.int64)  # (T, B) rows
        self._action = np.zeros(size, np.int64)  # (T, B)
        self._reward = np.zeros(size, np.float32)  # (T, B)
        self._discount = np.zeros(size, np.float32)  # (T, B) 0 where the episode ended
        self._rows: npt.NDArray[np.floating] = np.zeros((shape.rows, shape.num_columns), kind)  # (R, C)
        self._allowed = np.zeros(shape.rows, np.bool_)  # (R,)
        self._tree = SumTree(shape.num_moments * shape.num_envs)
        self._greatest = 1.0
        self._begin = self._end = 0  # moments that are kept, counted since the beginning
        self._rows_end = 0  # rows so far

    @property
    def num_kept(self) -> int:
        """Decisions that are kept."""
        return (self._end - self._begin) * self.shape.num_envs

    @property
    def num_ready(self) -> int:
        """Decisions that can be drawn: those whose n successors are known."""
        return max(0, self._end - self.shape.num_steps - self._begin) * self.shape.num_envs

    @property
    def fill(self) -> float:
        """Share of the room for decisions that is used."""
        return self.num_kept / (self.shape.num_moments * self.shape.num_envs)

    @property
    def level(self) -> float:
        """What a state is worth if all are worth the same: rewards over what is lost by discounting; 0 where nothing is lost."""
        moments = np.arange(self._begin, self._end) % self.shape.num_moments
        lost = float((1.0 - self._discount[moments].astype(np.float64)).sum())
        return float(self._reward[moments].sum(dtype=np.float64)) / lost if lost > 0.0 else 0.0

    # Keeping

    def add(self, seen: Packed, action: Ints, reward: Floats32, discount: Floats32) -> None:
        """Keep a moment: what B environments saw, the row that each chose, what it got, and the discount of what follows."""
        self._make_room(len(seen.rows))
        at = self._end % self.shape.num_moments
        self._world[at], self._count[at] = seen.world, seen.sizes
        self._first[at] = self._rows_end + np.cumsum(seen.sizes) - seen.sizes
        self._action[at], self._reward[at], self._discount[at] = action, reward, discount
        place = (self._rows_end + np.arange(len(seen.rows))) % self.shape.rows
        self._rows[place], self._allowed[place] = seen.rows, seen.allowed
        self._end += 1
        self._rows_end += len(seen.rows)
        ready = self._end - 1 - self.shape.num_steps
        if ready >= self._begin:
            self._set_moment(ready, self._greatest**self._alpha)

    def _make_room(self, num_rows: int) -> None:
        """Drop the oldest moments until one more with this many rows fits."""
        while self._begin < self._end:
            first = self._first[self._begin % self.shape.num_moments, 0]
            is_full = self._end - self._begin == self.shape.num_moments
            if not is_full and self._rows_end + num_rows - first <= self.shape.rows:
                return
            self._set_moment(self._begin, 0.0)
            self._begin += 1

    def _set_moment(self, moment: int, priority: float) -> None:
        num = self.shape.num_envs
        slots = moment % self.shape.num_moments * num + np.arange(num)
        self._tree.set(slots, np.full(num, priority))

    def set_errors(self, slot: Ints, error: Floats32) -> None:
        """Draw these decisions by the errors that they have now."""
        size = np.abs(error.astype(np.float64)) + self._epsilon
        self._greatest = max(self._greatest, float(size.max()))
        self._tree.set(slot, size**self._alpha)

    # Drawing

    def draw(self, level: Floats, uniform_share: float, beta: float) -> Drawn:
        """A batch of as many decisions as there are levels (m,) in [0, 1), each from a stratum of its own.

        The first share of them is drawn uniformly, the rest by priority; weights undo to the power of
        ``beta`` how much more often than uniformly a decision is drawn by both together.
        """
        num_uniform = round(uniform_share * len(level))
        slot = np.concatenate([self._uniform(level[:num_uniform]), self._by_priority(level[num_uniform:])])
        share = num_uniform / len(level)
        by_priority = self._tree.leaves[slot] * (self.num_ready / self._tree.total)
        weight = ((1.0 - share) * by_priority + share) ** -beta
        moment, env = np.divmod(slot, self.shape.num_envs)
        reward, discount = self._returns(moment, env)
        return Drawn(
            slot,
            (weight / weight.max()).astype(np.float32),
            self._packed(moment, env),
            self._action[moment, env],
            reward,
            discount,
            self._packed((moment + self.shape.num_steps) % self.shape.num_moments, env),
        )

    def _uniform(self, level: Floats) -> Ints:
        num = self.num_ready
        chosen = ((np.arange(len(level)) + level) / max(len(level), 1) * num).astype(np.int64)
        moment, env = np.divmod(np.minimum(chosen, num - 1), self.shape.num_envs)
        return np.asarray(
            (self._begin + moment) % self.shape.num_moments * self.shape.num_envs + env, np.int64
        )

    def _by_priority(self, level: Floats) -> Ints:
        return self._tree.find((np.arange(len(level)) + level) / max(len(level), 1) * self._tree.total)

    def _returns(self, moment: Ints, env: Ints) -> tuple[Floats32, Floats32]:
        """Discounted sums (m,) of n rewards, and the discount of what follows."""
        total, discount = np.zeros(len(moment), np.float32), np.ones(len(moment), np.float32)
        for k in range(self.shape.num_steps):
            at = (moment + k) % self.shape.num_moments
            total += discount * self._reward[at, env]
            discount *= self._discount[at, env]
        return total, discount

    def _packed(self, moment: Ints, env: Ints) -> Packed:
        """These states; moments are counted in the ring."""
        count, first = self._count[moment, env], self._first[moment, env]
        begin = np.cumsum(count) - count
        place = (np.repeat(first - begin, count) + np.arange(int(count.sum()))) % self.shape.rows
        world, rows = self._world[moment, env], self._rows[place]
        return Packed(world.astype(np.float32), rows.astype(np.float32), count, self._allowed[place])

    # State

    def state(self) -> dict[str, Array]:
        """What is kept, oldest first, and how it is drawn."""
        moments = np.arange(self._begin, self._end) % self.shape.num_moments
        first = int(self._first[moments[0], 0]) if len(moments) else self._rows_end
        rows = np.arange(first, self._rows_end) % self.shape.rows
        leaves = self._tree.leaves[: self._first.size].reshape(self._first.shape)
        by_moment = {name: column[moments] for name, column in self._by_moment().items()}
        return {
            **by_moment,
            "replay.rows": self._rows[rows],
            "replay.allowed": self._allowed[rows],
            "replay.priority": leaves[moments],
            "replay.greatest": np.array(self._greatest),
            "replay.ends": np.array([self._begin, self._end, first, self._rows_end]),
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self._begin, self._end, first, self._rows_end = state["replay.ends"].astype(np.int64).tolist()
        moments = np.arange(self._begin, self._end) % self.shape.num_moments
        rows = np.arange(first, self._rows_end) % self.shape.rows
        for name, column in self._by_moment().items():
            column[moments] = state[name]
        self._rows[rows] = state["replay.rows"].astype(self._rows.dtype)
        self._allowed[rows] = state["replay.allowed"].astype(np.bool_)
        self._greatest = float(state["replay.greatest"])
        leaves = np.zeros(self._tree.capacity)
        slots = moments[:, None] * self.shape.num_envs + np.arange(self.shape.num_envs)
        leaves[slots] = state["replay.priority"].astype(np.float64)
        self._tree.set_all(leaves)

    def _by_moment(self) -> dict[str, npt.NDArray[np.generic]]:
        return {
            "replay.world": self._world,
            "replay.first": self._first,
            "replay.count": self._count,
            "replay.action": self._action,
            "replay.reward": self._reward,
            "replay.discount": self._discount,
        }
