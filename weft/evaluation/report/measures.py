"""How each kind of claim is measured: from a sweep, from training runs, from a benchmark.

A measure returns points, or raises :class:`Missing` with what it would need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from weft.evaluation.milestones import from_where, is_passed, is_settled
from weft.evaluation.report.claims import LEAST_SEEDS, Claim, Claims, Judged, Measured, Point
from weft.evaluation.report.devices import device_rows
from weft.evaluation.report.runs import TrainingRun
from weft.evaluation.statistics import crossed_interval
from weft.evaluation.sweep.config_form import Cell
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.summary import CONFIDENCE
from weft.model.graph import Bools, Floats


class Missing(Exception):
    """What was not handed over; the claim is then not measured."""


@dataclass(frozen=True)
class Evidence:
    """Everything a claim may be measured on."""

    sweeps: tuple[Evaluation, ...]
    runs: tuple[TrainingRun, ...] = ()
    figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Benchmark -> name of a figure -> its value."""


@dataclass(frozen=True)
class Stage:
    """The sweep on which a claim is measured, and who plays in it."""

    swept: Evaluation
    own: Cast
    rivals: tuple[Cast, ...]
    roles: tuple[str, ...]
    """Of the one that is judged, and of the rivals."""
    stand_ins: tuple[str, ...] = ()
    """Roles that another policy plays than the claim is about."""

    @property
    def casts(self) -> dict[str, Cast]:
        """Role -> who plays it."""
        return dict(zip(self.roles, (self.own, *self.rivals), strict=True))


Cast = tuple[str, ...]
"""Schedulers that play one role: several where a policy was trained with several seeds."""
Measure = Callable[[Claim, Stage], list[Point]]
"""What is measured on a sweep."""
RunMeasure = Callable[[Claim, Sequence[TrainingRun]], list[Point]]
"""What is measured on training runs."""


def judge(claims: Claims, evidence: Evidence) -> tuple[Judged, ...]:
    """Every claim with what the evidence says."""
    return tuple(_judged(claim, claims, evidence) for claim in claims.claims)


def _judged(claim: Claim, claims: Claims, evidence: Evidence) -> Judged:
    try:
        found = _measured(claim, claims, evidence)
    except Missing as reason:
        return Judged(claim, missing=str(reason))
    return Judged(claim, found, "" if found.points else "nothing to measure it on")


def _measured(claim: Claim, claims: Claims, evidence: Evidence) -> Measured:
    """The measurements of a claim, from whatever it is about."""
    if claim.measure == BENCHMARK:
        return Measured((benchmark(claim, evidence),))
    if claim.measure in RUN_MEASURES:
        runs, stand_in = _runs(claim, evidence)
        return Measured(
            tuple(RUN_MEASURES[claim.measure](claim, runs)), few=_few_runs(runs), stand_in=stand_in
        )
    stage = _stage(claim, claims, evidence)
    points = tuple(SWEEP_MEASURES[claim.measure](claim, stage))
    cast = {role: _in_words(stage.swept, names) for role, names in stage.casts.items()}
    stand_in = ", ".join(f"{cast[role]} for {role}" for role in stage.stand_ins)
    return Measured(points, stage.swept.title, cast, _few_seeds(stage, claims), stand_in)


def _in_words(swept: Evaluation, names: Cast) -> str:
    shown = ", ".join(swept.shown(name) for name in names)
    return shown if len(names) == 1 else f"{len(names)} training seeds ({shown})"


def roles_played(judged: Sequence[Judged]) -> dict[str, str]:
    """Role -> who plays it in the claims that were measured, where they have another name."""
    found: dict[str, list[str]] = {}
    for one in judged:
        for role, name in one.found.cast.items():
            if name != role and name not in found.setdefault(role, []):
                found[role].append(name)
    return {role: "; elsewhere ".join(names) for role, names in found.items()}


def _few_seeds(stage: Stage, claims: Claims) -> str:
    """Roles of policies that were trained with too few seeds to speak of others.

    A role of one name, without a pattern, is that policy and no other: it needs no more of them.
    """
    few = {
        role: len(names)
        for role, names in stage.casts.items()
        if len(names) < LEAST_SEEDS and any(name in stage.swept.learned for name in names)
        if role in stage.stand_ins or names[0] not in claims.roles.get(role, ())
    }
    return _too_few(few)


def _few_runs(runs: Sequence[TrainingRun]) -> str:
    """Recipes of which there are too few runs."""
    names = [str(run.recipe.get("name", "")) for run in runs]
    return _too_few({name: names.count(name) for name in names if names.count(name) < LEAST_SEEDS})


def _too_few(found: Mapping[str, int]) -> str:
    said = [f"{num} training seed{'' if num == 1 else 's'} of {name}" for name, num in found.items()]
    return f"on {' and '.join(said)}; {LEAST_SEEDS} are needed" if said else ""


