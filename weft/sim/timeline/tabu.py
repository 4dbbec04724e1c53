"""Tabu search on the device orders of a disjunctive problem.

Moves come from the blocks of one random critical path: N5 of Nowicki and Smutnicki (1996), N6 of
Balas and Vazacopoulos (1998), judged by the heads and tails of the moved tasks alone.
"""

from __future__ import annotations

import numpy as np

from weft.model.graph import Floats, Ints
from weft.sim.jit import lean_inlined as inlined
from weft.sim.jit import lean_kernel
from weft.sim.timeline.disjunctive import (
    BEST,
    DRAW,
    FIRST_RELEASE,
    ITERATION,
    MAKESPAN,
    MEMORY,
    SINCE,
    TARGET,
    Shop,
    Walk,
    advance,
    delay,
    heads,
    tails,
)

TENURE = 8
"""Moves for which a given-up order of two tasks is forbidden, and up to half as many more."""
REACH = 128
"""Most places a task moves to the end of a block; bounds the cost of a step."""
MOVED, STUCK, OPTIMAL = np.int64(0), np.int64(1), np.int64(2)
"""How a search ended: moves made, no move allowed, or none can help."""
SWAPS, TO_ENDS = 5, 6
"""Neighbourhoods: N5 swaps two tasks at an end of a block, N6 moves any task of it to an end."""


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
def _candidates(walk: Walk, begins: int, neighbourhood: int) -> int:
    """Fill ``moves`` from the blocks of the critical path at ``path[begins:]``; returns how many.

    A block is a run of tasks on one device without a gap. Moves to the front of the first block
    (if it starts with the first release) and to the back of the last are left out: they gain
    nothing. If no candidate is left, the path is a chain or the load of one device, and optimal.
    """
    path, before, head, finish, moves = walk.path, walk.before, walk.head, walk.finish, walk.moves
    n = len(path)
    is_tight = head[path[begins]] <= walk.values[FIRST_RELEASE]
    count, low = 0, begins
    while low < n:
        high = low
        while high + 1 < n:
            i, j = path[high], path[high + 1]
            if before[j] != i or head[j] != finish[i]:
                break
            high += 1
        to_front, to_back = low > begins or not is_tight, high + 1 < n
        reach = 1 if neighbourhood == SWAPS else REACH
        for k in range(max(low, high - reach) if to_back else high, high):
            count = _add_move(moves, count, 1, path[k], path[high])
        if to_back and high == low + 1:
            to_front = False  # the same swap
        for k in range(low + 1, min(low + reach, high) + 1 if to_front else 0):
            count = _add_move(moves, count, 0, path[low], path[k])
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
    found = False
    if is_forward:
        for k in range(length - 1):
            found |= tabu[_entry(segment[k], segment[length - 1])] > iteration
    else:
        for k in range(1, length):
            found |= tabu[_entry(segment[0], segment[k])] > iteration
    return found


@inlined
def _forbid(tabu: Ints, segment: Ints, length: int, is_forward: int, until: int) -> None:
    """Forbid the orders of two tasks that the arrangement has just given up."""
    if is_forward:
        for k in range(length - 1):
            tabu[_entry(segment[length - 1], segment[k])] = until
    else:
        for k in range(1, length):
            tabu[_entry(segment[k], segment[0])] = until


@inlined
def _estimate(
    segment: Ints,
    length: int,
    start: Floats,
    run: Floats,
    ready: Floats,
    rest: Floats,
    free: float,
    behind: float,
    limit: float,
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
    before, after, ready, rest = walk.before, walk.after, walk.ready, walk.rest
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
    before, after, segment, counts = walk.before, walk.after, walk.segment, walk.counts
    is_forward, u, v = walk.moves[c, 0], walk.moves[c, 1], walk.moves[c, 2]
    low, high = walk.place[u], walk.place[v]
    until = counts[ITERATION] + TENURE + _random(counts, TENURE // 2 + 1)
    previous, following = before[u], after[v]
    length = _arrange(after, segment, is_forward, u, v)
    _forbid(walk.tabu, segment, length, is_forward, until)
    for k in range(length):
        i = segment[k]
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
        delay(shop, walk, low, high)
    else:
        advance(shop, walk, low, high)
    heads(shop, walk, low)
    tails(shop, walk, high)


@lean_kernel
def search(shop: Shop, walk: Walk, iterations: int, patience: int, neighbourhood: int) -> int:
    """Continue the walk for this many moves, or until ``patience`` moves brought nothing new.

    Ends early when stuck, when the target is reached or when the best is proven optimal.
    """
    counts, values = walk.counts, walk.values
    end = counts[ITERATION] + iterations
    while counts[ITERATION] < end and counts[SINCE] < patience and values[BEST] > values[TARGET]:
        count = _candidates(walk, _critical_path(shop, walk), neighbourhood)
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
