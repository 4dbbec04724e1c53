"""How much work is to be expected, from what has arrived: the offered load as a rule sees it.

The load is priced work per slot and unit of time. Every job that arrives adds its work, spread over a horizon; what
was there decays with the time that passes, by a factor of e per horizon. A horizon is the time in which all slots
together do the work of ``JOBS`` mean jobs of those that have arrived, so no unit matters. Right after the first
arrival the load is taken to be 1, whose logarithm is 0. No job that is yet to come is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from weft.model.graph import Floats
from weft.model.problem import Problem

JOBS = 20.0
"""Mean jobs of work per horizon."""
AT_TIME, AT_LOAD, AT_HORIZON = range(3)
NUM_COLUMNS = 3
"""Of a row per arrival: when it was, the load right after it, and by which time that decays."""


class Forecast:
    """The load that is offered to one cluster while jobs arrive, one by one.

    ``slots`` is the number of all slots.
    """

    def __init__(self, slots: float) -> None:
        self._slots = slots
        self._count, self._work = 0, 0.0
        self._time, self._load = 0.0, 1.0

    @property
    def horizon(self) -> float:
        """Time in which the load decays by a factor of e; infinite while nothing has taken time."""
        return JOBS * self._work / self._count / self._slots if self._work > 0 else math.inf

    def arrive(self, time: float, work: Floats) -> None:
        """A job whose tasks have this priced work (num_tasks,) arrives."""
        amount = math.fsum(work.tolist())
        if self._count:
            self._load *= math.exp(-(time - self._time) / self.horizon)
        self._count, self._work, self._time = self._count + 1, self._work + amount, time
        if self._count > 1:
            self._load += amount / (self._slots * self.horizon)

    def write(self, rows: Floats, k: int) -> None:
        """Write what holds from the k-th arrival on, if the rule has room for it; rows are (num_jobs, 3)."""
        if 0 <= k < len(rows):
            rows[k, AT_TIME], rows[k, AT_LOAD], rows[k, AT_HORIZON] = self._time, self._load, self.horizon

    def snapshot(self) -> dict[str, float]:
        """Everything that changes, as plain data."""
        return {"count": self._count, "work": self._work, "time": self._time, "load": self._load}

    def restore(self, stored: Mapping[str, float]) -> None:
        """Go back to a snapshot."""
        self._count, self._work = int(stored["count"]), float(stored["work"])
        self._time, self._load = float(stored["time"]), float(stored["load"])


def forecast_problems(problems: Sequence[Problem], work: Floats, rows: Floats) -> None:
    """Rows (num_jobs, 3) of all arrivals of problems side by side, from the priced work (num_tasks,) of their tasks."""
    first_task = first_job = 0
    for problem in problems:
        known = Forecast(float(problem.slot_counts.sum()))
        arrived = np.argsort([job.release for job in problem.jobs], kind="stable").tolist()
        for k, j in enumerate(arrived):
            own = slice(first_task + problem.offsets[j], first_task + problem.offsets[j + 1])
            known.arrive(problem.jobs[j].release, work[own])
            known.write(rows, first_job + k)
        first_task, first_job = first_task + problem.num_tasks, first_job + len(problem.jobs)
