"""The task view of the event kernel: every task is dispatched on its own, with links and capacities.

``Tasks`` is what a scheduler may know of a batch of problems, ``Facts`` what happens in them,
``TaskState`` all that changes. The batch is flat: environment b owns tasks ``task_ptr[b]`` up to
``task_ptr[b + 1]``, likewise jobs, devices, pools and rows. A row is one execution of a task.

Here are the arrays and the small steps on them; what can happen is in ``task_moves``, who decides in
``task_rules``, how arrays are made in ``task_layout``.

Links follow HEFT: data leaves when the parent ends, nothing contends, a device keeps its own data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.sim.heap import push_event, push_keyed, remove_keyed
from weft.sim.jit import lean_inlined as inlined

TAKEN = 1 << 40
"""Added to the count of open edges of a task once one of its edges is taken."""
SLACK = 1e-9
"""Relative slack of a capacity check, for demands that are not whole numbers."""
PRIOR = 1.0
"""As many run times as stated count, of every kind on every class, before any was observed."""
RATE = 0.05
"""What a run time counts for at least, so that those of long ago are forgotten."""
KEPT = 0.95
"""What a start counts for at the next one, in the shares of recent starts."""
LOOK = 4
"""Ready tasks per device that rules with virtual queues look at."""

# Tasks.overrun: as ``model.problem.OVERRUNS``
QUEUES, SKIPS, ABORTS = range(3)
# TaskState.status: of tasks
UNRELEASED, READY, STARTED, DONE, SKIPPED, EXPIRED = range(6)
# TaskState.row_status: of rows
PLANNED, RUNNING, ENDED, ABORTED, CANCELLED = range(5)
# columns of TaskState.count
NUM_STARTED, NUM_DONE, NUM_EXPIRED, NUM_MISSED, NUM_EVENTS, NUM_ASKED = range(6)
NUM_COUNTS = 6


class Tasks(NamedTuple):
    """What a scheduler may know; classes and link groups are numbered within their environment."""

    task_ptr: Ints  # (num_envs + 1,)
    job_ptr: Ints  # (num_envs + 1,)
    device_ptr: Ints  # (num_envs + 1,)
    pool_ptr: Ints  # (num_envs + 1,)
    link_ptr: Ints  # (num_envs + 1,) first entry of the environment's link tables
    kind_ptr: Ints  # (num_envs + 1,) kinds of tasks, by name
    num_groups: Ints  # (num_envs,)
    log_noise: Floats  # (num_envs,) how far the stated noise makes the mean logarithm of a run time lower
    run: Floats  # (num_tasks, max_classes) expected run time, infinite where it cannot run
    job: Ints  # (num_tasks,)
    kind: Ints  # (num_tasks,) row of ``TaskState.factor``
    demand: Floats  # (num_tasks, num_resources) slots first
    num_in: Ints  # (num_tasks,)
    succ_ptr: Ints  # (num_tasks + 1,)
    succ: Ints  # (num_edges,)
    succ_data: Floats  # (num_edges,)
    pred_ptr: Ints  # (num_tasks + 1,)
    pred: Ints  # (num_edges,)
    pred_data: Floats  # (num_edges,)
    pred_edge: Ints  # (num_edges,) place of the edge in ``succ``
    job_task_ptr: Ints  # (num_jobs + 1,)
    job_release: Floats  # (num_jobs,)
    job_due: Floats  # (num_jobs,) infinite: never
    job_order: Ints  # (num_jobs,) jobs of every environment by release
    device_class: Ints  # (num_devices,)
    group: Ints  # (num_devices,) link group
    is_unary: Bools  # (num_devices,) whether the device runs one task at a time
    capacity: Floats  # (num_devices, num_resources)
    pool: Ints  # (num_devices,) devices of one pool differ in nothing but their number
    pool_device_ptr: Ints  # (num_pools + 1,)
    pool_devices: Ints  # (num_devices,)
    number: Floats  # (num_devices,) the device's own number, the key of the heaps of free devices
    allowed: Bools  # (num_jobs, max_devices) by number within the environment, or (0, 0): all
    book_count: Ints  # (num_jobs,) devices of which the job books a share; 0: none
    book_need: Floats  # (num_jobs, num_resources) that share, infinite: all of it
    may_book: (
        Bools  # (num_jobs, max_devices) on which, by number within the environment, or (0, 0): no job books
    )
    latency: Floats  # (num_links,)
    inverse: Floats  # (num_links,) time per byte
    drops_late: bool  # whether what has not started when its job is due is dropped
    overrun: Ints  # (num_jobs,) what becomes of overruns, or (0,): all queue
    former: Ints  # (num_jobs,) the instance before in its series, -1: none, or (0,)
    waits_for: (
        Ints  # (num_tasks,) the same task of the former instance, which is done first, -1: none, or (0,)
    )
    lets_in: Ints  # (num_tasks,) the task that waits for it so, -1: none, or (0,)
    saved: Floats  # (num_tasks, max_classes) share of its run time saved within a launch, 0: it cannot follow, or (0, 0)


class Facts(NamedTuple):
    """What happens; a rule looks at ``taken`` only where the edge is settled."""

    run: Floats  # (num_tasks, max_classes)
    taken: Bools  # (num_edges,) in the order of ``Tasks.succ``
    is_live: bool  # ends are reported from outside, not simulated


class TaskState(NamedTuple):
    """All that changes; a snapshot is a copy of the arrays."""

    now: Floats  # (num_envs,)
    wake: Floats  # (num_envs,) when a rule wants to be asked again; infinite: at events only
    next_job: Ints  # (num_envs,) place in ``job_order`` of the job to be released next
    status: Ints  # (num_tasks,)
    open_edges: Ints  # (num_tasks,) unsettled edges, plus TAKEN
    key: Floats  # (num_tasks,) ready tasks are ordered by it, smallest first; set by the rule
    work: Floats  # (num_tasks,) what ``job_left`` counts; set by the rule
    ready: Ints  # (num_tasks,) indexed heaps
    place: Ints  # (num_tasks,)
    num_ready: Ints  # (num_envs,)
    stack: Ints  # (num_tasks,) buffer
    job_open: Ints  # (num_jobs,) tasks that are neither done nor skipped
    job_left: Floats  # (num_jobs,) work that has not started
    job_finish: Floats  # (num_jobs,) NaN until all is done
    is_expired: Bools  # (num_jobs,)
    is_waiting: Bools  # (num_jobs,) released, and its booking is not granted yet
    granted: (
        Bools  # (num_jobs, max_devices) shares that are held, by number within the environment, or (0, 0)
    )
    num_waiting: Ints  # (num_envs,) jobs
    may_grant: Bools  # (num_envs,) whether something has changed that a booking may wait for
    booked: Floats  # (num_devices, num_resources) sum of the shares that are held
    free: Floats  # (num_devices, num_resources) what neither runs nor is held; negative where a share is still in use
    is_up: Bools  # (num_devices,)
    has_room: Bools  # (num_devices,) up, nothing reserved, a slot free or held without being in use
    num_free: Ints  # (num_envs,) devices that have room
    pool_heap: Ints  # (num_devices,) indexed heaps of unary devices that have room and are not booked
    pool_place: Ints  # (num_devices,)
    pool_size: Ints  # (num_pools,)
    running: Ints  # (num_devices,) first row that holds the device, -1: none
    queue: Ints  # (num_devices,) first reserved row, -1: none
    queue_end: Ints  # (num_devices,) last reserved row, -1: none
    queued: Floats  # (num_devices,) expected run time of all that is reserved
    dirty: Ints  # (num_devices,) devices whose queue is to be looked at
    is_dirty: Bools  # (num_devices,)
    num_dirty: Ints  # (num_envs,)
    look_at: Floats  # (num_devices,) event at which the queue is looked at; infinite: none
    row_ptr: Ints  # (num_envs + 1,)
    num_rows: Ints  # (num_envs,)
    spare: Ints  # (num_envs,) first of the rows given up before they started, -1: none
    row_task: Ints  # (max_rows,)
    row_device: Ints  # (max_rows,)
    row_start: Floats  # (max_rows,)
    row_finish: Floats  # (max_rows,) infinite until it ends; minus infinite: it holds nothing of its device
    row_expected: Floats  # (max_rows,) planned start while reserved, then expected finish
    row_status: Ints  # (max_rows,)
    first_row: Ints  # (num_tasks,) rows of one task form a list
    is_its_turn: Bools  # (num_tasks,) whether the former instance is through with it, or (0,)
    lead: Ints  # (num_tasks,) first task of the launch that it is part of, -1: none, or (0,)
    next_row: Ints  # (max_rows,)
    before: Ints  # (max_rows,) lists of the rows that hold, or wait for, one device
    after: Ints  # (max_rows,)
    event_time: Floats  # (max_events,) heaps by (time, item)
    event_item: Ints  # (max_events,) row, then rows + device to look at, then rows + devices + job due
    event_ptr: Ints  # (num_envs + 1,)
    num_events: Ints  # (num_envs,)
    count: Ints  # (num_envs, NUM_COUNTS)
    used: Floats  # (num_devices,) time for which it was busy, by share of its slots, of what has ended
    recent: Floats  # (num_devices,) starts, recent ones count more
    learns: Bools  # (num_envs,) whether run times that were observed correct those expected
    seen: Floats  # (num_kinds, max_classes) run times observed
    ratio: Floats  # (num_kinds, max_classes) moving mean of the logarithm of observed over stated run times
    factor: Floats  # (num_kinds, max_classes) expected over stated run times
    class_ratio: Floats  # (num_envs, max_classes) as ``ratio``, of all kinds
    overflow: Bools  # (num_envs,) rows or events ran out of room


@inlined
def may_use(w: Tasks, b: int, i: int, p: int) -> bool:
    """Whether task i can and may run on device p at all."""
    if w.run[i, w.device_class[p]] == np.inf:
        return False
    return w.allowed.shape[0] == 0 or w.allowed[w.job[i], p - w.device_ptr[b]]


@inlined
def held(w: Tasks, j: int, p: int, r: int) -> float:
    """What the booking of job j holds of a resource, on a device on which it is granted."""
    limit = w.capacity[p, r]
    return 0.0 if limit == np.inf else min(w.book_need[j, r], limit)


@inlined
def spare_share(w: Tasks, s: TaskState, b: int, j: int, p: int, r: int) -> float:
    """What is held for job j on device p and not in use by its own tasks."""
    if s.booked[p, 0] == 0.0 or not s.granted[j, p - w.device_ptr[b]]:
        return 0.0
    left, row = held(w, j, p, r), s.running[p]
    while row >= 0:
        i = s.row_task[row]
        if w.job[i] == j and s.row_finish[row] != -np.inf:
            left -= w.demand[i, r]
        row = s.after[row]
    return max(left, 0.0)


@inlined
def may_run(w: Tasks, s: TaskState, b: int, i: int, p: int) -> bool:
    """Whether task i may run on device p, as far as others' bookings leave room for it there."""
    if not may_use(w, b, i, p):
        return False
    has_room = True
    if s.booked[p, 0] > 0.0:
        j = w.job[i]
        is_own = s.granted[j, p - w.device_ptr[b]]
        for r in range(w.demand.shape[1]):
            others = s.booked[p, r] - (held(w, j, p, r) if is_own else 0.0)
            limit = w.capacity[p, r]
            has_room = has_room and w.demand[i, r] <= limit - others + limit * SLACK
    return has_room


