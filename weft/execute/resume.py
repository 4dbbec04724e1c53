"""Going on with a run whose driver died: a session is told what the history says, and the rest is carried out.

Devices are as they are now: what went and came before is of no interest. What ran when the driver died is lost with
it, and is tried again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from weft.execute.drive import Drive
from weft.execute.engine import CANCELLED, FAILED, FINISHED, LOST_RESULT, Event, Order
from weft.execute.feed import Feed
from weft.execute.remakes import Key
from weft.execute.split import SplitSession
from weft.io.histories import Row
from weft.session.messages import Name


@dataclass
class Past:
    """What a history says of a run that goes on."""

    elapsed: float = 0.0
    arrived: dict[Name, float] = field(default_factory=dict)
    parts: dict[Name, str] = field(default_factory=dict)
    """Which scheduler a job was given to, where jobs are divided."""
    ends: list[Row] = field(default_factory=list)
    """Good ends that were reported, and failures that count, in order."""
    running: list[Key] = field(default_factory=list)
    attempts: dict[tuple[Name, str], int] = field(default_factory=dict)
    sequence: int = 0
    ended: set[Name] = field(default_factory=set)
    reported: set[tuple[Name, str]] = field(default_factory=set)
    left_out: set[tuple[Name, str]] = field(default_factory=set)
    """Tasks that were dropped or skipped."""
    drivers: int = 1
    is_closed: bool = False
    """Whether the former driver came to its end, whatever that was."""
    is_ok: bool = False


class _Reader:
    """Reads a history row by row."""

    def __init__(self) -> None:
        self.past = Past()
        self._open: dict[Key, str] = {}  # what runs, and where
        self._decided: set[Key] = set()
        self._ends: dict[tuple[Name, str], Row] = {}  # latest good end of each task

    def read(self, rows: list[Row]) -> Past:
        """Sum up all rows."""
        for row in rows:
            self.past.elapsed = max(self.past.elapsed, float(row["time"]))
            self.past.is_closed = row["event"] == "closed"
            self.past.is_ok = self.past.is_closed and bool(row.get("ok"))
            getattr(self, f"_{row['event']}", lambda row: None)(row)
        self.past.running = list(self._open)
        return self.past

    def _arrived(self, row: Row) -> None:
        self.past.arrived[row["job"]] = float(row["time"])
        if "scheduler" in row:
            self.past.parts[row["job"]] = row["scheduler"]

    def _submitted(self, row: Row) -> None:
        self.past.attempts[row["job"], row["task"]] = int(row["attempt"])
        self.past.sequence = max(self.past.sequence, int(row["sequence"]))
        if not row["ahead"]:
            self._decided.add(_key(row))

    def _started(self, row: Row) -> None:
        self._open[_key(row)] = row["device"]

    def _finished(self, row: Row) -> None:
        self._open.pop(_key(row), None)
        self._ends[row["job"], row["task"]] = row

    def _failed(self, row: Row) -> None:
        """One that never ran counts where it was decided, and nothing that it needs was gone."""
        has_run = self._open.pop(_key(row), None) is not None
        note = row.get("note", "")
        is_its_own = not note.startswith(LOST_RESULT) and note != CANCELLED
        is_new = (row["job"], row["task"]) not in self.past.reported
        if is_its_own and is_new and (has_run or _key(row) in self._decided):
            self.past.ends.append(row)

    def _reported(self, row: Row) -> None:
        key = (row["job"], row["task"])
        self.past.reported.add(key)
        self.past.ends.append(self._ends[key])

    def _lost(self, row: Row) -> None:
        self._open = {key: device for key, device in self._open.items() if device != row["device"]}

    def _dropped(self, row: Row) -> None:
        self.past.left_out.add((row["job"], row["task"]))

    _skipped = _dropped

    def _ended(self, row: Row) -> None:
        self.past.ended.add(row["job"])

    def _resumed(self, row: Row) -> None:
        self.past.drivers, self._open = int(row["driver"]), {}


def _key(row: Row) -> Key:
    return row["job"], row["task"], int(row["attempt"])


def read_past(rows: list[Row]) -> Past:
    """Sum up a history."""
    return _Reader().read(rows)


def go_on(drive: Drive, past: Past, feed: Feed) -> None:
    """Bring a new driver to where the former one was."""
    told = drive.told
    if isinstance(told.session, SplitSession):
        for job, name in past.parts.items():
            told.session.division.fix(job, name)
    coming = [arrival for arrival in feed.take_named(past.arrived) if arrival.job not in past.ended]
    moments: list[tuple[float, int, Any]] = [(past.arrived[one.job], 0, one) for one in coming]
    moments += [(float(row["time"]), 1, row) for row in past.ends if row["job"] not in past.ended]
    for time, is_end, what in sorted(moments, key=lambda one: one[:2]):
        if is_end:
            _tell(drive, what, time)
        else:
            told.arrived(what, time)
    if feed.is_empty:
        told.no_more(past.elapsed)
    told.left_out |= past.left_out
    for (job, task), attempts in past.attempts.items():
        drive.ledger.count_attempts(job, task, attempts)
    drive.ledger.count_orders(past.sequence)
    drive.ledger.missing |= past.reported
    drive.history.add(
        "resumed", past.elapsed, driver=past.drivers + 1, lost=[list(key) for key in past.running]
    )


def _tell(drive: Drive, row: Row, time: float) -> None:
    """Tell how an attempt ended; it holds its device for no time, so that no other is in its way."""
    order = Order(row["job"], row["task"], row["device"], int(row["attempt"]), 0)
    drive.told.adopted(order, time)
    if row["event"] == FAILED:
        drive.told.failed(order, time)
        return
    branch = row.get("branch")
    event = Event(FINISHED, time, order.device, branch=None if branch is None else tuple(branch))
    drive.told.finished(order, event)
