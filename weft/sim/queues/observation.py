"""What a policy sees of the queue view: names, scales and version of the features, and the masks.

Ages are whole-job ages. The features of a block stand together; ``Sight`` says which blocks there
are, and ``feature_names`` spells them out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.graph import Bools, Floats
from weft.sim.jit import lean_inlined as inlined
from weft.sim.jit import lean_kernel as kernel
from weft.sim.queues.graph_observation import GRAPH_VERSION, graph_names, observe_graph
from weft.sim.queues.kernel import LAST_KIND, NOW, State, Stream

FEATURE_VERSION = "queue/1"
GRAPH_FEATURES = f"graph/{GRAPH_VERSION}"
"""Versions of the two kinds of observation: blocks for one problem, and rows for a graph net."""


class Sight(NamedTuple):
    """Which blocks are observed and how they are scaled."""

    oldest: int = 3  # ages of the first items of every queue
    mean_age: bool = True
    lengths: bool = True
    flags: bool = False  # whether each queue is non-empty
    last_kind: bool = False  # one-hot of the kind started last
    estimates: bool = True  # running estimate of every tracked branch
    devices: bool = False  # time until free and batch running, per device
    device_kinds: bool = False  # one-hot of the kind each busy device runs
    age_scale: float = 5000.0
    length_scale: float = 50.0
    graph: bool = False  # what a graph net needs instead of all these blocks
    room_kinds: int = 0  # graph: least number of kinds there is room for
    room_devices: int = 0  # graph: least number of devices there is room for
    forget: float = (
        0.0  # weight of older outcomes in the estimates, per new one; 0: as the stream's rules say
    )


def num_features(sight: Sight, num_kinds: int, num_devices: int, num_branches: int) -> int:
    """Length of an observation."""
    return len(feature_names(sight, [str(k) for k in range(num_kinds)], num_devices, num_branches))


def feature_names(sight: Sight, kinds: list[str], num_devices: int, num_branches: int) -> list[str]:
    """One name per feature, in order."""
    if sight.graph:
        return graph_names(max(len(kinds), sight.room_kinds), max(num_devices, sight.room_devices))
    names = [f"age{n} {kind}" for kind in kinds for n in range(sight.oldest)]
    names += [f"mean age {kind}" for kind in kinds] if sight.mean_age else []
    names += [f"length {kind}" for kind in kinds] if sight.lengths else []
    names += [f"waits {kind}" for kind in kinds] if sight.flags else []
    names += [f"last {kind}" for kind in kinds] if sight.last_kind else []
    names += [f"branch {n}" for n in range(num_branches)] if sight.estimates else []
    if sight.devices:
        names += [f"free in {p}" for p in range(num_devices)] + [f"batch {p}" for p in range(num_devices)]
    if sight.device_kinds:
        names += [f"runs {p} {kind}" for p in range(num_devices) for kind in kinds]
    return names


@kernel
def observe(stream: Stream, sight: Sight, s: State, b: int, out: Floats) -> None:
    """Write the observation of environment b."""
    num_devices, num_kinds = stream.can_run.shape
    if sight.graph:
        rooms = max(num_kinds, sight.room_kinds), max(num_devices, sight.room_devices)
        observe_graph(stream, s, b, rooms[0], rooms[1], out)
        return
    max_nodes = s.open_edges.shape[2]
    queue, queued, arrival, now = s.queue, s.queued, s.arrival, s.total[b, NOW]
    scale = sight.age_scale
    at = np.int64(0)
    oldest, mean_at = sight.oldest, num_kinds * sight.oldest
    for kind in range(num_kinds):
        waiting, total = queued[b, kind], 0.0
        for n in range(waiting if sight.mean_age else min(waiting, oldest)):
            age = now - arrival[b, queue[b, kind, n] // max_nodes]
            total += age
            if n < oldest:
                out[at + n] = age / scale
        for n in range(waiting, oldest):
            out[at + n] = 0.0
        at += oldest
        if sight.mean_age:
            out[mean_at + kind] = total / (scale * waiting) if waiting > 0 else 0.0
    at += num_kinds if sight.mean_age else 0
    if sight.lengths:
        for kind in range(num_kinds):
            out[at] = min(queued[b, kind] / sight.length_scale, 1.0)
            at += 1
    if sight.flags:
        for kind in range(num_kinds):
            out[at] = 1.0 if queued[b, kind] > 0 else 0.0
            at += 1
    if sight.last_kind:
        for kind in range(num_kinds):
            out[at] = 1.0 if s.count[b, LAST_KIND] == kind else 0.0
            at += 1
    if sight.estimates:
        for c in range(s.seen.shape[1]):
            out[at] = s.seen[b, c, 1] / (s.seen[b, c, 0] + 1.0)
            at += 1
    if sight.devices:
        for p in range(num_devices):
            out[at] = max(s.free_at[b, p] - now, 0.0) / scale
            at += 1
        for p in range(num_devices):
            busy = s.free_at[b, p] > now and s.running_kind[b, p] >= 0
            out[at] = s.running_size[b, p] / stream.batch[p] if busy else 0.0
            at += 1
    if sight.device_kinds:
        for p in range(num_devices):
            for kind in range(num_kinds):
                busy = s.free_at[b, p] > now
                out[at] = 1.0 if busy and s.running_kind[b, p] == kind else 0.0
                at += 1


@inlined
def write_mask(stream: Stream, s: State, b: int, mask: Bools) -> None:
    """Which kinds a device may start now; idle (last) is always allowed; rows beyond the devices can only idle."""
    num_devices, num_kinds = stream.can_run.shape
    now, idle = s.total[b, NOW], mask.shape[1] - 1
    for p in range(mask.shape[0]):
        is_free = p < num_devices and s.free_at[b, p] <= now
        for kind in range(idle):
            is_there = is_free and kind < num_kinds
            mask[p, kind] = is_there and s.queued[b, kind] > 0 and stream.can_run[p, kind]
        mask[p, idle] = True
