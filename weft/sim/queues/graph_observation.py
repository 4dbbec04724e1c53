"""What a graph net sees: features of kinds, devices and their pairs, and the edges between kinds.

One flat row per environment: the world, then kinds, devices, pairs (device by device) and the
matrix of edges. ``room`` for more kinds and devices than there are makes rows of different problems
equally long; what is not there is 0. Nothing depends on how kinds or devices are numbered. Times are
relative to the mean run time of the problem, mostly as logarithms.
"""

from __future__ import annotations

import numpy as np

from weft.model.graph import Floats
from weft.sim.jit import inlined, kernel, lean_inlined
from weft.sim.queues.kernel import IN_SYSTEM, NEXT_JOB, NOW, State, Stream

GRAPH_VERSION = 1
"""Changes with the meaning of any feature below: ``graph/1``."""

LEAST = 1e-6
"""Keeps logarithms of times finite."""
WORLD = ("gap", "load", "jobs in system", "free devices")
KIND = (
    *("queue length", "is there", "oldest age", "mean age", "run time", "least run time", "spread"),
    *("work ahead", "visits", "depth", "running"),
)
DEVICE = (
    "batch",
    "is free",
    "free in",
    "is blocked",
    "fill",
    "slowness",
    "run time left of",
    "share of kinds",
)
PAIR = ("can run", "run time", "against mean", "against best", "cost against best", "runs it")
"""Features per world, kind, device and pair; ``queue length`` and ``batch`` are plain numbers."""


def graph_size(num_kinds: int, num_devices: int) -> int:
    """Length of a row with room for this many kinds and devices."""
    pairs = num_kinds * num_devices * len(PAIR)
    return len(WORLD) + num_kinds * len(KIND) + num_devices * len(DEVICE) + pairs + num_kinds**2


def graph_names(num_kinds: int, num_devices: int) -> list[str]:
    """One name per number of a row, in order."""
    kinds, devices = range(num_kinds), range(num_devices)
    names = list(WORLD)
    names += [f"{name} of kind {k}" for k in kinds for name in KIND]
    names += [f"{name} of device {p}" for p in devices for name in DEVICE]
    names += [f"{name} of device {p}, kind {k}" for p in devices for k in kinds for name in PAIR]
    return names + [f"edge from kind {k} to {after}" for k in kinds for after in kinds]


@lean_inlined
def edge_estimate(stream: Stream, s: State, b: int, v: int, e: int) -> float:
    """Probability of an edge of node v as far as one can know: outcomes so far, one each way added.

    Of a branch that is not tracked nothing is known: its edges are equally likely.
    """
    if stream.group[e] < 0:
        return 1.0
    c = stream.choice[e]
    num, first = 0, np.int64(-1)
    for other in range(stream.succ_ptr[v], stream.succ_ptr[v + 1]):
        if stream.group[other] == stream.group[e]:
            first = other if first < 0 else first
            num += 1
    if num == 1:
        return 1.0
    if c < 0:
        return 1.0 / num
    p = (s.seen[b, c, 1] + 1.0) / (s.seen[b, c, 0] + 2.0)
    return p if e == first else (1.0 - p) / (num - 1)


@inlined
def _write_times(stream: Stream, time: Floats, mean: Floats) -> float:
    """Mean run time of every kind on every device and over the devices; returns the mean of those."""
    num_devices, num_kinds = stream.can_run.shape
    run, kind, device_class, can_run = stream.run, stream.kind, stream.device_class, stream.can_run
    num_tasks = np.zeros(num_kinds)
    time[:] = 0.0
    for v in range(len(kind)):
        num_tasks[kind[v]] += 1.0
        for p in range(num_devices):
            time[kind[v], p] += run[v, device_class[p]]
    total = 0.0
    for k in range(num_kinds):
        mean[k], num = 0.0, 0
        for p in range(num_devices):
            if can_run[p, k]:
                time[k, p] /= num_tasks[k]
                mean[k] += time[k, p]
                num += 1
        mean[k] /= max(num, 1)
        total += mean[k]
    return total / num_kinds


