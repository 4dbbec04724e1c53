"""Deadlines of driver-assistance pipelines: rules, static maps and policies over all combinations of periods, on common noise.

``macro`` is the share of deadlines missed, the mean over pipelines and combinations; ``worst`` is that of the worst pipeline of each
combination, after the mean over seeds, then the mean over combinations. Every schedule is validated unless ``--check`` or ``--no-check`` is given.
The last columns compare with the first scheduler on the same noise. ``--more FOLDER`` plays the best policy of every training run
in a folder (``seed-1``, ``seed-2``, ...) too, and prints their mean with 95 % intervals over training runs and noise seeds, both random.
``--search N`` looks for one static map for all instead; ``--effort N`` tries so many maps per combination for ``static-map``.
``--held`` lets transfers hold the device that receives, in place of passing while it computes: for pinned rules on adas-tx2.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from weft import catalog
from weft.errors import InputError
from weft.evaluation.statistics import crossed_interval
from weft.evaluation.sweep.checking import digest
from weft.model.cluster import Cluster
from weft.model.fluid import fluid_load, fluid_misses
from weft.model.graph import Floats, Ints, TaskGraph
from weft.model.problem import Problem, realise
from weft.model.validate import validate
from weft.scenarios import parse_assignments, scenario
from weft.schedulers.dispatchers.pins import pinned_classes
from weft.schedulers.dispatchers.static_map import EFFORT, SearchedMap, search_map
from weft.schedulers.dispatchers.tasks import TaskDispatcher

RULES = (
    "rm-pinned",
    "edf-pinned",
    "edf-fastest-idle",
    "rm-fastest-idle",
    "edf-eft",
    "rm-eft",
    "llf-eft",
    "edf-random",
)
CALIBRATED = {
    "edf-fastest-idle": (0.132, 0.41), "rm-pinned": (0.076, 0.295), "edf-pinned": (0.084, 0.27),
    "rm-fastest-idle": (0.131, 0.40), "edf-eft": (0.364, 0.77), "rm-eft": (0.322, 0.88), "llf-eft": (0.342, 0.72),
    "edf-random": (0.341, 0.92),
}  # fmt: skip
"""Macro and worst of an independent simulator, without order (those with eft over 1.5 s and all releases)."""


@dataclass(frozen=True)
class Found:
    """What a scheduler missed."""

    shares: Floats  # (num_problems, num_seeds, num_lines)
    violations: int
    seconds: float

    @property
    def macro(self) -> float:
        return float(self.shares.mean())

    @property
    def worst(self) -> float:
        return float(self.shares.mean(axis=1).max(axis=1).mean())

    @property
    def by_seed(self) -> Floats:
        """The macro share with every seed."""
        means: Floats = self.shares.mean(axis=(0, 2))
        return means

    @property
    def spread(self) -> float:
        """Half of a 95 % interval of the macro share over seeds."""
        means = self.by_seed
        return float(1.96 * means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else 0.0


def main(arguments: list[str]) -> int:
    """Play and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks adas", description=__doc__)
    parser.add_argument("--scenario", default="adas-tx2")
    parser.add_argument("-s", "--schedulers", default=",".join(RULES), help="the first is the reference")
    parser.add_argument(
        "--more", action="append", default=[], metavar="FOLDER", help="of training runs, one per seed"
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--problems", type=int, help="the first so many; default: all")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--no-check", action="store_true", help="leave the validator out")
    parser.add_argument("--check", type=int, metavar="N", help="validate the runs of the first N seeds alone")
    parser.add_argument("--search", type=int, metavar="N", help="try N maps for all combinations together")
    parser.add_argument("--effort", type=int, default=EFFORT, metavar="N", help="maps that static-map tries")
    parser.add_argument("--held", action="store_true", help="transfers hold the receiving device")
    options = parser.parse_args(arguments)
    chosen = scenario(options.scenario, **parse_assignments(options.changes))
    count = options.problems or min(chosen.count("test") or 81, 81)
    problems = [chosen.problem("test", k) for k in range(count)]
    if options.held:
        problems = [_held(problem) for problem in problems]
    if options.search:
        return _search([chosen.problem("train", k) for k in range(count)], options.search)
    loads = [fluid_load(problem) for problem in problems]
    bound = float(np.mean([fluid_misses(problem) for problem in problems]))
    print(
        f"{chosen.name}: {count} combinations, {options.seeds} seeds; fluid load {min(loads):.3f} to {max(loads):.3f},",
        end=" ",
    )
    print(f"no schedule misses less than {bound:.3f}", flush=True)
    print(
        f"{'':<22} {'macro':>7} {'+-':>7} {'worst':>7} {'< 1 %':>6} {'macro':>7} {'worst':>7}  {'calibrated':<13} invalid  s"
    )
    check = 0 if options.no_check else options.seeds if options.check is None else options.check
    groups = [options.schedulers.split(","), *(_runs_in(Path(folder)) for folder in options.more)]
    first: Found | None = None
    for number, names in enumerate(groups):
        group = []
        for name in names:
            group.append(_played(_found(name, options.effort), problems, options.seeds, check))
            first = first or group[0]
            _print(name, group[-1], first)
        if number and first:
            _print_mean(options.more[number - 1], group, first)
    return 0


