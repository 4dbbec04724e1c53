"""The comparison behind ``weft compare``: one row per file and scheduler."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.cli import output
from weft.errors import MissingExtra, UnsupportedError

if TYPE_CHECKING:
    from weft.model.problem import Problem

REFERENCE = "heft"


@dataclass(frozen=True)
class Row:
    """One scheduler on one file; times in the file's unit, ``seconds`` of planning."""

    file: str
    scheduler: str
    makespan: float
    lower_bound: float
    bound_by: str
    gap_percent: float
    vs_heft_percent: float | None
    """Makespan against HEFT's; negative is shorter."""
    copies: int
    seconds: float
    valid: bool
    time_unit: str
    best: bool = False


@dataclass(frozen=True)
class Skipped:
    """A scheduler that could not act on a file, and why."""

    file: str
    scheduler: str
    reason: str


@dataclass(frozen=True)
class Comparison:
    """All schedulers on one file."""

    file: str
    problem: Problem
    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...]


def chosen(names: list[str]) -> list[str]:
    """The schedulers asked for, checked; all but the searches when none are named."""
    from weft import catalog

    if not names:
        return [name for name, entry in catalog.PLANNERS.items() if not entry.is_search]
    for name in names:
        catalog.planner(name)
    return names


def compare_file(
    file: str,
    problem: Problem,
    names: list[str],
    seed: int,
    limit: tuple[float | None, int | None],
) -> Comparison:
    """Plan one problem with every scheduler; HEFT is the reference, also where it is not listed."""
    rows: list[Row] = []
    skipped: list[Skipped] = []
    for name in names:
        try:
            rows.append(_row(file, problem, name, seed, limit))
        except (UnsupportedError, MissingExtra) as error:
            skipped.append(Skipped(file, name, error.message.removeprefix(f"{name}: ")))
    return Comparison(file, problem, _judged(rows, _reference(problem, rows, seed)), tuple(skipped))


def _row(file: str, problem: Problem, name: str, seed: int, limit: tuple[float | None, int | None]) -> Row:
    from weft.cli.plan import is_valid, make

    result = make(problem, name, seed, *limit)
    plan, bound = result.schedule, result.schedule.bound
    return Row(
        file=file,
        scheduler=name,
        makespan=plan.makespan,
        lower_bound=bound.value,
        bound_by=bound.method,
        gap_percent=plan.gap_percent,
        vs_heft_percent=None,
        copies=plan.num_copies,
        seconds=result.seconds,
        valid=is_valid(plan),
        time_unit=plan.time_unit,
    )


def _reference(problem: Problem, rows: list[Row], seed: int) -> float | None:
    """HEFT's makespan, or None where it cannot act."""
    from weft.cli.plan import make

    listed = [row.makespan for row in rows if row.scheduler == REFERENCE]
    if listed:
        return listed[0]
    try:
        return make(problem, REFERENCE, seed).schedule.makespan
    except UnsupportedError:
        return None


def _judged(rows: list[Row], heft: float | None) -> tuple[Row, ...]:
    """Rows with the distance to HEFT filled in and the shortest valid ones marked."""
    shortest = min((row.makespan for row in rows if row.valid), default=None)
    return tuple(
        replace(
            row,
            vs_heft_percent=100.0 * (row.makespan / heft - 1.0) if heft else None,
            best=row.valid and shortest is not None and math.isclose(row.makespan, shortest, rel_tol=1e-9),
        )
        for row in rows
    )


def show(comparison: Comparison) -> None:
    """Print a comparison as a table, the winner marked, what was skipped below it."""
    from weft.cli.plan import scale

    unit = comparison.rows[0].time_unit if comparison.rows else "s"
    title = f"{comparison.file}: {scale(comparison.problem)}"
    numeric = (f"makespan [{unit}]", "above bound", "vs heft", "copies", "planned in")
    table = output.table(["", "scheduler", *numeric, "check"], numeric, output.safe(title))
    for row in comparison.rows:
        table.add_row(
            "*" if row.best else "",
            row.scheduler,
            output.number(row.makespan),
            output.percent(row.gap_percent),
            output.percent(row.vs_heft_percent, "+"),
            str(row.copies),
            output.duration(row.seconds),
            "valid" if row.valid else "NOT VALID",
            style="bold" if row.best else None,
        )
    output.show(table)
    if comparison.rows:
        bound = max(comparison.rows, key=lambda row: row.lower_bound)
        output.say(f"* shortest; bound {output.number(bound.lower_bound)} {unit} by {bound.bound_by}")
    for entry in comparison.skipped:
        output.say(f"  {entry.scheduler} left out: {output.safe(entry.reason)}")
