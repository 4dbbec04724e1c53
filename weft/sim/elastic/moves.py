"""The moves of the elastic kernel: arrivals, pending sets, placing, new units, and a world step.

All of it is plain arithmetic on the arrays of ``state.py``, changed in place.
"""

from __future__ import annotations

import numpy as np

from weft.model.draws import ARRIVING, LINK, PROGRESS, TASK_TYPE
from weft.sim.elastic.state import DONE, NOT_YET, RUNNING, WAITING, Log, Move, State, World
from weft.sim.jit import lean_inlined as inlined
from weft.sim.jit import lean_kernel as kernel
from weft.sim.random import keyed_uniform


@inlined
def gain_of(w: World, t: int, u: np.ndarray, p: float, noise: float) -> float:
    """Progress of a step of a task of type t with units u at progress p."""
    at = np.int64(0)
    for r in range(len(u)):
        if u[r] < w.least[t, r]:
            return 0.0
        at += u[r] * w.stride[t, r]
    factor = 1.0
    if w.law[t] == 1:
        factor = np.sqrt(max(0.0, w.value[t] - p))
    elif w.law[t] == 2:
        factor = w.curve[t, min(np.int64(p * w.curve_size[t]), w.curve_size[t] - 1)]
    return max(0.0, w.rate[t, at] * factor + w.base[t, at] + noise)


@inlined
def _poisson(mean: float, draw: float) -> int:
    """The Poisson number of one uniform draw, by inversion."""
    k, term = np.int64(0), np.exp(-mean)
    total = term
    while draw > total and term > 0.0:
        k += 1
        term *= mean / k
        total += term
    return k


@inlined
def _draw_links(w: World, key: int, j: int) -> int:
    """Which clusters task j is connected to, as bits."""
    num_clusters = len(w.capacity)
    bits = np.int64(0)
    if w.links[0] == 1.0:
        best, widest = np.int64(0), -1.0
        for n in range(num_clusters):
            draw = keyed_uniform(key, LINK, j, n, 0, 0)
            if w.links[1] * draw >= w.links[2]:
                bits |= np.int64(1) << n
            if draw > widest:  # by draws: without bandwidth all links are equally wide
                best, widest = n, draw
        return bits if bits != 0 else np.int64(1) << best
    drawn = np.int64(keyed_uniform(key, LINK, j, num_clusters, 0, 0) * num_clusters)
    count = np.int64(1) + min(drawn, np.int64(num_clusters - 1))
    for _ in range(count):
        best, lowest = np.int64(-1), 2.0
        for n in range(num_clusters):
            draw = keyed_uniform(key, LINK, j, n, 0, 0)
            if (bits >> n) & 1 == 0 and draw < lowest:
                best, lowest = n, draw
        bits |= np.int64(1) << best
    return bits


@inlined
def enqueue(s: State, b: int, j: int) -> None:
    """A task that arrives is put in the lowest free slot of each connected cluster, or behind its queue."""
    num_slots = s.slot.shape[2]
    for n in range(s.slot.shape[1]):
        if (s.links[b, j] >> n) & 1 == 0:
            continue
        if s.in_set[b, n] < num_slots:
            k = np.int64(0)
            while s.slot[b, n, k] >= 0:
                k += 1
            s.slot[b, n, k] = j
            s.in_set[b, n] += 1
        else:
            s.queue[b, n, s.tail[b, n]] = j
            s.tail[b, n] += 1
            s.queued[b, n] += 1


@inlined
def _join(s: State, b: int, t: int, links: int) -> None:
    """One more task of type t, connected to the clusters of these bits, arrives."""
    j = s.arrived[b]
    s.arrived[b] += 1
    s.status[b, j] = WAITING
    s.arrival[b, j] = s.now[b]
    s.kind[b, j] = t
    s.links[b, j] = links
    enqueue(s, b, j)


