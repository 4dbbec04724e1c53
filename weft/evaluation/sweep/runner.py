"""Runs schedulers on the same problems with the same seeds and keeps one typed row for each.

Without noise the seed is the scheduler's. With noise it also draws the run times that happen: the
plan is made on their means and then carried out. The draws depend on problem and seed alone, so
rows are paired whatever runs where; one process or several give the same rows.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import multiprocessing
import os
import platform
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache, cached_property
from multiprocessing.connection import wait
from pathlib import Path
from typing import NamedTuple

from weft import catalog, offered, plugins
from weft.errors import InputError, MissingExtra, WeftError
from weft.evaluation.sweep.elastic_runs import ElasticRuns
from weft.evaluation.sweep.plan_runs import PlanRuns
from weft.evaluation.sweep.queue_runs import QueueRuns
from weft.evaluation.sweep.store import Config, Key, Measured, Store
from weft.evaluation.sweep.task_runs import TaskRuns
from weft.evaluation.sweep.unit import Runs, Unit
from weft.io import formats
from weft.io.sources import read_bytes
from weft.kinds import ELASTIC, PROBLEMS, QUEUES, TASKS, Kind
from weft.scenarios import Scenario

MOST_SEED = 2**63 - 1
CHECKS = ("all", "sample", "none")

Progress = Callable[[int, int], None]
"""Called with the number of rows done and of all rows."""


@dataclass(frozen=True)
class Sweep:
    """What is to be run: every scheduler on every problem of every cell, with every seed."""

    cells: tuple[Scenario, ...]
    schedulers: tuple[str, ...]
    num_problems: int
    seeds: tuple[int, ...] = (0,)
    split: str = "test"
    effort: int | None = None
    """Evaluations for schedulers that search; None: their own default."""
    check: str = "sample"
    """Which schedules the oracle checks: all, sample (all small ones, some large ones) or none."""

    def __post_init__(self) -> None:
        for name in ("cells", "schedulers", "seeds"):
            if not getattr(self, name):
                raise InputError("expected at least one, got none", field=name)
        if len({cell.kind for cell in self.cells}) > 1:
            raise InputError("expected loads above 0 only, or 0 alone: 0 is no stream", field="settings.load")
        for name in self.schedulers:
            catalog.find(name, self.kind)
        if self.check not in CHECKS:
            raise InputError(f"expected one of {', '.join(CHECKS)}, got {self.check!r}", field="check")
        if self.num_problems < 1:
            raise InputError(f"expected a whole number >= 1, got {self.num_problems}", field="problems")
        if not 0 <= min(self.seeds) <= max(self.seeds) <= MOST_SEED:
            raise InputError(
                f"expected whole numbers from 0 to {MOST_SEED}, got {max(self.seeds)}", field="seeds"
            )
        for cell in self.cells:
            _refuse_too_many(cell, self.split, self.num_problems)

    @property
    def kind(self) -> Kind:
        """What the schedulers act on."""
        return self.cells[0].kind

    @property
    def has_seed_samples(self) -> bool:
        """Whether seeds are samples of their own: every seed is then another workload."""
        return self.cells[0].seeds_are_samples

    @property
    def num_samples(self) -> int:
        """What statistics are over: problems, in a stream of one problem with every seed."""
        return self.num_problems * (len(self.seeds) if self.has_seed_samples else 1)

    @property
    def num_rows(self) -> int:
        """Number of rows of the whole sweep."""
        return len(self.cells) * self.num_problems * len(self.schedulers) * len(self.seeds)

    @property
    def varied(self) -> str:
        """The numeric setting that differs between cells; empty where none or several do."""
        columns = {key: {cell.settings[key] for cell in self.cells} for key in self.cells[0].settings}
        varied = [key for key, values in columns.items() if len(values) > 1]
        is_one = len(varied) == 1 and all(isinstance(v, int | float) for v in columns[varied[0]])
        return varied[0] if is_one else ""

    @cached_property
    def config(self) -> Config:
        """What decides the rows: the question, the inputs and the versions that answer it."""
        recipe = self.cells[0].recipe
        inputs = dict.fromkeys(name for cell in self.cells for name in cell.inputs)
        named: dict[str, object] = {"seed": recipe.seed, "cluster": recipe.cluster}
        named |= runs_of(self.cells[0]).inputs(self.cells[0], self.schedulers)
        if others := offered.versions_of(self.schedulers):
            named["code"] = others
        return {
            "scenario": recipe.to_dict() | named,
            "cells": {cell.label: dict(cell.values) for cell in self.cells},
            "inputs": {name: _file_hash(name) for name in inputs},
            "split": self.split,
            "problems": self.num_problems,
            "seeds": list(self.seeds),
            "schedulers": list(self.schedulers),
            "effort": self.effort,
            "check": self.check,
            "versions": versions(),
        }

    def units(self, done: frozenset[Key]) -> list[Unit]:
        """What is left to do, problem by problem."""
        left = []
        for cell in self.cells:
            for index in range(self.num_problems):
                name = cell.problem_name(self.split, index)
                for scheduler in self.schedulers:
                    seeds = tuple(s for s in self.seeds if (cell.label, name, s, scheduler) not in done)
                    if seeds:
                        left.append(Unit(cell, self.split, index, scheduler, seeds, self.effort, self.check))
        return left


RUNS: dict[str, Runs] = {
    PROBLEMS.name: PlanRuns(),
    QUEUES.name: QueueRuns(),
    TASKS.name: TaskRuns(),
    ELASTIC.name: ElasticRuns(),
}
"""Who measures each kind of run."""


def runs_of(scenario: Scenario) -> Runs:
    """Who measures the runs of a scenario."""
    return RUNS[scenario.kind.name]


class Cluster(NamedTuple):
    """Machines that rows are spread over; the rows are the same as here."""

    engine: str
    """``ray`` or ``dask``."""
    address: str | None = None
    """None: a cluster of this machine's own, for so many workers."""


