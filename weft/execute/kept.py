"""Results of a run that goes on: a task that was done before hands on what it kept, instead of running again."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from pathlib import Path

from weft.execute.keeping import NotKept, kept
from weft.execute.work import Call, Work, Workload
from weft.session.messages import Name


@dataclass(frozen=True)
class Kept:
    """A workload whose tasks were partly done before."""

    workload: Workload
    folder: Callable[[Name, str], str]
    done: Container[tuple[Name, str]]

    def work(self, job: str | int, task: str) -> Work:
        """What a task does; one that was done and whose result was kept only reads it."""
        if (job, task) in self.done:
            home = self.folder(job, task)
            if is_kept(home):
                return Call(kept, (home,))
        return self.workload.work(job, task)


def is_kept(folder: str | Path) -> bool:
    """Whether a result can be read here."""
    try:
        kept(folder)
    except NotKept:
        return False
    return True
