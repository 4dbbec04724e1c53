"""A schedule as :class:`Placed`, checked: a plan that does not fit its workflow is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.errors import InputError
from weft.io import native, wfformat
from weft.io.exports.placed import DONE, Device, Placed, Span, Task
from weft.model.graph import TaskGraph
from weft.model.problem import Problem
from weft.model.schedule import OUTCOMES, Schedule
from weft.model.validate import validate


def of_schedule(schedule: Schedule, workers: Mapping[str, str] | None = None, scheduler: str = "") -> Placed:
    """What a schedule places; refused where it breaks a rule.

    Parameters
    ----------
    workers
        Device -> name or address of what runs it.
    """
    problem = schedule.problem
    tasks = tuple(task for job in problem.jobs for task in tasks_of(job.graph, job.name))
    spans = _spans(schedule)
    _check(schedule, spans)
    skipped = len(tasks) - len({span.task for span in spans})
    notes = (f"{skipped} of {len(tasks)} tasks never run in this plan",) if skipped else ()
    return Placed(
        problem.name,
        problem.time_unit,
        devices_of(problem, workers or {}),
        tasks,
        edges_of(problem),
        spans,
        scheduler=scheduler,
        notes=notes,
    )


def _spans(schedule: Schedule) -> tuple[Span, ...]:
    """Rows on a device that are done; the rows of an elastic execution are one."""
    columns = (getattr(schedule, key).tolist() for key in ("task", "device", "copy", "attempt", "outcome"))
    times = zip(schedule.start.tolist(), schedule.finish.tolist(), strict=True)
    found: dict[tuple[int, int, int], Span] = {}
    for (task, device, copy, attempt, outcome), (start, finish) in zip(
        zip(*columns, strict=True), times, strict=True
    ):
        if device < 0 or OUTCOMES[outcome] != DONE:
            continue
        key = (task, copy, attempt)
        if key in found:
            start, finish = min(start, found[key].start), max(finish, found[key].finish)
        found[key] = Span(task, device, start, finish, copy, attempt)
    return tuple(found.values())


def _check(schedule: Schedule, spans: tuple[Span, ...]) -> None:
    """Refuse a plan that leaves tasks out or breaks a rule of the validator."""
    problem = schedule.problem
    if not (np.isfinite(schedule.start).all() and np.isfinite(schedule.finish).all()):
        raise InputError("expected finite times", field="placements")
    missing = np.setdiff1d(np.arange(problem.num_tasks), schedule.task)
    if len(missing):
        name = problem.task_name(int(missing[0]))
        raise InputError(
            f"the plan does not fit the workflow: {len(missing)} of {problem.num_tasks} tasks are not in it, "
            f"first {name!r}",
            field="placements",
        )
    if any(job.graph.is_conditional for job in problem.jobs):
        return  # whether a branch is taken is not known: the validator cannot judge
    violations = validate(schedule)
    if violations:
        raise InputError(
            f"the plan does not fit the workflow: {violations[0]}; weft validate lists all of "
            f"{len(violations)}",
            field="placements",
        )


def devices_of(problem: Problem, workers: Mapping[str, str]) -> tuple[Device, ...]:
    """The devices of a problem's cluster."""
    cluster = problem.cluster
    rows = zip(cluster.device_names, cluster.device_class.tolist(), strict=True)
    return tuple(
        Device(name, cluster.classes[c].name, cluster.classes[c].slots, workers.get(name, ""))
        for name, c in rows
    )


def edges_of(problem: Problem) -> tuple[tuple[int, int], ...]:
    """All edges, by the numbers of tasks through all jobs."""
    found: list[tuple[int, int]] = []
    for base, job in zip(problem.offsets.tolist(), problem.jobs, strict=False):
        sources, targets = (job.graph.sources + base).tolist(), (job.graph.targets + base).tolist()
        found += zip(sources, targets, strict=True)
    return tuple(found)


def tasks_of(graph: TaskGraph, job: str) -> list[Task]:
    """The tasks of a graph with what the file it came from says of commands and files."""
    told = _told(graph)
    return [
        Task(
            job,
            task.name,
            task.kind,
            task.slots,
            task.memory,
            told.get(task.name, ((), ()))[0],
            told.get(task.name, ((), ()))[1],
        )
        for task in graph.tasks()
    ]


def _told(graph: TaskGraph) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Command and output files by task, as the file says that the graph was read from."""
    document = graph.metadata.get(wfformat.METADATA)
    try:
        rows = wfformat.told_of(document) if isinstance(document, Mapping) else []
    except InputError:  # metadata is free: whatever stands there may be something else
        rows = []
    told = {name: (_wfformat_command(row), outputs) for name, row, outputs in rows}
    given = graph.metadata.get(native.COMMANDS)
    for name, line in given.items() if isinstance(given, Mapping) else ():
        told[name] = (_command(line), told.get(name, ((), ()))[1])
    return told


def _wfformat_command(run: Mapping[str, Any]) -> tuple[str, ...]:
    """Program and arguments as one line for the shell, as ``weft run`` carries them out."""
    command = run.get("command")
    found = command if isinstance(command, Mapping) else {}
    program, arguments = found.get("program"), found.get("arguments") or []
    if not isinstance(program, str) or not isinstance(arguments, list):
        return ()
    return _command(" ".join([program, *map(str, arguments)]))


def _command(line: object) -> tuple[str, ...]:
    """A line for the shell, or a program with its arguments."""
    if isinstance(line, str):
        return ("/bin/sh", "-c", line) if line.strip() else ()
    return tuple(map(str, line)) if isinstance(line, list | tuple) else ()
