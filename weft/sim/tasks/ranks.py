"""Static orders of tasks: how long the path from a task to the end of its job is."""

from __future__ import annotations

import numpy as np

from weft.model.graph import Floats
from weft.model.problem import Problem
from weft.sim.arrays import compile_problem
from weft.sim.timeline.list_planning import upward_rank


def rank_of(problem: Problem) -> Floats:
    """Upward rank of every task."""
    rank: Floats = upward_rank(compile_problem(problem), np.array(problem.mean_run_times))
    return rank


def chain_of(problem: Problem) -> Floats:
    """How many tasks the longest chain from every task to an end of its job has, itself included."""
    without_data = compile_problem(problem)._replace(mean_latency=0.0, mean_inverse=0.0)
    chain: Floats = upward_rank(without_data, np.ones(problem.num_tasks))
    return chain
