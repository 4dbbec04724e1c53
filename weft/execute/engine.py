"""What runs tasks: one small interface for virtual time, local processes, Dask and Ray.

An engine is given orders and says what happens. It decides nothing: which task runs where, and what is
to be done when a worker is gone, is the business of the session behind ``weft.execute.drive``.
"""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol

from weft.session.messages import Name

STARTED, FINISHED, FAILED = "started", "finished", "failed"
LOST, JOINED, VACATED = "lost", "joined", "vacated"
CANCELLED = "cancelled"
"""The note of a failure that was asked for."""
LOST_RESULT = "lost result of "
"""How the note of a failure begins where the result of another task is gone; its name follows, and nothing else."""


class Order(NamedTuple):
    """Run this task on this device."""

    job: Name
    task: str
    device: str
    attempt: int
    """1 for the first; with job and task it tells orders apart."""
    sequence: int
    """Counts up: what a device was given earlier starts no later."""
    inputs: tuple[str, ...] = ()
    """Tasks of the same job whose results it is handed, in the order of the graph."""
    batch: int = 0
    """Orders of one number run together, as one."""
    start: float = 0.0
    """When it is expected to start, in the problem's unit of time; so its end."""
    end: float = 0.0
    is_ahead: bool = False
    """Whether it is queued before its turn has come: then it starts once its device is free and its data there."""

    @property
    def key(self) -> tuple[Name, str, int]:
        """What tells it apart from all other orders."""
        return self.job, self.task, self.attempt

    @property
    def task_key(self) -> tuple[Name, str]:
        """What tells its task apart from all others."""
        return self.job, self.task


class Event(NamedTuple):
    """Something that happened to an order or a device."""

    kind: str
    """``started``, ``finished``, ``failed``, ``vacated``: of an order; ``lost``, ``joined``: of a device."""
    time: float
    """In the problem's unit of time, since the start of the engine."""
    device: str
    job: Name = ""
    task: str = ""
    attempt: int = 0
    branch: tuple[Name, ...] | None = None
    """The tasks that the branches of the task lead to; None: it has none."""
    note: str = ""
    """Why it failed or was lost, in one line."""
    size: float | None = None
    """Bytes of its result, where they are known."""

    @property
    def key(self) -> tuple[Name, str, int]:
        """The order it is about."""
        return self.job, self.task, self.attempt


class Engine(Protocol):
    """Devices that run tasks.

    Every order that was submitted ends exactly once: it is ``finished``, it has ``failed``, or its device
    is ``lost`` while it waits or runs there. An order that is finished was started. Of one device, events come in
    the order in which they happened. Devices that are not there at the start are reported as lost with the first events.
    """

    name: str
    """How runs and reports call it: ``virtual``, ``local``, ``dask``, ``ray``."""
    is_live: bool
    """Whether time passes by itself; else from event to event, and no event means that none will ever come."""
    waits_for_inputs: bool
    """Whether an order may be given while what it needs still runs on another device: it starts once that has ended, and
    fails if that has failed."""

    def start(self) -> None:
        """Get ready to take orders; the clock is 0 from now on."""

    @property
    def now(self) -> float:
        """Time since the start, in the problem's unit of time."""

    def submit(self, order: Order) -> None:
        """Have a device run a task, after what it was given before; it runs as many at once as it has slots."""

    def events(self, until: float | None) -> list[Event]:
        """What has happened since the last call, in order; waits for something to happen, but not beyond ``until``.

        None: however long it takes. A real engine may return early and empty-handed, at least every second.
        """

    def cancel(self, order: Order) -> None:
        """This order is not wanted any more: unless it ends first, it fails with the note ``cancelled``."""

    def release(self, job: Name) -> None:
        """Nobody will ask for the results of a job any more."""

    def close(self) -> None:
        """Stop what runs and leave nothing behind; may be called at any time, and again."""


class WallClock:
    """Seconds of this machine since a moment, in a unit of time."""

    def __init__(self, seconds_per_unit: float = 1.0, elapsed: float = 0.0) -> None:
        self._unit = seconds_per_unit
        self._began = time.time() - elapsed * seconds_per_unit

    @property
    def now(self) -> float:
        """Units since the start."""
        return self.at(time.time())

    def at(self, stamp: float) -> float:
        """A moment of ``time.time()`` on this machine, on this clock."""
        return max(0.0, (stamp - self._began) / self._unit)

    def seconds(self, duration: float) -> float:
        """A number of units in seconds."""
        return duration * self._unit
