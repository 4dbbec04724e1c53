"""Jobs divided between several schedulers on one cluster, to see which does better on the same machines.

Every scheduler sees its own jobs, and what the others run as devices that are taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from weft.errors import InputError
from weft.model.graph import GraphBuilder, TaskGraph
from weft.session import Session
from weft.session.messages import Decision, End, Name, Reservation, Start

HELD = "held"


def parse_split(text: str) -> tuple[tuple[str, float], ...]:
    """Names and shares of ``A:0.9,B:0.1``; shares add up to 1."""
    found = []
    for part in text.split(","):
        name, _, share = part.strip().rpartition(":")
        try:
            value = float(share)
        except ValueError:
            value = math.nan
        if not name or not 0 < value < 1:
            raise InputError(
                f"expected NAME:SHARE,NAME:SHARE such as heft:0.9,priced:0.1, got {text!r:.80}", field="split"
            )
        found.append((name, value))
    if len(found) < 2 or abs(sum(share for _, share in found) - 1.0) > 1e-6:
        raise InputError(f"expected at least two shares that add up to 1, got {text!r:.80}", field="split")
    return tuple(found)


class Division:
    """Which scheduler gets which job; outlives sessions that are made again."""

    def __init__(self, parts: Sequence[tuple[str, float]]) -> None:
        self.names = [name for name, _ in parts]
        self._shares = [share for _, share in parts]
        self._credit = [0.0] * len(parts)
        self._of: dict[Name, int] = {}

    def part(self, job: Name) -> int:
        """Number of the scheduler of a job: the one that is furthest below its share, once and for all."""
        if job not in self._of:
            highest = max(range(len(self.names)), key=lambda k: (self._credit[k] + self._shares[k], -k))
            self._give(job, highest)
        return self._of[job]

    def fix(self, job: Name, name: str) -> None:
        """A job has been given to a scheduler before, in a run that goes on."""
        if job not in self._of and name in self.names:
            self._give(job, self.names.index(name))

    def _give(self, job: Name, number: int) -> None:
        self._credit = [credit + share for credit, share in zip(self._credit, self._shares, strict=True)]
        self._credit[number] -= 1.0
        self._of[job] = number


class SplitSession(Session):
    """Several sessions that take turns; to whoever drives it, one."""

    def __init__(self, parts: Sequence[tuple[Session, str, float]], seed: int) -> None:
        self._parts = [session for session, _, _ in parts]
        self.division = Division([(name, share) for _, name, share in parts])
        self.scheduler = ",".join(f"{name}:{share:g}" for _, name, share in parts)
        self.problem, self.seed = self._parts[0].problem, seed
        self._graphs: dict[Name, TaskGraph] = {}
        self._of: dict[Name, int] = {}
        self._held: dict[tuple[Name, str], str] = {}  # what runs -> its name among the others' jobs
        self._num_held = self._turn = 0

    def part_of(self, job: Name) -> str:
        """The scheduler that a job was given to."""
        return self.division.names[self._of[job]]

    @property
    def now(self) -> float:
        """Time of the last event or decision."""
        return max(session.now for session in self._parts)

    has_queues = False

    @property
    def is_due(self) -> bool:
        """Whether a device is free and a task waits."""
        return any(session.is_due for session in self._parts)

    @property
    def num_waiting(self) -> int:
        """Tasks that wait for a device."""
        return sum(session.num_waiting for session in self._parts)

    @property
    def num_fallbacks(self) -> int:
        """Decisions that a rule made for a policy."""
        return sum(session.num_fallbacks for session in self._parts)

    # -- events ------------------------------------------------------------------------------------

    def arrived(self, job: Name, time: float, *, graph: TaskGraph | None = None, **settings: Any) -> None:
        """A job goes to the scheduler that is furthest below its share."""
        if graph is None:
            raise InputError("expected the graph of the job", field="arrived.graph")
        chosen = self.division.part(job)
        self._parts[chosen].arrived(job, time, graph=graph, **settings)
        self._of[job], self._graphs[job] = chosen, graph

    def closed(self, time: float) -> None:
        """No more jobs will arrive; what is held for other schedulers still does."""

    def started(self, job: Name, task: Name, device: Name, time: float, **more: Any) -> None:
        """Its own scheduler decided it; to the others it holds its device since then."""
        self._parts[self._of[job]].started(job, task, device, time, **more)

    def adopted(self, job: Name, task: Name, device: Name, time: float) -> int:
        """A task was started without a decision."""
        attempt = self._parts[self._of[job]].adopted(job, task, device, time)
        self._hold(job, str(task), device, time)
        return attempt

    def finished(self, job: Name, task: Name, device: Name, time: float, **more: Any) -> None:
        """A task has ended well."""
        self._parts[self._of[job]].finished(job, task, device, time, **more)
        self._let_go(job, str(task), device, time)

    def failed(self, job: Name, task: Name, device: Name, time: float, *, attempt: int | None = None) -> None:
        """A task has ended badly."""
        self._parts[self._of[job]].failed(job, task, device, time, attempt=attempt)
        self._let_go(job, str(task), device, time)

    def device_lost(self, device: Name, time: float) -> None:
        """A device is gone."""
        for session in self._parts:
            session.device_lost(device, time)

    def device_joined(self, device: Name, time: float) -> None:
        """A device is back."""
        for session in self._parts:
            session.device_joined(device, time)

    def _hold(self, job: Name, task: str, device: Name, time: float) -> None:
        """Tell the other schedulers that a device is taken."""
        self._num_held += 1
        name = f"{HELD} {self._num_held}"
        self._held[job, task] = name
        graph = _alone(self._graphs[job], task)
        for k, session in enumerate(self._parts):
            if k != self._of[job]:
                session.arrived(name, max(time, session.now), graph=graph)
                session.adopted(name, HELD, device, session.now)

    def _let_go(self, job: Name, task: str, device: Name, time: float) -> None:
        name = self._held.pop((job, task), None)
        for k, session in enumerate(self._parts):
            if name is not None and k != self._of[job]:
                try:
                    session.finished(name, HELD, device, max(time, session.now))
                except InputError:  # its device was lost meanwhile, and it is over already
                    continue

    # -- decisions ---------------------------------------------------------------------------------

    def decide(self, time: float) -> Decision:
        """What each scheduler starts of its own jobs, in turn."""
        starts: list[Start] = []
        cancels, ended, wakes = [], list[End](), []
        self._turn += 1
        for k in range(len(self._parts)):
            number = (k + self._turn) % len(self._parts)
            session = self._parts[number]
            decision = session.decide(max(time, session.now))
            while True:
                starts += self._own(decision, time)
                cancels += [one for one in decision.cancels if one.job in self._of]
                ended += [one for one in decision.ended if one.job in self._of]
                again = [one for one in decision.starts if one.job not in self._of]
                if not again:
                    break
                self._clear(session, again, max(time, session.now))
                decision = session.decide(max(time, session.now))
            wakes += [] if decision.wake_at is None else [decision.wake_at]
        for end in ended:
            self._graphs.pop(end.job, None)
        return Decision(tuple(starts), tuple(cancels), tuple(ended), min(wakes, default=None))

    def _own(self, decision: Decision, time: float) -> list[Start]:
        own = [one for one in decision.starts if one.job in self._of]
        for one in own:
            self._hold(one.job, one.task, one.device, time)
        return own

    def _clear(self, session: Session, starts: Sequence[Start], time: float) -> None:
        """What was held on a device that is lost waits again there, and is of no interest any more."""
        for one in starts:
            session.started(one.job, one.task, one.device, time)
            session.finished(one.job, one.task, one.device, time)

    @property
    def num_plans(self) -> int:
        """How often any of the schedulers has planned."""
        return sum(session.num_plans for session in self._parts)

    def reservations(self, device: Name | None = None, most: int | None = None) -> tuple[Reservation, ...]:
        """What is bound to a device by any of the schedulers, by expected start; ``most``: so many of each at most."""
        found = [
            one
            for session in self._parts
            for one in session.reservations(device, most)
            if one.job in self._of
        ]
        return tuple(sorted(found, key=lambda one: one.expected_start))


def _alone(graph: TaskGraph, task: str) -> TaskGraph:
    """One task of a graph as a graph, with what it takes of a device."""
    row = graph.task(graph.index[task])
    builder = GraphBuilder(HELD, time_unit=graph.time_unit)
    builder.task(HELD, row.work, kind=row.kind, slots=row.slots, memory=row.memory)
    return builder.build()
