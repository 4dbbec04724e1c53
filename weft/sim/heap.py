"""The heap of events that the decoder and the event kernel share: ordered by (time, task)."""

from __future__ import annotations

from weft.model.graph import Floats, Ints
from weft.sim.jit import lean_inlined as inlined


@inlined
def push_event(times: Floats, tasks: Ints, size: int, time: float, task: int) -> int:
    """Add an event to the heap ordered by (time, task)."""
    at = size
    while at > 0:
        up = (at - 1) // 2
        if times[up] < time or (times[up] == time and tasks[up] < task):
            break
        times[at], tasks[at] = times[up], tasks[up]
        at = up
    times[at], tasks[at] = time, task
    return size + 1


@inlined
def pop_event(times: Floats, tasks: Ints, size: int) -> int:
    """Drop the first event of the heap."""
    size -= 1
    time, task = times[size], tasks[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        right = child + 1
        if right < size and (
            times[right] < times[child] or (times[right] == times[child] and tasks[right] < tasks[child])
        ):
            child = right
        if time < times[child] or (time == times[child] and task < tasks[child]):
            break
        times[at], tasks[at] = times[child], tasks[child]
        at = child
    times[at], tasks[at] = time, task
    return size
