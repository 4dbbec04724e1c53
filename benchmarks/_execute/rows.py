"""Measurements, one JSON object a line, so that a benchmark that was stopped goes on where it was."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Say = Callable[[str], None]


class Rows:
    """What was measured, under keys; kept in a file where one is given."""

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._rows: dict[str, Row] = {}
        if self._path is not None:
            self.read(self._path)

    def read(self, path: str | Path) -> None:
        """Take over what a file says by now."""
        if Path(path).exists():
            for line in Path(path).read_text("utf-8").splitlines():
                if line.endswith("}"):  # else it was cut off
                    row = json.loads(line)
                    self._rows[row["key"]] = row

    def of(self, key: Mapping[str, Any], measure: Callable[[], Row], say: Say = print) -> Row:
        """The row of a key, measured now unless it is known."""
        name = ", ".join(f"{field} {value}" for field, value in key.items())
        if name not in self._rows:
            row = {
                "key": name,
                **key,
                **measure(),
                "load": round(os.getloadavg()[0], 1),
                "at": round(time.time()),
            }
            self._rows[name] = row
            self._add(row)
            say(f"  {line_of(row)}")
        return self._rows[name]

    def _add(self, row: Row) -> None:
        """Write a line at the end, whoever else does; what was cut off before stays a line of its own."""
        if self._path is None:
            return
        with self._path.open("ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0, os.SEEK_END)
            if file.tell():
                file.seek(-1, os.SEEK_END)
            is_whole = file.read(1) in (b"", b"\n")
            file.write(b"" if is_whole else b"\n")
            file.write(json.dumps(row).encode() + b"\n")

    def has(self, key: Mapping[str, Any]) -> bool:
        """Whether a key is measured."""
        return ", ".join(f"{field} {value}" for field, value in key.items()) in self._rows


def line_of(row: Row) -> str:
    """A row for a terminal."""
    figures = [f"{name} {_short(value)}" for name, value in row.items() if name not in ("key", "at")]
    return ", ".join(figures)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def turns(ways: Sequence[str], runs: int | Iterable[int]) -> Iterator[tuple[int, str]]:
    """Every way once a run, in an order that turns from run to run; given are how many runs, or which."""
    for run in range(runs) if isinstance(runs, int) else runs:
        for i in range(len(ways)):
            yield run, ways[(run + i) % len(ways)]
