"""Histories of runs: an append-only file of events, one JSON object a line, flushed line by line.

A process that is killed leaves at most a broken last line, which is cut off when the run goes on.
Times are in the problem's unit of time since the run began; those of a run that was resumed continue. They never go
back: what happened on a worker and was heard of later has the moment it happened in ``at``.
What each event holds is described in docs/run.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.errors import InputError

HISTORY = "history.jsonl"
SCHEMA = "weft/history/1"

ANSWERS = ("submitted", "started", "waited", "resumed")
"""Events that answer the question what to start; it is open again after all others but those of ``SILENT``."""
SILENT = ("planned", "shadow", "speed", "stray")

Row = dict[str, Any]


class History:
    """A history that is being written; rows are on their way to the disk when ``add`` returns.

    Without a path rows are kept in memory alone; without ``keeps``, nowhere.
    """

    def __init__(self, path: Path | None, *, keeps: bool = True) -> None:
        self.rows: list[Row] = []
        self._keeps = keeps
        self.has_answer = not keeps
        """Whether nothing has happened since something was started, or was said to wait."""
        self._file = None
        if path is not None:
            if path.exists():
                self.rows = read_history(path)
                _cut_broken_end(path)
            self._file = path.open("a", encoding="utf-8")

    def add(self, event: str, time: float, **fields: Any) -> None:
        """Write one event."""
        if not self._keeps:
            return
        known = self.rows[-1]["time"] if self.rows else 0.0
        row: Row = {"event": event, "time": max(round(time, 6), known)}
        if row["time"] > round(time, 6):
            row["at"] = round(time, 6)  # it happened before what is already written down
        row |= fields
        self.rows.append(row)
        self.has_answer = event in ANSWERS or (self.has_answer and event in SILENT)
        if self._file is not None:
            self._file.write(json.dumps(row, allow_nan=False, separators=(",", ":")) + "\n")
            self._file.flush()

    def close(self) -> None:
        """No more rows."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _cut_broken_end(path: Path) -> None:
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if end < len(content):
        with path.open("r+b") as file:
            file.truncate(end)


def is_history(path: str | Path) -> bool:
    """Whether this is the folder of a run that was carried out, or the history in it."""
    file = Path(path)
    return (file / HISTORY).is_file() if file.is_dir() else file.name == HISTORY and file.is_file()


def read_history(path: str | Path) -> list[Row]:
    """Rows of a history file, or of that of a run folder; a broken last line is left out."""
    file = Path(path)
    file = file / HISTORY if file.is_dir() else file
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise InputError(f"expected the history of a run: {reason}", file=str(file)) from None
    rows: list[Row] = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            row = json.loads(line)
        except ValueError:
            raise InputError("expected a JSON object", file=str(file), line=number) from None
        if not isinstance(row, Mapping) or not isinstance(row.get("event"), str):
            raise InputError("expected a JSON object with an event", file=str(file), line=number)
        rows.append(dict(row))
    if not rows or rows[0].get("schema") != SCHEMA:
        raise InputError(f"expected {SCHEMA!r} in its first line", file=str(file), line=1, field="schema")
    return rows
