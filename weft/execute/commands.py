"""What tasks of a file do: the commands it gives them, where a person allows that, else rehearsals."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.errors import InputError
from weft.execute.work import Command, Rehearsal
from weft.execute.workloads import JobWorks, Works
from weft.io.native import COMMANDS
from weft.io.wfformat import METADATA as WFFORMAT
from weft.model.graph import TaskGraph
from weft.model.problem import Problem

REHEARSED_SECONDS = 30.0
"""How long the plan of a rehearsal is, unless the caller says otherwise."""
MOST_REHEARSED_BYTES = 1_000_000
"""Larger results take workers time to pack that no plan knows of."""
_ROOM = 0.5
"""Share of the cores that rehearsals compute on together; the driver and the rest need some, too."""


def has_commands(graph: TaskGraph) -> bool:
    """Whether a file gave its tasks commands."""
    return bool(_lines(graph))


def command_works(
    graph: TaskGraph, *, allow_commands: bool, folder: str = "", file: str | None = None
) -> Works:
    """Each task runs the command its file gives it; a WfFormat program and its arguments make one line for the shell.

    Parameters
    ----------
    allow_commands
        Whether a person said that this file's commands may run.
    folder
        Where they run; empty: in the folder of each task.
    """
    lines = _lines(graph)
    if not lines:
        raise InputError("expected commands of tasks, found none", file=file, field="tasks")
    if not allow_commands:
        raise InputError("it gives commands to run, which only --allow-commands lets run", file=file)
    missing = [name for name in graph.names if name not in lines]
    if missing:
        raise InputError("expected a command, found none", file=file, field=f"task {missing[0]}")
    return Works({name: Command(lines[name], folder=folder) for name in graph.names})


def _lines(graph: TaskGraph) -> dict[str, str | tuple[str, ...]]:
    commands = graph.metadata.get(COMMANDS)
    if isinstance(commands, Mapping):
        return {name: line if isinstance(line, str) else tuple(line) for name, line in commands.items()}
    document = graph.metadata.get(WFFORMAT)
    return _wfformat_lines(document) if isinstance(document, Mapping) else {}


def _wfformat_lines(document: Mapping[str, Any]) -> dict[str, str | tuple[str, ...]]:
    """Lines of the tasks that have one; those that ran it, and those of old versions with everything in one list."""
    workflow = document["workflow"]
    rows = workflow["execution"]["tasks"] if "specification" in workflow else workflow["tasks"]
    lines: dict[str, str | tuple[str, ...]] = {}
    for i, row in enumerate(rows):
        command = row.get("command")
        if not isinstance(command, Mapping) or not command.get("program"):
            continue
        arguments = command.get("arguments") or []
        words = [command["program"], *(arguments if isinstance(arguments, list) else [None])]
        if not all(isinstance(word, str) for word in words):
            raise InputError("expected a program and a list of texts", field=f"tasks[{i}].command")
        lines[row.get("id", row.get("name"))] = " ".join(words)
    return lines


# -- rehearsals ------------------------------------------------------------------------------------


def scale_to(length: float, problem: Problem, seconds: float = REHEARSED_SECONDS) -> float:
    """Seconds of a rehearsal per second of the problem, for a plan of this length in the problem's unit of time."""
    if not 0 < seconds < math.inf:
        raise InputError(f"expected a number of seconds > 0, got {seconds}", field="seconds")
    planned = length * problem.seconds_per_unit
    return seconds / planned if planned > 0 else 1.0


def rehearsals(
    problem: Problem,
    scale: float = 1.0,
    *,
    most_bytes: int = MOST_REHEARSED_BYTES,
    share: float | None = None,
) -> JobWorks:
    """Every task takes as long as the problem says, times ``scale``, and hands on bytes like its largest edge.

    Parameters
    ----------
    most_bytes
        Size of the largest result; where the problem has larger ones, all shrink alike.
    share
        Share of its time a task computes; None: as much as the cores allow with all devices busy.
    """
    sizes = [_sizes(job.graph) for job in problem.jobs]
    largest = max(float(column.max(initial=0.0)) for column in sizes)
    shrink = min(1.0, most_bytes / largest) if largest > 0 else 1.0
    part = room(int(problem.cluster.slots.sum())) if share is None else share
    jobs: dict[str | int, Any] = {}
    for j, job in enumerate(problem.jobs):
        rows = (
            problem.run_times[problem.offsets[j] : problem.offsets[j + 1]] * problem.seconds_per_unit * scale
        )
        jobs[job.name] = Works(
            {
                name: Rehearsal(_by_class(problem, row), int(size * shrink), part)
                for name, row, size in zip(job.graph.names, rows.tolist(), sizes[j].tolist(), strict=True)
            }
        )
    return JobWorks(jobs)


def _by_class(problem: Problem, row: list[float]) -> dict[str, float]:
    named = zip(problem.cluster.classes, row, strict=True)
    return {one.name: seconds for one, seconds in named if math.isfinite(seconds)}


def _sizes(graph: TaskGraph) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Bytes of every task's result: those of its largest edge; (num_tasks,)."""
    sizes = np.zeros(graph.num_tasks)
    np.maximum.at(sizes, graph.sources, graph.data)
    return sizes


def room(num_workers: int) -> float:
    """Share of its time that each of so many workers may compute, on the cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(1.0, _ROOM * cores / max(num_workers, 1))
