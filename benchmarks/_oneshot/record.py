"""Measured rows as JSON lines: an interrupted run goes on, and only what changed is measured again."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from weft.errors import InputError
from weft.io.sources import decode, read_bytes, write_bytes

TYPES: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float)}


@dataclass(frozen=True)
class Key:
    """What decides a row; another net, another kernel or another problem is another row."""

    suite: str
    instance: str
    problem: str
    """Fingerprint of the problem."""
    scheduler: str
    effort: int
    """Schedules or moves it may look at; 0: it does not search."""
    weights: str
    """Hash of the net and of how it is used; empty for a rule."""
    code: str
    """Hash of the kernels and of all else that plans."""


@dataclass(frozen=True)
class Measured:
    """One plan; every one was validated."""

    makespan: float
    bound: float
    """No schedule can be shorter."""
    work: float
    """Sum of the run times of all tasks, each on its fastest device."""
    cpu: float
    """Processor seconds of planning."""
    peak_gib: float
    """Peak memory of the process so far."""

    @property
    def gap_percent(self) -> float:
        """Percentage above the bound."""
        return 100.0 * (self.makespan / self.bound - 1.0)

    @property
    def speedup(self) -> float:
        """Sum of run times over makespan."""
        return self.work / self.makespan


class Record:
    """Rows by key, in a file if one is named; a line cut off at the end is dropped."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.rows: dict[Key, Measured] = {}
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        whole, _, cut_off = decode(read_bytes(path), path).rpartition("\n")
        for number, line in enumerate(whole.splitlines(), 1):
            key, found = _row(line, str(path), number)
            self.rows[key] = found
        if cut_off:
            write_bytes(f"{whole}\n".encode() if whole else b"", path)

    def add(self, key: Key, found: Measured) -> None:
        """Keep a row, and write it."""
        self.rows[key] = found
        if self.path is None:
            return
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(key) | asdict(found), allow_nan=False) + "\n")
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", file=str(self.path)) from None


def _row(line: str, file: str, number: int) -> tuple[Key, Measured]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    types = {field.name: TYPES[str(field.type)] for field in (*fields(Key), *fields(Measured))}
    if not isinstance(row, dict) or list(row) != list(types):
        raise InputError(f"expected a row with {', '.join(types)}, got {line[:40]!r}", file=file, line=number)
    for name, known in types.items():
        if type(row[name]) not in known or (type(row[name]) is float and not math.isfinite(row[name])):
            raise InputError(
                f"expected {known[-1].__name__}, got {row[name]!r}", file=file, field=name, line=number
            )
    key = {field.name: row.pop(field.name) for field in fields(Key)}
    return Key(**key), Measured(**row)