@kernel
def arrive(w: World, s: State, b: int) -> None:
    """The tasks that arrive now: those that are given, or as many as are drawn."""
    if len(w.given) > 0:
        while s.arrived[b] < len(w.given) and w.given[s.arrived[b], 0] <= s.now[b]:
            _join(s, b, w.given[s.arrived[b], 1], w.given[s.arrived[b], 2])
        return
    draw = keyed_uniform(s.seed[b], ARRIVING, s.now[b], 0, 0, 0)
    count = _poisson(w.arrival_rate, draw)
    while count > 0 and s.arrived[b] < s.status.shape[1]:
        count -= 1
        j = s.arrived[b]
        share = keyed_uniform(s.seed[b], TASK_TYPE, j, 0, 0, 0)
        t = np.int64(0)
        while t < len(w.share) - 1 and share >= w.share[t]:
            t += 1
        _join(s, b, t, _draw_links(w, s.seed[b], j))


@inlined
def refill(s: State, b: int, n: int) -> None:
    """Free slots of a set are filled from the queue, the lowest first."""
    num_slots = s.slot.shape[2]
    k = np.int64(0)
    while s.in_set[b, n] < num_slots and s.queued[b, n] > 0:
        j = s.queue[b, n, s.head[b, n]]
        s.head[b, n] += 1
        if s.status[b, j] != WAITING:
            continue
        while s.slot[b, n, k] >= 0:
            k += 1
        s.slot[b, n, k] = j
        s.in_set[b, n] += 1
        s.queued[b, n] -= 1


@inlined
def _compact(s: State, b: int, n: int) -> None:
    """Tasks of a set move up, so that its slots are in order of arrival."""
    filled = np.int64(0)
    for k in range(s.slot.shape[2]):
        j = s.slot[b, n, k]
        if j >= 0:
            s.slot[b, n, k] = -1
            s.slot[b, n, filled] = j
            filled += 1


@inlined
def _leave(w: World, s: State, b: int, j: int) -> None:
    """A task that was placed disappears from all sets and queues."""
    for n in range(s.slot.shape[1]):
        if (s.links[b, j] >> n) & 1 == 0:
            continue
        found = False
        for k in range(s.slot.shape[2]):
            if s.slot[b, n, k] == j:
                s.slot[b, n, k] = -1
                found = True
        if found:
            s.in_set[b, n] -= 1
        else:
            s.queued[b, n] -= 1
        if w.is_earliest:
            _compact(s, b, n)
            refill(s, b, n)


@inlined
def may_hold(w: World, s: State, b: int, n: int, j: int, u: np.ndarray) -> bool:
    """Whether cluster n can give task j these units: at least what it needs, at most what is free."""
    t = s.kind[b, j]
    for r in range(len(u)):
        if u[r] < w.least[t, r] or u[r] > w.most[t, r] or u[r] > s.free[b, n, r]:
            return False
    return s.num_running[b, n] < s.running.shape[2]


@inlined
def fits(w: World, s: State, b: int, n: int, j: int) -> bool:
    """Whether what task j needs at least is free on cluster n."""
    t = s.kind[b, j]
    for r in range(w.least.shape[1]):
        if w.least[t, r] > s.free[b, n, r]:
            return False
    return s.num_running[b, n] < s.running.shape[2]


@inlined
def place(w: World, s: State, b: int, n: int, j: int, u: np.ndarray) -> None:
    """Task j starts on cluster n with units u."""
    s.status[b, j] = RUNNING
    s.cluster[b, j] = n
    s.start[b, j] = s.now[b]
    s.placed_round[b, j] = s.round[b]
    for r in range(len(u)):
        s.units[b, j, r] = u[r]
        s.before[b, j, r] = -1
        s.free[b, n, r] -= u[r]
    s.running[b, n, s.num_running[b, n]] = j
    s.num_running[b, n] += 1
    _leave(w, s, b, j)


@inlined
def reallocate(w: World, s: State, b: int, n: int, move: Move) -> bool:
    """Give all running tasks of a cluster the units that were decided; nothing where they are too many.

    Units beyond what a task may have are cut off; below what it needs, it keeps its place and does nothing.
    """
    num_resources = w.least.shape[1]
    for r in range(num_resources):
        total = np.int64(0)
        for k in range(s.num_running[b, n]):
            total += max(0, min(move.again[b, n, k, r], w.most[s.kind[b, s.running[b, n, k]], r]))
        if total > w.capacity[n, r]:
            return False
    for k in range(s.num_running[b, n]):
        j = s.running[b, n, k]
        for r in range(num_resources):
            given = max(0, min(move.again[b, n, k, r], w.most[s.kind[b, j], r]))
            s.free[b, n, r] += s.units[b, j, r] - given
            s.units[b, j, r] = given
    return True


