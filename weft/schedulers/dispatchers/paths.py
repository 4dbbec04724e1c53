"""What is left of jobs at the shortest run times, per task; graphs that several jobs share are looked at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.model.graph import Floats, TaskGraph
from weft.model.problem import Problem


def per_graph(problem: Problem, of: Callable[[TaskGraph, Floats], Floats], table: Floats) -> Floats:
    """A column of tasks worked out once for every graph of a problem, from its rows of a table."""
    known: dict[int, Floats] = {}
    parts = []
    for j, job in enumerate(problem.jobs):
        if id(job.graph) not in known:
            known[id(job.graph)] = of(job.graph, table[problem.offsets[j] : problem.offsets[j + 1]])
        parts.append(known[id(job.graph)])
    return np.concatenate(parts)


def left_of(graph: TaskGraph, times: Floats) -> Floats:
    """Longest path from every task to an end, itself included."""
    left = times.astype(np.float64).copy()
    pointer, targets = graph.successor_pointer.tolist(), graph.targets.tolist()
    for i in reversed(graph.order.tolist()):
        after = [left[targets[e]] for e in range(pointer[i], pointer[i + 1])]
        left[i] = times[i] + max(after, default=0.0)
    return left


def fastest_left(problem: Problem) -> Floats:
    """The same at the shortest run times."""
    return per_graph(problem, left_of, problem.best_run_times)


def shares_done(problem: Problem) -> Floats:
    """Share of the longest path through every task that is behind it when it ends."""

    def share(graph: TaskGraph, times: Floats) -> Floats:
        left = left_of(graph, times)
        total = float(left.max(initial=0.0))
        return 1.0 - (left - times) / total if total > 0 else np.ones(len(times))

    return per_graph(problem, share, problem.best_run_times)
