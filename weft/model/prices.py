"""What a unit of slot time is worth when everything is busy: prices of classes, and priced work.

Let every kind of task be split over the classes so that the busiest class is as little busy as
possible. The dual of this linear programme prices the time of each class: a class that everything
wants is expensive. A stream of jobs is stable while the priced work that arrives stays below one unit per
slot and unit of time. Solved by multiplicative weights, without a solver. Only slots are counted: memory and
other resources may leave some of them empty.

These are prices of a whole problem, for those who know it: generators and tests. Dispatchers price what
has arrived, see ``sim/tasks/prices.py``.
"""

from __future__ import annotations

import numpy as np

from weft.model.graph import Floats
from weft.model.problem import Problem

ROUNDS = 400
FIRST_STEP = 0.5


def class_prices(problem: Problem) -> Floats:
    """Price of a unit of time on a slot of every class, 1 on average over slots; from expected run times."""
    counts, run = problem.slot_counts, problem.run_times
    if not problem.num_tasks or len(counts) == 1:
        return np.ones(len(counts))
    weights, table = _grouped(run[:, counts > 0], problem.task_slots)
    present = counts[counts > 0]
    share = present / present.sum()
    best, best_value = share, -np.inf
    for k in range(ROUNDS):
        cost = table * (share / present)
        cheapest = cost.argmin(axis=1)
        rows = np.arange(len(table))
        value = float((weights * cost[rows, cheapest]).sum())
        if value > best_value:
            best, best_value = share, value
        busy = np.bincount(cheapest, weights * table[rows, cheapest], len(present)) / present
        step = FIRST_STEP / np.sqrt(k + 1.0)
        share = share * np.exp(step * busy / max(busy.max(), 1e-300))
        share = share / share.sum()
    prices = np.ones(len(counts))
    prices[counts > 0] = best / present * present.sum()
    return prices


def priced_work(problem: Problem, prices: Floats) -> Floats:
    """What the slots of every task cost for its run time, on the class where they cost least."""
    present = problem.device_counts > 0
    cost: Floats = (problem.run_times[:, present] * prices[present]).min(axis=1) * problem.task_slots
    return cost


def _grouped(run: Floats, slots: Floats) -> tuple[Floats, Floats]:
    """Weight in slot time and relative run times of tasks that are alike up to their length and slots."""
    best = run.min(axis=1)
    is_some = best > 0
    relative = np.round(run[is_some] / best[is_some, None], 9)
    rows, inverse = np.unique(relative, axis=0, return_inverse=True)
    weights = np.bincount(inverse.ravel(), (best * slots)[is_some], len(rows))
    return np.asarray(weights, dtype=np.float64), rows
