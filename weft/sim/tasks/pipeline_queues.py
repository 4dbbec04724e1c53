"""Pipelines as first published: the first stage by local deadline goes into the queue of a device, busy or not.

A choice is a class; of its devices the one with the least work takes the stage, behind all that it was given before. Nothing waits to
be decided. What is seen are 2 numbers of every pipeline and one of every class: remaining path, time to the deadline, queued work.
"""

from __future__ import annotations

from weft.model.graph import Floats
from weft.sim.jit import lean_inlined, lean_kernel
from weft.sim.tasks.moves import reserve, serve_all
from weft.sim.tasks.pipeline_features import OF_PATH, PipelineListed, Seen, clipped, gather
from weft.sim.tasks.pipelines import Lines, LineState, Sweep, expected_end, is_over
from weft.sim.tasks.state import Facts, Tasks, TaskState, may_use

SCALE = 30.0
"""Times are divided by so many mean first-stage times: that is about a period."""
MOST = 8.0
"""Times beyond this are cut off, in the same unit."""


@lean_inlined
def _work_before(w: Tasks, s: TaskState, b: int, p: int) -> float:
    """Expected run time that a device has before it: queued, and what is left of what runs."""
    work, row = s.queued[p], s.running[p]
    while row >= 0:
        work += max(s.row_expected[row] - s.now[b], 0.0)
        row = s.after[row]
    return work


@lean_kernel
def _write_paths(
    sight: Seen, lines: Lines, w: Tasks, s: TaskState, v: LineState, b: int, out: Floats
) -> None:
    """Remaining path and time to the deadline of the oldest instance of every pipeline; 0 where none is under way."""
    now, unit = s.now[b], SCALE * lines.unit[b]
    for line in range(lines.line_ptr[b], lines.line_ptr[b + 1]):
        at = (line - lines.line_ptr[b]) * len(OF_PATH)
        first = lines.job_ptr[line]
        for place in range(v.oldest[line], v.upto[line]):
            j = lines.jobs[first + place]
            if not is_over(s, j):
                out[at] = clipped((expected_end(lines, w, s, b, j) - now) / unit, MOST)
                out[at + 1] = clipped((w.job_due[j] - now) / unit, MOST)
                break


@lean_kernel
def list_queues(
    sight: Seen, lines: Lines, w: Tasks, s: TaskState, v: LineState, b: int, look: Sweep,
    found: PipelineListed, out: Floats,
) -> bool:  # fmt: skip
    """Write candidates and observation of environment b; returns whether it may wait, which it may not."""
    for k in range(len(out)):
        out[k] = 0.0
    found.count[0], found.later[0] = 0, float("inf")
    _write_paths(sight, lines, w, s, v, b, out)
    gather(lines, w, s, b, True, look)
    base, width, unit = sight.series * len(OF_PATH), 2 + sight.pools, SCALE * lines.unit[b]
    for pool in range(w.pool_ptr[b], w.pool_ptr[b + 1]):
        own, least, chosen, total, count = pool - w.pool_ptr[b], float("inf"), -1, 0.0, 0
        for k in range(w.pool_device_ptr[pool], w.pool_device_ptr[pool + 1]):
            p = w.pool_devices[k]
            work = _work_before(w, s, b, p)
            total, count = total + work, count + 1
            if s.is_up[p] and work < least:
                least, chosen = work, p
        if own < sight.pools:
            out[base + own] = clipped(total / count / unit, MOST)
        n = found.count[0]
        if look.count[1] == 0 or chosen < 0 or n == len(found.task) - 1:
            continue
        i = look.ready[0]
        if may_use(w, b, i, chosen):
            row = base + sight.pools + n * width
            out[row] = 1.0
            if own < sight.pools:
                out[row + 2 + own] = 1.0
            found.task[n], found.device[n], found.depth[n] = i, chosen, 1
            found.count[0] += 1
    return False


@lean_kernel
def queue_up(w: Tasks, f: Facts, s: TaskState, b: int, i: int, p: int) -> None:
    """Put a ready stage into the queue of a device; it starts at once if nothing is before it."""
    reserve(w, s, b, i, p, s.now[b])
    serve_all(w, f, s, b)
