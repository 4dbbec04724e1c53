"""What a cluster can do with tasks: which class can run which, and what some task cannot get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weft.errors import InfeasibleError
from weft.io.kind_names import UnknownKind, unknown_kinds
from weft.model.cluster import INFINITE, Cluster
from weft.model.graph import Bools, Floats, Ints, TaskGraph
from weft.model.problem import Job, Problem, run_times_on


@dataclass(frozen=True)
class ClassFit:
    """A device class, and how many tasks it can run."""

    name: str
    devices: int
    tasks: int


@dataclass(frozen=True)
class Lack:
    """Tasks that need more of something than any device has."""

    what: str
    """``slots``, ``memory`` (bytes) or the name of a resource."""
    tasks: int
    task: str
    """The one that needs most."""
    needs: float
    most: float
    """What the best device has."""


@dataclass(frozen=True)
class Fit:
    """What a cluster can do with the tasks."""

    cluster: str
    devices: int
    classes: tuple[ClassFit, ...]
    no_class: int
    one_class: int
    ccr: float | None
    """Mean transfer time over mean run time; None where some task cannot run."""
    fastest_path: float | None
    """Critical path with every task on its fastest device and no transfers; None as above."""
    lacks: tuple[Lack, ...]
    unknown_kinds: tuple[UnknownKind, ...]


@dataclass(frozen=True)
class Machines:
    """A cluster with the run times of all tasks on it, which may be none on any class."""

    cluster: Cluster
    run_times: Floats  # (num_tasks, num_classes) infinity where a task cannot run
    problem: Problem | None
    """None where some task cannot run."""

    @cached_property
    def can(self) -> Bools:
        """Which task can run on which class; (num_tasks, num_classes)."""
        return np.isfinite(self.run_times)

    @cached_property
    def options(self) -> Ints:
        """How many classes can run each task."""
        return self.can.sum(axis=1)

    def mean_times(self, group: Ints, num: int) -> list[dict[str, float | None]]:
        """Per group of tasks: class to the mean run time of those that can run there."""
        found: list[dict[str, float | None]] = [{} for _ in range(num)]
        for c, one in enumerate(self.cluster.classes):
            able = self.can[:, c]
            counts = np.bincount(group[able], minlength=num).tolist()
            sums = np.bincount(group[able], self.run_times[able, c], minlength=num).tolist()
            for k in range(num):
                found[k][one.name] = sums[k] / counts[k] if counts[k] else None
        return found


def machines_of(jobs: tuple[Job, ...], cluster: Cluster) -> Machines:
    """The cluster as all tasks of the jobs see it, given which devices each job may use."""
    run_times = np.concatenate([run_times_on(job.graph, cluster) for job in jobs])
    usable = np.concatenate([np.tile(_usable(job, cluster), (job.graph.num_tasks, 1)) for job in jobs])
    try:
        problem = Problem(jobs, cluster)
    except InfeasibleError:
        problem = None
    return Machines(cluster, np.where(usable, run_times, INFINITE), problem)


def _usable(job: Job, cluster: Cluster) -> Bools:
    """The classes of which a job may use some device; (num_classes,)."""
    counts = np.bincount(cluster.device_class, minlength=cluster.num_classes)
    if job.eligible is None:
        return counts > 0
    names = [cluster.device_index[name] for name in job.eligible if name in cluster.device_index]
    listed = np.array([one.name in job.eligible for one in cluster.classes])
    listed[cluster.device_class[names]] = True
    return listed & (counts > 0)


def fit(jobs: Sequence[Job], names: Sequence[str], machines: Machines, fastest: float | None) -> Fit:
    """What the machines can do with the tasks of these names; ``fastest`` is their critical path at best."""
    cluster, graphs = machines.cluster, [job.graph for job in jobs]
    counts = np.bincount(cluster.device_class, minlength=cluster.num_classes).tolist()
    able = machines.can.sum(axis=0).tolist()
    return Fit(
        cluster=cluster.name,
        devices=cluster.num_devices,
        classes=tuple(ClassFit(one.name, counts[c], able[c]) for c, one in enumerate(cluster.classes)),
        no_class=int((machines.options == 0).sum()),
        one_class=int((machines.options == 1).sum()),
        ccr=None if machines.problem is None else machines.problem.ccr,
        fastest_path=fastest,
        lacks=_lacks(graphs, names, cluster),
        unknown_kinds=unknown_kinds(cluster, graphs),
    )


def _lacks(graphs: Sequence[TaskGraph], names: Sequence[str], cluster: Cluster) -> tuple[Lack, ...]:
    """Slots, memory and resources of which some task needs more than any device has."""
    present = [cluster.classes[c] for c in np.unique(cluster.device_class).tolist()]
    most: dict[str, float] = {
        "slots": max(one.slots for one in present),
        "memory": max(one.memory for one in present),
    }
    for resource in dict.fromkeys(name for graph in graphs for name in graph.resources):
        most[resource] = max(one.capacity.get(resource, INFINITE) for one in present)
    needs = {what: np.concatenate([_needs(graph, what) for graph in graphs]) for what in most}
    return tuple(
        Lack(what, int((need > most[what]).sum()), names[int(need.argmax())], float(need.max()), most[what])
        for what, need in needs.items()
        if need.max(initial=0.0) > most[what]
    )


def _needs(graph: TaskGraph, what: str) -> Floats:
    """What every task holds of slots, memory or a resource."""
    if what in graph.resources:
        return graph.demands[:, graph.resources.index(what)]
    columns: Mapping[str, Floats] = {"slots": graph.slots.astype(np.float64), "memory": graph.memory}
    return columns.get(what, np.zeros(graph.num_tasks))
