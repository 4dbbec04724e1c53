"""Going on with a run whose driver died: a session is told what the history says, and the rest is carried out.

Devices are as they are now: what went and came before is of no interest. What ran when the driver died is lost with
it, and is tried again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from weft.execute.drive import Drive
from weft.execute.engine import FAILED, FINISHED, STARTED, Event, Order
from weft.execute.feed import Feed
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
    events: list[Row] = field(default_factory=list)
    """Starts and ends of attempts that ended, in order."""
    running: list[tuple[Name, str, int]] = field(default_factory=list)
    attempts: dict[tuple[Name, str], int] = field(default_factory=dict)
    sequence: int = 0
    ended: set[Name] = field(default_factory=set)
    reported: set[tuple[Name, str]] = field(default_factory=set)
    drivers: int = 1
    is_closed: bool = False


def read_past(rows: list[Row]) -> Past:
    """Sum up a history."""
    past = Past()
    open_: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        past.elapsed = max(past.elapsed, float(row["time"]))
        event = row["event"]
        if event == "arrived":
            past.arrived[row["job"]] = float(row["time"])
            past.parts |= {row["job"]: row["scheduler"]} if "scheduler" in row else {}
        elif event == "submitted":
            past.attempts[row["job"], row["task"]] = int(row["attempt"])
            past.sequence = max(past.sequence, int(row["sequence"]))
        elif event == STARTED:
            open_[row["job"], row["task"], row["attempt"]] = row
        elif event in (FINISHED, FAILED):
            began = open_.pop((row["job"], row["task"], row["attempt"]), None)
            past.events += [row] if began is None else [began, row]
        elif event == "reported":
            past.reported.add((row["job"], row["task"]))
        elif event == "lost":
            open_ = {key: one for key, one in open_.items() if one["device"] != row["device"]}
        elif event == "ended":
            past.ended.add(row["job"])
        elif event == "resumed":
            past.drivers, open_ = int(row["driver"]), {}
        past.is_closed = event == "closed" and bool(row.get("ok"))
    past.running = [key for key in open_ if (key[0], key[1]) not in past.reported]
    return past


def go_on(drive: Drive, past: Past, feed: Feed) -> None:
    """Bring a new driver to where the former one was."""
    told = drive.told
    if isinstance(told.session, SplitSession):
        for job, name in past.parts.items():
            told.session.division.fix(job, name)
    moments: list[tuple[float, int, Any]] = []
    for arrival in feed.take_named(past.arrived):
        if arrival.job not in past.ended:
            moments.append((past.arrived[arrival.job], 0, arrival))
    for row in past.events:
        if row["job"] not in past.ended and row["job"] in past.arrived:
            moments.append((float(row["time"]), 1, row))
    for time, is_event, what in sorted(moments, key=lambda one: one[:2]):
        if not is_event:
            told.arrived(what, time)
        else:
            _tell(drive, what, time, past)
    for (job, task), attempts in past.attempts.items():
        drive.ledger.count_attempts(job, task, attempts)
    drive.ledger.count_orders(past.sequence)
    drive.ledger.missing |= past.reported
    drive.history.add(
        "resumed", past.elapsed, driver=past.drivers + 1, lost=[list(key) for key in past.running]
    )


def _tell(drive: Drive, row: Row, time: float, past: Past) -> None:
    """Tell one start or end; of tasks that were reported, only the attempt that was."""
    told, name = drive.told, row["event"]
    order = Order(row["job"], row["task"], row["device"], int(row["attempt"]), 0)
    if told.is_done(order.job, order.task):
        return  # made again for its result
    if name == STARTED:
        told.adopted(order, time)
    elif name == FINISHED and (order.job, order.task) in past.reported:
        branch = row.get("branch")
        event = Event(FINISHED, time, order.device, branch=None if branch is None else tuple(branch))
        told.finished(order, event)
    elif name == FAILED:
        told.failed(order, time)
