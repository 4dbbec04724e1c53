"""Which batch ran where and when in a stream: one workload again, from the record of its tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.evaluation.sweep.queue_runs import Outcome, play
from weft.model.graph import Floats, Ints
from weft.scenarios import StreamProblem


@dataclass(frozen=True, eq=False)
class Trace:
    """One row per batch, by start; every slot of a device has a lane of its own."""

    device: Ints  # (num_batches,) lane
    kind: Ints  # (num_batches,)
    size: Ints  # (num_batches,) tasks
    start: Floats  # (num_batches,)
    finish: Floats  # (num_batches,)


def record(scheduler: str, case: StreamProblem, seed: int) -> tuple[Outcome, Trace]:
    """The workload of one seed under a dispatcher or a policy, with every batch."""
    outcome = play(scheduler, case, [seed])
    return outcome, _trace(outcome)


def _trace(outcome: Outcome) -> Trace:
    problem = outcome.setup.problem
    has_run = outcome.task_device[0] >= 0
    batch, first, size = np.unique(outcome.task_batch[0][has_run], return_index=True, return_counts=True)
    start, finish = (column[0][has_run][first] for column in (outcome.task_start, outcome.task_finish))
    kind = problem.graph.kind[np.nonzero(has_run)[1][first]].astype(np.int64)
    lane = batch % int(problem.cluster.slots.sum())
    order = np.lexsort((lane, start))
    return Trace(lane[order], kind[order], size[order], start[order], finish[order])
