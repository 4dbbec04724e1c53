"""Measuring workers: how fast they are, how far apart, and how long an engine takes from one task to the next.

What matters most is measured first, so that little time is enough for a usable answer; more time
means more workers, more pairs and a second look at each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from weft.errors import InputError
from weft.execute.measured import Figures, Link, cluster_of, digits
from weft.execute.probes import COMPUTING, PROBES, Probe, WorkerInfo, best_of, nothing
from weft.io.clusters import cluster_document
from weft.io.workers import write_workers
from weft.model.cluster import Cluster

SECONDS = 10.0
"""Time that calibration takes at most, unless told otherwise; a probe that runs is waited for."""
REPEATS = 3
BURST = 12
"""Tasks queued on a worker to see the gap between them."""
MOST_PAIRS = 12
SMALL, LARGE, LARGER = 1_000, 1_000_000, 16_000_000
"""Bytes that are sent to tell latency and bandwidth apart; the most only where less was quick."""
QUICK = 0.1
"""Seconds."""

Progress = Callable[[int, int, str], None]
"""Told how many steps are done, how many there are, and what comes next."""


@dataclass(frozen=True)
class Calibration:
    """Workers of an engine as a cluster, and what was measured."""

    engine: str
    cluster: Cluster
    workers: Mapping[str, str]
    """Device -> worker."""
    figures: tuple[Figures, ...]
    """Of every worker, in the order of the devices."""
    links: tuple[Link, ...]
    reference: str
    """The worker of speed 1."""
    measured_at: str
    """Date and time, UTC."""
    took: float
    """Seconds."""

    @property
    def dispatch_gap(self) -> float:
        """Seconds from the end of a task to the start of the next that waits on the worker; the median worker."""
        return median([one.gap for one in self.figures])

    @property
    def first_task(self) -> float:
        """Seconds that a task takes on an idle worker, there and back, besides its run time; the median worker."""
        return median([one.first_task for one in self.figures])

    def record(self) -> dict[str, Any]:
        """The table ``[calibration]`` of the cluster file."""
        return {
            "engine": self.engine,
            "measured_at": self.measured_at,
            "took": digits(self.took),
            "dispatch_gap": digits(self.dispatch_gap),
            "first_task": digits(self.first_task),
            "reference": self.reference,
            "probes": list(self.figures[0].probes),
            "worker": [one.record(device) for device, one in zip(self.workers, self.figures, strict=True)],
            **({"link": [one.record() for one in self.links]} if self.links else {}),
        }

    def to_dict(self) -> dict[str, Any]:
        """Cluster, workers and figures as plain values."""
        return {
            "cluster": cluster_document(self.cluster),
            "workers": dict(self.workers),
            "calibration": self.record(),
        }

    def write(self, path: str | Path) -> None:
        """Write a cluster file (TOML) that plans and runs can be made with."""
        write_workers(self.cluster, self.workers, path, self.record())


def calibrate(
    probe: Probe,
    *,
    kinds: Mapping[str, Callable[[], Any]] | None = None,
    seconds: float = SECONDS,
    reference: str | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Measure the workers of an engine.

    Parameters
    ----------
    probe
        See ``weft.execute.probes.open_probe``. It is not closed here.
    kinds
        Functions of one's own, kind -> something to call without arguments on a worker: a speed per kind.
    seconds
        When to stop measuring; what was not measured by then is taken to be as what is most like it.
    reference
        Name of the worker that has speed 1; None: the one in the middle.
    """
    workers = probe.workers()
    if not workers:
        raise InputError("expected at least one worker, got none", field="on")
    if reference is not None and reference not in [one.name for one in workers]:
        raise InputError(f"no worker {reference!r:.60}", field="reference")
    if not seconds > 0:
        raise InputError(f"expected a time > 0, got {seconds}", field="seconds")
    began, session = time.perf_counter(), _Session(probe, workers, dict(kinds or {}))
    steps = list(session.steps())
    for i, (label, step) in enumerate(steps):
        if i >= session.num_needed and time.perf_counter() - began > seconds:
            break
        if progress is not None:
            progress(i, len(steps), label)
        step()
    figures = session.figures(list(kinds or {}))
    made = cluster_of(figures, session.links, reference, is_uniform=probe.is_uniform)
    return Calibration(
        probe.name,
        made.cluster,
        {
            device: one.worker.name
            for device, one in zip(made.cluster.device_names, made.figures, strict=True)
        },
        made.figures,
        tuple(session.links),
        made.reference,
        datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        time.perf_counter() - began,
    )


Step = tuple[str, Callable[[], None]]


