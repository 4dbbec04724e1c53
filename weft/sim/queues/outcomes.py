"""How the branches of a stream turn out: the same draws as the kernel's, all at once."""

from __future__ import annotations

from weft.model import stream
from weft.model.graph import Bools
from weft.sim.queues.environment import Setup


def taken_edges(setup: Setup, seed: int) -> Bools:
    """(num_edges, num_jobs) whether each edge is taken if its task runs; the same draws as the kernel's."""
    return stream.taken_edges(
        setup.problem.graph, setup.arrivals.count, seed, setup.drift, setup.rules.tracked
    )
