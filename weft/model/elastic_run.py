"""What happened in one episode of an elastic problem, and the figures that are read from it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weft.model.columns import Floats, Ints
from weft.model.elastic import ElasticProblem

STEP, CLUSTER, TASK, ROUND, RAN, UNITS = 0, 1, 2, 3, 4, 5
"""Columns of ``rows``; those from UNITS on are the units of each resource."""


@dataclass(frozen=True, eq=False)
class ElasticRun:
    """One episode: what arrived, and every world step of every task that ran."""

    problem: ElasticProblem
    seed: int
    arrival: Ints  # (J,) world step
    kind: Ints  # (J,) type
    links: Ints  # (J,) bit n: connected to cluster n
    finish: Ints  # (J,) world steps that had passed at its end
    rows: Ints  # (num_rows, 5 + R) world step, cluster, task, logical step of its placement, steps run before, units
    progress: Floats  # (num_rows,) after the step

    @cached_property
    def completion(self) -> Ints:
        """World steps from arrival to end, both counted; (J,)."""
        return np.asarray(self.finish - self.arrival)

    @cached_property
    def start(self) -> Ints:
        """World step in which each task was placed; (J,)."""
        found = np.full(len(self.arrival), -1, np.int64)
        first = self.rows[self.rows[:, RAN] == 0]
        found[first[:, TASK]] = first[:, STEP]
        return found

    @property
    def mean_completion(self) -> float:
        """Mean of the completion times."""
        return float(self.completion.mean())

    @property
    def longest_wait(self) -> int:
        """Most world steps between arrival and placement."""
        return int((self.start - self.arrival).max())

    @cached_property
    def use(self) -> Floats:
        """Share of all units that were given, per resource, over the whole episode; (R,)."""
        steps = int(self.finish.max())
        return np.asarray(self.rows[:, UNITS:].sum(axis=0) / (self.problem.capacity.sum(axis=0) * steps))

    @cached_property
    def alive(self) -> Ints:
        """Tasks that have arrived and not ended, at each world step; (steps,)."""
        steps = int(self.finish.max())
        came = np.bincount(self.arrival, minlength=steps + 1)[:steps]
        went = np.bincount(self.finish, minlength=steps + 1)[:steps]
        return np.asarray(np.cumsum(came - went))

    @cached_property
    def types_per_cluster(self) -> Ints:
        """Tasks of each type that each cluster took; (N, T)."""
        first = self.rows[self.rows[:, RAN] == 0]
        found = np.zeros((self.problem.num_clusters, len(self.problem.types)), np.int64)
        np.add.at(found, (first[:, CLUSTER], self.kind[first[:, TASK]]), 1)
        return found

    @property
    def figures(self) -> dict[str, float]:
        """All figures by name."""
        times = self.completion
        found = {
            "mean_completion": self.mean_completion,
            "median_completion": float(np.median(times)),
            "p95_completion": float(np.percentile(times, 95)),
            "variance": float(times.var()),
            "longest_wait": float(self.longest_wait),
        }
        shares = {
            f"{name}_use": float(share) for name, share in zip(self.problem.resources, self.use, strict=True)
        }
        return found | shares | {"peak_alive": float(self.alive.max())}

    @property
    def trace(self) -> str:
        """SHA-256 over all that happened: equal hashes, equal runs."""
        digest = hashlib.sha256()
        for column in (self.arrival, self.kind, self.links, self.finish, self.rows, self.progress):
            digest.update(
                np.ascontiguousarray(column).astype(column.dtype.newbyteorder("<"), copy=False).tobytes()
            )
        return digest.hexdigest()
