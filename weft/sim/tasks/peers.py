"""Rules that other systems have: DEFT in a fixed order, and the one of Dask's scheduler.

``FIFO`` and ``RANK`` take the ready tasks one by one and place each by DEFT (``deft.py``): oldest job first, then
as they became ready, or by their key. They stop where no device has room left.

``WORKERS`` follows Dask: graphs in the order of their arrival, tasks of one by key. A task that begins a graph
goes to the device with room that has the least to do. Any other goes to a device that holds data it
needs: to the one where what is there to do and the data to fetch take least. Where that device is busy it waits,
and an idle device may take it over if it would begin there clearly sooner. What there is to do is counted in mean run times: the
rule knows no devices that are faster than others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.sim.jit import lean_inlined, lean_kernel
from weft.sim.tasks.clock import advance, begin, is_due, next_time, pass_events
from weft.sim.tasks.deft import is_on, place
from weft.sim.tasks.moves import commit
from weft.sim.tasks.state import (
    DONE,
    ENDED,
    NUM_ASKED,
    Facts,
    Tasks,
    TaskState,
    fits,
    may_run,
    may_use,
    offer,
    unready,
)

FIFO, RANK, WORKERS = range(3)


class PeerRule(NamedTuple):
    """One rule and what it knows; keys are a column of the state."""

    order: int  # FIFO, RANK or WORKERS
    copies: Bools  # (num_envs,) whether tasks may be copied
    slowness: Floats  # (num_envs,) mean time per byte between devices
    mean: Floats  # (num_tasks,) mean run time; this and what follows are of WORKERS, else (0,)
    is_root: Bools  # (num_tasks,) whether the task goes to whoever has least to do
    turn: Floats  # (num_tasks,) buffer: what orders ready tasks of equally old jobs
    waits_for: Ints  # (num_tasks,) buffer: the device that a ready task waits for, -1: none
    todo: Floats  # (num_devices,) buffer: mean run times of what is there to do


@lean_inlined
def _ready_since(w: Tasks, f: Facts, s: TaskState, i: int) -> float:
    """When the last parent of a ready task had ended."""
    since = w.job_release[w.job[i]]
    for e in range(w.pred_ptr[i], w.pred_ptr[i + 1]):
        k = w.pred[e]
        if s.status[k] == DONE and f.taken[w.pred_edge[e]]:
            ended, row = np.inf, s.first_row[k]
            while row >= 0:
                if s.row_status[row] == ENDED:
                    ended = min(ended, s.row_finish[row])
                row = s.next_row[row]
            since = max(since, ended)
    return since


@lean_inlined
def _goes_first(rule: PeerRule, w: Tasks, i: int, k: int) -> bool:
    """Whether task i comes before task k."""
    old, other = w.job_release[w.job[i]], w.job_release[w.job[k]]
    if old != other:
        return old < other
    if rule.order == WORKERS and w.job[i] != w.job[k]:
        return w.job[i] < w.job[k]
    return rule.turn[i] < rule.turn[k] or (rule.turn[i] == rule.turn[k] and i < k)


@lean_inlined
def _first(rule: PeerRule, w: Tasks, s: TaskState, b: int) -> int:
    """The ready task that comes first."""
    at = w.task_ptr[b]
    best = s.ready[at]
    for k in range(at + 1, at + s.num_ready[b]):
        if _goes_first(rule, w, s.ready[k], best):
            best = s.ready[k]
    return best


@lean_inlined
def _decide_deft(rule: PeerRule, w: Tasks, f: Facts, s: TaskState, b: int) -> None:
    """Place ready tasks one by one while some device has room; what no device can take is passed over."""
    first, passed = w.task_ptr[b], np.int64(0)
    while s.num_ready[b] > 0 and s.num_free[b] > 0 and not s.overflow[b]:
        i = _first(rule, w, s, b)
        if place(w, f, s, b, i, rule.copies[b]) < 0:
            unready(w, s, b, i)
            s.stack[first + passed] = i
            passed += 1
    for k in range(passed):
        offer(w, s, b, s.stack[first + k])


@lean_inlined
def _fetch(rule: PeerRule, w: Tasks, f: Facts, s: TaskState, b: int, i: int, p: int) -> float:
    """How long device p would fetch the data of task i that it does not hold."""
    total = 0.0
    for e in range(w.pred_ptr[i], w.pred_ptr[i + 1]):
        k = w.pred[e]
        if s.status[k] == DONE and f.taken[w.pred_edge[e]] and not is_on(s, k, p):
            total += w.pred_data[e] * rule.slowness[b]
    return total


@lean_inlined
def _holds_some(w: Tasks, f: Facts, s: TaskState, i: int, p: int) -> bool:
    """Whether device p holds data that task i needs."""
    for e in range(w.pred_ptr[i], w.pred_ptr[i + 1]):
        k = w.pred[e]
        if s.status[k] == DONE and f.taken[w.pred_edge[e]] and is_on(s, k, p):
            return True
    return False


@lean_inlined
def _can_start(w: Tasks, s: TaskState, b: int, i: int, p: int) -> bool:
    return s.has_room[p] and may_use(w, b, i, p) and fits(w, s, b, i, p)


@lean_inlined
def _worker(rule: PeerRule, w: Tasks, f: Facts, s: TaskState, b: int, i: int, kind: int) -> int:
    """The device with the least to do and to fetch; -1: none can take task i.

    ``kind``: 0, of those with room; 1, of those that hold data it needs; 2, of all.
    """
    best, least = np.int64(-1), np.inf
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        if not s.is_up[p] or not may_run(w, s, b, i, p):
            continue
        if (kind == 0 and not _can_start(w, s, b, i, p)) or (kind == 1 and not _holds_some(w, f, s, i, p)):
            continue
        time = rule.todo[p] / w.capacity[p, 0]
        if not rule.is_root[i]:
            time += _fetch(rule, w, f, s, b, i, p)
        if time < least:
            best, least = p, time
    return best


@lean_inlined
def _steal(rule: PeerRule, w: Tasks, f: Facts, s: TaskState, b: int, i: int) -> int:
    """An idle device that would begin task i clearly sooner than the one it waits for; -1: none."""
    p, thief = rule.waits_for[i], _worker(rule, w, f, s, b, i, np.int64(0))
    if p < 0 or thief < 0 or thief == p:
        return -1
    there = rule.todo[thief] / w.capacity[thief, 0] + _fetch(rule, w, f, s, b, i, thief) + rule.mean[i]
    here = rule.todo[p] / w.capacity[p, 0] - (_fetch(rule, w, f, s, b, i, p) + rule.mean[i]) / 2.0
    return thief if there <= here else np.int64(-1)


@lean_inlined
def _decide_workers(rule: PeerRule, w: Tasks, f: Facts, s: TaskState, b: int) -> None:
    """Give every ready task its device; start what is first there, and let idle devices take over what waits."""
    first, passed = w.task_ptr[b], np.int64(0)
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        rule.todo[p] = 0.0
        row = s.running[p]
        while row >= 0:
            rule.todo[p] += rule.mean[s.row_task[row]]
            row = s.after[row]
    while s.num_ready[b] > 0 and s.num_free[b] > 0:
        i = _first(rule, w, s, b)
        p = _worker(rule, w, f, s, b, i, np.int64(0 if rule.is_root[i] else 1))
        if p < 0 and not rule.is_root[i]:
            p = _worker(rule, w, f, s, b, i, np.int64(2))
        is_first = p >= 0 and _can_start(w, s, b, i, p)
        for k in range(passed):  # nothing overtakes what waits for the same device
            is_first = is_first and (rule.is_root[i] or rule.waits_for[s.stack[first + k]] != p)
        if p >= 0:
            rule.todo[p] += rule.mean[i]
        if is_first:
            commit(w, f, s, b, i, p)
        else:
            unready(w, s, b, i)
            rule.waits_for[i] = p
            s.stack[first + passed] = i
            passed += 1
    for k in range(passed):
        i = s.stack[first + k]
        offer(w, s, b, i)
        thief = _steal(rule, w, f, s, b, i)
        if thief >= 0:
            rule.todo[rule.waits_for[i]] -= rule.mean[i]
            rule.todo[thief] += rule.mean[i]
            commit(w, f, s, b, i, thief)


@lean_kernel
def decide_peer(rule: PeerRule, w: Tasks, f: Facts, s: TaskState, b: int) -> None:
    """Start or reserve everything that the rule starts or reserves now."""
    if s.num_ready[b] == 0 or s.num_free[b] == 0:
        return
    s.count[b, NUM_ASKED] += 1
    for k in range(w.task_ptr[b], w.task_ptr[b] + s.num_ready[b]):
        i = s.ready[k]
        rule.turn[i] = _ready_since(w, f, s, i) if rule.order == FIFO else s.key[i]
    if rule.order == WORKERS:
        _decide_workers(rule, w, f, s, b)
    else:
        _decide_deft(rule, w, f, s, b)


@lean_kernel
def run_peers(rule: PeerRule, w: Tasks, f: Facts, s: TaskState) -> None:
    """Every environment from its first job to the end."""
    for b in range(len(s.now)):
        begin(w, s, b)
        while not advance(w, f, s, b):
            decide_peer(rule, w, f, s, b)


@lean_kernel
def play_peer_until(rule: PeerRule, w: Tasks, f: Facts, s: TaskState, b: int, until: float) -> None:
    """Decide if a decision is due now, then carry out events and decisions up to a time, this included."""
    if is_due(s, b):
        decide_peer(rule, w, f, s, b)
    while not s.overflow[b] and next_time(w, s, b) <= until and next_time(w, s, b) < np.inf:
        pass_events(w, f, s, b)
        if is_due(s, b) and next_time(w, s, b) > s.now[b]:
            decide_peer(rule, w, f, s, b)
