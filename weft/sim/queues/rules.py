"""Dispatching rules of the queue view: for every free device, the kind whose queue it serves.

A rule is a number in one ``choose``. Rules count what they have given away in the same decision:
a kind is available while its queue is longer than the batches of the devices already sent there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.sim.jit import inlined, kernel, lean_inlined, lean_kernel
from weft.sim.queues.kernel import NOW, WAIT, State, Stream, advance, apply_action, begin
from weft.sim.random import below

# fmt: off
FIFO, MRU, DEPTH_FIRST, RANDOM, TOP_FIRST, ROUND_ROBIN, SHORTEST_FIRST, LONGEST_FIRST = range(8)
HEAVY_LAST, RANKED, EARLIEST, ESTIMATED = 8, 9, 10, 11
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
    order: Ints = np.zeros(0, np.int64)  # (num_nodes,) estimated: nodes of each graph, children first
    node_time: Floats = np.zeros(0)  # (num_nodes,) estimated: mean run time
    node_rank: Floats = np.zeros(0)  # (num_nodes,) estimated: a buffer
    guess: Floats = np.zeros(0)  # (num_edges,) estimated: what an edge of an untracked branch counts with


@lean_inlined
def _available(s: State, b: int, kind: int, claimed: Ints) -> int:
    return s.queued[b, kind] - claimed[kind]


@lean_inlined
def _pick_kind(rule: Rule, s: State, b: int, claimed: Ints, usable: Bools) -> int:
    """The usable kind this rule serves next, or -1."""
    num_kinds = len(claimed)
    number = rule.number
    best = np.int64(-1)
    if number in (MRU, ROUND_ROBIN):
        first = rule.last[b] + (1 if number == ROUND_ROBIN else 0)
        for k in range(num_kinds):
            kind = (first + k) % num_kinds
            if usable[kind] and _available(s, b, kind, claimed) > 0:
                rule.last[b] = kind
                return kind
        return best
    if number == RANDOM:
        count = 0
        for kind in range(num_kinds):
            count += 1 if usable[kind] and _available(s, b, kind, claimed) > 0 else 0
        if count == 0:
            return best
        left = below(rule.state[b : b + 1], count)
        for kind in range(num_kinds):
            if usable[kind] and _available(s, b, kind, claimed) > 0:
                if left == 0:
                    return kind
                left -= 1
    for kind in range(num_kinds):
        if not usable[kind] or _available(s, b, kind, claimed) <= 0:
            continue
        if best < 0:
            best = kind
        elif number == FIFO:
            # as in the peer's simulator: the item at the array position of the claimed capacity
            if s.queue[b, kind, claimed[kind]] < s.queue[b, best, claimed[best]]:
                best = kind
        elif number == DEPTH_FIRST:
            best = kind if rule.depth[kind] > rule.depth[best] else best
        elif number == TOP_FIRST:
            best = kind if rule.depth[kind] < rule.depth[best] else best
        elif number == SHORTEST_FIRST:
            best = kind if rule.kind_time[kind] < rule.kind_time[best] else best
        elif number == LONGEST_FIRST:
            best = kind if rule.kind_time[kind] > rule.kind_time[best] else best
    return best


@lean_inlined
def _nothing(rule: Rule, num_kinds: int) -> int:
    """Idle, or wait for the next event."""
    return WAIT if rule.waits else num_kinds


@lean_inlined
def _assign(rule: Rule, stream: Stream, action: Ints, claimed: Ints, p: int, kind: int) -> None:
    """Device p gets a kind, or nothing where that is below 0."""
    if kind < 0:
        action[p] = _nothing(rule, len(claimed))
    else:
        action[p] = kind
        claimed[kind] += stream.batch[p]


@lean_inlined
def _by_device(rule: Rule, stream: Stream, s: State, b: int, action: Ints, claimed: Ints) -> None:
    """Go through the free devices and pick a kind for each."""
    num_kinds = len(claimed)
    for p in range(len(action)):
        action[p] = num_kinds
        if s.free_at[b, p] > s.total[b, NOW]:
            continue
        kind = _pick_kind(rule, s, b, claimed, stream.can_run[p])
        _assign(rule, stream, action, claimed, p, kind)


@lean_inlined
def _last_free(action: Ints, stream: Stream, kind: int) -> int:
    """The last free device, of those that can run a kind if one is given (>= 0), or -1."""
    for p in range(len(action) - 1, -1, -1):
        if action[p] == FREE and (kind < 0 or stream.can_run[p, kind]):
            return p
    return -1


@lean_inlined
def _mark_usable(stream: Stream, action: Ints, usable: Bools) -> None:
    """Which kinds some free device can run."""
    for kind in range(len(usable)):
        usable[kind] = False
        for p in range(len(action)):
            usable[kind] |= action[p] == FREE and stream.can_run[p, kind]


@inlined
def _by_count(rule: Rule, stream: Stream, s: State, b: int, action: Ints, claimed: Ints) -> None:
    """Pick a kind, then the smallest free device that takes its whole queue, else the last free one."""
    num_kinds = len(claimed)
    for p in range(len(action)):
        action[p] = FREE if s.free_at[b, p] <= s.total[b, NOW] else num_kinds
    usable = np.empty(num_kinds, np.bool_)
    while _last_free(action, stream, -1) >= 0:
        _mark_usable(stream, action, usable)
        kind = _pick_kind(rule, s, b, claimed, usable)
        if kind < 0:
            break
        waiting = _available(s, b, kind, claimed)
        chosen = np.int64(-1)
        for p in range(len(action)):
            if action[p] == FREE and stream.can_run[p, kind] and stream.batch[p] >= waiting:
                chosen = p if chosen < 0 or stream.batch[p] < stream.batch[chosen] else chosen
        chosen = chosen if chosen >= 0 else _last_free(action, stream, kind)
        action[chosen] = kind
        claimed[kind] += stream.batch[chosen]
    for p in range(len(action)):
        if action[p] == FREE:
            action[p] = _nothing(rule, num_kinds)


@lean_inlined
def _deepest_light(rule: Rule, s: State, b: int, claimed: Ints, usable: Bools) -> int:
    best = np.int64(-1)
    for kind in range(len(claimed)):
        if usable[kind] and not rule.is_heavy[kind] and _available(s, b, kind, claimed) > 0:
            best = kind if best < 0 or rule.depth[kind] > rule.depth[best] else best
    return best


@lean_inlined
def _fullest_light(rule: Rule, s: State, b: int, claimed: Ints, usable: Bools, room: int) -> int:
    """The light kind that fills most of a device, ties to the deeper."""
    best, best_size = np.int64(-1), np.int64(0)
    for kind in range(len(claimed)):
        size = min(_available(s, b, kind, claimed), room)
        if rule.is_heavy[kind] or not usable[kind] or size <= 0:
            continue
        if size > best_size or (size == best_size and rule.depth[kind] > rule.depth[best]):
            best, best_size = kind, size
    return best


@lean_inlined
def _heaviest(rule: Rule, s: State, b: int, claimed: Ints, usable: Bools, least: int) -> int:
    best = np.int64(-1)
    for kind in range(len(claimed)):
        if usable[kind] and rule.is_heavy[kind] and _available(s, b, kind, claimed) >= least:
            best = kind if best < 0 or rule.depth[kind] > rule.depth[best] else best
    return best


@lean_inlined
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
                    kind = _heaviest(rule, s, b, claimed, stream.can_run[p], np.int64(1))
                    heavy_on_small += 1 if kind >= 0 else 0
                if kind < 0:
                    kind = _deepest_light(rule, s, b, claimed, stream.can_run[p])
            else:
                if p == largest:
                    kind = _heaviest(rule, s, b, claimed, stream.can_run[p], rule.least_heavy)
                if kind < 0:
                    kind = _fullest_light(rule, s, b, claimed, stream.can_run[p], stream.batch[p])
            _assign(rule, stream, action, claimed, p, kind)


@lean_inlined
def _goes_first(rule: Rule, s: State, b: int, claimed: Ints, kind: int, other: int) -> bool:
    """Whether a kind comes before another: by rank, or by the age of the next task."""
    if rule.number == EARLIEST:
        return s.queue[b, kind, claimed[kind]] < s.queue[b, other, claimed[other]]
    return rule.rank[kind] > rule.rank[other]


@lean_inlined
def _earliest_finish(stream: Stream, s: State, b: int, item: int, available_at: Floats) -> tuple[int, float]:
    """The device on which a task would end first, ties to the larger batch, and when."""
    max_nodes = s.open_edges.shape[2]
    graph = s.graph[b, item // max_nodes] if s.graph.shape[1] > 0 else 0
    v = stream.graph_ptr[graph] + item % max_nodes
    best, best_end = np.int64(0), np.inf
    for p in range(len(available_at)):
        end = available_at[p] + stream.run[v, stream.device_class[p]]
        if end < best_end or (end == best_end and stream.batch[p] > stream.batch[best]):
            best, best_end = p, end
    return best, best_end


@lean_inlined
def _expected_rank(
    rule: Rule, stream: Stream, probability: Floats, seen: Floats, e: int, first: int, last: int
) -> float:
    """Expected rank behind the branch that edge e opens; its node's edges end at ``last``."""
    num_edges, total, group = 0, 0.0, stream.group[e]
    for other in range(e, last):
        num_edges += 1 if stream.group[other] == group else 0
    for other in range(e, last):
        if stream.group[other] == group:
            p = probability[other]
            c = stream.choice[e]
            if 0 <= c < len(seen) and num_edges > 1:
                p = (seen[c, 1] + 1.0) / (seen[c, 0] + 2.0)
                p = p if other == e else (1.0 - p) / (num_edges - 1)
            total += p * rule.node_rank[first + stream.succ[other]]
    return total


