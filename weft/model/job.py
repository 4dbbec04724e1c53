"""Jobs: releases of task graphs, alone or as instances of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.errors import InputError
from weft.model.graph import TaskGraph

INFINITE = float("inf")

QUEUE, SKIP, ABORT = OVERRUNS = ("queue", "skip", "abort")
"""What becomes of a release while the one before it is not done: both go on, it is dropped, or each ends at its deadline."""


@dataclass(frozen=True, eq=False)
class Job:
    """One release of a task graph."""

    graph: TaskGraph
    name: str = "job"
    release: float = 0.0
    """No task of the job starts before."""
    period: float | None = None
    """Released again every ``period``; None: once."""
    deadline: float | None = None
    """Due this long after the release; None: never."""
    weight: float = 1.0
    owner: str = ""
    eligible: tuple[str, ...] | None = None
    """Device names or class names the job may use; None: all."""
    series: str = ""
    """Name of the pipeline of which it is one instance; empty: it stands alone."""
    interval: float | None = None
    """Time from its release to that of the next instance, as far as is known at its release; None: unknown."""
    overrun: str = QUEUE
    """What becomes of an instance while an earlier one is not done: ``queue``, ``skip`` or ``abort``."""
    in_order: bool = False
    """Whether a task waits until the same task of the instance before it is done."""

    def __post_init__(self) -> None:
        if self.overrun not in OVERRUNS:
            raise InputError(
                f"expected one of {', '.join(OVERRUNS)}, got {self.overrun!r}",
                field=f"job {self.name}: overrun",
            )
        if self.interval is not None and not 0 < self.interval < INFINITE:
            raise InputError(
                f"expected a finite number > 0, got {self.interval}", field=f"job {self.name}: interval"
            )
        for key in ("release", "weight", "deadline"):
            value = getattr(self, key)
            if value is not None and not 0 <= value < INFINITE:
                raise InputError(
                    f"expected a finite number >= 0, got {value}", field=f"job {self.name}: {key}"
                )
        if self.period is not None and not 0 < self.period < INFINITE:
            raise InputError(
                f"expected a finite number > 0, got {self.period}", field=f"job {self.name}: period"
            )


def named_apart(jobs: Sequence[Job]) -> list[Job]:
    """The jobs, later ones of an equal name numbered: ``name-2``, ``name-3``, ..."""
    given = {job.name for job in jobs}
    if len(given) == len(jobs):
        return list(jobs)
    last: dict[str, int] = {}
    apart = []
    for job in jobs:
        number = last.get(job.name, 0) + 1
        while number > 1 and f"{job.name}-{number}" in given:
            number += 1
        last[job.name] = number
        apart.append(job if number == 1 else replace(job, name=f"{job.name}-{number}"))
    return apart
