"""How each kind of claim is measured: from a sweep, from training runs, from a benchmark.

A measure returns points, or raises :class:`Missing` with what it would need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from weft.evaluation.evaluate import summary_of
from weft.evaluation.milestones import from_where, is_passed, is_settled
from weft.evaluation.report.claims import Claim, Claims, Judged, Point
from weft.evaluation.report.frame import Cell, Frame, device_rows
from weft.evaluation.report.runs import TrainingRun
from weft.evaluation.statistics import compare_paired
from weft.model.graph import Bools, Floats


class Missing(Exception):
    """What was not handed over; the claim is then not measured."""


@dataclass(frozen=True)
class Evidence:
    """Everything a claim may be measured on."""

    frames: tuple[Frame, ...]
    runs: tuple[TrainingRun, ...] = ()
    figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Benchmark -> name of a figure -> its value."""


Measure = Callable[[Claim, Claims, Evidence], list[Point]]


def judge(claims: Claims, evidence: Evidence) -> tuple[Judged, ...]:
    """Every claim with what the evidence says."""
    return tuple(_judged(claim, claims, evidence) for claim in claims.claims)


def _judged(claim: Claim, claims: Claims, evidence: Evidence) -> Judged:
    try:
        found = MEASURES[claim.measure](claim, claims, evidence)
        return Judged(claim, tuple(found), "" if found else "nothing to measure it on")
    except Missing as reason:
        return Judged(claim, (), str(reason))


Cast = tuple[str, ...]
"""Schedulers that play one role: several where a policy was trained with several seeds."""


def roles_played(claims: Claims, evidence: Evidence) -> dict[str, str]:
    """Role -> the schedulers of the sweeps that play it, where they have another name."""
    found: dict[str, str] = {}
    for frame in evidence.frames:
        if frame.scenario == claims.scenario:
            for role, patterns in claims.roles.items():
                names = role_in(frame, patterns)
                if names and names != (role,):
                    found.setdefault(role, " and ".join(frame.shown(name) for name in names))
    return found


def _sweep(claim: Claim, claims: Claims, evidence: Evidence) -> tuple[Frame, Cast, list[Cast]]:
    """The first sweep in which all roles take part and keep the rules: the frame, who is judged, the rivals."""
    wanted = [claim.of, *claim.against]
    missing, broken = wanted, ""
    for frame in evidence.frames:
        if frame.scenario == claims.scenario:
            found = {role: role_in(frame, claims.roles.get(role, (role,))) for role in wanted}
            lacking = [role for role, names in found.items() if not names]
            broke = [name for names in found.values() for name in names if name in frame.breaches]
            if not lacking and not broke:
                return frame, found[claim.of], [found[role] for role in claim.against]
            if not lacking:
                broken = f"no sweep in which {frame.shown(broke[0])} broke no rule"
            missing = min(missing, lacking or wanted, key=len)
    raise Missing(broken or f"no sweep with {', '.join(missing)}")


def role_in(frame: Frame, patterns: Sequence[str]) -> Cast:
    """The schedulers of a sweep that fit the first pattern any fits."""
    for pattern in patterns:
        names = tuple(name for name in frame.schedulers if fnmatchcase(name, pattern))
        if names:
            return names
    return ()


def _costs(frame: Frame, cell: str, names: Cast) -> Floats:
    """Cost per sample, the mean over those who play the role."""
    return np.asarray(np.mean([frame.costs(cell, name) for name in names], axis=0), dtype=np.float64)


def _cells(frame: Frame, claim: Claim) -> list[Cell]:
    """The points of a sweep that a claim is about."""
    found = [
        cell
        for cell in frame.cells
        if all(_is_at(cell.settings.get(key), value) for key, value in claim.at)
        and len(frame.samples[cell.label]) >= 2
    ]
    if not found:
        at = ", ".join(f"{key}={value:g}" for key, value in claim.at) or "two samples or more"
        raise Missing(f"no point of the sweep with {at}")
    return found


def _is_at(value: object, wanted: float) -> bool:
    return isinstance(value, int | float) and abs(value - wanted) < 1e-9


def gain(claim: Claim, claims: Claims, evidence: Evidence) -> list[Point]:
    """Percent below the best rival, at each point."""
    frame, names, rivals = _sweep(claim, claims, evidence)
    points = []
    for cell in _cells(frame, claim):
        best = min(
            (_costs(frame, cell.label, rival) for rival in rivals), key=lambda costs: float(costs.mean())
        )
        found = compare_paired(_costs(frame, cell.label, names), best)
        points.append(Point(cell.label, -found.percent, -found.high_percent, -found.low_percent))
    return points


def largest_gain(claim: Claim, claims: Claims, evidence: Evidence) -> list[Point]:
    """The greatest of these gains."""
    return [max(gain(claim, claims, evidence), key=lambda point: point.value)]


