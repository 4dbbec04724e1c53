"""From a question to an answer: run a sweep, sum it up, compare each scheduler with a baseline.

Problems are what is sampled, so the values of one problem are averaged over its seeds first;
means, intervals and tests are over problems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import InputError
from weft.evaluation.statistics import Comparison, compare_paired, holm_family, mean_interval
from weft.evaluation.sweep.breaches import Breach, breaches_of
from weft.evaluation.sweep.envelope import Envelope, envelopes
from weft.evaluation.sweep.runner import Progress, Sweep, run
from weft.evaluation.sweep.store import Key, Row, open_sweep
from weft.io.verb_documents import document
from weft.kinds import QUEUES
from weft.model.graph import Floats
from weft.scenarios.settings import did_you_mean

if TYPE_CHECKING:
    from weft.evaluation.sweep.training_seeds import GroupResult

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """One metric of one scheduler in one cell, over problems."""

    cell: str
    scheduler: str
    metric: str
    mean: float
    se: float | None
    """Standard error; None with a single problem."""
    low: float | None
    high: float | None
    """Ends of the 95 % interval of the mean."""


@dataclass(frozen=True)
class Against:
    """One scheduler against the baseline in one cell, corrected for all comparisons of the sweep."""

    cell: str
    scheduler: str
    baseline: str
    metric: str
    comparison: Comparison

    def __str__(self) -> str:
        where = f"{self.cell}: " if self.cell else ""
        return f"{where}{self.comparison.summary(self.scheduler, self.baseline)}"

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        head = {
            "cell": self.cell,
            "scheduler": self.scheduler,
            "baseline": self.baseline,
            "metric": self.metric,
        }
        return head | self.comparison.to_dict() | {"text": str(self)}


@dataclass(frozen=True)
class Evaluation:
    """All rows of a sweep and what follows from them."""

    sweep: Sweep
    metric: str
    baseline: str
    rows: tuple[Row, ...]
    """By cell, problem, scheduler and seed, in the order asked for."""
    seconds: Mapping[Key, float]
    summary: tuple[Summary, ...]
    comparisons: tuple[Against, ...]
    rows_hash: str
    envelopes: tuple[Envelope, ...] = ()
    """Every scheduler against the best rule of each problem, where streams of many problems are run."""
    fallbacks: Mapping[str, int] = field(default_factory=dict)
    """Policy -> decisions beyond its training, which a rule made; only where there are any."""
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Folder of runs -> its policies, which differ in their training seed."""

    @cached_property
    def groups(self) -> tuple[GroupResult, ...]:
        """Policies that differ in their training seed, together against the best rules."""
        from weft.evaluation.sweep.training_seeds import group_results

        return group_results(self, self.members)

    @cached_property
    def breaches(self) -> Mapping[str, Breach]:
        """Schedulers whose schedules broke a rule, in any cell: none of them is best or compared."""
        return breaches_of((row.scheduler, row.valid, row.fault) for row in self.rows)

    @property
    def lawful(self) -> tuple[str, ...]:
        """Schedulers that broke no rule."""
        return _lawful(self.sweep, self.rows)

    @property
    def faults(self) -> tuple[Row, ...]:
        """Rows whose schedule breaks a rule."""
        return tuple(row for row in self.rows if row.valid is False)

    def seconds_of(self, cell: str, scheduler: str) -> float:
        """Median planning time."""
        times = [self.seconds[row.key] for row in self.rows if (row.cell, row.scheduler) == (cell, scheduler)]
        return float(np.median(times))

    def __str__(self) -> str:
        name = self.sweep.cells[0].name
        means = [one for one in self.summary if one.metric == self.metric]
        lines = [f"{one.cell or name}: {one.scheduler} {one.mean:.4f}" for one in means]
        return "\n".join([*lines, *map(str, self.envelopes), *map(str, self.groups)])

    def to_dict(self) -> dict[str, object]:
        """The document of ``weft evaluate --json``."""
        from weft.evaluation.sweep.aggregates import overall
        from weft.evaluation.sweep.claims import claims

        own = {
            "scenario": self.sweep.cells[0].name,
            "metric": self.metric,
            "baseline": self.baseline,
            "cells": [{"cell": cell.label, "settings": dict(cell.values)} for cell in self.sweep.cells],
            "rows": [row.to_dict() | {"seconds": self.seconds[row.key]} for row in self.rows],
            "summary": [asdict(one) for one in self.summary],
            "comparisons": [one.to_dict() for one in self.comparisons],
            "claims": [one.to_dict() for one in claims(self)],
            "envelopes": [asdict(one) for one in self.envelopes],
            "aggregates": [asdict(one) for one in overall(self)],
            "fallbacks": dict(self.fallbacks),
            "breaches": {name: asdict(one) for name, one in self.breaches.items()},
            "rows_hash": self.rows_hash,
            "groups": [asdict(one) for one in self.groups],
        }
        return document("evaluate", self.sweep.seeds[0], own)


