"""Losses of the one-shot learner side by side: every run of a folder, means over training seeds.

Runs are named WHAT-SEED (``conflict-1``); those that differ in the seed alone are averaged.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from weft import catalog
from weft.model.problem import Problem
from weft.training.instances import Source

SOURCES = {"jobshop": Source("jobshop", ((15, 15), (20, 10))), "tpch": Source("tpch", ((50,),))}
SEED = 12345


def main(arguments: list[str]) -> int:
    """Measure every run on the same problems, which no training saw, and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks losses", description=__doc__)
    parser.add_argument("runs", help="folder of run folders")
    parser.add_argument("--problems", choices=SOURCES, default="jobshop")
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--samples", type=int, default=64)
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(SEED)
    source = SOURCES[options.problems]
    problems = [source.problem(rng, "test") for _ in range(options.instances)]
    found: dict[str, list[tuple[float, float]]] = {}
    for run in sorted(path.parent for path in Path(options.runs).glob("*/last.json")):
        gaps = [np.mean([_gap(p, f"{run}@last", n) for p in problems]) for n in (1, options.samples)]
        print(
            f"{run.name:<24} greedy {gaps[0]:6.2f} %, best of {options.samples} {gaps[1]:6.2f} %", flush=True
        )
        found.setdefault(run.name.rpartition("-")[0], []).append((float(gaps[0]), float(gaps[1])))
    for name, rows in found.items():
        mean, error = (
            np.mean(rows, axis=0),
            np.std(rows, axis=0, ddof=min(1, len(rows) - 1)) / len(rows) ** 0.5,
        )
        print(
            f"{name:<24} greedy {mean[0]:6.2f} +- {error[0]:.2f} %, best of {options.samples} "
            f"{mean[1]:6.2f} +- {error[1]:.2f} % ({len(rows)} seeds)"
        )
    return 0


def _gap(problem: Problem, scheduler: str, samples: int) -> float:
    """Percentage above the lower bound."""
    return catalog.schedule(problem, scheduler, effort=samples).schedule.gap_percent
