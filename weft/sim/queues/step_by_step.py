"""The event kernel with a world outside: what happens is reported, one event or decision at a time.

The state is that of ``sim/queues/kernel.py`` with one environment or more. Durations are expectations: a
device is busy until its tasks are reported to have ended, and ``free_at`` is when that is expected. The
heap of events holds nothing between two calls.
"""

from __future__ import annotations

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.sim.jit import kernel, lean_inlined, lean_kernel
from weft.sim.queues.branches import observe_outcome
from weft.sim.queues.kernel import (
    DECISIONS,
    NOW,
    RUNNING,
    WAIT,
    State,
    Stream,
    act,
    arrive,
    end_task,
    enqueue,
    expire,
    graph_of,
    num_waiting,
    start_first,
)
from weft.sim.queues.observation import Sight, observe, write_mask
from weft.sim.queues.rules import Rule, choose


@lean_kernel
def tell_arrival(stream: Stream, s: State, b: int) -> None:
    """The next job enters; its time is in ``s.arrival`` already."""
    arrive(stream, s, b)


@lean_kernel
def tell_outcome(stream: Stream, s: State, b: int, item: int) -> None:
    """Count what the branches of a task decide, as it stands in ``s.told``."""
    max_nodes = s.open_edges.shape[2]
    job, node = item // max_nodes, item % max_nodes
    observe_outcome(stream, s, b, job, node, stream.graph_ptr[graph_of(s, b, job)] + node)


@lean_kernel
def tell_end(stream: Stream, s: State, b: int, item: int) -> None:
    """A task has ended, its branches as in ``s.told``; ``stream.peeks``: they were counted before."""
    end_task(stream, s, b, item)


@lean_kernel
def queue_again(stream: Stream, s: State, b: int, item: int) -> None:
    """A task that had been started waits once more."""
    max_nodes = s.open_edges.shape[2]
    job, node = item // max_nodes, item % max_nodes
    enqueue(stream, s, b, job, node, stream.kind[stream.graph_ptr[graph_of(s, b, job)] + node])


@lean_inlined
def _come_due(stream: Stream, s: State, b: int, is_busy: Bools) -> bool:
    """Whether a device is free and a task waits, then drop what has expired.

    A device that should have ended and has not may end at any moment.
    """
    now = s.total[b, NOW]
    has_free = False
    for p in range(len(is_busy)):
        if is_busy[p] and s.free_at[b, p] <= now:
            s.free_at[b, p] = np.nextafter(now, np.inf)
        has_free = has_free or s.free_at[b, p] <= now
    is_due = has_free and num_waiting(s, b) > 0
    expire(stream, s, b)
    return is_due


@lean_inlined
def _take_started(s: State, b: int, items: Ints) -> int:
    """Move what has just started from the heap of events to ``items``, oldest job first."""
    size = s.count[b, RUNNING]
    for k in range(size):
        item, at = s.event_item[b, k], k
        while at > 0 and items[at - 1] > item:
            items[at] = items[at - 1]
            at -= 1
        items[at] = item
    s.count[b, RUNNING] = 0
    return size


@lean_inlined
def _act_all(stream: Stream, s: State, b: int, action: Ints, items: Ints, sizes: Ints) -> None:
    """Carry out a decision; ``items`` (num_devices, max_batch) and ``sizes`` get what starts."""
    s.count[b, DECISIONS] += 1
    now = s.total[b, NOW]
    for p in range(len(action)):
        sizes[p] = 0
        if s.free_at[b, p] <= now and act(stream, s, b, p, action[p]) > 0:
            sizes[p] = _take_started(s, b, items[p])


@kernel
def decide_by_rule(
    rule: Rule, stream: Stream, s: State, b: int, is_busy: Bools, action: Ints, items: Ints, sizes: Ints
) -> bool:
    """One decision of a rule if one is due; returns whether it was."""
    if not _come_due(stream, s, b, is_busy):
        return False
    choose(rule, stream, s, b, action, np.empty(stream.can_run.shape[1], np.int64))
    _act_all(stream, s, b, action, items, sizes)
    return True


@lean_kernel
def observe_due(
    stream: Stream, sight: Sight, s: State, b: int, is_busy: Bools, observation: Floats, mask: Bools
) -> bool:
    """What a policy sees if a decision is due; returns whether one is."""
    if not _come_due(stream, s, b, is_busy):
        return False
    observe(stream, sight, s, b, observation)
    write_mask(stream, s, b, mask)
    return True


@lean_kernel
def act_on_choice(
    stream: Stream, s: State, b: int, action: Ints, waits: bool, items: Ints, sizes: Ints
) -> None:
    """Carry out the choice of a policy; ``waits``: idling is waiting."""
    for p in range(len(action)):
        if waits and action[p] == stream.can_run.shape[1]:
            action[p] = WAIT
    _act_all(stream, s, b, action, items, sizes)


@kernel
def start_anyhow(stream: Stream, s: State, b: int, items: Ints, sizes: Ints) -> None:
    """The first kind that can starts on the first free device, whatever the rule says."""
    batches = s.device_batches[b].copy()
    start_first(stream, s, b)
    for p in range(len(batches)):
        sizes[p] = 0
        if s.device_batches[b, p] > batches[p]:
            sizes[p] = _take_started(s, b, items[p])
