"""Room in the state of the queue view, twice as much where there was too little."""

from __future__ import annotations

import numpy as np

from weft.sim.queues.kernel import State


def with_twice_the_jobs(s: State) -> State:
    """Room for jobs, those that are over included."""
    return s._replace(arrival=_doubled(s.arrival, 0.0), finish=_doubled(s.finish, np.nan))


def with_twice_the_slots(s: State, next_job: int) -> State:
    """Room for jobs that are open at one time."""
    num_slots, max_nodes = s.open_edges.shape[1:]
    open_edges = np.zeros((1, 2 * num_slots, max_nodes), np.int64)
    open_tasks = np.zeros((1, 2 * num_slots), np.int64)
    for slot in np.flatnonzero(s.open_tasks[0]).tolist():
        job = next_job - 1 - (next_job - 1 - slot) % num_slots  # the last job of this slot
        open_edges[0, job % (2 * num_slots)] = s.open_edges[0, slot]
        open_tasks[0, job % (2 * num_slots)] = s.open_tasks[0, slot]
    return s._replace(open_edges=open_edges, open_tasks=open_tasks)


def with_longer_queues(s: State) -> State:
    """Room for tasks of one kind that wait."""
    queue = np.zeros((1, s.queue.shape[1], 2 * s.queue.shape[2] + s.open_edges.shape[2]), np.int64)
    queue[:, :, : s.queue.shape[2]] = s.queue
    return s._replace(queue=queue)


def _doubled(column: np.ndarray, value: float) -> np.ndarray:
    return np.concatenate([column, np.full_like(column, value)], axis=1)
