"""Small elastic problems, and sights of them in the middle of an episode."""

from __future__ import annotations

import numpy as np

from weft.model.elastic import ElasticProblem, insensitive, saturating
from weft.sim.elastic.environment import ElasticBatch
from weft.sim.elastic.observation import ElasticSight


def edge_problem(clusters: int = 3, **changes: object) -> ElasticProblem:
    """Insensitive and sensitive tasks on equal clusters."""
    types = (insensitive("img", (2, 1), (16, 16), 0.25), saturating("lm", (2, 1), (16, 16), 1, 16.0))
    fields = {"num_tasks": 20 * clusters, "stepping": "multi", "conflicts": "softmax", **changes}
    return ElasticProblem(np.full((clusters, 2), 16), types, arrival_rate=1.5 * clusters, **fields)


def in_the_middle(batch: ElasticBatch, steps: int = 12, seed: int = 0) -> ElasticSight:
    """What is seen after random placements, copied."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        sight = batch.observe()
        shape = sight.slot.shape[:2]
        units = np.stack([np.full(shape, 2), rng.integers(1, 6, shape)], -1)
        batch.act(rng.integers(0, 10, shape), units, np.ones(shape))
    return ElasticSight(*(column.copy() for column in batch.observe()))


def taken(sight: ElasticSight, order: np.ndarray) -> ElasticSight:
    """The environments in another order."""
    return ElasticSight(*(np.ascontiguousarray(column[order]) for column in sight))


def turned(sight: ElasticSight, order: np.ndarray) -> ElasticSight:
    """The clusters in another order."""
    columns = sight._asdict()
    for name in ("cluster", "slot", "running", "most", "active"):
        columns[name] = np.ascontiguousarray(columns[name][:, order])
    return ElasticSight(**columns)
