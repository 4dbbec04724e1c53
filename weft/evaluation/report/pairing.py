"""Rows of a sweep as paired samples: what every scheduler met, and what each made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.evaluation.sweep.store import Row
from weft.model.graph import Floats


@dataclass(frozen=True)
class Sample:
    """What schedulers are paired by."""

    problem: str
    seed: int

    def __str__(self) -> str:
        return f"{self.problem}, seed {self.seed}"


def paired(rows: Sequence[Row], schedulers: Sequence[str]) -> list[Row]:
    """Rows of the problems and seeds that every scheduler has."""
    seen: dict[tuple[str, str, int], list[str]] = {}
    for row in rows:
        seen.setdefault((row.cell, row.problem, row.seed), []).append(row.scheduler)
    return [row for row in rows if len(seen[row.cell, row.problem, row.seed]) == len(schedulers)]


def samples_of(
    rows: Iterable[Row], cells: Sequence[str], has_seed_samples: bool
) -> dict[str, tuple[Sample, ...]]:
    """Samples of every cell: problems, in a stream problems with seeds."""
    found: dict[str, dict[Sample, None]] = {cell: {} for cell in cells}
    first: dict[tuple[str, str], int] = {}
    for row in (row for row in rows if row.cell in found):
        seed = row.seed if has_seed_samples else first.setdefault((row.cell, row.problem), row.seed)
        found[row.cell][Sample(row.problem, seed)] = None
    return {cell: tuple(samples) for cell, samples in found.items()}


def values_of(
    rows: Sequence[Row],
    samples: Mapping[str, tuple[Sample, ...]],
    metrics: Sequence[str],
    schedulers: Sequence[str],
    has_seed_samples: bool,
) -> dict[tuple[str, str, str], Floats]:
    """Metric, cell, scheduler -> one value per sample, the mean over its rows."""
    grouped: dict[tuple[str, str, str, int], list[Row]] = {}
    for row in rows:
        key = (row.cell, row.scheduler, row.problem, row.seed if has_seed_samples else 0)
        grouped.setdefault(key, []).append(row)
    found = {}
    for cell, own in samples.items():
        for name in schedulers:
            groups = [grouped[cell, name, s.problem, s.seed if has_seed_samples else 0] for s in own]
            for metric in metrics:
                means = [np.mean([row[metric] for row in group]) for group in groups]
                found[metric, cell, name] = np.array(means, dtype=np.float64)
    return found
