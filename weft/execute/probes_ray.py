"""Nodes of a Ray cluster, to be measured: an actor on each does what it is told."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from typing import Any

from weft.errors import InputError
from weft.execute.probes import NAP, TRIES, Span, WorkerInfo, blob, length, nap, timed
from weft.execute.ray_connect import OWN, Connection, connect, ray_package

PATIENCE = 60.0
"""Seconds until a node must answer."""
_OWN = ("CPU", "memory", "object_store_memory")
"""Resources of a node that are no resources in weft's sense."""


class RayProbe:
    """A node is a worker with as many slots as it has processors."""

    name = "ray"
    is_uniform = False

    def __init__(self) -> None:
        self._ray = ray_package()
        self._actors: dict[str, Any] = {}
        self._ids: dict[str, str] = {}
        self._number = itertools.count()
        self._connection: Connection | None = None

    @classmethod
    def at(cls, on: str, workers: int | None = None) -> RayProbe:
        """Join the cluster at an address, the one this process is in, or start one on this machine (``ray``)."""
        probe = cls()
        own = [("this machine", workers or len(os.sched_getaffinity(0)))] if on == OWN else []
        probe._connection = connect(on, own)
        return probe

    def workers(self) -> list[WorkerInfo]:
        """Nodes that are alive and have processors, by the name they were given, or by id where several share it."""
        nodes = [node for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        names = [node["NodeName"] for node in nodes]
        self._ids = {}
        for node in nodes:
            has_own_name = names.count(node["NodeName"]) == 1
            self._ids[node["NodeName"] if has_own_name else node["NodeID"]] = node["NodeID"]
        return [
            WorkerInfo(
                name,
                node["NodeManagerAddress"],
                int(node["Resources"]["CPU"]),
                float(node["Resources"].get("memory", "inf")),
                {
                    name: float(amount)
                    for name, amount in node["Resources"].items()
                    if name not in _OWN and not name.startswith(("node:", "accelerator_type:"))
                },
                node["NodeManagerHostname"],
            )
            for name, node in zip(self._ids, nodes, strict=True)
        ]

    def run(self, worker: WorkerInfo, function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
        """Call a function on the node."""
        answer: tuple[Any, float] = self._get(self._actor(worker).call.remote(timed, function, *arguments))
        return answer

    def burst(self, worker: WorkerInfo, count: int) -> list[Span]:
        """Naps that are handed to the actor at once; they run one after another, on one slot."""
        actor = self._actor(worker)
        each = max(1, count // worker.slots)
        spans: list[Span] = self._get([actor.call.remote(nap, NAP, i) for i in range(each)])
        return spans * worker.slots

    def send(self, source: WorkerInfo, target: WorkerInfo, num_bytes: int) -> float:
        """A task whose input is elsewhere, less the same once its input is there."""
        away, there = [], []
        for _ in range(TRIES):
            data = self._actor(source).call.remote(blob, num_bytes, next(self._number))
            self._ray.wait([data], fetch_local=False, timeout=PATIENCE)
            away.append(self._wall(target, data))
            there.append(self._wall(target, data))
        return max(0.0, min(away) - min(there))

    def close(self) -> None:
        """End the actors, and Ray where it was started or joined here."""
        for actor in self._actors.values():
            self._ray.kill(actor)
        self._actors = {}
        if self._connection is not None:
            self._connection.close()

    def _wall(self, worker: WorkerInfo, data: Any) -> float:
        start = time.perf_counter()
        self._get(self._actor(worker).call.remote(length, data, next(self._number)))
        return time.perf_counter() - start

    def _actor(self, worker: WorkerInfo) -> Any:
        if worker.name not in self._actors:
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            here = NodeAffinitySchedulingStrategy(self._ids[worker.name], soft=False)
            remote = self._ray.remote(_Caller)
            self._actors[worker.name] = remote.options(num_cpus=0, scheduling_strategy=here).remote()
        return self._actors[worker.name]

    def _get(self, references: Any) -> Any:
        try:
            return self._ray.get(references, timeout=PATIENCE)
        except self._ray.exceptions.GetTimeoutError:
            raise InputError(f"a node does not answer within {PATIENCE:g} s", field="on") from None
        except self._ray.exceptions.RayError as error:
            said = (str(error).strip().splitlines() or [""])[-1][:200]
            raise InputError(f"a probe failed on a node: {said}", field="on") from None


class _Caller:
    """What runs on a node."""

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)
