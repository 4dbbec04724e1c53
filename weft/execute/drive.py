"""One loop for every engine: what happens is told to a session, what it decides is ordered from the engine.

The loop decides nothing about tasks. It queues ahead what a plan has bound to a device, so that no device waits
for a message between two tasks, and has a result that was lost made again before a task that needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from weft.execute.again import Again
from weft.execute.ahead import queue_ahead
from weft.execute.engine import (
    CANCELLED,
    FAILED,
    FINISHED,
    JOINED,
    LOST,
    LOST_RESULT,
    STARTED,
    VACATED,
    Engine,
    Event,
    Order,
)
from weft.execute.feed import Arrival, Feed
from weft.execute.ledger import Ledger
from weft.execute.moments import LiveMoments, Moments, VirtualMoments
from weft.execute.scribe import Observed, Scribe, observed
from weft.execute.told import Told
from weft.io.histories import History
from weft.session.messages import Decision, End, Name, Start

STRAY = "stray"


class Watcher(Protocol):
    """Looks at the run after every moment and may have the session made again."""

    def look(self, drive: Drive) -> str | None:
        """Why everything should be planned again, if it should."""


@dataclass
class Drive:
    """A session at work on an engine; ``run`` carries everything out that the feed brings."""

    told: Told
    engine: Engine
    feed: Feed
    history: History
    ahead: int = 1
    """Orders that a device may hold beyond its slots, where they are reserved for it."""
    keeps_results: bool = True
    """Whether the engine keeps the results of jobs that are over; a stream would fill its memory with them."""
    watcher: Watcher | None = None
    listen: Callable[[Drive], None] = lambda drive: None
    """Called after every moment, to show progress."""
    ledger: Ledger = field(default_factory=Ledger)
    wake_at: float | None = None
    observed: list[Observed] = field(default_factory=list)
    """Run times of all tasks that have ended well."""
    starts: list[tuple[float, Start]] = field(default_factory=list)
    """When what was decided, in order."""
    outcome: Callable[[Name, str], tuple[str, ...] | None] = lambda job, task: None
    """What the branches of a task lead to, where the engine does not say; None: it has none."""
    planned_end: float | None = None
    """When the first plan was to end."""
    scribe: Scribe = field(init=False)
    _again: Again = field(init=False)
    _ending: list[End] = field(default_factory=list)
    """Jobs that are over for the session, of which something is still queued ahead."""
    _is_news: bool = False
    """Whether the session was told of an end after it had decided."""
    _reasons: list[str] = field(default_factory=list)
    """Why plans may have changed since the last decision."""

    def __post_init__(self) -> None:
        self.scribe, self._again = Scribe(self.history), Again(self)

    @property
    def now(self) -> float:
        """The engine's time, which never goes back for the session."""
        return max(self.engine.now, self.told.session.now)

    def run(self) -> None:
        """Until every job has ended; the engine is left open."""
        self.engine.start()
        moments: Moments = LiveMoments() if self.engine.is_live else VirtualMoments()
        while moments.advance(self):
            self.decide()
            self.listen(self)

    def expected_end(self) -> float | None:
        """When everything that is known seems to end; None: nothing is planned."""
        ends = [one.expected_end for one in self.told.session.reservations()]
        ends += [max(order.end, self.now) for order in self.ledger.orders.values()]
        return max(ends, default=None)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return self.feed.is_empty and not self.told.open_jobs and not self.ledger.again

    @property
    def is_held_up(self) -> bool:
        """Whether a result has to be made again that no device can make before another is back."""
        return bool(self._again.put_off)

    # -- what happens ------------------------------------------------------------------------------

    def arrive(self, arrival: Arrival, time: float) -> None:
        """A job enters."""
        self._reasons.append("arrival")
        self.told.arrived(arrival, time, is_last=self.feed.is_empty)
        self.scribe.arrived(arrival, time, self.told)

    def look(self) -> None:
        """Let the watcher see whether anything has changed."""
        if self.watcher is not None and (why := self.watcher.look(self)) is not None:
            self._reasons.append(why)

    def happen(self, event: Event) -> None:
        """Tell one event."""
        if why := self._happen(event):
            self._reasons.append(why)

    def _happen(self, event: Event) -> str:
        """Tell one event; returns why plans may have changed, if they may."""
        if event.kind == FINISHED and event.branch is None:
            event = event._replace(branch=self.outcome(event.job, event.task))
        if event.kind in (LOST, JOINED):
            return self._move(event)
        order = self.ledger.orders.get(event.key)
        if event.kind == STARTED:
            self._start(event, order)
            return ""
        if event.kind == VACATED:
            self.told.vacated(event)
            return ""
        if order is None:
            self.scribe.about(event, STRAY, note=event.note or event.kind)
            return ""
        return self._end(event, order)

    def _move(self, event: Event) -> str:
        """A device has gone or come."""
        if event.device not in self.told.devices or (event.device in self.told.away) == (event.kind == LOST):
            return ""
        self.history.add(event.kind, event.time, device=event.device, note=event.note)
        if event.kind == LOST:
            freed, left = self.ledger.lose(event.device), self.ledger.again.lose(event.device)
            self.told.lost(event.device, event.time)
            for start in freed:
                self._order_now(start)
            for order, task in left:
                self._again.make(order, task)
        else:
            put_off = self._again.put_off
            self.told.joined(event.device, event.time)
            self._again.take_up(put_off)
        return event.kind

    def _start(self, event: Event, order: Order | None) -> None:
        if order is None:
            self.scribe.about(event, STRAY, note=event.kind)
            return
        self.scribe.about(event, STARTED)
        self.ledger.start(order, event.time)
        if order.key in self.ledger.again:
            return
        if self.ledger.is_sure(order) and self.told.started(order, event):
            return
        if order.task_key not in self.ledger.elsewhere and self.told.adopted(order, event.time):
            self.ledger.settle(order)
        else:  # the session has other plans for it, but here it runs: its result will do
            self.ledger.unasked.add(order.key)

    def _end(self, event: Event, order: Order) -> str:
        began, base = self.ledger.started.get(order.key), self.ledger.bases[order.key]
        is_unasked, is_sure = order.key in self.ledger.unasked, self.ledger.is_sure(order)
        self.ledger.close(order)
        if order.key in self.ledger.again:
            return self._again.end(event, order)
        if event.kind == FINISHED and began is not None:
            self._observe(event, order, event.time - began, base)
        if event.kind == FINISHED:
            self.scribe.about(event, FINISHED, size=event.size, branch=event.branch)
            self.history.add("reported", event.time, job=order.job, task=order.task, attempt=order.attempt)
            if is_unasked:
                self._hand_in(event, order)
            else:
                self.told.finished(order, event)
            return ""
        is_cancelled = event.note == CANCELLED and began is None
        self.scribe.about(event, CANCELLED if is_cancelled else FAILED, note=event.note or None)
        if is_unasked or not is_sure:
            if event.note.startswith(LOST_RESULT):
                self.ledger.decided_only.add(order.task_key)
            if (start := self.ledger.elsewhere.pop(order.task_key, None)) is not None:
                self._order_now(start)
        elif event.note.startswith(LOST_RESULT):
            self._again.make(order, event.note.removeprefix(LOST_RESULT))
        else:
            self.told.failed(order, event.time)
        return FAILED

    def _hand_in(self, event: Event, order: Order) -> None:
        """Tell the session of a result that it did not expect from there."""
        start = self.ledger.elsewhere.pop(order.task_key, None)
        if start is not None:  # it is waiting for it from another device
            here = order._replace(device=start.device)
            self.told.started(here, event._replace(device=here.device))
            self.told.finished(here, event)
        elif self.told.adopted(order, event.time):
            self.told.finished(order, event)
        else:
            self.ledger.early[order.task_key] = event

    def _observe(self, event: Event, order: Order, actual: float, base: float) -> None:
        graph = self.told.open_jobs.get(order.job)
        if graph is not None:  # else its job is over without it
            self.observed.append(observed(event, order, graph, actual, base))

    def forget_decisions(self) -> None:
        """The session was made again: what it had decided and does not run yet counts as queued ahead."""
        self.ledger.forget_decisions()

    # -- decisions ---------------------------------------------------------------------------------

    def decide(self) -> None:
        """Ask the session, and order what it says."""
        reason, self._reasons = next(filter(None, self._reasons), "late"), []
        decision: Decision = self.told.decide(self.now)
        self._log_shadow()
        self.wake_at = decision.wake_at
        for start in decision.starts:
            self.starts.append((self.now, start))
            self._give(start)
        for cancel in decision.cancels:
            if (order := self.ledger.of_task(cancel.job, cancel.task)) is not None:
                self.engine.cancel(order)
        self.scribe.planned(reason, self)
        queue_ahead(self)
        self._note_ends(decision.ended)
        self._note_wait()
        if self._is_news:
            self._is_news = False
            self.decide()

    def _note_wait(self) -> None:
        """Write down why nothing is ordered, where something could be expected."""
        if self.history.has_answer:
            return
        if self.told.session.num_waiting:
            self.history.add("waited", self.now, reason=f"{self.told.session.scheduler} starts nothing yet")
        elif reason := self._again.reason:
            self.history.add("waited", self.now, reason=reason)

    def _note_ends(self, ended: Sequence[End]) -> None:
        """Write down which jobs are over, once nothing is queued ahead any more of what was dropped from them."""
        ends, self._ending = [*self._ending, *ended], []
        for end in ends:
            queued = [self.ledger.of_task(end.job, task) for task in end.dropped]
            for order in queued:
                if order is not None:
                    self.withdraw(order)
            if any(queued):
                self._ending.append(end)
            else:
                self.told.note_end(end, self.history)
                self.ledger.end_job(end.job)
                if not self.keeps_results:
                    self.engine.release(end.job)

    def _log_shadow(self) -> None:
        starts = self.told.shadow_starts(self.now)
        if starts:
            self.history.add("shadow", self.now, scheduler=self.told.shadow_name, starts=starts)

    def _give(self, start: Start) -> None:
        """Order what was decided, unless it is ordered already; an order elsewhere is withdrawn first."""
        start = start._replace(device=self.told.name(start.device))
        key = (start.job, start.task)
        if key in self.ledger.early:
            self._use_early(start, self.ledger.early.pop(key))
            return
        order = self.ledger.of_task(*key)
        if self.ledger.again.move(start):
            return
        if order is None:
            self._order_now(start)
        elif order.device == start.device and order.key in self.ledger.undecided:
            self.ledger.settle(order)
        else:
            self.ledger.elsewhere[key] = start
            self.withdraw(order)

    def _use_early(self, start: Start, event: Event) -> None:
        """What was decided is done already."""
        order = Order(start.job, start.task, start.device, event.attempt, 0)
        told = event._replace(device=start.device, time=self.now)
        self.told.started(order, told)
        self.told.finished(order, told)
        self._is_news = True

    def _order_now(self, start: Start) -> None:
        inputs = self.inputs(start.job, start.task)
        times = (start.expected_start, start.expected_end)
        order = self.new_order(start.job, start.task, start.device, inputs, times)
        self.submit_decided(order._replace(batch=start.batch))

    def submit_decided(self, order: Order) -> None:
        """Order what was decided; first make the results again that it needs and nobody holds any more."""
        lacking = next((task for task in order.inputs if (order.job, task) in self.ledger.missing), None)
        if lacking is None:
            self.submit(order)
        else:
            self._again.make(order, lacking)

    def withdraw(self, order: Order) -> None:
        """Ask for an order back, unless it runs; until it is known what became of it, its task has no other."""
        if order.key not in self.ledger.started and order.key not in self.ledger.withdrawn:
            self.ledger.withdraw(order)
            self.engine.cancel(order)

    def inputs(self, job: Name, task: str) -> tuple[str, ...]:
        """What hands a task its results: the parents that have run, or run before it on the same device."""
        return tuple(
            parent
            for parent in self.told.parents(job, task)
            if self.told.is_done(job, parent) or self.ledger.of_task(job, parent) is not None
        )

    def new_order(
        self, job: Name, task: str, device: str, inputs: tuple[str, ...], times: tuple[float, float]
    ) -> Order:
        """An order with the next numbers."""
        attempt, sequence = self.ledger.next_numbers(job, task)
        return Order(job, task, device, attempt, sequence, inputs, 0, *times)

    def submit(self, order: Order) -> None:
        """Give an order to the engine."""
        self.scribe.submitted(order, self.now)
        base = (order.end - order.start) / self.told.factors[self.told.number(order.device)]
        self.ledger.open(order, base, is_decided=not order.is_ahead)
        self.engine.submit(order)