def _runs_in(folder: Path) -> list[str]:
    """The best policy of every run in a folder."""
    found = sorted(folder.glob("seed-*/best.json"), key=lambda path: int(path.parent.name.split("-")[1]))
    if not found:
        raise InputError(
            f"expected training runs seed-1, seed-2, ... with a best policy, got none in {folder}",
            field="--more",
        )
    return [f"{path.parent}@best" for path in found]


def _found(name: str, effort: int) -> TaskDispatcher:
    """The dispatcher of this name, with so much effort where it searches."""
    found = catalog.task_dispatcher(name)
    return replace(found, effort=effort) if isinstance(found, SearchedMap) else found


def _held(problem: Problem) -> Problem:
    """The same, but what a pinned stage receives over the link adds to its run time, and the link takes no time."""
    pinned, cluster = pinned_classes(problem).argmax(axis=1), problem.cluster
    made: dict[int, TaskGraph] = {}
    for job, first in zip(problem.jobs, problem.offsets, strict=False):
        if id(job.graph) not in made:
            made[id(job.graph)] = _longer(job.graph, pinned[first : first + job.graph.num_tasks], cluster)
    free = replace(cluster, latency=0 * cluster.latency, bandwidth=np.full_like(cluster.bandwidth, np.inf))
    return replace(
        problem, jobs=[replace(job, graph=made[id(job.graph)]) for job in problem.jobs], cluster=free
    )


def _longer(graph: TaskGraph, pinned: Ints, cluster: Cluster) -> TaskGraph:
    """A graph whose stages take the transfers from their parents too."""
    class_group = np.zeros(cluster.num_classes, np.int64)
    class_group[cluster.device_class] = cluster.link_group
    here, there = class_group[pinned[graph.sources]], class_group[pinned[graph.targets]]
    seconds = np.where(
        here == there, 0.0, cluster.latency[here, there] + graph.data / cluster.bandwidth[here, there]
    )
    times = np.array(graph.times)
    np.add.at(times, graph.targets, 1000.0 * seconds[:, None])
    return TaskGraph(
        graph.work, graph.sources, graph.targets, graph.data, names=graph.names, kinds=graph.kinds, kind=graph.kind,
        classes=graph.classes, times=times, name=graph.name, time_unit=graph.time_unit,
    )  # fmt: skip


def _played(dispatcher: TaskDispatcher, problems: list[Problem], seeds: int, check: int) -> Found:
    """All problems with all seeds; the runs of the first ``check`` seeds are validated."""
    started = time.perf_counter()
    shares, violations = [], 0
    for k, problem in enumerate(problems):
        worlds = [realise(problem, digest("jobs", 0, f"test/{k}", seed)) for seed in range(seeds)]
        found = dispatcher.run_all([problem] * seeds, worlds, list(range(seeds)))
        violations += sum(bool(validate(one)) for one in found[:check])
        shares.append([[*one.series.misses.values()] for one in found])
    return Found(np.array(shares), violations, time.perf_counter() - started)


def _print(name: str, found: Found, first: Found) -> None:
    good = int((found.shares.mean(axis=(1, 2)) < 0.01).sum())
    against = [
        100 * (a / b - 1) if b else 0.0 for a, b in ((found.macro, first.macro), (found.worst, first.worst))
    ]
    known = "{:.3f} / {:.2f}".format(*CALIBRATED[name]) if name in CALIBRATED else ""
    print(
        f"{name[-22:]:<22} {found.macro:>7.4f} {found.spread:>7.4f} {found.worst:>7.4f} {good:>6}"
        f" {against[0]:>+6.1f}% {against[1]:>+6.1f}%  {known:<13} {found.violations:>7} {found.seconds:>4.0f}",
        flush=True,
    )


def _print_mean(name: str, runs: list[Found], first: Found) -> None:
    """The mean over training runs, and how far it is from the first scheduler on the same noise."""
    own, base = np.array([found.by_seed for found in runs]), first.by_seed[None]
    worst = [found.worst for found in runs]
    text = f"{name}: mean of {len(runs)} training runs: macro {own.mean():.4f}"
    if own.shape[1] > 1:
        mean, less = crossed_interval(own, np.zeros_like(base)), crossed_interval(own, base)
        text += f" [{mean.low:.4f}, {mean.high:.4f}], against the first {less.value:+.4f} [{less.low:+.4f}, {less.high:+.4f}]"
    print(
        f"{text} = {100 * (own.mean() / base.mean() - 1):+.1f} %;"
        f" worst {np.mean(worst):.4f} ({min(worst):.4f} to {max(worst):.4f}), {100 * (np.mean(worst) / first.worst - 1):+.1f} %",
        flush=True,
    )


def _search(problems: list[Problem], effort: int) -> int:
    names = problems[0].cluster.classes
    found, cost = search_map(problems, effort, 1)
    print(f"{found.order}, {found.put_last} last: missed {cost:.4f} in the search")
    for name, classes in found.classes.items():
        print(f"{name:<8} {''.join(names[c].name[0] for c in classes)}")
    return 0