@inlined
def expected_run(w: Tasks, s: TaskState, i: int, c: int) -> float:
    """Run time of task i on class c, as far as is known."""
    return w.run[i, c] * s.factor[w.kind[i], c]


@inlined
def note_start(w: Tasks, s: TaskState, b: int, p: int) -> None:
    """A row starts on device p."""
    for q in range(w.device_ptr[b], w.device_ptr[b + 1]):
        s.recent[q] *= KEPT
    s.recent[p] += 1.0


@inlined
def note_end(w: Tasks, s: TaskState, b: int, row: int) -> None:
    """A row ends now: learn how long tasks of its kind run on its class."""
    i = s.row_task[row]
    k, c = w.kind[i], w.device_class[s.row_device[row]]
    took, stated = s.now[b] - s.row_start[row], w.run[i, c]
    if took <= 0.0 or stated <= 0.0:
        return
    found = np.log(took / stated) + w.log_noise[b]
    s.seen[k, c] += 1.0
    s.ratio[k, c] += max(1.0 / (s.seen[k, c] + PRIOR), RATE) * (found - s.ratio[k, c])
    s.class_ratio[b, c] += RATE * (found - s.class_ratio[b, c])
    if s.learns[b]:
        s.factor[k, c] = np.exp(s.ratio[k, c])


