"""How runs, tasks and jobs end, and what is said about it with the next decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.session.ledger import Run
from weft.session.lookup import Lookup
from weft.session.messages import DONE, FAILED, Cancel, End
from weft.session.record import Record

JOB, DESCENDANTS = "job", "descendants"


class Endings:
    """Ends of one session; ``on_failure`` says what fails with a task, ``record`` keeps what has run."""

    def __init__(self, look: Lookup, record: Record | None, on_failure: str) -> None:
        self._look, self._record, self._on_failure = look, record, on_failure
        self._cancels: list[Cancel] = []
        self._ended: list[End] = []

    def news(self) -> tuple[tuple[Cancel, ...], tuple[End, ...]]:
        """What was not said yet."""
        found = tuple(self._cancels), tuple(self._ended)
        self._cancels, self._ended = [], []
        return found

    def leave(self, item: int, run: Run, outcome: int, edges: Sequence[int] = ()) -> None:
        """A run is over; ``edges``: places of those it takes."""
        self.note(item, run, outcome)
        if self._record is not None and edges:
            number, node = self._look.view.place(item)
            first = int(self._look.job(number).graph.successor_pointer[node])
            self._record.take(number, [first + place for place in edges])
        if self._look.ledger.leave(item):
            self._look.view.free(run.lane, self._look.now)

    def note(self, item: int, run: Run, outcome: int) -> None:
        """Keep what a run was, if somebody wants to know."""
        if self._record is not None:
            device = int(self._look.view.lane_device[run.lane])
            self._record.leave(self._look.view.place(item), device, run, self._look.now, outcome)

    def give_up(self, item: int, reason: str) -> None:
        """A task has failed for good: its job fails with it, or all that needs it does."""
        number, _ = self._look.view.place(item)
        if self._on_failure == DESCENDANTS:
            names = self._look.tasks(number).of_node
            dropped = [names[node] for node in self._look.view.cut(item)]
        else:
            dropped = []
            self._withdraw(number)
        if number in self._look.jobs.open:
            self._look.jobs.fail(number, reason, self._look.task_name(item), dropped)
            if self._on_failure == JOB or self._look.view.is_over(number):
                self.end_job(number, FAILED)

    def _withdraw(self, number: int) -> None:
        """Nothing of a job is to start any more, and what runs is to be cancelled."""
        self._look.view.withdraw(number)
        items = self._look.view.items(number)
        for item, run in self._look.ledger.runs.items():
            if item in items:
                run.is_dropped = True
                self._cancels.append(Cancel(*self._look.named(item, run.lane), run.attempt))

    def end_job(self, number: int, outcome: str) -> None:
        """A job is over; one that went on without some of its tasks has failed."""
        if outcome == DONE and number in self._look.jobs.failures:
            outcome = FAILED
        went_wrong = self._look.jobs.end(number, outcome)
        reason, names = "; ".join(went_wrong.reasons), (tuple(went_wrong.failed), tuple(went_wrong.dropped))
        self._ended.append(End(self._look.jobs.name[number], outcome, self._look.now, reason, *names))
        items = self._look.view.items(number)
        self._look.ledger.forget(items)
        if self._record is not None:
            self._record.end(number, outcome, self._look.now)
        if (self._record is None or not items) and not any(item in items for item in self._look.ledger.runs):
            self._look.forget(number)

    def forget(self, number: int) -> None:
        """A job that ended long ago is remembered no longer."""
        self._look.forget(number)
        if self._record is not None:
            self._record.forget(number)

    def snapshot(self) -> list[list[list[Any]]]:
        """What was not said yet, as plain data."""
        return [[list(row) for row in rows] for rows in (self._cancels, self._ended)]

    def restore(self, stored: Sequence[Any]) -> None:
        """Go back to a snapshot; whatever does not fit raises a KeyError, TypeError or ValueError."""
        cancels, ended = stored
        self._cancels = [Cancel(*row) for row in cancels]
        self._ended = [End(*row[:4], *(tuple(names) for names in row[4:])) for row in ended]


def times(num: int) -> str:
    """``once``, ``2 times``."""
    return "once" if num == 1 else f"{num} times"
