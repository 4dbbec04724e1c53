"""What every job of a stream takes at least, from what it turns out to be."""

from __future__ import annotations

import numpy as np

from weft.model.draws import BRANCH, keyed_uniform
from weft.model.graph import Bools, Floats, Ints
from weft.sim.drift import write_all_drifts, write_probabilities
from weft.sim.env import Setup
from weft.sim.streams import compile_stream, edge_probabilities, new_state


def branch_probabilities(setup: Setup, seeds: Ints) -> Floats:
    """(num_seeds, num_jobs) probability of the drifting branch's first edge for every job."""
    stream = compile_stream(setup.problem, setup.rules)
    num_jobs, knots = setup.arrivals.count, setup.drift.num_knots
    probability = edge_probabilities(setup.problem)
    found = np.full((len(seeds), num_jobs), probability[np.argmax(stream.choice == 0)])
    if knots:
        state = new_state(stream, len(seeds), num_jobs, probability, slots=1, room=1, knots=knots)
        state.seed[:] = seeds
        write_all_drifts(stream, state, setup.drift.law)
        write_probabilities(state, found)
    return found


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


def taken_edges(setup: Setup, seed: int) -> Bools:
    """(num_edges, num_jobs) whether each edge is taken if its task runs; the same draws as the kernel's."""
    graph, num_jobs = setup.problem.graph, setup.arrivals.count
    taken = np.ones((graph.num_edges, num_jobs), np.bool_)
    drifting = _drifting(setup, seed)
    is_branch = graph.branch >= 0
    for source, group in dict.fromkeys(
        zip(graph.sources[is_branch].tolist(), graph.branch[is_branch].tolist(), strict=True)
    ):
        edges = np.flatnonzero((graph.sources == source) & (graph.branch == group))
        draw = keyed_uniform(seed, BRANCH, np.arange(num_jobs), source, group, 0)
        share = drifting.get((source, group), graph.probability[edges][:, None])
        place = np.minimum((draw >= np.cumsum(share, axis=0)).sum(axis=0), len(edges) - 1)
        taken[edges] = place == np.arange(len(edges))[:, None]
    return taken


def _drifting(setup: Setup, seed: int) -> dict[tuple[int, int], Floats]:
    """Task and group of the branch that drifts -> probability of its edges for every job; or nothing."""
    if not setup.drift.num_knots:
        return {}
    graph = setup.problem.graph
    edges = np.flatnonzero(compile_stream(setup.problem, setup.rules).choice == 0)
    first = branch_probabilities(setup, np.array([seed]))[0]  # (num_jobs,)
    rest = graph.probability[edges[1:]]
    share = rest / rest.sum() if rest.sum() > 0 else np.full(len(rest), 1.0 / len(rest))
    key = (int(graph.sources[edges[0]]), int(graph.branch[edges[0]]))
    return {key: np.vstack([first, (1.0 - first) * share[:, None]])}
