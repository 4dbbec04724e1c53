"""What the oracle of histories knows while it reads: devices, jobs, tasks, orders, and what waits since when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

WAITING, RUNNING, FINISHED, FAILED, LOST, CANCELLED = (
    "waiting",
    "running",
    "finished",
    "failed",
    "lost",
    "cancelled",
)
Name = str | int


@dataclass(eq=False)
class Device:
    """A device, and the orders it holds."""

    name: str
    device_class: str
    slots: int
    is_up: bool | None = True
    """None: not known, as a driver has just taken over."""
    used: int = 0
    """Slots in use."""
    waiting: dict[Order, None] = field(default_factory=dict)
    running: dict[Order, None] = field(default_factory=dict)
    free_since: float = 0.0
    """Since when it has room for what waits there."""
    sequence: int | None = None
    """Of the last order."""


@dataclass(eq=False)
class Order:
    """One attempt at a task."""

    task: Task
    attempt: int
    device: Device
    since: float
    """When it was submitted, or when its data is expected to be there if that is later."""
    batch: int | None
    submitted: float
    state: str = WAITING

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.state in (WAITING, RUNNING)


@dataclass(eq=False)
class Task:
    """A task of a job, with the last order that was given for it."""

    job: Job
    name: str
    slots: int = 1
    allowed: frozenset[str] | None = None
    """Devices and classes where it may run; None: everywhere."""
    parents: list[Task] = field(default_factory=list)
    children: list[Task] = field(default_factory=list)
    former: Task | None = None
    """The same task of the instance before, which is done first."""
    latter: Task | None = None
    order: Order | None = None
    reported_at: float | None = None
    done_at: float = 0.0
    """When it finished last."""
    losses_before: int = 0
    """How many losses there had been when it finished last."""
    branch: tuple[object, ...] | None = None
    is_skipped: bool = False
    is_left_out: bool = False
    """Whether it is skipped in the end: that may be written down later than it is known."""
    because: Task | None = None
    """Whose failure it was dropped for."""
    has_taken: bool = False
    """Whether others were dropped for its failure."""
    last_submission: int = -1
    """The row of its last order in the whole history."""

    @property
    def label(self) -> str:
        """How violations call it."""
        return f"{self.job.name}/{self.name}"

    @property
    def is_reported(self) -> bool:
        """Whether its good end was told."""
        return self.reported_at is not None

    @property
    def is_open(self) -> bool:
        """Whether an order for it has not ended."""
        return self.order is not None and self.order.is_open

    @property
    def has_failed(self) -> bool:
        """Whether its last order ended badly."""
        return self.order is not None and self.order.state in (FAILED, LOST)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do for it."""
        return self.is_reported or self.is_skipped or self.because is not None

    @property
    def lacking(self) -> Task | None:
        """A parent whose end has not been reported; the first one where all were skipped."""
        for parent in self.parents:
            if not parent.is_reported and not parent.is_left_out:
                return parent
        is_orphan = bool(self.parents) and all(parent.is_left_out for parent in self.parents)
        return self.parents[0] if is_orphan else None

    @property
    def later(self) -> Iterator[Task]:
        """The same task of all instances behind, whose turn may come with its end."""
        task = self.latter
        while task is not None:
            yield task
            task = task.latter

    @property
    def has_turn(self) -> bool:
        """Whether the instances before it are through with it."""
        before = self.former
        while before is not None and not before.is_reported:
            if not (before.is_settled or before.job.outcome):
                return False
            before = before.former
        return True

    @property
    def ready_since(self) -> float:
        """When the last of its parents was reported, or had run again."""
        return max((max(parent.reported_at or 0.0, parent.done_at) for parent in self.parents), default=0.0)

    @property
    def has_all(self) -> bool:
        """Whether all parents were reported and none of them runs again."""
        return self.lacking is None and not any(parent.is_open for parent in self.parents)

    def descendants(self) -> Iterator[Task]:
        """All tasks that need its result, however far."""
        seen: dict[Task, None] = {}
        stack = list(self.children)
        while stack:
            task = stack.pop()
            if task not in seen:
                seen[task] = None
                stack += task.children
        return iter(seen)


@dataclass(eq=False)
class Job:
    """A job with its tasks by name."""

    name: Name
    tasks: dict[str, Task] = field(default_factory=dict)
    outcome: str = ""
    """How it ended; empty: not yet."""
    final: str = ""
    """How the whole history says it ends."""


def is_waiting_to_run(task: Task, place: int) -> bool:
    """Whether a task could be given to a device: its parents are reported, and nothing is under way for it."""
    if (
        task.is_settled
        or task.is_left_out
        or task.is_open
        or task.has_taken
        or task.job.outcome
        or not task.has_all
        or not task.has_turn
    ):
        return False
    order = task.order
    if order is None or task.last_submission > place:
        return True
    # A failure that nothing follows is for good; a loss is where the job fails of it.
    return order.state == CANCELLED or (order.state == LOST and task.job.final != "failed")