def _stage(claim: Claim, claims: Claims, evidence: Evidence) -> Stage:
    """The first sweep with these settings in which all roles take part and keep the rules; else with stand-ins."""
    roles = (claim.of, *claim.against)
    missing, broken = roles, ""
    fitting = [
        swept
        for swept in evidence.sweeps
        if swept.scenario == claims.scenario and any(_has(cell, claim.settings) for cell in swept.cells)
    ]
    for others in ({}, claims.stand_ins):
        for swept in fitting:
            own = [role_in(swept, claims.roles.get(role, (role,))) for role in roles]
            found = [
                names or role_in(swept, others.get(role, ())) for role, names in zip(roles, own, strict=True)
            ]
            lacking = tuple(role for role, names in zip(roles, found, strict=True) if not names)
            broke = [name for names in found for name in names if name in swept.breaches]
            if not lacking and not broke:
                stand_ins = tuple(role for role, names in zip(roles, own, strict=True) if not names)
                return Stage(swept, found[0], tuple(found[1:]), roles, stand_ins)
            if not lacking:
                broken = f"no sweep in which {swept.shown(broke[0])} broke no rule"
            missing = min(missing, lacking or roles, key=len)
    where = ", ".join(f"{key}={value}" for key, value in claim.settings)
    at = f" at {where}" if where else ""
    raise Missing(broken or f"no sweep{at} with {', '.join(missing)}")


def role_in(swept: Evaluation, patterns: Sequence[str]) -> Cast:
    """The schedulers of a sweep that fit the first pattern any fits."""
    for pattern in patterns:
        names = tuple(name for name in swept.schedulers if fnmatchcase(name, pattern))
        if names:
            return names
    return ()


def _cells(swept: Evaluation, claim: Claim) -> list[Cell]:
    """The points of a sweep that a claim is about."""
    found = [
        cell
        for cell in swept.cells
        if _has(cell, (*claim.settings, *claim.at)) and len(swept.samples[cell.label]) >= 2
    ]
    if not found:
        at = ", ".join(f"{key}={value:g}" for key, value in claim.at) or "two samples or more"
        raise Missing(f"no point of the sweep with {at}")
    return found


def _has(cell: Cell, wanted: Sequence[tuple[str, object]]) -> bool:
    """Whether a point has these settings."""
    return all(_is_at(cell.settings.get(key), value) for key, value in wanted)


def _is_at(value: object, wanted: object) -> bool:
    if isinstance(value, int | float) and isinstance(wanted, int | float):
        return abs(value - wanted) < 1e-9
    return value == wanted


def _together(num_points: int) -> float:
    """The confidence of each of this many points at which all of them hold at once (Bonferroni)."""
    return 1.0 - (1.0 - CONFIDENCE) / num_points


def _costs(swept: Evaluation, cell: str, names: Cast) -> Floats:
    """Costs of those who play a role: (num_runs, num_samples)."""
    return np.stack([swept.costs(cell, name) for name in names])


def gain(claim: Claim, stage: Stage) -> list[Point]:
    """Percent below the best rival, at each point, over training and evaluation seeds."""
    cells = _cells(stage.swept, claim)
    return [_gain(stage, cell.label, _together(len(cells))) for cell in cells]


def _gain(stage: Stage, cell: str, confidence: float) -> Point:
    rivals = [_costs(stage.swept, cell, rival) for rival in stage.rivals]
    best = min(rivals, key=lambda costs: float(costs.mean()))
    own = _costs(stage.swept, cell, stage.own)
    if stage.swept.deciding.may_be_zero:
        return _gain_of_means(cell, own, best, confidence)
    found = crossed_interval(np.log(own), np.log(best), confidence=confidence)
    value, high, low = (_percent_below(log) for log in (found.value, found.low, found.high))
    return Point(cell, value, low, high)


def _gain_of_means(cell: str, own: Floats, best: Floats, confidence: float) -> Point:
    """Where costs may be 0: the difference, in percent of the mean of the best rival."""
    base = float(best.mean())
    if base <= 0.0:
        raise Missing("no percentage of a best rival that is at 0")
    found = crossed_interval(best, own, confidence=confidence)
    value, low, high = (100.0 * end / base for end in (found.value, found.low, found.high))
    return Point(cell, value, low, high)


def _percent_below(log_ratio: float) -> float:
    return 0.0 - 100.0 * math.expm1(min(log_ratio, 700.0))


def largest_gain(claim: Claim, stage: Stage) -> list[Point]:
    """The greatest of these gains; its interval allows for the choice."""
    return [max(gain(claim, stage), key=lambda point: point.value)]


def share_of_points(claim: Claim, stage: Stage) -> list[Point]:
    """Percentage of the points at which the gain is above zero, interval and all."""
    found = gain(claim, stage)
    share = 100.0 * sum(point.low > 0.0 for point in found) / len(found)
    return [Point(f"{len(found)} points", share, share, share)]