@inlined
def busy_time(w: Tasks, s: TaskState, b: int, p: int) -> float:
    """For how long device p was busy so far, by share of its slots."""
    total, row = s.used[p], s.running[p]
    while row >= 0:
        if s.row_finish[row] > 0.0:
            lasted = max(s.now[b] - s.row_start[row], 0.0)
            total += lasted * w.demand[s.row_task[row], 0] / w.capacity[p, 0]
        row = s.after[row]
    return total


@inlined
def fits(w: Tasks, s: TaskState, b: int, i: int, p: int) -> bool:
    """Whether what task i needs is free on device p, or held there for its job."""
    has_all = True
    for r in range(w.demand.shape[1]):
        room = s.free[p, r] + spare_share(w, s, b, w.job[i], p, r)
        has_all = has_all and w.demand[i, r] <= room + w.capacity[p, r] * SLACK
    return has_all


@inlined
def arrival(w: Tasks, s: TaskState, b: int, k: int, data: float, p: int) -> float:
    """When data of task k can be on device p, from the copy that is there first; infinite: not done."""
    best = np.inf
    row = s.first_row[k]
    base, size, h = w.link_ptr[b], w.num_groups[b], w.group[p]
    while row >= 0:
        if s.row_status[row] == ENDED:
            q = s.row_device[row]
            there = s.row_finish[row]
            if q != p:
                link = base + w.group[q] * size + h
                there += w.latency[link] + data * w.inverse[link]
            best = min(best, there)
        row = s.next_row[row]
    return best


