"""What a rule knows from the arrivals of a session: prices, and the load to be expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.model.graph import Floats
from weft.sim.tasks.forecast import Forecast
from weft.sim.tasks.prices import LivePrices
from weft.sim.tasks.rules import TaskRule
from weft.sim.tasks.state import Tasks, TaskState


class Market:
    """Prices and forecast of one cluster, told job by job.

    ``slots`` is their number per class.
    """

    def __init__(self, slots: Floats) -> None:
        self._prices, self._forecast = LivePrices(slots), Forecast(float(slots.sum()))

    def arrive(self, rule: TaskRule, w: Tasks, s: TaskState, j: int) -> None:
        """Job j of the kernel, the latest that came, has its release: write its work and what holds from now on."""
        tasks = slice(w.job_task_ptr[j], w.job_task_ptr[j + 1])
        slots, k = np.ascontiguousarray(w.demand[tasks, 0]), int(s.next_job[0]) - 1
        self._prices.arrive(w.run[tasks], slots, rule.price, k, s.work[tasks])
        self._forecast.arrive(float(w.job_release[j]), s.work[tasks])
        self._forecast.write(rule.forecast, k)

    def write(self, rule: TaskRule, s: TaskState) -> None:
        """Write what holds where the kernel reads it."""
        self._prices.write(rule.price, int(s.next_job[0]) - 1)
        self._forecast.write(rule.forecast, int(s.next_job[0]) - 1)

    def snapshot(self) -> dict[str, Any]:
        """Everything that changes, as plain data."""
        return {**self._prices.snapshot(), "forecast": self._forecast.snapshot()}

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Go back to a snapshot; those of earlier versions know no forecast, the load is then taken to be 1."""
        self._prices.restore(stored)
        if "forecast" in stored:
            self._forecast.restore(stored["forecast"])
