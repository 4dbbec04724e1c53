"""Which slots of its device an execution is drawn on."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from weft.model.graph import Ints
from weft.model.schedule import Schedule


@dataclass(frozen=True)
class Bars:
    """Where each execution is drawn: the slots of its device from ``low`` up to ``high``."""

    row: Ints  # (num_bars,) row of the schedule
    low: Ints  # (num_bars,)
    high: Ints  # (num_bars,)


def pack(schedule: Schedule) -> Bars:
    """Slots for every execution; in several pieces where no free stretch is wide enough."""
    slots = np.concatenate([job.graph.slots for job in schedule.problem.jobs])
    num_slots = schedule.problem.cluster.slots.tolist()
    free = [[(0, n)] for n in num_slots]
    running: list[list[tuple[float, int, list[tuple[int, int]]]]] = [[] for _ in num_slots]
    tolerance = 1e-9 * max(schedule.makespan, 1.0)
    bars: list[tuple[int, int, int]] = []
    for row in _leads(schedule):
        d, need = int(schedule.device[row]), int(slots[schedule.task[row]])
        while running[d] and running[d][0][0] <= schedule.start[row] + tolerance:
            free[d] = _merge(free[d] + heapq.heappop(running[d])[2])
        pieces, free[d] = _take(free[d], min(need, num_slots[d]))
        heapq.heappush(running[d], (float(schedule.finish[row]), row, pieces))
        bars += [(row, low, high) for low, high in pieces or [(0, min(need, num_slots[d]))]]
    return Bars(*np.array(bars, dtype=np.int64).reshape(-1, 3).T)


def _leads(schedule: Schedule) -> list[int]:
    """Rows that ran, one per batch, by start."""
    seen: dict[tuple[int, int], int] = {}
    for row in np.flatnonzero(schedule.device >= 0).tolist():
        batch = int(schedule.batch[row])
        seen.setdefault((int(schedule.device[row]), batch if batch >= 0 else -1 - row), row)
    return list(seen.values())


def _take(free: list[tuple[int, int]], need: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The first free stretch wide enough, else pieces from the bottom; and what stays free."""
    whole = next((span for span in free if span[1] - span[0] >= need), None)
    taken: list[tuple[int, int]] = []
    left: list[tuple[int, int]] = []
    for low, high in free:
        width = min(need, high - low) if whole is None or whole == (low, high) else 0
        if width:
            taken.append((low, low + width))
            need -= width
        if low + width < high:
            left.append((low + width, high))
    return taken, left


def _merge(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if merged and merged[-1][1] >= low:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged
