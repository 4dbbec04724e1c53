"""Mean job time, energy and unfairness of dispatchers on streams of workflows, and which of them nothing beats.

Plays every dispatcher on the same streams of the test split, with the same run times. Figures are geometric means over
the streams, in percent of those of the first dispatcher; a dispatcher is beaten where another is as good in all three and
better in one. Energy is that of ``Schedule.energy``: watts of busy devices, idle watts of the others until the last
job ends. Unfairness is the 99th percentile of the jobs' slowdowns over their mean.

With ``--sweep FOLDER`` weights are first trained for a grid of objectives (recipe workflows-es-pareto), ``--workers`` at a time, into
that folder; runs that are there go on. They take part beside the named dispatchers.
"""

from __future__ import annotations

import argparse
import itertools
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

import weft
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
    parser.add_argument("--sweep", type=Path, help="folder of runs for a grid of objectives")
    parser.add_argument(
        "--energy", type=float, nargs="+", default=[0.0, 0.5, 1.0, 2.0], help="weights of energy"
    )
    parser.add_argument(
        "--fairness", type=float, nargs="+", default=[0.0, 0.3, 1.0], help="weights of unfairness"
    )
    parser.add_argument("--generations", type=int, default=25, help="of every run of the sweep")
    parser.add_argument("--episodes", type=int, default=12, help="streams on which a generation is judged")
    parser.add_argument(
        "--quick", action="store_true", help="two generations on two streams, two test streams a cell"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--loads", type=float, nargs="+", default=[0.5, 0.8])
    parser.add_argument("--devices", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--seeds", type=int, default=20, help="streams of each load and number of devices")
    options = parser.parse_args(arguments)
    if options.quick:
        options.generations, options.episodes, options.seeds = 2, 2, 2
    names = list(options.dispatchers)
    with ProcessPoolExecutor(options.workers) as pool:
        every = pool.map if options.workers > 1 else map
        if options.sweep is not None:
            grid = list(itertools.product(options.energy, options.fairness))
            train = partial(trained, folder=options.sweep, config=(options.generations, options.episodes))
            names += every(train, grid)
        logs = np.log(np.array(list(every(partial(played, options=options), names))))
    print(f"{logs.shape[1]} streams, percent against {names[0]} with its 95 % interval")
    print(table(labelled(names), logs))
    return 0


def labelled(names: list[str]) -> list[str]:
    """What the lines of the table are called: a run of the sweep by its objective."""
    return [Path(name.removesuffix("@best")).name if name.endswith("@best") else name for name in names]


def trained(weights: tuple[float, float], folder: Path, config: tuple[int, int]) -> str:
    """Train weights for mean job time and so much of energy and unfairness; returns the name of the policy."""
    energy, unfairness = weights
    run = folder / f"energy {energy:g}, unfairness {unfairness:g}"
    settings = {"objective": [1.0, energy, unfairness], "generations": config[0], "episodes": config[1]}
    if not (run / "metrics.jsonl").exists():
        weft.train("workflows-es-pareto", run, settings=settings, seed=1)
    else:
        weft.train("workflows-es-pareto", run, settings=settings, seed=1, resume=True)
    return f"{run}@best"


def played(name: str, options: argparse.Namespace) -> Floats:
    """Figures (num_streams, 3) of a dispatcher on the test streams."""
    return figures_of(catalog.task_dispatcher(name), streams(options))


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
