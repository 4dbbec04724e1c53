"""Mean job times of fifo, mru and depth-first against the reference simulator, 40 seeds of weft's own draws.

The reference figures are means over 40 seeds (fifo, mru) or 6 (depth-first) of 10,000 jobs, drawn by
that simulator. Workloads differ, so the target is statistical: within two standard errors of the
difference at every p(c).
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np

from weft.evaluation.sweep.queue_runs import play, workload_seed
from weft.scenarios import scenario

PLACES = (0.0, 0.2, 0.5, 0.8, 1.0)
"""p(c) of the columns."""
REFERENCE = {
    "fifo": ((160.18, 139.01, 91.09, 53.56, 36.47), (2.45, 1.57, 0.30, 0.11, 0.02)),
    "mru": ((137.87, 124.23, 94.47, 58.15, 37.74), (0.25, 0.25, 0.22, 0.14, 0.03)),
    "depth-first": ((145.18, 126.77, 94.19, 55.10, 36.52), (2.54, 1.26, 1.24, 0.28, 0.06)),
}
"""Dispatcher -> mean job time in ms and its standard error at every place."""
MOST_ERRORS = 2.0


@dataclass(frozen=True)
class Figure:
    """One dispatcher at one p(c), beside the reference."""

    scheduler: str
    p_c: float
    reference: float
    reference_se: float
    mean: float
    se: float

    @property
    def errors(self) -> float:
        """Difference in standard errors of the difference."""
        return (self.mean - self.reference) / float(np.hypot(self.se, self.reference_se))

    @property
    def is_reached(self) -> bool:
        """Whether the figure is within the target."""
        return abs(self.errors) <= MOST_ERRORS


def measured(num_seeds: int, jobs: int) -> list[Figure]:
    """All figures, each from this many streams; says on stderr how far it is."""
    seeds = [workload_seed(0, "test/0", seed) for seed in range(num_seeds)]
    figures = []
    for name, (means, errors) in REFERENCE.items():
        for p_c, mean, error in zip(PLACES, means, errors, strict=True):
            found = play(name, scenario("conditional", p_c=p_c, jobs=jobs).stream("test", 0), seeds).mean_jct
            own = float(found.std(ddof=1) / len(found) ** 0.5)
            figures.append(Figure(name, p_c, mean, error, float(found.mean()), own))
            print(f"{len(figures)} of {len(REFERENCE) * len(PLACES)}", file=sys.stderr)
    return figures


def main(arguments: list[str]) -> int:
    """Print the table; 1 if a figure is further off than two standard errors."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks reference", description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs per seed")
    options = parser.parse_args(arguments)
    figures = measured(options.seeds, options.jobs)
    print(f"{'dispatcher':<12} {'p(c)':>5} {'reference':>10} {'se':>6} {'weft':>8} {'se':>6} {'errors':>7}")
    for one in figures:
        print(
            f"{one.scheduler:<12} {one.p_c:>5.1f} {one.reference:>10.2f} {one.reference_se:>6.2f} "
            f"{one.mean:>8.2f} {one.se:>6.2f} {one.errors:>+7.2f}{'' if one.is_reached else '  off'}"
        )
    is_reached = all(one.is_reached for one in figures)
    print(f"target (within {MOST_ERRORS:g} standard errors): {'reached' if is_reached else 'missed'}")
    return 0 if is_reached else 1
