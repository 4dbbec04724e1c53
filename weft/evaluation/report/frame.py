"""What a report on a sweep stands on: the costs of several schedulers on the same samples.

A frame is made from a sweep folder, or from the JSON of ``weft compare`` or ``weft bench``. Samples
that lack a scheduler (the sweep still runs) are left out, so that everything stays paired.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from weft.errors import InputError
from weft.evaluation.report.devices import DeviceUse, device_rows, numbered
from weft.evaluation.report.pairing import Sample, paired, samples_of, values_of
from weft.evaluation.statistics import Comparison, compare_crossed, crossed_interval, holm_family
from weft.evaluation.sweep.breaches import Breach, breaches_of
from weft.evaluation.sweep.evaluation import Summary, summary_of
from weft.evaluation.sweep.store import Config, Row, read_sweep
from weft.kinds import PROBLEMS, TASKS
from weft.model.graph import Floats
from weft.scenarios.settings import did_you_mean

MANY_STREAMS = "random-stream"
"""The generator of streams whose problems differ: these are the samples, not their seeds."""


@dataclass(frozen=True)
class Cell:
    """One point of a sweep."""

    label: str
    settings: Mapping[str, object]


@dataclass(frozen=True, eq=False)
class Frame:
    """Values of schedulers on paired samples, cell by cell."""

    title: str
    source: str
    metric: str
    """The cost that decides; lower is better."""
    unit: str
    """Of times; empty where it is not known."""
    baseline: str
    schedulers: tuple[str, ...]
    cells: tuple[Cell, ...]
    samples: Mapping[str, tuple[Sample, ...]]
    """Label of a cell -> its samples."""
    values: Mapping[tuple[str, str, str], Floats]
    """Metric, cell, scheduler -> one value per sample, (num_samples,)."""
    metrics: tuple[str, ...]
    rows: tuple[Row, ...] = ()
    num_expected: int = 0
    """Rows of the whole sweep, whether or not they are there."""
    is_stream: bool = False
    """Whether jobs keep arriving."""
    learned: tuple[str, ...] = ()
    """Schedulers that are policies."""
    config: Config | None = None
    """What was asked for; None where instances cannot be made again."""
    breaches: Mapping[str, Breach] = field(default_factory=dict)
    """Schedulers whose schedules broke a rule: none of them can win."""
    runs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Scheduler -> the training runs it is the mean of, where it stands for several."""

    @property
    def lawful(self) -> tuple[str, ...]:
        """Schedulers that broke no rule; everybody where all did."""
        kept = tuple(name for name in self.schedulers if name not in self.breaches)
        return kept or self.schedulers

    @property
    def scenario(self) -> str:
        """Name of the scenario; of a comparison its title."""
        recipe = (self.config or {}).get("scenario")
        return str(recipe["name"]) if isinstance(recipe, Mapping) else self.title

    def costs(self, cell: str, scheduler: str) -> Floats:
        """The deciding metric, one value per sample."""
        return self.values[self.metric, cell, scheduler]

    def members(self, scheduler: str) -> tuple[str, ...]:
        """The training runs a scheduler stands for, or itself."""
        return self.runs.get(scheduler, (scheduler,))

    def by_run(self, metric: str, cell: str, scheduler: str) -> Floats:
        """One metric of every run on every sample: (num_runs, num_samples)."""
        return np.stack([self.values[metric, cell, name] for name in self.members(scheduler)])

    def shown(self, scheduler: str) -> str:
        """A short name: of a path its last part, or as many parts as tell it from the others."""
        for parts in range(1, 8):
            if [_tail(name, parts) for name in self.schedulers].count(_tail(scheduler, parts)) == 1:
                return _tail(scheduler, parts)
        return scheduler

    @cached_property
    def setting(self) -> str:
        """The one numeric setting that differs between cells; empty where none or several do."""
        varied = self.varied
        is_numeric = len(varied) == 1 and all(
            isinstance(cell.settings[varied[0]], int | float) for cell in self.cells
        )
        return varied[0] if is_numeric else ""

    @cached_property
    def varied(self) -> tuple[str, ...]:
        """Settings that differ between cells."""
        first = self.cells[0].settings
        return tuple(
            key for key, value in first.items() if any(cell.settings.get(key) != value for cell in self.cells)
        )

    @cached_property
    def fixed(self) -> dict[str, object]:
        """Settings that are the same in every cell."""
        return {key: value for key, value in self.cells[0].settings.items() if key not in self.varied}

    @property
    def num_samples(self) -> int:
        """Samples of all cells, those they share counted in each."""
        return sum(len(self.samples[cell.label]) for cell in self.cells)

    @property
    def has_seed_samples(self) -> bool:
        """Whether samples differ in their seed alone."""
        return self.is_stream and len({sample.problem for sample in self.units}) == 1

    def summary(self, metric: str, cell: str, scheduler: str) -> Summary:
        """Mean, standard error and interval of one metric, over samples and training runs."""
        found = summary_of(cell, scheduler, metric, self.values[metric, cell, scheduler])
        values = self.by_run(metric, cell, scheduler)
        if len(values) == 1 or found.low is None or not np.isfinite(values).all():
            return found
        ends = crossed_interval(values, np.zeros((1, values.shape[1])))
        return replace(found, low=ends.low, high=ends.high)

    @cached_property
    def against(self) -> dict[tuple[str, str], Comparison]:
        """Cell, scheduler -> its comparison with the baseline, corrected for all of them (Holm).

        Only of schedulers that broke no rule; none if the baseline did.
        """
        lawful = [name for name in self.schedulers if name not in self.breaches]
        others = [name for name in lawful if name != self.baseline] if self.baseline in lawful else []
        pairs = [
            (c.label, name) for c in self.cells for name in others if len(self.costs(c.label, name)) >= 2
        ]
        found = [
            compare_crossed(*(self.by_run(self.metric, c, one) for one in (name, self.baseline)))
            for c, name in pairs
        ]
        return dict(zip(pairs, holm_family(found), strict=True))

    def pooled(self, scheduler: str) -> Floats:
        """Costs of one scheduler on all samples of all cells; cells share samples, so they are not independent."""
        return np.concatenate([self.costs(cell.label, scheduler) for cell in self.cells])

    @cached_property
    def units(self) -> tuple[Sample, ...]:
        """Samples that every cell has: what statistics over all cells are over."""
        others = [set(self.samples[cell.label]) for cell in self.cells[1:]]
        first = self.samples[self.cells[0].label]
        return tuple(sample for sample in first if all(sample in own for own in others))

    def shared(self, scheduler: str) -> Floats:
        """Costs on the samples that all cells have: (num_runs, num_units, num_cells)."""
        columns = []
        for cell in self.cells:
            places = {sample: k for k, sample in enumerate(self.samples[cell.label])}
            own = [places[sample] for sample in self.units]
            columns.append(self.by_run(self.metric, cell.label, scheduler)[:, own])
        return np.stack(columns, axis=2)

    def overall(self, scheduler: str) -> Floats:
        """The geometric mean over the cells, of every sample that all of them have: (num_runs, num_units)."""
        return np.asarray(np.exp(np.log(self.shared(scheduler)).mean(axis=2)), dtype=np.float64)

    @cached_property
    def _grouped(self) -> dict[tuple[str, str], list[Row]]:
        found: dict[tuple[str, str], list[Row]] = {}
        names = [run for name in self.schedulers for run in self.members(name)]
        for row in paired(self.rows, names):
            found.setdefault((row.cell, row.scheduler), []).append(row)
        return found

    def rows_of(self, cell: str, scheduler: str) -> list[Row]:
        """Rows of one scheduler in one cell that every other one has too, by problem and seed."""
        return [row for name in self.members(scheduler) for row in self._grouped.get((cell, name), [])]

    def devices(self, cell: str, scheduler: str) -> tuple[DeviceUse, ...]:
        """Every device's share of busy time and of its batches; empty where rows do not say, or machines differ."""
        mine = [device_rows(row) for row in self.rows_of(cell, scheduler) if row.devices]
        lists = [[str(one["device"]) for one in row] for row in mine]
        if not lists or any(names != lists[0] for names in lists):
            return ()
        names = numbered(lists[0])
        columns = [
            [float(np.mean([float(str(row[d][key])) for row in mine])) for d in range(len(names))]
            for key in ("utilisation", "batch_fill")
        ]
        return tuple(DeviceUse(*one) for one in zip(names, *columns, strict=True))


