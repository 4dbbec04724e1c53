"""Means of rules on edge clusters beside those of an independent implementation of the same rules."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft import catalog
from weft.kinds import ELASTIC
from weft.scenarios import scenario
from weft.schedulers.allocators.running import run_all

FIRST_SEED = 100


class Reference(NamedTuple):
    """A rule in a setting, and what another implementation reports for it over twenty episodes of its own."""

    where: str
    settings: tuple[tuple[str, float], ...]
    name: str
    mean: float
    error: float
    """The standard error of the mean."""


_SLOWER = (("arrival_rate", 2.0),)
REFERENCES = (
    Reference("edge-single-3", (), "random", 17.48, 0.61),
    Reference("edge-single-3", (), "min", 15.06, 0.49),
    Reference("edge-single-3", (), "optimus-swapped", 9.09, 0.20),
    Reference("edge-single-3", (), "optimus", 6.79, 0.10),
    Reference("edge-single-3", (), "tiresias-min", 15.72, 0.45),
    Reference("edge-single-3", (), "static-10+lowest", 5.45, 0.13),
    Reference("edge-single-3", (), "static-5+lowest", 5.96, 0.12),
    Reference("edge-multi-3", (), "random", 21.68, 0.86),
    Reference("edge-multi-3", (), "min", 26.23, 0.83),
    Reference("edge-multi-3", (), "optimus-swapped", 8.33, 0.34),
    Reference("edge-multi-3", (), "optimus", 4.23, 0.08),
    Reference("edge-multi-3", (), "tiresias", 8.11, 0.19),
    Reference("edge-multi-3", (), "static-10+lowest", 5.26, 0.14),
    Reference("edge-multi-3", (), "static-5+lowest", 5.63, 0.11),
    Reference("edge-multi-3", _SLOWER, "random", 11.10, 0.62),
    Reference("edge-multi-3", _SLOWER, "min", 16.26, 0.74),
)


def measured(one: Reference, num_seeds: int) -> tuple[float, float]:
    """Our mean over so many episodes, and its standard error."""
    problem = scenario(one.where, **dict(one.settings)).elastic("test", 0)
    seeds = range(FIRST_SEED, FIRST_SEED + num_seeds)
    means = np.array(
        [run.mean_completion for run in run_all(catalog.find(one.name, ELASTIC), problem, seeds)]
    )
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(num_seeds))


def distance(one: Reference, mean: float, error: float) -> float:
    """How far our mean is above the reference, in standard errors of the difference."""
    return float((mean - one.mean) / np.hypot(error, one.error))


def show(num_seeds: int) -> None:
    """Print all of them as a table in Markdown."""
    print(f"| scenario | allocator | {num_seeds} episodes | reference | distance in standard errors |")
    print("| --- | --- | --- | --- | --- |")
    for one in REFERENCES:
        mean, error = measured(one, num_seeds)
        where = f"`{one.where}`" + "".join(f", `{key}={value:g}`" for key, value in one.settings)
        print(
            f"| {where} | `{one.name}` | {mean:.2f} ± {error:.2f} | {one.mean:.2f} ± {one.error:.2f} "
            f"| {distance(one, mean, error):+.2f} |",
            flush=True,
        )
