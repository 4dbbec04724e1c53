"""What an encoder sees of a problem: features per task and per (task, class), and relations.

Everything is a ratio to something of the same problem, so neither the unit of time nor the size of
the graph shows. ``VERSION`` changes with the meaning of any column.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.sim.arrays import Arrays
from weft.sim.relations import components, descendants, hops, reduced
from weft.sim.timeline.decoding import descendant_sum
from weft.sim.timeline.list_planning import downward_rank, optimistic_cost, upward_rank

VERSION = "tasks/2"
DENSE_LIMIT = 2000
"""Up to this many tasks relations are tables; above, edges and pooled tokens stand for them."""
EXACT_LIMIT = 20_000
"""Above this many tasks the work that remains is that of the longest path."""

FEATURES = (
    "duration",
    "head",
    "tail",
    "slack",
    "share of tail",
    "work remaining",
    "share of remaining",
    "depth",
    "steps to go",
    "load",
    "share of load",
    "mean head of resource",
    "mean tail of resource",
    "demand",
    "freedom",
    "spread",
    "data in",
    "data out",
    "inputs",
    "outputs",
    "release",
    "load against path",
    "area against path",
    "transfer against run",
    "area of path",
    "area remaining",
)
PAIR_FEATURES = ("against mean", "against best", "optimistic cost", "devices", "class against mean")
MOST = 8.0
"""Features of pairs are cut at this size."""


class TaskView(NamedTuple):
    """One problem as an encoder takes it."""

    features: Floats  # (num_tasks, num_features)
    pairs: Floats  # (num_tasks, num_classes, num_pair_features), zero where a class cannot run the task
    resource: Ints  # (num_tasks,) tasks with the same number can use the same classes
    level: Ints  # (num_tasks,) edges on the longest path to a task
    component: Ints  # (num_tasks,) tasks with different numbers are joined by no path
    group: Ints  # (num_tasks,) tasks of different groups never compete for a device
    scale: float
    """Mean run time: the unit of a bias."""
    succ_ptr: Ints  # (num_tasks + 1,)
    succ: Ints  # (num_edges,)
    reach: Bools  # (num_tasks, num_tasks) whether a path leads from row to column; (0, 0) where too large
    is_reduced: Bools  # (num_edges,) whether an edge is in the transitive reduction; (0,) where too large

    @property
    def num_tasks(self) -> int:
        """Tasks of all jobs."""
        return len(self.features)


def view_of(a: Arrays, *, has_pairs: bool = True) -> TaskView:
    """What there is to see of a compiled problem with at least one task.

    Without ``has_pairs`` no class is shown: enough where only the order is open.
    """
    can = np.isfinite(a.run) & (a.class_count > 0)
    duration = _mean_run(a, can)
    level = hops(a.order, a.succ_ptr, a.succ)
    resource = _numbered(can)
    is_fixed = bool((can.sum(axis=1) == 1).all())
    is_dense = len(duration) <= DENSE_LIMIT
    reach = descendants(a.order, a.succ_ptr, a.succ) if is_dense else np.zeros((0, 0), np.bool_)
    return TaskView(
        features=_features(a, can, duration, resource, level),
        pairs=_pairs(a, can, duration) if has_pairs else np.zeros((len(duration), 0, len(PAIR_FEATURES))),
        resource=resource,
        level=level[0],
        component=components(a.succ_ptr, a.succ),
        group=resource if is_fixed else np.zeros(len(duration), np.int64),
        scale=float(duration.mean()) or 1.0,
        succ_ptr=a.succ_ptr,
        succ=a.succ,
        reach=reach,
        is_reduced=reduced(a.succ_ptr, a.succ, reach) if is_dense else np.zeros(0, np.bool_),
    )


def _numbered(can: Bools) -> Ints:
    """The number of every row among the different ones, in order."""
    packed = np.packbits(can, axis=1)  # compares as the rows do, eight columns at a time
    key = np.zeros(len(can), np.int64)
    for column in packed.T:
        key = np.unique(256 * key + column, return_inverse=True)[1].reshape(-1)
    return key.astype(np.int64)


def _mean_run(a: Arrays, can: Bools) -> Floats:
    weight = can * a.class_count
    mean: Floats = (np.where(can, a.run, 0.0) * weight).sum(axis=1) / weight.sum(axis=1)
    return mean


def _ratio(part: Floats, whole: Floats | float) -> Floats:
    """Part over whole, 0 where there is no whole."""
    whole = np.broadcast_to(np.asarray(whole, np.float64), part.shape)
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0)


def _by_max(column: Floats) -> Floats:
    return _ratio(column, float(column.max(initial=0.0)))


def _features(a: Arrays, can: Bools, duration: Floats, resource: Ints, level: Ints) -> Floats:
    head, tail = downward_rank(a, duration), upward_rank(a, duration)
    path = float((head + tail).max())
    remaining = _remaining(a, duration)
    slots = np.bincount(a.device_class, a.capacity[:, 0], a.run.shape[1]).astype(np.float64)
    units: Floats = can @ slots  # (num_tasks,)
    area = _ratio(duration * a.demand[:, 0], units)
    load: Floats = np.bincount(resource, area).astype(np.float64)[resource]
    fastest, slowest = np.where(can, a.run, np.inf).min(axis=1), np.where(can, a.run, 0.0).max(axis=1)
    moved_out = _transfers(a, a.succ_ptr, a.succ_data)
    moved_in = _transfers(a, a.pred_ptr, a.pred_data)
    total, mean_move = float(area.sum()), float(moved_out.sum()) / max(len(a.succ), 1)
    ones = np.ones(len(duration))
    columns = (
        _by_max(duration),
        _ratio(head, path),
        _ratio(tail, path),
        1.0 - _ratio(head + tail, path),
        _ratio(duration, tail),
        _by_max(remaining),
        _ratio(duration, remaining),
        _by_max(level[0].astype(np.float64)),
        _by_max(level[1].astype(np.float64)),
        _by_max(load),
        _ratio(area, load),
        _ratio(_mean_of(resource, head), path),
        _ratio(_mean_of(resource, tail), path),
        _demand_share(a, can),
        can.mean(axis=1),
        _ratio(slowest - fastest, slowest + fastest),
        _ratio(moved_in, moved_in + duration),
        _ratio(moved_out, moved_out + duration),
        _by_max(np.log1p(np.diff(a.pred_ptr))),
        _by_max(np.log1p(np.diff(a.succ_ptr))),
        _ratio(a.release, a.release + path),
        _ratio(load, load + path),
        ones * (total / (total + path) if total + path > 0 else 0.0),
        ones * (mean_move / (mean_move + duration.mean()) if mean_move > 0 else 0.0),
        _by_max(upward_rank(_without_data(a), area)),
        _by_max(_remaining(a, area)),
    )
    return np.stack(columns, axis=1)


def _mean_of(resource: Ints, column: Floats) -> Floats:
    """The mean over the tasks of the same resource."""
    mean: Floats = np.bincount(resource, column)[resource] / np.bincount(resource)[resource]
    return mean


def _remaining(a: Arrays, column: Floats) -> Floats:
    """The sum over a task and all its descendants."""
    if len(column) > EXACT_LIMIT:
        found: Floats = upward_rank(_without_data(a), column)
    else:
        found = descendant_sum(a.order, a.succ_ptr, a.succ, column)
    return found


def _without_data(a: Arrays) -> Arrays:
    return a._replace(mean_latency=0.0, mean_inverse=0.0)


def _transfers(a: Arrays, pointer: Ints, data: Floats) -> Floats:
    """Mean transfer time of all edges at a task."""
    time = a.mean_latency + data * a.mean_inverse if len(a.device_class) > 1 else np.zeros(len(data))
    total = np.concatenate([[0.0], np.cumsum(time)])
    at_task: Floats = total[pointer[1:]] - total[pointer[:-1]]
    return np.maximum(at_task, 0.0)


def _demand_share(a: Arrays, can: Bools) -> Floats:
    """Greatest part of a device that a task takes; 0 for one slot of one, where nothing is shared."""
    most = np.zeros((a.run.shape[1], a.capacity.shape[1]))
    np.maximum.at(most, a.device_class, a.capacity)
    share = np.zeros(len(a.run))
    for r in range(a.capacity.shape[1]):
        room = np.where(can, most[:, r], 0.0).max(axis=1)
        limited = np.isfinite(room) & (room > 0) & ((r > 0) | (room > 1))
        share = np.maximum(
            share, np.where(limited, _ratio(a.demand[:, r], np.where(limited, room, 1.0)), 0.0)
        )
    return share


def _pairs(a: Arrays, can: Bools, duration: Floats) -> Floats:
    run = np.where(can, a.run, 0.0)
    fastest = np.where(can, a.run, np.inf).min(axis=1)
    scale = float(duration.mean()) or 1.0
    cost = np.where(can, np.where(np.isfinite(table := optimistic_cost(a)), table, 0.0), np.inf)
    cost = np.where(can, cost - cost.min(axis=1, keepdims=True), 0.0)
    against_mean = _ratio(run, duration[:, None]) - 1.0
    by_class = np.where(can, against_mean, 0.0).sum(axis=0) / np.maximum(can.sum(axis=0), 1)
    columns = (
        against_mean,
        _ratio(run - fastest[:, None], duration[:, None]),
        cost / scale,
        np.broadcast_to(a.class_count / len(a.device_class), run.shape),
        np.broadcast_to(by_class, run.shape),
    )
    found = np.clip(np.stack(columns, axis=2), -MOST, MOST)
    return np.where(can[:, :, None], found, 0.0)