@lean_inlined
def _opens_branch(stream: Stream, v: int, e: int) -> bool:
    """Whether edge e is the first of its branch."""
    other = stream.succ_ptr[v]
    while stream.group[other] != stream.group[e]:
        other += 1
    return other == e


@lean_kernel
def write_ranks(rule: Rule, stream: Stream, probability: Floats, seen: Floats) -> None:
    """Upward ranks as expectations over branches, into ``rule.rank``; a kind counts with its highest task.

    Rank of a task: its mean run time plus the longest of what follows, a branch counting with its
    expectation. Tracked branches have the estimate from the outcomes in ``seen`` (one uniform
    prior outcome each way); if it is empty, and for other branches, ``probability`` holds: what the graph
    states for a rule that knows it, a guess for one that estimates.
    """
    rule.rank[:] = -np.inf
    for graph in range(len(stream.graph_ptr) - 1):
        first = stream.graph_ptr[graph]
        for i in range(first, stream.graph_ptr[graph + 1]):
            v = rule.order[i]
            longest = 0.0
            for e in range(stream.succ_ptr[v], stream.succ_ptr[v + 1]):
                if stream.group[e] < 0:
                    longest = max(longest, rule.node_rank[first + stream.succ[e]])
                elif _opens_branch(stream, v, e):
                    behind = _expected_rank(rule, stream, probability, seen, e, first, stream.succ_ptr[v + 1])
                    longest = max(longest, behind)
            rule.node_rank[v] = rule.node_time[v] + longest
            rule.rank[stream.kind[v]] = max(rule.rank[stream.kind[v]], rule.node_rank[v])


