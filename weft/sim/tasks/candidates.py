"""What a policy sees of the task view: candidates to start, their features, names and version.

A candidate is a ready task and a device that can take it now. Of the ready tasks the first that can start
are listed, in the order of ``priced`` (least priced work of the job left, critical path first); of the
devices that differ in nothing but their number the one where the task finishes first. The last choice
waits for the next event, or until the data of a listed task has come. What a base rule would do, ``priced``
if nothing else is said, is always among the choices, and marked.

Everything is expected, nothing is realised. Times are relative to the mean of the shortest run times of
the ready tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weft.errors import InputError
from weft.model.graph import Floats, Ints
from weft.model.problem import Problem
from weft.sim.jit import kernel, lean_inlined, lean_kernel
from weft.sim.tasks.prices import price_problems
from weft.sim.tasks.ranks import rank_of
from weft.sim.tasks.rules import (
    BY_WEIGHTS,
    LATE,
    TaskRule,
    best_in_pool,
    expected_room,
    first_start,
    write_ready,
)
from weft.sim.tasks.state import (
    LOOK,
    NUM_DONE,
    NUM_EXPIRED,
    Facts,
    Tasks,
    TaskState,
    data_ready,
    may_use,
)
from weft.sim.tasks.weights import AT_RATIO, PRICED, about_all

FEATURE_VERSION = "candidates/2"
WORLD = (
    "ready tasks",
    "devices with room",
    "jobs in the system",
    "work left per slot",
    "tasks listed",
    "next expected end",
)
"""Counts and times as log(1 + x), shares as they are."""
COLUMNS = (
    "starts",
    "waits",
    "run time over the shortest",
    "run time",
    "time until the data is there",
    "finish",
    "finish over the earliest on any device",
    "cost above the cheapest device",
    "upward rank over the job's",
    "upward rank",
    "work left of the job",
    "age of the job",
    "share of the job left",
    "price of the device",
    "behind the first in order",
    "place in order",
    "share of the pool that is busy",
    "share of the listed that are fastest there",
    "children",
    "what the base rule does",
)
"""Times and counts as log(1 + x), ratios as logarithms, shares and flags as they are."""
BASE = COLUMNS.index("what the base rule does")
MOST = 8.0
"""No feature is larger."""


class CandidateSight(NamedTuple):
    """How many candidates are listed."""

    tasks: int = 32  # ready tasks
    pools: int = 4  # devices of each, one per pool: where it finishes first

    @property
    def num_choices(self) -> int:
        """Candidates at most, and the wait."""
        return self.tasks * self.pools + 1

    @property
    def num_features(self) -> int:
        """Length of an observation: the world, then all candidates."""
        return len(WORLD) + self.num_choices * len(COLUMNS)


class Known(NamedTuple):
    """What is known of tasks beforehand; prices hold from the so-many-th arrival on."""

    rule: TaskRule  # orders ready tasks as ``priced`` does, and has the prices
    base: TaskRule  # with virtual queues: what it would do is marked
    least: Floats  # (num_tasks,) shortest expected run time
    rank: Floats  # (num_tasks,) upward rank


class Listed(NamedTuple):
    """The candidates of an environment; written in place."""

    task: Ints  # (num_choices,)
    device: Ints  # (num_choices,)
    count: Ints  # (1,) how many there are
    later: Floats  # (1,) when the next data of a listed task comes, infinite: none is on its way


class Pools(NamedTuple):
    """What is looked up of every pool before candidates are listed; written in place."""

    soonest: Floats  # (num_pools,) when one of its devices should have room
    first: Ints  # (num_pools,) that device, -1: none is up
    busy: Floats  # (num_pools,) share of devices that run something
    fastest: Floats  # (num_pools,) share of the first ready tasks that run fastest there
    base: Ints  # (2,) the task that the base rule starts first and its device, -1: nothing


def feature_names(sight: CandidateSight) -> list[str]:
    """One name per feature, in order."""
    return [*WORLD, *(f"{column} {k}" for k in range(sight.num_choices) for column in COLUMNS)]


def check_sight(sight: CandidateSight, place: str = "sight") -> CandidateSight:
    """The sight, if its numbers make sense."""
    for name, value in sight._asdict().items():
        if type(value) is not int or not 1 <= value <= 1024:
            raise InputError(
                f"expected a whole number from 1 to 1024, got {value!r}", field=f"{place}.{name}"
            )
    return sight


def rule_of(problems: Sequence[Problem]) -> TaskRule:
    """The order of the list, without prices yet; as a rule it starts nothing by itself."""
    num_jobs = sum(len(problem.jobs) for problem in problems)
    width = max(problem.cluster.num_classes for problem in problems)
    price, tally = np.ones((num_jobs, width)), np.zeros((num_jobs, 2))
    return TaskRule(BY_WEIGHTS, LATE, 0, np.array(PRICED), about_all(problems), price, tally)


def known_of(problems: Sequence[Problem], rule: TaskRule) -> Known:
    """What is known of the tasks of problems side by side."""
    least = [problem.best_run_times for problem in problems]
    rank = np.concatenate([rank_of(problem) for problem in problems])
    return Known(rule, base_of(rule), np.concatenate(least).astype(np.float64), rank)


def base_of(rule: TaskRule) -> TaskRule:
    """``priced``: the order of the list as a rule that starts tasks; shares all columns with it."""
    return rule._replace(look=LOOK)


def prepare(problems: Sequence[Problem], s: TaskState) -> Known:
    """The same with the prices of all arrivals; writes work of the tasks into an empty state."""
    rule = rule_of(problems)
    price_problems(problems, rule.price, s.work)
    return known_of(problems, rule)


@lean_inlined
def _log1p(x: float) -> float:
    return min(np.log1p(max(x, 0.0)), MOST)


@lean_inlined
def _log_ratio(x: float, y: float) -> float:
    """Logarithm of x / y, at most MOST from 0; 0 where either is."""
    if x <= 0.0 or y <= 0.0:
        return 0.0
    return max(-MOST, min(np.log(x / y), MOST))


@lean_inlined
def _unit(known: Known, ready: Ints, count: int) -> float:
    total = 0.0
    for k in range(count):
        total += known.least[ready[k]]
    return max(total / max(count, 1), 1e-300)


@lean_kernel
def _look_at_pools(w: Tasks, s: TaskState, b: int, i: int, pools: Pools) -> float:
    """Fill all but ``fastest``; returns the next expected end of what runs."""
    end = np.inf
    for pool in range(w.pool_ptr[b], w.pool_ptr[b + 1]):
        at = pool - w.pool_ptr[b]
        low, high = w.pool_device_ptr[pool], w.pool_device_ptr[pool + 1]
        pools.soonest[at], pools.first[at], pools.busy[at] = np.inf, -1, 0.0
        for k in range(low, high):
            p = w.pool_devices[k]
            if not s.is_up[p]:
                continue
            room = expected_room(w, s, b, i, p)
            if room < pools.soonest[at]:
                pools.soonest[at], pools.first[at] = room, p
            row = s.running[p]
            pools.busy[at] += (1.0 if row >= 0 else 0.0) / (high - low)
            while row >= 0:
                end = min(end, max(s.row_expected[row], s.now[b]))
                row = s.after[row]
    return end


@lean_kernel
def _count_fastest(w: Tasks, b: int, ready: Ints, count: int, pools: Pools) -> None:
    """Fill ``fastest`` from the first ``count`` ready tasks."""
    pools.fastest[:] = 0.0
    for k in range(count):
        best, least = np.int64(-1), np.inf
        for pool in range(w.pool_ptr[b], w.pool_ptr[b + 1]):
            p = w.pool_devices[w.pool_device_ptr[pool]]
            if may_use(w, b, ready[k], p) and w.run[ready[k], w.device_class[p]] < least:
                best, least = pool - w.pool_ptr[b], w.run[ready[k], w.device_class[p]]
        if best >= 0:
            pools.fastest[best] += 1.0 / count


@lean_inlined
def _insert(count: int, device: Ints, finish: Floats, p: int, end: float) -> int:
    """Keep the devices with the earliest finishes, in order; returns how many there are."""
    at = count
    if count == len(device):
        if end >= finish[count - 1]:
            return count
        at = count - 1
    while at > 0 and finish[at - 1] > end:
        device[at], finish[at] = device[at - 1], finish[at - 1]
        at -= 1
    device[at], finish[at] = p, end
    return count + 1 if count < len(device) else count


@lean_kernel
def _options(
    known: Known, w: Tasks, f: Facts, s: TaskState, b: int, i: int, taken: int, pools: Pools, device: Ints,
    finish: Floats,
) -> tuple[int, float, float]:  # fmt: skip
    """Devices that can take task i now, one per pool, earliest finish first, as many as there is room for.

    ``taken`` is what a base rule gives it, -1: none; of its pool it is listed, and it is never left out.
    Returns how many, the earliest finish on any device and the least cost: a finish with the price of its time.
    """
    count, earliest, cheapest, kept = np.int64(0), np.inf, np.inf, 0.0
    arrival = w.job_ptr[b] + s.next_job[b] - 1
    for pool in range(w.pool_ptr[b], w.pool_ptr[b + 1]):
        at = pool - w.pool_ptr[b]
        c = w.device_class[w.pool_devices[w.pool_device_ptr[pool]]]
        if pools.first[at] < 0 or not may_use(w, b, i, pools.first[at]):
            continue
        p, end = best_in_pool(w, f, s, b, i, pool)
        if taken >= 0 and w.pool[taken] == pool:
            p, end = taken, max(s.now[b], data_ready(w, f, s, b, i, taken)) + w.run[i, c]
            kept = end
        if p >= 0:
            count = _insert(count, device, finish, p, end)
        else:
            ready = data_ready(w, f, s, b, i, pools.first[at])
            end = max(pools.soonest[at], ready) + w.run[i, c]
        earliest = min(earliest, end)
        cheapest = min(cheapest, end + known.rule.price[arrival, c] * w.run[i, c])
    if taken >= 0:
        at = count - 1
        while at > 0 and device[at] != taken:
            at -= 1
        if device[at] != taken:
            device[count - 1], finish[count - 1] = taken, kept
    return count, earliest, cheapest


@lean_inlined
def _write_task(known: Known, w: Tasks, s: TaskState, b: int, i: int, unit: float, out: Floats) -> None:
    """The features of a candidate that its task alone has."""
    j = w.job[i]
    out[0] = 1.0
    out[8] = known.rule.about[i, AT_RATIO]
    out[9] = _log1p(known.rank[i] / unit)
    out[10] = _log1p(s.job_left[j] / unit)
    out[11] = _log1p((s.now[b] - w.job_release[j]) / unit)
    out[12] = s.job_open[j] / (w.job_task_ptr[j + 1] - w.job_task_ptr[j])
    out[18] = _log1p(np.float64(w.succ_ptr[i + 1] - w.succ_ptr[i]))


@lean_inlined
def _write_place(
    known: Known, w: Tasks, s: TaskState, b: int, i: int, p: int, pools: Pools, unit: float, start: float,
    earliest: float, cheapest: float, out: Floats,
) -> None:  # fmt: skip
    """The features of a candidate that depend on its device."""
    now, c, at = s.now[b], w.device_class[p], w.pool[p] - w.pool_ptr[b]
    run, price = w.run[i, c], known.rule.price[w.job_ptr[b] + s.next_job[b] - 1, c]
    out[2] = _log_ratio(run, known.least[i])
    out[3] = _log1p(run / unit)
    out[4] = _log1p((start - now) / unit)
    out[5] = _log1p((start + run - now) / unit)
    out[6] = _log_ratio(start + run - now, earliest - now)
    out[7] = _log1p((start + run + price * run - cheapest) / unit)
    out[13] = _log_ratio(price, 1.0)
    out[16], out[17] = pools.busy[at], pools.fastest[at]


@lean_inlined
def _write_world(w: Tasks, s: TaskState, b: int, unit: float, shown: float, end: float, out: Floats) -> None:
    left = 0.0
    for j in range(w.job_ptr[b], w.job_ptr[b + 1]):
        if not s.is_expired[j]:
            left += s.job_left[j]
    devices, slots = np.float64(w.device_ptr[b + 1] - w.device_ptr[b]), 0.0
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        slots += w.capacity[p, 0]
    out[0] = _log1p(np.float64(s.num_ready[b]))
    out[1] = s.num_free[b] / devices
    out[2] = _log1p(np.float64(s.next_job[b] - s.count[b, NUM_DONE] - s.count[b, NUM_EXPIRED]))
    out[3] = _log1p(left / (unit * slots))
    out[4] = shown
    out[5] = _log1p((end - s.now[b]) / unit) if end < np.inf else 0.0


@lean_kernel
def _write_candidates(
    sight: CandidateSight, known: Known, w: Tasks, f: Facts, s: TaskState, b: int, ready: Ints, pools: Pools,
    device: Ints, finish: Floats, found: Listed, out: Floats,
) -> int:  # fmt: skip
    """List the first ready tasks that can start, with their devices; returns how many tasks.

    What the base rule starts is listed, and marked.
    """
    base = pools.base[0]
    missing = base >= 0
    width, shown, order = len(COLUMNS), np.int64(0), 0.0
    unit = _unit(known, ready, len(ready))
    for i in ready:
        if missing and shown == sight.tasks - 1 and i != base:
            continue
        taken = pools.base[1] if i == base else np.int64(-1)
        count, earliest, cheapest = _options(known, w, f, s, b, i, taken, pools, device, finish)
        if count == 0:
            continue
        missing = missing and i != base
        score = np.log(max(s.job_left[w.job[i]], 1e-300)) - known.rule.about[i, AT_RATIO]
        order = score if shown == 0 else order
        for m in range(count):
            n, p = found.count[0], device[m]
            start = max(s.now[b], data_ready(w, f, s, b, i, p))
            if start > s.now[b]:
                found.later[0] = min(found.later[0], start)
            row = out[len(WORLD) + n * width : len(WORLD) + (n + 1) * width]
            _write_task(known, w, s, b, i, unit, row)
            _write_place(known, w, s, b, i, p, pools, unit, start, earliest, cheapest, row)
            row[14], row[15] = min(score - order, MOST), shown / sight.tasks
            row[BASE] = 1.0 if p == taken else 0.0
            found.task[n], found.device[n] = i, p
            found.count[0] += 1
        shown += 1
        if shown == sight.tasks:
            break
    return shown


@kernel
def list_candidates(
    sight: CandidateSight, known: Known, w: Tasks, f: Facts, s: TaskState, b: int, found: Listed, out: Floats
) -> bool:
    """Write candidates and observation of environment b; returns whether it may wait.

    It may while something runs or data is on its way: then something will happen, whether or not jobs come.
    """
    out[:] = 0.0
    found.count[0], found.later[0] = 0, np.inf
    ready = np.empty(s.num_ready[b], np.int64)
    if write_ready(known.rule, w, s, b, ready) == 0 or s.num_free[b] == 0:
        return True
    num = w.pool_ptr[b + 1] - w.pool_ptr[b]
    pools = Pools(np.empty(num), np.empty(num, np.int64), np.empty(num), np.empty(num), np.empty(2, np.int64))
    end = _look_at_pools(w, s, b, ready[0], pools)
    _count_fastest(w, b, ready, min(len(ready), sight.tasks), pools)
    device, finish = np.empty(sight.pools, np.int64), np.empty(sight.pools)
    pools.base[0], pools.base[1] = first_start(known.base, w, f, s, b)
    shown = _write_candidates(sight, known, w, f, s, b, ready, pools, device, finish, found, out)
    _write_world(w, s, b, _unit(known, ready, len(ready)), shown / sight.tasks, end, out)
    can_wait = end < np.inf or found.later[0] < np.inf
    last = len(out) - len(COLUMNS)
    if can_wait:
        out[last + 1] = 1.0
    if pools.base[0] < 0 and found.count[0] > 0:
        out[(last if can_wait else len(WORLD)) + BASE] = 1.0
    return can_wait