def run(
    sweep: Sweep,
    store: Store,
    *,
    workers: int = 1,
    cluster: Cluster | None = None,
    progress: Progress | None = None,
) -> None:
    """Compute and store all rows that are not there yet.

    Parameters
    ----------
    workers
        Number of processes; 1 computes in this one.
    """
    if workers < 1:
        raise InputError(f"expected a whole number >= 1, got {workers}", field="workers")
    units = sweep.units(store.keys())
    done = sweep.num_rows - sum(len(unit.seeds) for unit in units)
    num = min(workers, len(units))
    for found in _answers(units, num) if cluster is None else _spread(units, cluster, num):
        store.add(found)
        done += len(found)
        if progress is not None:
            progress(done, sweep.num_rows)


def measure(unit: Unit) -> list[Measured]:
    """Run one scheduler on one problem with every seed of the unit."""
    try:
        return runs_of(unit.scenario).measure(unit)
    except MissingExtra as error:  # cannot travel between processes as it is
        raise InputError(error.message, field="scheduler") from None
    except WeftError as error:
        raise (error if error.file else error.at(field=f"problem {unit.problem_name}")) from None


def _answers(units: list[Unit], workers: int) -> Iterator[list[Measured]]:
    if workers <= 1:
        yield from map(measure, units)
        return
    for scheduler in dict.fromkeys(unit.scheduler for unit in units):
        runs_of(units[0].scenario).warm(scheduler)  # compiled once, here, instead of by every worker
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawn, _start_worker, (plugins.allowed(), formats.named())) as pool:
        try:
            for future in as_completed([pool.submit(measure, unit) for unit in units]):
                yield future.result()
        except BrokenProcessPool:
            raise WeftError("a worker process died (out of memory?): run again to resume") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class Elsewhere:
    """Measures units on another machine, if weft is the same there."""

    versions: tuple[tuple[str, str], ...]
    code: tuple[str, ...]
    """What the user may run, and own formats: as named on the command line."""
    own_formats: tuple[str, ...]

    def __call__(self, unit: Unit) -> list[Measured]:
        """Measure a unit."""
        plugins.allow(self.code)
        formats.register_code(self.own_formats)
        own = _own_versions()
        for name, wanted in self.versions:
            if own.get(name) != wanted:
                raise InputError(
                    f"expected {name} {wanted} on all machines of the cluster, got {own.get(name)}",
                    field="engine",
                )
        return measure(unit)


def _spread(units: list[Unit], cluster: Cluster, workers: int) -> Iterator[list[Measured]]:
    """Units on the machines of a cluster."""
    from weft.spread.mapping import each

    if not units:
        return
    there = Elsewhere(tuple(versions().items()), plugins.allowed(), formats.named())
    yield from each(cluster.engine, cluster.address, workers, there, units)


@cache
def _own_versions() -> dict[str, str]:
    return versions()


def _start_worker(code: tuple[str, ...], own_formats: tuple[str, ...]) -> None:
    """Die with the parent, and quietly when interrupted; the user's code is the user's here too."""
    plugins.allow(code)
    formats.register_code(own_formats)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def versions() -> dict[str, str]:
    """Versions on which results may depend; ``kernels`` and ``schedulers`` are hashes of sources."""
    from weft import __version__
    from weft.sim.jit import source_hash

    packages = {name: importlib.metadata.version(name) for name in ("numpy", "numba")}
    return {
        "weft": __version__,
        "kernels": source_hash(),
        "schedulers": _sources_hash(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        **packages,
    }


def _sources_hash() -> str:
    """Hash of all that decides besides kernels: a changed scheduler must not go on with another one's rows."""
    found = hashlib.sha256()
    root = Path(__file__).resolve().parents[2]
    for folder in ("model", "schedulers", "policies"):
        for path in sorted((root / folder).rglob("*.py")):
            found.update(path.relative_to(root).as_posix().encode())
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _file_hash(name: str) -> str:
    return hashlib.sha256(read_bytes(name)).hexdigest()


def _refuse_too_many(cell: Scenario, split: str, wanted: int) -> None:
    count = cell.count(split)
    if count is not None and wanted > count:
        raise InputError(
            f"expected at most {count}, what {cell.name} has in its {split} split, got {wanted}",
            field="problems",
        )
