"""Where a run takes place: engines opened by a name such as ``local``, ``dask`` or ``ray://HOST:PORT``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from weft.errors import InputError
from weft.execute.engine import Engine
from weft.execute.folder import RunFolder
from weft.execute.work import Workload
from weft.model.cluster import Cluster, DeviceClass

if TYPE_CHECKING:
    from weft.execute.run import Manner, Task

LOCAL, DASK, RAY = "local", "dask", "ray"
UNEQUAL = (("fast", 4.0), ("medium", 2.0), ("slow", 1.0))
"""Classes and speeds of the workers that a rehearsal without a cluster is given."""


class Backend(Protocol):
    """Machines that are reached and can be given an engine."""

    name: str
    workers: Mapping[str, str]
    """Device -> what runs it: a process, the worker of a cluster."""
    shares_files: bool
    """Whether workers see the files of this machine."""

    def check(self, task: Task) -> None:
        """Refuse tasks that cannot be sent to workers, before anything starts."""

    def engine(self, workload: Workload, folder: RunFolder | None, elapsed: float, manner: Manner) -> Engine:
        """An engine that runs the tasks of a workload."""

    def close(self) -> None:
        """End what was started for the run."""


@dataclass
class LocalBackend:
    """A process per device of a cluster, on this machine."""

    cluster: Cluster
    seconds_per_unit: float
    name: str = LOCAL
    shares_files: bool = True
    workers: Mapping[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    """More settings of the local engine."""

    def check(self, task: Task) -> None:
        """Refuse what cannot be sent; note which files workers must load."""
        from weft.execute.sending import check_sendable

        self.options["files"] = check_sendable(task.workload, _tasks(task))

    def engine(self, workload: Workload, folder: RunFolder | None, elapsed: float, manner: Manner) -> Engine:
        """Processes that are started with the engine."""
        from weft.execute.local import LocalEngine, LocalSettings, devices_of

        settings = LocalSettings(
            folder=None if folder is None else folder.task, timeout=manner.timeout, **self.options
        )
        return LocalEngine(
            devices_of(self.cluster),
            workload,
            settings,
            seconds_per_unit=self.seconds_per_unit,
            elapsed=elapsed,
        )

    def close(self) -> None:
        """Nothing is open: processes end with their engine."""


@dataclass
class ClusterBackend:
    """Workers of a Dask or Ray cluster, one per device."""

    connection: Any
    cluster: Cluster
    seconds_per_unit: float
    name: str
    workers: Mapping[str, str]
    shares_files: bool

    def check(self, task: Task) -> None:
        """Refuse what cannot be sent; code of the user's files travels as code."""
        from weft.execute.sending import check_sendable

        check_sendable(task.workload, _tasks(task), by_value=True)

    def engine(self, workload: Workload, folder: RunFolder | None, elapsed: float, manner: Manner) -> Engine:
        """An engine on the cluster that is connected."""
        devices = [
            (name, one.name, one.slots, self.workers.get(name, name))
            for name, one in _classes_of(self.cluster)
        ]
        made: Engine = _ENGINES[self.name](
            self.connection,
            devices,
            workload,
            seconds_per_unit=self.seconds_per_unit,
            folder=None if folder is None else folder.task,
            elapsed=elapsed,
            timeout=manner.timeout,
        )
        return made

    def close(self) -> None:
        """Leave the cluster, and end it if it was started here."""
        self.connection.close()


def _tasks(task: Task) -> list[tuple[str | int, str]]:
    return [(job.name, name) for job in task.problem.jobs for name in job.graph.names]


def _classes_of(cluster: Cluster) -> list[tuple[str, DeviceClass]]:
    classes = [cluster.classes[c] for c in cluster.device_class.tolist()]
    return list(zip(cluster.device_names, classes, strict=True))


def _dask_engine(connection: Any, devices: Any, workload: Workload, **settings: Any) -> Engine:
    from weft.execute.dask_engine import DaskEngine

    return DaskEngine(connection.client, devices, workload, **settings)


def _ray_engine(connection: Any, devices: Any, workload: Workload, **settings: Any) -> Engine:
    from weft.execute.ray_engine import RayEngine

    return RayEngine(connection, devices, workload, **settings)


_ENGINES = {DASK: _dask_engine, RAY: _ray_engine}


def family(on: str) -> str:
    """Which engine an address asks for: ``local``, ``dask`` or ``ray``."""
    if on == LOCAL:
        return LOCAL
    if on == DASK or on.startswith(("dask://", "dask:", "tcp://", "tls://")) or on.endswith(".json"):
        return DASK
    if on == RAY or on.startswith("ray://"):
        return RAY
    raise InputError(
        f"expected local, dask, dask://HOST:PORT, ray or ray://HOST:PORT, got {on!r:.80}", field="on"
    )


def is_own(on: str) -> bool:
    """Whether workers are started on this machine for the run."""
    return on in (LOCAL, DASK, RAY)


def open_backend(
    on: str, cluster: Cluster, seconds_per_unit: float, workers: Mapping[str, str] | None = None
) -> Backend:
    """Reach the machines of a run, or start them: one worker per device of the cluster."""
    kind = family(on)
    if kind == LOCAL:
        return LocalBackend(cluster, seconds_per_unit)
    rows = _classes_of(cluster)
    connection: Any
    if kind == DASK:
        from weft.execute.dask_connect import LocalWorker, connect

        own = [
            LocalWorker(name, one.slots, None if one.memory == float("inf") else one.memory)
            for name, one in rows
        ]
        connection = connect(on, own if is_own(on) else ())
    else:
        from weft.execute.ray_connect import connect as connect_ray

        connection = connect_ray(on, [(name, one.slots) for name, one in rows] if is_own(on) else ())
    mapping = {name: name for name, _ in rows} if is_own(on) else dict(workers or {})
    backend = ClusterBackend(connection, cluster, seconds_per_unit, kind, mapping, is_own(on))
    try:
        _refuse_unmapped(backend, rows)
    except BaseException:
        backend.close()
        raise
    return backend


def _refuse_unmapped(backend: ClusterBackend, rows: list[tuple[str, DeviceClass]]) -> None:
    for name, _ in rows:
        if name not in backend.workers:
            raise InputError(
                f"no worker for device {name!r}: weft calibrate --on ADDRESS --out FILE writes a cluster file that names them",
                field="cluster",
            )


def this_machine() -> Cluster:
    """The processors of this machine as devices of one slot: each is a process of its own."""
    return Cluster.uniform((DeviceClass("cpu"),), (len(os.sched_getaffinity(0)),), name="this machine")


def three_unequal() -> Cluster:
    """Three workers whose speeds a rehearsal pretends to differ."""
    classes = tuple(DeviceClass(name, speed=speed) for name, speed in UNEQUAL)
    return Cluster.uniform(classes, (1,) * len(classes), bandwidth=5e8, latency=0.001, name="three workers")
