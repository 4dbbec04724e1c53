"""Measured speeds of elastic tasks: a CSV with one row per task type, units and, where losses were kept, epoch.

The columns are ``task``, one per resource (``cpu``, ``gpu``, ...), ``seconds`` and, if there are epochs, ``loss``. Without
losses a row gives the whole run time; with them, rows of the same task and units are the epochs of one run.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weft.errors import InputError
from weft.io.sources import read_bytes
from weft.model.columns import Floats

NUM_PARTS = 20
"""Into so many equal parts of [0, 1) progress is divided where losses give its course."""

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

    @property
    def most(self) -> Units:
        """The most units that were measured, per resource."""
        return tuple(max(column) for column in zip(*self.seconds, strict=True))


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
    if header not in (wanted, [*wanted, "loss"]):
        raise InputError(
            f"expected the columns {', '.join(wanted)} and perhaps loss, got {', '.join(header)[:80]}", line=1
        )
    runs: dict[str, dict[Units, Epochs]] = {}
    for line, cells in enumerate(rows, 2):
        if not cells:
            continue
        name, units, seconds, loss = _row(cells, header, line)
        runs.setdefault(name, defaultdict(list))[units].append((seconds, loss))
    if not runs:
        raise InputError("expected at least one row", line=2)
    has_loss = len(header) > len(wanted)
    return [_measured(name, own, has_loss) for name, own in runs.items()]


def _lines(text: str) -> Iterator[list[str]]:
    """The cells of each line, whatever ends it; what is no CSV is an error with its line."""
    rows = csv.reader(io.StringIO(text, newline=None))
    try:
        yield from rows
    except csv.Error as error:
        raise InputError(f"expected a CSV: {error}", line=rows.line_num) from None


def _row(cells: list[str], header: list[str], line: int) -> tuple[str, Units, float, float]:
    if len(cells) != len(header):
        raise InputError(f"expected {len(header)} values, got {len(cells)}", line=line)
    values = []
    for key, cell in zip(header[1:], cells[1:], strict=True):
        try:
            values.append(float(cell))
        except ValueError:
            raise InputError(f"expected a number, got {cell!r:.40}", field=key, line=line) from None
    num_units = header.index("seconds") - 1
    units = tuple(int(value) for value in values[:num_units] if 0 <= value <= 10_000 and value == int(value))
    if len(units) != num_units:
        raise InputError(
            f"expected whole numbers of units, got {', '.join(cells[1 : num_units + 1])}", line=line
        )
    seconds, loss = values[num_units], values[-1] if len(values) > num_units + 1 else np.nan
    if not 0 < seconds < 1e12:
        raise InputError(f"expected a number > 0, got {cells[num_units + 1]}", field="seconds", line=line)
    if len(values) > num_units + 1 and not np.isfinite(loss):
        raise InputError(f"expected a finite number, got {cells[-1]}", field="loss", line=line)
    return cells[0].strip(), units, seconds, float(loss)


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
    """Progress per world step over all units up to the most; a gap in the table is an error."""
    rates = np.zeros([size + 1 for size in most])
    for units in itertools.product(*(range(low, high + 1) for low, high in zip(least, most, strict=True))):
        if units not in found.seconds:
            given = " x ".join(str(one) for one in units)
            raise InputError(f"has no row of {found.name} with {given} units", field="table")
        rates[units] = step_seconds / found.seconds[units]
    return rates
