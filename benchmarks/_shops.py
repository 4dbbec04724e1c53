"""``exact`` beside the textbook's disjunctive model of a job shop, both on CP-SAT.

Same instances, wall-clock limit, number of workers and seeds; the two take turns, so that both meet
the same load. ``exact`` pays for its start and for rebuilding the schedule, the textbook's model for
neither.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weft import catalog
from weft.evaluation.sets.instances import best_known, suite
from weft.io.jssp import problem_shop
from weft.model.problem import Problem
from weft.model.validate import validate
from weft.schedulers.base import Limit
from weft.schedulers.exact.planner import Exact

FAMILIES = {"ft": "fisher", "la": "lawrence", "abz": "adams"}
SHOPS = (
    "ft06",
    "ft10",
    "ft20",
    *(f"la{k:02d}" for k in range(1, 21)),
    *(f"abz{k}" for k in range(5, 10)),
)
LATER, SECONDS_LATER = 1.2, 1.0
"""A proof may come so many times and so many seconds later than the textbook's."""


@dataclass(frozen=True)
class Proof:
    """How one side ended: infinite seconds without a proof."""

    wall: float
    cpu: float
    makespan: float
    bound: float


@dataclass(frozen=True)
class Row:
    """Both sides on one instance, the median of some seeds each."""

    name: str
    ours: Proof
    theirs: Proof
    limit: float
    workers: int
    is_sound: bool
    """Whether all schedules are valid and no bound is above a known makespan."""

    @property
    def is_in_time(self) -> bool:
        """Whether the proof came no later than allowed, by wall time."""
        return self._is_in_time(self.ours.wall, self.theirs.wall)

    @property
    def is_in_cpu_time(self) -> bool:
        """The same by CPU time per worker, which other work on the machine does not stretch."""
        return self._is_in_time(self.ours.cpu / self.workers, self.theirs.cpu / self.workers)

    def _is_in_time(self, ours: float, theirs: float) -> bool:
        return ours <= LATER * theirs + SECONDS_LATER or LATER * theirs + SECONDS_LATER >= self.limit

    def __str__(self) -> str:
        ratio = f"{self.ours.cpu / self.theirs.cpu:>6.2f}" if _is_finite(self) else f"{'-':>6}"
        verdict = "in time" if self.is_in_time and self.is_in_cpu_time else "LATER"
        sides = " ".join(_columns(side) for side in (self.ours, self.theirs))
        return f"{self.name:<6} {sides} {ratio}  {verdict}"


HEAD = (
    f"{'':<6} {'exact':>26} {'textbook':>26} {'':>6}\n"
    f"{'shop':<6} " + f"{'makespan':>9} {'wall s':>8} {'CPU s':>7} " * 2 + f"{'ratio':>6}  verdict"
)


def _is_finite(row: Row) -> bool:
    return max(row.ours.cpu, row.theirs.cpu) < float("inf")


def _columns(side: Proof) -> str:
    if side.cpu < float("inf"):
        return f"{side.makespan:>9.0f} {side.wall:>8.2f} {side.cpu:>7.2f}"
    return f"{side.makespan:>9.0f} {f'open, {side.bound:.0f}':>16}"


def compare(names: list[str], data: Path | None, limit: float, workers: int, repeat: int) -> int:
    """Measure these instances and print a table; 1 if a target was missed."""
    _ours(_load("ft06", data), limit, workers, 0)  # compiles, once
    print(HEAD)
    rows = []
    for row in measured(names, data, limit, workers, repeat):
        rows.append(row)
        print(row, flush=True)
    wall, cpu = sum(row.is_in_time for row in rows), sum(row.is_in_cpu_time for row in rows)
    is_reached = all(row.is_in_time and row.is_in_cpu_time and row.is_sound for row in rows)
    print(
        f"target (no proof later than {LATER} times the textbook's and {SECONDS_LATER:g} s; all sound): "
        f"{'reached' if is_reached else 'missed'} (by wall time {wall}, by CPU time per worker {cpu} "
        f"of {len(rows)} in time; median of {repeat}, {workers} workers, limit {limit:g} s)"
    )
    return 0 if is_reached else 1


def measured(names: list[str], data: Path | None, limit: float, workers: int, repeat: int) -> Iterator[Row]:
    """One row per instance."""
    for name in names:
        problem, known = _load(name, data), best_known()[name]
        pairs = []
        for seed in range(repeat):
            ours = _ours(problem, limit, workers, seed)
            pairs.append((*ours, textbook(problem, limit, workers, seed)))
        ours, theirs = (_middle([pair[k] for pair in pairs]) for k in (0, 2))
        is_sound = all(is_valid for _, is_valid, _ in pairs)
        is_sound &= all(p[0].bound <= known.upper and p[0].makespan >= known.lower for p in pairs)
        yield Row(name, ours, theirs, limit, workers, is_sound)


def _load(name: str, data: Path | None) -> Problem:
    return suite(FAMILIES[name.rstrip("0123456789")], data).instance(name).problem


def _middle(proofs: list[Proof]) -> Proof:
    """The median of every column; of an even number the later one."""
    return Proof(
        statistics.median_high(p.wall for p in proofs),
        statistics.median_high(p.cpu for p in proofs),
        min(p.makespan for p in proofs),
        max(p.bound for p in proofs),
    )


def _ours(problem: Problem, limit: float, workers: int, seed: int) -> tuple[Proof, bool]:
    """``exact`` as the catalog makes it, its start included; and whether its schedule is valid."""
    exact = catalog.planner("exact")
    assert isinstance(exact, Exact)
    exact.workers = workers
    wall, cpu = time.perf_counter(), time.process_time()
    plan = exact.plan(problem, seed=seed, limit=Limit(budget=limit))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if not exact.is_proven:
        wall = cpu = float("inf")
    return Proof(wall, cpu, plan.makespan, plan.bound.value), not validate(plan)


def textbook(problem: Problem, limit: float, workers: int, seed: int) -> Proof:
    """The plain model: intervals, one at a time per machine, jobs in order, the last end least."""
    from ortools.sat.python import cp_model

    jobs = problem_shop(problem).jobs
    wall, cpu = time.perf_counter(), time.process_time()
    model, horizon = cp_model.CpModel(), sum(ticks for job in jobs for ((_, ticks),) in job)
    machines: dict[int, list[cp_model.IntervalVar]] = {}
    ends = []
    for job in jobs:
        end: cp_model.LinearExprT = 0
        for ((machine, ticks),) in job:
            start = model.new_int_var(0, horizon, "")
            model.add(start >= end)
            machines.setdefault(machine, []).append(model.new_fixed_size_interval_var(start, ticks, ""))
            end = start + ticks
        ends.append(end)
    for intervals in machines.values():
        model.add_no_overlap(intervals)
    makespan = model.new_int_var(0, horizon, "")
    model.add_max_equality(makespan, ends)
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.random_seed = workers, seed
    solver.parameters.max_time_in_seconds = limit
    status = solver.solve(model)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if status != cp_model.OPTIMAL:
        wall = cpu = float("inf")
    return Proof(wall, cpu, solver.objective_value, solver.best_objective_bound)
