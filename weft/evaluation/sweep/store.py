"""Where the rows of a sweep are kept: one SQLite file, one writing process, safe against kill -9.

A sweep folder holds ``sweep.sqlite`` (rows, timings, and what was asked for), ``config.json`` (the
same configuration, to read) and ``lock``. Timings differ between runs and live in their own table.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.evaluation.sweep.changed import changes_of_sweep
from weft.io.folders import claim, locked
from weft.io.sources import write_bytes
from weft.kinds import PROBLEMS, QUEUES

_LOG = logging.getLogger(__name__)

DATABASE, CONFIG = "sweep.sqlite", "config.json"

Key = tuple[str, str, int, str]
"""Cell, problem, seed, scheduler."""
Config = Mapping[str, object]

_KEY = ("cell", "problem", "seed", "scheduler")


Number = float | None
"""A figure; None: this row has none."""


@dataclass(frozen=True)
class Row:
    """One scheduler on one problem with one seed; nothing here depends on the clock."""

    scenario: str
    cell: str
    """Which cell of the sweep, e.g. ``ccr=0.1``; empty where nothing is swept."""
    problem: str
    seed: int
    scheduler: str
    metrics: Mapping[str, Number]
    """What is summed up, by name; in the order in which it is shown."""
    valid: bool | None
    """What the oracle says; None: it was not asked."""
    fault: str | None
    """The first rule that is broken."""
    trace: str
    """SHA-256 over the columns of the schedule, in a stream over the times of the jobs."""
    more: Mapping[str, Number] = field(default_factory=dict)
    """Further figures, which are not summed up."""
    devices: str | None = None
    """Utilisation and batch fill of every device of a stream, as JSON."""

    @property
    def key(self) -> Key:
        """What identifies the row within its sweep."""
        return self.cell, self.problem, self.seed, self.scheduler

    def __getitem__(self, metric: str) -> float:
        """A figure by name; NaN where this row has none."""
        value = self.metrics[metric] if metric in self.metrics else self.more.get(metric)
        return math.nan if value is None else value

    @property
    def columns(self) -> dict[str, object]:
        """All values by name, every figure a column; those of other kinds of runs are None."""
        own = {name: getattr(self, name) for name in (*_HEAD, *_TAIL)}
        return {**dict.fromkeys(_COLUMNS), **own, **self.metrics, **self.more}

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return self.columns | {"devices": json.loads(self.devices or "null")}


@dataclass(frozen=True)
class Measured:
    """A row and the seconds its scheduler took."""

    row: Row
    seconds: float
    fallbacks: int = 0
    """Decisions beyond a policy's training, which a rule made."""


_FALLBACKS = "fallbacks of "
_BASELINE = "baseline"
_HEAD = ("scenario", "cell", "problem", "seed", "scheduler")
_TAIL = ("valid", "fault", "trace", "devices")
_FIGURES = ("makespan", "slr", "speedup", "utilisation", "mean_jct", "gap_percent", "lower_bound", "copies")
_COLUMNS = (*_HEAD, *_FIGURES, *_TAIL[:-1], "p99_jct", "batch_fill", "expired", "devices")
"""Columns of the first stores, whose order hashes of rows keep."""
_SCHEMA = f"""
BEGIN;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE rows (
    scenario TEXT NOT NULL, cell TEXT, problem TEXT, seed INTEGER, scheduler TEXT,
    metrics TEXT NOT NULL, more TEXT NOT NULL, valid INTEGER, fault TEXT, trace TEXT NOT NULL, devices TEXT,
    PRIMARY KEY ({", ".join(_KEY)})
) WITHOUT ROWID;
CREATE TABLE timings (
    cell TEXT, problem TEXT, seed INTEGER, scheduler TEXT, seconds REAL NOT NULL,
    PRIMARY KEY ({", ".join(_KEY)})
) WITHOUT ROWID;
"""


class Store:
    """The rows of one sweep; made by :func:`open_sweep` or :func:`read_sweep`."""

    def __init__(self, connection: sqlite3.Connection, config: Config) -> None:
        self._connection = connection
        self.config = config

    def add(self, measured: Sequence[Measured]) -> None:
        """Keep rows and timings: all of them, or none if the process dies meanwhile."""
        rows = [_values(one.row) for one in measured]
        timings = [(*one.row.key, one.seconds) for one in measured]
        notes = [
            (_FALLBACKS + json.dumps(one.row.key), str(one.fallbacks)) for one in measured if one.fallbacks
        ]
        with self._connection:
            self._connection.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * len(rows[0]))})", rows)
            self._connection.executemany("INSERT INTO timings VALUES (?, ?, ?, ?, ?)", timings)
            self._connection.executemany("INSERT INTO meta VALUES (?, ?)", notes)

    def keys(self) -> frozenset[Key]:
        """Keys of the rows that are there; for asking, not for going through."""
        return frozenset(self._connection.execute(f"SELECT {', '.join(_KEY)} FROM rows"))

    def rows(self) -> list[Row]:
        """All rows, by key."""
        found = self._connection.execute(f"SELECT * FROM rows ORDER BY {', '.join(_KEY)}")
        names = [column[0] for column in found.description]
        return [_row(dict(zip(names, values, strict=True))) for values in found]

    def seconds(self) -> dict[Key, float]:
        """Planning time of every row."""
        found = self._connection.execute(f"SELECT {', '.join(_KEY)}, seconds FROM timings")
        return {(cell, problem, seed, name): seconds for cell, problem, seed, name, seconds in found}

    def fallbacks(self) -> dict[Key, int]:
        """Decisions that a rule made for a policy, of the rows that have any."""
        found = self._connection.execute(
            "SELECT key, value FROM meta WHERE key LIKE ? ORDER BY key", (f"{_FALLBACKS}%",)
        )
        keyed = [(json.loads(key.removeprefix(_FALLBACKS)), int(number)) for key, number in found]
        return {(cell, problem, seed, name): number for (cell, problem, seed, name), number in keyed}

    @property
    def baseline(self) -> str | None:
        """Whom the others were last compared with; None in a store that does not say."""
        found = self._connection.execute("SELECT value FROM meta WHERE key = ?", (_BASELINE,)).fetchone()
        return str(found[0]) if found else None

    def keep_baseline(self, name: str) -> None:
        """Remember whom the others are compared with; it decides no row, so another may follow."""
        with self._connection:
            self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_BASELINE, name))

    def rows_hash(self) -> str:
        """SHA-256 of all rows in the order of their keys: equal sweeps have equal hashes."""
        digest = hashlib.sha256()
        for row in self.rows():
            digest.update(repr(tuple(row.columns.values())).encode())
        return digest.hexdigest()