@inlined
def _run(w: World, s: State, b: int, j: int) -> None:
    """One world step of a running task."""
    t = s.kind[b, j]
    noise = 0.0
    if w.noise[t] > 0.0:
        noise = w.noise[t] * (2.0 * keyed_uniform(s.seed[b], PROGRESS, j, s.ran[b, j], 0, 0) - 1.0)
    gain = gain_of(w, t, s.units[b, j], s.progress[b, j], noise)
    if s.before[b, j, 0] >= 0:
        for r in range(w.least.shape[1]):
            if s.units[b, j, r] != s.before[b, j, r]:
                gain *= w.switching[t]
                break
    for r in range(w.least.shape[1]):
        s.before[b, j, r] = s.units[b, j, r]
        s.served[b, j, r] += s.units[b, j, r]
        s.busy[b, r] += s.units[b, j, r]
    s.progress[b, j] += gain
    s.ran[b, j] += 1


@inlined
def _note(s: State, b: int, n: int, j: int, log: Log) -> None:
    """One row of the log: a task that has just run for a step."""
    if len(log.rows) == 0:
        return
    at = log.count[0]
    if at < len(log.rows):
        row = log.rows[at]
        row[0], row[1], row[2], row[3] = b, s.now[b], n, j
        row[4], row[5] = s.placed_round[b, j], s.ran[b, j] - 1
        for r in range(s.units.shape[2]):
            row[6 + r] = s.units[b, j, r]
        log.progress[at] = s.progress[b, j]
    log.count[0] += 1


@kernel
def advance(w: World, s: State, b: int, log: Log) -> bool:
    """One world step: progress, completion, arrivals, pending sets; whether the episode is over."""
    num_resources = w.least.shape[1]
    for n in range(s.slot.shape[1]):
        kept = np.int64(0)
        for k in range(s.num_running[b, n]):
            j = s.running[b, n, k]
            _run(w, s, b, j)
            _note(s, b, n, j, log)
            s.running[b, n, k] = -1
            if s.progress[b, j] >= 1.0:
                s.status[b, j] = DONE
                s.finish[b, j] = s.now[b] + 1
                s.done[b] += 1
                for r in range(num_resources):
                    s.free[b, n, r] += s.units[b, j, r]
            else:
                s.running[b, n, kept] = j
                kept += 1
        s.num_running[b, n] = kept
    s.now[b] += 1
    s.round[b] = 0
    if s.done[b] == s.status.shape[1]:
        return True
    arrive(w, s, b)
    for n in range(s.slot.shape[1]):
        refill(s, b, n)
    return False


@kernel
def begin(w: World, s: State, b: int) -> None:
    """An episode starts: nothing runs, and the first tasks arrive."""
    num_tasks, num_resources = s.status.shape[1], w.least.shape[1]
    s.now[b], s.round[b], s.arrived[b], s.done[b] = 0, 0, 0, 0
    for j in range(num_tasks):
        s.status[b, j], s.cluster[b, j], s.start[b, j], s.finish[b, j] = NOT_YET, -1, -1, -1
        s.progress[b, j] = 0.0
        s.ran[b, j], s.placed_round[b, j], s.row[b, j], s.links[b, j] = 0, 0, -1, 0
        for r in range(num_resources):
            s.units[b, j, r], s.before[b, j, r], s.served[b, j, r] = 0, -1, 0
    for n in range(s.slot.shape[1]):
        s.head[b, n], s.tail[b, n], s.queued[b, n], s.in_set[b, n], s.num_running[b, n] = 0, 0, 0, 0, 0
        for k in range(s.slot.shape[2]):
            s.slot[b, n, k] = -1
        for k in range(s.running.shape[2]):
            s.running[b, n, k] = -1
        for r in range(num_resources):
            s.free[b, n, r] = w.capacity[n, r]
    for r in range(num_resources):
        s.busy[b, r] = 0
    arrive(w, s, b)
