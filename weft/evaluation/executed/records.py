"""What is known of a run that was carried out: attempts, tasks, workers, jobs, the chain that ended it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.evaluation.statistics import Interval

Name = str | int
Key = tuple[Name, str]
"""Job and task."""

FINISHED, FAILED, LOST, CANCELLED, OPEN = "finished", "failed", "lost", "cancelled", "open"

NO_TASK = "no ready task"
LATE = "behind a late parent"
AGAIN = "behind a failed attempt"
DATA = "waiting for data"
HELD = "held back by the scheduler"
DISPATCH = "dispatch gap"
GONE = "not there"
CAUSES = (NO_TASK, LATE, AGAIN, DATA, HELD, DISPATCH, GONE)
"""Why a slot of a worker runs nothing; every moment has one of them."""


@dataclass(frozen=True)
class Placed:
    """Where and when a task runs."""

    device: str
    start: float
    finish: float

    @property
    def length(self) -> float:
        """Its run time."""
        return self.finish - self.start


@dataclass(frozen=True)
class Attempt:
    """One order for a task, and what became of it."""

    job: Name
    task: str
    number: int
    device: str
    submitted: float
    started: float | None = None
    ended: float | None = None
    outcome: str = OPEN
    """``finished``, ``failed``, ``lost`` with its device or driver, ``cancelled``, or ``open``: the history ends before."""
    note: str = ""
    batch: int | None = None
    started_at: int = -1
    """Row of its start in the history."""
    ended_at: int = -1
    """Row of its end."""

    @property
    def key(self) -> Key:
        """Job and task."""
        return self.job, self.task

    @property
    def run_time(self) -> float:
        """How long it ran."""
        return 0.0 if self.started is None or self.ended is None else self.ended - self.started


@dataclass(frozen=True)
class TaskRun:
    """A task as it was planned first, and as it ran."""

    job: Name
    task: str
    kind: str
    parents: tuple[str, ...]
    planned: Placed | None
    actual: Placed | None
    """The execution that was reported; None: there is none."""
    attempts: int
    """Orders that were not withdrawn."""
    outcome: str
    """``done``, ``failed``, ``dropped``, ``skipped`` or ``open``."""

    @property
    def error(self) -> float | None:
        """How much later than planned it ended."""
        return (
            None if self.planned is None or self.actual is None else self.actual.finish - self.planned.finish
        )

    @property
    def is_moved(self) -> bool:
        """Whether it ran on another device than planned."""
        return (
            self.planned is not None and self.actual is not None and self.planned.device != self.actual.device
        )


@dataclass(frozen=True)
class WorkerRun:
    """A worker: what it ran, and why it ran nothing."""

    name: str
    device_class: str
    slots: int
    tasks: int
    """Executions that ended well here."""
    busy: float
    """Slot-time in use, that of attempts that ended badly with it."""
    wasted: float
    """Slot-time of attempts that ended badly."""
    planned_busy: float | None
    ratio: float | None
    """Mean of run time over expected run time, of what ended well here."""
    idle: Mapping[str, float]
    """Slot-time without work by cause, in the order of ``CAUSES``; with ``busy`` it adds up to all slot-time."""
    inversions: int
    """Pairs of tasks that ran here in the other order than planned."""
    displacement: int
    """Most positions that a task moved in the order of the worker."""
    losses: int

    @property
    def idle_time(self) -> float:
        """All slot-time without work."""
        return sum(self.idle.values())


@dataclass(frozen=True)
class JobRun:
    """A job from arrival to end."""

    job: Name
    tasks: int
    arrived: float
    ended: float | None
    outcome: str
    """``done``, ``failed``, ``expired``, or ``open``."""
    reason: str
    scheduler: str
    """To whom it was given, where jobs were divided between schedulers; else empty."""
    deadline: float | None = None
    """Due this long after its arrival; None: never."""

    @property
    def has_missed(self) -> bool:
        """Whether it was due and was not done by then."""
        if self.deadline is None:
            return False
        return self.outcome != "done" or self.time is None or self.time > self.deadline

    @property
    def time(self) -> float | None:
        """From arrival to end."""
        return None if self.ended is None else self.ended - self.arrived


@dataclass(frozen=True)
class Link:
    """One execution of the chain that ended the run, and what it waited for."""

    attempt: Attempt
    held_by: str
    """``parent``, ``device``, ``attempt`` (an earlier one at the same task), or ``arrival``."""
    before: Attempt | None
    """The execution whose end it waited for."""
    waits: Mapping[str, float]
    """Time between that end and its start by cause."""
    expected: float | None
    """Its run time as it was expected on its device."""
    overhead: float = 0.0
    """What plans allow there besides."""


@dataclass(frozen=True)
class KindError:
    """Run times of one kind of task on one class of device, planned and real."""

    device_class: str
    kind: str
    num: int
    planned: float
    """Mean, as expected."""
    observed: float
    """Mean, as it was."""

    @property
    def ratio(self) -> float:
        """Observed over planned; infinite where nothing was planned."""
        return self.observed / self.planned if self.planned > 0 else float("inf")


@dataclass(frozen=True)
class Shadow:
    """What another scheduler would have done, as far as it was asked."""

    scheduler: str
    num: int
    """Tasks that it placed."""
    agreeing: int
    """Of these, how many went to the same device in the run."""
    lead: float
    """Mean time by which it would have placed them earlier."""

    @property
    def share(self) -> float:
        """Share of decisions that agree."""
        return self.agreeing / self.num if self.num else 0.0


@dataclass(frozen=True)
class Split:
    """Job times of two schedulers that jobs were divided between."""

    first: str
    second: str
    num_first: int
    num_second: int
    mean_first: float
    mean_second: float
    difference: Interval | None
    """Mean job time of the second minus that of the first; None: too few jobs."""
