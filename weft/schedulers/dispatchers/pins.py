"""Pipelines pinned to classes of devices by hand, as an engineer would for a board that is known."""

from __future__ import annotations

import numpy as np

from weft.model.graph import Bools
from weft.model.problem import Problem

PINS = {
    **{"lane": "denver", "loc": "denver", "detect": "gpu", "sfm": "gpu"},
    **{"yolo1": "gpu", "yolo2": "gpu", "lenet1": "gpu", "lenet2": "cpu"},
}
"""Class of every pipeline that has one; a second camera is pinned as the first."""


def pinned_classes(problem: Problem) -> Bools:
    """Where every task may run: the class of its pipeline, where that cannot run it or is not named the first that can."""
    names = [one.name for one in problem.cluster.classes]
    can = np.isfinite(problem.run_times) & (problem.device_counts > 0)
    wanted = np.array([_class_of(job.series, names) for job in problem.jobs], np.int64)[problem.job_of]
    first = can.argmax(axis=1)
    rows = np.arange(problem.num_tasks)
    chosen = np.where((wanted >= 0) & can[rows, wanted], wanted, first)
    return np.asarray(chosen[:, None] == np.arange(len(names)))


def _class_of(series: str, names: list[str]) -> int:
    name = PINS.get(series) or PINS.get(series.rstrip("2"))
    return names.index(name) if name in names else -1
