"""Deadlines of driver-assistance pipelines: rules, static maps and policies over all combinations of periods, on common noise.

``macro`` is the share of deadlines missed, the mean over pipelines and combinations; ``worst`` is that of the worst pipeline of each
combination, after the mean over seeds, then the mean over combinations. Every schedule is validated unless ``--no-check`` is given.
The last columns compare with the first scheduler on the same noise. ``--search N`` looks for one static map for all instead.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

from weft import catalog
from weft.evaluation.sweep.checking import digest
from weft.model.fluid import fluid_load, fluid_misses
from weft.model.graph import Floats
from weft.model.problem import Problem, realise
from weft.model.validate import validate
from weft.scenarios import parse_assignments, scenario
from weft.schedulers.dispatchers.static_map import search_map

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
    def spread(self) -> float:
        """Half of a 95 % interval of the macro share over seeds."""
        means = self.shares.mean(axis=(0, 2))
        return float(1.96 * means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else 0.0


def main(arguments: list[str]) -> int:
    """Play and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks adas", description=__doc__)
    parser.add_argument("--scenario", default="adas-tx2")
    parser.add_argument("-s", "--schedulers", default=",".join(RULES), help="the first is the reference")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--problems", type=int, help="the first so many; default: all")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--no-check", action="store_true", help="leave the validator out")
    parser.add_argument("--search", type=int, metavar="N", help="try N maps for all combinations together")
    options = parser.parse_args(arguments)
    chosen = scenario(options.scenario, **parse_assignments(options.changes))
    count = options.problems or min(chosen.count("test") or 81, 81)
    problems = [chosen.problem("test", k) for k in range(count)]
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
    first: Found | None = None
    for name in options.schedulers.split(","):
        found = _played(name, problems, options.seeds, check=not options.no_check)
        first = first or found
        _print(name, found, first)
    return 0


def _played(name: str, problems: list[Problem], seeds: int, *, check: bool) -> Found:
    """All problems with all seeds."""
    dispatcher, started = catalog.task_dispatcher(name), time.perf_counter()
    shares, violations = [], 0
    for k, problem in enumerate(problems):
        worlds = [realise(problem, digest("jobs", 0, f"test/{k}", seed)) for seed in range(seeds)]
        found = dispatcher.run_all([problem] * seeds, worlds, list(range(seeds)))
        violations += sum(bool(validate(one)) for one in found) if check else 0
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


def _search(problems: list[Problem], effort: int) -> int:
    names = problems[0].cluster.classes
    found, cost = search_map(problems, effort, 1)
    print(f"{found.order}, {found.put_last} last: missed {cost:.4f} in the search")
    for name, classes in found.classes.items():
        print(f"{name:<8} {''.join(names[c].name[0] for c in classes)}")
    return 0
