"""Bookings in the task view: shares of devices that are held for one job (``model/bookings.py`` says what they promise).

Of a device, ``booked`` is the sum of all shares, and ``free`` what is neither in use nor held: a job with a share counts
with what its tasks use or with its share, whichever is more. While others still run in a share that was granted, what is
free is below zero, and nothing of theirs fits.
"""

from __future__ import annotations

import numpy as np

from weft.model.graph import Floats
from weft.sim.jit import lean_inlined as inlined
from weft.sim.jit import lean_kernel as kernel
from weft.sim.tasks.state import SLACK, Tasks, TaskState, held, refresh, spare_share


@inlined
def _has_share(w: Tasks, s: TaskState, b: int, j: int, p: int) -> bool:
    """Whether the booking of job j fits on device p beside the others."""
    if not w.may_book[j, p - w.device_ptr[b]]:
        return False
    has_all = True
    for r in range(w.capacity.shape[1]):
        limit = w.capacity[p, r]
        has_all = has_all and s.booked[p, r] + held(w, j, p, r) <= limit + limit * SLACK
    return has_all


@kernel
def grant(w: Tasks, s: TaskState, b: int, j: int) -> bool:
    """Hold what job j books, on the first devices by number that have it; returns False where they are too few."""
    found = np.int64(0)
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        found += 1 if _has_share(w, s, b, j, p) else 0
    if found < w.book_count[j]:
        return False
    left = w.book_count[j]
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        if left > 0 and _has_share(w, s, b, j, p):
            left -= 1
            s.granted[j, p - w.device_ptr[b]] = True
            for r in range(w.capacity.shape[1]):
                share = held(w, j, p, r)
                s.booked[p, r] += share
                s.free[p, r] -= share
            refresh(w, s, b, p)
    return True


@kernel
def end_booking(w: Tasks, s: TaskState, b: int, j: int) -> None:
    """Job j is over, or is given up: nothing is held for it any more."""
    if s.is_waiting[j]:
        s.is_waiting[j] = False
        s.num_waiting[b] -= 1
    s.may_grant[b] = True
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        if not s.granted[j, p - w.device_ptr[b]]:
            continue
        is_last = s.booked[p, 0] - held(w, j, p, np.int64(0)) < 1.0
        for r in range(w.capacity.shape[1]):
            s.free[p, r] += spare_share(w, s, b, j, p, r)
        for r in range(w.capacity.shape[1]):
            s.booked[p, r] = 0.0 if is_last else s.booked[p, r] - held(w, j, p, r)
        s.granted[j, p - w.device_ptr[b]] = False
        if s.running[p] < 0:
            for r in range(w.capacity.shape[1]):
                s.free[p, r] = w.capacity[p, r] - s.booked[p, r]
        refresh(w, s, b, p)


@kernel
def next_in_line(w: Tasks, s: TaskState, b: int) -> int:
    """Of the jobs that wait for their booking the one that was released first; -1: none waits."""
    first = np.int64(-1)
    for j in range(w.job_ptr[b], w.job_ptr[b + 1]):
        if s.is_waiting[j] and (first < 0 or w.job_release[j] < w.job_release[first]):
            first = j
    return first


def spare_shares(w: Tasks, s: TaskState, b: int, j: int, p: int) -> Floats:
    """What is held for job j on device p and not in use by its own tasks (num_resources,); for Python."""
    if s.booked[p, 0] == 0.0 or not s.granted[j, p - w.device_ptr[b]]:
        return np.zeros(w.capacity.shape[1])
    limit = w.capacity[p]
    left = np.where(np.isfinite(limit), np.minimum(w.book_need[j], limit), 0.0)
    row = int(s.running[p])
    while row >= 0:
        i = int(s.row_task[row])
        if w.job[i] == j and s.row_finish[row] != -np.inf:
            left = left - w.demand[i]
        row = int(s.after[row])
    return np.asarray(np.maximum(left, 0.0), dtype=np.float64)
