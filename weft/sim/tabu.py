"""Tabu search on the machine orders of a disjunctive problem: every task has its device.

A solution is a linear order of all tasks that respects the precedence (``Walk.sequence``): read
device by device it gives the order on each. Heads are starts, tails what must follow a finish.
Moves: blocks of one random critical path, Nowicki and Smutnicki (1996) and Balas and Vazacopoulos
(1998); memory of arrangements as in Zhang, Li, Guan, Rao (2007).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Floats, Ints
from weft.sim.jit import inlined, kernel

MEMORY = 1 << 16
"""Entries of the tabu memory; arrangements share them by hash."""
MOVED, STUCK, OPTIMAL = np.int64(0), np.int64(1), np.int64(2)
"""How a step ended: a move was made, none is allowed, or none can help."""
SWAPS, TO_ENDS, INSERTIONS = 5, 6, 7
"""Neighbourhoods: N5 swaps the ends of blocks, N6 moves to the ends, N7 also from the ends inwards."""

ITERATION, SINCE, DRAW, TENURE = range(4)
MAKESPAN, BEST, TARGET, FIRST_RELEASE = range(4)


class Shop(NamedTuple):
    """A disjunctive problem: run times, releases and delayed precedence; never modified."""

    run: Floats  # (num_tasks,)
    release: Floats  # (num_tasks,)
    machine: Ints  # (num_tasks,)
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
    slot: Ints  # (num_tasks,) position on the device
    last: Ints  # (num_machines,) last task of the device, -1: none
    ready: Floats  # (num_tasks,) start allowed by release and predecessors
    head: Floats  # (num_tasks,) start
    finish: Floats  # (num_tasks,)
    rest: Floats  # (num_tasks,) longest way to the end through a successor, own run time excluded
    tail: Floats  # (num_tasks,) the same through successors or the device
    back: Floats  # (num_tasks,) tail and own run time
    path: Ints  # (num_tasks,) a critical path, first task first
    moves: Ints  # (4 * num_tasks, 3) candidate moves: is it forward, first and last task it touches
    segment: Ints  # (num_tasks,) the new arrangement a move makes
    start: Floats  # (num_tasks,) estimated starts of the segment
    mark: Ints  # (num_tasks,) zero between calls
    best: Ints  # (num_tasks,) the best sequence of this run
    tabu: Ints  # (MEMORY,) iteration until which an arrangement is forbidden
    counts: Ints  # (4,) iteration, iterations since the last improvement, random state, tenure
    values: Floats  # (4,) makespan, best makespan, makespan to stop at, first release


def new_walk(shop: Shop, seed: int, target: float = -np.inf) -> Walk:
    """Buffers for searches on one shop; a search ends early at a makespan of ``target``."""
    n = len(shop.run)
    num_machines = int(shop.machine.max(initial=-1)) + 1
    ints = {name: np.zeros(n, np.int64) for name in _INT_FIELDS}
    floats = {name: np.zeros(n) for name in _FLOAT_FIELDS}
    per_machine = n / num_machines if n else 0.0
    state = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] >> np.uint64(1))
    return Walk(
        **ints,
        **floats,
        last=np.full(num_machines, -1, np.int64),
        moves=np.zeros((4 * n, 3), np.int64),
        tabu=np.zeros(MEMORY, np.int64),
        counts=np.array([0, 0, state, 8], np.int64),
        values=np.array([np.inf, np.inf, target, shop.release.min(initial=np.inf)]),
    )


_INT_FIELDS = ("sequence", "place", "before", "after", "slot", "path", "segment", "mark", "best")
_FLOAT_FIELDS = ("ready", "head", "finish", "rest", "tail", "back", "start")


@kernel
def dispatch(shop: Shop, key: Floats) -> Ints:
    """Non-delay order: whatever can start first starts, the smallest key where several can."""
    run, machine, succ_ptr, succ, succ_lag = shop.run, shop.machine, shop.succ_ptr, shop.succ, shop.succ_lag
    n = len(run)
    waiting = shop.pred_ptr[1:] - shop.pred_ptr[:-1]
    ready = shop.release.copy()
    free = np.zeros(n + 1 if n == 0 else machine.max() + 1)
    candidates = np.empty(n, np.int64)
    size = 0
    for i in range(n):
        if waiting[i] == 0:
            candidates[size] = i
            size += 1
    order = np.empty(n, np.int64)
    for k in range(n):
        chosen, earliest = 0, np.inf
        for c in range(size):
            i = candidates[c]
            start = max(ready[i], free[machine[i]])
            other = candidates[chosen]
            is_tie = start == earliest
            if start < earliest or (is_tie and (key[i] < key[other] or (key[i] == key[other] and i < other))):
                chosen, earliest = c, start
        i = candidates[chosen]
        size -= 1
        candidates[chosen] = candidates[size]
        order[k] = i
        finish = earliest + run[i]
        free[machine[i]] = finish
        for e in range(succ_ptr[i], succ_ptr[i + 1]):
            j = succ[e]
            ready[j] = max(ready[j], finish + succ_lag[e])
            waiting[j] -= 1
            if waiting[j] == 0:
                candidates[size] = j
                size += 1
    return order


@inlined
def _heads(shop: Shop, walk: Walk, first: int) -> None:
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


@inlined
def _tails(shop: Shop, walk: Walk, first: int) -> None:
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


@kernel
def begin(shop: Shop, walk: Walk, order: Ints) -> None:
    """Put the walk at this linear order, with an empty memory; ``best`` is that order."""
    machine, place, before, after, slot, last = (
        shop.machine, walk.place, walk.before, walk.after, walk.slot, walk.last,
    )  # fmt: skip
    for m in range(len(last)):
        last[m] = -1
    for k in range(len(order)):
        i = order[k]
        walk.sequence[k] = walk.best[k] = i
        place[i] = k
        previous = last[machine[i]]
        before[i] = previous
        after[i] = -1
        slot[i] = 0
        if previous >= 0:
            after[previous] = i
            slot[i] = slot[previous] + 1
        last[machine[i]] = i
    for k in range(len(walk.tabu)):
        walk.tabu[k] = 0
    walk.counts[SINCE] = 0
    _heads(shop, walk, 0)
    _tails(shop, walk, len(order) - 1)
    walk.values[BEST] = walk.values[MAKESPAN]


@inlined
def _random(counts: Ints, below: int) -> int:
    """A whole number in [0, below); steps the random state."""
    counts[DRAW] = counts[DRAW] * 6364136223846793005 + 1442695040888963407
    return ((counts[DRAW] >> 33) & 0x7FFFFFFF) % below


@inlined
def _critical_path(shop: Shop, walk: Walk) -> int:
    """Fill ``path`` with a random critical path, at the end of the array; returns where it begins."""
    pred_ptr, pred, pred_lag, before = shop.pred_ptr, shop.pred, shop.pred_lag, walk.before
    head, finish, path, counts, last = walk.head, walk.finish, walk.path, walk.counts, walk.last
    makespan = walk.values[MAKESPAN]
    at, seen = np.int64(-1), 0
    for m in range(len(last)):
        if last[m] >= 0 and finish[last[m]] == makespan:
            seen += 1
            if seen == 1 or _random(counts, seen) == 0:
                at = last[m]
    k = len(path)
    while at >= 0:
        k -= 1
        path[k] = at
        start, cause, seen = head[at], np.int64(-1), 0
        if before[at] >= 0 and finish[before[at]] == start:
            cause, seen = before[at], 1
        for e in range(pred_ptr[at], pred_ptr[at + 1]):
            if finish[pred[e]] + pred_lag[e] == start:
                seen += 1
                if seen == 1 or _random(counts, seen) == 0:
                    cause = pred[e]
        at = cause
    return k


@inlined
def _apart(place: Ints, head: Floats, finish: Floats, tail: Floats, back: Floats, i: int, j: int) -> bool:
    """Whether there is surely no path from i to j.

    Along a path no start is before the previous finish and no tail below what follows, also
    after rounding; so a cycle can never pass this test.
    """
    return i != j and (place[i] > place[j] or head[j] < finish[i] or tail[i] < back[j])


@inlined
def _candidates(shop: Shop, walk: Walk, begins: int, neighbourhood: int) -> int:
    """Fill ``moves`` from the blocks of the critical path at ``path[begins:]``; returns how many.

    Nothing before the first block or behind the last can be gained, so that moves to these ends
    are left out (the first only if it starts with the first release).
    """
    path, before, moves = walk.path, walk.before, walk.moves
    n = len(path)
    is_tight = walk.head[path[begins]] <= walk.values[FIRST_RELEASE]
    count, low = 0, begins
    while low < n:
        high = low
        while high + 1 < n and before[path[high + 1]] == path[high]:
            high += 1
        to_front = low > begins or not is_tight
        to_back = high + 1 < n
        for k in range(low, high):
            is_swap = high == low + 1
            if to_back and (neighbourhood > 5 or k == high - 1):
                count = _add_move(moves, count, 1, path[k], path[high])
            if to_front and (neighbourhood > 5 or k == low) and not (is_swap and to_back):
                count = _add_move(moves, count, 0, path[low], path[k + 1])
            if neighbourhood > 6 and k > low:
                if to_front:
                    count = _add_move(moves, count, 1, path[low], path[k])
                if to_back:
                    count = _add_move(moves, count, 0, path[k], path[high])
        low = high + 1
    return count


@inlined
def _add_move(moves: Ints, count: int, is_forward: int, u: int, v: int) -> int:
    moves[count, 0] = is_forward
    moves[count, 1] = u
    moves[count, 2] = v
    return count + 1


@inlined
def _arrange(after: Ints, segment: Ints, is_forward: int, u: int, v: int) -> int:
    """Write the tasks from u to v as they stand after the move; returns how many there are."""
    k = 0
    if not is_forward:
        segment[0] = v
        k = 1
    at = u
    while at != v:
        segment[k] = at
        at = after[at]
        k += 1
    if is_forward:
        for j in range(k - 1):
            segment[j] = segment[j + 1]
        segment[k - 1] = v
        segment[k] = u
        k += 1
    return k


@inlined
def _entry(i: int, j: int) -> int:
    """Entry of the memory for task i standing before task j."""
    x = (i + 1) * -7046029254386353131 + (j + 1) * -4658895280553007687
    x = (x ^ ((x >> 29) & 0x7FFFFFFFF)) * -4265267296055464877
    return (x >> 40) & (MEMORY - 1)


@inlined
def _is_tabu(tabu: Ints, segment: Ints, length: int, is_forward: int, iteration: int) -> bool:
    """Whether the arrangement restores an order of two tasks that was given up lately."""
    if is_forward:
        u = segment[length - 1]
        for k in range(length - 1):
            if tabu[_entry(segment[k], u)] > iteration:
                return True
        return False
    v = segment[0]
    for k in range(1, length):
        if tabu[_entry(v, segment[k])] > iteration:
            return True
    return False


@inlined
def _forbid(tabu: Ints, segment: Ints, length: int, is_forward: int, until: int) -> None:
    """Forbid the orders of two tasks that the arrangement has just given up."""
    if is_forward:
        u = segment[length - 1]
        for k in range(length - 1):
            tabu[_entry(u, segment[k])] = until
    else:
        v = segment[0]
        for k in range(1, length):
            tabu[_entry(segment[k], v)] = until


@inlined
def _estimate(
    segment: Ints, length: int, start: Floats, run: Floats, ready: Floats, rest: Floats, free: float, behind: float, limit: float
) -> float:
    """Longest path through the moved tasks if nothing else changes; cut short above ``limit``.

    ``free`` is when the device is free for them, ``behind`` what follows them on the device.
    """
    for k in range(length):
        i = segment[k]
        free = max(free, ready[i])
        start[k] = free
        free += run[i]
    longest = 0.0
    for k in range(length - 1, -1, -1):
        i = segment[k]
        behind = max(behind, rest[i]) + run[i]
        longest = max(longest, start[k] + behind)
        if longest > limit:
            break
    return longest


@inlined
def _choose(shop: Shop, walk: Walk, count: int) -> int:
    """The candidate with the smallest estimate that is not tabu, or a random one; -1 if none is allowed."""
    run, pred_ptr, pred, succ_ptr, succ = shop.run, shop.pred_ptr, shop.pred, shop.succ_ptr, shop.succ
    place, head, finish, tail, back = walk.place, walk.head, walk.finish, walk.tail, walk.back
    before, after, slot, ready, rest = walk.before, walk.after, walk.slot, walk.ready, walk.rest
    moves, segment, start, tabu, counts = walk.moves, walk.segment, walk.start, walk.tabu, walk.counts
    iteration, best = counts[ITERATION], walk.values[BEST]
    chosen, least, ties = np.int64(-1), np.inf, 0
    spare, allowed = np.int64(-1), 0
    for c in range(count):
        is_forward, u, v = moves[c, 0], moves[c, 1], moves[c, 2]
        is_allowed = True
        if is_forward:
            for e in range(succ_ptr[u], succ_ptr[u + 1]):
                is_allowed &= _apart(place, head, finish, tail, back, succ[e], v)
        else:
            for e in range(pred_ptr[v], pred_ptr[v + 1]):
                is_allowed &= _apart(place, head, finish, tail, back, u, pred[e])
        if not is_allowed:
            continue
        allowed += 1
        if _random(counts, allowed) == 0:
            spare = c
        length = _arrange(after, segment, is_forward, u, v)
        free = finish[before[u]] if before[u] >= 0 else -np.inf
        behind = back[after[v]] if after[v] >= 0 else 0.0
        value = _estimate(segment, length, start, run, ready, rest, free, behind, least)
        if value > least:
            continue
        if value >= best and _is_tabu(tabu, segment, length, is_forward, iteration):
            continue
        ties = ties + 1 if value == least else 1
        if ties == 1 or _random(counts, ties) == 0:
            chosen = c
        least = value
    return chosen if chosen >= 0 else spare


@inlined
def _apply(shop: Shop, walk: Walk, c: int) -> None:
    """Make candidate c the new solution and forbid the old arrangement for a while."""
    before, after, slot, segment, counts = walk.before, walk.after, walk.slot, walk.segment, walk.counts
    is_forward, u, v = walk.moves[c, 0], walk.moves[c, 1], walk.moves[c, 2]
    first, low, high = slot[u], walk.place[u], walk.place[v]
    until = counts[ITERATION] + counts[TENURE] + _random(counts, counts[TENURE] // 2 + 1)
    previous, following = before[u], after[v]
    length = _arrange(after, segment, is_forward, u, v)
    _forbid(walk.tabu, segment, length, is_forward, until)
    for k in range(length):
        i = segment[k]
        slot[i] = first + k
        before[i] = previous
        if previous >= 0:
            after[previous] = i
        previous = i
    after[previous] = following
    if following >= 0:
        before[following] = previous
    else:
        walk.last[shop.machine[u]] = previous
    if is_forward:
        _delay(shop, walk, low, high)
    else:
        _advance(shop, walk, low, high)
    _heads(shop, walk, low)
    _tails(shop, walk, high)


@inlined
def _delay(shop: Shop, walk: Walk, low: int, high: int) -> None:
    """Move the task at ``low`` and what depends on it behind place ``high`` of the sequence."""
    pred_ptr, pred = shop.pred_ptr, shop.pred
    sequence, place, before, mark, moved = walk.sequence, walk.place, walk.before, walk.mark, walk.segment
    count, to = 1, low
    moved[0] = sequence[low]
    mark[moved[0]] = 1
    for k in range(low + 1, high + 1):
        i = sequence[k]
        depends = before[i] >= 0 and mark[before[i]] == 1
        for e in range(pred_ptr[i], pred_ptr[i + 1]):
            depends |= mark[pred[e]] == 1
        if depends:
            mark[i] = 1
            moved[count] = i
            count += 1
        else:
            sequence[to] = i
            place[i] = to
            to += 1
    for k in range(count):
        sequence[to + k] = moved[k]
        place[moved[k]] = to + k
        mark[moved[k]] = 0


@inlined
def _advance(shop: Shop, walk: Walk, low: int, high: int) -> None:
    """Move the task at ``high`` and what it depends on before place ``low`` of the sequence."""
    succ_ptr, succ = shop.succ_ptr, shop.succ
    sequence, place, after, mark, moved = walk.sequence, walk.place, walk.after, walk.mark, walk.segment
    count, to = 1, high
    moved[0] = sequence[high]
    mark[moved[0]] = 1
    for k in range(high - 1, low - 1, -1):
        i = sequence[k]
        is_needed = after[i] >= 0 and mark[after[i]] == 1
        for e in range(succ_ptr[i], succ_ptr[i + 1]):
            is_needed |= mark[succ[e]] == 1
        if is_needed:
            mark[i] = 1
            moved[count] = i
            count += 1
        else:
            sequence[to] = i
            place[i] = to
            to -= 1
    for k in range(count):
        sequence[to - k] = moved[k]
        place[moved[k]] = to - k
        mark[moved[k]] = 0


@kernel
def search(shop: Shop, walk: Walk, iterations: int, patience: int, neighbourhood: int) -> int:
    """Go on with the walk for so many moves, or until so many moves brought nothing new.

    Ends early when stuck, when the target is reached or when the best is proven optimal.
    """
    counts, values = walk.counts, walk.values
    end = counts[ITERATION] + iterations
    while counts[ITERATION] < end and counts[SINCE] < patience and values[BEST] > values[TARGET]:
        count = _candidates(shop, walk, _critical_path(shop, walk), neighbourhood)
        if count == 0:
            return OPTIMAL
        c = _choose(shop, walk, count)
        if c < 0:
            return STUCK
        counts[ITERATION] += 1
        counts[SINCE] += 1
        _apply(shop, walk, c)
        if values[MAKESPAN] < values[BEST]:
            values[BEST] = values[MAKESPAN]
            counts[SINCE] = 0
            for k in range(len(walk.best)):
                walk.best[k] = walk.sequence[k]
    return MOVED
