"""Planning and measuring: who plans, which rows are missing, several processes that fill them in."""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
import resource
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import NamedTuple

import weft
from benchmarks._oneshot.problems import Case, fingerprint, problem_of
from benchmarks._oneshot.record import Key, Measured, Record
from benchmarks._rounds import Rounds
from weft import catalog
from weft.errors import UnsupportedError, WeftError
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.policies.oneshot.planner import OneShot, OneShotSearch, load, shipped
from weft.schedulers.base import Limit, Planner
from weft.schedulers.planners.rules import Decoder
from weft.sim.jit import source_hash

SEARCH = 1064
"""Effort of ``oneshot+search`` that is 64 draws and 1,000 moves."""
ROUNDS = {"rounds": 1, "rounds-10": 10}
"""Planners that let the encoder look again before every so many starts."""
LEARNED = ("oneshot", "oneshot+search", *ROUNDS)
WARM_EFFORT = 80
PACE = 5.0
"""Seconds between two words about the progress."""


class Way(NamedTuple):
    """A way to plan, and what the tables call it."""

    label: str
    scheduler: str
    effort: int = 0
    weights: str = ""
    """Weights file or run; empty: what ships."""
    repeats: int = 1
    """The least time of so many counts."""


Wanted = tuple[Case, Way]


def rules(*names: str) -> list[Way]:
    """Planners that neither search nor learn, called by their names."""
    return [Way(name, name) for name in names]


def draws(counts: Iterable[int], weights: str = "", repeats: int = 1) -> list[Way]:
    """The one-shot planner: greedy, or the best of so many."""
    labels = {count: "greedy" if count == 1 else f"S({count})" for count in counts}
    return [Way(label, "oneshot", count, weights, repeats) for count, label in labels.items()]


def polished(weights: str = "") -> Way:
    """64 draws, then 1,000 moves from the best."""
    return Way("S(64) + 1,000 moves", "oneshot+search", SEARCH, weights)


