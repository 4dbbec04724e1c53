"""One row of a schedule as a view, and what can become of it."""

from __future__ import annotations

from dataclasses import dataclass

OUTCOMES = ("done", "skipped", "expired", "aborted")
DONE, SKIPPED, EXPIRED, ABORTED = range(4)


@dataclass(frozen=True)
class Placement:
    """One row of a schedule, as a view; ``device`` is None for a task that never ran."""

    job: str
    task: str
    copy: int
    attempt: int
    device: str | None
    batch: int
    start: float
    finish: float
    outcome: str
    launch: int = -1
    """Number of the launch that it is part of; -1: it was started alone."""
