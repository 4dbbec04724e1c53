"""Blocks of large workflows: the upper level of a rule with two.

A block is a part of a workflow that data ties together: every task joins the block of the parent that sends it most, until
that has as many tasks as the square root of the workflow's number. Blocks are taken in the order of their longest path to
the end, those of shorter jobs first. The rule below chooses tasks and devices among the ready tasks of the first blocks.
"""

from __future__ import annotations

import math

import numpy as np

from weft.model.graph import Floats, Ints, TaskGraph
from weft.model.problem import Problem
from weft.sim.tasks.ranks import rank_of


def blocks_of(graph: TaskGraph) -> Ints:
    """Number of the block of every task (num_tasks,)."""
    most = max(1, math.isqrt(graph.num_tasks))
    block = np.full(graph.num_tasks, -1, np.int64)
    sizes: list[int] = []
    pointer, edges = graph.predecessor_pointer, graph.predecessor_edges
    heaviest = np.full(graph.num_tasks, -1, np.int64)
    by_data = np.lexsort((-graph.sources[edges], graph.data[edges], graph.targets[edges]))
    last = edges[
        by_data[pointer[1:][np.diff(pointer) > 0] - 1]
    ]  # of every task with parents: ties to the first
    heaviest[graph.targets[last]] = graph.sources[last]
    for i in graph.order.tolist():
        parent = int(heaviest[i])
        own = int(block[parent]) if parent >= 0 else -1
        if own < 0 or sizes[own] == most:
            own = len(sizes)
            sizes.append(0)
        block[i] = own
        sizes[own] += 1
    return block


def by_block(problem: Problem, seed: int, first_job: int = 0) -> Floats:
    """What orders ready tasks for the upper level, smallest first; the same whatever other jobs there are."""
    rank, best = rank_of(problem), problem.best_run_times
    key = np.zeros(problem.num_tasks)
    for j, job in enumerate(problem.jobs):
        own = slice(int(problem.offsets[j]), int(problem.offsets[j + 1]))
        if own.start == own.stop:
            continue
        block = blocks_of(job.graph)
        longest = np.zeros(int(block.max()) + 1)
        np.maximum.at(longest, block, rank[own])
        most, work = float(rank[own].max()), float(best[own].sum())
        key[own] = math.log(max(work, 1e-300)) - longest[block] / (most or 1.0)
    return key
