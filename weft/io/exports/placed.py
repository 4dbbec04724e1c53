"""What every export is made of: tasks and devices, who is planned where, and who ran where.

Made of a schedule or of the history of a run; formats see nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from weft.model.units import SECONDS

DONE = "done"


@dataclass(frozen=True)
class Device:
    """A device of the cluster."""

    name: str
    device_class: str
    slots: int = 1
    worker: str = ""
    """What runs it in an engine: the name or address of a worker; empty: not known."""


@dataclass(frozen=True)
class Task:
    """A task of a job."""

    job: str
    name: str
    kind: str = "task"
    slots: int = 1
    memory: float = 0.0
    """Bytes."""
    command: tuple[str, ...] = ()
    """Program and arguments; empty: not known."""
    outputs: tuple[str, ...] = ()
    """Files that it writes, where the workflow names them."""


@dataclass(frozen=True)
class Span:
    """One execution of a task, planned or real; task and device by number."""

    task: int
    device: int
    start: float
    finish: float
    copy: int = 0
    attempt: int = 0
    outcome: str = DONE

    @property
    def order(self) -> tuple[float, int, int, int]:
        """The order in which schedules list their rows."""
        return (self.start, self.device, self.task, self.copy)


@dataclass(frozen=True, eq=False)
class Placed:
    """Tasks on devices: as planned and, of a run, as it went."""

    name: str
    time_unit: str
    devices: tuple[Device, ...]
    tasks: tuple[Task, ...]
    edges: tuple[tuple[int, int], ...]
    plan: tuple[Span, ...]
    actual: tuple[Span, ...] = ()
    scheduler: str = ""
    is_run: bool = False
    notes: tuple[str, ...] = field(default=())
    """What the reader of the export should know of its source."""

    @cached_property
    def order(self) -> tuple[Span, ...]:
        """One execution per task in the order of their starts: the place in this list is the rank.

        Of a task with copies the one that starts first; of a task that nobody planned, how it ran.
        """
        ran = [span for span in self.actual if span.outcome == DONE]
        chosen: dict[int, Span] = {}
        for spans in (self.plan, ran):
            first: dict[int, Span] = {}
            for span in sorted(spans, key=lambda one: one.order):
                first.setdefault(span.task, span)
            chosen = {**first, **chosen}
        return tuple(sorted(chosen.values(), key=lambda one: one.order))

    @property
    def num_copies(self) -> int:
        """Planned executions beyond the first of each task."""
        return len(self.plan) - len({span.task for span in self.plan})

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A text per task that no other task has: its name, with the job in front where there are several."""
        is_single = len({task.job for task in self.tasks}) <= 1
        names = [task.name if is_single else f"{task.job}/{task.name}" for task in self.tasks]
        count = Counter(names)
        return tuple(name if count[name] == 1 else f"{name} #{i}" for i, name in enumerate(names))

    @cached_property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the tasks that each task needs."""
        found: list[list[int]] = [[] for _ in self.tasks]
        for source, target in self.edges:
            found[target].append(source)
        return tuple(tuple(one) for one in found)

    @property
    def class_slots(self) -> dict[str, int]:
        """Slots of all devices of each class."""
        slots: Counter[str] = Counter()
        for device in self.devices:
            slots[device.device_class] += device.slots
        return dict(slots)

    @property
    def microseconds(self) -> float:
        """Microseconds in one unit of time."""
        return SECONDS[self.time_unit] * 1e6


def most_at_once(spans: Sequence[Span]) -> int:
    """How many of these run at the same time, at most; one that ends as another starts does not count."""
    moments = [(span.start, 1) for span in spans] + [(span.finish, -1) for span in spans]
    running = most = 0
    for _, step in sorted(moments):
        running += step
        most = max(most, running)
    return max(most, 1)
