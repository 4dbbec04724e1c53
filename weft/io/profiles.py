"""What runs took: observed run times and result sizes per kind of task and class of device, in a file of the user's.

The file is written only where a run asks for it. Writers take turns: each adds what it saw to what is there.
All times are in seconds, without overhead; ``weft.io.profiled`` puts them into problems.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from weft.errors import InputError, LockedError
from weft.io.json_files import parse_json
from weft.io.sources import located, read_bytes, write_bytes, writing

SCHEMA = "weft/profile/1"
PATH_VARIABLE = "WEFT_PROFILE"
DECAY = 0.1
"""Weight of the newest value in a decayed mean, once there are ten."""
MOST_TASKS = 50_000
"""So many single tasks are remembered; beyond, those that were seen first are forgotten."""
PATIENCE = 30.0
"""Seconds to wait for another process that writes."""


@dataclass(frozen=True)
class Series:
    """Values seen one after another, summed up."""

    count: int
    mean: float
    m2: float
    """Sum of squared distances from the mean."""
    least: float
    most: float
    recent: float
    """Decayed mean: the plain one of the first ten, then each new value counts a tenth."""

    @classmethod
    def of(cls, value: float) -> Series:
        """A first value."""
        return cls(1, value, 0.0, value, value, value)

    def then(self, value: float) -> Series:
        """One value more (Welford's update)."""
        count, off = self.count + 1, value - self.mean
        mean = self.mean + off / count
        return Series(
            count,
            mean,
            self.m2 + off * (value - mean),
            min(self.least, value),
            max(self.most, value),
            self.recent + max(1.0 / count, DECAY) * (value - self.recent),
        )

    @property
    def variation(self) -> float:
        """Standard deviation over the mean; 0 for a single value."""
        if self.count < 2 or not self.mean > 0:
            return 0.0
        return math.sqrt(max(0.0, self.m2) / (self.count - 1)) / self.mean


@dataclass(frozen=True)
class Observed:
    """What is known about one kind of task, or one task, on one class of device."""

    seconds: Series
    pace: Series | None = None
    """Run time over work, where the work was known: the inverse of the speed."""
    size: Series | None = None
    """Bytes of the result."""

    @property
    def count(self) -> int:
        """How many runs were seen."""
        return self.seconds.count


class Seen(NamedTuple):
    """One run of a task."""

    kind: str
    class_name: str
    seconds: float
    size: float | None = None
    work: float | None = None
    graph: str = ""
    task: str = ""


def default_path() -> Path:
    """``$WEFT_PROFILE``, else ``weft/profile.json`` in the user's folder for data."""
    given = os.environ.get(PATH_VARIABLE)
    if given:
        return Path(given).expanduser()
    data = os.environ.get("XDG_DATA_HOME", "")
    home = Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share"
    return home / "weft" / "profile.json"


class Profile:
    """Observed run times per (kind, class), and per (graph, task, class) where graphs recur."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = default_path() if path is None else Path(path)
        self._kinds: dict[tuple[str, str], Observed] = {}
        self._tasks: dict[str, dict[tuple[str, str], Observed]] = {}
        self._new: list[Seen] = []

    @classmethod
    def read(cls, path: str | Path | None = None) -> Profile:
        """The profile of a file, by default the user's; an empty one where there is no file."""
        profile = cls(path)
        profile.refresh()
        return profile

    def refresh(self) -> None:
        """Read the file again; what was added here and is not written yet comes on top."""
        self._kinds, self._tasks = {}, {}
        if self.path.exists():
            with located(self.path):
                self._fill(parse_json(read_bytes(self.path), self.path))
        for seen in self._new:
            self._count(seen)

    def __len__(self) -> int:
        return len(self._kinds)

    def time(self, kind: str, class_name: str) -> Observed | None:
        """What is known about a kind on a class."""
        return self._kinds.get((kind, class_name))

    def tasks_of(self, graph: str) -> Mapping[tuple[str, str], Observed]:
        """What is known about single tasks of graphs of this name: (task, class) -> observed."""
        return self._tasks.get(graph, {})

    def add(
        self,
        kind: str,
        class_name: str,
        seconds: float,
        size: float | None = None,
        *,
        work: float | None = None,
        graph: str = "",
        task: str = "",
    ) -> None:
        """Note one run of a task.

        Parameters
        ----------
        seconds
            What the task itself took on the device, without the gap before it.
        size
            Bytes of its result.
        work
            Its work in seconds at speed 1, where the graph gives one.
        graph, task
            Names, where the same graph runs again and again.
        """
        seen = Seen(kind, class_name, float(seconds), size, work, graph, task)
        for name, value in (("seconds", seconds), ("size", size), ("work", work)):
            if value is not None and not 0 <= value < math.inf:
                raise InputError(f"expected a finite number >= 0, got {value}", field=name)
        self._count(seen)
        self._new.append(seen)

    def write(self) -> None:
        """Add what is new to the file; what others wrote in the meantime is kept."""
        if not self._new:
            return
        with _turn(self.path):
            self.refresh()
            text = json.dumps(self._document(), allow_nan=False, indent=1)
            write_bytes(f"{text}\n".encode(), self.path)
        self._new = []

    def _count(self, seen: Seen) -> None:
        key = (seen.kind, seen.class_name)
        self._kinds[key] = _updated(self._kinds.get(key), seen)
        if seen.graph and seen.task:
            known = self._tasks.setdefault(seen.graph, {})
            place = (seen.task, seen.class_name)
            known[place] = _updated(known.get(place), seen)

    def _document(self) -> dict[str, Any]:
        kinds = [
            {"kind": kind, "class": class_name, **_row(observed)}
            for (kind, class_name), observed in sorted(self._kinds.items())
        ]
        tasks = [
            {"graph": graph, "task": task, "class": class_name, **_row(observed)}
            for graph, known in self._tasks.items()
            for (task, class_name), observed in known.items()
        ]
        return {"schema": SCHEMA, "kinds": kinds, "tasks": tasks[-MOST_TASKS:]}

    def _fill(self, document: dict[str, Any]) -> None:
        from weft.io.headers import ProfilePart, checked

        part = checked(ProfilePart, document)
        if part.schema_name != SCHEMA:
            raise InputError(f"expected {SCHEMA!r}, got {part.schema_name!r:.60}", field="schema")
        for row in part.kinds:
            self._kinds[row.kind, row.class_name] = _observed(row.model_dump())
        for one in part.tasks:
            known = self._tasks.setdefault(one.graph, {})
            known[one.task, one.class_name] = _observed(one.model_dump())


def _updated(known: Observed | None, seen: Seen) -> Observed:
    pace = seen.seconds / seen.work if seen.work else None
    if known is None:
        return Observed(
            Series.of(seen.seconds),
            None if pace is None else Series.of(pace),
            None if seen.size is None else Series.of(float(seen.size)),
        )
    return replace(
        known,
        seconds=known.seconds.then(seen.seconds),
        pace=_longer(known.pace, pace),
        size=_longer(known.size, seen.size),
    )


def _longer(series: Series | None, value: float | None) -> Series | None:
    if value is None:
        return series
    return Series.of(float(value)) if series is None else series.then(float(value))


def _row(observed: Observed) -> dict[str, Any]:
    return {key: value for key, value in asdict(observed).items() if value is not None}


def _observed(row: Mapping[str, Any]) -> Observed:
    series = {key: row[key] and Series(**row[key]) for key in ("seconds", "pace", "size")}
    return Observed(**series)


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Hold the file against other writers; the lock of a process that died is free by itself."""
    import fcntl

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = open(f"{path}.lock", "a", encoding="utf-8")  # noqa: SIM115  closed below
    with lock:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > until:
                    raise LockedError("another process writes this profile", file=str(path)) from None
                time.sleep(0.02)
        yield
