"""Reaching Dask: a cluster of this machine's own, or one that runs somewhere; who works there."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from weft.errors import InputError, MissingExtra

PATIENCE = 5.0
"""Seconds until a scheduler must answer and have a worker."""
_SCHEMES = ("tcp://", "tls://", "ws://", "wss://", "ucx://")


@dataclass(frozen=True)
class LocalWorker:
    """A worker process to start on this machine."""

    name: str
    threads: int = 1
    memory: float | None = None
    """Bytes; None: no limit."""
    resources: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class DaskWorker:
    """A worker of a cluster that runs."""

    name: str
    """As Dask knows it; its address if it was given no name."""
    address: str
    threads: int
    memory: float
    """Bytes; 0: no limit."""
    resources: Mapping[str, float]
    host: str


@dataclass
class Connection:
    """A client, and the cluster that was started for it, if any; closes both."""

    client: Any
    on: str
    cluster: Any = None
    settings: Any = None
    """Settings of Dask that hold as long as the cluster runs."""

    def close(self) -> None:
        """Leave a cluster of others as it is; end what was started here."""
        self.client.close()
        if self.cluster is not None:
            self.cluster.close()
        if self.settings is not None:
            self.settings.__exit__(None, None, None)
            self.settings = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(
    on: str, workers: Sequence[LocalWorker] = (), *, check: bool = True, patience: float = PATIENCE
) -> Connection:
    """Reach or start a cluster.

    Parameters
    ----------
    on
        ``dask``: worker processes of this machine; ``dask://HOST:PORT`` or an address as Dask writes it; or the
        scheduler file that a cluster wrote (``.json``, also as ``dask:FILE.json``).
    workers
        What to start; three workers of one thread unless given. Only with ``dask``.
    check
        Whether to make sure that workers run the same versions, and have weft.
    """
    if not isinstance(on, str):
        raise InputError(f"expected a text, got {type(on).__name__}", field="on")
    if on == "dask":
        return _start(workers or [LocalWorker(f"worker-{i}") for i in range(3)])
    if workers:
        raise InputError("expected no workers to start: the cluster is there already", field="workers")
    connection = _reach(on, patience)
    try:
        _refuse_empty(connection, patience)
        if check:
            refuse_versions(connection.client)
    except BaseException:
        connection.close()
        raise
    return connection


def workers_of(client: Any) -> list[DaskWorker]:
    """Workers of a cluster, by name."""
    return workers_in(client.scheduler_info(n_workers=-1))


def workers_in(identity: Mapping[str, Any]) -> list[DaskWorker]:
    """Workers in what a scheduler says about itself, by name."""
    found = [
        DaskWorker(
            str(info["name"]),
            address,
            int(info["nthreads"]),
            float(info.get("memory_limit") or 0),
            dict(info.get("resources") or {}),
            str(info.get("host", "")),
        )
        for address, info in identity["workers"].items()
    ]
    return sorted(found, key=lambda worker: (len(worker.name), worker.name))


def refuse_versions(client: Any) -> None:
    """Refuse workers without weft, or with another Python, Dask or weft than here."""
    expected = _versions()()
    for address, found in client.run(_versions(), on_error="return").items():
        if isinstance(found, Exception):
            raise InputError(f"the worker at {address} does not answer: {found}", field="on")
        for package, version in expected.items():
            if found[package] is None:
                raise InputError(
                    f"the worker at {address} cannot import {package}: install it there", field="on"
                )
            if found[package] != version:
                raise InputError(
                    f"the worker at {address} has {package} {found[package]}, here it is {version}",
                    field="on",
                )


def distributed() -> Any:
    """The package, or one line that says how to get it."""
    try:
        import distributed as package
    except ImportError:
        raise MissingExtra("distributed", "dask", "running on Dask") from None
    return package


def _versions() -> Callable[[], dict[str, str | None]]:
    """What is asked of workers that may have no weft: an inner function travels as a whole."""

    def versions() -> dict[str, str | None]:
        import importlib
        import sys

        found: dict[str, str | None] = {"python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
        for package in ("dask", "distributed", "weft"):
            try:
                found[package] = str(importlib.import_module(package).__version__)
            except ImportError:
                found[package] = None
        return found

    return versions


def _start(workers: Sequence[LocalWorker]) -> Connection:
    names = [worker.name for worker in workers]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two workers are called {name!r}", field="workers")
    package = distributed()
    import dask

    # What Dask moves behind a plan's back is never wanted. A cluster gives a dead worker up after 15 s otherwise, though
    # on a busy machine its nanny takes longer to start another; that is looked up when the worker dies.
    settings = dask.config.set(
        {"distributed.scheduler.work-stealing": False, "distributed.deploy.lost-worker-timeout": "24h"}
    )
    try:
        cluster = package.SpecCluster(
            workers={worker.name: _worker_options(package, worker) for worker in workers},
            scheduler={
                "cls": package.Scheduler,
                # The port is taken even where nothing is shown: 0 is one that is free.
                "options": {
                    "host": "127.0.0.1",
                    "port": 0,
                    "dashboard": False,
                    "dashboard_address": "127.0.0.1:0",
                },
            },
            silence_logs=logging.ERROR,
        )
    except BaseException:
        settings.__exit__(None, None, None)
        raise
    client = package.Client(cluster, set_as_default=False)
    client.wait_for_workers(len(workers), timeout=60)
    return Connection(client, "dask", cluster, settings)


def _worker_options(package: Any, worker: LocalWorker) -> dict[str, Any]:
    return {
        "cls": package.Nanny,
        "options": {
            "host": "127.0.0.1",
            "dashboard": False,
            "silence_logs": logging.ERROR,
            "preload": ["weft.execute.dask_quiet"],
            "name": worker.name,
            "nthreads": worker.threads,
            "memory_limit": worker.memory or 0,
            "resources": dict(worker.resources),
        },
    }


def _reach(on: str, patience: float) -> Connection:
    package = distributed()
    where: dict[str, str] = {}
    if on.endswith(".json"):
        file = on.removeprefix("dask:")
        if not Path(file).is_file():
            raise InputError("no such scheduler file", file=file)
        where = {"scheduler_file": file}
    elif on.startswith("dask://") and on.rstrip("/").rpartition(":")[2].isdigit():
        where = {"address": "tcp://" + on.removeprefix("dask://").rstrip("/")}
    elif on.startswith(_SCHEMES):
        where = {"address": on}
    else:
        raise InputError(
            f"expected dask, dask://HOST:PORT, an address of Dask or a scheduler file, got {on!r:.80}",
            field="on",
        )
    logger = logging.getLogger("distributed")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # it would write a page about each try
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other versions are refused below, in one line
            client = package.Client(**where, timeout=patience, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        said = " ".join(str(error).split())[:120]
        raise InputError(
            f"no Dask scheduler answers at {on} within {patience:g} s: {said}", field="on"
        ) from None
    finally:
        logger.setLevel(level)
    return Connection(client, on)


def _refuse_empty(connection: Connection, patience: float) -> None:
    until = time.monotonic() + patience
    while not connection.client.scheduler_info(n_workers=1)["workers"]:
        if time.monotonic() > until:
            raise InputError(f"the Dask cluster at {connection.on} has no workers", field="on")
        time.sleep(0.1)
