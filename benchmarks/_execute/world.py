"""Graphs of real Python work on three unequal workers of this machine.

A task compresses data for a tenth of its time, reads what it is handed, returns 0.02 to 1.5 MB and is padded to its
cost on the worker it finds itself on, so that unequal machines can be had on two cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks._execute.tasks import work_here
from weft.execute.work import Call, Result, Work
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Objective, Problem

KINDS = ("cpu", "gpu", "io")
RELATED: Mapping[str, Mapping[str, float]] = {
    "fast": dict.fromkeys(KINDS, 4.0),
    "medium": dict.fromkeys(KINDS, 2.0),
    "slow": dict.fromkeys(KINDS, 1.0),
}
AFFINITY: Mapping[str, Mapping[str, float]] = {
    "number": {"cpu": 4.0, "gpu": 1.0, "io": 1.0},
    "tensor": {"cpu": 1.0, "gpu": 4.0, "io": 1.0},
    "disk": {"cpu": 1.0, "gpu": 1.0, "io": 4.0},
}
MODELS = {"related": RELATED, "affinity": AFFINITY}
END, END_COST, END_SIZE = "end", 0.004, 100
"""The task that needs whatever nobody else needs: its result is that of the graph."""


@dataclass(frozen=True)
class World:
    """One graph and what its tasks cost on each class of worker."""

    graph: TaskGraph
    costs: Mapping[str, Mapping[str, float]]
    sizes: Mapping[str, int]
    model: str
    noise: Mapping[str, float] = field(default_factory=dict)
    """By how much longer each task takes than anybody knows."""

    def work(self, job: str | int, task: str) -> Work:
        """What a task does."""
        parents = [Result(name) for name in self.parents(task)]
        return Call(work_here, (self._costs(task), self.sizes[task], *parents))

    def parents(self, task: str) -> list[str]:
        """What a task needs."""
        names = self.graph.names
        return [names[k] for k in self.graph.predecessors(self.graph.index[task]).tolist()]

    def _costs(self, task: str) -> dict[str, float]:
        factor = self.noise.get(task, 1.0)
        return {name: cost * factor for name, cost in self.costs[task].items()}

    def delayed(self, run: str, *, has_own_prefixes: bool = False) -> Any:
        """The same graph for Dask; keys begin with the kind of the task, or with a prefix for each task."""
        import dask

        made: dict[str, Any] = {}
        for k, name in enumerate(self.graph.names):
            kind = self.graph.kinds[int(self.graph.kind[k])]
            key = f"{kind}{name}{run}-0" if has_own_prefixes else f"{kind}-0{name}-{run}"
            task = dask.delayed(work_here, name=f"{key}-function", pure=False)
            parents = [made[parent] for parent in self.parents(name)]
            made[name] = task(self._costs(name), self.sizes[name], *parents, dask_key_name=key)
        return made[END]

    def hints(self, run: str) -> dict[str, float]:
        """For Dask: the mean over workers of what each task takes, by its own prefix."""
        kinds, kind = self.graph.kinds, self.graph.kind.tolist()
        return {
            f"{kinds[kind[k]]}{name}{run}": float(np.mean(list(self.costs[name].values())))
            for k, name in enumerate(self.graph.names)
        }

    def problem(self, cluster: Cluster) -> Problem:
        """What a planner knows."""
        return Problem(self.graph, cluster, Objective(copies=False))

    def blank(self) -> World:
        """The same tasks, of which nobody knows how long they take."""
        return replace(self, graph=self.graph.replaced(work=np.ones(self.graph.num_tasks)))

    def noisy(self, seed: int, share: float) -> World:
        """With run times that are off by up to a share, either way, unknown to all."""
        rng = np.random.default_rng([seed, 17])
        return replace(
            self, noise={name: float(rng.uniform(1 - share, 1 + share)) for name in self.graph.names}
        )


@dataclass(frozen=True)
class Shape:
    """What graphs look like."""

    tasks: int = 60
    median: float = 0.6
    """Of the costs at speed 1, in seconds."""
    spread: float = 0.5
    """Of their logarithms."""
    is_by_kind: bool = False
    """Whether kinds of tasks differ in cost, and tasks of a kind only by the spread."""


def make_world(model: str, seed: int, shape: Shape | None = None, *, name: str = "work") -> World:
    """A layered graph; costs are log-normal, edges join neighbouring layers, one task at the end needs all that is left."""
    shape = shape or Shape()
    rng = np.random.default_rng([seed, shape.tasks, list(MODELS).index(model)])
    speeds = MODELS[model]
    typical = {kind: shape.median * rng.lognormal(0.0, 0.5 * shape.is_by_kind) for kind in KINDS}
    builder = GraphBuilder(f"{name}-{model}-{seed}")
    layers: list[list[str]] = [[]]
    costs: dict[str, dict[str, float]] = {}
    sizes: dict[str, int] = {}
    is_needed: set[str] = set()
    for k in range(shape.tasks):
        if len(layers[-1]) >= rng.integers(3, 12):
            layers.append([])
        task, kind = f"t{k}", KINDS[int(rng.integers(3))]
        cost = float(typical[kind] * rng.lognormal(0.0, shape.spread))
        sizes[task] = int(10 ** rng.uniform(np.log10(2e4), np.log10(1.5e6)))
        before = layers[-2] if len(layers) > 1 else []
        chosen = (
            rng.choice(before, size=min(len(before), int(rng.integers(1, 4))), replace=False)
            if before
            else []
        )
        builder.task(task, cost, kind=kind, after={str(one): float(sizes[str(one)]) for one in chosen})
        costs[task] = {device: cost / speed[kind] for device, speed in speeds.items()}
        is_needed |= {str(one) for one in chosen}
        layers[-1].append(task)
    left = {task: float(size) for task, size in sizes.items() if task not in is_needed}
    builder.task(END, END_COST, kind=KINDS[0], after=left)
    costs[END] = {device: END_COST / speed[KINDS[0]] for device, speed in speeds.items()}
    return World(builder.build(), costs, {**sizes, END: END_SIZE}, model)


@dataclass(frozen=True)
class Links:
    """What lies between tasks and workers, in seconds and bytes per second."""

    gap: float = 0.004
    """From the end of a task to the start of the next."""
    latency: float = 0.005
    bandwidth: float = 4e8


def cluster_of(model: str, links: Links | None = None, *, is_blank: bool = False) -> Cluster:
    """The three workers as a planner knows them; ``is_blank``: nobody knows that they differ."""
    links = links or Links()
    classes = tuple(
        DeviceClass(
            name, 1.0 if is_blank else None, speeds={} if is_blank else dict(speeds), overhead=links.gap
        )
        for name, speeds in MODELS[model].items()
    )
    counts = (1,) * len(classes)
    return Cluster.uniform(classes, counts, bandwidth=links.bandwidth, latency=links.latency, name=model)