def _tail(name: str, parts: int) -> str:
    return "/".join(name.split("/")[-parts:])


def read_frame(folder: str | Path, baseline: str | None = None) -> Frame:
    """The frame of a sweep folder, finished or not; by default with the baseline it was evaluated with."""
    with read_sweep(folder) as store:
        config, rows, kept = store.config, store.rows(), store.baseline
    if baseline is None and kept in _list(config.get("schedulers", [])):
        baseline = kept
    return frame_of(str(folder), config, rows, baseline)


def frame_of(source: str, config: Config, rows: Sequence[Row], baseline: str | None = None) -> Frame:
    """The frame of rows and of the configuration they answer."""
    try:
        recipe, cells = _checked(config)
    except (KeyError, TypeError, AttributeError, IndexError):
        raise InputError("expected the configuration of a sweep", file=source, field="config") from None
    schedulers = tuple(str(name) for name in _list(config["schedulers"]))
    is_stream = any(row.p99_jct is not None for row in rows)
    has_seed_samples = is_stream and recipe["generator"] != MANY_STREAMS
    whole = paired(rows, schedulers)
    samples = samples_of(whole, [c.label for c in cells], has_seed_samples)
    present = tuple(cell for cell in cells if samples[cell.label])
    if not present:
        raise InputError("no problem has rows of every scheduler yet", file=source)
    metrics = (TASKS if is_stream else PROBLEMS).metrics
    frame = Frame(
        title=str(recipe["name"]),
        source=source,
        metric="mean_jct" if is_stream else str(recipe["metric"]),
        unit=_unit(recipe),
        baseline=choose_baseline(baseline, _usual_baseline(recipe, config), schedulers),
        schedulers=schedulers,
        cells=present,
        samples=samples,
        values=values_of(whole, samples, metrics, schedulers, has_seed_samples),
        metrics=metrics,
        rows=tuple(rows),
        num_expected=len(cells) * _whole(config["problems"]) * len(_list(config["seeds"])) * len(schedulers),
        is_stream=is_stream,
        learned=tuple(name for name in schedulers if name in _table(recipe.get("policies", {}))),
        config=config,
        breaches=breaches_of((row.scheduler, row.valid, row.fault) for row in rows),
    )
    refuse_costs(frame)
    return frame


