"""Results of tasks in Ray's store: which there are, and which are gone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from weft.errors import WeftError
from weft.execute.engine import LOST_RESULT, Order
from weft.execute.keeping import NotKept, kept
from weft.execute.ray_calls import said
from weft.execute.ray_orders import ENDED, Entry
from weft.session.messages import Name

"""How the note of an order begins whose input is gone; the task follows."""


class Results:
    """The latest order of every task, and so the reference to its result."""

    def __init__(self, folder: Callable[[Name, str], str] | None = None) -> None:
        self._folder = folder
        self._latest: dict[tuple[Name, str], Entry] = {}

    def expect(self, entry: Entry) -> None:
        """The result of this task is that of this order from now on."""
        self._latest[entry.order.job, entry.order.task] = entry

    def source(self, job: Name, task: str) -> Any:
        """Reference to the result of a task, which may be on its way, or was kept in its folder; None: there is none."""
        known = self._latest.get((job, task))
        if known is None and self._folder is not None:
            with contextlib.suppress(NotKept):
                known = self._restored(job, task, kept(self._folder(job, task)))
        return None if known is None else known.result

    def _restored(self, job: Name, task: str, value: object) -> Entry:
        import ray

        entry = Entry(Order(job, task, "", 0, -1), -1, ENDED, ray.put(value), is_finished=True)
        self.expect(entry)
        return entry

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

        reference, entry = self.source(job, task), self._latest.get((job, task))
        if entry is None or not entry.is_finished:
            raise WeftError(f"task {task!r} of job {job!r} has no result")
        try:
            return ray.get(reference)
        except ray.exceptions.RayError as error:
            raise WeftError(f"the result of task {task!r} of job {job!r} is gone: {said(error)}") from None

    def reason(self, entry: Entry, error: Exception) -> str:
        """Why a call failed that never came to its own end: an input is gone, or its result cannot be sent."""
        text = str(error)
        for task in entry.order.inputs:
            known = self._latest.get((entry.order.job, task))
            if known is None or not known.is_finished or known.result.hex() in text:
                return f"{LOST_RESULT}{task}"
        return f"its result cannot be sent: {said(error)}"

    def clear(self) -> None:
        """Let go of all of them."""
        self._latest.clear()
