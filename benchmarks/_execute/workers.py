"""Three unequal workers that Dask's own scheduling and weft take turns on."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from benchmarks._execute.tasks import slow_down
from benchmarks._execute.world import Links, World, cluster_of
from weft.execute.backends import DASK, Backend, ClusterBackend, open_backend
from weft.execute.dask_connect import Connection
from weft.execute.feed import feed_of
from weft.execute.run import Manner, Run, Task, carry_out
from weft.execute.scheduling import Wanted
from weft.execute.work import Workload
from weft.model.cluster import Cluster
from weft.model.history_oracle import check_history
from weft.model.problem import Problem

AUTO_BUDGET = 0.3
"""Seconds that ``auto`` may search; they count as time of the run."""
STRICT = Manner(Wanted("heft", is_strict=True), watches=False)
"""The plan as it is, whatever happens."""


@dataclass(frozen=True, eq=False)
class Workers:
    """Workers of one of the models, on Dask or Ray."""

    model: str
    backend: Backend
    links: Links

    @property
    def client(self) -> Any:
        """Of Dask."""
        return self.backend.connection.client  # type: ignore[attr-defined]

    @property
    def cluster(self) -> Cluster:
        """As a planner knows them."""
        return cluster_of(self.model, self.links)

    # -- weft --------------------------------------------------------------------------------------

    def run(
        self, problem: Problem, workload: Workload, manner: Manner, *, is_stream: bool = False
    ) -> Outcome:
        """Have weft carry a problem out; the time counts from handing it over to being done."""
        began = time.perf_counter()
        task = Task(problem, feed_of(problem), workload, "benchmark", is_stream)
        done = carry_out(task, self.backend, manner, None)
        return Outcome(done, time.perf_counter() - began)

    def run_world(self, world: World, manner: Manner, cluster: Cluster | None = None) -> Outcome:
        """The same for a graph."""
        return self.run(world.problem(cluster or self.cluster), world, manner)

    def compute(self, world: World, run: str, scheduler: str, *, has_own_prefixes: bool = False) -> float:
        """The stand-in for ``dask.compute``: seconds."""
        import weft.execute.dask as drop_in

        graph = world.delayed(run, has_own_prefixes=has_own_prefixes)
        began = time.perf_counter()
        budget = AUTO_BUDGET if scheduler == "auto" else None
        drop_in.compute(graph, client=self.client, scheduler=scheduler, cluster=self.cluster, budget=budget)
        return time.perf_counter() - began

    # -- Dask itself -------------------------------------------------------------------------------

    def own(self, world: World, run: str, *, has_hints: bool = False) -> float:
        """Dask's own scheduling, stealing and all: seconds."""
        import dask

        self.refuse_without_stealing()
        hints = world.hints(run) if has_hints else {}
        graph = world.delayed(run, has_own_prefixes=has_hints)
        with dask.config.set({"distributed.scheduler.default-task-durations": hints}):
            began = time.perf_counter()
            dask.compute(graph, scheduler=self.client)
            return time.perf_counter() - began

    def refuse_without_stealing(self) -> None:
        """Dask is measured as it comes."""
        until = time.monotonic() + 5.0
        while not self.client.run_on_scheduler(_steals):
            if time.monotonic() > until:
                raise SystemExit("Dask's stealing is off")
            time.sleep(0.05)

    # -- what happens to workers -------------------------------------------------------------------

    def slow(self, device: str, at: float, factor: float) -> None:
        """From a moment of ``time.time()`` on, tasks that start on a worker of Dask take longer."""
        self.client.run(slow_down, device.rsplit("-", 1)[0], at, factor)

    def measured(self, seconds: float = 6.0) -> Workers:
        """The same workers with what short probes say about gaps and links."""
        from weft.execute.calibrate import calibrate

        found = calibrate(self._probe(), seconds=seconds)
        latency = median([one.latency for one in found.links] or [0.0])  # one node has no links
        bandwidth = median([min(one.bandwidth, 1e10) for one in found.links] or [Links().bandwidth])
        links = Links(found.dispatch_gap, latency, bandwidth)
        print(
            f"calibrated on {self.backend.name}: gap {1e3 * links.gap:.1f} ms, latency {1e3 * latency:.1f} ms, "
            f"{bandwidth / 1e6:.0f} MB/s, first task {1e3 * found.first_task:.1f} ms",
            flush=True,
        )
        return replace(self, links=links)

    def _probe(self) -> Any:
        if self.backend.name == DASK:
            from weft.execute.probes_dask import DaskProbe

            return DaskProbe(self.client)
        from weft.execute.probes_ray import RayProbe

        return RayProbe.at("ray")


def _steals(dask_scheduler: Any = None) -> bool:
    return "stealing" in dask_scheduler.periodic_callbacks


@dataclass(frozen=True)
class Outcome:
    """A run of weft's and what it took in all."""

    run: Run
    wall: float

    @property
    def figures(self) -> dict[str, Any]:
        """What is written down of it."""
        rows = self.run.rows
        if not self.run.ok:
            raise SystemExit(f"a run has failed: {self.run.reason}")
        plans = [row["reason"] for row in rows if row["event"] == "planned"]
        found: dict[str, Any] = {"seconds": self.wall, "actual": self.run.actual}
        if self.run.planned is not None:
            found["planned"] = self.run.planned
        faults = [str(one) for one in check_history(rows)]
        return {
            **found,
            "plans": len(plans),
            "faults": len(faults),
            **({"fault": faults[0]} if faults else {}),
        }


def heft(**more: Any) -> Manner:
    """HEFT's plan, made again when something is late."""
    return Manner(Wanted("heft", **more))


def auto() -> Manner:
    """The plan of ``auto``."""
    return Manner(Wanted("auto", budget=AUTO_BUDGET))


def live(name: str) -> Manner:
    """A dispatcher that decides at events."""
    return Manner(Wanted(name, is_live=True))


@contextmanager
def workers_on(on: str, model: str) -> Iterator[Workers]:
    """Three worker processes; what was started is ended."""
    cluster = cluster_of(model)
    backend = _dask(cluster) if on == DASK else open_backend(on, cluster, 1.0)
    try:
        yield Workers(model, backend, Links())
    finally:
        backend.close()


def _dask(cluster: Cluster) -> ClusterBackend:
    """Workers of one thread each on a cluster as Dask comes, where stealing is on until weft turns it off."""
    import distributed

    options = {
        "host": "127.0.0.1",
        "dashboard": False,
        "silence_logs": logging.ERROR,
        "nthreads": 1,
        "memory_limit": 0,
    }
    started = distributed.SpecCluster(
        workers={
            name: {"cls": distributed.Nanny, "options": {**options, "name": name}}
            for name in cluster.device_names
        },
        scheduler={
            "cls": distributed.Scheduler,
            "options": {
                "host": "127.0.0.1",
                "port": 0,
                "dashboard": False,
                "dashboard_address": "127.0.0.1:0",
            },
        },
        silence_logs=logging.ERROR,
    )
    client = distributed.Client(started, set_as_default=False)
    client.wait_for_workers(cluster.num_devices, timeout=120)
    names = {name: name for name in cluster.device_names}
    return ClusterBackend(Connection(client, DASK, started), cluster, 1.0, DASK, names, True)


def warm_up(workers: Workers, world: World, managers: Mapping[str, Manner]) -> None:
    """Run something small once each way, so that nothing is loaded or compiled while it counts."""
    for manner in managers.values():
        workers.run_world(world, manner)


def cpu_seconds(pid: int | None = None) -> float:
    """CPU time of a process and all its threads."""
    if pid is None or pid == os.getpid():
        return time.process_time()
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
