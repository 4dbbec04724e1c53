"""Tasks as agents speak of them: plain numbers, so that messages stay small and anybody can read a journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]
"""One message or reply: JSON with a ``kind``."""


@dataclass(frozen=True)
class Task:
    """A task that was submitted."""

    number: int
    type: int
    arrival: int
    """World step."""
    links: int
    """Bit n: connected to cluster n."""

    def to_row(self) -> list[int]:
        """As in messages."""
        return [self.number, self.type, self.arrival, self.links]

    @staticmethod
    def of_row(row: list[int]) -> Task:
        """Read from a message."""
        number, kind, arrival, links = row
        return Task(number, kind, arrival, links)


@dataclass
class Held:
    """A task that runs on a cluster."""

    task: Task
    start: int
    """World step of its placement."""
    round: int
    """Logical step of its placement."""
    units: tuple[int, ...]
    before: tuple[int, ...] | None = None
    """Units in the step before; None: it has not run yet."""
    progress: float = 0.0
    ran: int = 0
    """World steps since its placement."""
    served: list[int] = field(default_factory=list)
    """Units x steps, per resource."""

    def to_row(self) -> list[Any]:
        """As in messages."""
        before = None if self.before is None else list(self.before)
        facts = [self.start, self.round, list(self.units), before, self.progress, self.ran, self.served]
        return [*self.task.to_row(), *facts]

    @staticmethod
    def of_row(row: list[Any]) -> Held:
        """Read from a message."""
        start, number, units, before, progress, ran, served = row[4:]
        was = None if before is None else tuple(before)
        return Held(
            Task.of_row(row[:4]), start, number, tuple(units), was, float(progress), ran, list(served)
        )


@dataclass(frozen=True)
class Shown:
    """What the agent of a cluster says of it."""

    step: int
    seq: int
    """Orders carried out so far."""
    slots: tuple[Task | None, ...]
    queued: int
    """Tasks waiting beyond the pending set."""
    running: tuple[Held, ...]
    finished: tuple[int, ...]
    """Tasks that the last orders ended; in a promise, all."""
    queue: tuple[Task, ...] = ()
    """The tasks beyond the set: in a promise, and where sets are refilled at once."""
    inbox: tuple[Task, ...] = ()
    """Tasks that arrive in a later step; in a promise only."""
    elsewhere: dict[int, int] = field(default_factory=dict)
    """Task -> cluster that took it; in a promise only."""
    lost: tuple[int, ...] = ()
    """Clusters that were given up; in a promise only."""

    def to_message(self) -> Message:
        """The fields of a reply."""
        slots = [None if one is None else one.to_row() for one in self.slots]
        while slots and slots[-1] is None:
            slots.pop()
        found: Message = {
            "step": self.step,
            "seq": self.seq,
            "slots": slots,
            "queued": self.queued,
            "running": [one.to_row() for one in self.running],
            "finished": list(self.finished),
        }
        if self.queue:
            found["queue"] = [one.to_row() for one in self.queue]
        if self.inbox:
            found["inbox"] = [one.to_row() for one in self.inbox]
        if self.elsewhere:
            found["elsewhere"] = sorted([number, n] for number, n in self.elsewhere.items())
        if self.lost:
            found["lost"] = list(self.lost)
        return found

    @staticmethod
    def of_message(found: Message, num_slots: int) -> Shown:
        """Read from a reply."""
        slots = [None if row is None else Task.of_row(row) for row in found["slots"]]
        slots += [None] * (num_slots - len(slots))
        return Shown(
            found["step"],
            found["seq"],
            tuple(slots),
            found["queued"],
            tuple(Held.of_row(row) for row in found["running"]),
            tuple(found["finished"]),
            tuple(Task.of_row(row) for row in found.get("queue", [])),
            tuple(Task.of_row(row) for row in found.get("inbox", [])),
            {number: n for number, n in found.get("elsewhere", [])},
            tuple(found.get("lost", [])),
        )

    @property
    def waiting(self) -> list[Task]:
        """Tasks that wait here, as far as they are shown."""
        return [one for one in self.slots if one is not None] + list(self.queue) + list(self.inbox)
