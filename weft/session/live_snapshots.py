"""Tasks and state of the task view as plain data and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.session.json_arrays import arrayed, plain
from weft.sim.tasks.growing import JOB_STATE, ROW_STATE, TASK_STATE, LiveTasks

_LEFT_OUT = (
    "stack",
    "row_ptr",
    "pool_heap",
    "pool_place",
    "pool_size",
    "event_time",
    "event_item",
    "event_ptr",
)
"""Columns of the state that are buffers, or follow from the rest."""


def stored_tasks(live: LiveTasks) -> dict[str, Any]:
    """All that changes, as far as columns are in use."""
    sizes, state = _sizes(live), live.s._asdict()
    return {
        "state": {name: plain(state[name][: sizes.get(name)]) for name in state if name not in _LEFT_OUT},
        "kinds": list(live.kinds),
        "taken": live.f.taken[: live.num_edges].tolist(),
        "release": live.w.job_release[: live.num_jobs].tolist(),
    }


def restore_tasks(live: LiveTasks, stored: Mapping[str, Any]) -> None:
    """Fill columns that have the same jobs; whatever does not fit raises a KeyError, TypeError or ValueError."""
    state = stored["state"]
    live.make_row_room(len(state["row_task"]))
    live.s.num_rows[0] = len(state["row_task"])
    sizes = _sizes(live)
    for name, column in live.s._asdict().items():
        if name not in _LEFT_OUT:
            found, size = arrayed(state[name], column), sizes.get(name, len(column))
            if len(found) != size:
                raise ValueError(f"expected {size} entries of {name}")
            column[:size] = found
    live.refill_pools()
    live.f.taken[: live.num_edges] = stored["taken"]
    live.w.job_release[: live.num_jobs] = stored["release"]


def _sizes(live: LiveTasks) -> dict[str, int]:
    """How much of its columns is in use, of those of the state that grow."""
    used = (live.num_tasks, live.num_jobs, int(live.s.num_rows[0]))
    groups = zip((TASK_STATE, JOB_STATE, ROW_STATE), used, strict=True)
    return {name: size for names, size in groups for name in names}
