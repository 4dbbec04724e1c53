"""How many decisions were compared, and how many differ."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Compared:
    """Two runs of one scheduler that know the same up to a time."""

    decisions: int
    """Decisions up to that time in the first run."""
    differ: int
    """Those that the second run did not make, or made in addition."""

    def __add__(self, other: Compared) -> Compared:
        return Compared(self.decisions + other.decisions, self.differ + other.differ)
