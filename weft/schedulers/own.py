"""Schedulers that are not weft's: any object with ``plan`` is a planner, any with ``decide`` a dispatcher.

Here they get what weft's own have: a reason why they cannot act, and errors that name the class. A
dispatcher runs in the task view, in plain Python: at every decision it is shown a ``DispatchView``
and returns starts; each is checked before it is carried out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from weft.errors import InputError
from weft.model.problem import Job, Problem, Realisation
from weft.model.schedule import Schedule
from weft.plugins import blamed, made
from weft.schedulers.base import Limit, Planner, refuse_unplannable
from weft.schedulers.dispatchers.outages import Outage, extra_rows, moves_of, refuse_unfinished
from weft.schedulers.dispatchers.python_view import Device, DispatchView, ReadyTask
from weft.sim.tasks.clock import run_until
from weft.sim.tasks.layout import compile_tasks, facts_of, new_task_state, refuse_tasks, schedule_of
from weft.sim.tasks.state import NUM_ASKED, Facts, Tasks, TaskState

if TYPE_CHECKING:
    from weft.schedulers.dispatchers.tasks import TaskDispatcher

ENV = 0


class OwnPlanner:
    """A planner that is not weft's."""

    def __init__(self, inner: Any) -> None:
        self._inner, self._title = inner, title_of(inner)
        self.name: str = inner.name

    def supports(self, problem: Problem) -> str | None:
        """What the planner itself says; where it says nothing, what no planner of weft's can plan."""
        return _asked(self._inner, self._title, problem, refuse_unplannable)

    def plan(self, problem: Problem, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
        """What the planner returns, if it is a schedule of this problem."""
        with _blamed(f"{self._title}.plan failed"):
            found = self._inner.plan(problem, seed=seed, limit=limit)
        if not isinstance(found, Schedule):
            raise self._refusal("a weft.Schedule", _kind_of(found))
        if found.problem is not problem:
            raise self._refusal("a schedule of the problem it was given", "one of another problem")
        return found

    def _refusal(self, expected: str, got: str) -> InputError:
        return InputError(f"{self._title}.plan: expected {expected}, got {got}", field="scheduler")

    @property
    def note(self) -> str:
        """What the planner has to say."""
        return str(getattr(self._inner, "note", ""))

    @property
    def is_cut(self) -> bool:
        """Whether the wall clock cut its search short."""
        return bool(getattr(self._inner, "is_cut", False))


class OwnDispatcher:
    """A dispatcher that is not weft's: ``decide(view)`` returns what starts now."""

    def __init__(self, inner: Any) -> None:
        self._inner, self._title = inner, title_of(inner)
        self.name: str = inner.name

    def supports(self, problem: Problem) -> str | None:
        """None if the task view can run the problem and the dispatcher does not object, else the reason."""
        return refuse_tasks(problem) or _asked(self._inner, self._title, problem, lambda _: None)

    def run_all(
        self,
        problems: Sequence[Problem],
        realisations: Sequence[Realisation],
        seeds: Sequence[int],
        outages: Sequence[Outage] = (),
    ) -> list[Schedule]:
        """One problem after the other, each with a copy of the dispatcher as it was given."""
        runs = zip(problems, realisations, seeds, strict=True)
        return [
            Run(problem, happens, outages).play(self.decider(problem, seed))
            for problem, happens, seed in runs
        ]

    def decider(self, problem: Problem, seed: int) -> Decider:
        """A copy of the dispatcher for one run."""
        with _blamed(f"{self._title} cannot be copied, and every run starts with a copy"):
            inner = copy.deepcopy(self._inner)
        return Decider(inner, self._title, problem, seed)


class StateDecider(Protocol):
    """StateDecider in a state of the task view with one environment."""

    title: str
    """What it is called in messages."""

    def decide(self, w: Tasks, f: Facts, s: TaskState) -> None:
        """Start what is to start now; ``s.wake`` is when to ask again."""

    def can_start(self, w: Tasks, f: Facts, s: TaskState) -> bool:
        """Whether some ready task could start now."""


class Decider:
    """Asks a dispatcher for starts in a state of the task view, checks them and carries them out."""

    def __init__(self, inner: Any, title: str, problem: Problem, seed: int) -> None:
        self._inner, self.title = inner, title
        self._problem, self._seed = problem, seed
        self.jobs: Sequence[Job] = problem.jobs

    def decide(self, w: Tasks, f: Facts, s: TaskState) -> None:
        """Start what the dispatcher starts now: it is asked until it starts nothing or nothing is left.

        ``s.wake`` is when it wants to be asked again.
        """
        while s.num_ready[ENV] > 0 and s.num_free[ENV] > 0:
            s.count[ENV, NUM_ASKED] += 1
            view = self._view(w, f, s)
            starts = self._starts(view)
            for start in starts:
                self._start(view, start)
            view.settle()
            if not starts:
                return

    def can_start(self, w: Tasks, f: Facts, s: TaskState) -> bool:
        """Whether some ready task could start now."""
        view = self._view(w, f, s)
        return any(view.options(task) for task in view.ready)

    def _view(self, w: Tasks, f: Facts, s: TaskState) -> DispatchView:
        return DispatchView(self._problem.cluster, self.jobs, w, f, s, self._seed)

    def _starts(self, view: DispatchView) -> list[object]:
        """What the dispatcher returns, if it can be gone through."""
        with _blamed(f"{self.title}.decide failed at time {view.now:g}"):
            found = self._inner.decide(view)
            is_list = isinstance(found, Iterable) and not isinstance(found, str | bytes)
            starts = list(found) if is_list else []
        if not is_list:
            raise self._refusal(view, f"expected a list of starts, got {_kind_of(found)}")
        return starts

    def _start(self, view: DispatchView, start: object) -> None:
        """Carry one start out, after all before it."""
        if not isinstance(start, tuple) or len(start) != 2:
            raise self._refusal(view, f"expected pairs of a task and a device, got {_kind_of(start)}")
        task, device = start
        if not isinstance(task, ReadyTask):
            raise self._refusal(view, f"expected one of view.ready, got {_kind_of(task)}")
        if not isinstance(device, Device):
            raise self._refusal(view, f"expected one of view.devices, got {_kind_of(device)}")
        try:
            view.start(task, device)
        except InputError as error:
            raise self._refusal(view, error.message) from None

    def _refusal(self, view: DispatchView, text: str) -> InputError:
        return InputError(f"{self.title}.decide at time {view.now:g}: {text}", field="scheduler")


class Run:
    """One problem while it is carried out, decision by decision; ``more_rows``: room for copies."""

    def __init__(
        self, problem: Problem, realisation: Realisation, outages: Sequence[Outage], more_rows: int = 0
    ) -> None:
        self.problem, self.realisation = problem, realisation
        self.moves, self.has_outages = moves_of(outages, problem), len(outages) > 0
        self.w = compile_tasks([problem])
        self.f = facts_of([realisation], self.w)
        self.s = new_task_state(self.w, extra_rows(self.moves, problem) + more_rows)
        self.never = np.full(len(self.s.row_task), np.inf)  # (max_rows,) nothing counts as late

    def play(self, decider: StateDecider) -> Schedule:
        """From the first job to the end."""
        for move in self.moves:
            self._play_until(decider, move.time)
            move.carry_out(self.w, self.s, ENV)
        self._play_until(decider, float("inf"))
        if self.s.overflow.any():
            raise InputError("the event kernel ran out of room for rows or events")
        self._refuse_waiting(decider)
        if self.has_outages:
            refuse_unfinished(self.problem, self.s, 0)
        return schedule_of(self.problem, self.realisation, self.w, self.s)

    def _play_until(self, decider: StateDecider, until: float) -> None:
        """Decide if a decision is due now, then carry out events and decisions up to a time, this included."""
        decider.decide(self.w, self.f, self.s)
        while (time := self._next_time()) <= until and time < np.inf and not self.s.overflow[ENV]:
            run_until(self.w, self.f, self.s, ENV, time, self.never)
            decider.decide(self.w, self.f, self.s)

    def _next_time(self) -> float:
        """Time of the next event; infinite when there is none."""
        w, s = self.w, self.s
        times = [float(s.wake[ENV])]
        if s.num_events[ENV] > 0:
            times.append(float(s.event_time[s.event_ptr[ENV]]))
        at = int(s.next_job[ENV])
        if at < len(self.problem.jobs):
            times.append(float(w.job_release[w.job_order[at]]))
        return min(times)

    def _refuse_waiting(self, decider: StateDecider) -> None:
        """A dispatcher that starts nothing while nothing runs would wait forever."""
        if self.s.num_ready[ENV] > 0 and decider.can_start(self.w, self.f, self.s):
            raise InputError(
                f"{decider.title}.decide started nothing at time {self.s.now[ENV]:g}, when nothing ran and "
                f"nothing was to come: {self.s.num_ready[ENV]} ready tasks would wait forever",
                field="scheduler",
            )


def as_planner(given: Any) -> Planner:
    """The planner that an object (or a class, made without arguments) is."""
    found = made(given, title_of(given), "scheduler")
    _check(
        found, "plan", "a planner", "decide", "a dispatcher: it decides while jobs arrive and makes no plan"
    )
    return found if is_of_weft(found) else OwnPlanner(found)


def as_dispatcher(given: Any) -> TaskDispatcher:
    """The dispatcher of single tasks that an object (or a class, made without arguments) is."""
    found = made(given, title_of(given), "scheduler")
    if callable(getattr(found, "run_all", None)):
        _check(found, "supports", "a dispatcher")
        dispatcher: TaskDispatcher = found
        return dispatcher
    _check(found, "decide", "a dispatcher", "plan", "a planner: weft.schedule plans with it")
    return OwnDispatcher(found)


def is_of_weft(found: object) -> bool:
    """Whether an object is of weft's own making: it keeps the contract without being watched."""
    return type(found).__module__.split(".")[0] == "weft"


def is_others(found: object) -> bool:
    """Whether code of other people decides: an object of theirs, or one of weft's that asks it."""
    if isinstance(found, OwnPlanner | OwnDispatcher):
        return True
    inner = getattr(found, "planner", None)
    return not is_of_weft(found) or (inner is not None and is_others(inner))


def title_of(given: Any) -> str:
    """What an object is called in messages: its class."""
    return given.__qualname__ if isinstance(given, type) else type(given).__qualname__


def _check(found: Any, method: str, what: str, other: str = "", is_other: str = "") -> None:
    """Refuse an object that lacks a name or a method, by what it lacks."""
    title = title_of(found)
    if not callable(getattr(found, method, None)):
        if other and callable(getattr(found, other, None)):
            raise InputError(f"expected {what}, and {title} is {is_other}", field="scheduler")
        raise InputError(f"expected {what}, and {title} has no method {method!r}", field="scheduler")
    if not isinstance(getattr(found, "name", None), str) or not found.name:
        raise InputError(f"expected {what}, and {title} has no text 'name'", field="scheduler")


def _asked(inner: Any, title: str, problem: Problem, usual: Callable[[Problem], str | None]) -> str | None:
    """The reason of an object that may have ``supports``."""
    supports = getattr(inner, "supports", None)
    if supports is None:
        return usual(problem)
    with _blamed(f"{title}.supports failed"):
        reason = supports(problem)
    if reason is not None and not isinstance(reason, str):
        raise InputError(f"{title}.supports: expected None or a reason as a text, got {_kind_of(reason)}")
    return reason


def _blamed(what: str) -> AbstractContextManager[None]:
    return blamed(what, field="scheduler")


def _kind_of(value: object) -> str:
    return f"{value!r:.60}" if isinstance(value, str | int | float | None) else type(value).__name__