@lean_inlined
def _write_paths(
    stream: Stream, estimate: Floats, mean: Floats, ahead: Floats, visits: Floats, depth: Floats
) -> None:
    """Expected work of each node and all behind it, how often it runs per job, and its depth.

    Where edges meet again, work behind them counts once per edge.
    """
    graph_ptr, succ_ptr, succ, kind = stream.graph_ptr, stream.succ_ptr, stream.succ, stream.kind
    order, num_in = stream.order, stream.num_in
    depth[:] = 0.0
    for v in range(len(kind)):
        visits[v] = 1.0 if num_in[v] == 0 else 0.0
    for g in range(len(graph_ptr) - 1):
        first, last = graph_ptr[g], graph_ptr[g + 1]
        for i in range(first, last):
            v = first + order[i]
            visits[v] = min(1.0, visits[v])
            for e in range(succ_ptr[v], succ_ptr[v + 1]):
                target = first + succ[e]
                visits[target] += estimate[e] * visits[v]
                depth[target] = max(depth[target], depth[v] + 1.0)
        for i in range(last - 1, first - 1, -1):
            v = first + order[i]
            ahead[v] = mean[kind[v]]
            for e in range(succ_ptr[v], succ_ptr[v + 1]):
                ahead[v] += estimate[e] * ahead[first + succ[e]]


