"""``auto`` against CP-SAT alone with the same wall time, on one job shop of each of Taillard's groups.

CP-SAT alone is the textbook model (one interval per operation, no overlap per machine, minimal
makespan) with no warm start; building it is not counted. Both get two solver threads; ``auto``
uses one while it searches. Target: ``auto`` better on every group of 20x15 and above.
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import numpy as np

from benchmarks._ratios import report
from weft import catalog
from weft.evaluation.sets.instances import suite
from weft.model.problem import Problem
from weft.model.validate import validate
from weft.schedulers.planners.tabu import compile_shop

INSTANCES = ("ta01", "ta11", "ta21", "ta31", "ta41", "ta51", "ta61", "ta71")
WORKERS = 2
FIRST_TARGET = 20 * 15
"""Operations from which on ``auto`` must win."""


class Row(NamedTuple):
    """One instance: percentages above the best known makespan."""

    name: str
    group: str
    operations: int
    auto: float
    rival: float
    seconds: float
    rival_seconds: float
    member: str

    @property
    def winner(self) -> str:
        """Who has the shorter schedule."""
        if self.auto == self.rival:
            return "tie"
        return "auto" if self.auto < self.rival else "cp-sat"

    @property
    def is_reached(self) -> bool:
        """Whether the target holds here; an optimum found by both cannot be bettered."""
        return self.operations < FIRST_TARGET or self.auto < self.rival or self.auto == self.rival == 0.0

    def __str__(self) -> str:
        times = f"{self.seconds:>7.1f} {self.rival_seconds:>9.1f}"
        return (
            f"{self.name} {self.group:>7} {self.auto:>7.2f} {self.rival:>7.2f} {times}  {self.winner:<6} "
            f"({self.member})"
        )


def main(arguments: list[str]) -> int:
    """Run every instance twice and print a table; 1 if the target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks portfolio", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="wall time per run (10; also try 60)")
    parser.add_argument("--instances", default=",".join(INSTANCES), help="comma-separated names")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    print(f"% above the best known makespan after {options.seconds:g} s, {WORKERS} workers")
    print("name   group    auto  cp-sat auto, s cp-sat, s  winner (member of auto)")
    rows = []
    for name in options.instances.split(","):
        rows.append(measure(name, options.seconds, options.seed))
        print(rows[-1], flush=True)
        report(f"portfolio.makespan.{name}", (100.0 + rows[-1].rival) / (100.0 + rows[-1].auto), share=0.95)
    reached = all(row.is_reached for row in rows)
    print(f"target (auto better from 20x15 on): {'reached' if reached else 'missed'}")
    return 0 if reached else 1


def measure(name: str, seconds: float, seed: int) -> Row:
    """``auto`` first, then the rival, one after the other."""
    taillard = suite("taillard")
    instance = taillard.instance(name)
    best = taillard.best_known[name]
    result = catalog.schedule(instance.problem, "auto", seed=seed, budget=seconds)
    if violations := validate(result.schedule):
        raise SystemExit(f"{name}: not valid: {violations[0]}")
    makespan, rival_seconds = cp_sat_alone(instance.problem, seconds, seed)
    member = result.note.partition(";")[0].removeprefix("won by ")
    return Row(
        name,
        instance.group,
        instance.problem.num_tasks,
        100.0 * (result.schedule.makespan / best - 1.0),
        100.0 * (makespan / best - 1.0),
        result.seconds,
        rival_seconds,
        member,
    )


def cp_sat_alone(problem: Problem, seconds: float, seed: int) -> tuple[float, float]:
    """Makespan of the textbook model after so many seconds, and the seconds used."""
    from ortools.sat.python import cp_model

    shop, _ = compile_shop(problem)
    run = np.rint(shop.run).astype(int).tolist()
    model = cp_model.CpModel()
    horizon = sum(run)
    starts = [model.new_int_var(0, horizon, f"start {i}") for i in range(len(run))]
    makespan = model.new_int_var(0, horizon, "makespan")
    intervals = [model.new_fixed_size_interval_var(at, run[i], f"{i}") for i, at in enumerate(starts)]
    for machine in range(int(shop.machine.max()) + 1):
        model.add_no_overlap([intervals[i] for i in np.flatnonzero(shop.machine == machine)])
    for i, at in enumerate(starts):
        model.add(makespan >= at + run[i])
        for j in shop.succ[shop.succ_ptr[i] : shop.succ_ptr[i + 1]].tolist():
            model.add(starts[j] >= at + run[i])
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = WORKERS
    solver.parameters.random_seed = seed
    began = time.perf_counter()
    status = solver.solve(model)
    used = time.perf_counter() - began
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return float("inf"), used
    return float(solver.objective_value), used
