"""Learning curves of training runs: what their metrics say, in numbers, in words and as a picture.

A curve is one run, or a folder of runs that differ in their seed. Reads ``metrics.jsonl``, which the
training wrote; job times are those of the validation streams. Dispatchers are judged by samples,
one-shot planners by updates; allocators by the mean completion time of their validation episodes, policies of
pipelines by the share of deadlines that they miss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from weft.errors import InputError
from weft.evaluation.milestones import LAST, final, from_where, is_passed, is_settled
from weft.evaluation.statistics import Interval, mean_interval
from weft.io.runs import METRICS, VALIDATED, RunRecord, read_record, run_folders
from weft.model.graph import Bools, Floats, Ints

COMPLETION = "validation"
"""The mean completion time of allocators in validation, in world steps; the best of their ways to act."""
_SHARE = "_macro"
MISSED = f"validated{_SHARE}"
"""The share of deadlines that is missed in validation, the mean over pipelines."""
_NO_RULES = ("validated", "miss")
"""What the policy itself misses, in validation and in training."""


@dataclass(frozen=True, eq=False)
class Curve:
    """Judgements of the runs of one folder, at the same numbers of samples."""

    name: str
    runs: tuple[str, ...]
    samples: Ints  # (num_judgements,) updates where it is of a one-shot planner
    columns: dict[str, Floats]
    """Name of a metric -> (num_runs, num_judgements)."""
    against: dict[str, str]
    """Metric with the job time against rules, in percent -> which rules."""
    varied: str
    """The setting whose values the judgements are at; empty: not known."""

    def final(self, column: str) -> Floats:
        """Final value (num_runs,) of a metric."""
        return final(self.columns[column])

    @property
    def is_planner(self) -> bool:
        """Whether it is of a planner, and so over updates."""
        return all(name in self.columns for name in VALIDATED)

    @property
    def is_allocator(self) -> bool:
        """Whether it is of agents of edge clusters."""
        return COMPLETION in self.columns

    @property
    def is_of_deadlines(self) -> bool:
        """Whether it is of pipelines with deadlines."""
        return MISSED in self.columns

    @property
    def rules_missed(self) -> dict[str, float]:
        """Rule -> the share of the same deadlines that it misses."""
        known = {name.removesuffix(_SHARE): name for name in self.columns if name.endswith(_SHARE)}
        rules = [name for name in known if name not in _NO_RULES and not name.endswith("_held_out")]
        return {name: float(self.columns[known[name]].mean()) for name in rules}

    @property
    def points(self) -> tuple[str, ...]:
        """Values of what varies at which it is judged, as text."""
        return tuple(name.removeprefix("jct_") for name in self.columns if name.startswith("jct_"))


def read_curve(folder: str | Path) -> Curve:
    """The curve of a run folder, or of a folder of runs ``seed-1``, ``seed-2``, ..."""
    path = Path(folder)
    runs = [read_record(run) for run in run_folders(path)]
    judged = [_judgements(run) for run in runs]
    if not judged:
        raise InputError("expected a run, or runs in folders seed-1, seed-2, ...", file=str(folder))
    for run, rows in zip(runs, judged, strict=True):
        if not rows:
            message = "expected a judgement by job time, makespan or missed deadlines, got none"
            raise InputError(message, file=str(run.folder))
    common = [n for n in judged[0] if all(n in other for other in judged)]
    if not common:
        raise InputError(
            "expected a judgement of every run after the same samples or updates", file=str(folder)
        )
    names = [key for key in judged[0][common[0]] if all(key in rows[n] for rows in judged for n in common)]
    columns = {key: np.array([[rows[n][key] for n in common] for rows in judged]) for key in names}
    names, samples = [run.folder.name for run in runs], np.array(common, np.int64)
    return Curve(path.name, tuple(names), samples, columns, runs[0].against, runs[0].varied)


def _judgements(run: RunRecord) -> dict[int, dict[str, float]]:
    """Samples, or updates -> the numbers of each row that has a judgement."""
    found = {}
    for line, row in enumerate(run.rows, start=1):
        if any(
            key in (*VALIDATED, *run.against, COMPLETION, MISSED) or key.startswith("jct_") for key in row
        ):
            numbers = {key: value for key, value in row.items() if isinstance(value, int | float)}
            if run.counted not in numbers:
                file = str(run.folder / METRICS)
                raise InputError("expected a number", file=file, field=run.counted, line=line)
            found[int(numbers[run.counted])] = numbers
    return found


@dataclass(frozen=True)
class Spread:
    """A percentage over training seeds."""

    mean: float
    low: float | None
    high: float | None
    """Ends of the 95 % interval; None with a single seed."""

    @classmethod
    def of(cls, values: Floats, least: float = -100.0) -> Spread:
        """The spread of these values, none of which can be below ``least``."""
        if len(values) < 2:
            return cls(float(values.mean()), None, None)
        return cls.within(mean_interval(values), least)

    @classmethod
    def within(cls, found: Interval, least: float = -100.0) -> Spread:
        """An interval that does not go below ``least``."""
        return cls(found.value, max(found.low, least), found.high)

    def __str__(self) -> str:
        interval = "" if self.low is None else f" ({self.low:+.1f} to {self.high:+.1f})"
        return f"{self.mean:+.1f} %{interval}"


@dataclass(frozen=True)
class Course:
    """How a figure of one-shot planners went: percent above the bound, over training seeds."""

    said: str
    first: Spread
    first_update: int
    last: Spread
    last_update: int
    best: Spread
    """Over the seeds, the lowest of each."""

    @classmethod
    def of(cls, curve: Curve, column: str) -> Course:
        """The course of one column of a curve."""
        values, updates = curve.columns[column], curve.samples
        first, last, best = (
            Spread.of(one, least=0.0) for one in (values[:, 0], values[:, -1], values.min(1))
        )
        return cls(VALIDATED[column], first, int(updates[0]), last, int(updates[-1]), best)

    def __str__(self) -> str:
        return (
            f"{self.said}, above the bound: {self.first} after {_updates(self.first_update)}, "
            f"{self.last} after {_updates(self.last_update)}, at best {self.best}"
        )


def _updates(number: int) -> str:
    return f"{number:,} update{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Findings:
    """What a curve says; numbers of samples are per run, None where it never happened."""

    name: str
    num_runs: int
    passed_on_average: tuple[int | None, ...]
    """Samples from which the policy is below the best of the baselines, averaged over the points."""
    passed_everywhere: tuple[int | None, ...]
    """The same at every point that is judged."""
    converged: tuple[int | None, ...]
    """Samples from which the figure stays within a percentage point of its final value; None also
    where there are too few judgements to say."""
    baselines: Spread | None
    """Final percent above the best of the baselines; negative is below."""
    envelope: Spread | None
    """Final percent above the best of the rules that score it."""
    num_judgements: int = 0
    courses: tuple[Course, ...] = ()
    """Of one-shot planners alone: greedy, and best of 16."""
    against: dict[str, str] = field(default_factory=dict)
    """Metric with the job time against rules -> which rules."""
    varied: str = ""
    """The setting whose values the points are; empty: not known."""
    completion: tuple[float, float, float] | None = None
    """Mean completion time of allocators over training seeds: first, last, and the lowest of each."""
    missed: tuple[float, float, float] | None = None
    """The same of the percentage of deadlines that policies of pipelines miss."""
    rules_missed: dict[str, float] = field(default_factory=dict)
    """Rule -> the percentage that it misses."""

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.num_runs} training seed{'' if self.num_runs == 1 else 's'}"]
        if self.baselines is not None:
            rules = self.against["baselines_percent"]
            lines.append(f"  below {rules}: on average {_after(self.passed_on_average)}")
            lines.append(
                f"  at every {self.varied or 'point'} that is judged: {_after(self.passed_everywhere)}"
            )
            lines.append(f"  converged (within 1 point of the final value): {self._where_settled()}")
            lines.append(f"  in the end {self.baselines} against {rules}")
        if self.envelope is not None:
            lines.append(f"  in the end {self.envelope} against {self.against['envelope_percent']}")
        lines += [f"  {course}" for course in self.courses]
        if self.completion is not None:
            first, last, best = (f"{value:.2f}" for value in self.completion)
            lines.append(
                f"  mean completion time in validation: {first} steps at first, {last} in the end, {best} at best"
            )
        return "\n".join([*lines, *self._of_deadlines()])

    def _of_deadlines(self) -> list[str]:
        """What is said of pipelines."""
        if self.missed is None:
            return []
        first, last, best = (f"{value:.2f} %" for value in self.missed)
        rules = ", ".join(f"{name} {value:.2f} %" for name, value in self.rules_missed.items())
        return [
            f"  deadlines missed in validation: {first} at first, {last} in the end, {best} at best; {rules}",
            f"  below the best of these rules: {_after(self.passed_on_average)}",
        ]

    def _where_settled(self) -> str:
        """From where the curve stays near its end, or why that cannot be said."""
        if self.num_judgements < 2 * LAST:
            return f"cannot be said from {self.num_judgements} judgements, of {2 * LAST} at least"
        if all(samples is None for samples in self.converged):
            return "not yet, the last judgements differ by more"
        return _after(self.converged).replace("never", "not yet")


def _after(samples: Sequence[int | None]) -> str:
    known = sorted(n for n in samples if n is not None)
    if not known:
        return "never"
    span = f"after {known[0]:,}" + (f" to {known[-1]:,}" if known[-1] > known[0] else "") + " samples"
    missing = len(samples) - len(known)
    return span + (f" (never in {missing} of {len(samples)} runs)" if missing else "")


def findings(curve: Curve) -> Findings:
    """What a curve says about passing the baselines and converging."""
    made = Findings(
        curve.name,
        len(curve.runs),
        (),
        (),
        (),
        None,
        None,
        len(curve.samples),
        (),
        curve.against,
        curve.varied,
    )
    if curve.is_planner:
        return replace(made, courses=tuple(Course.of(curve, column) for column in VALIDATED))
    if curve.is_allocator:
        times = curve.columns[COMPLETION]
        ends = (times[:, 0], times[:, -1], times.min(1))
        made = replace(made, completion=tuple(float(one.mean()) for one in ends))  # type: ignore[arg-type]
    if curve.is_of_deadlines:
        return _of_deadlines(made, curve)
    if "envelope_percent" in curve.columns:
        made = replace(made, envelope=Spread.of(curve.final("envelope_percent")))
    if "baselines_percent" not in curve.columns:
        return made
    average = curve.columns["baselines_percent"]
    worst = np.max([curve.columns[f"baselines_percent_{p}"] for p in curve.points], axis=0)
    return replace(
        made,
        passed_on_average=_from_where(curve, is_passed(average)),
        passed_everywhere=_from_where(curve, is_passed(worst)),
        converged=_from_where(curve, is_settled(average)),
        baselines=Spread.of(curve.final("baselines_percent")),
    )


def _of_deadlines(made: Findings, curve: Curve) -> Findings:
    """The same with what is said of pipelines."""
    shares, rules = curve.columns[MISSED], curve.rules_missed
    first, last, best = (100.0 * float(one.mean()) for one in (shares[:, 0], shares[:, -1], shares.min(1)))
    is_below = shares < min(rules.values(), default=0.0)
    return replace(
        made,
        passed_on_average=_from_where(curve, np.asarray(is_below)),
        missed=(first, last, best),
        rules_missed={name: 100.0 * share for name, share in rules.items()},
    )


def _from_where(curve: Curve, is_so: Bools) -> tuple[int | None, ...]:
    """Per run the samples from which something holds at every later judgement."""
    return tuple(from_where(curve.samples, row) for row in is_so)


@dataclass(frozen=True)
class Catching:
    """When a tuned policy equals a specialist: within this many percent of its final job time."""

    name: str
    specialist: str
    point: str
    within_percent: float
    wanted: float
    """The specialist's final job time, the mean over its runs."""
    samples: tuple[int | None, ...]
    """Per run of the tuned policy, the first judgement that good; None: never."""
    specialist_samples: tuple[int | None, ...]
    """The same for the specialist itself."""

    def __str__(self) -> str:
        return (
            f"{self.name} is within {self.within_percent:g} % of {self.specialist} at {self.point} "
            f"({self.wanted:.2f}): {_after(self.samples)}; {self.specialist} itself: "
            f"{_after(self.specialist_samples)}"
        )


def catching(tuned: Curve, specialist: Curve, within_percent: float = 1.0) -> Catching:
    """The samples until a fine-tuned policy equals a specialist trained from scratch at one value of what varies."""
    shared = [p for p in specialist.points if p in tuned.points]
    if not shared or len(specialist.points) != 1:
        raise InputError(
            f"expected a specialist of one point at which {tuned.name} is judged too, got "
            f"{', '.join(specialist.points) or 'none'}",
            field="specialist",
        )
    column = f"jct_{shared[0]}"
    wanted = float(specialist.final(column).mean())
    limit = wanted * (1.0 + within_percent / 100.0)
    return Catching(
        tuned.name,
        specialist.name,
        f"{specialist.varied}={shared[0]}" if specialist.varied else shared[0],
        within_percent,
        wanted,
        _first(tuned, column, limit),
        _first(specialist, column, limit),
    )


def _first(curve: Curve, column: str, limit: float) -> tuple[int | None, ...]:
    found = []
    for row in curve.columns[column]:
        good = np.flatnonzero(row <= limit)
        found.append(int(curve.samples[good[0]]) if len(good) else None)
    return tuple(found)
