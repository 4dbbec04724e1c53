"""Mean job time, energy and unfairness of dispatchers on streams of workflows, and which of them nothing beats.

Plays every dispatcher on the same streams of the test split, with the same run times. Figures are geometric means over
the streams, in percent of those of the first dispatcher; a dispatcher is beaten where another is as good in all three and
better in one. Energy is that of ``Schedule.energy``: watts of busy devices, idle watts of the others until the last
job ends. Unfairness is the 99th percentile of the jobs' slowdowns over their mean.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np

from weft import catalog
from weft.evaluation.questions.pareto import front
from weft.evaluation.statistics import mean_interval
from weft.model.graph import Floats
from weft.model.problem import Problem
from weft.scenarios import scenario
from weft.training.es.config import FIGURES
from weft.training.es.learner import figures_of


def main(arguments: list[str]) -> int:
    """Print a line per dispatcher."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks pareto_streams", description=__doc__)
    parser.add_argument("dispatchers", nargs="*", default=["priced", "srw", "es"], help="names or RUN@best")
    parser.add_argument("--loads", type=float, nargs="+", default=[0.5, 0.8])
    parser.add_argument("--devices", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--seeds", type=int, default=20, help="streams of each load and number of devices")
    options = parser.parse_args(arguments)
    problems = streams(options)
    logs = np.array(
        [np.log(figures_of(catalog.task_dispatcher(name), problems)) for name in options.dispatchers]
    )
    print(f"{len(problems)} streams, percent against {options.dispatchers[0]} with its 95 % interval")
    print(table(options.dispatchers, logs))
    return 0


def streams(options: argparse.Namespace) -> list[Problem]:
    """Streams of the test split."""
    cells = [
        scenario(
            "workflows", load=load, devices=count, jobs=options.jobs, tasks=options.tasks, noise=options.noise
        )
        for load, count in itertools.product(options.loads, options.devices)
    ]
    return [cell.dispatched("test", 0, seed) for cell in cells for seed in range(options.seeds)]


def table(names: list[str], logs: Floats) -> str:
    """A line per dispatcher from logarithms of figures (num_dispatchers, num_streams, 3), at least two streams."""
    above = logs - logs[0]
    mean = above.mean(axis=1)
    best, width = front(mean), max(len(name) for name in names)
    lines = [f"{'':<{width}}" + "".join(f"{name:>26}" for name in FIGURES)]
    for k, name in enumerate(names):
        found = [mean_interval(above[k, :, figure]) for figure in range(len(FIGURES))]
        cells = [[f"{100 * np.expm1(x):+.2f}" for x in (one.value, one.low, one.high)] for one in found]
        verdict = "  on the front" if best[k] else "  beaten by " + ", ".join(_beaten_by(names, mean, k))
        shown = "".join(f"{f'{value} ({low} to {high})':>26}" for value, low, high in cells)
        lines.append(f"{name:<{width}}{shown}{verdict}")
    return "\n".join(lines)


def _beaten_by(names: list[str], mean: Floats, k: int) -> list[str]:
    """Names of those that are as good in everything and better in something."""
    beats = (mean <= mean[k]).all(axis=1) & (mean < mean[k]).any(axis=1)
    return [name for name, does in zip(names, beats.tolist(), strict=True) if does]
