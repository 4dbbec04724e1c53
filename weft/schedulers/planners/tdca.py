"""TDCA-style planning: clusters along favourite predecessors, with copies, merged onto devices.

A reconstruction of the idea of He, Meng, Pan, Yuan, Zhou (TPDS 2019) from its description: the
four phases (parameters, clustering with duplication, merging, insertion) are there, the published
tie-breaking and merge criterion may differ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Floats, Ints
from weft.model.problem import Problem
from weft.schedulers.base import Limit
from weft.schedulers.planners.lists import NO_BIAS, NOBODY, ListPlanner, heft_rank
from weft.sim.arrays import Arrays
from weft.sim.timeline.list_planning import list_order, place_all, place_assigned
from weft.sim.timeline.timelines import Timeline, new_timeline

MOST_COPIES = 16
"""Copies per task, on average, that clusters may hold; never more than there are devices."""


class Parameters(NamedTuple):
    """Phase 1: how early a task can end, how late it may, and whose data it waits for."""

    earliest_end: Floats  # (num_tasks,)
    latest_start: Floats  # (num_tasks,)
    latest_end: Floats  # (num_tasks,)
    favourite: Ints  # (num_tasks,) predecessor whose data comes last, -1 for an entry


class Tdca(ListPlanner):
    """Duplication-based clustering (reconstruction)."""

    name = "tdca"
    makes_copies = True
    plans_beside = False

    def place(self, problem: Problem, a: Arrays, t: Timeline, seed: int, limit: Limit) -> Timeline | None:
        order = list_order(a, heft_rank(problem, a))
        clusters = build_clusters(a, parameters(a, problem.best_run_times))
        pointer, devices = assign(a, clusters)
        scratch = new_timeline(a, len(devices) + len(a.release))
        spread = place_assigned(a, scratch, order, pointer, devices, NO_BIAS)
        plain = place_all(a, t, order, NOBODY, NO_BIAS, True, True)
        if spread > plain:
            return None
        _keep_needed(a, scratch)
        return scratch


def parameters(a: Arrays, run: Floats) -> Parameters:
    """Earliest and latest times if every task had its fastest device to itself."""
    n = len(run)
    end, favourite = np.zeros(n), np.full(n, -1, np.int64)
    for i in a.order.tolist():
        edges = slice(int(a.pred_ptr[i]), int(a.pred_ptr[i + 1]))
        start = float(a.release[i])
        if edges.stop > edges.start:
            parents = a.pred[edges]
            there = end[parents] + a.mean_latency + a.pred_data[edges] * a.mean_inverse
            last = int(np.argmax(there))
            favourite[i] = parents[last]
            start = max(start, float(end[parents[last]]), float(np.delete(there, last).max(initial=0.0)))
        end[i] = start + run[i]
    latest = np.full(n, end.max(initial=0.0))
    for i in a.order[::-1].tolist():
        for e in range(int(a.succ_ptr[i]), int(a.succ_ptr[i + 1])):
            j = int(a.succ[e])
            moved = 0.0 if favourite[j] == i else a.mean_latency + a.succ_data[e] * a.mean_inverse
            latest[i] = min(latest[i], latest[j] - run[j] - moved)
    return Parameters(end, latest - run, latest, favourite)


def build_clusters(a: Arrays, known: Parameters) -> list[list[int]]:
    """Phase 2: follow favourite predecessors from the exits up; copy one that is taken if it pays.

    Without a limit many leaves below a long chain would each copy the whole chain; once the copies
    are spent, a cluster ends where it would make another.
    """
    taken = np.zeros(len(known.favourite), np.bool_)
    copies_left = min(MOST_COPIES, len(a.device_class)) * len(taken)
    clusters = []
    for i in a.order[::-1].tolist():
        if taken[i]:
            continue
        cluster = []
        at = i
        while at >= 0:
            copies_left -= int(taken[at])
            cluster.append(at)
            taken[at] = True
            at = _next_up(a, known, taken, at)
            if at >= 0 and taken[at] and not copies_left:
                break
        clusters.append(cluster[::-1])
    return clusters


def _next_up(a: Arrays, known: Parameters, taken: np.ndarray, i: int) -> int:
    favourite = int(known.favourite[i])
    if favourite < 0 or not taken[favourite]:
        return favourite
    edges = slice(int(a.pred_ptr[i]), int(a.pred_ptr[i + 1]))
    parents, data = a.pred[edges], a.pred_data[edges]
    cost = a.mean_latency + float(data[parents == favourite][0]) * a.mean_inverse
    if known.latest_start[i] - known.latest_end[favourite] < cost:
        return favourite
    free = np.flatnonzero(~taken[parents])
    if not len(free):
        return -1
    there = known.earliest_end[parents[free]] + data[free] * a.mean_inverse
    return int(parents[free[np.argmax(there)]])


def assign(a: Arrays, clusters: list[list[int]]) -> tuple[Ints, Ints]:
    """Phase 3: each cluster to the device that is then least loaded; CSR of devices per task.

    A member that cannot run on its cluster's device goes to its own fastest one.
    """
    load = np.zeros(len(a.device_class))
    wanted: list[tuple[int, int]] = []
    for cluster in sorted(clusters, key=lambda c: -float(a.run[c].min(axis=1).sum())):
        work = np.where(np.isfinite(a.run[cluster]), a.run[cluster], 0.0).sum(axis=0)[a.device_class]
        missing = (~np.isfinite(a.run[cluster])).sum(axis=0)[a.device_class]
        device = int(np.lexsort((load + work, missing))[0])
        load[device] += work[device]
        wanted += [(i, device if _may(a, i, device) else _own_device(a, i)) for i in cluster]
    pairs = np.array(list(dict.fromkeys(wanted)), dtype=np.int64)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    pointer = np.zeros(len(a.release) + 1, np.int64)
    np.cumsum(np.bincount(pairs[:, 0], minlength=len(a.release)), out=pointer[1:])
    return pointer, np.ascontiguousarray(pairs[:, 1])


def _may(a: Arrays, i: int, p: int) -> bool:
    allowed = not a.allowed.size or bool(a.allowed[a.job[i], p])
    return allowed and bool(np.isfinite(a.run[i, a.device_class[p]]))


def _own_device(a: Arrays, i: int) -> int:
    run = a.run[i][a.device_class]
    if a.allowed.size:
        run = np.where(a.allowed[a.job[i]], run, np.inf)
    return int(np.argmin(run))


def _keep_needed(a: Arrays, t: Timeline) -> None:
    """Keep the rows whose data some task waits for, and the first of every task; drop the others."""
    rows = int(t.num_rows[0])
    needed = np.zeros(rows, np.bool_)
    by_task: list[list[int]] = [[] for _ in range(len(a.release))]
    for row in range(rows):
        by_task[int(t.row_task[row])].append(row)
    for i in a.order[::-1].tolist():
        mine = by_task[i]
        if not needed[mine].any():
            needed[min(mine, key=lambda row: (float(t.row_finish[row]), row))] = True
        for row in mine:
            if needed[row]:
                _mark_suppliers(a, t, by_task, needed, row)
    keep = np.flatnonzero(needed)
    for name in ("row_task", "row_device", "row_start", "row_finish"):
        column = getattr(t, name)
        column[: len(keep)] = column[keep]
    t.num_rows[0] = len(keep)


def _mark_suppliers(a: Arrays, t: Timeline, by_task: list[list[int]], needed: np.ndarray, row: int) -> None:
    i, p = int(t.row_task[row]), int(t.row_device[row])
    for e in range(int(a.pred_ptr[i]), int(a.pred_ptr[i + 1])):
        best, best_time = -1, np.inf
        for k in by_task[int(a.pred[e])]:
            q = int(t.row_device[k])
            there = float(t.row_finish[k])
            if q != p:
                g, h = a.group[q], a.group[p]
                there += float(a.latency[g, h] + a.pred_data[e] * a.inverse[g, h])
            if there < best_time or (there == best_time and needed[k]):
                best, best_time = k, there
        needed[best] = True
