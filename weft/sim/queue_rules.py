"""Dispatching rules of the queue view: for every free device, the kind whose queue it serves.

A rule is a number in one ``choose``. Rules count what they have given away in the same decision:
a kind is available while its queue is longer than the batches of the devices already sent there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.sim.events import NOW, WAIT, State, Stream, advance, apply_action, begin
from weft.sim.jit import inlined, kernel
from weft.sim.random import below

# fmt: off
FIFO, MRU, DEPTH_FIRST, RANDOM, TOP_FIRST, ROUND_ROBIN, SHORTEST_FIRST, LONGEST_FIRST = range(8)
HEAVY_LAST, RANKED = 8, 9
FREE = -2
# fmt: on


class Rule(NamedTuple):
    """One rule and what it may know of graph and cluster."""

    number: int
    by_count: bool  # choose the kind first, then the smallest free device its queue fills
    waits: bool  # a device without work waits for the next event instead of idling
    small_heavy: int  # heavy-last: how many one-task devices may run a heavy kind
    least_heavy: int  # heavy-last: fewest heavy tasks the largest device starts
    kind_time: Floats  # (num_kinds,) shortest run time
    depth: Ints  # (num_kinds,) rank by level of the graph, then index
    is_heavy: Bools  # (num_kinds,)
    rank: Floats  # (num_kinds,) ranked: higher first
    state: np.ndarray  # (num_envs,) random words
    last: Ints  # (num_envs,) kind chosen last


@inlined
def _available(s: State, b: int, kind: int, claimed: Ints) -> int:
    return s.queued[b, kind] - claimed[kind]


@inlined
def _pick_kind(rule: Rule, s: State, b: int, claimed: Ints) -> int:
    """The kind this rule serves next, or -1."""
    num_kinds = len(claimed)
    number = rule.number
    best = np.int64(-1)
    if number in (MRU, ROUND_ROBIN):
        first = rule.last[b] + (1 if number == ROUND_ROBIN else 0)
        for k in range(num_kinds):
            kind = (first + k) % num_kinds
            if _available(s, b, kind, claimed) > 0:
                rule.last[b] = kind
                return kind
        return best
    if number == RANDOM:
        count = 0
        for kind in range(num_kinds):
            count += 1 if _available(s, b, kind, claimed) > 0 else 0
        if count == 0:
            return best
        left = below(rule.state[b : b + 1], count)
        for kind in range(num_kinds):
            if _available(s, b, kind, claimed) > 0:
                if left == 0:
                    return kind
                left -= 1
    for kind in range(num_kinds):
        if _available(s, b, kind, claimed) <= 0:
            continue
        if best < 0:
            best = kind
        elif number == FIFO:
            # as in the peer's simulator: the item at the array position of the claimed capacity
            if s.queue[b, kind, claimed[kind]] < s.queue[b, best, claimed[best]]:
                best = kind
        elif number == DEPTH_FIRST:
            best = kind if rule.depth[kind] > rule.depth[best] else best
        elif number == SHORTEST_FIRST:
            best = kind if rule.kind_time[kind] < rule.kind_time[best] else best
        elif number == LONGEST_FIRST:
            best = kind if rule.kind_time[kind] > rule.kind_time[best] else best
        elif number == RANKED:
            best = kind if rule.rank[kind] > rule.rank[best] else best
    return best


@inlined
def _nothing(rule: Rule, num_kinds: int) -> int:
    """Idle, or wait for the next event."""
    return WAIT if rule.waits else num_kinds


@inlined
def _by_device(rule: Rule, stream: Stream, s: State, b: int, action: Ints, claimed: Ints) -> None:
    """Go through the free devices and pick a kind for each."""
    num_kinds = len(claimed)
    for p in range(len(action)):
        action[p] = num_kinds
        if s.free_at[b, p] > s.total[b, NOW]:
            continue
        kind = _pick_kind(rule, s, b, claimed)
        if kind < 0:
            action[p] = _nothing(rule, num_kinds)
        else:
            action[p] = kind
            claimed[kind] += stream.batch[p]


@inlined
def _last_free(action: Ints) -> int:
    for p in range(len(action) - 1, -1, -1):
        if action[p] == FREE:
            return p
    return -1


@inlined
def _by_count(rule: Rule, stream: Stream, s: State, b: int, action: Ints, claimed: Ints) -> None:
    """Pick a kind, then the smallest free device that takes its whole queue, else the last free one."""
    num_kinds = len(claimed)
    for p in range(len(action)):
        action[p] = FREE if s.free_at[b, p] <= s.total[b, NOW] else num_kinds
    while _last_free(action) >= 0:
        kind = _pick_kind(rule, s, b, claimed)
        if kind < 0:
            break
        waiting = _available(s, b, kind, claimed)
        chosen = np.int64(-1)
        for p in range(len(action)):
            if action[p] == FREE and stream.batch[p] >= waiting:
                chosen = p if chosen < 0 or stream.batch[p] < stream.batch[chosen] else chosen
        chosen = chosen if chosen >= 0 else _last_free(action)
        action[chosen] = kind
        claimed[kind] += stream.batch[chosen]
    for p in range(len(action)):
        if action[p] == FREE:
            action[p] = _nothing(rule, num_kinds)


@inlined
def _deepest_light(rule: Rule, s: State, b: int, claimed: Ints) -> int:
    best = np.int64(-1)
    for kind in range(len(claimed)):
        if not rule.is_heavy[kind] and _available(s, b, kind, claimed) > 0:
            best = kind if best < 0 or rule.depth[kind] > rule.depth[best] else best
    return best


@inlined
def _fullest_light(rule: Rule, s: State, b: int, claimed: Ints, room: int) -> int:
    """The light kind that fills most of a device, ties to the deeper."""
    best, best_size = np.int64(-1), np.int64(0)
    for kind in range(len(claimed)):
        size = min(_available(s, b, kind, claimed), room)
        if rule.is_heavy[kind] or size <= 0:
            continue
        if size > best_size or (size == best_size and rule.depth[kind] > rule.depth[best]):
            best, best_size = kind, size
    return best


@inlined
def _heaviest(rule: Rule, s: State, b: int, claimed: Ints, least: int) -> int:
    best = np.int64(-1)
    for kind in range(len(claimed)):
        if rule.is_heavy[kind] and _available(s, b, kind, claimed) >= least:
            best = kind if best < 0 or rule.depth[kind] > rule.depth[best] else best
    return best


@inlined
def _heavy_last(rule: Rule, stream: Stream, s: State, b: int, action: Ints, claimed: Ints) -> None:
    """Heavy kinds only on the device with the largest batch (and on few one-task devices).

    One-task devices come first and take the deepest light kind, the others the light kind that
    fills them best.
    """
    num_kinds = len(claimed)
    now = s.total[b, NOW]
    largest, heavy_on_small = np.int64(0), np.int64(0)
    for p in range(len(action)):
        action[p] = num_kinds
        if stream.batch[p] >= stream.batch[largest]:
            largest = p
        kind = s.running_kind[b, p]
        if stream.batch[p] == 1 and s.free_at[b, p] > now and kind >= 0 and rule.is_heavy[kind]:
            heavy_on_small += 1
    for is_small in (True, False):
        for p in range(len(action)):
            if s.free_at[b, p] > now or (stream.batch[p] == 1) != is_small:
                continue
            kind = np.int64(-1)
            if is_small:
                if heavy_on_small < rule.small_heavy:
                    kind = _heaviest(rule, s, b, claimed, np.int64(1))
                    heavy_on_small += 1 if kind >= 0 else 0
                if kind < 0:
                    kind = _deepest_light(rule, s, b, claimed)
            else:
                if p == largest:
                    kind = _heaviest(rule, s, b, claimed, rule.least_heavy)
                if kind < 0:
                    kind = _fullest_light(rule, s, b, claimed, stream.batch[p])
            if kind < 0:
                action[p] = _nothing(rule, num_kinds)
            else:
                action[p] = kind
                claimed[kind] += stream.batch[p]


@inlined
def _ranked(rule: Rule, stream: Stream, s: State, b: int, action: Ints, claimed: Ints) -> None:
    """Kinds by rank, each to the device where it would finish first, busy ones included."""
    num_kinds, now = len(claimed), s.total[b, NOW]
    done = np.zeros(num_kinds, np.bool_)
    for p in range(len(action)):
        action[p] = FREE if s.free_at[b, p] <= now else num_kinds
    for _ in range(num_kinds * len(action) + 1):
        kind = np.int64(-1)
        for k in range(num_kinds):
            if not done[k] and _available(s, b, k, claimed) > 0:
                kind = k if kind < 0 or rule.rank[k] > rule.rank[kind] else kind
        if kind < 0:
            break
        max_nodes = s.open_edges.shape[2]
        item = s.queue[b, kind, 0]
        graph = s.graph[b, item // max_nodes] if s.graph.shape[1] > 0 else 0
        v = stream.graph_ptr[graph] + item % max_nodes
        best, best_end = np.int64(-1), np.inf
        for p in range(len(action)):
            if 0 <= action[p] < num_kinds:
                continue
            end = max(now, s.free_at[b, p]) + stream.run[v, stream.device_class[p]]
            if end < best_end or (end == best_end and stream.batch[p] > stream.batch[best]):
                best, best_end = p, end
        if best >= 0 and action[best] == FREE:
            action[best] = kind
            claimed[kind] += stream.batch[best]
        else:
            done[kind] = True  # its best device is busy: wait for it
    for p in range(len(action)):
        if action[p] == FREE:
            action[p] = _nothing(rule, num_kinds)


@kernel
def choose(rule: Rule, stream: Stream, s: State, b: int, action: Ints, claimed: Ints) -> None:
    """Fill ``action`` with one kind (or num_kinds: idle) per device; ``claimed`` is a buffer."""
    for k in range(len(claimed)):
        claimed[k] = 0
    if rule.number == HEAVY_LAST:
        _heavy_last(rule, stream, s, b, action, claimed)
    elif rule.number == RANKED:
        _ranked(rule, stream, s, b, action, claimed)
    elif rule.by_count:
        _by_count(rule, stream, s, b, action, claimed)
    else:
        _by_device(rule, stream, s, b, action, claimed)


@kernel
def choose_all(rule: Rule, stream: Stream, s: State, actions: Ints) -> None:
    """One decision of the rule in every environment; waiting counts as the last choice."""
    claimed = np.empty(stream.can_run.shape[1], np.int64)
    for b in range(len(actions)):
        choose(rule, stream, s, b, actions[b], claimed)
        for p in range(actions.shape[1]):
            if actions[b, p] == WAIT:
                actions[b, p] = stream.can_run.shape[1]


@kernel
def run_episodes(rule: Rule, stream: Stream, s: State, start: float) -> None:
    """Run every environment from its start to its end under one rule."""
    action = np.empty(len(stream.device_class), np.int64)
    claimed = np.empty(stream.can_run.shape[1], np.int64)
    for b in range(len(s.seed)):
        is_over = begin(stream, s, b, start)
        while not is_over:
            choose(rule, stream, s, b, action, claimed)
            apply_action(stream, s, b, action)
            is_over = advance(stream, s, b)