class _Rounds:
    """The multi-round planner as a planner like others."""

    def __init__(self, name: str, weights: str | None) -> None:
        self.name, self.weights = name, weights

    def supports(self, problem: Problem) -> str | None:
        """It was written for the problems it is measured on."""
        return None

    def plan(self, problem: Problem, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
        """Start by start; it neither draws nor stops early."""
        return Rounds(problem, ROUNDS[self.name], self.weights).plan()


def planner_of(way: Way) -> Planner:
    """The planner a way stands for."""
    weights = way.weights or None
    if way.scheduler == "oneshot":
        return OneShot(weights)
    if way.scheduler == "oneshot+search":
        return OneShotSearch(weights)
    if way.scheduler in ROUNDS:
        return _Rounds(way.scheduler, weights)
    return catalog.planner(way.scheduler)


def weights_hash(case: Case, way: Way) -> str:
    """Hash of the net that plans, of its ranges and of how draws are made; empty for a rule."""
    if way.scheduler not in LEARNED:
        return ""
    policy = load(way.weights or _shipped(case))
    usage = (policy.card.sha256, policy.card.ranges, policy.by_list, policy.spread, policy.sharpness)
    return hashlib.sha256(repr(usage).encode()).hexdigest()[:16]


@functools.cache
def code_hash(is_learned: bool) -> str:
    """Hash of the sources that decide a row: kernels, rules and bounds, for nets also the policies."""
    root = Path(weft.__file__).parent
    folders = [root / "model", *([root / "policies"] if is_learned else [])]
    files = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    digest = hashlib.sha256(source_hash().encode())
    for path in (*files, *([Path(__file__).parent.with_name("_rounds.py")] if is_learned else [])):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def key_of(case: Case, way: Way) -> Key:
    """What decides the row of a way to plan a case."""
    return Key(
        suite=case.suite,
        instance=case.instance,
        problem=_fingerprint(case),
        scheduler=way.scheduler,
        effort=way.effort,
        weights=weights_hash(case, way),
        code=code_hash(way.scheduler in LEARNED),
    )


_warmed: list[tuple[str, str]] = []


def measure(case: Case, way: Way) -> Measured:
    """Plan and validate; the first plan of a planner for a suite in this process is not the one measured."""
    problem, planner = _problem(case), planner_of(way)
    reason = planner.supports(problem)
    if reason is not None:
        raise UnsupportedError(f"{way.scheduler}: {reason}", field=f"{case.suite} {case.instance}")
    if (case.suite, way.scheduler) not in _warmed:
        _warmed.append((case.suite, way.scheduler))
        planner.plan(problem, limit=Limit(effort=min(way.effort, WARM_EFFORT) or None))
    spent = []
    for _ in range(way.repeats):
        began = time.process_time()
        plan = planner.plan(problem, limit=Limit(effort=way.effort or None))
        spent.append(time.process_time() - began)
    faults = validate(plan)
    if faults:
        raise WeftError(f"{way.scheduler} broke a rule: {faults[0]}", field=f"{case.suite} {case.instance}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return Measured(plan.makespan, plan.bound.value, float(problem.best_run_times.sum()), min(spent), peak)


@functools.lru_cache(maxsize=2)
def _problem(case: Case) -> Problem:
    return problem_of(case)


@functools.lru_cache(maxsize=2)
def _shipped(case: Case) -> str:
    return shipped(Decoder(_problem(case)))


@functools.lru_cache(maxsize=2)
def _fingerprint(case: Case) -> str:
    return fingerprint(_problem(case))


class Found:
    """The rows of a page; two parts that want the same row share it."""

    def __init__(self) -> None:
        self.cells: dict[tuple[str, str, str], dict[str, tuple[Case, Measured]]] = {}

    def add(self, case: Case, way: Way, found: Measured) -> None:
        """The row of an instance in its cell."""
        self.cells.setdefault((case.suite, case.group, way.label), {})[case.instance] = (case, found)

    def cell(self, suite: str, group: str, label: str) -> list[tuple[Case, Measured]]:
        """The rows of one cell, in the order of the instances; none if it was not measured."""
        return list(self.cells.get((suite, group, label), {}).values())


class _Task(NamedTuple):
    case: Case
    way: Way
    key: Key


def run(wanted: Sequence[Wanted], record: Record, workers: int) -> Found:
    """All rows, from the record where they are there; 0 workers measure in this process."""
    keys = [key_of(case, way) for case, way in wanted]
    missing = {key: _Task(case, way, key) for (case, way), key in zip(wanted, keys, strict=True)}
    tasks = [task for task in missing.values() if task.key not in record.rows]
    began = spoken = time.monotonic()
    for done, (task, found) in enumerate(_answers(tasks, workers), 1):
        record.add(task.key, found)
        if time.monotonic() - spoken > PACE or done == len(tasks):
            spoken = time.monotonic()
            where = f"{task.case.suite} {task.case.instance}, {task.way.label}"
            _say(f"{done} of {len(tasks)} rows after {spoken - began:.0f} s: {where}")
    found_rows = Found()
    for (case, way), key in zip(wanted, keys, strict=True):
        found_rows.add(case, way, record.rows[key])
    return found_rows


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _answers(tasks: Sequence[_Task], workers: int) -> Iterator[tuple[_Task, Measured]]:
    if not workers:
        yield from ((task, measure(task.case, task.way)) for task in tasks)
        return
    timed = [task for task in tasks if task.case.suite == "times"]
    yield from _in_processes(timed, 1)  # a fresh process, alone: times and memory are its own
    yield from _in_processes([task for task in tasks if task.case.suite != "times"], workers)


def _in_processes(tasks: Sequence[_Task], workers: int) -> Iterator[tuple[_Task, Measured]]:
    if not tasks:
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_die_quietly) as pool:
        try:
            asked = {pool.submit(measure, task.case, task.way): task for task in tasks}
            for future in as_completed(asked):
                yield asked[future], future.result()
        except BrokenProcessPool:
            raise WeftError("a process died (out of memory?): run again to go on") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _die_quietly() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
