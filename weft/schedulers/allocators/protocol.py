"""What an allocator is: it sees all clusters of many environments at once and answers for each agent."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from weft.model.columns import Floats, Ints
from weft.model.elastic import ElasticProblem
from weft.sim.elastic.observation import ElasticSight


class Allocation(NamedTuple):
    """What every agent does in one logical step."""

    slot: Ints  # (B, N) of the pending set; -1: nothing
    units: Ints  # (B, N, R) for the task of that slot; all 0: nothing
    chance: Floats  # (B, N) with which the slot was picked; settles conflicts by Bayes
    again: Ints | None = None  # (B, N, K, R) new units of the running tasks, first; None: they keep theirs


class Deciding(Protocol):
    """An allocator at work on one batch."""

    def decide(self, sight: ElasticSight) -> Allocation:
        """What every agent does now. Where episodes have ended, ``sight`` shows nothing that is active."""


class Allocator(Protocol):
    """Picks tasks and units on elastic problems; ``weft evaluate`` runs it under its name."""

    name: str

    def supports(self, problem: ElasticProblem) -> str | None:
        """Why it cannot act on this problem; None: it can."""

    def begin(self, problem: ElasticProblem, seeds: Ints) -> Deciding:
        """Get ready for a batch with one environment per seed; what it draws may depend on its seeds alone.

        Other people's allocators are given hashes of the seeds of their episodes: what will happen does not follow from them.
        """
