"""Jobs by name and number, and what became of them; those that ended long ago are forgotten."""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import islice
from typing import Any

from weft.session.messages import Name

KEPT = 1000
"""So many ended jobs, at least, are still known by name; twice as many at most."""


class Jobs:
    """All jobs that are open, and the last ones that ended."""

    def __init__(self) -> None:
        self.number: dict[Name, int] = {}
        self.name: dict[int, Name] = {}
        self.open: dict[int, None] = {}
        self.outcome: dict[int, str] = {}
        """Of ended jobs, in the order of their ends."""

    def enter(self, name: Name, number: int) -> None:
        """A job has arrived."""
        self.number[name], self.name[number], self.open[number] = number, name, None

    def end(self, number: int, outcome: str) -> None:
        """A job is over."""
        del self.open[number]
        self.outcome[number] = outcome

    @property
    def is_full(self) -> bool:
        """Whether it is time to forget."""
        return len(self.outcome) > 2 * KEPT

    def forget(self, kept: Container[int]) -> None:
        """Forget the jobs that ended first, but for those whose numbers are to be kept."""
        old = islice(self.outcome, len(self.outcome) - KEPT)
        for number in [number for number in old if number not in kept]:
            del self.outcome[number]
            del self.number[self.name.pop(number)]

    def snapshot(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "jobs": [[name, number] for name, number in self.number.items()],
            "open": list(self.open),
            "ended": [[number, outcome] for number, outcome in self.outcome.items()],
        }

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Go back to a snapshot; whatever does not fit raises a KeyError, TypeError or ValueError."""
        self.number = {name: int(number) for name, number in stored["jobs"]}
        self.name = {number: name for name, number in self.number.items()}
        self.open = {int(number): None for number in stored["open"]}
        self.outcome = {int(number): str(outcome) for number, outcome in stored["ended"]}
