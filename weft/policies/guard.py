"""What keeps a policy to what it was trained for: the same world, and observations like those it saw."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from weft.model.graph import Bools
from weft.model.problem import Problem
from weft.policies.checkpoint import Card
from weft.schedulers.dispatch import Dispatcher, fifo, heavy_last_1
from weft.sim.streams import compile_stream

Floats32 = npt.NDArray[np.float32]

SLACK = 3.0
"""An observation is outside from so many times the trained range beyond its ends."""
LEAST_MARGIN = 1.0
"""The least distance that counts, in scaled units: no flag is outside because it was never set."""
_COLUMNS = ("graph_ptr", "kind", "num_in", "succ_ptr", "succ", "group", "batch", "can_run")


def fingerprint(problem: Problem) -> str:
    """SHA-256 of graph, run times on every device and batches; probabilities and arrivals are no part of it."""
    stream = compile_stream(problem)
    digest = hashlib.sha256()
    for name in _COLUMNS:
        column = np.asarray(getattr(stream, name))
        digest.update(f"{name} {column.shape}".encode() + column.astype("<i8").tobytes())
    digest.update(stream.run[:, stream.device_class].astype("<f4").tobytes())
    return digest.hexdigest()


def safe_dispatcher(problem: Problem) -> Dispatcher:
    """Who decides where a policy should not: the device-aware rule, else the oldest job first."""
    return heavy_last_1 if heavy_last_1.supports(problem) is None else fifo.waiting()


class Guard:
    """The upper ends of the trained ranges, with their margin: ages, lengths and flags are never negative."""

    def __init__(self, card: Card) -> None:
        low, high = np.array(card.ranges, np.float32).T
        margin = np.maximum(np.float32(SLACK) * (high - low), np.float32(LEAST_MARGIN))
        self._high = high + margin  # (num_features,)

    def is_needed(self, observation: Floats32) -> bool:
        """Whether any element of any observation (..., num_features) lies beyond its range."""
        return bool((observation > self._high).any())

    def outside(self, observation: Floats32) -> Bools:  # (num_envs,)
        """Which of the observations (num_envs, num_features) lie beyond the ranges."""
        return np.asarray((observation > self._high).any(axis=-1), np.bool_)


def guard_of(card: Card) -> Guard | None:
    """The guard of a policy; None where its card says no range for every element it sees."""
    is_known = bool(card.ranges) and card.architecture.labels["heads"] > 0
    return Guard(card) if is_known else None
