"""What the engine on Ray knows of its orders, lanes and devices."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from weft.execute.engine import Event, Order
from weft.execute.ray_connect import RayNode

HELD, SENT, RUNNING, WITHDRAWN, ENDED = "held", "sent", "running", "withdrawn", "ended"


class RayDevice(NamedTuple):
    """A device, the node it stands for, and what it takes there."""

    name: str
    device_class: str
    slots: int = 1
    worker: str = ""
    """Id, name, address or host of the node; empty: wherever Ray finds room."""
    num_cpus: float = 0.0
    """With ``num_gpus`` and ``resources``: what each slot takes of its node, as Ray counts it."""
    num_gpus: float = 0.0
    resources: Mapping[str, float] = {}


@dataclass(eq=False)
class Entry:
    """What is known of one order."""

    order: Order
    number: int
    state: str = HELD
    result: Any = None
    """Reference to its result, once it is sent; so ``report``."""
    report: Any = None
    began: float | None = None
    """When it began, by the clock of its node."""
    due: float | None = None
    """Monotonic: when it has taken too long."""
    is_finished: bool = False


@dataclass(eq=False)
class RunningLane:
    """One actor, and what it was given."""

    actor: Any
    run: Any
    """Its methods, with options bound; so ``withdraw``, ``begun`` and ``clock``."""
    withdraw: Any
    begun: Any
    clock: Any
    hello: Any
    """Reference to its first answer; None: it is up."""
    watch: Any = None
    """Reference to its next news."""
    offset: float = 0.0
    """Seconds that its clock is ahead of this machine's."""
    sent: list[Entry] = field(default_factory=list)
    """In order; the first one runs, or will next."""
    id: str = ""
    """As Ray calls it in errors."""


@dataclass(eq=False)
class Device:
    """What is known of one device."""

    given: RayDevice
    lanes: list[RunningLane] = field(default_factory=list)
    held: deque[Entry] = field(default_factory=deque)
    is_lost: bool = False
    retry: float = 0.0
    """Monotonic: when to try again to get its lanes."""
    note: str = ""
    """Why it was lost last."""
    pause: float = 0.0
    """Seconds before that."""
    last: float = 0.0
    """Time of its last event."""

    @property
    def takers(self) -> list[RunningLane]:
        """Lanes that can be sent an order now, without one overtaking another."""
        up = [lane for lane in self.lanes if lane.hello is None]
        if self.given.slots == 1:
            return up
        # The order before may still be waiting for its data.
        if any(entry.began is None for lane in self.lanes for entry in lane.sent):
            return []
        return [lane for lane in up if not lane.sent]


def event_of(kind: str, entry: Entry, when: float, *, note: str = "", size: float | None = None) -> Event:
    """What happened to an order."""
    order = entry.order
    return Event(kind, when, order.device, order.job, order.task, order.attempt, note=note, size=size)


def node_of(device: RayDevice, nodes: list[RayNode]) -> RayNode | None:
    """The node of a device, by id, name, address or host, whichever fits first."""
    for field_ in ("id", "name", "address", "host"):
        for node in nodes:
            if getattr(node, field_) == device.worker:
                return node
    return None
