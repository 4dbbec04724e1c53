"""Measured speeds of elastic tasks: a CSV with one row per task type, units and, where losses were kept, epoch.

The columns are ``task``, one per resource (``cpu``, ``gpu``, ...), perhaps ``memory``, ``seconds`` and, if there are epochs, ``loss``.
Without losses a row gives the whole run time; with them, rows of the same task and units are the epochs of one run.
Speeds between measured units are interpolated, along each resource in a straight line; none are guessed beyond them.
"""

from __future__ import annotations

import csv
import io
import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from weft.errors import InputError
from weft.io.sources import read_bytes
from weft.model.columns import Floats

NUM_PARTS = 20
"""Into so many equal parts of [0, 1) progress is divided where losses give its course."""

MOST = 10_000
"""Units in a row at most."""
SHORTEST, LONGEST = 1e-9, 1e12
"""Seconds in a row at least and at most."""
LOSS, MEMORY = "loss", "memory"
Units = tuple[int, ...]
Epochs = list[tuple[float, float]]
"""Seconds since the start, and the loss there; without losses one entry, and no number."""


@dataclass(frozen=True)
class Measured:
    """One task type of a table."""

    name: str
    seconds: Mapping[Units, float]
    """Run time with these units; of several runs, the mean."""
    curve: tuple[float, ...]
    """Speed over equal parts of progress, as a factor of the mean speed; empty: constant."""
    memory: int | None = None
    """Units of memory that the task needs; None: the table does not say."""

    @property
    def most(self) -> Units:
        """The most units that were measured, per resource."""
        return tuple(max(column) for column in zip(*self.seconds, strict=True))

    @property
    def measured(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of units that were measured, per resource, in order."""
        return tuple(tuple(sorted(set(column))) for column in zip(*self.seconds, strict=True))


def read_speed_table(path: str | Path, resources: tuple[str, ...]) -> list[Measured]:
    """The task types of a file, in its order."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("expected a CSV in UTF-8", file=str(path)) from None
    try:
        return _types(text, resources)
    except InputError as error:
        raise error.at(file=str(path)) from None


def _types(text: str, resources: tuple[str, ...]) -> list[Measured]:
    rows = _lines(text)
    header = [cell.strip() for cell in next(rows, [])]
    wanted = ["task", *resources, "seconds"]
    allowed = [
        [*wanted[:-1], *memory, "seconds", *loss] for memory in ([], [MEMORY]) for loss in ([], [LOSS])
    ]
    if header not in allowed:
        raise InputError(
            f"expected the columns {', '.join(wanted)} and perhaps loss, or memory before seconds, got {', '.join(header)[:80]}",
            line=1,
        )
    runs: dict[str, dict[Units, Epochs]] = {}
    memory: dict[str, int] = {}
    for line, cells in enumerate(rows, 2):
        if not cells:
            continue
        row = _row(cells, header, len(resources), line)
        runs.setdefault(row.name, defaultdict(list))[row.units].append((row.seconds, row.loss))
        if memory.setdefault(row.name, row.memory) != row.memory:
            raise InputError(
                f"expected {memory[row.name]} as in other rows of {row.name}, got {row.memory}",
                field=MEMORY,
                line=line,
            )
    if not runs:
        raise InputError("expected at least one row", line=2)
    has_loss, has_memory = LOSS in header, MEMORY in header[: len(resources) + 2]
    found = [_measured(name, own, has_loss) for name, own in runs.items()]
    return [replace(one, memory=memory[one.name]) for one in found] if has_memory else found


def _lines(text: str) -> Iterator[list[str]]:
    """The cells of each line, whatever ends it; what is no CSV is an error with its line."""
    rows = csv.reader(io.StringIO(text, newline=None))
    try:
        yield from rows
    except csv.Error as error:
        raise InputError(f"expected a CSV: {error}", line=rows.line_num) from None


class _Row(NamedTuple):
    """One line of a table."""

    name: str
    units: Units
    memory: int
    seconds: float
    loss: float


def _row(cells: list[str], header: list[str], num_resources: int, line: int) -> _Row:
    if len(cells) != len(header):
        raise InputError(f"expected {len(header)} values, got {len(cells)}", line=line)
    if not cells[0].strip():
        raise InputError("expected the name of a task, got an empty one", field="task", line=line)
    values = {key: _number(cell, key, line) for key, cell in zip(header[1:], cells[1:], strict=True)}
    given = cells[1 : header.index("seconds")]  # units of resources, and perhaps of memory
    whole = [int(one) for one in map(float, given) if 0 <= one <= MOST and one == int(one)]
    if len(whole) != len(given):
        raise InputError(
            f"expected whole numbers of units, at most {MOST:,}, got {', '.join(given)}", line=line
        )
    seconds, loss = values["seconds"], values.get(LOSS, np.nan)
    if not SHORTEST <= seconds <= LONGEST:
        raise InputError(
            f"expected a number from {SHORTEST:g} to {LONGEST:g}, got {cells[header.index('seconds')]}",
            field="seconds",
            line=line,
        )
    if LOSS in values and not np.isfinite(loss):
        raise InputError(f"expected a finite number, got {cells[-1]}", field=LOSS, line=line)
    memory = whole[num_resources] if len(whole) > num_resources else 0
    return _Row(cells[0].strip(), tuple(whole[:num_resources]), memory, seconds, float(loss))


def _number(cell: str, key: str, line: int) -> float:
    try:
        if "_" in cell or not cell.isascii():  # which Python would read
            raise ValueError
        return float(cell)
    except ValueError:
        raise InputError(f"expected a number, got {cell!r:.40}", field=key, line=line) from None


def _measured(name: str, runs: Mapping[Units, Epochs], has_loss: bool) -> Measured:
    if not has_loss:
        means = {units: float(np.mean([one for one, _ in found])) for units, found in runs.items()}
        return Measured(name, means, ())
    seconds = {units: max(one for one, _ in found) for units, found in runs.items()}
    times = np.mean([_times_to(sorted(found)) for found in runs.values()], axis=0)  # (NUM_PARTS,)
    return Measured(name, seconds, factors_of(times))


def _times_to(epochs: Epochs) -> Floats:
    """Share of the run time that each part of the progress takes; progress is how far the loss has fallen."""
    seconds = np.array([0.0, *(one for one, _ in epochs)])
    losses = np.minimum.accumulate([epochs[0][1], *(loss for _, loss in epochs)])
    if len(epochs) < 2 or losses[0] <= losses[-1]:
        return np.full(NUM_PARTS, 1.0 / NUM_PARTS)
    # the first epoch has a loss only at its end: before it, progress goes on as in the second
    fallen = (losses[0] - losses) / (losses[0] - losses[-1])
    rise = (fallen[2] - fallen[1]) / max(seconds[2] - seconds[1], 1e-12)
    fallen = fallen + rise * seconds[1]
    fallen[0] = 0.0
    fallen = fallen / fallen[-1] + np.arange(len(fallen)) * 1e-12  # strictly rising
    at = np.interp(np.linspace(0.0, fallen[-1], NUM_PARTS + 1), fallen, seconds)
    return np.asarray(np.diff(at) / seconds[-1])


def factors_of(times: Floats) -> tuple[float, ...]:
    """Speeds in parts of the progress that take these shares of the run time, as factors of the mean speed."""
    shares = np.maximum(times, 1e-3 / len(times))
    shares = shares / shares.sum()
    return tuple((1.0 / (len(times) * shares)).tolist())


def rates_of(found: Measured, least: Units, most: Units, step_seconds: float) -> Floats:
    """Progress per world step over all units from the least to the most, interpolated between measured ones."""
    marks = found.measured
    inside = all(own[0] <= low and high <= own[-1] for low, high, own in zip(least, most, marks, strict=True))
    if not inside:
        first, last = (" x ".join(str(own[end]) for own in marks) for end in (0, -1))
        raise InputError(
            f"has {found.name} measured with {first} to {last} units, and tasks need {' x '.join(map(str, least))}",
            field="table",
        )
    rates = np.zeros([size + 1 for size in most])
    for units in itertools.product(*(range(low, high + 1) for low, high in zip(least, most, strict=True))):
        rates[units] = _rate_at(found, marks, units, step_seconds)
    return rates


def _rate_at(found: Measured, marks: tuple[tuple[int, ...], ...], units: Units, step_seconds: float) -> float:
    """Speed with these units: as measured, else between the nearest measured on all sides, in proportion."""
    if units in found.seconds:
        return step_seconds / found.seconds[units]
    sides = [_sides(own, u) for own, u in zip(marks, units, strict=True)]
    rate = 0.0
    for corner in itertools.product(*sides):
        at = tuple(mark for mark, _ in corner)
        if at not in found.seconds:
            raise InputError(
                f"has no row of {found.name} with {' x '.join(map(str, at))} units", field="table"
            )
        rate += step_seconds / found.seconds[at] * float(np.prod([share for _, share in corner]))
    return rate


def _sides(marks: tuple[int, ...], u: int) -> list[tuple[int, float]]:
    """The measured numbers next to one, each with its share; the number itself where it was measured."""
    if u in marks:
        return [(u, 1.0)]
    at = bisect_left(marks, u)
    low, high = marks[at - 1], marks[at]
    share = (u - low) / (high - low)
    return [(low, 1.0 - share), (high, share)]
