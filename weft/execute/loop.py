"""A session and an engine, until nothing is left to happen: what happens is told, what is decided is done.

When a decision is asked for:

- Tasks on their own: whatever happens at one moment is told (events of the engine, then jobs that arrive), then
  comes one decision. A moment of starts alone is none: they free nothing and make nothing ready. When the
  session wants to be asked again at a time and nothing happens before, that is a moment too.
- Queues by kind: events and arrivals are told one after another until the session is due and time would
  pass. Where it is due still after its own decision, exactly one is told before the next decision. A time to be asked
  again counts when nothing else will happen.
- A session that wants to be asked again at once is told what its starts have led to, and asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.errors import InputError
from weft.execute.engine import FAILED, FINISHED, JOINED, LOST, STARTED, VACATED, Engine, Event, Order
from weft.model.problem import Job
from weft.session import Decision, End, Session, Start
from weft.session.messages import Name

NEVER = float("inf")


class Arrival(NamedTuple):
    """A job that enters at a time."""

    time: float
    job: Name
    brings: Job | None = None
    """What it is, if the session does not know it."""


@dataclass
class Played:
    """What was decided and what happened, in order."""

    starts: list[tuple[float, Start]] = field(default_factory=list)
    """When what was decided."""
    events: list[Event] = field(default_factory=list)
    ended: list[End] = field(default_factory=list)


def play(session: Session, engine: Engine, arrivals: Iterable[Arrival]) -> Played:
    """Carry out what a session decides until nothing is left to do; arrivals come by time.

    The engine must be one that knows when nothing will ever happen any more: one of virtual time.
    """
    loop = _Loop(session, engine, arrivals)
    engine.start()
    try:
        wake_at: float | None = None
        while loop.advance(wake_at):
            wake_at = loop.decide()
    finally:
        engine.close()
    return loop.played


class _Loop:
    def __init__(self, session: Session, engine: Engine, arrivals: Iterable[Arrival]) -> None:
        self._session, self._engine, self._coming = session, engine, deque(arrivals)
        self._orders: dict[tuple[Name, str, int], Order] = {}  # those that have not ended
        self._num_orders = 0
        self._has_news = False  # whether anything but starts was told since the last decision
        self.played = Played()

    # -- time passes -------------------------------------------------------------------------------

    def advance(self, wake_at: float | None) -> bool:
        """Tell what happens until it is time for a decision; returns whether it ever is."""
        has_queues = self._session.has_queues
        limit = NEVER if wake_at is None or has_queues else wake_at
        while self._tell_next(self._engine.now if self._is_time(has_queues) else limit):
            pass
        if self._has_news or self._tell_next(limit):
            return True
        if wake_at is not None:
            self._engine.events(wake_at)
            return True
        if self._session.num_waiting:
            raise InputError("tasks wait, and nothing will ever start them", field="scheduler")
        return False

    def _is_time(self, has_queues: bool) -> bool:
        return self._session.is_due if has_queues else self._has_news

    def _tell_next(self, until: float) -> bool:
        """Tell of the next events, or the next job, up to a time; returns whether there is anything to tell."""
        arrives = self._coming[0].time if self._coming else NEVER
        limit = min(until, arrives)
        events = self._engine.events(None if limit == NEVER else limit)
        for event in events:
            self._tell(event)
        if not events and arrives <= until and self._coming:
            self._arrive(self._coming.popleft())
            return True
        return bool(events)

    def _arrive(self, arrival: Arrival) -> None:
        time, name, job = arrival
        self._has_news = True
        if job is None:
            self._session.arrived(name, time)
        else:
            self._session.arrived(
                name,
                time,
                graph=job.graph,
                deadline=job.deadline,
                weight=job.weight,
                owner=job.owner,
                eligible=job.eligible,
            )
        if not self._coming:
            self._session.closed(time)

    def _tell(self, event: Event) -> None:
        """Tell the session of one event."""
        session, (kind, time, device, job, task, attempt, branch, *_) = self._session, event
        self.played.events.append(event)
        self._has_news |= kind not in (STARTED, VACATED)
        if kind == STARTED:
            session.started(job, task, device, time, attempt=attempt, branch=branch)
        elif kind == VACATED:
            session.vacated(job, task, device, time)
        elif kind == FINISHED:
            del self._orders[event.key]
            session.finished(job, task, device, time, attempt=attempt, branch=branch)
        elif kind == FAILED:
            del self._orders[event.key]
            session.failed(job, task, device, time, attempt=attempt)
        elif kind == LOST:
            self._orders = {key: order for key, order in self._orders.items() if order.device != device}
            session.device_lost(device, time)
        elif kind == JOINED:
            session.device_joined(device, time)

    # -- decisions ---------------------------------------------------------------------------------

    def decide(self) -> float | None:
        """One decision, or several where the session asks for it; returns when to ask again."""
        while True:
            now = self._engine.now
            decision = self._session.decide(now)
            self._has_news = False
            self._carry_out(decision, now)
            if decision.wake_at != now:
                return decision.wake_at
            self._tell_next(now)

    def _carry_out(self, decision: Decision, now: float) -> None:
        for start in decision.starts:
            job, task, device, attempt, batch, begin, end = start
            order = Order(job, task, device, attempt, self._num_orders, batch=batch, start=begin, end=end)
            self._num_orders += 1
            self._orders[order.key] = order
            self._engine.submit(order)
            self.played.starts.append((now, start))
        for cancel in decision.cancels:
            self._engine.cancel(self._orders[cancel.job, cancel.task, cancel.attempt])
        self.played.ended += decision.ended