def _checked(config: Config) -> tuple[Mapping[str, object], tuple[Cell, ...]]:
    """The recipe and the cells of a configuration in which nothing that a report needs is missing."""
    _whole(config["problems"])
    for part in (config["seeds"], config["schedulers"], _table(config["scenario"])["settings"]):
        _list(part)[0]
    if not isinstance(config["split"], str):
        raise TypeError
    recipe = _table(config["scenario"])
    for setting in map(_table, _list(recipe["settings"])):
        _ = setting["name"], setting["default"]
    named = {key: recipe[key] for key in ("name", "generator", "metric", "baseline")}
    cells = [Cell(label, _table(values)) for label, values in _table(config["cells"]).items()]
    return {**recipe, **named}, tuple(sorted(cells, key=lambda cell: _order(cell.settings)))


def _table(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError
    return value


def _order(settings: Mapping[str, object]) -> list[tuple[int, float, str]]:
    """Cells by their settings: numbers by size, texts by letters."""
    numbers = {k: float(v) for k, v in settings.items() if isinstance(v, int | float)}
    return [(int(key not in numbers), numbers.get(key, 0.0), str(settings[key])) for key in sorted(settings)]


def _unit(recipe: Mapping[str, object]) -> str:
    """The time unit that the graph of a stream names; generated problems are in seconds."""
    text = str(recipe.get("graph") or "")
    if not text.startswith("{"):
        return "" if recipe["generator"] in ("files", "jobshop") else "s"
    try:
        unit = json.loads(text).get("time_unit", "s")
    except ValueError:
        return ""
    return unit if isinstance(unit, str) else ""


def _usual_baseline(recipe: Mapping[str, object], config: Config) -> str:
    """The scenario's own, as in :attr:`weft.scenarios.Scenario.baseline`."""
    first = _table(next(iter(_table(config["cells"]).values())))
    load = first.get("load", 0)
    is_job_stream = recipe["generator"] == "workflow" and isinstance(load, int | float) and load > 0
    return TASKS.baseline if is_job_stream else str(recipe["baseline"])


def choose_baseline(wanted: str | None, usual: str, schedulers: Sequence[str]) -> str:
    """The baseline asked for, else the usual one, else the first scheduler."""
    if wanted is None:
        return usual if usual in schedulers else schedulers[0]
    if wanted not in schedulers:
        hint = did_you_mean(wanted, schedulers)
        raise InputError(f"expected one of {', '.join(schedulers)}, got {wanted!r}{hint}", field="--baseline")
    return wanted


def refuse_costs(frame: Frame) -> None:
    """Ratios need costs above zero."""
    for cell in frame.cells:
        for name in frame.schedulers:
            costs = frame.costs(cell.label, name)
            wrong = np.flatnonzero(~(np.isfinite(costs) & (costs > 0.0)))
            if len(wrong):
                sample = frame.samples[cell.label][int(wrong[0])]
                raise InputError(
                    f"expected a number > 0, got {costs[wrong[0]]:g} ({name} on {sample})",
                    file=frame.source,
                    field=frame.metric,
                )
