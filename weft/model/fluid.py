"""The fluid bound of periodic work: how much of the devices it takes if every task may be cut at will.

``fluid_load`` is the least share z of all devices in use with every task split over classes; above 1 misses are
certain. ``fluid_misses`` is the least share of instances, the mean over series by weight, that must miss.
Both are small linear programmes, solved here by the simplex method with Bland's rule.
"""

from __future__ import annotations

import numpy as np

from weft.errors import InputError
from weft.model.graph import Floats, Ints
from weft.model.problem import Problem
from weft.model.series import series_of

TINY = 1e-11
MOST_STEPS = 10_000


def fluid_load(problem: Problem) -> float:
    """z*: the least share of the slots of every class that the series need in the long run."""
    use, _, counts = _uses(problem)
    num, width = use.shape
    can = np.isfinite(use)
    cost = np.zeros(num * width + 1)
    cost[-1] = 1.0  # as much of everything as fits
    rows = np.zeros((num + width, num * width + 1))
    for k in range(num):
        rows[k, k * width : (k + 1) * width] = np.where(can[k], -1.0, 0.0)
        rows[k, -1] = 1.0
    for c in range(width):
        rows[num + c, c : num * width : width] = np.where(can[:, c], use[:, c], 0.0)
    most, _ = simplex(cost, rows, np.r_[np.zeros(num), counts])
    return 1.0 / most if most > 0 else np.inf


def fluid_misses(problem: Problem) -> float:
    """The least share of instances that miss, whatever is done: the mean over series by weight."""
    use, owner, counts = _uses(problem)
    num, width = use.shape
    can, names = np.isfinite(use), [*series_of(problem)]
    weight = np.array([problem.jobs[jobs[0]].weight for jobs in series_of(problem).values()])
    if not weight.sum():
        return 0.0
    first = num * width
    cost = np.r_[np.zeros(first), weight / weight.sum()]
    rows = np.zeros((num + width + len(names), first + len(names)))
    for k in range(num):
        rows[k, k * width : (k + 1) * width] = np.where(can[k], -1.0, 0.0)
        rows[k, first + owner[k]] = 1.0
    for c in range(width):
        rows[num + c, c:first:width] = np.where(can[:, c], use[:, c], 0.0)
    rows[num + width :, first:] = np.eye(len(names))
    most, _ = simplex(cost, rows, np.r_[np.zeros(num), counts, np.ones(len(names))])
    return max(0.0, 1.0 - most)


def _uses(problem: Problem) -> tuple[Floats, Ints, Floats]:
    """Share of one slot that every task of a series takes on every class, its series, and slots per class.

    Tasks of one series whose run times are in proportion are one: they are split alike.
    """
    table: list[Floats] = []
    owner: list[int] = []
    for number, jobs in enumerate(series_of(problem).values()):
        rate = float(np.mean([1.0 / (problem.jobs[j].interval or np.inf) for j in jobs.tolist()]))
        first, last = problem.offsets[jobs[0]], problem.offsets[jobs[0] + 1]
        merged: dict[bytes, Floats] = {}
        for row in problem.least_run_times[first:last]:
            shape = np.round(row / row.min(), 9).tobytes()
            merged[shape] = merged.get(shape, np.zeros(len(row))) + row * rate
        table += [*merged.values()]
        owner += [number] * len(merged)
    if not table:
        raise InputError("expected periodic jobs, got none", field="jobs")
    return np.array(table), np.array(owner, np.int64), problem.slot_counts


def simplex(cost: Floats, rows: Floats, limit: Floats) -> tuple[float, Floats]:
    """The greatest ``cost @ x`` with ``rows @ x <= limit`` and x >= 0, for limits >= 0; and x."""
    num, width = rows.shape
    table = np.zeros((num + 1, width + num + 1))
    table[:num, :width], table[:num, width : width + num], table[:num, -1] = rows, np.eye(num), limit
    table[num, :width] = -cost
    basis = np.arange(width, width + num)
    for _ in range(MOST_STEPS):
        entering = np.flatnonzero(table[num, :-1] < -TINY)
        if not len(entering):
            x = np.zeros(width + num)
            x[basis] = table[:num, -1]
            return float(table[num, -1]), x[:width]
        j = entering[0]
        column = table[:num, j]
        usable = np.flatnonzero(column > TINY)
        if not len(usable):
            return np.inf, np.full(width, np.inf)
        ratio = table[usable, -1] / column[usable]
        ties = usable[ratio <= ratio.min() + TINY]
        i = ties[np.argmin(basis[ties])]
        table[i] /= table[i, j]
        others = np.arange(num + 1) != i
        table[others] -= np.outer(table[others, j], table[i])
        basis[i] = j
    raise InputError("the linear programme did not end", field="fluid")
