"""Results of tasks in Ray's store: which there are, and which are gone."""

from __future__ import annotations

from typing import Any

from weft.errors import WeftError
from weft.execute.engine import Order
from weft.execute.ray_calls import said
from weft.execute.ray_orders import ENDED, Entry
from weft.session.messages import Name

LOST_RESULT = "lost result of "
"""How the note of an order begins whose input is gone; then comes the task, and after a colon more."""


class Results:
    """The latest order of every task, and so the reference to its result."""

    def __init__(self) -> None:
        self._latest: dict[tuple[Name, str], Entry] = {}

    def expect(self, entry: Entry) -> None:
        """The result of this task is that of this order from now on."""
        self._latest[entry.order.job, entry.order.task] = entry

    def source(self, entry: Entry, task: str) -> Any:
        """Reference to the result of a task that an order is handed; None: there is none."""
        known = self._latest.get((entry.order.job, task))
        return None if known is None else known.result

    def lacking(self, entry: Entry) -> str | None:
        """The first task whose result an order should be handed and that has none, whatever comes."""
        return next((task for task in entry.order.inputs if self.source(entry, task) is None), None)

    def restore(self, job: Name, task: str, value: object) -> None:
        """Put a result that was kept elsewhere into Ray's store."""
        import ray

        self.expect(Entry(Order(job, task, "", 0, -1), -1, ENDED, ray.put(value), is_finished=True))

    def release(self, job: Name, task: str | None) -> None:
        """Let go of the result of a task, or of all tasks of a job."""
        for key in [key for key in self._latest if key[0] == job and task in (None, key[1])]:
            entry = self._latest[key]
            if entry.state == ENDED:
                del self._latest[key]
                entry.result = entry.report = None

    def fetch(self, job: Name, task: str) -> Any:
        """What a finished task has returned."""
        import ray

        entry = self._latest.get((job, task))
        if entry is None or not entry.is_finished:
            raise WeftError(f"task {task!r} of job {job!r} has no result")
        try:
            return ray.get(entry.result)
        except ray.exceptions.RayError as error:
            raise WeftError(f"{LOST_RESULT}{task}: {said(error)}") from None

    def reason(self, entry: Entry, error: Exception) -> str:
        """Why a call failed that never came to its own end: an input is gone, or its result cannot be sent."""
        text = str(error)
        for task in entry.order.inputs:
            known = self._latest.get((entry.order.job, task))
            if known is None or not known.is_finished or known.result.hex() in text:
                return f"{LOST_RESULT}{task}: {said(error)}"
        return f"its result cannot be sent: {said(error)}"

    def clear(self) -> None:
        """Let go of all of them."""
        self._latest.clear()