def _values(row: Row) -> tuple[object, ...]:
    """A row as the table has it, figures as JSON, whose numbers come back to the last bit."""
    figures = (json.dumps(dict(one)) for one in (row.metrics, row.more))
    return (row.scenario, *row.key, *figures, row.valid, row.fault, row.trace, row.devices)


def _row(named: dict[str, Any]) -> Row:
    """A row of the table; the first stores had a column for every figure."""
    valid = None if named["valid"] is None else bool(named["valid"])
    head = {name: named[name] for name in (*_HEAD, "fault", "trace", "devices")}
    if "metrics" in named:
        return Row(**head, valid=valid, metrics=_figures(named, "metrics"), more=_figures(named, "more"))
    summed = (PROBLEMS if named["p99_jct"] is None else QUEUES).metrics
    more = {name: named[name] for name in _FIGURES if name not in summed and named[name] is not None}
    return Row(**head, valid=valid, metrics={name: named[name] for name in summed}, more=more)


def _figures(named: dict[str, Any], column: str) -> dict[str, Number]:
    """Figures by name; an error says whose are not numbers."""
    try:
        found = json.loads(named[column])
    except (TypeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(one, int | float | None) for one in found.values()):
        field = f"{named['problem']}, {named['scheduler']}: {column}"
        raise InputError("expected a table of numbers", field=field)
    return found


@contextmanager
def open_sweep(folder: str | Path | None, config: Config) -> Iterator[Store]:
    """The store of a sweep, new or resumed, held by this process alone; None keeps it in memory.

    A folder that holds a sweep of another configuration is refused.
    """
    if folder is None:
        with _connected(":memory:") as connection:
            yield _prepared(connection, config, None)
        return
    path = claim(folder, "sweep", DATABASE)
    with locked(path, "running this sweep"), _connected(str(path / DATABASE)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        store = _prepared(connection, config, path)
        if not (path / CONFIG).exists():
            write_bytes(f"{json.dumps(config, indent=2)}\n".encode(), path / CONFIG)
        _LOG.info("%s: a sweep with %d rows so far", path, len(store.keys()))
        yield store


@contextmanager
def read_sweep(folder: str | Path) -> Iterator[Store]:
    """The store of a sweep to read from, even while it is being written."""
    path = Path(folder) / DATABASE
    if not path.is_file():
        raise InputError(f"expected a sweep folder with {DATABASE}", file=str(folder))
    with _connected(str(path)) as connection:
        config = _stored_config(connection, path)
        if config is None:
            raise InputError("the sweep has not begun", file=str(folder))
        yield Store(connection, config)


@contextmanager
def _connected(name: str) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(name)
    try:
        yield connection
    except sqlite3.OperationalError as error:
        raise InputError(f"cannot be read or written: {error}; rows kept so far stay", file=name) from None
    except sqlite3.DatabaseError as error:
        raise InputError(f"cannot be used as a sweep: {error}", file=name) from None
    finally:
        connection.close()


def _prepared(connection: sqlite3.Connection, config: Config, path: Path | None) -> Store:
    """Tables made, or found to belong to the same configuration."""
    text = json.dumps(config, sort_keys=True)
    stored = _stored_config(connection, path and path / DATABASE)
    if stored is None:
        connection.executescript(_SCHEMA)
        connection.execute("INSERT INTO meta VALUES ('config', ?)", (text,))
        connection.execute("INSERT INTO meta VALUES ('config_hash', ?)", (config_hash(config),))
        connection.commit()
    elif "metrics" not in _columns(connection):
        raise InputError(
            "holds a sweep of a former weft: report on it, or choose another folder", file=str(path)
        )
    elif json.dumps(stored, sort_keys=True) != text:
        difference = "; ".join(changes_of_sweep(stored, json.loads(text))[:3])
        raise InputError(
            f"holds another sweep ({difference}): ask for the same, or choose another folder",
            file=str(path),
        )
    return Store(connection, config)


def _columns(connection: sqlite3.Connection) -> list[str]:
    return [str(column[1]) for column in connection.execute("PRAGMA table_info(rows)")]


def _stored_config(connection: sqlite3.Connection, path: Path | None) -> dict[str, object] | None:
    tables = connection.execute("SELECT name FROM sqlite_master WHERE name = 'meta'").fetchall()
    found = tables and connection.execute("SELECT value FROM meta WHERE key = 'config'").fetchone()
    return _parsed_config(found[0], str(path)) if found else None


def _parsed_config(text: object, file: str) -> dict[str, object]:
    """The configuration that a sweep keeps as text."""
    try:
        config = json.loads(str(text))
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise InputError("expected the configuration of a sweep as JSON", file=file, field="config")
    return config


def config_hash(config: Config) -> str:
    """SHA-256 of a configuration, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()
