"""Configurations that are lent to actors, and the seats in which they play them. Loads no torch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from weft.policies.tensors import Array
from weft.training.environment import Bools, Floats, Floats32, Ints

NOBODYS = -1
"""The number of a lease that nobody gave: its configuration was drawn."""


class Lease(NamedTuple):
    """A configuration to play for some episodes."""

    number: int
    config: int
    episodes: int
    epsilon: float = float("nan")
    """Probability of an explored choice; NaN: that of the environment."""
    is_floor: bool = False
    """Whether it is the least in every other environment, instead of the only one in all."""


class LeaseReport(NamedTuple):
    """An episode of a lease that ended."""

    number: int
    config: int
    total: float
    """Sum of rewards, scaled as they were learned from; without what a potential adds, where there is one."""
    decisions: int
    error: float
    """Mean size of the errors of its decisions; 0 where they are not known."""
    is_last: bool


class Played(Protocol):
    """What a moment must say to be booked."""

    @property
    def reward(self) -> Floats32:
        """(B,)"""

    @property
    def discount(self) -> Floats32:
        """(B,) 0 where the episode ended."""

    @property
    def error(self) -> Floats32 | None:
        """(B,)"""


class Correction(Protocol):
    """What is added to a sum of rewards so that it says how good an episode was."""

    def at_first(self) -> Floats:
        """Of an episode (B,) that has just begun."""

    def after_step(self) -> Floats:
        """Of a step (B,) that did not end its episode."""


class LeasableEnv(Protocol):
    """Environments whose episodes can be chosen."""

    num_envs: int
    deal: Callable[[int, float], int] | None
    """Called as (environment, level in [0, 1)) when an episode begins: which of the environment's problems it plays."""

    def reset(self, seed: int) -> None:
        """Start all over."""


class Seats:
    """Which environment plays which lease; when one is through, it takes the next of the stock.

    Parameters
    ----------
    env
        Its episodes are chosen here from now on.
    configurations
        Of every environment, the configuration of each of its problems.
    correction
        Of what episodes are reported to have earned; None: the sum of rewards.
    """

    def __init__(
        self,
        env: LeasableEnv,
        configurations: Sequence[Ints],
        seed: int = 0,
        correction: Correction | None = None,
    ) -> None:
        self._env, self._seed, self._correction = env, seed, correction
        self._problems = [_by_config(own) for own in configurations]
        num = env.num_envs
        self._playing = [Lease(NOBODYS, -1, 1)] * num  # of the episode that the last moment belongs to
        self._dealt = list(self._playing)  # of the episode that comes next
        self._left = np.zeros(num, np.int64)  # (B,) episodes that the dealt lease still has
        self._stock: deque[Lease] = deque()
        self._total, self._error = np.zeros(num), np.zeros(num)  # (B,) of the episode so far
        self._length = np.zeros(num, np.int64)  # (B,)
        self._reports: list[LeaseReport] = []
        self._has_begun = False
        env.deal = self._deal

    @property
    def num_waiting(self) -> int:
        """Leases in stock."""
        return len(self._stock)

    def take(self, leases: Sequence[Lease]) -> None:
        """Put leases in stock; the first ones begin to be played at once."""
        self._stock.extend(leases)
        if not self._has_begun and self._stock:
            self._has_begun = True
            self._env.reset(self._seed)
            self._playing = list(self._dealt)
            self._total = self._at_first()

    def _at_first(self) -> Floats:
        """What the sums (B,) of episodes begin with."""
        return np.zeros(self._env.num_envs) if self._correction is None else self._correction.at_first()

    def _deal(self, e: int, level: float) -> int:
        """The problem of the next episode; where nothing is in stock, another episode of the same configuration."""
        if self._left[e] <= 0 and self._stock:
            fits = next((k for k, one in enumerate(self._stock) if one.config in self._problems[e]), None)
            if fits is not None:
                self._dealt[e] = self._stock[fits]
                del self._stock[fits]
                self._left[e] = self._dealt[e].episodes
        self._left[e] -= 1
        own = self._problems[e].get(self._dealt[e].config)
        if own is None:
            own = np.concatenate(list(self._problems[e].values()))
        return int(own[min(int(level * len(own)), len(own) - 1)])

    def note(self, moment: Played) -> None:
        """Book what a step brought; where an episode ended, the next one was dealt already."""
        self._total += moment.reward
        self._length += 1
        if moment.error is not None:
            self._error += np.abs(moment.error)
        over: Bools = moment.discount == 0.0
        if self._correction is not None:
            self._total += np.where(over, 0.0, self._correction.after_step())
        for e in np.flatnonzero(over).tolist():
            lease, length = self._playing[e], int(self._length[e])
            is_last = self._dealt[e] is not lease
            mean = float(self._error[e]) / length
            if lease.number != NOBODYS:
                self._reports.append(
                    LeaseReport(lease.number, lease.config, float(self._total[e]), length, mean, is_last)
                )
            self._playing[e] = self._dealt[e]
        self._total[over], self._error[over] = self._at_first()[over], 0.0
        self._length[over] = 0

    def epsilon(self, usual: Floats) -> Floats:
        """The probability (B,) of an explored choice, given that of every environment."""
        own = np.array([one.epsilon for one in self._dealt])
        floor = np.array([one.is_floor for one in self._dealt])
        every_other = np.arange(len(own)) % 2 == 0
        raised = np.where(every_other, np.fmax(usual, own), usual)
        return np.where(np.isnan(own), usual, np.where(floor, raised, own))

    def reports(self) -> tuple[LeaseReport, ...]:
        """Episodes that ended since the last call."""
        found, self._reports = tuple(self._reports), []
        return found

    def state(self) -> dict[str, Array]:
        """What a resumed run needs; nothing is pending between orders."""
        return {
            "seats.playing": _table(self._playing),
            "seats.dealt": _table(self._dealt),
            "seats.stock": _table(self._stock),
            "seats.left": self._left.copy(),
            "seats.sums": np.stack([self._total, self._error, self._length]),
            "seats.begun": np.array(self._has_begun),
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        dealt = _leases(state["seats.dealt"])
        playing = _leases(state["seats.playing"])
        # One lease that is played and dealt again is one object: that is how its last episode is known.
        self._dealt = [p if p.number == d.number else d for p, d in zip(playing, dealt, strict=True)]
        self._playing = playing
        self._stock = deque(_leases(state["seats.stock"]))
        self._left[:] = state["seats.left"].astype(np.int64)
        self._total, self._error, length = (row.copy() for row in state["seats.sums"].astype(np.float64))
        self._length = length.astype(np.int64)
        self._has_begun = bool(state["seats.begun"])


def _by_config(own: Ints) -> dict[int, Ints]:
    return {int(config): np.flatnonzero(own == config) for config in np.unique(own)}


def _table(leases: Sequence[Lease] | deque[Lease]) -> Array:
    return np.array([tuple(map(float, one)) for one in leases], np.float64).reshape(-1, len(Lease._fields))


def _leases(table: Array) -> list[Lease]:
    rows = table.astype(np.float64).tolist()
    return [Lease(int(a), int(b), int(c), d, bool(e)) for a, b, c, d, e in rows]
