"""The record of a stream: where and when every task of every job ran, as arrays and as a schedule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import Problem, Realisation
from weft.model.schedule import DONE, EXPIRED, Schedule


@dataclass(frozen=True, eq=False)
class StreamRecord:
    """What happened in a stream of one job's graph: a row per job, a column per task."""

    problem: Problem
    """Of one job."""
    arrival: Floats  # (num_jobs,)
    taken: Bools  # (num_edges, num_jobs) whether each edge is taken if its task runs
    expiry: float
    """A waiting task of an older job is dropped; infinite: never."""
    device: Ints  # (num_jobs, num_tasks) -1: it never ran
    batch: Ints  # (num_jobs, num_tasks) number of its batch, another one for every batch of a device
    start: Floats  # (num_jobs, num_tasks) NaN: it never ran
    finish: Floats  # (num_jobs, num_tasks) when it ended, or was dropped; NaN: neither

    @cached_property
    def runs(self) -> Bools:
        """(num_jobs, num_tasks) whether each task would run if nothing expired."""
        graph = self.problem.graph
        runs = np.tile(np.diff(graph.predecessor_pointer) == 0, (len(self.arrival), 1))
        for i in graph.order.tolist():
            for e in range(int(graph.successor_pointer[i]), int(graph.successor_pointer[i + 1])):
                runs[:, graph.targets[e]] |= self.taken[e] & runs[:, i]
        return runs

    @cached_property
    def has_run(self) -> Bools:
        """(num_jobs, num_tasks) whether each task held a device."""
        return np.asarray(self.device >= 0)

    @property
    def job_times(self) -> Floats:
        """(num_jobs,) from arrival to the last end; the limit where a task was left undone."""
        last = np.where(self.has_run, self.finish, -np.inf).max(axis=1, initial=-np.inf)
        is_left = (self.runs & ~self.has_run).any(axis=1)
        return np.where(is_left, self.expiry, np.maximum(last, self.arrival) - self.arrival)

    def schedule(self) -> Schedule:
        """The same as a schedule of one problem with a job per arrival.

        Its clock begins at the first arrival where that is before 0. Tasks left undone have a row without a
        device that says they expired.
        """
        job = self.problem.jobs[0]
        origin = min(0.0, float(self.arrival.min()))
        due = self.expiry if np.isfinite(self.expiry) else None
        jobs = tuple(
            replace(job, name=f"{job.name}-{k + 1}", release=time - origin, deadline=due)
            for k, time in enumerate(self.arrival.tolist())
        )
        whole = Problem(jobs, self.problem.cluster, self.problem.objective, name=self.problem.name)
        left = self.runs & ~self.has_run
        kept = self.has_run | left
        dropped = np.where(np.isnan(self.finish), self.arrival[:, None] + self.expiry, self.finish)
        taken = tuple(np.ascontiguousarray(self.taken[:, k]) for k in range(len(jobs)))
        return Schedule(
            whole,
            np.flatnonzero(kept).astype(np.int32),
            self.device[kept].astype(np.int32),
            np.where(left, dropped, self.start)[kept] - origin,
            np.where(left, dropped, self.finish)[kept] - origin,
            batch=np.where(self.has_run, self.batch, -1)[kept].astype(np.int32),
            outcome=np.where(left, EXPIRED, DONE)[kept].astype(np.int8),
            realisation=Realisation(-1, whole.run_times, taken, self.runs.ravel()),
        )
