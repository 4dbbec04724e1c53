"""Observations of candidates without their padding: the rows that are there, one after another. Loads neither torch nor numba."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats32 = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Packed(NamedTuple):
    """N observations with M candidates in all."""

    world: Floats32  # (N, W)
    rows: Floats32  # (M, C) by observation
    sizes: Ints  # (N,) how many rows every observation has
    allowed: Bools  # (M,) whether the mask allows them

    @property
    def owner(self) -> Ints:
        """The observation (M,) of every row."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def place(self) -> Ints:
        """The number (M,) of every row among those of its observation."""
        return np.arange(len(self.rows)) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)


def pack(observation: Floats32, mask: Bools, num_world: int) -> tuple[Packed, Ints]:
    """Observations (N, F) with masks (N, 1, K) as copies without padding, and the choice (M,) that every row stands for."""
    num, num_choices = len(mask), mask.shape[2]
    rows = observation[:, num_world:].reshape(num, num_choices, -1)
    owner, choice = np.nonzero(rows[..., :2].max(axis=-1) > 0)
    sizes = np.bincount(owner, minlength=num)
    return Packed(
        observation[:, :num_world].copy(), rows[owner, choice], sizes, mask[owner, 0, choice]
    ), choice
