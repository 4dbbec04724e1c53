"""Workers of a Dask cluster, to be measured."""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Callable
from typing import Any

from weft.errors import InputError
from weft.execute.dask_connect import connect, distributed
from weft.execute.probes import NAP, TRIES, Span, WorkerInfo, blob, length, nap, timed

PATIENCE = 60.0
"""Seconds until a worker must answer."""


class DaskProbe:
    """Measures through a client; tasks are pinned to the worker that is asked."""

    name = "dask"
    is_uniform = False

    def __init__(self, client: Any, cluster: Any = None) -> None:
        self._client, self._cluster = client, cluster
        self._number = itertools.count()
        self._is_ours = False

    @classmethod
    def at(cls, on: str, workers: int | None = None) -> DaskProbe:
        """Reach the scheduler at an address, or start workers on this machine (``dask``)."""
        if on == "dask":
            package = distributed()
            cluster = package.LocalCluster(
                n_workers=workers or len(os.sched_getaffinity(0)),
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",  # any port that is free
                silence_logs=logging.ERROR,
            )
            probe = cls(package.Client(cluster, set_as_default=False), cluster)
        else:
            probe = cls(connect(on).client)
        probe._is_ours = True
        return probe

    def workers(self) -> list[WorkerInfo]:
        """By name, or by address where a worker was given none."""
        found = self._client.scheduler_info(n_workers=-1)["workers"]
        made = [
            WorkerInfo(
                str(info["name"]),
                address,
                int(info["nthreads"]),
                float(info.get("memory_limit") or 0) or float("inf"),
                dict(info.get("resources") or {}),
                str(info.get("host", "")),
            )
            for address, info in found.items()
        ]
        return sorted(made, key=lambda one: (len(one.name), one.name))

    def run(self, worker: WorkerInfo, function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
        """Call a function on the worker."""
        answer: tuple[Any, float] = self._get(self._submit(worker, timed, function, *arguments), worker)
        return answer

    def burst(self, worker: WorkerInfo, count: int) -> list[Span]:
        """Naps that are submitted at once."""
        futures = [self._submit(worker, nap, NAP, i) for i in range(count)]
        return [self._get(future, worker) for future in futures]

    def send(self, source: WorkerInfo, target: WorkerInfo, num_bytes: int) -> float:
        """A task whose input is elsewhere, less the same once its input is there."""
        away, there = [], []
        for _ in range(TRIES):
            data = self._submit(source, blob, num_bytes, next(self._number))
            self._get(self._submit(source, length, data), source)
            away.append(self._wall(target, data))
            there.append(self._wall(target, data))
        return max(0.0, min(away) - min(there))

    def close(self) -> None:
        """End what was started here."""
        if self._is_ours:
            self._client.close()
        if self._cluster is not None:
            self._cluster.close()

    def _wall(self, worker: WorkerInfo, data: Any) -> float:
        start = time.perf_counter()
        self._get(self._submit(worker, length, data, next(self._number)), worker)
        return time.perf_counter() - start

    def _submit(self, worker: WorkerInfo, function: Callable[..., Any], *arguments: Any) -> Any:
        key = f"weft-probe-{os.getpid()}-{next(self._number)}"
        return self._client.submit(function, *arguments, key=key, workers=[worker.address], pure=False)

    def _get(self, future: Any, worker: WorkerInfo) -> Any:
        try:
            return future.result(timeout=PATIENCE)
        except TimeoutError:
            raise InputError(
                f"worker {worker.name} does not answer within {PATIENCE:g} s", field="on"
            ) from None
        except Exception as error:  # whatever a function of the user's, or a worker without weft, raises
            said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise InputError(f"a probe failed on worker {worker.name}: {said}", field="on") from None