def _devices(claim: Claim, stage: Stage, column: str) -> list[Point]:
    """Difference to the rival over devices of a pattern, in points of a percentage, paired by sample."""
    cells = _cells(stage.swept, claim)
    points = []
    for cell in cells:
        own, other = (
            [_device_means(stage.swept, cell.label, name, claim.devices, column) for name in cast]
            for cast in (stage.own, stage.rivals[0])
        )
        lengths = {len(one) for one in (*own, *other)}
        if len(lengths) != 1 or lengths.pop() < 2:
            raise Missing(f"no rows of devices {claim.devices}")
        found = crossed_interval(np.stack(own), np.stack(other), confidence=_together(len(cells)))
        points.append(Point(cell.label, found.value, found.low, found.high))
    return points


def _device_means(swept: Evaluation, cell: str, scheduler: str, pattern: str, column: str) -> Floats:
    """Percentage per sample, the mean over the devices whose names fit."""
    means = []
    for row in swept.rows_of(cell, scheduler):
        uses = [use for use in device_rows(row) if fnmatchcase(str(use["device"]), pattern)]
        if uses:
            means.append(100.0 * float(np.mean([float(str(use[column])) for use in uses])))
    return np.array(means)


def device_use(claim: Claim, stage: Stage) -> list[Point]:
    """How much more of the time the devices are busy than under the rival."""
    return _devices(claim, stage, "utilisation")


def device_fill(claim: Claim, stage: Stage) -> list[Point]:
    """How much fuller the batches are than under the rival."""
    return _devices(claim, stage, "batch_fill")


def _runs(claim: Claim, evidence: Evidence) -> tuple[list[TrainingRun], str]:
    """Runs of the recipes a claim is about, as these are; else of stand-ins, with who they are."""
    named, others = (_runs_of(patterns, evidence) for patterns in (claim.runs, claim.stand_in_runs))
    found = [run for run in named if not run.is_changed]
    if found:
        return found, ""
    found = [run for run in others if not run.is_changed]
    if not found:
        changed = " without --set and --from" if named or others else ""
        raise Missing(f"no run of {', '.join(claim.runs)}{changed}")
    return (
        found,
        f"{', '.join(dict.fromkeys(str(run.recipe['name']) for run in found))} for {', '.join(claim.runs)}",
    )


def _runs_of(patterns: Sequence[str], evidence: Evidence) -> list[TrainingRun]:
    names = [str(run.recipe.get("name", "")) for run in evidence.runs]
    pairs = zip(evidence.runs, names, strict=True)
    return [run for run, name in pairs if any(fnmatchcase(name, pattern) for pattern in patterns)]


def minutes_per_samples(claim: Claim, runs: Sequence[TrainingRun]) -> list[Point]:
    """Minutes of wall time that this many decisions take, at the pace of each run."""
    points = []
    for run in runs:
        if run.seconds is not None and run.samples:
            value = run.seconds / 60.0 * claim.samples / run.samples
            points.append(Point(run.name, value, value, value))
    return points


def passed_after(claim: Claim, runs: Sequence[TrainingRun]) -> list[Point]:
    """Millions of decisions from which on a column of the metrics stays below zero."""
    return _from_where(claim, runs, is_passed)


def converged_after(claim: Claim, runs: Sequence[TrainingRun]) -> list[Point]:
    """Millions of decisions from which on a column stays within a point of its final value."""
    return _from_where(claim, runs, is_settled)


def _from_where(claim: Claim, runs: Sequence[TrainingRun], test: Callable[[Floats], Bools]) -> list[Point]:
    """Per run the millions of decisions from which on a test holds; infinite where it never does."""
    points = []
    for run in runs:
        samples, values = run.column(claim.column)
        if len(samples):
            first = from_where(samples, test(values))
            value = float("inf") if first is None else first / 1e6
            points.append(Point(run.name, value, value, value))
    if not points:
        raise Missing(f"no run logged {claim.column}")
    return points


def benchmark(claim: Claim, evidence: Evidence) -> Point:
    """A figure that ``python -m benchmarks NAME --json FILE`` wrote."""
    found = dict(evidence.figures).get(claim.benchmark, {})
    if claim.figure not in found:
        raise Missing(f"no figures of the benchmark {claim.benchmark}")
    value = float(found[claim.figure])
    return Point("", value, value, value)


BENCHMARK = "benchmark"
SWEEP_MEASURES: dict[str, Measure] = {
    "gain": gain,
    "largest-gain": largest_gain,
    "share-of-points": share_of_points,
    "device-use": device_use,
    "device-fill": device_fill,
}
RUN_MEASURES: dict[str, RunMeasure] = {
    "minutes-per-samples": minutes_per_samples,
    "passed-after": passed_after,
    "converged-after": converged_after,
}
MEASURES = (*SWEEP_MEASURES, *RUN_MEASURES, BENCHMARK)
"""Names in the TOML."""
