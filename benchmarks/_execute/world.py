"""Graphs of real Python work on three unequal workers of this machine.

A task compresses data for a tenth of its time, reads what it is handed, returns 0.02 to 1.5 MB and is padded to its
cost on the worker it finds itself on, so that unequal machines can be had on two cores.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

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
_BLOCK = np.random.default_rng(0).bytes(1 << 15)


def work_on(seconds: float, size: int, *inputs: bytes) -> bytes:
    """Really compress and read for a tenth of the time, then wait until it is over."""
    end = time.perf_counter() + seconds
    for data in inputs:
        zlib.crc32(data)
    until = time.perf_counter() + 0.1 * seconds
    while time.perf_counter() < until:
        zlib.compress(_BLOCK, 1)
    time.sleep(max(0.0, end - time.perf_counter()))
    return (_BLOCK * (size // len(_BLOCK) + 1))[:size]


def work_here(costs: Mapping[str, float], size: int, *inputs: bytes) -> bytes:
    """The same for a worker of Dask: what it costs depends on the class that the worker's name begins with."""
    from distributed import get_worker

    name = str(get_worker().name).rsplit("-", 1)[0]
    return work_on(costs[name] * slowness(name), size, *inputs)


_slow: dict[str, tuple[float, float]] = {}


def slowness(name: str) -> float:
    """How much slower a worker is right now, as ``slow_down`` has said on it."""
    since, factor = _slow.get(name, (float("inf"), 1.0))
    return factor if time.time() >= since else 1.0


def slow_down(name: str, at: float, factor: float) -> None:
    """From a moment on, tasks that begin on this worker take longer; runs on the worker."""
    _slow[name] = (at, factor)


@dataclass
class World:
    """One graph and what its tasks cost on each class of worker."""

    graph: TaskGraph
    costs: dict[str, dict[str, float]]
    sizes: dict[str, int]
    model: str
    noise: dict[str, float] = field(default_factory=dict)
    """By how much longer each task takes than anybody knows."""

    def work(self, job: str | int, task: str) -> Work:
        """What a task does."""
        factor = self.noise.get(task, 1.0)
        costs = {name: cost * factor for name, cost in self.costs[task].items()}
        names = self.graph.names
        parents = [Result(names[k]) for k in self.graph.predecessors(self.graph.index[task]).tolist()]
        return Call(work_here, (costs, self.sizes[task], *parents))

    def delayed(self, keys: str) -> object:
        """The same graph as Dask knows it, with a sink that needs all that nobody else needs."""
        import dask

        made: dict[str, object] = {}
        for k in range(self.graph.num_tasks):
            name = self.graph.names[k]
            call = self.work("", name)
            assert isinstance(call, Call)
            parents = [made[self.graph.names[p]] for p in self.graph.predecessors(k).tolist()]
            task = dask.delayed(work_here, name=f"{self.kind(k)}-{keys}-{name}", pure=False)
            made[name] = task(*call.arguments[:2], *parents, dask_key_name=f"{self.kind(k)}-{keys}-{name}")
        sinks = [
            made[self.graph.names[k]]
            for k in range(self.graph.num_tasks)
            if not len(self.graph.successors(k))
        ]
        return dask.delayed(len)(sinks, dask_key_name=f"end-{keys}")

    def kind(self, task: int) -> str:
        """Kind of a task."""
        return self.graph.kinds[int(self.graph.kind[task])]

    def problem(self, cluster: Cluster) -> Problem:
        """What a planner knows."""
        return Problem(self.graph, cluster, Objective(copies=False))


def make_world(model: str, seed: int, *, tasks: int = 60, median: float = 0.6, name: str = "work") -> World:
    """A layered graph; costs are log-normal, edges join neighbouring layers."""
    rng = np.random.default_rng([seed, tasks, list(MODELS).index(model)])
    speeds = MODELS[model]
    builder = GraphBuilder(f"{name}-{model}-{seed}")
    layers: list[list[str]] = [[]]
    costs: dict[str, dict[str, float]] = {}
    sizes: dict[str, int] = {}
    for k in range(tasks):
        if len(layers[-1]) >= rng.integers(3, 12):
            layers.append([])
        task, kind = f"t{k}", KINDS[int(rng.integers(3))]
        cost = float(median * rng.lognormal(0.0, 0.5))
        sizes[task] = int(10 ** rng.uniform(np.log10(2e4), np.log10(1.5e6)))
        before = layers[-2] if len(layers) > 1 else []
        chosen = (
            rng.choice(before, size=min(len(before), int(rng.integers(1, 4))), replace=False)
            if before
            else []
        )
        builder.task(task, cost, kind=kind, after={str(one): float(sizes[str(one)]) for one in chosen})
        costs[task] = {device: cost / speed[kind] for device, speed in speeds.items()}
        layers[-1].append(task)
    return World(builder.build(), costs, sizes, model)


def cluster_of(
    model: str, *, overhead: float = 0.0, bandwidth: float = 4e8, latency: float = 0.003
) -> Cluster:
    """The three workers as a planner knows them."""
    classes = tuple(
        DeviceClass(name, speeds=dict(speeds), overhead=overhead) for name, speeds in MODELS[model].items()
    )
    return Cluster.uniform(classes, (1,) * len(classes), bandwidth=bandwidth, latency=latency, name=model)
