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
