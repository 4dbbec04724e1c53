"""Allocators that are not weft's: any object with ``name`` and ``begin``; errors name its class."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from weft.errors import InputError, shown
from weft.model.columns import Ints
from weft.model.elastic import ElasticProblem
from weft.plugins import blamed, made
from weft.schedulers.allocators.protocol import Allocation, Allocator, Deciding
from weft.schedulers.own import is_of_weft, title_of
from weft.sim.elastic.observation import ElasticSight


def as_allocator(given: Any) -> Allocator:
    """The allocator that an object (or a class, made without arguments) is."""
    found = made(given, title_of(given), "scheduler")
    title = title_of(found)
    for key in ("name", "begin"):
        if not getattr(found, key, None):
            raise InputError(f"expected an allocator, and {title} has no {key!r}", field="scheduler")
    allocator: Allocator = found if is_of_weft(found) else OwnAllocator(found)
    return allocator


class OwnAllocator:
    """An allocator that is not weft's, watched."""

    def __init__(self, inner: Any) -> None:
        self._inner, self._title = inner, title_of(inner)
        self.name: str = inner.name
        self.conflicts: str = getattr(inner, "conflicts", "softmax")

    def supports(self, problem: ElasticProblem) -> str | None:
        """What the allocator itself says; where it says nothing, it can act."""
        if not callable(getattr(self._inner, "supports", None)):
            return None
        with blamed(f"{self._title}.supports failed", field="scheduler"):
            reason: str | None = self._inner.supports(problem.without_arrivals())
            return reason

    def begin(self, problem: ElasticProblem, seeds: Ints) -> Deciding:
        """Get ready for a batch."""
        with blamed(f"{self._title}.begin failed", field="scheduler"):
            inner = self._inner.begin(problem.without_arrivals(), own_seeds(seeds))
        if not callable(getattr(inner, "decide", None)):
            raise InputError(f"{self._title}.begin: expected an object with 'decide'", field="scheduler")
        return _Watched(inner, self._title)


class _Watched:
    def __init__(self, inner: Any, title: str) -> None:
        self._inner, self._title = inner, title

    def decide(self, sight: ElasticSight) -> Allocation:
        """What the allocator decides; wrong shapes are refused where they are carried out."""
        with blamed(f"{self._title}.decide failed", field="scheduler"):
            found = self._inner.decide(sight)
        if not isinstance(found, tuple | list) or len(found) not in (3, 4):
            got = f"{len(found)} parts" if isinstance(found, tuple | list) else shown(found)
            raise InputError(
                f"{self._title}.decide: expected an Allocation: slot, units, chance and perhaps again, got {got}",
                field="scheduler",
            )
        return Allocation(*found)


def own_seeds(seeds: Ints) -> Ints:
    """Seeds that an allocator is given: hashes of those of their episodes, from which all that is yet to come is drawn."""
    return np.array([_hashed(int(seed)) for seed in seeds.tolist()], np.int64)


def _hashed(seed: int) -> int:
    digest = hashlib.blake2b(seed.to_bytes(8, "little", signed=True), digest_size=8, person=b"allocator")
    return int.from_bytes(digest.digest(), "little") >> 1
