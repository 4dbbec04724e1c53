"""Devices that are away for a while, in a simulated run of the task view.

What runs on a device when it goes is cut short and starts again elsewhere or later; data that tasks
left there stays within reach. Dispatchers do not know of an outage before it happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weft.errors import InfeasibleError, InputError
from weft.model.problem import Problem
from weft.sim.tasks.moves import join, lose
from weft.sim.tasks.state import Tasks, TaskState


class Outage(NamedTuple):
    """A device is lost at ``start`` and joins again at ``until``; infinite: never."""

    device: int
    start: float
    until: float = float("inf")


class Move(NamedTuple):
    """A device goes or comes."""

    time: float
    comes: bool
    device: int

    def carry_out(self, w: Tasks, s: TaskState, b: int) -> None:
        """Lose or join the device of environment b, at its time."""
        s.now[b] = max(s.now[b], self.time)
        (join if self.comes else lose)(w, s, b, int(w.device_ptr[b]) + self.device)


def moves_of(outages: Sequence[Outage], problem: Problem) -> list[Move]:
    """All that goes and comes, by time; who comes at one time comes before others go."""
    found = []
    for k, (device, start, until) in enumerate(outages):
        field = f"outages[{k}]"
        if not 0 <= device < problem.cluster.num_devices:
            raise InputError(
                f"expected a device below {problem.cluster.num_devices}, got {device}", field=field
            )
        if not 0 <= start < until:
            raise InputError(f"expected 0 <= start < until, got {start} and {until}", field=field)
        if any(one.device == device and one.start <= until and start <= one.until for one in outages[:k]):
            raise InputError(f"expected one outage of device {device} at a time", field=field)
        found += [Move(start, False, device), Move(until, True, device)]
    return sorted(
        (move for move in found if move.time < np.inf), key=lambda move: (move.time, not move.comes)
    )


def extra_rows(moves: Sequence[Move], problem: Problem) -> int:
    """Executions that may be cut short."""
    slots = problem.cluster.slots
    return sum(min(int(slots[one.device]), problem.num_tasks) for one in moves if not one.comes)


def refuse_unfinished(problem: Problem, s: TaskState, first_job: int) -> None:
    """A job that cannot end, because no device is left for some task, is an error."""
    for j, job in enumerate(problem.jobs, first_job):
        if np.isnan(s.job_finish[j]) and not s.is_expired[j]:
            raise InfeasibleError(
                f"job {job.name!r} does not end: no device is left for some task", field="outages"
            )
