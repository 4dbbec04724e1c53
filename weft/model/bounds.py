"""Lower bounds on the makespan; each says what it bounds."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from weft.model.class_bounds import path_and_work
from weft.model.graph import Floats, TaskGraph
from weft.model.problem import Problem


@dataclass(frozen=True)
class Bound:
    """No schedule of the class it bounds has a smaller makespan than ``value``."""

    value: float
    method: str
    copies: bool = True
    """Whether it also holds for schedules in which tasks run more than once."""


def lower_bound(problem: Problem) -> Bound:
    """The best of the cheap bounds; all of them hold with and without copies."""
    if problem not in _KNOWN:
        path, work = path_and_work(problem)
        others = [Bound(path, "critical path with transfers"), Bound(work, "work on scarce devices")]
        _KNOWN[problem] = max([simple_bound(problem), *others], key=lambda bound: bound.value)
    return _KNOWN[problem]


_KNOWN: WeakKeyDictionary[Problem, Bound] = WeakKeyDictionary()
"""Bounds of the problems at hand: each is found once, however many schedules ask."""


def simple_bound(problem: Problem) -> Bound:
    """The best of critical path and areas, in time linear in tasks and edges."""
    candidates = [critical_path(problem), area(problem), *_restricted_areas(problem)]
    return max(candidates, key=lambda bound: bound.value)


def critical_path(problem: Problem) -> Bound:
    """Longest path with every task on its fastest device and no transfers, from the releases."""
    first = min(job.release for job in problem.jobs)
    end, shortest = first, shortest_run_times(problem)
    for j, job in enumerate(problem.jobs):
        best = shortest[problem.offsets[j] : problem.offsets[j + 1]]
        if not len(best):
            continue
        end = max(end, job.release + longest_path(job.graph, best))
    return Bound(end - first, "critical-path")


def shortest_run_times(problem: Problem) -> Floats:
    """The least any schedule spends on every task (num_tasks,): where it runs fastest, within a launch if that saves time."""
    if not problem.saved.size:
        return problem.best_run_times
    launched = problem.least_run_times[:, problem.device_counts > 0].min(axis=1)
    return np.asarray(np.minimum(problem.best_run_times, launched))


def longest_path(graph: TaskGraph, lengths: Floats) -> float:
    """Length of the longest path where task i counts ``lengths[i]``."""
    return float(path_from_start(graph, lengths).max(initial=0.0))


def shortest_job_times(problem: Problem) -> Floats:
    """Critical path of each job (num_jobs,) on the fastest devices, data moved at once."""
    best, at = shortest_run_times(problem), problem.offsets
    return np.array([longest_path(job.graph, best[at[j] : at[j + 1]]) for j, job in enumerate(problem.jobs)])


def slowdowns_of(times: Floats, shortest: Floats) -> Floats:
    """Job times over the shortest possible ones; 1 where a job takes no time."""
    return np.asarray(np.where(shortest > 0, times / np.where(shortest > 0, shortest, 1.0), 1.0), np.float64)


def unfairness_of(slowdowns: Floats) -> float:
    """The 99th percentile of slowdowns over their mean: 1 where all jobs are slowed down alike."""
    return float(np.quantile(slowdowns, 0.99) / slowdowns.mean())


def path_from_start(graph: TaskGraph, lengths: Floats) -> Floats:
    """Longest path that ends with task i, its own length included."""
    if graph.is_conditional:  # only what always runs binds: take the cheapest branch
        return _cheapest_branch(graph, lengths)
    pointer = graph.successor_pointer.tolist()
    targets = graph.targets.tolist()
    own = lengths.tolist()
    reach = own.copy()
    for i in graph.order.tolist():
        here = reach[i]
        for j in targets[pointer[i] : pointer[i + 1]]:
            if here + own[j] > reach[j]:
                reach[j] = here + own[j]
    return np.array(reach, dtype=np.float64)


def _cheapest_branch(graph: TaskGraph, lengths: Floats) -> Floats:
    """Per task, what must follow it at least: the cheapest alternative of every branch group."""
    rest = [0.0] * graph.num_tasks
    pointer = graph.successor_pointer.tolist()
    for i in graph.order[::-1].tolist():
        cheapest: dict[int, float] = {}
        need = 0.0
        for e in range(pointer[i], pointer[i + 1]):
            group, after = int(graph.branch[e]), rest[int(graph.targets[e])]
            if group < 0:
                need = max(need, after)
            else:
                cheapest[group] = min(cheapest.get(group, np.inf), after)
        rest[i] = float(lengths[i]) + max([need, *cheapest.values()])
    entries = np.diff(graph.predecessor_pointer) == 0
    return np.where(entries, np.array(rest, dtype=np.float64), 0.0)


def area(problem: Problem) -> Bound:
    """Least work of all tasks spread over all slots, from the first release."""
    return Bound(
        _spread(problem, np.ones(problem.num_tasks, bool), np.ones(problem.cluster.num_classes, bool)), "area"
    )


def _restricted_areas(problem: Problem, most: int = 256) -> list[Bound]:
    """Area bounds of the tasks that can only run within one set of classes."""
    if problem.cluster.num_classes == 1 or not problem.num_tasks:
        return []
    can = np.isfinite(problem.run_times) & (problem.device_counts > 0)
    sets = np.unique(can, axis=0)
    if len(sets) > most:
        return []
    return [
        Bound(_spread(problem, ~(can & ~chosen).any(axis=1), chosen), "area of restricted tasks")
        for chosen in sets
        if not chosen.all()
    ]


def _spread(problem: Problem, tasks: np.ndarray, classes: np.ndarray) -> float:
    """Work of these tasks over the slots of these classes; conditional jobs count nothing."""
    slots = np.concatenate([job.graph.slots for job in problem.jobs])
    certain = np.concatenate(
        [np.full(job.graph.num_tasks, not job.graph.is_conditional) for job in problem.jobs]
    )
    chosen = tasks & certain
    if not chosen.any():
        return 0.0
    release = np.array([job.release for job in problem.jobs])
    first = release[problem.job_of[chosen]].min() - release.min()
    capacity = (problem.device_counts * problem.cluster.class_column("slots"))[classes].sum()
    batch = problem.cluster.class_column("batch")[classes & (problem.device_counts > 0)].max(initial=1.0)
    work = (shortest_run_times(problem) * slots)[chosen].sum()
    return float(first + work / capacity / batch)
