"""Reaching Ray: one of this machine's own, or a cluster that runs somewhere; which nodes it has."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

from weft.errors import InputError, MissingExtra
from weft.execute import ray_guard

OWN = "ray"
PATIENCE = 5.0
"""Seconds until somebody must answer."""
CLIENT_PORT = 10001
"""Where Ray listens for drivers from machines that are not part of the cluster."""
STORE = 200_000_000
"""Bytes of shared memory for results, of a Ray of our own."""
_LONGEST_PATH = 30
"""Ray puts sockets under its folder, whose paths must not be longer than 107 bytes."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""How a caller of gRPC begins: its greeting and empty settings."""
_SETTINGS = 4
_QUIET = {"logging_level": logging.ERROR, "log_to_driver": False, "configure_logging": False}


@dataclass(frozen=True)
class RayNode:
    """A machine of a cluster that runs."""

    name: str
    """As Ray knows it, which is its address unless it was given another; its id where several have that name."""
    id: str
    address: str
    host: str
    cpus: float
    gpus: float
    memory: float
    """Bytes."""
    resources: Mapping[str, float]
    """What else it has, by name."""


@dataclass
class Connection:
    """This process as a driver of Ray, and the Ray that was started for it, if any."""

    on: str
    folder: Path | None = None
    """Of a Ray of our own."""
    is_ours: bool = True
    """Whether this process was not a driver before."""
    _before: Mapping[str, str | None] | None = None
    _guard: subprocess.Popen[bytes] | None = None

    @property
    def is_own(self) -> bool:
        """Whether it has this machine alone, so that no device needs to say where it is."""
        return self.on == OWN

    def close(self) -> None:
        """Leave a cluster of others as it is; end what was started here."""
        if not self.is_ours:
            return
        self.is_ours = False
        ray_package().shutdown()
        _let_it_print(True)
        for name, value in (self._before or {}).items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        if self._before:
            _read_settings_again()
        if self._guard is not None:
            self._guard.communicate()  # closes its input: it ends what Ray left, and itself
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ray_package() -> Any:
    """The package, or one line that says how to get it."""
    # Read when it is imported, by every process of Ray: nothing is sent to anybody.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray", "ray", "running on Ray") from None
    return ray


def connect(on: str, workers: Sequence[tuple[str, int]] = (), *, object_store: int = STORE) -> Connection:
    """Reach or start Ray; a process has at most one, and one that it has is used as it is.

    Parameters
    ----------
    on
        ``ray``: on this machine, for this process alone; ``ray://HOST:PORT``: the address of a cluster this machine
        is part of, or with port 10001 any cluster, by Ray's client.
    workers
        Names and slots of the devices that a Ray of our own is for.
    object_store
        Bytes of its shared memory for results.
    """
    if not isinstance(on, str):
        raise InputError(f"expected a text, got {type(on).__name__}", field="on")
    if on == OWN:
        return _start(sum(slots for _, slots in workers) or 4, object_store)
    if workers:
        raise InputError("expected no workers to start: the cluster is there already", field="workers")
    return _reach(on)


def workers_of(alive_only: bool = True) -> list[RayNode]:
    """Machines of the cluster that have a processor or an accelerator to give, by name."""
    nodes = [node for node in ray_package().nodes() if node["Alive"] or not alive_only]
    names = [node["NodeName"] for node in nodes]
    found = [_node(node, names.count(node["NodeName"]) == 1) for node in nodes]
    return sorted((one for one in found if one.cpus or one.gpus), key=lambda one: (len(one.name), one.name))


def _node(node: Mapping[str, Any], has_own_name: bool) -> RayNode:
    has = dict(node["Resources"])
    cpus, gpus, memory = (has.pop(name, 0.0) for name in ("CPU", "GPU", "memory"))
    more = {
        name: amount
        for name, amount in has.items()
        if not name.startswith("node:") and name != "object_store_memory"
    }
    name = node["NodeName"] if has_own_name else node["NodeID"]
    where = node["NodeManagerAddress"], node["NodeManagerHostname"]
    return RayNode(name, node["NodeID"], *where, cpus, gpus, memory, more)


