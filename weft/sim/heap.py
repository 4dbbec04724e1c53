"""Heaps: events by (time, task), which the decoder and the event kernel share; items; tasks by a key; a sort and a copy."""

from __future__ import annotations

import numpy as np

from weft.model.graph import Floats, Ints
from weft.sim.jit import lean_inlined as inlined

RUN = 24
"""Up to this many entries are sorted by insertion."""


@inlined
def copy_into(target: np.ndarray, source: np.ndarray) -> None:
    """``target[:] = source`` for equal lengths; numba compiles seconds of checks and messages for that."""
    for k in range(len(source)):
        target[k] = source[k]


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


@inlined
def _goes_first(key: Floats, i: int, j: int) -> bool:
    return key[i] < key[j] or (key[i] == key[j] and i < j)


@inlined
def _rise(heap: Ints, place: Ints, key: Floats, base: int, at: int) -> int:
    """Move the item at ``at`` towards the head; returns where it ends up."""
    i = heap[base + at]
    while at > 0:
        up = (at - 1) >> 1
        j = heap[base + up]
        if not _goes_first(key, i, j):
            break
        heap[base + at] = j
        place[j] = at
        at = up
    heap[base + at] = i
    place[i] = at
    return at


@inlined
def _sink(heap: Ints, place: Ints, key: Floats, base: int, size: int, at: int) -> None:
    i = heap[base + at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _goes_first(key, heap[base + child + 1], heap[base + child]):
            child += 1
        j = heap[base + child]
        if not _goes_first(key, j, i):
            break
        heap[base + at] = j
        place[j] = at
        at = child
    heap[base + at] = i
    place[i] = at


@inlined
def push_keyed(heap: Ints, place: Ints, key: Floats, base: int, size: int, i: int) -> int:
    """Add i to the indexed heap ``heap[base : base + size]`` ordered by (key, i); returns the new size.

    ``place[i]`` is where i stands in its heap, -1: in none.
    """
    heap[base + size] = i
    _rise(heap, place, key, base, size)
    return size + 1


@inlined
def remove_keyed(heap: Ints, place: Ints, key: Floats, base: int, size: int, i: int) -> int:
    """Take i out of its indexed heap, wherever it stands; returns the new size."""
    at = place[i]
    place[i] = -1
    size -= 1
    if at < size:
        heap[base + at] = heap[base + size]
        at = _rise(heap, place, key, base, at)
        _sink(heap, place, key, base, size, at)
    return size


@inlined
def _sift_down(heap: Ints, start: int, at: int) -> None:
    """Move the item at ``at`` towards ``start`` until its parent is smaller."""
    item = heap[at]
    while at > start:
        up = (at - 1) >> 1
        if item >= heap[up]:
            break
        heap[at] = heap[up]
        at = up
    heap[at] = item


@inlined
def push_item(heap: Ints, size: int, item: int) -> None:
    """Add an item to a heap of this size."""
    heap[size] = item
    _sift_down(heap, 0, size)


@inlined
def pop_item(heap: Ints, size: int) -> int:
    """Take the smallest item of a heap of this size.

    The hole sinks to a leaf and the last item rises from there: the layout of the array, which
    rules that look at the second and third item see, then is that of Python's ``heapq``.
    """
    last = heap[size - 1]
    size -= 1
    if size == 0:
        return last
    first = heap[0]
    at = 0
    child = 1
    while child < size:
        if child + 1 < size and heap[child + 1] <= heap[child]:
            child += 1
        heap[at] = heap[child]
        at = child
        child = 2 * at + 1
    heap[at] = last
    _sift_down(heap, 0, at)
    return first


@inlined
def _merge(tasks: Ints, low: int, middle: int, high: int, key: Floats, spare: Ints) -> None:
    """Merge two sorted neighbours; of equal keys those of the first stay in front."""
    for k in range(low, middle):
        spare[k] = tasks[k]
    left, right, at = low, middle, low
    while left < middle:
        if right < high and key[tasks[right]] > key[spare[left]]:
            tasks[at] = tasks[right]
            right += 1
        else:
            tasks[at] = spare[left]
            left += 1
        at += 1


@inlined
def sort_by_key(tasks: Ints, size: int, key: Floats, spare: Ints) -> None:
    """Sort the first entries of ``tasks`` by falling key: short runs by insertion, then merged; uses ``spare``."""
    for first in range(0, size, RUN):
        for k in range(first + 1, min(first + RUN, size)):
            i = tasks[k]
            at = k
            while at > first and key[tasks[at - 1]] < key[i]:
                tasks[at] = tasks[at - 1]
                at -= 1
            tasks[at] = i
    width = RUN
    while width < size:
        for low in range(0, size - width, 2 * width):
            _merge(tasks, low, low + width, min(low + 2 * width, size), key, spare)
        width *= 2
