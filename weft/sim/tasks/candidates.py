"""What a policy sees of the task view: candidates to start, their features, names and version.

A candidate is a ready task and a device that can take it now. Of the ready tasks the first that can start
are listed, in the order of a base rule: tuned weights (``weights.py``), or ``priced`` if nothing else is said
(least priced work of the job left, critical path first). Of the devices that differ in nothing but their number the one where the task finishes first. The last choice
waits for the next event, or until the data of a listed task has come. What the base rule would do is always
among the choices, and marked.

A sight with ``copies`` lists a task once more on a device to which the data of its last parent comes late, behind a
copy of that parent (``deft.py``), if it would start earlier so. With two ``stages`` the tasks are listed first, each with
the device where it finishes first, and then, while no time passes, the devices of the one that was picked.

``features.py`` says what is seen of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import Problem
from weft.sim.jit import kernel, lean_inlined, lean_kernel
from weft.sim.tasks.deft import copy_before
from weft.sim.tasks.features import (
    BASE,
    BEHIND,
    CHEAPEST,
    COPIED,
    EARLIEST,
    END,
    LEAST,
    LEFT,
    NUM_HERE,
    PICKS,
    PLACE,
    UNIT,
    USED,
    WAITS,
    Known,
    Looked,
    write_place,
    write_task,
    write_world,
)
from weft.sim.tasks.features import COLUMNS as COLUMNS
from weft.sim.tasks.features import FEATURE_VERSION as FEATURE_VERSION
from weft.sim.tasks.features import MOST as MOST
from weft.sim.tasks.features import WORLD as WORLD
from weft.sim.tasks.features import CandidateSight as CandidateSight
from weft.sim.tasks.features import check_sight as check_sight
from weft.sim.tasks.features import feature_names as feature_names
from weft.sim.tasks.prices import price_problems
from weft.sim.tasks.ranks import chain_of, rank_of
from weft.sim.tasks.rules import (
    BY_WEIGHTS,
    LATE,
    TaskRule,
    best_booked,
    best_in_pool,
    expected_room,
    first_start,
    idle_finish,
    write_ready,
)
from weft.sim.tasks.state import LOOK, Facts, Tasks, TaskState, data_ready, expected_run, may_use
from weft.sim.tasks.weights import PRICED, about_all

AT_FIRST = 4
"""So many times as many ready tasks as are listed are looked at, in order, before all are."""


class Listed(NamedTuple):
    """The candidates of an environment; written in place."""

    task: Ints  # (num_choices,)
    device: Ints  # (num_choices,)
    copies: Bools  # (num_choices,) whether a parent is copied there first
    count: Ints  # (1,) how many there are
    picked: Ints  # (1,) the task whose devices are listed, -1: tasks are; read, not written
    later: Floats  # (1,) when the next data of a listed task comes, infinite: none is on its way


def new_listed(num_choices: int) -> Listed:
    """An empty list."""
    task, device = np.zeros(num_choices, np.int64), np.zeros(num_choices, np.int64)
    copies, picked = np.zeros(num_choices, np.bool_), np.full(1, -1)
    return Listed(task, device, copies, np.zeros(1, np.int64), picked, np.zeros(1))


def rule_of(problems: Sequence[Problem], weights: Sequence[float] = PRICED) -> TaskRule:
    """The order of the list by the weights of a base rule, without prices yet; it starts nothing by itself."""
    num_jobs = sum(len(problem.jobs) for problem in problems)
    width = max(problem.cluster.num_classes for problem in problems)
    price, tally = np.ones((num_jobs, width)), np.zeros((num_jobs, 2))
    return TaskRule(
        BY_WEIGHTS, LATE, 0, np.array(weights), about_all(problems), price, np.zeros((0, 0)), tally, 0
    )


def known_of(problems: Sequence[Problem], rule: TaskRule) -> Known:
    """What is known of the tasks of problems side by side."""
    columns = zip(*(columns_of(problem) for problem in problems), strict=True)
    copies = np.array([problem.objective.copies for problem in problems], np.bool_)
    return Known(rule, base_of(rule), copies, *(np.concatenate(column) for column in columns))


def columns_of(problem: Problem) -> tuple[Floats, Floats, Floats]:
    """Shortest run time, rank and chain of every task."""
    return problem.best_run_times.astype(np.float64), rank_of(problem), chain_of(problem)


def base_of(rule: TaskRule) -> TaskRule:
    """The order of the list as a rule that starts tasks; shares all columns with it."""
    return rule._replace(look=LOOK)


def prepare(problems: Sequence[Problem], s: TaskState, weights: Sequence[float] = PRICED) -> Known:
    """The same with the prices of all arrivals; writes work of the tasks into an empty state."""
    rule = rule_of(problems, weights)
    price_problems(problems, rule.price, s.work)
    return known_of(problems, rule)


@lean_kernel
def _look_at_pools(w: Tasks, s: TaskState, b: int, i: int, look: Looked) -> None:
    """Fill all of pools but ``fastest``, and what runs as a whole."""
    end, total, rows, starts, used, slots = np.inf, 0.0, 0.0, 1e-300, 0.0, 0.0
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        starts += s.recent[p]
    for pool in range(w.pool_ptr[b], w.pool_ptr[b + 1]):
        at, left, own = pool - w.pool_ptr[b], 0.0, 0.0
        low, high = w.pool_device_ptr[pool], w.pool_device_ptr[pool + 1]
        look.soonest[at], look.first[at], look.busy[at], look.recent[at] = np.inf, -1, 0.0, 0.0
        for k in range(low, high):
            p = w.pool_devices[k]
            look.recent[at] += s.recent[p] / starts
            if not s.is_up[p]:
                continue
            room = expected_room(w, s, b, i, p)
            if room < look.soonest[at] and (s.booked[p, 0] == 0.0 or not w.is_unary[p]):
                look.soonest[at], look.first[at] = room, p
            used, slots = used + w.capacity[p, 0] - s.free[p, 0], slots + w.capacity[p, 0]
            row = s.running[p]
            look.busy[at] += (1.0 if row >= 0 else 0.0) / (high - low)
            while row >= 0:
                ends = max(s.row_expected[row], s.now[b])
                end, left, own = min(end, ends), left + ends - s.now[b], own + 1.0
                row = s.after[row]
        look.left[at] = left / max(own, 1.0)
        total, rows = total + left, rows + own
    look.here[END], look.here[LEFT], look.here[USED] = end, total / max(rows, 1.0), used / max(slots, 1.0)


@lean_kernel
def _count_fastest(w: Tasks, s: TaskState, b: int, ready: Ints, count: int, look: Looked) -> None:
    """Fill ``fastest`` from the first ``count`` ready tasks."""
    look.fastest[:] = 0.0
    for k in range(count):
        best, least = np.int64(-1), np.inf
        for pool in range(w.pool_ptr[b], w.pool_ptr[b + 1]):
            p = w.pool_devices[w.pool_device_ptr[pool]]
            if may_use(w, b, ready[k], p):
                run = expected_run(w, s, ready[k], w.device_class[p])
                if run < least:
                    best, least = pool - w.pool_ptr[b], run
        if best >= 0:
            look.fastest[best] += 1.0 / count


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
def _options(known: Known, w: Tasks, f: Facts, s: TaskState, b: int, i: int, taken: int, look: Looked) -> int:
    """Devices that can take task i now, one per pool, earliest finish first, as many as there is room for.

    ``taken`` is what a base rule gives it, -1: none; of its pool it is listed, and it is never left out.
    Writes devices, earliest finish on any device, least cost (a finish with the price of its time) and
    shortest run time; returns how many devices.
    """
    count, earliest, cheapest, least, kept = np.int64(0), np.inf, np.inf, np.inf, 0.0
    device, finish = look.device, look.finish
    arrival = w.job_ptr[b] + s.next_job[b] - 1
    is_apart = taken >= 0 and w.is_unary[taken] and s.booked[taken, 0] > 0.0  # in no pool while it is booked
    for pool in range(w.pool_ptr[b], w.pool_ptr[b + 1]):
        at = pool - w.pool_ptr[b]
        c = w.device_class[w.pool_devices[w.pool_device_ptr[pool]]]
        if look.first[at] < 0 or not may_use(w, b, i, look.first[at]):
            continue
        run = expected_run(w, s, i, c)
        p, end = best_in_pool(w, f, s, b, i, pool)
        if taken >= 0 and not is_apart and w.pool[taken] == pool:
            p, end = taken, max(s.now[b], data_ready(w, f, s, b, i, taken)) + run
            kept = end
        if p >= 0:
            count = _insert(count, device, finish, p, end)
        else:
            end = max(look.soonest[at], data_ready(w, f, s, b, i, look.first[at])) + run
        earliest, least = min(earliest, end), min(least, run)
        cheapest = min(cheapest, end + known.rule.price[arrival, c] * run)
    if w.book_count[w.job[i]] > 0:
        p, end = best_booked(w, f, s, b, i)
        if is_apart:
            p, end = taken, idle_finish(w, f, s, b, i, taken)
            kept = end
        if p >= 0:
            count, run = _insert(count, device, finish, p, end), expected_run(w, s, i, w.device_class[p])
            earliest, least = min(earliest, end), min(least, run)
            cheapest = min(cheapest, end + known.rule.price[arrival, w.device_class[p]] * run)
    if taken >= 0:
        at = count - 1
        while at > 0 and device[at] != taken:
            at -= 1
        if device[at] != taken:
            device[count - 1], finish[count - 1] = taken, kept
    look.here[EARLIEST], look.here[CHEAPEST], look.here[LEAST] = earliest, cheapest, least
    return count


@lean_kernel
def _write_row(
    sight: CandidateSight, known: Known, w: Tasks, s: TaskState, b: int, i: int, p: int, look: Looked,
    start: float, found: Listed, out: Floats,
) -> int:  # fmt: skip
    """List one candidate and write what is seen of it; returns where its features begin."""
    n, width = found.count[0], (len(out) - len(WORLD)) // len(found.task)
    at = len(WORLD) + n * width
    row = out[at : at + width]
    write_task(sight, known, w, s, b, i, look, row)
    write_place(sight, known, w, s, b, i, p, look, start, row)
    found.task[n], found.device[n], found.copies[n] = i, p, False
    found.count[0] += 1
    return at


@lean_kernel
def _write_candidates(
    sight: CandidateSight, known: Known, w: Tasks, f: Facts, s: TaskState, b: int, ready: Ints, scores: Floats,
    look: Looked, found: Listed, out: Floats,
) -> int:  # fmt: skip
    """List the first ready tasks that can start, with their devices; returns how many tasks.

    What the base rule starts is listed, and marked.
    """
    base = look.base[0]
    missing = base >= 0 and found.picked[0] < 0
    picks = sight.stages == 2 and found.picked[0] < 0
    shown, order, may_copy = np.int64(0), 0.0, sight.copies and known.copies[b] and not picks
    for k in range(len(ready)):
        i = ready[k]
        if found.picked[0] >= 0 and i != found.picked[0]:
            continue
        if missing and shown == sight.tasks - 1 and i != base:
            continue
        taken = look.base[1] if i == base else np.int64(-1)
        count = _options(known, w, f, s, b, i, taken, look)
        if count == 0:
            continue
        missing = missing and i != base
        order = scores[k] if shown == 0 else order
        for m in range(count):
            p = look.device[m]
            start = max(s.now[b], data_ready(w, f, s, b, i, p))
            if start > s.now[b]:
                found.later[0] = min(found.later[0], start)
            if picks and m > 0:
                continue
            at = _write_row(sight, known, w, s, b, i, p, look, start, found, out)
            out[at + BEHIND], out[at + PLACE] = min(scores[k] - order, MOST), shown / sight.tasks
            out[at + BASE] = 1.0 if (taken >= 0 if picks else p == taken) else 0.0
            if picks:
                out[at + PICKS] = 1.0
            behind = copy_before(w, f, s, b, i, p)[2] if may_copy and start > s.now[b] else np.inf
            if behind < np.inf:
                at = _write_row(sight, known, w, s, b, i, p, look, behind, found, out)
                out[at + BEHIND], out[at + PLACE] = min(scores[k] - order, MOST), shown / sight.tasks
                out[at + COPIED], found.copies[found.count[0] - 1] = 1.0, True
        shown += 1
        if shown == sight.tasks or found.picked[0] >= 0:
            break
    return shown


@lean_inlined
def _unit(known: Known, w: Tasks, s: TaskState, b: int) -> float:
    """What times are relative to."""
    total, first, count = 0.0, w.task_ptr[b], s.num_ready[b]
    for k in range(count):
        total += known.least[s.ready[first + k]]
    return max(total / max(count, 1), 1e-300)


@kernel
def list_candidates(
    sight: CandidateSight, known: Known, w: Tasks, f: Facts, s: TaskState, b: int, found: Listed, out: Floats
) -> bool:
    """Write candidates and observation of environment b; returns whether it may wait.

    It may while something runs or data is on its way: then something will happen, whether or not jobs come.
    """
    out[:] = 0.0
    found.count[0], found.later[0] = 0, np.inf
    if s.num_ready[b] == 0 or s.num_free[b] == 0:
        return True
    num, size = w.pool_ptr[b + 1] - w.pool_ptr[b], min(s.num_ready[b], AT_FIRST * sight.tasks)
    look = Looked(
        np.empty(num), np.empty(num, np.int64), np.empty(num), np.empty(num), np.empty(num), np.empty(num),
        np.empty(2, np.int64), np.empty(NUM_HERE), np.empty(sight.pools, np.int64), np.empty(sight.pools),
    )  # fmt: skip
    ready, scores = np.empty(size, np.int64), np.empty(size)
    write_ready(known.rule, w, s, b, ready, scores)
    _look_at_pools(w, s, b, ready[0], look)
    _count_fastest(w, s, b, ready, min(size, sight.tasks), look)
    look.here[UNIT] = _unit(known, w, s, b)
    look.base[0], look.base[1] = first_start(known.base, w, f, s, b)
    shown = _write_candidates(sight, known, w, f, s, b, ready, scores, look, found, out)
    wanted = sight.tasks if found.picked[0] < 0 else 1
    if size < s.num_ready[b] and shown < wanted:  # few of the first can start: look at all
        out[:] = 0.0
        found.count[0], found.later[0] = 0, np.inf
        ready, scores = np.empty(s.num_ready[b], np.int64), np.empty(s.num_ready[b])
        write_ready(known.rule, w, s, b, ready, scores)
        shown = _write_candidates(sight, known, w, f, s, b, ready, scores, look, found, out)
    write_world(sight, w, s, b, shown / sight.tasks, look, out)
    can_wait = found.picked[0] < 0 and (look.here[END] < np.inf or found.later[0] < np.inf)
    last = len(out) - (len(out) - len(WORLD)) // len(found.task)
    if can_wait:
        out[last + WAITS] = 1.0
    if look.base[0] < 0 and found.count[0] > 0 and found.picked[0] < 0:
        out[(last if can_wait else len(WORLD)) + BASE] = 1.0
    return can_wait
