"""Jobs that arrive while others run: known to the feed, told to the session only when their time has come."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from weft.model.graph import TaskGraph
from weft.model.problem import Problem
from weft.session.messages import Name


@dataclass(frozen=True, eq=False)
class Arrival:
    """A job and when it arrives."""

    time: float
    job: Name
    graph: TaskGraph
    deadline: float | None = None
    weight: float = 1.0
    owner: str = ""
    eligible: tuple[str, ...] | None = None
    is_known: bool = False
    """Whether the session knows the job and its graph beforehand."""


class Feed:
    """Arrivals in the order of their times."""

    def __init__(self, arrivals: Iterable[Arrival]) -> None:
        self._coming = sorted(arrivals, key=lambda one: one.time)[::-1]

    @property
    def is_empty(self) -> bool:
        """Whether no more jobs will come."""
        return not self._coming

    @property
    def next_time(self) -> float | None:
        """When the next job arrives; None: never."""
        return self._coming[-1].time if self._coming else None

    def pop(self) -> Arrival:
        """The next job."""
        return self._coming.pop()

    def take_named(self, jobs: Container[Name]) -> list[Arrival]:
        """Jobs that have arrived before, in a run that goes on."""
        found = [one for one in self._coming if one.job in jobs]
        self._coming = [one for one in self._coming if one.job not in jobs]
        return found[::-1]


def feed_of(problem: Problem) -> Feed:
    """The jobs of a problem, at their releases."""
    return Feed(
        Arrival(job.release, job.name, job.graph, job.deadline, job.weight, job.owner, job.eligible)
        for job in problem.jobs
    )
