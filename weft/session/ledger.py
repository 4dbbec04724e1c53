"""Who runs what: tasks given to lanes, their batches, and how often each was tried."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Run:
    """A task that was given to a lane and has not ended."""

    lane: int
    batch: int
    attempt: int
    """1 for the first."""
    start: float | None = None
    """When it began to run; None: it does not run yet."""
    vacated: float | None = None
    """When its lane became free of it, if that was before its end."""
    is_counted: bool = False
    """Whether its branches were reported at the start."""
    is_dropped: bool = False
    """Whether its job has failed meanwhile."""


class Ledger:
    """Runs by item; a lane is free when all tasks of its batch have ended, or it was vacated."""

    def __init__(self, num_lanes: int) -> None:
        self.runs: dict[int, Run] = {}
        self._tries: dict[int, list[int]] = {}  # item to attempts, failures and losses so far
        self._num_batches = 0
        self._batch = [-1] * num_lanes  # what every lane runs
        self._left = [0] * num_lanes  # tasks of that batch that have not ended
        self._since = [-math.inf] * num_lanes  # when that batch began

    def give(self, lane: int, items: Sequence[int], time: float) -> list[Run]:
        """These tasks go to a lane as one batch."""
        batch = self._num_batches
        self._num_batches += 1
        self._batch[lane], self._left[lane], self._since[lane] = batch, len(items), time
        runs = [Run(lane, batch, self._tries[item][0] + 1 if item in self._tries else 1) for item in items]
        self.runs.update(zip(items, runs, strict=True))
        return runs

    def begin(self, run: Run, time: float) -> float:
        """A task runs; returns how much later than thought its batch began."""
        run.start = time
        since = self._since[run.lane]
        if run.batch != self._batch[run.lane] or time <= since:
            return 0.0
        self._since[run.lane] = time
        return time - since

    def leave(self, item: int) -> bool:
        """A task has left its lane; returns whether the lane is free with it."""
        run = self.runs.pop(item)
        if run.batch != self._batch[run.lane]:
            return False
        self._left[run.lane] -= 1
        return self._left[run.lane] == 0

    def vacate(self, run: Run, time: float) -> bool:
        """The lane of a run takes other work; returns whether it was this one's."""
        if run.batch != self._batch[run.lane]:
            return False
        self._batch[run.lane] = -1
        run.vacated = time
        return True

    def lose(self, lanes: Sequence[int]) -> list[tuple[int, Run]]:
        """Lanes are gone; returns what they ran."""
        for lane in lanes:
            self._batch[lane] = -1
        lost = [(item, run) for item, run in self.runs.items() if run.lane in lanes]
        for item, _ in lost:
            del self.runs[item]
        return lost

    def count_failure(self, item: int, run: Run) -> int:
        """A run has failed; returns how often its task has."""
        tries = self._tried(item, run)
        tries[1] += 1
        return tries[1]

    def count_loss(self, item: int, run: Run) -> int:
        """A run was on a device that is lost; returns how often its task was running on such a one."""
        tries = self._tried(item, run)
        tries[2] += run.start is not None
        return tries[2]

    def _tried(self, item: int, run: Run) -> list[int]:
        tries = self._tries.setdefault(item, [0, 0, 0])
        tries[0] = run.attempt
        return tries

    def forget(self, items: range) -> None:
        """The job of these tasks is over."""
        if self._tries:
            for item in items:
                self._tries.pop(item, None)

    def snapshot(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "runs": [[item, asdict(run)] for item, run in self.runs.items()],
            "tries": [[item, *tries] for item, tries in self._tries.items()],
            "num_batches": self._num_batches,
            "batch": list(self._batch),
            "left": list(self._left),
            "since": [time if math.isfinite(time) else None for time in self._since],
        }

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Go back to a snapshot; whatever does not fit raises a KeyError, TypeError or ValueError."""
        num_lanes = len(self._batch)
        for name in ("batch", "left", "since"):
            if len(stored[name]) != num_lanes:
                raise ValueError(f"expected {num_lanes} lanes, got {len(stored[name])}")
        self.runs = {int(item): Run(**run) for item, run in stored["runs"]}
        self._tries = {
            int(item): [int(made), int(failed), int(lost)] for item, made, failed, lost in stored["tries"]
        }
        self._num_batches = int(stored["num_batches"])
        self._batch = [int(n) for n in stored["batch"]]
        self._left = [int(n) for n in stored["left"]]
        self._since = [-math.inf if time is None else float(time) for time in stored["since"]]
