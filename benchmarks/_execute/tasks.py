"""What the tasks of the benchmarks do; workers load this, so it imports next to nothing."""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Mapping

from weft.execute.work import this_place

_BLOCK = random.Random(0).randbytes(1 << 15)


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
    """The same on a worker: what it costs depends on the class of the worker."""
    name = class_here()
    return work_on(costs[name] * slowness(name), size, *inputs)


def class_here() -> str:
    """Of the task of weft's that this thread carries out; else what the name of the worker of Dask begins with."""
    place = this_place()
    if place is not None:
        return place.device_class
    from distributed import get_worker

    return str(get_worker().name).rsplit("-", 1)[0]


_slow: dict[str, tuple[float, float]] = {}


def slowness(name: str) -> float:
    """How much slower a worker is right now, as ``slow_down`` has said on it."""
    since, factor = _slow.get(name, (float("inf"), 1.0))
    return factor if time.time() >= since else 1.0


def slow_down(name: str, at: float, factor: float) -> None:
    """From a moment on, tasks that begin on workers of a class take longer; runs on the worker."""
    _slow[name] = (at, factor)
