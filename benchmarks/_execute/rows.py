"""Measurements, one JSON object a line, so that a benchmark that was stopped goes on where it was."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Say = Callable[[str], None]


class Rows:
    """What was measured, under keys; kept in a file where one is given."""

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._rows: dict[str, Row] = {}
        if self._path is not None and self._path.exists():
            for line in self._path.read_text("utf-8").splitlines():
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
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
            say(f"  {line_of(row)}")
        return self._rows[name]

    def has(self, key: Mapping[str, Any]) -> bool:
        """Whether a key is measured."""
        return ", ".join(f"{field} {value}" for field, value in key.items()) in self._rows


def line_of(row: Row) -> str:
    """A row for a terminal."""
    figures = [f"{name} {_short(value)}" for name, value in row.items() if name not in ("key", "at")]
    return ", ".join(figures)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def turns(ways: Sequence[str], runs: int) -> Iterator[tuple[int, str]]:
    """Every way once a run, in an order that turns from run to run."""
    for run in range(runs):
        for i in range(len(ways)):
            yield run, ways[(run + i) % len(ways)]
