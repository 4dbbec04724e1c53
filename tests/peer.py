"""The conditional stream of the public reference simulator, and its seeded workloads as traces.

Six kinds A..F: A -> B, B -> C or D, D -> E or F; F is heavy. Two CPUs without batches and two GPUs
that take batches of 5 and 10. An idle decision blocks a device for 10 ms, jobs expire after 5 s.
"""

from __future__ import annotations

import random

import numpy as np

from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import Bools, Floats, GraphBuilder, Ints
from weft.model.problem import Problem
from weft.sim.queues import rules as queue_rules
from weft.sim.queues.kernel import State, Stream
from weft.sim.queues.layout import Rules, compile_stream, edge_probabilities, new_state
from weft.sim.queues.rules import Rule

RULES = Rules(expiry=5000.0, idle_block=10.0, peeks=True, tracked=("D",))
WORK = np.array([10.0, 10.0, 10.0, 10.0, 10.0, 100.0])  # (6,) ms
START = -1.0
SPREAD, GAP = 4.0, 8.0


def problem(p_c: float = 0.5) -> Problem:
    """The graph and the four devices; ``p_c`` is the probability of E after D."""
    builder = GraphBuilder("conditional", time_unit="ms")
    for name, work in zip("ABCDEF", WORK.tolist(), strict=True):
        builder.task(name, work, kind=name)
    builder.edge("A", "B")
    for source, target, p in (("B", "C", 0.5), ("B", "D", 0.5), ("D", "E", p_c), ("D", "F", 1.0 - p_c)):
        builder.edge(source, target, probability=p, branch=0)
    classes = (DeviceClass("cpu", 1.25), DeviceClass("gpu1", batch=5), DeviceClass("gpu2", batch=10))
    return Problem(builder.build(), Cluster.uniform(classes, (2, 1, 1)))


def workload(seed: int, num_jobs: int, p_c: float) -> tuple[Floats, Ints]:
    """Sorted arrivals (num_jobs,) and branches taken (num_jobs, 6) of the reference's seeded workload."""
    arrival = np.cumsum(np.random.RandomState(seed).normal(GAP, SPREAD, num_jobs))
    draws = random.Random(seed)
    taken = np.full((num_jobs, 6), -1, np.int64)
    for row in taken:
        draws.random()
        row[1] = 0 if draws.random() < 0.5 else 1
        if row[1] == 1:
            row[3] = 0 if draws.random() < p_c else 1
        draws.random()
    order = np.argsort(arrival, kind="stable")
    return arrival[order], taken[order]


def traced(seeds: list[int], num_jobs: int, p_c: float) -> tuple[Stream, State]:
    """One environment per seed, each fed with that seed's workload."""
    stream = compile_stream(problem(p_c), RULES)
    probability = edge_probabilities(problem(p_c))
    state = new_state(stream, len(seeds), num_jobs, probability, slots=2048, room=2048, traced=True)
    for b, seed in enumerate(seeds):
        state.arrival[b], state.trace[b] = workload(seed, num_jobs, p_c)
    return stream, state


def rule(
    number: int,
    *,
    by_count: bool = False,
    waits: bool = False,
    small_heavy: int = 0,
    least_heavy: int = 1,
    num_envs: int = 1,
) -> Rule:
    """A rule of the queue view that knows the six kinds."""
    is_heavy: Bools = WORK > 50.0
    return Rule(
        number,
        by_count,
        waits,
        small_heavy,
        least_heavy,
        WORK.copy(),
        np.arange(6),
        is_heavy,
        np.zeros(6),
        np.zeros(num_envs, np.uint64),
        np.zeros(num_envs, np.int64),
    )


def heavy_last(small_heavy: int, least_heavy: int, num_envs: int) -> Rule:
    """H1 (0, 1), H3 (1, 2) or H5 (0, 3)."""
    return rule(
        queue_rules.HEAVY_LAST,
        waits=True,
        small_heavy=small_heavy,
        least_heavy=least_heavy,
        num_envs=num_envs,
    )
