"""What happened in a run of agents, read from its journals: an episode like those that are simulated."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.errors import InputError
from weft.model.elastic import ElasticProblem
from weft.model.elastic_run import ElasticRun

Line = dict[str, Any]


def recorded_run(
    problem: ElasticProblem, seed: int, clusters: list[list[Line]], source: list[Line]
) -> ElasticRun:
    """The episode; attempts that were withdrawn are left out."""
    tasks = sorted(line["task"] for line in source if line["kind"] == "task")
    finish = np.full(len(tasks), -1, np.int64)
    rows: list[tuple[list[int], float]] = []
    for n, lines in enumerate(clusters):
        rows += _cluster_rows(n, lines, finish)
    if len(tasks) != problem.num_tasks or (finish < 0).any():
        count = f"{int((finish >= 0).sum())} of {problem.num_tasks} tasks completed"
        raise InputError(f"the run has not ended: {count}; once killed it cannot go on", field="journals")
    rows.sort(key=lambda row: (row[0][0], row[0][1]))  # stable: the order of placing is kept
    columns = np.array(tasks, np.int64)
    return ElasticRun(
        problem,
        seed,
        columns[:, 2].copy(),
        columns[:, 1].copy(),
        columns[:, 3].copy(),
        finish,
        np.array([row for row, _ in rows], np.int64),
        np.array([progress for _, progress in rows]),
    )


def _cluster_rows(n: int, lines: list[Line], finish: np.ndarray) -> list[tuple[list[int], float]]:
    """One row for every step of every task of a cluster; ``finish`` is filled in."""
    held: dict[int, list[Any]] = {}  # task -> round of its placement, steps run, units
    ended: dict[int, int] = {}
    rows: list[tuple[list[int], float]] = []
    for line in lines:
        if line["kind"] != "act":
            continue
        gone = set(line.get("withdraw", []))
        rows = [row for row in rows if row[0][2] not in gone] if gone else rows
        for task in gone:
            held.pop(task, None)
            ended.pop(task, None)
        held |= {task: [at, 0, units] for task, at, units in line.get("place", [])}
        for task, units in line.get("units", []):
            held[task][2] = units
        now = line["did"]["step"]
        for task, progress in line["did"]["progress"]:
            at, ran, units = held[task]
            rows.append(([now - 1, n, task, at, ran, *units], progress))
            held[task][1] += 1
        for task in line["did"]["finished"]:
            del held[task]
            ended[task] = now
    for task, now in ended.items():
        finish[task] = now
    return rows
