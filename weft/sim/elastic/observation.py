"""What agents see of the clusters: arrays for a net, and the boxes that allocations must lie in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.model.columns import Bools, Ints
from weft.model.elastic import ElasticProblem
from weft.sim.elastic.conflicts import is_active
from weft.sim.elastic.state import State, World, most_running
from weft.sim.jit import lean_inlined as inlined
from weft.sim.jit import lean_kernel as kernel

Floats32 = npt.NDArray[np.float32]
STEPS = 10.0
"""Waited and elapsed world steps are divided by this, as are numbers of tasks."""


class ElasticSight(NamedTuple):
    """What agents see, with room for M = N * P distinct waiting tasks.

    A task m may be given units u on cluster n where ``least[m] <= u <= min(most[n], top[m])``, or nothing at all.
    """

    cluster: Floats32  # (B, N, 2R + 3) free and capacity over scale, queue beyond the set, tasks in the set, running
    waiting: (
        Floats32  # (B, M, R + T + 3) least over scale, type, steps waited, share of clusters connected, 1
    )
    slot: Ints  # (B, N, P) row of ``waiting``; -1: empty
    running: Floats32  # (B, N, K, R + T + 3) units over scale, type, steps since placed, progress, 1
    least: Ints  # (B, M, R)
    most: Ints  # (B, N, R) min(free, grid)
    active: Bools  # (B, N) whether some task of the pending set fits
    top: Ints  # (B, M, R) most units the task may have; the grid, unless a resource is rigid


def new_sight(problem: ElasticProblem, num_envs: int) -> ElasticSight:
    """Buffers for so many environments."""
    clusters, resources, types = problem.num_clusters, problem.num_resources, len(problem.types)
    rows, wide = clusters * problem.num_slots, resources + types + 3
    return ElasticSight(
        np.zeros((num_envs, clusters, 2 * resources + 3), np.float32),
        np.zeros((num_envs, rows, wide), np.float32),
        np.full((num_envs, clusters, problem.num_slots), -1, np.int64),
        np.zeros((num_envs, clusters, most_running(problem), wide), np.float32),
        np.zeros((num_envs, rows, resources), np.int64),
        np.zeros((num_envs, clusters, resources), np.int64),
        np.zeros((num_envs, clusters), np.bool_),
        np.zeros((num_envs, rows, resources), np.int64),
    )


@inlined
def _share(w: World, r: int, units: int) -> float:
    """Units as a share of the most that any task may have, which is 0 where no task uses the resource."""
    return units / max(w.grid[r], np.int64(1))


@inlined
def _write_cluster(w: World, s: State, b: int, n: int, out: ElasticSight) -> None:
    num_resources = w.least.shape[1]
    x = out.cluster[b, n]
    for r in range(num_resources):
        x[r] = _share(w, r, s.free[b, n, r])
        x[num_resources + r] = _share(w, r, w.capacity[n, r])
        out.most[b, n, r] = min(s.free[b, n, r], w.grid[r])
    x[2 * num_resources] = s.queued[b, n] / STEPS
    x[2 * num_resources + 1] = s.in_set[b, n] / STEPS
    x[2 * num_resources + 2] = s.num_running[b, n] / STEPS
    out.active[b, n] = is_active(w, s, b, n)


@inlined
def _write_waiting(w: World, s: State, b: int, j: int, row: int, out: ElasticSight) -> None:
    num_types, num_resources = w.least.shape
    t, x = s.kind[b, j], out.waiting[b, row]
    for r in range(num_resources):
        x[r] = _share(w, r, w.least[t, r])
        out.least[b, row, r] = w.least[t, r]
        out.top[b, row, r] = w.most[t, r]
    for k in range(num_types):
        x[num_resources + k] = 1.0 if k == t else 0.0
    count = np.int64(0)
    for n in range(s.slot.shape[1]):
        count += (s.links[b, j] >> n) & 1
    x[num_resources + num_types] = (s.now[b] - s.arrival[b, j]) / STEPS
    x[num_resources + num_types + 1] = count / s.slot.shape[1]
    x[num_resources + num_types + 2] = 1.0


@inlined
def _write_running(w: World, s: State, b: int, n: int, k: int, out: ElasticSight) -> None:
    num_types, num_resources = w.least.shape
    x, j = out.running[b, n, k], s.running[b, n, k]
    if j < 0:
        for i in range(len(x)):
            x[i] = 0.0
        return
    for r in range(num_resources):
        x[r] = _share(w, r, s.units[b, j, r])
    for t in range(num_types):
        x[num_resources + t] = 1.0 if t == s.kind[b, j] else 0.0
    x[num_resources + num_types] = (s.now[b] - s.start[b, j]) / STEPS
    x[num_resources + num_types + 1] = s.progress[b, j]
    x[num_resources + num_types + 2] = 1.0


@kernel
def observe(w: World, s: State, b: int, out: ElasticSight) -> None:
    """Write what environment b shows; rows beyond the waiting tasks are zeros."""
    num_clusters, num_slots = s.slot.shape[1], s.slot.shape[2]
    rows = np.int64(0)
    for n in range(num_clusters):
        _write_cluster(w, s, b, n, out)
        for k in range(num_slots):
            j = s.slot[b, n, k]
            if j < 0:
                out.slot[b, n, k] = -1
                continue
            if s.row[b, j] < 0:
                s.row[b, j] = rows
                _write_waiting(w, s, b, j, rows, out)
                rows += 1
            out.slot[b, n, k] = s.row[b, j]
        for k in range(s.running.shape[2]):
            _write_running(w, s, b, n, k, out)
    for n in range(num_clusters):
        for k in range(num_slots):
            if s.slot[b, n, k] >= 0:
                s.row[b, s.slot[b, n, k]] = -1
    for row in range(rows, out.waiting.shape[1]):
        if out.waiting[b, row, out.waiting.shape[2] - 1] == 0.0:
            break  # what lies beyond is clear already
        for i in range(out.waiting.shape[2]):
            out.waiting[b, row, i] = 0.0
        for r in range(w.least.shape[1]):
            out.least[b, row, r] = 0
            out.top[b, row, r] = 0