@lean_inlined
def _write_kinds(
    stream: Stream, s: State, b: int, scale: float, time: Floats, mean: Floats, best: Floats, out: Floats
) -> None:
    """What waits and runs of every kind, and how long it takes; ``best`` is its least run time."""
    num_devices, num_kinds = stream.can_run.shape
    max_nodes = s.open_edges.shape[2]
    queue, queued, arrival, now = s.queue, s.queued, s.arrival, s.total[b, NOW]
    for k in range(num_kinds):
        at, waiting, worst, running = k * len(KIND), queued[b, k], 0.0, 0
        total, oldest = 0.0, 0.0
        for n in range(waiting):
            age = now - arrival[b, queue[b, k, n] // max_nodes]
            oldest = age if n == 0 else oldest
            total += age
        best[k] = np.inf
        for p in range(num_devices):
            if stream.can_run[p, k]:
                best[k] = min(best[k], time[k, p])
                worst = max(worst, time[k, p])
            if s.free_at[b, p] > now and s.running_kind[b, p] == k:
                running += s.running_size[b, p]
        out[at] = waiting
        out[at + 1] = 1.0
        out[at + 2] = np.log1p(oldest / scale)
        out[at + 3] = np.log1p(total / (scale * waiting)) if waiting > 0 else 0.0
        out[at + 4] = np.log(mean[k] / scale + LEAST)
        out[at + 5] = np.log(best[k] / scale + LEAST)
        out[at + 6] = np.log((worst + LEAST) / (best[k] + LEAST))
        out[at + 10] = np.log1p(running)


@inlined
def _write_nodes(
    stream: Stream, scale: float, ahead: Floats, visits: Floats, depth: Floats, out: Floats
) -> None:
    """The means over the nodes of a kind: work ahead, visits and depth."""
    num_kinds = stream.can_run.shape[1]
    kind = stream.kind
    num_tasks = np.zeros(num_kinds)
    total = np.zeros((num_kinds, 3))
    for v in range(len(kind)):
        k = kind[v]
        num_tasks[k] += 1.0
        total[k, 0] += ahead[v]
        total[k, 1] += visits[v]
        total[k, 2] += depth[v]
    for k in range(num_kinds):
        at = k * len(KIND) + 7
        out[at] = np.log(total[k, 0] / (num_tasks[k] * scale) + LEAST)
        out[at + 1] = total[k, 1]
        out[at + 2] = np.log1p(total[k, 2] / num_tasks[k])


@lean_inlined
def _write_devices(
    stream: Stream, s: State, b: int, scale: float, time: Floats, mean: Floats, out: Floats
) -> None:
    """How large, fast and busy every device is."""
    num_devices, num_kinds = stream.can_run.shape
    now = s.total[b, NOW]
    for p in range(num_devices):
        at, left, kind = p * len(DEVICE), s.free_at[b, p] - now, s.running_kind[b, p]
        slowness, num = 0.0, 0
        for k in range(num_kinds):
            if stream.can_run[p, k]:
                slowness += np.log((time[k, p] + LEAST) / (mean[k] + LEAST))
                num += 1
        is_busy = left > 0.0 and kind >= 0
        out[at] = stream.batch[p]
        out[at + 1] = 0.0 if left > 0.0 else 1.0
        out[at + 2] = np.log1p(max(left, 0.0) / scale)
        out[at + 3] = 1.0 if left > 0.0 and kind < 0 else 0.0
        out[at + 4] = s.running_size[b, p] / stream.batch[p] if is_busy else 0.0
        out[at + 5] = slowness / max(num, 1)
        out[at + 6] = np.log1p(time[max(kind, 0), p] / scale) if is_busy else 0.0
        out[at + 7] = num / num_kinds


@lean_inlined
def _write_pairs(
    stream: Stream, s: State, b: int, scale: float, time: Floats, mean: Floats, best: Floats, room: int,
    out: Floats,
) -> None:  # fmt: skip
    """Run time of every kind on every device, against the mean, the best, and the cheapest per task."""
    num_devices, num_kinds = stream.can_run.shape
    batch, now = stream.batch, s.total[b, NOW]
    for k in range(num_kinds):
        cheapest = np.inf
        for p in range(num_devices):
            if stream.can_run[p, k]:
                cheapest = min(cheapest, time[k, p] / batch[p])
        log_scale, log_mean = np.log(scale), np.log(mean[k] + LEAST)
        log_best, log_cheapest = np.log(best[k] + LEAST), np.log(cheapest + LEAST)
        for p in range(num_devices):
            at = (p * room + k) * len(PAIR)
            if stream.can_run[p, k]:
                log_time = np.log(time[k, p] + LEAST)
                out[at] = 1.0
                out[at + 1] = log_time - log_scale
                out[at + 2] = log_time - log_mean
                out[at + 3] = log_time - log_best
                out[at + 4] = np.log(time[k, p] / batch[p] + LEAST) - log_cheapest
            out[at + 5] = 1.0 if s.free_at[b, p] > now and s.running_kind[b, p] == k else 0.0


@inlined
def _write_edges(stream: Stream, estimate: Floats, room: int, out: Floats) -> None:
    """Expected number of tasks of each kind that directly follow a task of each kind."""
    num_kinds = stream.can_run.shape[1]
    kind, graph_ptr, succ_ptr, succ = stream.kind, stream.graph_ptr, stream.succ_ptr, stream.succ
    num_tasks = np.zeros(num_kinds)
    for v in range(len(kind)):
        num_tasks[kind[v]] += 1.0
    for k in range(num_kinds):
        out[k * room : k * room + num_kinds] = 0.0
    for g in range(len(graph_ptr) - 1):
        first = graph_ptr[g]
        for v in range(first, graph_ptr[g + 1]):
            for e in range(succ_ptr[v], succ_ptr[v + 1]):
                out[kind[v] * room + kind[first + succ[e]]] += estimate[e] / num_tasks[kind[v]]


@lean_inlined
def _write_world(
    stream: Stream, s: State, b: int, scale: float, time: Floats, visits: Floats, out: Floats
) -> None:
    """Mean gap between jobs so far, a lower bound of the load, jobs in system, share of free devices."""
    num_devices = len(stream.device_class)
    now = s.total[b, NOW]
    gap = (max(now, 0.0) + scale) / (s.count[b, NEXT_JOB] + 1.0)
    work, num_free = 0.0, 0
    for v in range(len(stream.kind)):
        cheapest = np.inf
        for p in range(num_devices):
            if stream.can_run[p, stream.kind[v]]:
                cheapest = min(cheapest, time[stream.kind[v], p] / stream.batch[p])
        work += visits[v] * cheapest
    for p in range(num_devices):
        num_free += 1 if s.free_at[b, p] <= now else 0
    out[0] = np.log(gap / scale + LEAST)
    out[1] = np.log(work / (gap * num_devices) + LEAST)
    out[2] = np.log1p(s.count[b, IN_SYSTEM])
    out[3] = num_free / num_devices


@kernel
def observe_graph(stream: Stream, s: State, b: int, room_kinds: int, room_devices: int, out: Floats) -> None:
    """Write the row of environment b; what has no kind or device is left as it is."""
    num_devices, num_kinds = stream.can_run.shape
    num_nodes = len(stream.kind)
    time, mean, best = np.empty((num_kinds, num_devices)), np.empty(num_kinds), np.empty(num_kinds)
    ahead, visits, depth = np.empty(num_nodes), np.empty(num_nodes), np.empty(num_nodes)
    estimate = np.empty(len(stream.succ))
    for v in range(num_nodes):
        for e in range(stream.succ_ptr[v], stream.succ_ptr[v + 1]):
            estimate[e] = edge_estimate(stream, s, b, v, e)
    scale = _write_times(stream, time, mean)
    _write_paths(stream, estimate, mean, ahead, visits, depth)
    kinds = len(WORLD)
    devices = kinds + room_kinds * len(KIND)
    pairs = devices + room_devices * len(DEVICE)
    edges = pairs + room_devices * room_kinds * len(PAIR)
    _write_world(stream, s, b, scale, time, visits, out)
    _write_kinds(stream, s, b, scale, time, mean, best, out[kinds:])
    _write_nodes(stream, scale, ahead, visits, depth, out[kinds:])
    _write_devices(stream, s, b, scale, time, mean, out[devices:])
    _write_pairs(stream, s, b, scale, time, mean, best, room_kinds, out[pairs:])
    _write_edges(stream, estimate, room_kinds, out[edges:])