def evaluate(
    sweep: Sweep,
    *,
    baseline: str | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> Evaluation:
    """Run what is left of a sweep and sum up all of it.

    Parameters
    ----------
    baseline
        Whom the others are compared with; by default the scenario's, if it takes part.
    out
        Folder in which the rows are kept, and found again if the sweep was stopped.
    """
    chosen = choose_baseline(sweep, baseline)
    with open_sweep(out, sweep.config) as store:
        store.keep_baseline(chosen)
        run(sweep, store, workers=workers, progress=progress)
        rows, seconds, rows_hash = store.rows(), store.seconds(), store.rows_hash()
        fallbacks = store.fallbacks()
    metric = sweep.cells[0].metric
    return Evaluation(
        sweep,
        metric,
        chosen,
        _in_order(sweep, rows),
        seconds,
        summarise(sweep, rows),
        compare(sweep, rows, metric, chosen),
        rows_hash,
        _envelopes(sweep, rows, metric),
        _by_scheduler(fallbacks),
    )


def _by_scheduler(fallbacks: Mapping[Key, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for (_, _, _, name), number in fallbacks.items():
        found[name] = found.get(name, 0) + number
    return found


def _envelopes(sweep: Sweep, rows: Sequence[Row], metric: str) -> tuple[Envelope, ...]:
    if sweep.kind is not QUEUES or sweep.has_seed_samples:
        return ()
    means, names = problem_means(sweep, rows, metric), _lawful(sweep, rows)
    return tuple(
        one
        for cell in sweep.cells
        for one in envelopes(cell.label, [(name, means[cell.label, name]) for name in names])
    )


def _lawful(sweep: Sweep, rows: Sequence[Row]) -> tuple[str, ...]:
    """Schedulers whose schedules broke no rule in any cell."""
    broken = breaches_of((row.scheduler, row.valid, row.fault) for row in rows)
    return tuple(name for name in sweep.schedulers if name not in broken)


def choose_baseline(sweep: Sweep, wanted: str | None) -> str:
    """The baseline asked for, else the scenario's, else the first scheduler."""
    if wanted is not None:
        if wanted not in sweep.schedulers:
            names = ", ".join(sweep.schedulers)
            hint = did_you_mean(wanted, sweep.schedulers)
            raise InputError(f"expected one of {names}, got {wanted!r}{hint}", field="baseline")
        return wanted
    usual = sweep.cells[0].baseline
    return usual if usual in sweep.schedulers else sweep.schedulers[0]


def summarise(sweep: Sweep, rows: Sequence[Row]) -> tuple[Summary, ...]:
    """Mean, standard error and interval of every metric, per cell and scheduler."""
    found = []
    for metric in sweep.kind.metrics:
        means = problem_means(sweep, rows, metric)
        for (cell, scheduler), values in means.items():
            found.append(summary_of(cell, scheduler, metric, values))
    places = {name: i for i, name in enumerate(sweep.schedulers)}
    cells = {cell.label: i for i, cell in enumerate(sweep.cells)}
    return tuple(sorted(found, key=lambda one: (cells[one.cell], places[one.scheduler])))


def summary_of(cell: str, scheduler: str, metric: str, values: Floats) -> Summary:
    """Mean, standard error and interval of one value per sample."""
    mean, num = float(values.mean()), len(values)
    if num < 2:
        return Summary(cell, scheduler, metric, mean, None, None, None)
    se = float(values.std(ddof=1) / num**0.5)
    if not np.isfinite(values).all():  # a metric that some rows lack
        return Summary(cell, scheduler, metric, mean, se, mean, mean)
    found = mean_interval(values, confidence=CONFIDENCE)
    return Summary(cell, scheduler, metric, mean, se, found.low, found.high)


def problem_means(sweep: Sweep, rows: Sequence[Row], metric: str) -> dict[tuple[str, str], Floats]:
    """Per cell and scheduler the metric of every problem, averaged over seeds; problems in one order.

    In a stream of one problem every seed is a workload, and so a sample of its own.
    """
    values: dict[tuple[str, str], dict[tuple[str, int], list[float]]] = {
        (cell.label, scheduler): {} for cell in sweep.cells for scheduler in sweep.schedulers
    }
    for row in rows:
        sample = (row.problem, row.seed if sweep.has_seed_samples else 0)
        values[row.cell, row.scheduler].setdefault(sample, []).append(float(getattr(row, metric)))
    return {
        key: np.array([np.mean(by_problem[name]) for name in sorted(by_problem)], dtype=np.float64)
        for key, by_problem in values.items()
    }


def compare(sweep: Sweep, rows: Sequence[Row], metric: str, baseline: str) -> tuple[Against, ...]:
    """Every other scheduler against the baseline, cell by cell; none with a single sample.

    Those that broke a rule are left out; if the baseline did, there is nothing to compare with.
    """
    lawful = _lawful(sweep, rows)
    if sweep.num_samples < 2 or len(lawful) < 2 or baseline not in lawful:
        return ()
    means = problem_means(sweep, rows, metric)
    pairs = [(cell.label, name) for cell in sweep.cells for name in lawful if name != baseline]
    found = [compare_paired(means[cell, name], means[cell, baseline]) for cell, name in pairs]
    return tuple(
        Against(cell, name, baseline, metric, comparison)
        for (cell, name), comparison in zip(pairs, holm_family(found), strict=True)
    )


def _in_order(sweep: Sweep, rows: Sequence[Row]) -> tuple[Row, ...]:
    places = {
        (cell.label, cell.problem_name(sweep.split, index)): (i, index)
        for i, cell in enumerate(sweep.cells)
        for index in range(sweep.num_problems)
    }
    turns = {name: i for i, name in enumerate(sweep.schedulers)}
    return tuple(sorted(rows, key=lambda r: (places[r.cell, r.problem], turns[r.scheduler], r.seed)))
