"""Schedule documents, ``weft/schedule/1``: what ``weft schedule --json`` prints, read and written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from weft import __version__
from weft.errors import InputError
from weft.io.columns import Row, numbers, rows_of, whole_numbers
from weft.io.json_files import dump_json, parse_json
from weft.io.sources import located, read_bytes, shown, write_bytes
from weft.model.problem import Problem
from weft.model.schedule import DONE, OUTCOMES, Schedule

SCHEMA = "weft/schedule/1"


@runtime_checkable
class Planned(Protocol):
    """A schedule with its origin, e.g. ``weft.Result``."""

    @property
    def scheduler(self) -> str:
        """Name of the scheduler."""

    @property
    def schedule(self) -> Schedule:
        """What it planned."""

    @property
    def seconds(self) -> float:
        """How long that took."""

    @property
    def seed(self) -> int:
        """The seed it was given."""

    @property
    def is_repeatable(self) -> bool:
        """Whether the same seed gives the same schedule."""

    @property
    def note(self) -> str:
        """What the scheduler has to say; may be empty."""


def schedule_document(
    result: Planned | Schedule,
    *,
    scheduler: str | None = None,
    seed: int | None = None,
    seconds: float | None = None,
    valid: bool | None = None,
) -> dict[str, Any]:
    """The JSON document of a result or of a bare schedule; the keywords fill in or override.

    ``valid`` is what the validator said; None: not asked. Of a bare schedule it is not known whether
    it is repeatable.
    """
    is_repeatable, note = None, ""
    if isinstance(result, Schedule):
        plan = result
    else:
        plan, is_repeatable, note = result.schedule, result.is_repeatable, result.note
        scheduler = result.scheduler if scheduler is None else scheduler
        seed = result.seed if seed is None else seed
        seconds = result.seconds if seconds is None else seconds
    return {
        "schema": SCHEMA,
        "weft": __version__,
        "seed": seed,
        "scheduler": scheduler,
        "makespan": plan.makespan,
        "lower_bound": plan.bound.value,
        "bound_by": plan.bound.method,
        "bound_copies": plan.bound.copies,
        "gap_percent": plan.gap_percent if math.isfinite(plan.gap_percent) else None,
        "seconds": seconds,
        "valid": valid,
        "repeatable": is_repeatable,
        "note": note,
        "time_unit": plan.time_unit,
        "placements": _placement_rows(plan),
    }


def _placement_rows(plan: Schedule) -> list[dict[str, Any]]:
    """One object per row; attempt, batch, launch, outcome and units only where they are not the usual."""
    rows = []
    for i, p in enumerate(plan.placements()):
        row: dict[str, Any] = {"job": p.job, "task": p.task, "copy": p.copy, "device": p.device}
        row |= {"start": p.start, "finish": p.finish}
        if p.attempt:
            row["attempt"] = p.attempt
        if p.batch >= 0:
            row["batch"] = p.batch
        if p.launch >= 0:
            row["launch"] = p.launch
        if p.outcome != OUTCOMES[DONE]:
            row["outcome"] = p.outcome
        if len(plan.units):
            row["units"] = plan.units[i].tolist()
        rows.append(row)
    return rows


def write_schedule(
    result: Planned | Schedule,
    path: str | Path,
    *,
    scheduler: str | None = None,
    seed: int | None = None,
    seconds: float | None = None,
    valid: bool | None = None,
) -> None:
    """Write the document of :func:`schedule_document`."""
    document = schedule_document(result, scheduler=scheduler, seed=seed, seconds=seconds, valid=valid)
    with located(path):
        write_bytes(dump_json(document), path)


def read_schedule(path: str | Path, problem: Problem, *, limit_bytes: int | None = None) -> Schedule:
    """A schedule of this problem from a file; whether it is valid is for the validator to say."""
    with located(path):
        return schedule_from_document(parse_json(read_bytes(path, limit_bytes), path), problem)


def is_schedule(path: str | Path) -> bool:
    """Whether a file is a schedule: by its schema or, where it names none, by its placements."""
    try:
        data = read_bytes(path)
        document = parse_json(data, path) if b'"placements"' in data else {}
    except InputError:
        return False
    return "placements" in document and document.get("schema", SCHEMA) == SCHEMA


def schedule_from_document(document: Row, problem: Problem) -> Schedule:
    """A schedule from its document, or from a bare ``{"placements": [...]}``."""
    schema = document.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise InputError(f"expected {SCHEMA!r}, got {shown(schema)}", field="schema")
    rows = rows_of(document, "placements")
    if not rows and problem.num_tasks:
        raise InputError("no placements", field="placements")
    where = "placements"
    task = _task_numbers(rows, problem)
    copy = whole_numbers([row.get("copy", 0) for row in rows], where, "copy")
    attempt = whole_numbers([row.get("attempt", 0) for row in rows], where, "attempt")
    _refuse_twice(task, copy, attempt, problem)
    return Schedule(
        problem,
        np.array(task, dtype=np.int32),
        np.array(_device_numbers(rows, problem), dtype=np.int32),
        numbers([row.get("start") for row in rows], where, "start", low=None),
        numbers([row.get("finish") for row in rows], where, "finish", low=None),
        copy.astype(np.int32),
        attempt.astype(np.int32),
        whole_numbers([row.get("batch", -1) for row in rows], where, "batch", low=-1).astype(np.int32),
        outcome=np.array(_outcomes(rows), dtype=np.int8),
        launch=whole_numbers([row.get("launch", -1) for row in rows], where, "launch", low=-1).astype(
            np.int32
        ),
        **_units(rows),
    )


def _task_numbers(rows: Sequence[Row], problem: Problem) -> list[int]:
    """Task numbers through all jobs; the job may be left out where there is one."""
    jobs = {job.name: j for j, job in enumerate(problem.jobs)}
    found = []
    for i, row in enumerate(rows):
        name = row.get("job", problem.jobs[0].name if len(jobs) == 1 else None)
        j = jobs.get(name) if isinstance(name, str) else None
        if j is None:
            got = "nothing" if name is None else f"unknown job {shown(name)}"
            raise InputError(f"expected a job of the problem, got {got}", field=f"placements[{i}].job")
        task = row.get("task")
        index = problem.jobs[j].graph.index.get(task) if isinstance(task, str) else None
        if index is None:
            got = "nothing" if task is None else f"unknown task {shown(task)}"
            raise InputError(f"expected a task of the problem, got {got}", field=f"placements[{i}].task")
        found.append(int(problem.offsets[j]) + index)
    return found


def _device_numbers(rows: Sequence[Row], problem: Problem) -> list[int]:
    """Device numbers; -1 for a task that never ran, written as null."""
    index = problem.cluster.device_index
    found = []
    for i, row in enumerate(rows):
        name = row.get("device", "")
        number = -1 if name is None else index.get(name) if isinstance(name, str) else None
        if number is None:
            some = ", ".join(list(index)[:4])
            got = f"unknown device {shown(name)}" if name else "nothing"
            raise InputError(
                f"expected a device of the cluster ({some}{', ...' if len(index) > 4 else ''}), got {got}",
                field=f"placements[{i}].device",
            )
        found.append(number)
    return found


def _outcomes(rows: Sequence[Row]) -> list[int]:
    known = {name: code for code, name in enumerate(OUTCOMES)}
    found = []
    for i, row in enumerate(rows):
        name = row.get("outcome", OUTCOMES[DONE])
        if not isinstance(name, str) or name not in known:
            raise InputError(
                f"expected one of {', '.join(OUTCOMES)}, got {shown(name)}", field=f"placements[{i}].outcome"
            )
        found.append(known[name])
    return found


def _units(rows: Sequence[Row]) -> dict[str, Any]:
    """Units per resource, where the first row has some; all rows then need as many."""
    first = rows[0].get("units") if rows else None
    if first is None:
        return {}
    width = len(first) if isinstance(first, list) else 0
    table = []
    for i, row in enumerate(rows):
        units = row.get("units")
        if not isinstance(units, list) or len(units) != width:
            raise InputError(
                f"expected a list of {width} numbers, got {shown(units)}", field=f"placements[{i}].units"
            )
        table.append(numbers(units, f"placements[{i}].units", "value"))
    return {"units": np.array(table)}


def _refuse_twice(task: Sequence[int], copy: Any, attempt: Any, problem: Problem) -> None:
    """One row per copy and attempt of a task, except for elastic ones: they may change allocation."""
    seen: dict[tuple[int, int, int], int] = {}
    for i, key in enumerate(zip(task, copy.tolist(), attempt.tolist(), strict=True)):
        first = seen.setdefault(key, i)
        if first != i and not problem.jobs[int(problem.job_of[key[0]])].graph.is_elastic:
            raise InputError(
                f"task {shown(problem.task_name(key[0]))} copy {key[1]} is placed twice, "
                f"first in placements[{first}]",
                field=f"placements[{i}]",
            )
