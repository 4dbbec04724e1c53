"""What a planner is: one method that makes a schedule, one that says what it can act on."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Real
from types import FrameType
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from weft.errors import InputError, expect
from weft.model.problem import Problem
from weft.model.schedule import Schedule

if TYPE_CHECKING:
    from weft.schedulers.dispatchers.python_view import Device, DispatchView, ReadyTask


_stop = threading.Event()


def is_stopped() -> bool:
    """Whether searches were asked to end with what they have."""
    return _stop.is_set()


ItemT = TypeVar("ItemT")


def until_stopped(items: Iterable[ItemT]) -> Iterator[ItemT]:
    """The items, as long as no end was asked for."""
    return itertools.takewhile(lambda item: not is_stopped(), items)


@contextmanager
def ended_by_interrupt(tell: Callable[[], None]) -> Iterator[None]:
    """While this holds, Ctrl-C calls ``tell`` and ends searches with their best plan; again, it raises."""

    def ask(number: int, frame: FrameType | None) -> None:
        if _stop.is_set():
            raise KeyboardInterrupt
        _stop.set()
        tell()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _stop.clear()


@dataclass
class Limit:
    """How long a search may go on: wall time, or a number of evaluations (repeatable).

    ``budget`` in seconds; ``effort`` counts evaluated schedules. With neither, the planner's own
    default effort holds.
    """

    budget: float | None = None
    effort: int | None = None
    started: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        for name in ("budget", "effort"):
            if getattr(self, name) is not None:
                expect(getattr(self, name), Real, "a number", name)
        if self.budget is not None and not self.budget > 0:
            raise InputError(f"expected a time > 0, got {self.budget}", field="budget")
        if self.effort is not None and self.effort < 1:
            raise InputError(f"expected a whole number >= 1, got {self.effort}", field="effort")
        if self.budget is not None and self.effort is not None:
            raise InputError("give a budget or an effort, not both", field="budget")

    @property
    def is_repeatable(self) -> bool:
        """Whether the same seed gives the same schedule."""
        return self.budget is None

    def left(self) -> float:
        """Seconds left; infinite without a budget, none once searches are to end."""
        if is_stopped():
            return 0.0
        if self.budget is None:
            return float("inf")
        return self.budget - (time.perf_counter() - self.started)


@runtime_checkable
class Planner(Protocol):
    """Builds a whole schedule before anything runs."""

    name: str

    def supports(self, problem: Problem) -> str | None:
        """None if it can plan this problem, else the reason why not."""

    def plan(self, problem: Problem, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
        """A valid schedule; the same arguments give the same schedule unless a budget is set."""


class Plans(Protocol):
    """The least that a planner of one's own has."""

    @property
    def name(self) -> str:
        """What it is called in results."""

    def plan(self, problem: Problem, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
        """A valid schedule of the problem."""


class Decides(Protocol):
    """The least that a dispatcher of one's own has."""

    @property
    def name(self) -> str:
        """What it is called in results."""

    def decide(self, view: DispatchView) -> Iterable[tuple[ReadyTask, Device]]:
        """What starts now, where."""


def refuse_unplannable(problem: Problem) -> str | None:
    """The reason why no planner can act on this problem, or None."""
    for job in problem.jobs:
        if job.graph.is_conditional:
            return f"job {job.name!r} has conditional branches: only dispatchers act on them"
        if job.graph.is_elastic:
            return f"job {job.name!r} has elastic tasks: only allocators act on them (weft evaluate FILE -s optimus)"
        if job.period is not None:
            return f"job {job.name!r} is periodic: unroll it over a horizon first, or use a dispatcher"
        if job.booking is not None and len(problem.jobs) > 1:
            return f"job {job.name!r} books devices, which a plan of several jobs does not know: only dispatchers do"
    if problem.cluster.one_port:
        return "the links take one transfer at a time (one-port): planners assume no contention"
    return None