def share_of_points(claim: Claim, claims: Claims, evidence: Evidence) -> list[Point]:
    """Percentage of the points at which the gain is above zero, interval and all."""
    found = gain(claim, claims, evidence)
    share = 100.0 * sum(point.low > 0.0 for point in found) / len(found)
    return [Point(f"{len(found)} points", share, share, share)]


def _devices(claim: Claim, claims: Claims, evidence: Evidence, column: str) -> list[Point]:
    """Difference to the rival over devices of a pattern, in points of a percentage, paired by sample."""
    frame, names, rivals = _sweep(claim, claims, evidence)
    points = []
    for cell in _cells(frame, claim):
        own, other = (_uses(frame, cell.label, cast, claim.devices, column) for cast in (names, rivals[0]))
        if len(own) < 2 or len(own) != len(other):
            raise Missing(f"no rows of devices {claim.devices}")
        found = summary_of(cell.label, claim.of, column, own - other)
        low = found.mean if found.low is None else found.low
        high = found.mean if found.high is None else found.high
        points.append(Point(cell.label, found.mean, low, high))
    return points


def _uses(frame: Frame, cell: str, names: Cast, pattern: str, column: str) -> Floats:
    """Percentage per sample, the mean over those who play the role."""
    found = [_device_means(frame, cell, name, pattern, column) for name in names]
    return np.asarray(np.mean(found, axis=0), dtype=np.float64)


def _device_means(frame: Frame, cell: str, scheduler: str, pattern: str, column: str) -> Floats:
    """Percentage per sample, the mean over the devices whose names fit."""
    means = []
    for row in frame.rows_of(cell, scheduler):
        uses = [use for use in device_rows(row) if fnmatchcase(str(use["device"]), pattern)]
        if uses:
            means.append(100.0 * float(np.mean([float(str(use[column])) for use in uses])))
    return np.array(means)


def device_use(claim: Claim, claims: Claims, evidence: Evidence) -> list[Point]:
    """How much more of the time the devices are busy than under the rival."""
    return _devices(claim, claims, evidence, "utilisation")


def device_fill(claim: Claim, claims: Claims, evidence: Evidence) -> list[Point]:
    """How much fuller the batches are than under the rival."""
    return _devices(claim, claims, evidence, "batch_fill")


def _runs(claim: Claim, evidence: Evidence) -> list[TrainingRun]:
    """Runs of the recipes a claim is about, as these are."""
    named = [
        run
        for run in evidence.runs
        if any(fnmatchcase(str(run.recipe.get("name", "")), pattern) for pattern in claim.runs)
    ]
    found = [run for run in named if not run.is_changed]
    if not found:
        changed = " without --set and --from" if named else ""
        raise Missing(f"no run of {', '.join(claim.runs)}{changed}")
    return found


def minutes_per_samples(claim: Claim, claims: Claims, evidence: Evidence) -> list[Point]:
    """Minutes of wall time that so many decisions take, at the pace of each run."""
    points = []
    for run in _runs(claim, evidence):
        if run.seconds is not None and run.samples:
            value = run.seconds / 60.0 * claim.samples / run.samples
            points.append(Point(run.name, value, value, value))
    return points


def passed_after(claim: Claim, claims: Claims, evidence: Evidence) -> list[Point]:
    """Millions of decisions from which on a column of the metrics stays below zero."""
    return _from_where(claim, evidence, is_passed)


def converged_after(claim: Claim, claims: Claims, evidence: Evidence) -> list[Point]:
    """Millions of decisions from which on a column stays within a point of its final value."""
    return _from_where(claim, evidence, is_settled)


def _from_where(claim: Claim, evidence: Evidence, test: Callable[[Floats], Bools]) -> list[Point]:
    """Per run the millions of decisions from which on a test holds; infinite where it never does."""
    points = []
    for run in _runs(claim, evidence):
        samples, values = run.column(claim.column)
        if len(samples):
            first = from_where(samples, test(values))
            value = float("inf") if first is None else first / 1e6
            points.append(Point(run.name, value, value, value))
    if not points:
        raise Missing(f"no run logged {claim.column}")
    return points


def benchmark(claim: Claim, claims: Claims, evidence: Evidence) -> list[Point]:
    """A figure that ``python -m benchmarks NAME --json FILE`` wrote."""
    found = dict(evidence.figures).get(claim.benchmark, {})
    if claim.figure not in found:
        raise Missing(f"no figures of the benchmark {claim.benchmark}")
    value = float(found[claim.figure])
    return [Point("", value, value, value)]


MEASURES: dict[str, Measure] = {
    "gain": gain,
    "largest-gain": largest_gain,
    "share-of-points": share_of_points,
    "device-use": device_use,
    "device-fill": device_fill,
    "minutes-per-samples": minutes_per_samples,
    "passed-after": passed_after,
    "converged-after": converged_after,
    "benchmark": benchmark,
}
"""Names in the TOML -> what they mean."""
