"""Snapshots of problems side by side: of those that are played alone. An episode begins by emptying its own problem.

Where environments may play any of many problems, each has all of them, and what those hold that nobody plays is a multiple
of what matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.model.graph import Ints
from weft.sim.tasks.pipelines import Lines
from weft.sim.tasks.state import Tasks, TaskState

Arrays = dict[str, npt.NDArray[Any]]
_OF_TASKS = "status open_edges key work ready place stack first_row is_its_turn lead"
_OF_JOBS = "job_open job_left job_finish is_expired is_waiting granted"
_OF_DEVICES = (
    "free booked is_up has_room pool_heap pool_place running queue queue_end queued dirty is_dirty look_at "
    "used recent"
)
_OF_ROWS = "row_task row_device row_start row_finish row_expected row_status next_row before after"


def state_pointers(w: Tasks, s: TaskState) -> dict[str, Ints]:
    """Field of the state or of the facts -> where the entries (num_problems + 1,) of each problem begin; not those with one entry each."""
    groups = {
        _OF_TASKS: w.task_ptr,
        _OF_JOBS: w.job_ptr,
        _OF_DEVICES: w.device_ptr,
        "pool_size": w.pool_ptr,
        _OF_ROWS: s.row_ptr,
        "event_time event_item": s.event_ptr,
        "seen ratio factor": w.kind_ptr,
    }
    found = {f"state.{name}": pointer for names, pointer in groups.items() for name in names.split()}
    return {**found, "facts.run": w.task_ptr, "facts.taken": w.succ_ptr[w.task_ptr]}


def line_pointers(lines: Lines) -> dict[str, Ints]:
    """The same for the state of pipelines."""
    names = ("oldest", "upto", "judged", "missed", "counted")
    return {f"lines.{name}": lines.line_ptr for name in names}


def kept(arrays: Arrays, pointers: Mapping[str, Ints], plays: Ints) -> Arrays:
    """Copies of arrays; of those with a pointer only what belongs to the problems that are played."""
    found = {}
    for name, array in arrays.items():
        at = _places(pointers[name], plays) if name in pointers and len(array) else slice(None)
        found[name] = array[at].copy()
    return found


def put_back(arrays: Arrays, snapshot: Mapping[str, npt.NDArray[Any]], pointers: Mapping[str, Ints]) -> None:
    """Fill arrays with what :func:`kept` returned; what nobody plays stays as it is."""
    plays = snapshot["plays"].astype(np.int64)
    for name, array in arrays.items():
        at = _places(pointers[name], plays) if name in pointers and len(array) else slice(None)
        array[at] = snapshot[name]


def _places(pointer: Ints, plays: Ints) -> Ints:
    """The entries of these problems, one problem after another."""
    return np.concatenate([np.arange(pointer[b], pointer[b + 1]) for b in plays.tolist()])
