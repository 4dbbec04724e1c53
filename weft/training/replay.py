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
from weft.training.dqn.config import DQNConfig
from weft.training.environment import Bools, Floats, Floats32, Ints


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

    @property
    def num_bytes(self) -> int:
        """How much memory it takes."""
        size = 2 if self.is_half else 4
        of_decisions = self.num_moments * self.num_envs * (size * self.num_world + 48)
        return of_decisions + self.rows * (size * self.num_columns + 1)


def shape_of(
    config: DQNConfig, num_envs: int, num_world: int, num_columns: int, num_choices: int
) -> ReplayShape:
    """How much is kept of the decisions in environments of these sizes."""
    return ReplayShape(
        num_envs,
        num_world,
        num_columns,
        num_choices,
        config.replay,
        config.replay * config.replay_candidates,
        config.return_steps,
        config.is_half,
    )


class Drawn(NamedTuple):
    """A batch of m decisions."""

    slot: Ints  # (m,) where they are kept
    weight: Floats32  # (m,) importance weights, the greatest 1
    state: Packed
    action: Ints  # (m,) number of the chosen row in its state
    reward: Floats32  # (m,) discounted sum over n decisions, or until the episode ended
    discount: Floats32  # (m,) of what the state after them is worth; 0 where the episode ended before
    after: Packed


class Kept(NamedTuple):
    """m decisions as they are kept; the fields of a :class:`Drawn` without weights."""

    slot: Ints  # (m,)
    priority: Floats  # (m,) they are drawn in proportion to it
    state: Packed
    action: Ints  # (m,)
    reward: Floats32  # (m,)
    discount: Floats32  # (m,)
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
        self._is_ready = np.zeros(shape.num_moments, np.bool_)  # (T,) whether the n successors are known
        self._streak = 0  # moments up to the last that follow one another without a gap
        self._num_ready = 0  # moments
        self._ready: Ints | None = None  # ready moments of the ring, oldest first; None: to be found again

    @property
    def num_kept(self) -> int:
        """Decisions that are kept."""
        return (self._end - self._begin) * self.shape.num_envs

    @property
    def num_ready(self) -> int:
        """Decisions that can be drawn: those whose n successors are known."""
        return self._num_ready * self.shape.num_envs

    @property
    def total(self) -> float:
        """Sum of all priorities."""
        return self._tree.total

    @property
    def fill(self) -> float:
        """Share of the room for decisions that is used."""
        return self.num_kept / (self.shape.num_moments * self.shape.num_envs)

    @property
    def level(self) -> float:
        """What a state is worth if all are worth the same: rewards over what is lost by discounting; 0 where nothing is lost."""
        return level_of(*self.level_sums)

    @property
    def level_sums(self) -> tuple[float, float]:
        """Rewards, and what is lost by discounting, of all that is kept."""
        moments = np.arange(self._begin, self._end) % self.shape.num_moments
        lost = float((1.0 - self._discount[moments].astype(np.float64)).sum())
        return float(self._reward[moments].sum(dtype=np.float64)), lost

    # Keeping

    def break_off(self) -> None:
        """What is added next does not follow what was added last: nothing is learned across the gap."""
        self._streak = 0

    def add(
        self,
        seen: Packed,
        action: Ints,
        reward: Floats32,
        discount: Floats32,
        error: Floats32 | None = None,
    ) -> None:
        """Keep a moment: what B environments saw, the row that each chose, what it got, and the discount of what follows.

        ``error`` (B,) is that of the decisions n moments before, which can be drawn from now on; None: the greatest so far.
        """
        self._make_room(len(seen.rows))
        at = self._end % self.shape.num_moments
        self._world[at], self._count[at] = seen.world, seen.sizes
        self._first[at] = self._rows_end + np.cumsum(seen.sizes) - seen.sizes
        self._action[at], self._reward[at], self._discount[at] = action, reward, discount
        place = (self._rows_end + np.arange(len(seen.rows))) % self.shape.rows
        self._rows[place], self._allowed[place] = seen.rows, seen.allowed
        self._end += 1
        self._rows_end += len(seen.rows)
        self._streak += 1
        ready = self._end - 1 - self.shape.num_steps
        if ready >= self._begin and self._streak > self.shape.num_steps:
            self._set_ready(ready, True)
            if error is None:
                self._set_moment(ready, self._greatest**self._alpha)
            else:
                self.set_errors(self._slots_of(ready), error)

    def _make_room(self, num_rows: int) -> None:
        """Drop the oldest moments until one more with this many rows fits."""
        while self._begin < self._end:
            first = self._first[self._begin % self.shape.num_moments, 0]
            is_full = self._end - self._begin == self.shape.num_moments
            if not is_full and self._rows_end + num_rows - first <= self.shape.rows:
                return
            self._set_moment(self._begin, 0.0)
            self._set_ready(self._begin, False)
            self._begin += 1

    def _set_ready(self, moment: int, is_ready: bool) -> None:
        at = moment % self.shape.num_moments
        self._num_ready += int(is_ready) - int(self._is_ready[at])
        self._is_ready[at] = is_ready
        self._ready = None

    def _set_moment(self, moment: int, priority: float) -> None:
        self._tree.set(self._slots_of(moment), np.full(self.shape.num_envs, priority))

    def _slots_of(self, moment: int) -> Ints:
        num = self.shape.num_envs
        return moment % self.shape.num_moments * num + np.arange(num)

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
        rank, target = places(level, uniform_share, self.num_ready, self.total)
        kept = self.fetch(self.slots_at(rank, target))
        share = len(rank) / len(level)
        return drawn(kept, importance(kept.priority, share, self.num_ready, self.total, beta))

    def slots_at(self, rank: Ints, target: Floats) -> Ints:
        """Of all that can be drawn, oldest first, those of these ranks; then those in which sums of priorities reach these targets."""
        moment, env = np.divmod(rank, self.shape.num_envs)
        uniform = self._ready_at(moment) * self.shape.num_envs + env
        return np.concatenate([uniform, self._tree.find(target)])

    def _ready_at(self, number: Ints) -> Ints:
        """The moments of the ring that have these numbers among those that can be drawn, oldest first."""
        if self._streak >= self._end - self._begin:
            return (self._begin + number) % self.shape.num_moments
        if self._ready is None:
            moments = np.arange(self._begin, self._end) % self.shape.num_moments
            self._ready = moments[self._is_ready[moments]]
        return self._ready[number]

    def fetch(self, slot: Ints) -> Kept:
        """What is kept in these slots (m,)."""
        reward, discount = self._returns(slot)
        return Kept(
            slot,
            self._tree.leaves[slot],
            self._packed(slot),
            self._action.reshape(-1)[slot],
            reward,
            discount,
            self._packed(self._later(slot, self.shape.num_steps)),
        )

    def _later(self, slot: Ints, num_steps: int) -> Ints:
        """The slots of the same environments so many moments later."""
        return (slot + num_steps * self.shape.num_envs) % self._first.size

    def stamped(self, slot: Ints) -> Ints:
        """Names of slots that hold until their moments are dropped: counted since the beginning."""
        moment, env = np.divmod(slot, self.shape.num_envs)
        ring = self.shape.num_moments
        return ((moment - self._begin) % ring + self._begin) * self.shape.num_envs + env

    def still_there(self, stamp: Ints) -> tuple[Bools, Ints]:
        """Which of these names (m,) are still kept, and the slots of those."""
        moment, env = np.divmod(stamp, self.shape.num_envs)
        is_there = (moment >= self._begin) & (moment < self._end)
        return is_there, (moment % self.shape.num_moments * self.shape.num_envs + env)[is_there]

    def _returns(self, slot: Ints) -> tuple[Floats32, Floats32]:
        """Discounted sums (m,) of n rewards, and the discount of what follows."""
        total, discount = np.zeros(len(slot), np.float32), np.ones(len(slot), np.float32)
        paid, kept = self._reward.reshape(-1), self._discount.reshape(-1)
        for k in range(self.shape.num_steps):
            at = self._later(slot, k)
            total += discount * paid[at]
            discount *= kept[at]
        return total, discount

    def _packed(self, slot: Ints) -> Packed:
        """The states in these slots."""
        count, first = self._count.reshape(-1)[slot], self._first.reshape(-1)[slot]
        begin = np.cumsum(count) - count
        place = (np.repeat(first - begin, count) + np.arange(int(count.sum()))) % self.shape.rows
        world = self._world.reshape(-1, self.shape.num_world).take(slot, axis=0)
        rows = self._rows.take(place, axis=0)
        return Packed(
            world.astype(np.float32, copy=False),
            rows.astype(np.float32, copy=False),
            count,
            self._allowed[place],
        )

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
            **self._gaps(moments),
        }

    def _gaps(self, moments: Ints) -> dict[str, Array]:
        """What cannot be drawn; nothing where all moments follow one another."""
        if self._streak >= self._end - self._begin:
            return {}
        return {"replay.ready": self._is_ready[moments], "replay.streak": np.array(self._streak)}

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
        self._streak = int(state.get("replay.streak", self._end - self._begin))
        before_last = np.arange(len(moments)) < len(moments) - self.shape.num_steps
        self._is_ready[:], self._ready = False, None
        self._is_ready[moments] = state.get("replay.ready", before_last).astype(np.bool_)
        self._num_ready = int(self._is_ready.sum())
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