@inlined
def data_ready(w: Tasks, f: Facts, s: TaskState, b: int, i: int, p: int) -> float:
    """When all data of a ready task is on device p."""
    ready = w.job_release[w.job[i]]
    for e in range(w.pred_ptr[i], w.pred_ptr[i + 1]):
        k = w.pred[e]
        if s.status[k] == DONE and f.taken[w.pred_edge[e]]:
            ready = max(ready, arrival(w, s, b, k, w.pred_data[e], p))
    return ready


@inlined
def add_event(w: Tasks, s: TaskState, b: int, time: float, item: int) -> None:
    first, last = s.event_ptr[b], s.event_ptr[b + 1]
    size = s.num_events[b]
    if size >= last - first:
        s.overflow[b] = True
        return
    s.num_events[b] = push_event(s.event_time[first:last], s.event_item[first:last], size, time, item)


@inlined
def mark(w: Tasks, s: TaskState, b: int, p: int) -> None:
    """Have the queue of device p looked at."""
    if not s.is_dirty[p]:
        s.is_dirty[p] = True
        s.dirty[w.device_ptr[b] + s.num_dirty[b]] = p
        s.num_dirty[b] += 1


@inlined
def refresh(w: Tasks, s: TaskState, b: int, p: int) -> None:
    """Bring ``has_room`` and the heap of free devices, without those that are booked, up to date."""
    slots = s.free[p, 0]
    if s.booked[p, 0] > 0.0:  # those that are held have room for whoever booked them
        slots, row = w.capacity[p, 0], s.running[p]
        while row >= 0:
            slots -= w.demand[s.row_task[row], 0] if s.row_finish[row] != -np.inf else 0.0
            row = s.after[row]
    has_room = s.is_up[p] and s.queue[p] < 0 and slots >= 1.0
    is_open = has_room and s.booked[p, 0] == 0.0
    if has_room != s.has_room[p]:
        s.has_room[p] = has_room
        s.num_free[b] += 1 if has_room else -1
    if w.is_unary[p] and is_open != (s.pool_place[p] >= 0):
        pool = w.pool[p]
        base, size = w.pool_device_ptr[pool], s.pool_size[pool]
        if is_open:
            s.pool_size[pool] = push_keyed(s.pool_heap, s.pool_place, w.number, base, size, p)
        else:
            s.pool_size[pool] = remove_keyed(s.pool_heap, s.pool_place, w.number, base, size, p)


@inlined
def unready(w: Tasks, s: TaskState, b: int, i: int) -> None:
    """Take task i out of the heap of ready tasks, if it is there."""
    if s.place[i] >= 0:
        s.num_ready[b] = remove_keyed(s.ready, s.place, s.key, w.task_ptr[b], s.num_ready[b], i)


@inlined
def offer(w: Tasks, s: TaskState, b: int, i: int) -> None:
    """Put task i into the heap of ready tasks."""
    s.num_ready[b] = push_keyed(s.ready, s.place, s.key, w.task_ptr[b], s.num_ready[b], i)


@inlined
def new_row(s: TaskState, b: int, i: int, p: int) -> int:
    """A row for task i on device p, or -1 where there is no room for one."""
    row = s.spare[b]
    if row >= 0:
        s.spare[b] = s.next_row[row]
    else:
        row = s.row_ptr[b] + s.num_rows[b]
        if row >= s.row_ptr[b + 1]:
            s.overflow[b] = True
            return -1
        s.num_rows[b] += 1
    s.row_task[row], s.row_device[row] = i, p
    s.row_start[row], s.row_finish[row], s.row_expected[row] = np.inf, np.inf, 0.0
    s.row_status[row] = PLANNED
    s.next_row[row] = s.first_row[i]
    s.first_row[i] = row
    s.before[row] = -1
    s.after[row] = -1
    return row


@inlined
def is_light(s: TaskState, row: int) -> bool:
    """Whether a row that has not ended holds nothing of its device."""
    return s.row_finish[row] == -np.inf


@inlined
def link_row(s: TaskState, head: Ints, p: int, row: int) -> None:
    """Put a row in front of the list of a device."""
    s.before[row] = -1
    s.after[row] = head[p]
    if head[p] >= 0:
        s.before[head[p]] = row
    head[p] = row


@inlined
def unlink_row(s: TaskState, head: Ints, p: int, row: int) -> None:
    """Take a row out of the list of a device."""
    if s.before[row] >= 0:
        s.after[s.before[row]] = s.after[row]
    else:
        head[p] = s.after[row]
    if s.after[row] >= 0:
        s.before[s.after[row]] = s.before[row]
