"""Lookahead HEFT: each device is judged by where it leaves the children (tried, then undone)."""

from __future__ import annotations

import numpy as np

from weft.model.graph import Floats, Ints
from weft.sim.arrays import Arrays
from weft.sim.jit import kernel, lean_inlined
from weft.sim.timeline.timelines import Timeline, add_row, earliest, may_run, occupy, ready_times, take_back


@kernel
def place_lookahead(a: Arrays, t: Timeline, order: Ints, children: Ints) -> None:
    """HEFT order; each device is judged by the latest finish of the children placed after it.

    ``children`` holds the successors of every task in list order (the CSR of ``succ``).
    Bittencourt et al. (2010): only parents placed so far count for a child. Tasks that have a row
    already stay where they are.
    """
    num_devices = len(a.device_class)
    ready = np.empty(num_devices)
    insert = np.bool_(True)
    mine = np.empty(num_devices)
    widest = 1
    for i in range(len(a.release)):
        widest = max(widest, a.succ_ptr[i + 1] - a.succ_ptr[i])
    trail = np.empty((widest + 1, 4))
    for i in order:
        if t.first_row[i] >= 0:
            continue
        ready_times(a, t, i, mine)
        best_p, best_start, best_score, best_finish = np.int64(-1), 0.0, np.inf, np.inf
        for p in range(num_devices):
            if not may_run(a, i, p):
                continue
            start = earliest(a, t, p, i, mine[p], insert)
            finish = start + a.run[i, a.device_class[p]]
            score = finish
            if a.succ_ptr[i + 1] > a.succ_ptr[i]:
                score = _score_children(a, t, i, p, start, children, ready, trail, best_score)
            if score < best_score or (score == best_score and finish < best_finish):
                best_p, best_start, best_score, best_finish = p, start, score, finish
        add_row(a, t, best_p, i, best_start)


@lean_inlined
def _try_row(a: Arrays, t: Timeline, p: int, i: int, start: float, trail: Floats, depth: int) -> float:
    """Place task i for now; ``trail[depth]`` remembers how to take it back."""
    entry = occupy(a, t, p, i, start)
    trail[depth, 0], trail[depth, 1], trail[depth, 2] = entry[0], entry[1], entry[2]
    trail[depth, 3] = entry[3]
    row = t.num_rows[0]
    t.num_rows[0] += 1
    t.row_task[row], t.row_device[row] = i, p
    t.row_start[row], t.row_finish[row] = start, start + a.run[i, a.device_class[p]]
    t.next_row[row] = t.first_row[i]
    t.first_row[i] = row
    return t.row_finish[row]


@lean_inlined
def _undo_rows(a: Arrays, t: Timeline, trail: Floats, depth: int) -> None:
    for k in range(depth - 1, -1, -1):
        t.num_rows[0] -= 1
        row = t.num_rows[0]
        i, p = t.row_task[row], t.row_device[row]
        t.first_row[i] = t.next_row[row]
        take_back(a, t, p, i, (int(trail[k, 0]), trail[k, 1], trail[k, 2], int(trail[k, 3])))


@lean_inlined
def _score_children(
    a: Arrays,
    t: Timeline,
    i: int,
    p: int,
    start: float,
    children: Ints,
    ready: Floats,
    trail: Floats,
    enough: float,
) -> float:
    """Place i on p and its children by earliest finish, read off the latest, take all back."""
    depth = np.int64(0)
    insert = np.bool_(True)
    score = _try_row(a, t, p, i, start, trail, depth)
    depth += 1
    for e in range(a.succ_ptr[i], a.succ_ptr[i + 1]):
        j = children[e]
        ready_times(a, t, j, ready)
        best_q, best_start, best_finish = np.int64(-1), 0.0, np.inf
        for q in range(len(ready)):
            if may_run(a, j, q):
                run = a.run[j, a.device_class[q]]
                if ready[q] + run < best_finish:
                    s = earliest(a, t, q, j, ready[q], insert)
                    if s + run < best_finish:
                        best_q, best_start, best_finish = q, s, s + run
        score = max(score, best_finish)
        if score > enough:
            break
        _try_row(a, t, best_q, j, best_start, trail, depth)
        depth += 1
    _undo_rows(a, t, trail, depth)
    return score
