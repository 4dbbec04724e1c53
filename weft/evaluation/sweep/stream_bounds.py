"""What every job of a stream takes at least, from what it turns out to be."""

from __future__ import annotations

import numpy as np

from weft.model import stream
from weft.model.graph import Floats, Ints
from weft.sim.queues.environment import Setup
from weft.sim.queues.outcomes import taken_edges


def branch_probabilities(setup: Setup, seeds: Ints) -> Floats:
    """(num_seeds, num_jobs) probability of the drifting branch's first edge for every job."""
    graph = setup.problem.graph
    edge = stream.drifting_edges(graph, setup.rules.tracked)[0]
    first, num_jobs = float(graph.probability[edge]), setup.arrivals.count
    return np.stack(
        [stream.drift_probabilities(setup.drift, first, seed, num_jobs) for seed in seeds.tolist()]
    )


def least_job_times(setup: Setup, seed: int) -> Floats:
    """For every job the longest path of what it turns out to be, each task at its fastest: a bound."""
    graph, best = setup.problem.graph, setup.problem.best_run_times
    num_jobs = setup.arrivals.count
    begins = np.where(np.diff(graph.predecessor_pointer) == 0, 0.0, -np.inf)[:, None] + np.zeros(num_jobs)
    taken = taken_edges(setup, seed)
    for i in graph.order.tolist():
        for e in range(int(graph.successor_pointer[i]), int(graph.successor_pointer[i + 1])):
            after = np.where(taken[e], begins[i] + best[i], -np.inf)
            np.maximum(begins[graph.targets[e]], after, out=begins[graph.targets[e]])
    return np.minimum((begins + best[:, None]).max(axis=0), setup.rules.expiry)
