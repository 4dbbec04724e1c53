"""The event kernel: jobs arrive, walk their graphs, wait in queues, run in batches.

One row of every state array is one environment; all state is arrays, so a snapshot is a copy.
Tasks wait in one queue per kind, oldest job first. A task ends, its edges are settled (drawn where
they are branches, ``branches.py``), and every task whose edges are all settled is queued if one was taken and
skipped if none was. A decision is asked for when a device is free and a task waits.

An item of a queue is one number, ``job * max_nodes + node``: jobs are numbered by arrival, so items
compare by the age of their job.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.sim.heap import pop_event, pop_item, push_event, push_item
from weft.sim.jit import lean_inlined as inlined
from weft.sim.jit import lean_inlined_kernel
from weft.sim.jit import lean_kernel as kernel
from weft.sim.queues.branches import observe_outcome, outcome_of

TAKEN = 1 << 20
"""Added to the count of open edges of a task once one of its edges is taken."""

WAIT = -1
"""Action of a device that stays free until the next event, without an idle block."""

# rows of State.count
NEXT_JOB, IN_SYSTEM, COMPLETED, EXPIRED, DECISIONS, IDLES, RUNNING, LAST_KIND, LAST_DONE = range(9)
NUM_COUNTS = 9
# rows of State.total
NOW, LAST_DECISION, SUM_JCT, JOB_TIME, QUEUE_TIME = range(5)
NUM_TOTALS = 5


class Stream(NamedTuple):
    """What all environments share: graphs, devices, rules of the game."""

    graph_ptr: Ints  # (num_graphs + 1,) nodes of graph g are [graph_ptr[g], graph_ptr[g + 1])
    kind: Ints  # (num_nodes,)
    run: Floats  # (num_nodes, num_classes) infinite where it cannot run
    num_in: Ints  # (num_nodes,)
    succ_ptr: Ints  # (num_nodes + 1,)
    succ: Ints  # (num_edges,) node within its graph
    group: Ints  # (num_edges,) branch group, -1: always taken
    order: Ints  # (num_nodes,) node within its graph, graph by graph, each after those before it
    choice: Ints  # (num_edges,) number of the branch whose estimate counts this edge's group, -1: none
    device_class: Ints  # (num_devices,)
    batch: Ints  # (num_devices,) largest batch
    can_run: Bools  # (num_devices, num_kinds) whether some task of the kind runs there
    expiry: float  # a queued task of an older job is dropped; infinite: never
    idle_block: float  # an idle decision blocks the device this long; 0: it waits for the next event
    forget: float  # weight of an old outcome in the estimate of a branch, per outcome; 1: never forget
    peeks: bool  # whether an outcome is counted when its task starts (else when it ends)


class State(NamedTuple):
    """One row per environment; everything that changes."""

    seed: Ints  # (num_envs,)
    jobs: Ints  # (num_envs,) jobs of this episode
    arrival: Floats  # (num_envs, num_jobs) sorted
    graph: Ints  # (num_envs, num_jobs) or (num_envs, 0): all jobs have graph 0
    trace: Ints  # (num_envs, num_jobs, max_nodes) edge taken by each branching node, or empty
    told: Bools  # (num_envs, max_degree) whether each edge out of the task that ends is taken, or empty
    probability: Floats  # (num_envs, num_edges)
    drift_at: Floats  # (num_envs, num_knots) shares of the stream at which drift_value holds; empty: no drift
    drift_value: Floats  # (num_envs, num_knots) probability of the first edge of branch 0
    finish: Floats  # (num_envs, num_jobs) NaN until the job is done
    task_device: (
        Ints  # (num_envs, num_jobs, max_nodes) where each task ran, -1: nowhere; no jobs: not recorded
    )
    task_batch: Ints  # (num_envs, num_jobs, max_nodes) which batch of its device that was
    task_start: Floats  # (num_envs, num_jobs, max_nodes) NaN: it never started
    task_finish: (
        Floats  # (num_envs, num_jobs, max_nodes) when it ended, or was dropped because its job expired
    )
    open_edges: Ints  # (num_envs, num_slots, max_nodes) unsettled edges, plus TAKEN
    stack: Ints  # (num_envs, max_nodes) skipped tasks whose edges are still to settle
    open_tasks: Ints  # (num_envs, num_slots) tasks of the job that wait or run
    queue: Ints  # (num_envs, num_kinds, queue_room)
    queued: Ints  # (num_envs, num_kinds)
    event_time: Floats  # (num_envs, max_running) heap by (time, item)
    event_item: Ints  # (num_envs, max_running)
    free_at: Floats  # (num_envs, num_devices)
    running_kind: Ints  # (num_envs, num_devices) -1: nothing
    running_size: Ints  # (num_envs, num_devices)
    device_busy: Floats  # (num_envs, num_devices) time spent running
    device_batches: Ints  # (num_envs, num_devices)
    device_tasks: Ints  # (num_envs, num_devices)
    seen: Floats  # (num_envs, num_branches, 2) weight of outcomes, and of first-edge outcomes
    count: Ints  # (num_envs, NUM_COUNTS)
    total: Floats  # (num_envs, NUM_TOTALS)
    overflow: Bools  # (num_envs,) a buffer was too small: enlarge and start again


@inlined
def graph_of(s: State, b: int, job: int) -> int:
    """Number of the graph of a job."""
    return s.graph[b, job] if s.graph.shape[1] > 0 else 0


@inlined
def enqueue(stream: Stream, s: State, b: int, job: int, node: int, kind: int) -> None:
    """A task waits in the queue of its kind."""
    size = s.queued[b, kind]
    if size >= s.queue.shape[2]:
        s.overflow[b] = True
        return
    push_item(s.queue[b, kind], size, job * s.open_edges.shape[2] + node)
    s.queued[b, kind] = size + 1


@inlined
def arrive(stream: Stream, s: State, b: int) -> None:
    """The next job enters: its tasks without predecessors are queued."""
    job = s.count[b, NEXT_JOB]
    s.count[b, NEXT_JOB] += 1
    s.count[b, IN_SYSTEM] += 1
    first = stream.graph_ptr[graph_of(s, b, job)]
    last = stream.graph_ptr[graph_of(s, b, job) + 1]
    num_slots = s.open_edges.shape[1]
    slot = job % num_slots
    if s.open_tasks[b, slot] > 0:  # an older job still uses the slot
        s.overflow[b] = True
        return
    for v in range(first, last):
        s.open_edges[b, slot, v - first] = stream.num_in[v]
        if stream.num_in[v] == 0:
            s.open_tasks[b, slot] += 1
            enqueue(stream, s, b, job, v - first, stream.kind[v])


@inlined
def _settle_edges(stream: Stream, s: State, b: int, job: int, node: int, has_run: bool, skipped: int) -> int:
    """Settle the edges out of one task; returns the new height of the stack of skipped tasks."""
    first = stream.graph_ptr[graph_of(s, b, job)]
    slot = job % s.open_edges.shape[1]
    v = first + node
    for e in range(stream.succ_ptr[v], stream.succ_ptr[v + 1]):
        target = stream.succ[e]
        taken = has_run
        if has_run and stream.group[e] >= 0:
            taken = outcome_of(stream, s, b, job, node, v, stream.group[e]) == e
        left = s.open_edges[b, slot, target] - 1
        if taken and left < TAKEN:
            left += TAKEN
        s.open_edges[b, slot, target] = left
        if left == TAKEN:
            s.open_tasks[b, slot] += 1
            enqueue(stream, s, b, job, target, stream.kind[first + target])
        elif left == 0:
            s.stack[b, skipped] = target
            skipped += 1
    return skipped


@inlined
def _settle(stream: Stream, s: State, b: int, job: int, node: int) -> None:
    """Settle the edges of a task that ended, and those of all tasks skipped because of it."""
    has_run, has_not = np.bool_(True), np.bool_(False)
    skipped = _settle_edges(stream, s, b, job, node, has_run, np.int64(0))
    while skipped > 0:
        skipped -= 1
        skipped = _settle_edges(stream, s, b, job, s.stack[b, skipped], has_not, skipped)


@inlined
def end_task(stream: Stream, s: State, b: int, item: int) -> None:
    """One task ends: settle its edges; the job is done when none of its tasks is left."""
    max_nodes = s.open_edges.shape[2]
    job, node = item // max_nodes, item % max_nodes
    slot = job % s.open_edges.shape[1]
    v = stream.graph_ptr[graph_of(s, b, job)] + node
    if s.task_finish.shape[1] > 0:
        s.task_finish[b, job, node] = s.total[b, NOW]
    if not stream.peeks:
        observe_outcome(stream, s, b, job, node, v)
    if stream.succ_ptr[v + 1] > stream.succ_ptr[v]:
        _settle(stream, s, b, job, node)
    s.open_tasks[b, slot] -= 1
    if s.open_tasks[b, slot] == 0 and np.isnan(s.finish[b, job]):
        s.finish[b, job] = s.total[b, NOW]
        s.total[b, SUM_JCT] += s.total[b, NOW] - s.arrival[b, job]
        s.count[b, COMPLETED] += 1
        s.count[b, IN_SYSTEM] -= 1
        s.count[b, LAST_DONE] = job


@inlined
def start_batch(stream: Stream, s: State, b: int, p: int, kind: int) -> int:
    """Start as many of the oldest tasks of a kind on device p as it takes; returns how many."""
    max_nodes = s.open_edges.shape[2]
    c = stream.device_class[p]
    now = s.total[b, NOW]
    heap = s.queue[b, kind]
    size = min(s.queued[b, kind], stream.batch[p])
    if s.count[b, RUNNING] + size > s.event_time.shape[1]:
        s.overflow[b] = True
        return 0
    running, events = s.count[b, RUNNING], s.event_item[b]
    duration = 0.0
    for k in range(size):
        item = pop_item(heap, s.queued[b, kind])
        s.queued[b, kind] -= 1
        events[running + k] = item
        job, node = item // max_nodes, item % max_nodes
        v = stream.graph_ptr[graph_of(s, b, job)] + node
        duration = max(duration, stream.run[v, c])
        if s.task_start.shape[1] > 0:
            s.task_device[b, job, node], s.task_batch[b, job, node] = p, s.device_batches[b, p]
            s.task_start[b, job, node] = now
        if stream.peeks:
            observe_outcome(stream, s, b, job, node, v)
    finish = now + duration
    for k in range(running, running + size):
        push_event(s.event_time[b], events, k, finish, events[k])
    s.count[b, RUNNING] = running + size
    s.free_at[b, p] = finish
    s.running_kind[b, p], s.running_size[b, p] = kind, size
    s.device_busy[b, p] += duration
    s.device_batches[b, p] += 1
    s.device_tasks[b, p] += size
    s.count[b, LAST_KIND] = kind
    return size


@inlined
def act(stream: Stream, s: State, b: int, p: int, kind: int) -> int:
    """Device p, which is free, starts a kind, idles or waits; returns how many tasks start."""
    if kind >= stream.can_run.shape[1]:
        s.count[b, IDLES] += 1
        if stream.idle_block > 0.0:
            s.free_at[b, p] = s.total[b, NOW] + stream.idle_block
            s.running_kind[b, p] = -1
    elif kind != WAIT and s.queued[b, kind] > 0 and stream.can_run[p, kind]:
        return start_batch(stream, s, b, p, kind)
    return 0


@lean_inlined_kernel
def apply_action(stream: Stream, s: State, b: int, action: Ints) -> None:
    """Walk the devices in order; entry = kind to start, num_kinds for idle, or WAIT.

    A kind that cannot run there, or whose queue earlier devices have emptied, starts nothing: the
    device waits.
    """
    now = s.total[b, NOW]
    s.count[b, DECISIONS] += 1
    for p in range(len(action)):
        if s.free_at[b, p] <= now:
            act(stream, s, b, p, action[p])


@inlined
def num_waiting(s: State, b: int) -> int:
    """Tasks in all queues."""
    total = np.int64(0)
    for k in range(s.queued.shape[1]):
        total += s.queued[b, k]
    return total


@inlined
def mean_age(s: State, b: int) -> float:
    """Mean time since their jobs arrived of the tasks in all queues; 0 without any."""
    total, now, max_nodes = 0.0, s.total[b, NOW], s.open_edges.shape[2]
    for k in range(s.queued.shape[1]):
        for n in range(s.queued[b, k]):
            total += now - s.arrival[b, s.queue[b, k, n] // max_nodes]
    return total / max(1, num_waiting(s, b))


@inlined
def _next_time(s: State, b: int) -> float:
    """Time of the next event; infinite when there is none."""
    time = s.event_time[b, 0] if s.count[b, RUNNING] > 0 else np.inf
    job = s.count[b, NEXT_JOB]
    if job < s.jobs[b]:
        time = min(time, s.arrival[b, job])
    return time


@inlined
def _pop_event(stream: Stream, s: State, b: int) -> None:
    """Carry out the next event; at one time, ends come before arrivals, older jobs first."""
    job = s.count[b, NEXT_JOB]
    arrives = job < s.jobs[b]
    running = s.count[b, RUNNING]
    if running > 0 and (not arrives or s.event_time[b, 0] <= s.arrival[b, job]):
        time, item = s.event_time[b, 0], s.event_item[b, 0]
        s.count[b, RUNNING] = pop_event(s.event_time[b], s.event_item[b], running)
        _pass_time(s, b, time)
        end_task(stream, s, b, item)
    else:
        _pass_time(s, b, s.arrival[b, job])
        arrive(stream, s, b)


@inlined
def _pass_time(s: State, b: int, time: float) -> None:
    now = s.total[b, NOW]
    if time > now:
        s.total[b, JOB_TIME] += (time - now) * s.count[b, IN_SYSTEM]
        s.total[b, QUEUE_TIME] += (time - now) * num_waiting(s, b)
        s.total[b, NOW] = time


@inlined
def start_first(stream: Stream, s: State, b: int) -> bool:
    """The first kind that can starts on the first free device; returns whether one could."""
    for p in range(s.free_at.shape[1]):
        for kind in range(s.queued.shape[1]):
            if s.free_at[b, p] <= s.total[b, NOW] and s.queued[b, kind] > 0 and stream.can_run[p, kind]:
                start_batch(stream, s, b, p, kind)
                return True
    return False


@inlined
def _start_anything(stream: Stream, s: State, b: int) -> None:
    """Nothing will ever happen if all wait now: the first start that is possible.

    Where every device that could is blocked, time passes until the first of the blocked ones is free.
    """
    if start_first(stream, s, b):
        return
    soonest = np.inf
    for p in range(s.free_at.shape[1]):
        if s.free_at[b, p] > s.total[b, NOW]:
            soonest = min(soonest, s.free_at[b, p])
    if soonest < np.inf:
        _pass_time(s, b, soonest)


@inlined
def expire(stream: Stream, s: State, b: int) -> None:
    """Drop queued tasks of jobs that are too old; such a job counts with the limit as its time."""
    if stream.expiry == np.inf:
        return
    max_nodes = s.open_edges.shape[2]
    for kind in range(s.queued.shape[1]):
        while s.queued[b, kind] > 0:
            job, node = s.queue[b, kind, 0] // max_nodes, s.queue[b, kind, 0] % max_nodes
            if s.total[b, NOW] - s.arrival[b, job] <= stream.expiry:
                break
            if s.task_finish.shape[1] > 0:
                s.task_finish[b, job, node] = s.total[b, NOW]
            pop_item(s.queue[b, kind], s.queued[b, kind])
            s.queued[b, kind] -= 1
            s.open_tasks[b, job % s.open_edges.shape[1]] -= 1
            if np.isnan(s.finish[b, job]):
                s.finish[b, job] = s.arrival[b, job] + stream.expiry
                s.total[b, SUM_JCT] += stream.expiry
                s.count[b, EXPIRED] += 1
                s.count[b, IN_SYSTEM] -= 1


@kernel
def advance(stream: Stream, s: State, b: int) -> bool:
    """Let time pass until the next decision; returns whether the episode is over."""
    soonest = np.inf
    for p in range(s.free_at.shape[1]):
        soonest = min(soonest, s.free_at[b, p])
    now, time = s.total[b, NOW], _next_time(s, b)
    is_last = soonest <= now and time > now and num_waiting(s, b) > 0
    if time == np.inf:
        if soonest > now:
            _pass_time(s, b, soonest)
        else:
            _start_anything(stream, s, b)
    while time < np.inf:
        _pop_event(stream, s, b)
        now, time = s.total[b, NOW], _next_time(s, b)
        if is_last or (soonest <= now and time > now and num_waiting(s, b) > 0):
            break
    expire(stream, s, b)
    return s.overflow[b] or (_next_time(s, b) == np.inf and num_waiting(s, b) == 0)


@kernel
def begin(stream: Stream, s: State, b: int, start: float) -> bool:
    """Empty the system, set the clock, and go on to the first decision."""
    for k in range(s.queued.shape[1]):
        s.queued[b, k] = 0
    for slot in range(s.open_tasks.shape[1]):
        s.open_tasks[b, slot] = 0
    for p in range(s.free_at.shape[1]):
        s.free_at[b, p] = start
        s.running_kind[b, p] = -1
        s.running_size[b, p] = 0
        s.device_busy[b, p] = 0.0
        s.device_batches[b, p] = 0
        s.device_tasks[b, p] = 0
    for job in range(s.jobs[b]):
        s.finish[b, job] = np.nan
    for job in range(s.task_start.shape[1]):
        for node in range(s.task_start.shape[2]):
            s.task_device[b, job, node] = -1
            s.task_start[b, job, node] = np.nan
            s.task_finish[b, job, node] = np.nan
    for c in range(s.seen.shape[1]):
        s.seen[b, c, 0] = 0.0
        s.seen[b, c, 1] = 0.0
    for k in range(s.count.shape[1]):
        s.count[b, k] = 0
    s.count[b, LAST_KIND] = -1
    s.count[b, LAST_DONE] = -1
    for k in range(s.total.shape[1]):
        s.total[b, k] = 0.0
    s.total[b, NOW] = start
    s.overflow[b] = False
    return advance(stream, s, b)
