"""Drawing schedules from scores where transfers take time: an order and a bias per device class.

The order is drawn from the scores of the tasks, the bias gets Gaussian noise; every task then goes
where its finish plus bias is smallest. Gradients come with the draws, as in ``sim/timeline/sampling.py``.
"""

from __future__ import annotations

import numpy as np

from weft.model.graph import Floats, Ints
from weft.sim.arrays import Arrays
from weft.sim.heap import copy_into
from weft.sim.jit import inlined, kernel, lean_inlined
from weft.sim.random import normal
from weft.sim.timeline.list_planning import list_order, place_all
from weft.sim.timeline.sampling import Drawn, Scores, gumbel, plackett_luce
from weft.sim.timeline.timelines import Timeline, clear


@inlined
def _draw_order(a: Arrays, logit: Floats, state: np.ndarray, order: Ints, by_logit: Floats) -> None:
    """Topological order; each next task is a draw from the softmax over those that are ready."""
    n = len(logit)
    has_gradients = len(by_logit) > 0
    top = logit.max()
    waiting, ready = np.empty(n, np.int64), np.empty(n, np.int64)
    size = np.int64(0)
    for i in range(n):
        waiting[i] = a.pred_ptr[i + 1] - a.pred_ptr[i]
        if waiting[i] == 0:
            ready[size] = i
            size += 1
    for place_at in range(n):
        best, best_key, total = np.int64(0), -np.inf, 0.0
        for k in range(size):
            key = logit[ready[k]] + gumbel(state)
            if key > best_key:
                best, best_key = np.int64(k), key
            if has_gradients:
                total += np.exp(logit[ready[k]] - top)
        i = ready[best]
        if has_gradients:
            by_logit[i] += 1.0
            for k in range(size):
                by_logit[ready[k]] -= np.exp(logit[ready[k]] - top) / total
        order[place_at] = i
        size -= 1
        ready[best] = ready[size]
        for e in range(a.succ_ptr[i], a.succ_ptr[i + 1]):
            j = a.succ[e]
            waiting[j] -= 1
            if waiting[j] == 0:
                ready[size] = j
                size += 1


@kernel
def draw_placements(
    a: Arrays,
    t: Timeline,
    best_t: Timeline,
    scores: Scores,
    by_list: bool,
    duplicate: bool,
    state: np.ndarray,
    drawn: Drawn,
) -> None:
    """Fill ``drawn`` for a problem with transfer times, by earliest finish plus a noisy bias.

    The rows of the best draw are left in ``best_t``; ``drawn.start`` and ``drawn.device`` stay as
    they are.
    """
    logit = scores.logit
    n, num_classes = a.run.shape
    order, priority = np.empty(n, np.int64), np.empty(n)
    bias = np.zeros((n, num_classes))
    nothing, nobody, yes = np.zeros(0), np.zeros(0, np.int64), np.bool_(True)
    best = np.inf
    for b in range(len(drawn.makespan)):
        has_gradients = len(drawn.by_logit) > 0
        by_logit = drawn.by_logit[b] if has_gradients else nothing
        if by_list:
            for i in range(n):
                priority[i] = logit[i] + gumbel(state)
            order = list_order(a, priority)
            if has_gradients:
                plackett_luce(logit, np.argsort(-priority), by_logit)
        else:
            _draw_order(a, logit, state, order, by_logit)
        for i in range(n):
            for c in range(num_classes):
                noise = normal(state)
                bias[i, c] = scores.bias[i, c] + scores.spread * noise
                if has_gradients and a.run[i, c] < np.inf and scores.spread > 0.0:
                    drawn.by_bias[b, i * num_classes + c] = noise / scores.spread
        clear(a.is_unary, t)
        last = place_all(a, t, order, nobody, bias, yes, duplicate)
        drawn.makespan[b] = last
        if last < best:
            best = last
            _keep_rows(t, best_t)


@lean_inlined
def _keep_rows(t: Timeline, kept: Timeline) -> None:
    copy_into(kept.row_task, t.row_task)
    copy_into(kept.row_device, t.row_device)
    copy_into(kept.row_start, t.row_start)
    copy_into(kept.row_finish, t.row_finish)
    copy_into(kept.next_row, t.next_row)
    copy_into(kept.first_row, t.first_row)
    copy_into(kept.num_rows, t.num_rows)
