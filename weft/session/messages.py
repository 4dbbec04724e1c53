"""What a session says: what to start, what runs for nothing, which jobs are over."""

from __future__ import annotations

from typing import NamedTuple

DONE, FAILED, EXPIRED = "done", "failed", "expired"

Name = str | int
"""A job, as whoever runs the session calls it; a task or a device, by name or number."""


class Start(NamedTuple):
    """Start this task on this device now."""

    job: Name
    task: str
    device: str
    attempt: int
    """1 for the first."""
    batch: int
    """Tasks with the same number run together, as one."""
    expected_start: float
    """When its data should be there."""
    expected_end: float
    """When it should end, by the problem's run times; with the others of its batch."""


class Cancel(NamedTuple):
    """This task runs in vain: its job has failed. Its end must be reported all the same."""

    job: Name
    task: str
    device: str
    attempt: int


class End(NamedTuple):
    """A job is over: ``done``, ``failed`` (with a task) or ``expired``. Said once per job."""

    job: Name
    outcome: str
    time: float
    reason: str = ""
    """Which tasks have failed, and how; empty if none has."""
    failed: tuple[str, ...] = ()
    """Tasks that have failed for good."""
    dropped: tuple[str, ...] = ()
    """Tasks that never ran because they needed one that failed; only where the rest of a job goes on."""


class Reservation(NamedTuple):
    """This task is bound to this device and will start there, unless plans change."""

    job: Name
    task: str
    device: str
    expected_start: float
    expected_end: float


class Decision(NamedTuple):
    """What to do now."""

    starts: tuple[Start, ...]
    cancels: tuple[Cancel, ...]
    ended: tuple[End, ...]
    """Jobs that ended since the last decision."""
    wake_at: float | None
    """Ask again then if nothing has happened before; None: any event will do."""
