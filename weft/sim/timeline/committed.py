"""Timelines that are not empty: what others have committed, and what of a job has started already."""

from __future__ import annotations

from typing import NamedTuple

from weft.model.graph import Floats, Ints
from weft.sim.arrays import SLOTS, Arrays
from weft.sim.jit import lean_kernel
from weft.sim.tasks.state import Tasks, TaskState
from weft.sim.timeline.timelines import Timeline, split_step, take_gap


class Beside(NamedTuple):
    """Intervals in which devices are held, and rows of the job's own tasks that stay as they are.

    Intervals of a device that runs one task at a time do not overlap and come in order.
    """

    device: Ints  # (num_intervals,)
    start: Floats  # (num_intervals,)
    finish: Floats  # (num_intervals,)
    slots: Floats  # (num_intervals,) what is held of a shared device; memory is not counted
    fixed_task: Ints  # (num_fixed,)
    fixed_device: Ints  # (num_fixed,)
    fixed_start: Floats  # (num_fixed,)
    fixed_finish: Floats  # (num_fixed,)


@lean_kernel
def put_beside(a: Arrays, t: Timeline, beside: Beside) -> None:
    """Enter all of it into empty timelines; fixed rows hold no time of their own."""
    for k in range(len(beside.device)):
        p, start, finish = beside.device[k], beside.start[k], beside.finish[k]
        if finish <= start:
            continue
        if a.is_unary[p]:
            take_gap(t, p, start, finish, t.shortest[a.device_class[p]])
        else:
            split_step(t, p, start)
            split_step(t, p, finish)
            for step in range(t.base[p], t.base[p] + t.size[p]):
                if start <= t.step_time[step] < finish:
                    t.step_used[step, SLOTS] += beside.slots[k]
        t.last_finish[p] = max(t.last_finish[p], finish if a.is_unary[p] else start)
    for k in range(len(beside.fixed_task)):
        row, i = t.num_rows[0], beside.fixed_task[k]
        t.num_rows[0] += 1
        t.row_task[row], t.row_device[row] = i, beside.fixed_device[k]
        t.row_start[row], t.row_finish[row] = beside.fixed_start[k], beside.fixed_finish[k]
        t.next_row[row] = t.first_row[i]
        t.first_row[i] = row


@lean_kernel
def write_committed(
    w: Tasks, s: TaskState, b: int, device: Ints, start: Floats, finish: Floats, slots: Floats
) -> int:
    """What devices are expected to be held by, from now on; returns the number of intervals.

    Reserved rows keep their planned starts unless what comes before them on the device is late.
    """
    now, count = s.now[b], 0
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        upto, row, is_running = now, s.running[p], True
        if row < 0:
            row, is_running = s.queue[p], False
        while row >= 0:
            begins = now if is_running else max(upto, s.row_expected[row])
            ends = begins + w.run[s.row_task[row], w.device_class[p]]
            if is_running:
                ends = max(now, s.row_expected[row])
            device[count], start[count], finish[count] = p - w.device_ptr[b], begins, ends
            slots[count] = w.demand[s.row_task[row], SLOTS]
            count += 1
            if w.is_unary[p]:
                upto = ends
            row = s.after[row]
            if row < 0 and is_running:
                row, is_running = s.queue[p], False
    return count
