"""Results of orders on Dask: futures of workers, or what the folder of a task keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.errors import WeftError
from weft.execute.dask_orders import ENDED, Entry
from weft.execute.dask_worker import Unfinished
from weft.execute.keeping import NotKept, kept
from weft.session.messages import Name


class Lacking(Exception):
    """A result that a task needs is nowhere; ``str()`` is the task that made it."""


class Results:
    """Who has the result of which task."""

    def __init__(self, client: Any, folder: Callable[[Name, str], str] | None) -> None:
        self._client, self._folder = client, folder
        self._latest: dict[tuple[Name, str], Entry] = {}
        self._kept: dict[tuple[Name, str], Any] = {}

    def expect(self, entry: Entry) -> None:
        """The result of this order will be the one of its task."""
        self._latest[entry.order.job, entry.order.task] = entry

    def future(self, job: Name, task: str) -> Any:
        """The result of a task; raises ``Lacking``."""
        entry = self._latest.get((job, task))
        if entry is not None and entry.future is not None:
            return entry.future
        known = self._kept.get((job, task))
        if known is not None and known.status == "finished":
            return known
        if self._folder is None:
            raise Lacking(task)
        try:
            value = kept(self._folder(job, task))
        except NotKept:
            raise Lacking(task) from None
        self._kept[job, task] = self._client.scatter(value, hash=False)
        return self._kept[job, task]

    def value(self, job: Name, task: str) -> Any:
        """What a finished task has returned."""
        try:
            value = self.future(job, task).result()
        except Lacking:
            raise WeftError(f"no result of task {task!r} of job {job!r} is kept") from None
        if isinstance(value, Unfinished):
            raise WeftError(f"task {task!r} of job {job!r} has no result: {value.note}")
        return value

    def lose(self, job: Name, task: str) -> bool:
        """The result turned out to be gone; False: the task has not ended well in the first place."""
        entry = self._latest.get((job, task))
        if entry is None or not entry.is_done:
            return False
        entry.future = None
        return True

    def drop_lost(self) -> None:
        """Let go of what went down with a worker: else Dask makes all of it again, needed or not."""
        for entry in self._latest.values():
            if entry.is_done and entry.future is not None and entry.future.status != "finished":
                entry.future = None

    def release(self, job: Name, task: str | None) -> None:
        """The result of a task, or of all tasks of a job, is not needed any more."""
        for key in [key for key in self._latest if key[0] == job and task in (None, key[1])]:
            if self._latest[key].state == ENDED:
                self._latest.pop(key).future = None
        for key in [key for key in self._kept if key[0] == job and task in (None, key[1])]:
            del self._kept[key]

    def clear(self) -> None:
        """Let go of everything."""
        self._latest.clear()
        self._kept.clear()
