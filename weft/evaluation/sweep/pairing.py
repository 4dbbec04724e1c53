"""Rows as paired samples: what every scheduler met, and what each made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.evaluation.sweep.store import Row
from weft.model.graph import Floats


@dataclass(frozen=True, order=True)
class Sample:
    """What schedulers are paired by."""

    problem: str
    seed: int

    def __str__(self) -> str:
        return f"{self.problem}, seed {self.seed}"


@dataclass(frozen=True, eq=False)
class Pairs:
    """Rows of the problems and seeds that every scheduler has, and their figures sample by sample."""

    rows: tuple[Row, ...]
    metrics: tuple[str, ...]
    samples: Mapping[str, tuple[Sample, ...]]
    """Label of a cell -> its samples, in one order for all schedulers."""
    values: Mapping[tuple[str, str, str], Floats]
    """Metric, cell, scheduler -> one value per sample, the mean over its rows: (num_samples,)."""


def pairs_of(
    rows: Sequence[Row], schedulers: Sequence[str], cells: Sequence[str], has_seed_samples: bool
) -> Pairs:
    """Pair rows by problem, and by seed where every seed is a workload of its own.

    Samples that lack a scheduler (the sweep still runs) are left out.
    """
    seen: dict[tuple[str, str, int], int] = {}
    for row in rows:
        place = (row.cell, row.problem, row.seed)
        seen[place] = seen.get(place, 0) + 1
    whole = tuple(row for row in rows if seen[row.cell, row.problem, row.seed] == len(schedulers))
    grouped: dict[tuple[str, str], dict[Sample, list[Row]]] = {}
    first: dict[tuple[str, str], int] = {}
    for row in whole:
        seed = row.seed if has_seed_samples else first.setdefault((row.cell, row.problem), row.seed)
        own = grouped.setdefault((row.cell, row.scheduler), {})
        own.setdefault(Sample(row.problem, seed), []).append(row)
    samples = {cell: tuple(sorted(grouped.get((cell, schedulers[0]), {}))) for cell in cells}
    metrics = tuple(dict.fromkeys(name for row in whole for name in row.metrics))
    values = {
        (metric, cell, name): np.array(
            [np.mean([row[metric] for row in grouped[cell, name][sample]]) for sample in samples[cell]]
        )
        for cell in cells
        if samples[cell]
        for name in schedulers
        for metric in metrics
    }
    return Pairs(whole, metrics, samples, values)
