"""The exact planner on generated graphs of up to 30 tasks and 4 GPUs: proofs, and what planners leave.

Every row is a graph and a communication-to-computation ratio; the planners' columns say how far
above the best schedule without copies each lies. Targets: every optimum proven within the budget,
no planner without copies below.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks._shops import SHOPS, compare
from weft import catalog
from weft.io.clusters import builtin_cluster
from weft.model.cluster import Cluster
from weft.model.generate import generate
from weft.model.problem import Problem
from weft.model.validate import validate
from weft.schedulers.base import Limit
from weft.schedulers.exact.planner import Exact

GRAPHS = (
    ("layered", 20),
    ("layered", 30),
    ("fork-join", 20),
    ("fork-join", 30),
    ("erdos-renyi", 20),
    ("erdos-renyi", 30),
    ("out-tree", 24),
    ("out-tree", 30),
    ("in-tree", 24),
    ("in-tree", 30),
    ("block-model", 24),
    ("block-model", 30),
)
PLANNERS = ("heft", "cpop", "peft", "lookahead", "min-min", "perturbed")


@dataclass(frozen=True)
class Row:
    """What came of one problem."""

    label: str
    ccr: float
    is_proven: bool
    gap_percent: float
    seconds: float
    above_percent: tuple[float, ...]  # (num_planners,)
    is_valid: bool

    def __str__(self) -> str:
        above = " ".join(f"{value:>9.2f}" for value in self.above_percent)
        proof = "yes" if self.is_proven else f"{self.gap_percent:.2f} %"
        return f"{self.label:<16} {self.ccr:>4g} {proof:>8} {self.seconds:>6.1f} {above}"


def main(arguments: list[str]) -> int:
    """Measure every graph and ratio and print a table; 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks exact", description=__doc__)
    parser.add_argument("--ccr", type=float, nargs="+", default=[0.1, 1.0, 5.0])
    parser.add_argument("--budget", type=float, default=15.0, help="seconds per problem")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--graphs", type=int, default=len(GRAPHS), help="how many of the graphs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shops", action="store_true", help="job shops beside the textbook's model instead")
    parser.add_argument("--instances", nargs="+", choices=SHOPS, default=SHOPS, help="which job shops")
    parser.add_argument("--data", type=Path, help="folder of their text files, where no package has them")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds per job shop and side")
    parser.add_argument("--repeat", type=int, default=1, help="seeds per job shop and side")
    options = parser.parse_args(arguments)
    if options.shops:
        return compare(list(options.instances), options.data, options.limit, options.workers, options.repeat)
    Exact().plan(draw_problem(*GRAPHS[0], 1.0, options.seed), limit=Limit(effort=1))  # compiles, once
    print(f"{'graph':<16} {'ccr':>4} {'proven':>8} {'s':>6} " + " ".join(f"{name:>9}" for name in PLANNERS))
    rows = []
    for ccr in options.ccr:
        for family, size in GRAPHS[: options.graphs]:
            problem = draw_problem(family, size, ccr, options.seed)
            rows.append(measure(problem, f"{family} {size}", ccr, options.budget, options.workers))
            print(rows[-1], flush=True)
        print_mean([row for row in rows if row.ccr == ccr])
    return summarise(rows)


def draw_problem(family: str, size: int, ccr: float, seed: int) -> Problem:
    """A graph of the family on one GPU of each class."""
    return Problem(generate(family, size, seed=seed), four_gpus()).with_ccr(ccr)


def four_gpus() -> Cluster:
    """One each of T4, P100, V100 and A100, linked alike."""
    cluster = builtin_cluster("gpu-mix-8")
    return cluster.replaced(
        device_class=np.arange(4), node=np.arange(4), link_group=np.zeros(4), name="gpu-mix-4"
    )


def measure(problem: Problem, label: str, ccr: float, budget: float, workers: int) -> Row:
    """Solve one problem and compare the planners with the result."""
    exact = Exact(workers=workers)
    started = time.perf_counter()
    best = exact.plan(problem, limit=Limit(budget=budget))
    seconds = time.perf_counter() - started
    others = [catalog.schedule(problem, name).schedule.makespan for name in PLANNERS]
    above = tuple(100.0 * (other / best.makespan - 1.0) for other in others)
    return Row(label, ccr, exact.is_proven, best.gap_percent, seconds, above, not validate(best))


def print_mean(rows: list[Row]) -> None:
    """Number of proofs and the mean columns of one ratio."""
    means = np.array([row.above_percent for row in rows]).mean(axis=0)
    proven = f"{sum(row.is_proven for row in rows)}/{len(rows)}"
    seconds = sum(row.seconds for row in rows) / len(rows)
    columns = " ".join(f"{value:>9.2f}" for value in means)
    print(f"{'mean':<16} {rows[0].ccr:>4g} {proven:>8} {seconds:>6.1f} {columns}\n", flush=True)


def summarise(rows: list[Row]) -> int:
    """Say whether the targets were reached; the exit code."""
    proven = sum(row.is_proven for row in rows)
    lowest = min(min(row.above_percent) for row in rows)
    reached = proven == len(rows) and lowest >= 0 and all(row.is_valid for row in rows)
    print(
        f"targets (all proven, no planner below, all valid): {'reached' if reached else 'missed'} "
        f"({proven} of {len(rows)} proven, lowest planner {lowest:+.2f} %)"
    )
    return 0 if reached else 1
