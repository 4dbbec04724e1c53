"""Jobs that arrive while others run: known to the feed, told to the session only when their time has come."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.model.cluster import Cluster
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Problem, run_times_on
from weft.session.messages import Name


@dataclass(frozen=True, eq=False)
class Arrival:
    """A job and when it arrives."""

    time: float
    job: Name
    what: Job
    is_known: bool = False
    """Whether the session knows the job and its graph beforehand."""

    @property
    def graph(self) -> TaskGraph:
        """Its tasks."""
        return self.what.graph


class Feed:
    """Arrivals in the order of their times."""

    def __init__(self, arrivals: Iterable[Arrival]) -> None:
        self._coming = sorted(arrivals, key=lambda one: one.time)[::-1]

    @property
    def is_empty(self) -> bool:
        """Whether no more jobs will come."""
        return not self._coming

    @property
    def next_time(self) -> float | None:
        """When the next job arrives; None: never."""
        return self._coming[-1].time if self._coming else None

    def pop(self) -> Arrival:
        """The next job."""
        return self._coming.pop()

    def take_named(self, jobs: Container[Name]) -> list[Arrival]:
        """Jobs that have arrived before, in a run that goes on."""
        found = [one for one in self._coming if one.job in jobs]
        self._coming = [one for one in self._coming if one.job not in jobs]
        return found[::-1]


def feed_of(problem: Problem) -> Feed:
    """The jobs of a problem, at their releases."""
    return Feed(Arrival(job.release, job.name, job) for job in problem.jobs)


def limits_of(arrival: Arrival, cluster: Cluster) -> dict[str, Any]:
    """What keeps tasks from devices, as the history says it: ``slots`` beyond one each, and devices ``on`` which alone."""
    graph, found = arrival.graph, dict[str, Any]()
    if (graph.slots != 1).any():
        found["slots"] = {graph.names[k]: int(graph.slots[k]) for k in np.flatnonzero(graph.slots != 1)}
    allowed = allowed_of(arrival, cluster)
    if limited := {task: names for task, names in allowed.items() if len(names) < cluster.num_devices}:
        found["on"] = limited
    return found


def allowed_of(arrival: Arrival, cluster: Cluster) -> dict[str, list[str]]:
    """Devices that can run each task of a job and that the job may use."""
    graph = arrival.graph
    allowed = np.isfinite(run_times_on(graph, cluster))[:, cluster.device_class]  # (num_tasks, num_devices)
    if (eligible := arrival.what.eligible) is not None:
        allowed &= [is_named(cluster, device, eligible) for device in range(cluster.num_devices)]
    names = cluster.device_names
    if allowed.all():
        return {task: list(names) for task in graph.names}
    return {task: [names[d] for d in np.flatnonzero(allowed[k])] for k, task in enumerate(graph.names)}


def is_named(cluster: Cluster, device: int, eligible: tuple[str, ...]) -> bool:
    """Whether a device is among those that a job names, by its own name or that of its class."""
    name = cluster.classes[int(cluster.device_class[device])].name
    return cluster.device_names[device] in eligible or name in eligible
