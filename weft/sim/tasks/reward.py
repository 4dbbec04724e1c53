"""What a step of the task view is worth: time, busy devices, imbalance and missed deadlines, with weights.

With elapsed time d of a step, of which time T counts, reward = scale x (- ``time`` T + ``busy`` U d
- ``imbalance`` I d - ``misses`` M u):

- T is the time that jobs spent in the system, all together (by default), or the elapsed time d itself;
- U is the mean share of devices that was busy during the step, each counted by the share of its slots that ran;
- I is the standard deviation over all devices of the share of time, from 0 to the end of the step, for which each
  was busy;
- M is the number of jobs that ended after their deadline during the step, or were dropped at it; u is the time unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weft.errors import InputError
from weft.model.graph import Floats
from weft.sim.jit import lean_inlined
from weft.sim.tasks.state import NUM_EXPIRED, NUM_MISSED, Tasks, TaskState, busy_time

JOBS, ELAPSED = "jobs", "elapsed"
TERMS = ("time", "busy", "imbalance", "misses")
"""In the order of ``Weights`` and of the terms of a step."""


@dataclass(frozen=True)
class Reward:
    """Weights of the terms; by default minus the time that jobs spend in the system."""

    of: str = JOBS
    """``jobs``: time of jobs in the system, for job times; ``elapsed``: time as it passes, for the makespan."""
    time: float = 1.0
    busy: float = 0.0
    imbalance: float = 0.0
    misses: float = 0.0

    def __post_init__(self) -> None:
        if self.of not in (JOBS, ELAPSED):
            raise InputError(f"expected {JOBS} or {ELAPSED}, got {self.of!r}", field="reward.of")
        for name in TERMS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < np.inf:
                raise InputError(f"expected a finite number >= 0, got {value!r}", field=f"reward.{name}")

    def weights(self, scale: float, time_unit: float) -> Weights:
        """As the kernel takes them."""
        return Weights(
            self.of == JOBS,
            float(self.time),
            float(self.busy),
            float(self.imbalance),
            float(self.misses) * time_unit,
            scale,
        )


class Weights(NamedTuple):
    """A :class:`Reward` for the kernel."""

    by_jobs: bool
    time: float
    busy: float
    imbalance: float
    misses: float
    scale: float


class Before(NamedTuple):
    """What was true when a step began."""

    now: float
    busy: float
    missed: int


@lean_inlined
def look_before(w: Tasks, s: TaskState, b: int) -> Before:
    """What the reward of a step is counted from."""
    return Before(s.now[b], _total_busy(w, s, b), s.count[b, NUM_MISSED] + s.count[b, NUM_EXPIRED])


@lean_inlined
def _total_busy(w: Tasks, s: TaskState, b: int) -> float:
    total = 0.0
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        total += busy_time(w, s, b, p)
    return total


@lean_inlined
def _deviation(w: Tasks, s: TaskState, b: int, total: float) -> float:
    """Standard deviation over devices of the time for which each was busy so far."""
    count, squares = w.device_ptr[b + 1] - w.device_ptr[b], 0.0
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        squares += (busy_time(w, s, b, p) - total / count) ** 2
    return np.sqrt(squares / count)


@lean_inlined
def reward_of(
    r: Weights, w: Tasks, s: TaskState, b: int, before: Before, time: float, terms: Floats
) -> float:
    """The reward of a step during which jobs spent so much time in the system; writes its terms."""
    now, total = s.now[b], _total_busy(w, s, b)
    elapsed, devices = now - before.now, w.device_ptr[b + 1] - w.device_ptr[b]
    missed = s.count[b, NUM_MISSED] + s.count[b, NUM_EXPIRED] - before.missed
    uneven = _deviation(w, s, b, total) / now * elapsed if elapsed > 0.0 else 0.0
    terms[0] = -(time if r.by_jobs else elapsed) * r.time * r.scale
    terms[1] = (total - before.busy) / devices * r.busy * r.scale
    terms[2] = -uneven * r.imbalance * r.scale
    terms[3] = -missed * r.misses * r.scale
    found = terms[0]
    for k in range(1, len(terms)):
        if terms[k] != 0.0:  # so that a zero keeps its sign
            found += terms[k]
    return found
