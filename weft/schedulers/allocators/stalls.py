"""Episodes that would never end: where nothing starts and nothing ends for longer than any task takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.errors import InputError
from weft.model.columns import Ints
from weft.model.elastic import MOST_TASK_STEPS, ElasticProblem
from weft.sim.elastic.state import State

IDLE = 1_000
"""World steps in which an allocator has placed nothing, though tasks wait and none runs."""
STUCK = 2 * MOST_TASK_STEPS
"""World steps in which nothing was placed and nothing ended, though tasks run."""


class Stalls:
    """Watches some environments of a batch."""

    def __init__(self, state: State, rows: Sequence[int], problem: ElasticProblem) -> None:
        self._state, self._rows, self._problem = state, np.array(rows), problem
        self._seen = np.full(len(rows), -1, np.int64)  # (len(rows),) arrivals, placements and ends so far
        self._since = np.zeros(len(rows), np.int64)  # (len(rows),) world step in which that changed

    def refuse(self) -> None:
        """Raise an error where nothing has happened for too long."""
        state, rows = self._state, self._rows
        running = state.num_running[rows].sum(axis=1)
        seen = state.arrived[rows] + running + 2 * state.done[rows]
        is_alive = state.done[rows] < state.arrived[rows]
        has_changed = (seen != self._seen) | ~is_alive
        now = state.now[rows]
        self._seen = seen
        self._since = np.where(has_changed, now, self._since)
        still = now - self._since
        self._raise(still, np.where(running == 0, IDLE, STUCK), rows)

    def _raise(self, still: Ints, most: Ints, rows: Ints) -> None:
        if not (still > most).any():
            return
        at = int(np.argmax(still > most))
        left = self._problem.num_tasks - int(self._state.done[rows[at]])
        raise InputError(
            f"nothing started and nothing ended in {int(still[at]):,} world steps, and {left} tasks are left",
            field="scheduler",
        )
