"""What the families of tables share: options, published figures, tables of means, targets with verdicts."""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from statistics import median
from typing import Any, NamedTuple

from benchmarks._oneshot.measure import Found, Wanted, Way
from benchmarks._oneshot.problems import Case
from benchmarks._oneshot.record import Measured
from weft.evaluation.report.blocks import Code, Section, Table

NOTHING = "-"
"""A cell that was not measured, or not published."""
PUBLISHED = "published: "
"""Before the rows that others printed."""
Value = Callable[[Case, Measured], float]


@dataclass(frozen=True)
class Options:
    """What a page is made of."""

    data: str = ""
    """Folder of the query mixes."""
    models: str = ""
    """Folder of ONNX models."""
    losses: str = ""
    """Folder of runs that differ in the loss."""
    seeds: str = ""
    """Folder of runs that differ in the training seed."""
    weights: str = ""
    """Weights in place of those that ship."""
    is_quick: bool = False

    def few(self, full: int, quick: int = 1) -> int:
        """How many of something."""
        return quick if self.is_quick else full


@dataclass(frozen=True)
class Target:
    """A figure to reach."""

    what: str
    limit: float
    value: float | None
    """None: not measured."""
    unit: str = ""
    digits: int = 1
    is_least: bool = False
    """Whether more is better."""
    is_strict: bool = False
    """Whether the limit itself is not enough: it is what a rival reached."""
    is_stretch: bool = False

    @property
    def is_reached(self) -> bool:
        """Whether the measured figure is on the right side of the limit."""
        if self.value is None or (self.is_strict and self.value == self.limit):
            return False
        return self.value >= self.limit if self.is_least else self.value <= self.limit

    @property
    def verdict(self) -> str:
        """One word or two."""
        if self.value is None:
            return "not measured"
        return "reached" if self.is_reached else "missed"

    def cells(self) -> tuple[str, ...]:
        """Its row of the table of targets."""
        words = ("above", "below") if self.is_strict else ("at least", "at most")
        limit = f"{words[not self.is_least]} {number(self.limit, self.digits)}{self.unit}"
        measured = NOTHING if self.value is None else number(self.value, self.digits + 1) + self.unit
        return (self.what, limit + (" (stretch)" if self.is_stretch else ""), measured, self.verdict)


class Part(NamedTuple):
    """One family of tables."""

    wanted: Callable[[Options], list[Wanted]]
    sections: Callable[[Options, Found], list[Section]]
    targets: Callable[[Options, Found], list[Target]]


def no_targets(options: Options, found: Found) -> list[Target]:
    """A part that only shows."""
    return []


@functools.cache
def published() -> dict[str, Any]:
    """The figures of the studies, with their sources."""
    text = resources.files("benchmarks._oneshot").joinpath("published.toml").read_text("utf-8")
    return tomllib.loads(text)


def number(value: float | None, digits: int) -> str:
    """A figure as the tables show it."""
    is_known = value is not None and math.isfinite(value)
    return f"{value:,.{digits}f}" if is_known else NOTHING


def mean(values: Sequence[float]) -> float | None:
    """The mean; None of nothing."""
    return sum(values) / len(values) if values else None


def cell_mean(found: Found, suite: str, group: str, label: str, value: Value) -> float | None:
    """Mean of a figure over the rows of a cell; None if nothing was measured."""
    return mean([value(case, row) for case, row in found.cell(suite, group, label)])


def total_mean(found: Found, suite: str, groups: Sequence[str], label: str, value: Value) -> float | None:
    """Mean over all rows of several cells; None unless every cell was measured."""
    cells = [found.cell(suite, group, label) for group in groups]
    return mean([value(*row) for cell in cells for row in cell]) if all(cells) else None


def cell_time(found: Found, suite: str, group: str, label: str) -> float | None:
    """Median processor seconds of a cell: a plan that had to compile something first does not count."""
    spent = [row.cpu for _, row in found.cell(suite, group, label)]
    return median(spent) if spent else None


def row_of(label: str, values: Sequence[float | None], digits: int) -> tuple[str, ...]:
    """A row of figures."""
    return (label, *(number(value, digits) for value in values))


def grid(
    found: Found, suite: str, groups: Sequence[str], labels: Sequence[str], value: Value, digits: int
) -> list[tuple[str, ...]]:
    """A row per way to plan, a column per group; ways that were not measured are left out."""
    rows = []
    for label in labels:
        values = [cell_mean(found, suite, group, label, value) for group in groups]
        if any(one is not None for one in values):
            rows.append(row_of(label, values, digits))
    return rows


def time_grid(
    found: Found, suite: str, groups: Sequence[str], labels: Sequence[str], digits: int
) -> list[tuple[str, ...]]:
    """Median processor seconds, a row per way to plan, a column per group."""
    return [row_of(label, [cell_time(found, suite, g, label) for g in groups], digits) for label in labels]


def published_rows(table: str, figure: str, digits: int) -> list[tuple[str, ...]]:
    """The published rows of a table, where they give this figure."""
    return [
        row_of(PUBLISHED + row["name"], row[figure], digits)
        for row in published()[table]["row"]
        if figure in row
    ]


def table(headers: Sequence[str], rows: Sequence[tuple[str, ...]], caption: str = "") -> Table:
    """A table whose first column is words."""
    return Table(tuple(headers), tuple(rows), tuple(range(1, len(headers))), caption)


def labels_of(ways: Sequence[Way]) -> list[str]:
    """What the tables call them."""
    return [way.label for way in ways]


def command(part: str, *others: str, needs: str = "") -> Code:
    """The commands that make a table."""
    return Code((f"python -m benchmarks oneshot --part {part}{needs}", *others))


def makespan(case: Case, row: Measured) -> float:
    """Makespan."""
    return row.makespan


def bound(case: Case, row: Measured) -> float:
    """Lower bound."""
    return row.bound


def gap(case: Case, row: Measured) -> float:
    """Percentage above the lower bound."""
    return row.gap_percent


def known_gap(case: Case, row: Measured) -> float:
    """Percentage above the best known makespan."""
    return 100.0 * (row.makespan / case.reference - 1.0)


def speedup(case: Case, row: Measured) -> float:
    """Sum of run times over makespan."""
    return row.speedup
