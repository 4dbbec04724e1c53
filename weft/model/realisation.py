"""What happens in one run of a problem: run times and branches, by keyed draws.

The draw of one task never depends on another decision or draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.errors import InputError
from weft.model.draws import BIAS, BRANCH, NOISE, PROGRESS, WANDER, keyed_uniform
from weft.model.graph import ALWAYS, Bools, Floats, Ints, TaskGraph
from weft.model.noise import factors, normal

if TYPE_CHECKING:
    from weft.model.problem import Problem


@dataclass(frozen=True, eq=False, repr=False)
class Jitter:
    """The draws that the jitter of speed curves takes: one for each task and step of time since it was placed."""

    key: int
    step: float
    """Length of a step of time."""
    number: Ints  # (num_tasks,) under which the draws of a task are keyed
    first: Ints  # (num_tasks,) step in which it was placed

    def draw(self, task: int, step: int) -> float:
        """Uniform between -1 and 1, for a task in a step."""
        ran = step - int(self.first[task])
        return 2.0 * float(keyed_uniform(self.key, PROGRESS, int(self.number[task]), ran, 0, 0)) - 1.0


@dataclass(frozen=True, eq=False, repr=False)
class Realisation:
    """What happens in one run of a problem: nothing here depends on a decision, save when draws of jitter begin."""

    seed: int
    run_times: Floats  # (num_tasks, num_classes)
    taken: tuple[Bools, ...]  # per job: (num_edges,) whether the edge is taken
    runs: Bools  # (num_tasks,) whether the task runs at all
    jitter: Jitter | None = None
    """Draws for elastic tasks whose speed varies from step to step; None: it is as stated."""

    @cached_property
    def is_full(self) -> bool:
        """Whether every task runs."""
        return bool(self.runs.all())


def expected(problem: Problem) -> Realisation:
    """The realisation in which every run time is as expected; needs a graph without branches."""
    taken = []
    for job in problem.jobs:
        if job.graph.is_conditional:
            raise InputError(f"job {job.name} has conditional branches: they need a seed, see realise()")
        taken.append(np.ones(job.graph.num_edges, dtype=np.bool_))
    return Realisation(-1, problem.run_times, tuple(taken), np.ones(problem.num_tasks, dtype=np.bool_))


def realise(problem: Problem, seed: int) -> Realisation:
    """Draw run times and branches; a draw is keyed by (seed, stream, job, task, class or group)."""
    factors = _noise_factors(problem, seed) * _bias_factors(problem, seed)
    whole = {
        id(job.graph): np.ones(job.graph.num_edges, np.bool_) for job in problem.jobs
    }  # no branches: all
    taken = tuple(
        _draw_branches(job.graph, seed, j) if job.graph.is_conditional else whole[id(job.graph)]
        for j, job in enumerate(problem.jobs)
    )
    runs = np.concatenate([_runs(job.graph, t) for job, t in zip(problem.jobs, taken, strict=True)])
    return Realisation(seed, problem.run_times * factors, taken, runs)


def _noise_factors(problem: Problem, seed: int) -> Any:
    if problem.noise == 0:
        return 1.0
    task = np.arange(problem.num_tasks) - problem.offsets[problem.job_of]
    classes = np.arange(problem.cluster.num_classes)
    job = problem.job_of[:, None]
    drawn = [keyed_uniform(seed, NOISE, job, task[:, None], classes, k) for k in (0, 1)]
    return factors(problem.noise_law, problem.noise, *drawn)


def _bias_factors(problem: Problem, seed: int) -> Any:
    """What stated run times are multiplied by, per task and class: by kind, and changing with the job."""
    if problem.bias == 0 and problem.drift == 0:
        return 1.0
    classes, jobs = np.arange(problem.cluster.num_classes), np.arange(len(problem.jobs))
    kinds = np.arange(len(problem.kinds))[:, None]
    logs = np.zeros((len(jobs), len(kinds), len(classes)))
    if problem.bias:
        drawn = normal(*(keyed_uniform(seed, BIAS, kinds, classes, 0, k) for k in (0, 1)))
        logs += problem.bias * drawn - problem.bias**2 / 2.0
    if problem.drift and len(jobs) > 1:
        step, at = problem.drift / np.sqrt(len(jobs) - 1.0), jobs[:, None, None]
        drawn = normal(*(keyed_uniform(seed, WANDER, kinds, classes, at, k) for k in (0, 1)))
        logs += np.cumsum(np.where(at > 0, step * drawn - step**2 / 2.0, 0.0), axis=0)
    return np.exp(logs[problem.job_of, problem.kind_of])


def _draw_branches(graph: TaskGraph, seed: int, job: int) -> Bools:
    taken: Bools = graph.branch == ALWAYS
    groups: dict[tuple[int, int], list[int]] = {}
    for e in np.flatnonzero(graph.branch != ALWAYS).tolist():
        groups.setdefault((int(graph.sources[e]), int(graph.branch[e])), []).append(e)
    for (source, group), edges in groups.items():
        draw = float(keyed_uniform(seed, BRANCH, job, source, group, 0))
        upto = np.cumsum(graph.probability[edges])
        taken[edges[min(int(np.searchsorted(upto, draw, side="right")), len(edges) - 1)]] = True
    return taken


def _runs(graph: TaskGraph, taken: Bools) -> Bools:
    """A task runs if it has no predecessor or a taken edge from a task that runs."""
    if not graph.is_conditional:
        return np.ones(graph.num_tasks, dtype=np.bool_)
    runs = np.diff(graph.predecessor_pointer) == 0
    pointer = graph.successor_pointer
    for i in graph.order.tolist():
        if runs[i]:
            edges = slice(int(pointer[i]), int(pointer[i + 1]))
            runs[graph.targets[edges][taken[edges]]] = True
    result: Bools = runs
    return result
