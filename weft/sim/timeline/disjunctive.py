"""Disjunctive problems as arrays: every task has its device, which runs one task at a time.

A solution is a linear order of all tasks that respects the precedence (``Walk.sequence``): read
device by device it gives the order on each. Heads are starts, tails what must follow a finish.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Floats, Ints
from weft.sim.heap import pop_event, push_event
from weft.sim.jit import inlined, kernel, lean_inlined, lean_kernel

MEMORY = 1 << 16
"""Entries of the tabu memory; pairs of tasks share them by hash."""
ITERATION, SINCE, DRAW = range(3)
"""Entries of ``Walk.counts``."""
MAKESPAN, BEST, TARGET, FIRST_RELEASE = range(4)
"""Entries of ``Walk.values``."""


class Shop(NamedTuple):
    """A disjunctive problem: run times, releases and delayed precedence; never modified."""

    run: Floats  # (num_tasks,)
    release: Floats  # (num_tasks,)
    machine: Ints  # (num_tasks,) numbered without gaps
    order: Ints  # (num_tasks,) topological
    pred_ptr: Ints  # (num_tasks + 1,)
    pred: Ints  # (num_edges,)
    pred_lag: Floats  # (num_edges,)
    succ_ptr: Ints  # (num_tasks + 1,)
    succ: Ints  # (num_edges,)
    succ_lag: Floats  # (num_edges,)


class Walk(NamedTuple):
    """Where a search stands; every array is modified in place."""

    sequence: Ints  # (num_tasks,) linear order of all tasks
    place: Ints  # (num_tasks,) its inverse
    before: Ints  # (num_tasks,) previous task on the device, -1: none
    after: Ints  # (num_tasks,) next task on the device, -1: none
    last: Ints  # (num_machines,) last task of the device, -1: none
    ready: Floats  # (num_tasks,) start allowed by release and predecessors
    head: Floats  # (num_tasks,) start
    finish: Floats  # (num_tasks,)
    rest: Floats  # (num_tasks,) longest way to the end through a successor, own run time excluded
    tail: Floats  # (num_tasks,) the same through successors or the device
    back: Floats  # (num_tasks,) tail and own run time
    path: Ints  # (num_tasks,) a critical path, first task first
    moves: Ints  # (2 * num_tasks, 3) candidate moves: is it forward, first and last task it touches
    segment: Ints  # (num_tasks,) the new arrangement a move makes
    start: Floats  # (num_tasks,) estimated starts of the segment
    mark: Ints  # (num_tasks,) zero between calls
    best: Ints  # (num_tasks,) the best sequence of this run
    tabu: Ints  # (MEMORY,) iteration until which a task may not go before another
    counts: Ints  # (3,) moves made, moves since the last improvement, random state
    values: Floats  # (4,) makespan, best makespan, makespan to stop at, first release


def new_walk(shop: Shop, seed: int, target: float = -np.inf) -> Walk:
    """Buffers for searches on one shop; a search ends early at a makespan of ``target``."""
    n = len(shop.run)

    def ints() -> Ints:
        return np.zeros(n, np.int64)

    def floats() -> Floats:
        return np.zeros(n)

    state = np.random.SeedSequence(seed).generate_state(1, np.uint64).astype(np.int64)[0]
    return Walk(
        sequence=ints(),
        place=ints(),
        before=ints(),
        after=ints(),
        last=np.full(int(shop.machine.max(initial=-1)) + 1, -1, np.int64),
        ready=floats(),
        head=floats(),
        finish=floats(),
        rest=floats(),
        tail=floats(),
        back=floats(),
        path=ints(),
        moves=np.zeros((2 * n, 3), np.int64),
        segment=ints(),
        start=floats(),
        mark=ints(),
        best=ints(),
        tabu=np.zeros(MEMORY, np.int64),
        counts=np.array([0, 0, state], np.int64),
        values=np.array([np.inf, np.inf, target, shop.release.min(initial=np.inf)]),
    )


@kernel
def longest_paths(order: Ints, ptr: Ints, ends: Ints, lag: Floats, run: Floats, least: Floats) -> Floats:
    """Longest way to each task over the precedence alone, its own run time excluded.

    With successors in place of predecessors and the order reversed: longest way from each task.
    """
    length = least.copy()
    for i in order:
        for e in range(ptr[i], ptr[i + 1]):
            length[i] = max(length[i], length[ends[e]] + run[ends[e]] + lag[e])
    return length


class Queues(NamedTuple):
    """Who waits for which device, as heaps of (time, place by key); modified in place."""

    first: Ints  # (num_machines + 1,) where the tasks of a device begin in the four heaps
    free: Floats  # (num_machines,) when the device is idle again
    num_open: Ints  # (num_machines,)
    open_time: Floats  # (num_tasks,) always 0: those that could start once the device is idle
    open_place: Ints  # (num_tasks,)
    num_later: Ints  # (num_machines,)
    later_time: Floats  # (num_tasks,) when they are ready: those that are not by then
    later_place: Ints  # (num_tasks,)
    nominee: Ints  # (num_machines,) who is next on the device, -1: nobody
    nominee_start: Floats  # (num_machines,)
    num_heads: Ints  # (1,)
    head_time: Floats  # (2 * num_tasks + num_machines,) nominees of all devices, some outdated
    head_place: Ints  # (2 * num_tasks + num_machines,)


@inlined
def _new_queues(machine: Ints) -> Queues:
    n, num_machines = len(machine), 0
    for m in machine:
        num_machines = max(num_machines, m + 1)
    first = np.zeros(num_machines + 1, np.int64)
    for m in machine:
        first[m + 1] += 1
    for m in range(num_machines):
        first[m + 1] += first[m]
    return Queues(
        first,
        np.zeros(num_machines),
        np.zeros(num_machines, np.int64),
        np.zeros(n),
        np.zeros(n, np.int64),
        np.zeros(num_machines, np.int64),
        np.zeros(n),
        np.zeros(n, np.int64),
        np.full(num_machines, -1, np.int64),
        np.zeros(num_machines),
        np.zeros(1, np.int64),
        np.zeros(2 * n + num_machines),
        np.zeros(2 * n + num_machines, np.int64),
    )


@lean_inlined
def _wait(q: Queues, m: int, ready: float, place: int) -> None:
    """A task with all its data under way queues for its device."""
    part = slice(q.first[m], q.first[m + 1])
    q.num_later[m] = push_event(q.later_time[part], q.later_place[part], q.num_later[m], ready, place)


@lean_inlined
def _nominate(q: Queues, m: int) -> None:
    """Find who starts next on a device and put it among the heads, unless it is there."""
    part = slice(q.first[m], q.first[m + 1])
    later_time, later_place = q.later_time[part], q.later_place[part]
    while q.num_later[m] > 0 and later_time[0] <= q.free[m]:
        place = later_place[0]
        q.num_later[m] = pop_event(later_time, later_place, q.num_later[m])
        q.num_open[m] = push_event(q.open_time[part], q.open_place[part], q.num_open[m], 0.0, place)
    nominee, start = np.int64(-1), q.free[m]
    if q.num_open[m] > 0:
        nominee = q.open_place[part][0]
    elif q.num_later[m] > 0:
        nominee, start = later_place[0], later_time[0]
    if nominee >= 0 and (nominee != q.nominee[m] or start != q.nominee_start[m]):
        q.num_heads[0] = push_event(q.head_time, q.head_place, q.num_heads[0], start, nominee)
    q.nominee[m], q.nominee_start[m] = nominee, start


@lean_inlined
def _pop_first(q: Queues, machine: Ints, by_key: Ints) -> tuple[float, int]:
    """Take the nominee that starts first, ties by place, off its device; its start and place."""
    while True:
        start, place = q.head_time[0], q.head_place[0]
        q.num_heads[0] = pop_event(q.head_time, q.head_place, q.num_heads[0])
        m = machine[by_key[place]]
        if q.nominee[m] == place and q.nominee_start[m] == start:
            break
    part = slice(q.first[m], q.first[m + 1])
    if q.num_open[m] > 0:
        q.num_open[m] = pop_event(q.open_time[part], q.open_place[part], q.num_open[m])
    else:
        q.num_later[m] = pop_event(q.later_time[part], q.later_place[part], q.num_later[m])
    q.nominee[m] = -1
    return start, place


@kernel
def dispatch(shop: Shop, key: Floats) -> Ints:
    """Non-delay order: whatever can start first starts, the smallest key where several can."""
    run, machine, succ_ptr, succ, succ_lag = shop.run, shop.machine, shop.succ_ptr, shop.succ, shop.succ_lag
    n = len(run)
    by_key = np.argsort(key, kind="mergesort")
    rank = np.empty(n, np.int64)
    for k in range(n):
        rank[by_key[k]] = k
    waiting = np.empty(n, np.int64)
    for i in range(n):
        waiting[i] = shop.pred_ptr[i + 1] - shop.pred_ptr[i]
    ready = shop.release.copy()
    queues = _new_queues(machine)
    for i in range(n):
        if waiting[i] == 0:
            _wait(queues, machine[i], ready[i], rank[i])
    for m in range(len(queues.free)):
        _nominate(queues, m)
    order = np.empty(n, np.int64)
    for k in range(n):
        start, place = _pop_first(queues, machine, by_key)
        i = by_key[place]
        order[k] = i
        finish = start + run[i]
        queues.free[machine[i]] = finish
        for e in range(succ_ptr[i], succ_ptr[i + 1]):
            j = succ[e]
            ready[j] = max(ready[j], finish + succ_lag[e])
            waiting[j] -= 1
            if waiting[j] == 0:
                _wait(queues, machine[j], ready[j], rank[j])
                _nominate(queues, machine[j])
        _nominate(queues, machine[i])
    return order


@lean_inlined
def heads(shop: Shop, walk: Walk, first: int) -> None:
    """Starts from place ``first`` of the sequence on, and the makespan."""
    run, release, pred_ptr, pred, pred_lag = shop.run, shop.release, shop.pred_ptr, shop.pred, shop.pred_lag
    sequence, before, ready, head, finish = walk.sequence, walk.before, walk.ready, walk.head, walk.finish
    for k in range(first, len(sequence)):
        i = sequence[k]
        start = release[i]
        for e in range(pred_ptr[i], pred_ptr[i + 1]):
            start = max(start, finish[pred[e]] + pred_lag[e])
        ready[i] = start
        if before[i] >= 0:
            start = max(start, finish[before[i]])
        head[i] = start
        finish[i] = start + run[i]
    last = walk.last
    makespan = -np.inf
    for m in range(len(last)):
        if last[m] >= 0:
            makespan = max(makespan, finish[last[m]])
    walk.values[MAKESPAN] = makespan


@lean_inlined
def tails(shop: Shop, walk: Walk, first: int) -> None:
    """Tails from place ``first`` of the sequence down."""
    run, succ_ptr, succ, succ_lag = shop.run, shop.succ_ptr, shop.succ, shop.succ_lag
    sequence, after, rest, tail, back = walk.sequence, walk.after, walk.rest, walk.tail, walk.back
    for k in range(first, -1, -1):
        i = sequence[k]
        longest = 0.0
        for e in range(succ_ptr[i], succ_ptr[i + 1]):
            longest = max(longest, back[succ[e]] + succ_lag[e])
        rest[i] = longest
        if after[i] >= 0:
            longest = max(longest, back[after[i]])
        tail[i] = longest
        back[i] = longest + run[i]


@lean_kernel
def begin(shop: Shop, walk: Walk, order: Ints) -> None:
    """Put the walk at this linear order, with an empty memory; ``best`` is that order."""
    machine, place, before, after, last = shop.machine, walk.place, walk.before, walk.after, walk.last
    for m in range(len(last)):
        last[m] = -1
    for k in range(len(order)):
        i = order[k]
        walk.sequence[k] = walk.best[k] = i
        place[i] = k
        previous = last[machine[i]]
        before[i] = previous
        after[i] = -1
        if previous >= 0:
            after[previous] = i
        last[machine[i]] = i
    for k in range(len(walk.tabu)):
        walk.tabu[k] = 0
    walk.counts[SINCE] = 0
    heads(shop, walk, 0)
    tails(shop, walk, len(order) - 1)
    walk.values[BEST] = walk.values[MAKESPAN]


@lean_inlined
def delay(shop: Shop, walk: Walk, low: int, high: int) -> None:
    """Move the task at ``low`` and what depends on it behind place ``high`` of the sequence."""
    _shift(walk, walk.before, shop.pred_ptr, shop.pred, low, high, np.int64(1))


@lean_inlined
def advance(shop: Shop, walk: Walk, low: int, high: int) -> None:
    """Move the task at ``high`` and what it depends on before place ``low`` of the sequence."""
    _shift(walk, walk.after, shop.succ_ptr, shop.succ, high, low, np.int64(-1))


@lean_inlined
def _shift(
    walk: Walk, neighbour: Ints, pointer: Ints, neighbours: Ints, first: int, last: int, step: int
) -> None:
    """Move the task at ``first`` past place ``last``, with all on the way that it reaches by neighbours."""
    sequence, place, mark, moved = walk.sequence, walk.place, walk.mark, walk.segment
    count, to = 1, first
    moved[0] = sequence[first]
    mark[moved[0]] = 1
    for k in range(first + step, last + step, step):
        i = sequence[k]
        goes_along = neighbour[i] >= 0 and mark[neighbour[i]] == 1
        for e in range(pointer[i], pointer[i + 1]):
            goes_along |= mark[neighbours[e]] == 1
        if goes_along:
            mark[i] = 1
            moved[count] = i
            count += 1
        else:
            sequence[to] = i
            place[i] = to
            to += step
    for k in range(count):
        sequence[to + step * k] = moved[k]
        place[moved[k]] = to + step * k
        mark[moved[k]] = 0
