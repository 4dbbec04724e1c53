"""What calibration asks of an engine, and the short functions by which it measures workers.

Workers load this module: it imports the standard library alone.
"""

from __future__ import annotations

import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from weft.errors import InputError

Span = tuple[float, float]
"""Start and end of a task, in seconds of its worker's clock."""
NAP = 0.005
"""Seconds of a nap: enough for the next one to be waiting."""
TRIES = 3
"""How often something is sent; the best counts."""


@dataclass(frozen=True)
class WorkerInfo:
    """A worker as its engine describes it."""

    name: str
    """By which the engine finds it again."""
    address: str = ""
    slots: int = 1
    memory: float = float("inf")
    """Bytes."""
    resources: Mapping[str, float] = field(default_factory=dict)
    host: str = ""


class Probe(Protocol):
    """Workers of an engine, to be measured."""

    name: str
    """That of the engine: ``local``, ``dask``, ``ray``."""
    is_uniform: bool
    """Whether all workers are alike by construction, so that differences are noise."""

    def workers(self) -> list[WorkerInfo]:
        """All workers there are."""

    def run(self, worker: WorkerInfo, function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
        """Call a function on a worker: what it returns, and the seconds it took there."""

    def burst(self, worker: WorkerInfo, count: int) -> list[Span]:
        """Queue so many naps on a worker at once; when each began and ended."""

    def send(self, source: WorkerInfo, target: WorkerInfo, num_bytes: int) -> float:
        """Seconds by which a task on one worker starts later because its input lies on the other; best of a few."""

    def close(self) -> None:
        """Leave nothing behind; what was there before stays."""


def open_probe(on: str, workers: int | None = None) -> Probe:
    """The workers that ``on`` names: ``local``, ``dask``, ``dask://HOST:PORT``, ``ray``, ``ray://HOST:PORT``.

    Parameters
    ----------
    workers
        How many to start where they are not there already; None: one per processor.
    """
    engine = on.partition(":")[0]
    if workers is not None and "://" in on:
        raise InputError("expected no number of workers: they are there already", field="workers")
    if engine == "local":
        from weft.execute.probes_local import LocalProbe

        return LocalProbe(workers)
    if engine in ("dask", "tcp", "tls"):
        from weft.execute.probes_dask import DaskProbe

        return DaskProbe.at(on, workers)
    if engine == "ray":
        from weft.execute.probes_ray import RayProbe

        return RayProbe.at(on, workers)
    raise InputError(f"expected local, dask, dask://..., ray or ray://..., got {on!r:.60}", field="on")


# -- what workers do ----------------------------------------------------------------------------------


def nothing() -> None:
    """Return at once."""


def nap(seconds: float, number: int = 0) -> Span:
    """Sleep; ``number`` tells calls apart."""
    start = time.perf_counter()
    time.sleep(seconds)
    return start, time.perf_counter()


def blob(num_bytes: int, number: int = 0) -> bytes:
    """So many bytes, not all alike."""
    return (number % 251).to_bytes(1, "big") * num_bytes


def length(data: bytes, number: int = 0) -> int:
    """Bytes of the data."""
    return len(data)


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """What a function returns and the seconds it took."""
    start = time.perf_counter()
    value = function(*arguments)
    return value, time.perf_counter() - start


def _python() -> None:
    total = 0
    for i in range(40_000):
        total += i * i % 7


def _numpy() -> None:
    import numpy as np

    square = np.ones((160, 160))
    for _ in range(3):
        square = square @ square * 1e-3
    np.sort(np.arange(60_000)[::-1] % 1009)


def _zlib() -> None:
    text = "".join(str(i * i % 7919) for i in range(12_000))
    zlib.compress(text.encode(), 6)


def _io() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(4_000_000))
        file.seek(0)
        file.read()


PROBES: dict[str, Callable[[], None]] = {"python": _python, "numpy": _numpy, "zlib": _zlib, "io": _io}
COMPUTING = ("python", "numpy", "zlib")
"""Those whose mean is the speed of a worker."""
LONG = 0.5
"""Seconds; what takes longer is not repeated."""


def best_of(function: str | Callable[[], Any], repeats: int) -> float | None:
    """The least seconds of so many calls; None where a package that a probe needs is not there."""
    called = PROBES[function] if isinstance(function, str) else function
    try:
        best = timed(called)[1]
        for _ in range(repeats - 1):
            if best > LONG:
                break
            best = min(best, timed(called)[1])
    except ImportError:
        if isinstance(function, str):
            return None
        raise
    return best
