"""The rows of a history put together: attempts, what was planned first, which jobs came and went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from weft.evaluation.executed.records import (
    CANCELLED,
    FAILED,
    FINISHED,
    LOST,
    OPEN,
    Attempt,
    JobRun,
    Key,
    Name,
    Placed,
)

Row = Mapping[str, Any]
_ENDS = {"finished": FINISHED, "failed": FAILED, "cancelled": CANCELLED}


@dataclass
class Story:
    """All that a history says, by what it is about."""

    head: Row
    attempts: list[Attempt] = field(default_factory=list)
    """By submission."""
    jobs: dict[Name, JobRun] = field(default_factory=dict)
    kinds: dict[Key, str] = field(default_factory=dict)
    """Of every task that arrived, in order."""
    parents: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    planned: dict[Key, Placed] = field(default_factory=dict)
    """The first plan of every task."""
    plans: dict[str, int] = field(default_factory=dict)
    """How often plans were made, by reason."""
    reported: dict[Key, int] = field(default_factory=dict)
    """Task -> the attempt that was reported."""
    settled: dict[Key, str] = field(default_factory=dict)
    """Task -> ``dropped`` or ``skipped``."""
    away: dict[str, list[list[float]]] = field(default_factory=dict)
    """Device -> from when to when it was lost."""
    factors: dict[str, float] = field(default_factory=dict)
    """Device -> how much slower it was found to be."""
    waited: list[float] = field(default_factory=list)
    shadows: list[tuple[float, Row]] = field(default_factory=list)
    is_ok: bool | None = None
    """How the run was closed; None: it was not."""
    reason: str = ""
    drivers: int = 1
    last: float = 0.0
    """Time of the last row."""
    _open: dict[Key, int] = field(default_factory=dict)
    """Task -> its attempt that has not ended."""

    @property
    def begin(self) -> float:
        """When the first job arrived."""
        return min((job.arrived for job in self.jobs.values()), default=0.0)

    @cached_property
    def orders(self) -> dict[Key, list[Attempt]]:
        """Attempts at every task, once all rows are read."""
        found: dict[Key, list[Attempt]] = {}
        for one in self.attempts:
            found.setdefault(one.key, []).append(one)
        return found

    def close(self, key: Key, outcome: str, time: float, place: int, note: str = "") -> None:
        """The open attempt at a task has ended."""
        index = self._open.pop(key, None)
        if index is not None:
            self.attempts[index] = replace(
                self.attempts[index], outcome=outcome, ended=time, ended_at=place, note=note
            )

    def take(self, place: int, row: Row) -> None:
        """Read one row."""
        event, time = row["event"], float(row["time"])
        self.last = max(self.last, time)
        if event in _ENDS:
            self._end(place, row)
        elif event in _READERS:
            _READERS[event](self, place, row)

    def stop(self, place: int) -> None:
        """No more rows: what is open stays so."""
        for key in list(self._open):
            self.close(key, OPEN, self.last, place)

    def _end(self, place: int, row: Row) -> None:
        key = (row["job"], row["task"])
        index = self._open.get(key)
        if index is not None and self.attempts[index].number == row["attempt"]:
            self.close(key, _ENDS[row["event"]], _moment(row), place, str(row.get("note") or ""))

    def arrived(self, place: int, row: Row) -> None:
        """A job has come."""
        job, names = row["job"], row["tasks"]
        kinds = row.get("kinds") or []
        kinds = kinds if len(kinds) == len(names) else [""] * len(names)
        scheduler = str(row.get("scheduler") or "")
        self.jobs[job] = JobRun(
            job, len(names), float(row["time"]), None, OPEN, "", scheduler, row.get("deadline")
        )
        parents: dict[str, list[str]] = {name: [] for name in names}
        for source, target in row["edges"]:
            parents[target].append(source)
        for name, kind in zip(names, kinds, strict=True):
            self.kinds[job, name] = kind
            self.parents[job, name] = tuple(parents[name])

    def plan(self, place: int, row: Row) -> None:
        """A plan was made; of every task the first one counts, if it was made when its job arrived."""
        self.plans[row["reason"]] = self.plans.get(row["reason"], 0) + 1
        if row["reason"] == "arrival":
            for job, task, device, start, finish in row["rows"]:
                self.planned.setdefault((job, task), Placed(device, float(start), float(finish)))

    def submitted(self, place: int, row: Row) -> None:
        """An order was given; one for the same attempt elsewhere takes its place."""
        key, time = (row["job"], row["task"]), float(row["time"])
        self.close(key, CANCELLED, time, place)
        self._open[key] = len(self.attempts)
        batch = row.get("batch") or None
        self.attempts.append(Attempt(*key, row["attempt"], row["device"], time, batch=batch))

    def started(self, place: int, row: Row) -> None:
        """An order runs."""
        index = self._open.get((row["job"], row["task"]))
        if index is not None and self.attempts[index].number == row["attempt"]:
            self.attempts[index] = replace(
                self.attempts[index], started=_moment(row), started_at=place, device=row["device"]
            )

    def report(self, place: int, row: Row) -> None:
        """A task has ended well."""
        self.reported.setdefault((row["job"], row["task"]), row["attempt"])

    def settle(self, place: int, row: Row) -> None:
        """A task will not run."""
        self.settled[row["job"], row["task"]] = row["event"]

    def lost(self, place: int, row: Row) -> None:
        """A device is gone."""
        time = float(row["time"])
        self.away.setdefault(row["device"], []).append([time, float("inf")])
        for key, index in list(self._open.items()):
            if self.attempts[index].device == row["device"]:
                self.close(key, LOST, time, place, str(row.get("note") or "its worker was lost"))

    def joined(self, place: int, row: Row) -> None:
        """A device is back."""
        for span in self.away.get(row["device"], [])[-1:]:
            span[1] = min(span[1], float(row["time"]))

    def resumed(self, place: int, row: Row) -> None:
        """Another driver has taken over; what ran is lost, and devices are there unless they are said not to be."""
        time = float(row["time"])
        self.drivers += 1
        self.is_ok = None
        for key in list(self._open):
            self.close(key, LOST, time, place, "its driver was stopped")
        for spans in self.away.values():
            spans[-1][1] = min(spans[-1][1], time)

    def ended(self, place: int, row: Row) -> None:
        """A job is over."""
        job = self.jobs.get(row["job"])
        if job is not None:
            scheduler = str(row.get("scheduler") or job.scheduler)
            self.jobs[row["job"]] = replace(
                job,
                ended=float(row["time"]),
                outcome=row["outcome"],
                reason=str(row.get("reason") or ""),
                scheduler=scheduler,
            )

    def closed(self, place: int, row: Row) -> None:
        """The run is over."""
        self.is_ok, self.reason = bool(row["ok"]), str(row.get("reason") or "")

    def speed(self, place: int, row: Row) -> None:
        """A device was found to be slower, or faster."""
        self.factors[row["device"]] = float(row["factor"])

    def wait(self, place: int, row: Row) -> None:
        """The scheduler chose to start nothing."""
        self.waited.append(float(row["time"]))

    def shadow(self, place: int, row: Row) -> None:
        """Another scheduler said what it would start."""
        self.shadows.append((float(row["time"]), row))


_READERS = {
    "arrived": Story.arrived,
    "planned": Story.plan,
    "submitted": Story.submitted,
    "started": Story.started,
    "reported": Story.report,
    "dropped": Story.settle,
    "skipped": Story.settle,
    "lost": Story.lost,
    "joined": Story.joined,
    "resumed": Story.resumed,
    "ended": Story.ended,
    "closed": Story.closed,
    "speed": Story.speed,
    "waited": Story.wait,
    "shadow": Story.shadow,
}


def story_of(rows: Sequence[Row]) -> Story:
    """All that the rows of a history say."""
    story = Story(rows[0])
    for place, row in enumerate(rows):
        story.take(place, row)
    story.stop(len(rows))
    return story


def _moment(row: Row) -> float:
    """When something happened, where it was heard of later."""
    return float(row.get("at", row["time"]))