class _Session:
    """What has been measured so far."""

    def __init__(self, probe: Probe, workers: list[WorkerInfo], kinds: dict[str, Callable[[], Any]]) -> None:
        self.probe, self.kinds = probe, kinds
        self.workers = _most_different_first(workers)
        self.seconds: dict[str, dict[str, float]] = {}
        self.gaps: dict[str, tuple[float, float]] = {}
        self.links: list[Link] = []
        self.num_needed = 2
        """The first so many steps are done whatever the time."""

    def steps(self) -> Iterator[Step]:
        """What to measure, the most telling first."""
        measured = self.workers[:2] if self.probe.is_uniform else self.workers
        pairs = _pairs(self.workers if not self.probe.is_uniform else measured)
        first, rest = pairs[:2], pairs[2:]
        yield self._speed_step(measured[0])
        yield self._gap_step(measured[0])
        yield from map(self._link_step, first)
        yield from map(self._speed_step, measured[1:])
        yield from map(self._gap_step, measured[1:])
        yield from map(self._speed_step, measured)  # a neighbour may have been in the way
        yield from map(self._link_step, rest)

    def _speed_step(self, worker: WorkerInfo) -> Step:
        return f"speed of {worker.name}", lambda: self._measure_speed(worker)

    def _gap_step(self, worker: WorkerInfo) -> Step:
        return f"gap between tasks on {worker.name}", lambda: self._measure_gap(worker)

    def _link_step(self, pair: tuple[WorkerInfo, WorkerInfo]) -> Step:
        return f"link from {pair[0].name} to {pair[1].name}", lambda: self._measure_link(*pair)

    def _measure_speed(self, worker: WorkerInfo) -> None:
        best = self.seconds.setdefault(worker.name, {})
        functions: dict[str, str | Callable[[], Any]] = {name: name for name in PROBES}
        for kind, function in (functions | self.kinds).items():
            found, _ = self.probe.run(worker, best_of, function, REPEATS)
            if found is not None:
                best[kind] = min(found, best.get(kind, found))

    def _measure_gap(self, worker: WorkerInfo) -> None:
        self.probe.run(worker, nothing)
        waits = []
        for _ in range(3):
            start = time.perf_counter()
            _, took = self.probe.run(worker, nothing)
            waits.append(time.perf_counter() - start - took)
        gap = min(_gap(self.probe.burst(worker, BURST * worker.slots), worker.slots) for _ in range(2))
        self.gaps[worker.name] = gap, max(0.0, min(waits))

    def _measure_link(self, source: WorkerInfo, target: WorkerInfo) -> None:
        small, size = self.probe.send(source, target, SMALL), LARGE
        large = self.probe.send(source, target, size)
        if large < QUICK:
            size = LARGER
            large = self.probe.send(source, target, size)
        longer = large - small
        bandwidth = (size - SMALL) / longer if longer > 0 else float("inf")
        latency = max(0.0, small - SMALL / bandwidth)
        self.links.append(Link(source.name, target.name, source.host == target.host, latency, bandwidth))

    def figures(self, kinds: list[str]) -> list[Figures]:
        """Of every worker; one that was not measured has those of the measured one most like it."""
        usable = [p for p in PROBES if all(p in found for found in self.seconds.values())]
        if not any(p in COMPUTING for p in usable):
            raise InputError("no probe ran on all workers", field="on")
        made = []
        for worker in self.workers:
            like = worker if worker.name in self.seconds else self._like(worker, list(self.seconds))
            near = worker if worker.name in self.gaps else self._like(worker, list(self.gaps))
            seconds = {p: self.seconds[like.name][p] for p in (*usable, *kinds)}
            gap, wait = self.gaps[near.name]
            made.append(Figures(worker, seconds, tuple(kinds), gap, wait, worker.name in self.seconds))
        return made

    def _like(self, worker: WorkerInfo, names: list[str]) -> WorkerInfo:
        known = [one for one in self.workers if one.name in names]
        return max(known, key=lambda one: (_shape(one) == _shape(worker), one.host == worker.host))


def _gap(spans: list[tuple[float, float]], slots: int) -> float:
    """Mean time that a slot stands still between two tasks."""
    busy = sum(end - start for start, end in spans)
    whole = max(end for _, end in spans) - min(start for start, _ in spans)
    return max(0.0, (whole * slots - busy) / max(1, len(spans) - slots))


def _shape(worker: WorkerInfo) -> tuple[Any, ...]:
    return worker.slots, worker.memory, tuple(sorted(worker.resources.items()))


def _most_different_first(workers: list[WorkerInfo]) -> list[WorkerInfo]:
    """One of each host and shape, then the second of each, and so on."""
    groups: dict[Any, list[WorkerInfo]] = {}
    for one in workers:
        groups.setdefault((one.host, _shape(one)), []).append(one)
    longest = max(len(group) for group in groups.values())
    return [group[i] for i in range(longest) for group in groups.values() if i < len(group)]


def _pairs(workers: list[WorkerInfo]) -> list[tuple[WorkerInfo, WorkerInfo]]:
    """At most so many pairs, in turn within a host and between hosts, every worker as early as possible."""
    num = len(workers)
    steps = [(workers[i], workers[(i + k) % num]) for k in range(1, num) for i in range(num)][:4096]
    within = [pair for pair in steps if pair[0].host == pair[1].host]
    between = [pair for pair in steps if pair[0].host != pair[1].host]
    mixed = [
        pair
        for i in range(max(len(within), len(between)))
        for pair in (*within[i : i + 1], *between[i : i + 1])
    ]
    return mixed[:MOST_PAIRS]
