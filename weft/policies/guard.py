"""What keeps a policy to what it was trained for: the same world, and observations like those it saw."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.model.graph import Bools
from weft.model.problem import Problem
from weft.policies.checkpoint import Card
from weft.schedulers.dispatchers.queues import Dispatcher, fifo, heavy_last_1, srw
from weft.sim.queues.graph_observation import WORLD
from weft.sim.queues.layout import compile_stream

Floats32 = npt.NDArray[np.float32]

SLACK = 3.0
"""An observation is outside beyond this many times the trained range from its ends."""
LEAST_MARGIN = 1.0
"""The least distance that counts, in scaled units: no flag is outside because it was never set."""
LEAST_LOAD, LOAD_SHARE = 0.1, 0.5
"""A graph net decides from this observed load on, or from this share of the least load of its training where that is less.
The observed load is a lower bound, a third of the true one or more. On validation problems nets trained from loads of 0.5
and of 0.2 on both lost to the rule below 0.1."""
LOADS = "loads"
"""Where the training of a card says the least and the greatest load of its problems."""
_LOAD = WORLD.index("load")
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


def safe_dispatcher(problem: Problem, guard: Guard | None = None) -> Dispatcher:
    """Who decides where a policy should not: the device-aware rule, else the oldest job first.

    At a load below the training of a graph net it is ``srw``: with room for every task, what counts is
    who is done soon, and where. On validation problems it was the best rule or within 0.6 % of it.
    """
    if isinstance(guard, LoadGuard) and srw.supports(problem) is None:
        return srw
    return heavy_last_1 if heavy_last_1.supports(problem) is None else fifo.waiting()


class Guard:
    """The upper ends of the trained ranges, with their margin: ages, lengths and flags are never negative."""

    warning = "far outside what it was trained on"
    """What a session says when it is first needed; empty: that is nothing to worry about."""

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


class LoadGuard(Guard):
    """The least observed load at which a graph net decides.

    Its observation is relative to the problem, so ranges of single features say little: all of them reach
    their ends in the first moments of some stream. The load is what decides whether waiting for a fuller
    batch pays. In its first moments a stream may look emptier than it is: a few decisions go to the rule then.
    """

    warning = ""

    def __init__(self, loads: Sequence[float]) -> None:
        self._low = np.float32(np.log(min(LEAST_LOAD, LOAD_SHARE * min(loads))))

    def is_needed(self, observation: Floats32) -> bool:
        """Whether the load in any observation (..., num_features) lies below."""
        return bool((observation[..., _LOAD] < self._low).any())

    def outside(self, observation: Floats32) -> Bools:  # (num_envs,)
        """In which of the observations (num_envs, num_features) it does."""
        return np.asarray(observation[..., _LOAD] < self._low, np.bool_)


def guard_of(card: Card) -> Guard | None:
    """The guard of a policy; None where its card says neither ranges for every element nor loads."""
    if card.architecture.labels["heads"]:
        return Guard(card) if card.ranges else None
    return LoadGuard(_loads(card)) if LOADS in card.training else None


def _loads(card: Card) -> list[float]:
    found = card.training[LOADS]
    loads = [load for load in found if isinstance(load, float)] if isinstance(found, list) else []
    if len(loads) != 2 or not all(0 < load < 1 for load in loads):
        raise InputError(f"expected two loads between 0 and 1, got {found!r}", field=f"training.{LOADS}")
    return loads
