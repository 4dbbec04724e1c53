"""``auto`` against every planner it may call, each with the same wall time, on workflow files of your own.

Two clusters: four CPU nodes of 32 slots beside two GPUs four times as fast, all at 10 Gbit/s, and
``gpu-mix-8``. Per file: makespans, the gaps that ``auto`` and ``exact`` state, and how far the best plan lies
above the cheap bound, with the critical path and area alone and as it is now. Targets: ``auto`` is never
longer and never states a larger gap than ``exact``; the mean gap to the cheap bound is at most half of before.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from weft import catalog
from weft.io.clusters import builtin_cluster
from weft.io.files import read_problem
from weft.model.bounds import lower_bound, simple_bound
from weft.model.cluster import Cluster, DeviceClass
from weft.model.generate import generate
from weft.model.problem import Problem
from weft.model.validate import validate
from weft.schedulers.base import Limit

RIVALS = ("exact", "search", "oneshot+search")
QUICK = ("heft", "peft", "deft", "cpop", "lookahead", "min-min", "tdca", "perturbed", "mwkr", "cp")
GENERATED = (("layered", 60), ("fork-join", 120), ("block-model", 200))
SLACK = 1e-9
"""Relative difference that counts as equal."""
TEN_GBIT = 1.25e9


class Planned(NamedTuple):
    """One plan: how long it is, and how far above the optimum at most, in percent."""

    makespan: float
    gap: float


class Row(NamedTuple):
    """What every planner made of one problem."""

    name: str
    tasks: int
    cluster: str
    plans: dict[str, Planned]
    simple: float
    """Critical path and areas."""
    bound: float
    """The cheap bound as it is now."""

    @property
    def best_rival(self) -> str:
        """The planner with the shortest plan besides ``auto``."""
        return min((name for name in self.plans if name != "auto"), key=lambda n: self.plans[n].makespan)

    @property
    def lead(self) -> float:
        """Percent by which the best rival is longer; below 0 where ``auto`` is."""
        return 100.0 * (self.plans[self.best_rival].makespan / self.plans["auto"].makespan - 1.0)

    @property
    def gaps(self) -> tuple[float, float]:
        """Percent by which the best plan lies above the simple bound, and above that of now."""
        best = min(plan.makespan for plan in self.plans.values())
        return 100.0 * (best / self.simple - 1.0), 100.0 * (best / self.bound - 1.0)

    def __str__(self) -> str:
        auto, exact = self.plans["auto"], self.plans.get("exact")
        stated = f"{exact.makespan:>10.6g} {exact.gap:>6.2f}" if exact else f"{'':>17}"
        before, now = self.gaps
        return (
            f"{self.name[:22]:<22} {self.tasks:>5} {self.cluster:<9} {auto.makespan:>10.6g} "
            f"{auto.gap:>6.2f} {stated} {before:>7.1f} {now:>6.1f}  {self.lead:>+6.2f} {self.best_rival}"
        )


def main(arguments: list[str]) -> int:
    """Plan every file on both clusters and print a table; 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks auto", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="workflow files (three generated graphs)")
    parser.add_argument("--seconds", type=float, default=15.0, help="wall time of each search (15)")
    parser.add_argument("--rivals", default=",".join(RIVALS), help="planners that get as much time")
    parser.add_argument("--side-by-side", type=int, default=1, metavar="N", help="problems at a time (1)")
    parser.add_argument("--cluster", choices=("cpu-gpu", "gpu-mix-8"), help="only this one")
    options = parser.parse_args(arguments)
    rivals = [name for name in options.rivals.split(",") if name]
    print(
        f"{options.seconds:g} s each, two workers; gaps in percent; best: to the simple and to the present bound"
    )
    print(f"{'file':<22} {'tasks':>5} {'cluster':<9} {'auto':>10} {'gap':>6} {'exact':>10} {'gap':>6} "
          f"{'simple':>7} {'now':>6}  {'lead':>6} best rival")  # fmt: skip
    asked = [
        (problem, label, rivals, options.seconds)
        for label, cluster in _clusters().items()
        for problem in (_problems(options.files, cluster) if options.cluster in (None, label) else ())
    ]
    rows = []
    for row in _measured(asked, options.side_by_side):
        rows.append(row)
        print(row, flush=True)
    return 0 if _verdict(rows) else 1


Asked = tuple[Problem, str, list[str], float]


def _measured(asked: list[Asked], side_by_side: int) -> Iterator[Row]:
    """Rows in order; several at a time have two cores each to themselves."""
    if side_by_side < 2:
        yield from (measure(*one) for one in asked)
        return
    spawn = multiprocessing.get_context("spawn")
    places = spawn.Queue()
    for place in range(side_by_side):
        places.put({2 * place, 2 * place + 1})
    with ProcessPoolExecutor(side_by_side, spawn, _take_place, (places,)) as pool:
        yield from pool.map(measure, *zip(*asked, strict=True))


def _take_place(places: multiprocessing.Queue[set[int]]) -> None:
    os.sched_setaffinity(0, places.get())


def _clusters() -> dict[str, Cluster]:
    classes = (DeviceClass("cpu", slots=32), DeviceClass("gpu", 4.0))
    scarce = Cluster.uniform(classes, (4, 2), bandwidth=TEN_GBIT, name="cpu-gpu")
    return {"cpu-gpu": scarce, "gpu-mix-8": builtin_cluster("gpu-mix-8")}


def _problems(files: list[Path], cluster: Cluster) -> list[Problem]:
    if files:
        return [read_problem(path, cluster=cluster) for path in files]
    return [Problem(generate(family, size, seed=size), cluster) for family, size in GENERATED]


def measure(problem: Problem, label: str, rivals: list[str], seconds: float) -> Row:
    """Every planner on one problem; each plan is checked."""
    plans: dict[str, Planned] = {}
    for name in ("auto", *rivals, *QUICK):
        planner = catalog.planner(name)
        if planner.supports(problem) is None:
            plan = planner.plan(problem, limit=None if name in QUICK else Limit(budget=seconds))
            broken = validate(plan)
            assert not broken, f"{name} on {problem.name}: {broken[0]}"
            plans[name] = Planned(plan.makespan, plan.gap_percent)
    bounds = simple_bound(problem).value, lower_bound(problem).value
    return Row(problem.name, problem.num_tasks, label, plans, *bounds)


def _verdict(rows: list[Row]) -> bool:
    behind = [row for row in rows if row.lead < -100.0 * SLACK]
    wider = [
        row for row in rows if "exact" in row.plans and row.plans["auto"].gap > row.plans["exact"].gap + 1e-6
    ]
    print(
        f"auto longer than its best rival on {len(behind)} of {len(rows)}, a larger gap than exact on {len(wider)}"
    )
    gaps = np.array([row.gaps for row in rows])
    print("mean gap of the best plan to the cheap bound: "
          f"{gaps[:, 0].mean():.1f} % to the simple one, {gaps[:, 1].mean():.1f} % now")  # fmt: skip
    reached = not behind and not wider and gaps[:, 1].mean() <= gaps[:, 0].mean() / 2
    print(f"targets: {'reached' if reached else 'missed'}")
    return reached