@inlined
def _ranked(rule: Rule, stream: Stream, s: State, b: int, action: Ints, claimed: Ints) -> None:
    """Kinds by rank or age, each to the device where it would finish first.

    A busy device may be the best one: it then counts as reserved, and the next kind finds
    it busy for longer. Free devices that get nothing wait.
    """
    num_kinds, now, num_free = len(claimed), s.total[b, NOW], 0
    available_at = np.empty(len(action))
    for p in range(len(action)):
        available_at[p] = max(now, s.free_at[b, p])
        action[p] = FREE if s.free_at[b, p] <= now else num_kinds
        num_free += 1 if action[p] == FREE else 0
    while num_free > 0:
        kind = np.int64(-1)
        for k in range(num_kinds):
            if _available(s, b, k, claimed) > 0:
                kind = k if kind < 0 or _goes_first(rule, s, b, claimed, k, kind) else kind
        if kind < 0:
            break
        best, end = _earliest_finish(stream, s, b, s.queue[b, kind, claimed[kind]], available_at)
        if action[best] == FREE:
            action[best] = kind
            num_free -= 1
        available_at[best] = end
        claimed[kind] += stream.batch[best]
    for p in range(len(action)):
        if action[p] == FREE:
            action[p] = _nothing(rule, num_kinds)


@lean_kernel
def choose(rule: Rule, stream: Stream, s: State, b: int, action: Ints, claimed: Ints) -> None:
    """Fill ``action`` with one kind (or num_kinds: idle) per device; ``claimed`` is a buffer."""
    for k in range(len(claimed)):
        claimed[k] = 0
    if rule.number == HEAVY_LAST:
        _heavy_last(rule, stream, s, b, action, claimed)
    elif rule.number >= RANKED:
        if rule.number == ESTIMATED:
            write_ranks(rule, stream, rule.guess, s.seen[b])
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
