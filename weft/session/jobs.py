"""Jobs by name and number, and what became of them; those that ended long ago are forgotten."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

from weft.io.native import graph_document, graph_from_document
from weft.io.problems import booking_document, booking_from_document
from weft.model.graph import TaskGraph
from weft.model.problem import Job
from weft.session.messages import Name
from weft.session.wire import SETTINGS

KEPT = 1000
"""So many ended jobs, at least, are still known by name; twice as many at most."""


@dataclass
class Failures:
    """What went wrong in a job."""

    reasons: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """Tasks."""
    dropped: list[str] = field(default_factory=list)
    """Tasks that needed one of those."""


class Jobs:
    """All jobs that are open, and the last ones that ended."""

    def __init__(self) -> None:
        self.number: dict[Name, int] = {}
        self.name: dict[int, Name] = {}
        self.open: dict[int, None] = {}
        self.outcome: dict[int, str] = {}
        """Of ended jobs, in the order of their ends."""
        self.added: dict[int, Job] = {}
        """Jobs that the problem does not have."""
        self.failures: dict[int, Failures] = {}
        """Of open jobs."""

    def enter(self, name: Name, number: int, added: Job | None) -> None:
        """A job has arrived; ``added``: what it is, unless the problem has it."""
        self.number[name], self.name[number], self.open[number] = number, name, None
        if added is not None:
            self.added[number] = added

    def fail(self, number: int, reason: str, failed: str, dropped: list[str]) -> None:
        """A task of a job has failed for good."""
        failures = self.failures.setdefault(number, Failures())
        failures.reasons.append(reason)
        failures.failed.append(failed)
        failures.dropped += [task for task in dropped if task not in failures.dropped]

    def end(self, number: int, outcome: str) -> Failures:
        """A job is over; returns what went wrong in it."""
        del self.open[number]
        self.outcome[number] = outcome
        return self.failures.pop(number, Failures())

    @property
    def is_full(self) -> bool:
        """Whether it is time to forget."""
        return len(self.outcome) > 2 * KEPT

    def forget(self, kept: Container[int]) -> list[int]:
        """Forget the jobs that ended first, but for those whose numbers are to be kept; returns whom."""
        old = islice(self.outcome, len(self.outcome) - KEPT)
        forgotten = [number for number in old if number not in kept]
        for number in forgotten:
            del self.outcome[number]
            del self.number[self.name.pop(number)]
        return forgotten

    def snapshot(self, held: Mapping[int, Job]) -> dict[str, Any]:
        """Everything, as plain data; a graph that several jobs share stands there once.

        ``held``: added jobs that are needed still, also when they are over.
        """
        held = {number: job for number, job in held.items() if number not in self.added}
        graphs: dict[int, TaskGraph] = {
            id(job.graph): job.graph for job in (*self.added.values(), *held.values())
        }
        place = {key: k for k, key in enumerate(graphs)}
        return {
            "jobs": [[name, number] for name, number in self.number.items()],
            "open": list(self.open),
            "ended": [[number, outcome] for number, outcome in self.outcome.items()],
            "graphs": [graph_document(graph) for graph in graphs.values()],
            "added": [[number, place[id(job.graph)], _settings(job)] for number, job in self.added.items()],
            "held": [[number, place[id(job.graph)], _settings(job)] for number, job in held.items()],
            "failures": [[number, asdict(failures)] for number, failures in self.failures.items()],
        }

    def restore(self, stored: Mapping[str, Any]) -> dict[int, Job]:
        """Go back to a snapshot; returns all added jobs that are needed still. Whatever does not fit raises a KeyError, TypeError or ValueError."""
        self.number = {name: int(number) for name, number in stored["jobs"]}
        self.name = {number: name for name, number in self.number.items()}
        self.open = {int(number): None for number in stored["open"]}
        self.outcome = {int(number): str(outcome) for number, outcome in stored["ended"]}
        graphs = [graph_from_document(document) for document in stored["graphs"]]
        self.added, held = (
            {int(number): _job(graphs[k], settings) for number, k, settings in stored[name]}
            for name in ("added", "held")
        )
        self.failures = {int(number): Failures(**failures) for number, failures in stored["failures"]}
        return self.added | held


def _settings(job: Job) -> dict[str, Any]:
    """What a snapshot keeps of a job that was added, besides its graph."""
    booking = None if job.booking is None else booking_document(job.booking)
    return {name: getattr(job, name) for name in ("name", "release", *SETTINGS)} | {"booking": booking}


def _job(graph: TaskGraph, settings: Mapping[str, Any]) -> Job:
    eligible, booking = settings["eligible"], settings["booking"]
    changed = {
        "eligible": None if eligible is None else tuple(eligible),
        "booking": None if booking is None else booking_from_document(booking),
    }
    return Job(graph, **{**settings, **changed})
