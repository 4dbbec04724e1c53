"""What the engine on Dask knows of its orders and devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from weft.errors import InputError
from weft.execute.dask_connect import DaskWorker
from weft.execute.engine import Event, Order

HELD, SENT, RUNNING, ENDED = "held", "sent", "running", "ended"


class DaskDevice(NamedTuple):
    """A device and the worker it stands for."""

    name: str
    device_class: str
    slots: int
    worker: str
    """Name or address."""


@dataclass
class Entry:
    """What is known of one order."""

    order: Order
    number: int
    device: Device
    state: str = HELD
    future: Any = None
    since: float = 0.0
    """Monotonic: since when it waits at a device that could start it, or runs."""
    silent: float = 0.0
    """Monotonic: since when Dask is done with it though no worker said so; 0: it is not."""
    moves: int = 0
    is_asked: bool = False
    is_done: bool = False
    """Whether it has ended well."""


@dataclass
class Device:
    """What is known of one device."""

    given: DaskDevice
    worker: DaskWorker | None = None
    coming: str = ""
    """Address of a worker whose clock is being compared."""
    offset: float = 0.0
    """Seconds that its clock is ahead of this machine's."""
    held: list[Entry] = field(default_factory=list)
    sent: list[Entry] = field(default_factory=list)
    """With Dask, in order, whether they run or not."""

    @property
    def num_running(self) -> int:
        return sum(entry.state == RUNNING for entry in self.sent)

    @property
    def can_take(self) -> bool:
        """Whether another order can be sent without one overtaking another, or too many running at once."""
        if self.worker is None:
            return False
        if len(self.sent) < self.given.slots:
            return True
        # One more waits at the worker, once everything before it runs; a worker with more threads would start it.
        has_room = len(self.sent) == self.given.slots == self.worker.threads
        return has_room and self.num_running == len(self.sent)


def event_of(kind: str, when: float, entry: Entry, *, note: str = "", size: float | None = None) -> Event:
    order = entry.order
    return Event(kind, when, order.device, order.job, order.task, order.attempt, note=note, size=size)


def worker_of(device: Device, found: list[DaskWorker]) -> DaskWorker | None:
    """The worker of a device, by name or address."""
    wanted = device.given.worker
    return next((worker for worker in found if wanted in (worker.name, worker.address)), None)


def refuse_slots(device: DaskDevice, worker: DaskWorker) -> None:
    """Refuse a device that runs more at once than its worker."""
    if device.slots > worker.threads:
        raise InputError(
            f"device {device.name} has {device.slots} slots, "
            f"but its worker {worker.name} has {worker.threads} threads",
            field="devices",
        )
