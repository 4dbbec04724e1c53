"""What a unit of slot time is worth, from the jobs that have arrived: prices of a dispatcher.

``weft/model/prices.py`` says what prices are. Here they follow a stream: every job that arrives adds
its work to a decaying sum per profile of run times, and a few rounds of multiplicative weights bring
the prices nearer to those of that sum. They start equal, and no job that is yet to come is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.model.graph import Floats, Ints
from weft.model.problem import Problem
from weft.sim.jit import inlined, kernel

DECAY = 0.97
"""What the work of a job counts for at the next arrival."""
ROUNDS = 10
"""Rounds of multiplicative weights at every arrival; the mean over them is the price."""
STEP = 0.1
"""How far a round moves the prices: the busiest class against an idle one, as a logarithm."""
NOTHING = 1e-60
"""A profile with this share of all work, after some 4,500 arrivals without it, moves no digit of any price."""


class Market(NamedTuple):
    """The tasks of a problem by their profile; nothing here depends on who has arrived."""

    run: Floats  # (num_tasks, num_classes)
    profile: Ints  # (num_tasks,) row of ``relative``; -1: takes no time
    slots: Floats  # (num_tasks,) held while it runs
    least: Floats  # (num_tasks,) shortest slot time
    relative: Floats  # (num_profiles, num_classes) run time over the shortest
    count: Floats  # (num_classes,) slots
    job_task_ptr: Ints  # (num_jobs + 1,)


class Worth(NamedTuple):
    """What is known of a stream so far; changed in place."""

    weight: Floats  # (num_profiles,) decayed work that has arrived
    share: Floats  # (num_classes,) price of a class times its slots, 1 in all


@inlined
def _round(m: Market, v: Worth, busy: Floats) -> None:
    """Let every profile use the class where it costs least; what is busy then becomes more expensive."""
    busy[:] = 0.0
    for g in range(len(v.weight)):
        if v.weight[g] > 0.0:
            best, least = np.int64(-1), np.inf
            for c in range(len(busy)):
                cost = m.relative[g, c] * v.share[c] / m.count[c] if m.count[c] > 0 else np.inf
                if cost < least:
                    best, least = np.int64(c), cost
            busy[best] += v.weight[g] * m.relative[g, best] / m.count[best]
    most, total = max(busy.max(), 1e-300), 0.0
    for c in range(len(busy)):
        v.share[c] *= np.exp(STEP * busy[c] / most)
        total += v.share[c]
    for c in range(len(busy)):
        v.share[c] /= total


@kernel
def price_arrival(m: Market, v: Worth, j: int, price: Floats, work: Floats) -> None:
    """Job j arrives: bring the prices of classes up to date and write what its tasks cost at them.

    ``price`` is (num_classes,), 1 on average over slots, ``work`` is (num_tasks,).
    """
    first, last = m.job_task_ptr[j], m.job_task_ptr[j + 1]
    for g in range(len(v.weight)):
        v.weight[g] *= DECAY
    for i in range(first, last):
        if m.profile[i] >= 0:
            v.weight[m.profile[i]] += m.least[i]
    busy, total = np.empty(len(price)), m.count.sum()
    price[:] = 0.0
    for _ in range(ROUNDS):
        _round(m, v, busy)
        for c in range(len(price)):
            price[c] += v.share[c] / ROUNDS
    for c in range(len(price)):
        price[c] = price[c] / m.count[c] * total if m.count[c] > 0 else 1.0
    for i in range(first, last):
        work[i] = np.inf
        for c in range(len(price)):
            if m.count[c] > 0:
                work[i] = min(work[i], m.run[i, c] * price[c])
        work[i] *= m.slots[i]


@kernel
def price_all(m: Market, v: Worth, arrived: Ints, prices: Floats, work: Floats) -> None:
    """Jobs arrive in this order; row k of ``prices`` holds from the k-th on, until the next."""
    for k in range(len(arrived)):
        price_arrival(m, v, arrived[k], prices[k], work)


def market_of(problem: Problem) -> Market:
    """The tasks of a problem by their profile."""
    is_there = problem.device_counts > 0
    run = np.array(problem.run_times, dtype=np.float64, order="C")
    least = run[:, is_there].min(axis=1, initial=np.inf)
    takes_time = least > 0
    relative = np.round(run[takes_time] / least[takes_time, None], 9)
    rows, place = np.unique(relative, axis=0, return_inverse=True)
    profile = np.full(len(run), -1, np.int64)
    profile[takes_time] = place.ravel()
    return Market(
        run,
        profile,
        problem.task_slots,
        least * problem.task_slots,
        np.ascontiguousarray(rows.reshape(-1, run.shape[1])),
        problem.slot_counts.astype(np.float64),
        problem.offsets.astype(np.int64),
    )


def new_worth(m: Market) -> Worth:
    """Before the first job: nothing has arrived, and all slots cost the same."""
    return Worth(np.zeros(len(m.relative)), m.count / m.count.sum())


def price_problems(problems: Sequence[Problem], prices: Floats, work: Floats) -> None:
    """Prices of all arrivals of problems side by side, and what their tasks cost at them; both written in place.

    ``prices`` is (num_jobs, num_classes) by arrival, or (0, 0): not wanted; ``work`` is (num_tasks,).
    """
    first_task = first_job = 0
    for problem in problems:
        market, count = market_of(problem), len(problem.jobs)
        arrived = np.argsort([job.release for job in problem.jobs], kind="stable").astype(np.int64)
        found = np.ones((count, problem.cluster.num_classes))
        own_work = work[first_task : first_task + problem.num_tasks]
        price_all(market, new_worth(market), arrived, found, own_work)
        if len(prices):
            prices[first_job : first_job + count, : found.shape[1]] = found
        first_task, first_job = first_task + problem.num_tasks, first_job + count


class LivePrices:
    """The prices of one cluster while jobs arrive, one by one; profiles are added as they come.

    ``count`` is the number of slots per class.
    """

    def __init__(self, count: Floats) -> None:
        num_classes = len(count)
        self._count = count.astype(np.float64)
        self._place: dict[bytes, int] = {}
        self._relative = np.zeros((0, num_classes))
        self._worth = Worth(np.zeros(0), self._count / self._count.sum())
        self._price = np.ones(num_classes)

    def arrive(self, run: Floats, slots: Floats, prices: Floats, k: int, work: Floats) -> None:
        """A job with these run times is the k-th to arrive: write its prices, if the rule has room, and its work.

        ``run`` is (num_tasks, num_classes), ``slots`` and ``work`` are (num_tasks,).
        """
        least = run[:, self._count > 0].min(axis=1, initial=np.inf)
        takes_time = least > 0
        profile = np.full(len(run), -1, np.int64)
        profile[takes_time] = self._profiles(np.round(run[takes_time] / least[takes_time, None], 9))
        whole = np.array([0, len(run)], np.int64)
        market = Market(run, profile, slots, least * slots, self._relative, self._count, whole)
        price_arrival(market, self._worth, 0, self._price, work)
        self.write(prices, k)

    def _profiles(self, rows: Floats) -> list[int]:
        keys = [row.tobytes() for row in rows]
        if any(key not in self._place for key in keys):
            self._add_profiles(rows)
        return [self._place[key] for key in keys]

    def _add_profiles(self, rows: Floats) -> None:
        """All profiles in one order, whoever came first: sums are then the same; those of no weight go."""
        weight = self._worth.weight
        counts = weight > NOTHING * weight.sum()
        kept = self._relative[counts]
        relative, place = np.unique(np.concatenate([kept, rows]), axis=0, return_inverse=True)
        self._relative = np.ascontiguousarray(relative)
        self._worth = self._worth._replace(weight=np.zeros(len(relative)))
        self._worth.weight[place.ravel()[: len(kept)]] = weight[counts]
        self._place = {row.tobytes(): g for g, row in enumerate(self._relative)}

    def write(self, prices: Floats, k: int) -> None:
        """Write the prices that hold, if the rule has room for them."""
        if 0 <= k < len(prices):
            prices[k] = self._price

    def snapshot(self) -> dict[str, list[float]]:
        """Everything that changes, as plain data."""
        return {
            **{name: column.tolist() for name, column in self._worth._asdict().items()},
            "price": self._price.tolist(),
            "profiles": [[x if np.isfinite(x) else None for x in row] for row in self._relative.tolist()],
        }

    def restore(self, stored: Mapping[str, list[Any]]) -> None:
        """Go back to a snapshot."""
        profiles = np.array(stored["profiles"], dtype=np.float64).reshape(-1, len(self._count))
        self._relative = np.where(np.isnan(profiles), np.inf, profiles)
        self._place = {row.tobytes(): g for g, row in enumerate(self._relative)}
        share = np.array(stored["share"], dtype=np.float64)
        if len(stored["weight"]) != len(profiles) or share.shape != self._count.shape:
            raise ValueError("expected a weight per profile and a share per class")
        self._worth = Worth(np.array(stored["weight"], dtype=np.float64), share)
        self._price[:] = stored["price"]