def places(level: Floats, uniform_share: float, num_ready: int, total: float) -> tuple[Ints, Floats]:
    """Where draws fall: ranks of the first share of them among all that can be drawn, sums of priorities of the rest.

    Every level in [0, 1) has a stratum of its own.
    """
    num_uniform = round(uniform_share * len(level))
    first, rest = (
        (np.arange(len(part)) + part) / max(len(part), 1)
        for part in (level[:num_uniform], level[num_uniform:])
    )
    return np.minimum((first * num_ready).astype(np.int64), num_ready - 1), rest * total


def importance(priority: Floats, share: float, num_ready: int, total: float, beta: float) -> Floats32:
    """Weights (m,), the greatest 1, of what was drawn from ``num_ready`` decisions whose priorities sum up to ``total``."""
    weight = ((1.0 - share) * (priority * (num_ready / total)) + share) ** -beta
    return np.asarray((weight / weight.max()).astype(np.float32))


def drawn(kept: Kept, weight: Floats32) -> Drawn:
    """A batch of these decisions."""
    return Drawn(kept.slot, weight, kept.state, kept.action, kept.reward, kept.discount, kept.after)


def level_of(rewards: float, lost: float) -> float:
    """What a state is worth if all are worth the same; 0 where nothing is lost by discounting."""
    return rewards / lost if lost > 0.0 else 0.0
