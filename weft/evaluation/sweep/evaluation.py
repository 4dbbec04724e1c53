"""What rows say: means, comparisons with a baseline, ratios, groups; of a sweep that ran, a folder or documents.

Problems are what is sampled, so the values of one problem are averaged over its seeds first;
means, intervals and tests are over problems. In a stream of one problem every seed is a workload, and
so a sample of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import InputError
from weft.evaluation.statistics import Comparison, crossed_interval, holm_family
from weft.evaluation.sweep import scales
from weft.evaluation.sweep.aggregates import Overall, overall_of
from weft.evaluation.sweep.breaches import Breach
from weft.evaluation.sweep.config_form import Asked, Cell
from weft.evaluation.sweep.envelope import Envelope, envelopes
from weft.evaluation.sweep.metrics import Metric
from weft.evaluation.sweep.metrics import metric as metric_of
from weft.evaluation.sweep.pairing import Pairs, Sample
from weft.evaluation.sweep.store import Key, Row
from weft.evaluation.sweep.summary import Summary, bounded, summary_of
from weft.io.verb_documents import document
from weft.kinds import PROBLEMS, QUEUES, Kind
from weft.model.graph import Floats

if TYPE_CHECKING:
    from weft.evaluation.sweep.claims import Claim
    from weft.evaluation.sweep.runner import Sweep
    from weft.evaluation.sweep.training_seeds import GroupResult


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
        head = {name: value for name, value in vars(self).items() if name != "comparison"}
        return head | self.comparison.to_dict() | {"text": str(self)}


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Schedulers on the same samples, cell by cell, and what follows from their rows."""

    title: str
    """Name of the scenario; of a document its file or set."""
    source: str
    """Folder or file; empty where rows were kept nowhere."""
    metric: str
    """The cost that decides; lower is better."""
    baseline: str
    schedulers: tuple[str, ...]
    cells: tuple[Cell, ...]
    """Those of which every scheduler has a sample."""
    rows: tuple[Row, ...]
    """All rows, paired or not."""
    pairs: Pairs
    breaches: Mapping[str, Breach]
    """Schedulers whose schedules broke a rule, in any cell: none of them is best or compared."""
    unit: str = ""
    """Of times; empty where it is not known."""
    kind: Kind = PROBLEMS
    """What the schedulers acted on."""
    has_seed_samples: bool = False
    """Whether samples differ in their seed alone."""
    learned: tuple[str, ...] = ()
    """Schedulers that are policies."""
    asked: Asked | None = None
    """What the sweep was asked; None where instances cannot be made again."""
    runs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Scheduler -> the training runs it is the mean of, where it stands for several."""
    members: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Folder of runs that was asked for -> its policies, which differ in their training seed."""
    seconds: Mapping[Key, float] = field(default_factory=dict)
    fallbacks: Mapping[str, int] = field(default_factory=dict)
    """Policy -> decisions beyond its training, which a rule made; only where there are any."""
    rows_hash: str = ""
    sweep: Sweep | None = None
    """What was run, where it was run here."""

    # -- who and where ------------------------------------------------------------------------------

    @property
    def sound(self) -> tuple[str, ...]:
        """Schedulers that broke no rule."""
        return tuple(name for name in self.schedulers if name not in self.breaches)

    @property
    def ranked(self) -> tuple[str, ...]:
        """Schedulers that broke no rule; everybody where all did."""
        return self.sound or self.schedulers

    @property
    def faults(self) -> tuple[Row, ...]:
        """Rows whose schedule breaks a rule."""
        return tuple(row for row in self.rows if row.valid is False)

    @property
    def scenario(self) -> str:
        """Name of the scenario; of a document its title."""
        return self.title if self.asked is None else self.asked.name

    @property
    def samples(self) -> Mapping[str, tuple[Sample, ...]]:
        """Label of a cell -> its samples."""
        return self.pairs.samples

    @property
    def metrics(self) -> tuple[str, ...]:
        """What is summed up: all that rows have."""
        return self.pairs.metrics

    @property
    def deciding(self) -> Metric:
        """The metric that decides, with what is known of it."""
        return metric_of(self.metric)

    @property
    def num_expected(self) -> int:
        """Rows of the whole sweep, whether or not they are there."""
        return len(self.rows) if self.asked is None else self.asked.num_rows

    @property
    def num_samples(self) -> int:
        """Samples of all cells, those they share counted in each."""
        return sum(len(self.samples[cell.label]) for cell in self.cells)

    @cached_property
    def units(self) -> tuple[Sample, ...]:
        """Samples that every cell has: what statistics over all cells are over."""
        others = [set(self.samples[cell.label]) for cell in self.cells[1:]]
        first = self.samples[self.cells[0].label]
        return tuple(sample for sample in first if all(sample in own for own in others))

    @cached_property
    def varied(self) -> tuple[str, ...]:
        """Settings that differ between cells."""
        first = self.cells[0].settings
        return tuple(
            key for key, value in first.items() if any(cell.settings.get(key) != value for cell in self.cells)
        )

    @cached_property
    def setting(self) -> str:
        """The one numeric setting that differs between cells; empty where none or several do."""
        values = [cell.settings[self.varied[0]] for cell in self.cells] if len(self.varied) == 1 else [""]
        return self.varied[0] if all(isinstance(value, int | float) for value in values) else ""

    @cached_property
    def fixed(self) -> dict[str, object]:
        """Settings that are the same in every cell."""
        return {key: value for key, value in self.cells[0].settings.items() if key not in self.varied}

    @property
    def chosen(self) -> tuple[str, ...]:
        """``key=value`` of the fixed settings that are not at the defaults of the scenario."""
        usual = {} if self.asked is None else self.asked.defaults
        said = {key: setting_in_words(value) for key, value in self.fixed.items()}
        return tuple(
            f"{key}={text}" for key, text in said.items() if text != setting_in_words(usual.get(key, text))
        )

    def shown(self, scheduler: str) -> str:
        """A short name: of a path its last part, or as many parts as tell it from the others."""
        for parts in range(1, 8):
            if [_tail(name, parts) for name in self.schedulers].count(_tail(scheduler, parts)) == 1:
                return _tail(scheduler, parts)
        return scheduler

    def look(self, scheduler: str) -> int:
        """Which look it has in every figure and report of these rows: its place among those asked for."""
        names = self.schedulers if self.asked is None else self.asked.schedulers
        return names.index(self.runs_of(scheduler)[0])

    def runs_of(self, scheduler: str) -> tuple[str, ...]:
        """The training runs a scheduler stands for, or itself."""
        return self.runs.get(scheduler, (scheduler,))

    def grouped(self, runs: Mapping[str, tuple[str, ...]]) -> Evaluation:
        """The same with the runs of every group as one scheduler, their mean; a run that broke a rule breaks it for all."""
        group = {name: own for own, names in runs.items() for name in names}
        schedulers, learned = (
            tuple(dict.fromkeys(group.get(name, name) for name in names))
            for names in (self.schedulers, self.learned)
        )
        breaches = {group.get(name, name): breach for name, breach in self.breaches.items()}
        return replace(self, schedulers=schedulers, learned=learned, breaches=breaches, runs=runs)

    # -- figures ------------------------------------------------------------------------------------

    def by_run(self, metric: str, cell: str, scheduler: str) -> Floats:
        """One metric of every run on every sample: (num_runs, num_samples)."""
        return np.stack([self.pairs.values[metric, cell, name] for name in self.runs_of(scheduler)])

    def values(self, metric: str, cell: str, scheduler: str) -> Floats:
        """One metric on every sample, the mean over runs."""
        return np.asarray(self.by_run(metric, cell, scheduler).mean(axis=0))

    def costs(self, cell: str, scheduler: str) -> Floats:
        """The deciding metric, one value per sample."""
        return self.values(self.metric, cell, scheduler)

    def check_costs(self, schedulers: Sequence[str]) -> None:
        """Refuse costs that cannot be compared."""
        for cell, name in ((cell.label, name) for cell in self.cells for name in schedulers):
            costs = self.costs(cell, name)
            wrong = np.flatnonzero(scales.is_refused(self.deciding, costs))
            if len(wrong):
                where = f"{name} on {self.samples[cell][int(wrong[0])]}"
                message = f"expected {scales.expected(self.deciding)}, got {costs[wrong[0]]:g} ({where})"
                raise InputError(message, file=self.source or None, field=self.metric)

    def pooled(self, scheduler: str) -> Floats:
        """Costs of one scheduler on all samples of all cells; cells share samples, so they are not independent."""
        return np.concatenate([self.costs(cell.label, scheduler) for cell in self.cells])

    def shared(self, scheduler: str) -> Floats:
        """Costs on the samples that all cells have: (num_runs, num_units, num_cells)."""
        columns = []
        for cell in self.cells:
            places = {sample: k for k, sample in enumerate(self.samples[cell.label])}
            own = [places[sample] for sample in self.units]
            columns.append(self.by_run(self.metric, cell.label, scheduler)[:, own])
        return np.stack(columns, axis=2)

    def over_cells(self, scheduler: str) -> Floats:
        """The mean over the cells, of every sample that all of them have: (num_runs, num_units).

        It is geometric, or plain where costs may be 0.
        """
        return scales.centre(self.deciding, self.shared(scheduler), axis=2)

    def sum_up(self, metric: str, cell: str, scheduler: str) -> Summary:
        """Mean, standard error and interval of one metric, over samples and training runs."""
        values = self.by_run(metric, cell, scheduler)
        found = summary_of(cell, scheduler, metric, self.values(metric, cell, scheduler))
        if len(values) == 1 or found.low is None or not np.isfinite(values).all():
            return found
        ends = crossed_interval(values, np.zeros((1, values.shape[1])))
        return bounded(replace(found, low=ends.low, high=ends.high))

    def is_idle(self, metric: str) -> bool:
        """Whether a metric says nothing: absent somewhere, zero everywhere, or batches that are always full."""
        places = [(cell.label, name) for cell in self.cells for name in self.schedulers]
        found = np.concatenate([self.values(metric, *place) for place in places])
        constant = 1.0 if metric == "batch_fill" else 0.0
        return bool(np.isnan(found).any() or (found == constant).all())

    @cached_property
    def summary(self) -> tuple[Summary, ...]:
        """Every metric of every scheduler in every cell."""
        places = [(cell.label, name) for cell in self.cells for name in self.schedulers]
        return tuple(self.sum_up(metric, *place) for place in places for metric in self.metrics)

    def seconds_of(self, cell: str, scheduler: str) -> float:
        """Median planning time."""
        times = [self.seconds[row.key] for row in self.rows if (row.cell, row.scheduler) == (cell, scheduler)]
        return float(np.median(times))

    @cached_property
    def _by_place(self) -> dict[tuple[str, str], list[Row]]:
        found: dict[tuple[str, str], list[Row]] = {}
        for row in self.pairs.rows:
            found.setdefault((row.cell, row.scheduler), []).append(row)
        return found

    def rows_of(self, cell: str, scheduler: str) -> list[Row]:
        """Rows of one scheduler in one cell that every other one has too, by problem and seed."""
        return [row for name in self.runs_of(scheduler) for row in self._by_place.get((cell, name), [])]

    # -- what follows -------------------------------------------------------------------------------

    @cached_property
    def against(self) -> dict[tuple[str, str], Comparison]:
        """Cell, scheduler -> its comparison with the baseline, corrected for all of them (Holm).

        Only of schedulers that broke no rule, none if the baseline did; none with a single sample.
        """
        others = [name for name in self.sound if name != self.baseline] if self.baseline in self.sound else []
        cells = [cell.label for cell in self.cells if len(self.samples[cell.label]) >= 2]
        places = [(cell, name) for cell in cells for name in others]
        if places:
            self.check_costs(self.sound)
        found = [
            scales.compare(
                self.deciding, *(self.by_run(self.metric, cell, one) for one in (name, self.baseline))
            )
            for cell, name in places
        ]
        return dict(zip(places, holm_family(found), strict=True))

    @property
    def comparisons(self) -> tuple[Against, ...]:
        """The same, each with its names."""
        return tuple(
            Against(cell, name, self.baseline, self.metric, one) for (cell, name), one in self.against.items()
        )

    @cached_property
    def envelopes(self) -> tuple[Envelope, ...]:
        """Every scheduler against the best rule of each problem, where streams of many problems are run."""
        if self.kind is not QUEUES or self.has_seed_samples:
            return ()
        return tuple(
            one
            for cell in self.cells
            for one in envelopes(
                cell.label, [(name, self.costs(cell.label, name)) for name in self.sound], self.deciding
            )
        )

    @cached_property
    def groups(self) -> tuple[GroupResult, ...]:
        """Policies that differ in their training seed, together against the best rules."""
        from weft.evaluation.sweep.training_seeds import group_results

        return group_results(self, self.members)

    @cached_property
    def aggregates(self) -> tuple[Overall, ...]:
        """Typical differences over all samples and points, of the schedulers that broke no rule."""
        return overall_of({name: self.shared(name) for name in self.sound}, self.baseline, self.deciding)

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """What the rows of a stream say about learned policies."""
        from weft.evaluation.sweep.claims import claims

        return claims(self)

    def __str__(self) -> str:
        means = [one for one in self.summary if one.metric == self.metric]
        lines = [f"{one.cell or self.title}: {one.scheduler} {one.mean:.4f}" for one in means]
        return "\n".join([*lines, *map(str, self.envelopes), *map(str, self.groups)])

    def _winner(self) -> dict[str, object] | None:
        """Who is best over all points, and what that costs; None where every scheduler broke a rule."""
        from weft.evaluation.sweep.standing import prices, standing

        if not self.sound:
            return None
        winner = standing(self).winner
        return {"scheduler": winner, "behind_in": [asdict(one) for one in prices(self, winner)]}

    def to_dict(self) -> dict[str, object]:
        """The document of ``weft evaluate --json``."""
        own = {
            "scenario": self.scenario,
            "metric": self.metric,
            "metrics": [asdict(metric_of(name)) for name in self.metrics],
            "baseline": self.baseline,
            "winner": self._winner(),
            "cells": [{"cell": cell.label, "settings": dict(cell.settings)} for cell in self.cells],
            "rows": [row.to_dict() | {"seconds": self.seconds.get(row.key)} for row in self.rows],
            "summary": [asdict(one) for one in self.summary],
            "comparisons": [one.to_dict() for one in self.comparisons],
            "claims": [one.to_dict() for one in self.claims],
            "envelopes": [asdict(one) for one in self.envelopes],
            "aggregates": [asdict(one) for one in self.aggregates],
            "fallbacks": dict(self.fallbacks),
            "breaches": {name: asdict(one) for name, one in self.breaches.items()},
            "rows_hash": self.rows_hash,
            "groups": [asdict(one) for one in self.groups],
        }
        return document("evaluate", None if self.asked is None else self.asked.seeds[0], own)


def setting_in_words(value: object) -> str:
    """The value of a setting as a table shows it; lists by their parts."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(setting_in_words, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _tail(name: str, parts: int) -> str:
    return "/".join(name.split("/")[-parts:])