def _start(num_cpus: int, object_store: int) -> Connection:
    ray = ray_package()
    if ray.is_initialized():
        return Connection(OWN, is_ours=False)
    folder = Path(tempfile.mkdtemp(prefix="weft-ray-"))
    if len(str(folder)) > _LONGEST_PATH:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="weft-ray-", dir="/tmp"))
    # Others on the network cannot use it without a token, which Ray would otherwise leave in the user's home.
    has_mode = "RAY_AUTH_MODE" in os.environ
    settings = {
        "RAY_process_group_cleanup_enabled": "1",
        ray_guard.MARK: str(folder),
        **({} if has_mode else {"RAY_AUTH_TOKEN": _token()}),
    }
    before = {name: os.environ.get(name) for name in (*settings, "RAY_AUTH_MODE")}
    connection = Connection(OWN, folder, _before=before, _guard=ray_guard.start(folder))
    os.environ.update(settings)
    try:
        with _quietly():
            ray.init(
                address="local",
                num_cpus=num_cpus,
                object_store_memory=object_store,
                include_dashboard=False,
                _temp_dir=str(folder),
                **_QUIET,
            )
    except Exception as error:
        connection.close()
        said = " ".join(str(error).split())[:200]
        raise InputError(f"Ray cannot be started here: {said}", field="on") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _read_settings_again() -> None:
    """Ray keeps in mind that it was to use a token: a cluster without one would take our answers for none."""
    with contextlib.suppress(ImportError, AttributeError):  # names that another version may not have
        inner = importlib.import_module("ray._raylet")
        inner.Config.initialize("")
        inner.AuthenticationTokenLoader.instance().reset_cache()


@cache
def _token() -> str:
    """One for this process: Ray reads it once."""
    return secrets.token_hex(32)


def check_address(on: str) -> tuple[str, int]:
    """Host and port of a Ray that answers; what does not is refused."""
    host, port = _host_and_port(on)
    ray_package()
    if port == CLIENT_PORT and importlib.util.find_spec("grpc") is None:
        raise InputError(
            "Ray's client needs grpcio, which is not installed: pip install 'ray[client]'", field="on"
        )
    if not _speaks_grpc(host, port):
        # Ray itself would try for minutes, and write a page about it.
        raise InputError(f"no Ray answers at {on} within {PATIENCE:g} s", field="on")
    return host, port


def _reach(on: str) -> Connection:
    host, port = check_address(on)
    ray = ray_package()
    if ray.is_initialized():
        known = str(ray.get_runtime_context().gcs_address)
        if port not in (CLIENT_PORT, int(known.rpartition(":")[2])):
            raise InputError(f"this process is connected to the Ray at {known} already", field="on")
        return Connection(on, is_ours=False)
    address = on if port == CLIENT_PORT else f"{host}:{port}"
    try:
        with _quietly():
            ray.init(address=address, **_QUIET)
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(f"the Ray at {on} does not let us in: {said}", field="on") from None
    return Connection(on)


def _host_and_port(on: str) -> tuple[str, int]:
    host, _, port = on.removeprefix("ray://").rstrip("/").rpartition(":")
    if not on.startswith("ray://") or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InputError(f"expected ray or ray://HOST:PORT, got {on!r:.80}", field="on")
    return host.strip("[]"), int(port)


def _speaks_grpc(host: str, port: int) -> bool:
    """Whether somebody who speaks gRPC answers: with settings, after the length of them."""
    try:
        with socket.create_connection((host, port), timeout=PATIENCE) as line:
            line.settimeout(PATIENCE)
            line.sendall(_PREFACE)
            answer = line.recv(9)
    except OSError:
        return False
    return len(answer) >= 4 and answer[3] == _SETTINGS


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keep Ray from writing about its start, and later about workers that die: the engine reports them."""
    logger = logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.ERROR)
    _let_it_print(False)
    try:
        yield
    except BaseException:
        _let_it_print(True)
        raise
    finally:
        logger.setLevel(level)


def _let_it_print(is_on: bool) -> None:
    """Ray has a switch for this, but no option; one without the switch just prints."""
    names = vars(importlib.import_module("ray._private.worker"))
    if "_worker_logs_enabled" in names:
        names["_worker_logs_enabled"] = is_on
