"""Pipelines: jobs that are instances of one series, and what became of their deadlines.

An instance counts if it is due by the horizon of its problem. One that never ended, was skipped or aborted is missed:
a figure of what ended alone would reward starving the rest.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from weft.model.graph import Bools, Floats, Ints

if TYPE_CHECKING:
    from weft.model.problem import Problem
    from weft.model.schedule import Schedule

KEPT, WINDOW = 8, 10
"""Of every so many instances in a row, so many have to be in time: (m, k)-firm."""
ROUNDING = 1e-12
"""What adding up a release and a deadline may lose, relative to the deadline."""
FUSION = "fusion"
"""A pipeline of this name reads the newest results of all those that are not marked as its peers."""


def series_of(problem: Problem) -> dict[str, Ints]:
    """The jobs of every series by release, in the order in which series first come up."""
    found: dict[str, list[int]] = {}
    for j, job in enumerate(problem.jobs):
        if job.series:
            found.setdefault(job.series, []).append(j)
    release = [job.release for job in problem.jobs]
    return {name: np.array(sorted(jobs, key=release.__getitem__), np.int64) for name, jobs in found.items()}


class SeriesFigures:
    """Figures of the pipelines of a schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule, self._problem = schedule, schedule.problem
        self.jobs = series_of(self._problem)
        """Jobs of every series by release."""

    @cached_property
    def release(self) -> Floats:
        """Release of every job."""
        return np.array([job.release for job in self._problem.jobs])

    @cached_property
    def due(self) -> Floats:
        """When every job is due; infinite: never."""
        return np.array(
            [np.inf if job.deadline is None else job.release + job.deadline for job in self._problem.jobs]
        )

    @cached_property
    def interval(self) -> Floats:
        """Interval of every job, where none is known its deadline, else 1."""
        return np.array([job.interval or job.deadline or 1.0 for job in self._problem.jobs])

    @cached_property
    def finish(self) -> Floats:
        """When every job was done; infinite: never."""
        ends = np.where(np.isnan(self._schedule.first_finish), np.inf, self._schedule.first_finish)
        if self._schedule.realisation is not None:
            ends = np.where(self._schedule.realisation.runs, ends, -np.inf)
        found = np.maximum.reduceat(np.r_[ends, -np.inf], self._problem.offsets[:-1])
        return np.asarray(np.maximum(found, self.release), np.float64)

    @cached_property
    def counts(self) -> Bools:
        """Whether every job is due, and by the horizon."""
        horizon = self._problem.horizon
        limit = np.inf if horizon is None else horizon * (1.0 + ROUNDING)
        return np.asarray(np.isfinite(self.due) & (self.due <= limit))

    @cached_property
    def is_missed(self) -> Bools:
        """Whether every job ended after it was due, or never."""
        return np.asarray(self.finish > self.due + ROUNDING * np.where(np.isfinite(self.due), self.due, 0.0))

    @cached_property
    def misses(self) -> dict[str, float]:
        """Share of deadlines missed by every series that has some."""
        own = {name: jobs[self.counts[jobs]] for name, jobs in self.jobs.items()}
        return {name: float(self.is_missed[jobs].mean()) for name, jobs in own.items() if len(jobs)}

    @property
    def miss_macro(self) -> float:
        """Mean over series, by the weight of their jobs."""
        weight = np.array([self._problem.jobs[self.jobs[name][0]].weight for name in self.misses])
        total = float(weight.sum())
        return float((weight * np.array([*self.misses.values()])).sum() / total) if total else 0.0

    @property
    def miss_worst(self) -> float:
        """Largest over series."""
        return max(self.misses.values(), default=0.0)

    @cached_property
    def _ended(self) -> Ints:
        """Jobs of series that count and ended."""
        found = [jobs[self.counts[jobs] & np.isfinite(self.finish[jobs])] for jobs in self.jobs.values()]
        return np.concatenate([*found, np.zeros(0, np.int64)]).astype(np.int64)

    @property
    def lateness(self) -> float:
        """Greatest time by which an instance ended after its deadline, in intervals; negative: all were early."""
        late = (self.finish - self.due)[self._ended] / self.interval[self._ended]
        return float(late.max(initial=-np.inf)) if len(late) else 0.0

    def response(self, percent: float) -> float:
        """Percentile of the time from release to end, in intervals."""
        times = (self.finish - self.release)[self._ended] / self.interval[self._ended]
        return float(np.percentile(times, percent)) if len(times) else 0.0

    @property
    def firm_violations(self) -> int:
        """Windows of WINDOW instances in a row of which fewer than KEPT were in time, over all series."""
        total = 0
        for jobs in self.jobs.values():
            missed = self.is_missed[jobs[self.counts[jobs]]].astype(np.int64)
            if len(missed) >= WINDOW:
                total += int((np.convolve(missed, np.ones(WINDOW, np.int64), "valid") > WINDOW - KEPT).sum())
        return total

    @property
    def age(self) -> float:
        """Age of the newest result when it is replaced, in intervals: mean over results, then over series."""
        means = []
        for jobs in self.jobs.values():
            done = jobs[np.isfinite(self.finish[jobs])]
            done = done[np.argsort(self.finish[done], kind="stable")]
            newest = np.maximum.accumulate(self.release[done]) if len(done) else np.zeros(0)
            if len(done) > 1:
                means.append(float(((self.finish[done][1:] - newest[:-1]) / self.interval[done][1:]).mean()))
        return float(np.mean(means)) if means else 0.0

    @property
    def fusion_age(self) -> float | None:
        """Mean time from the release of the newest inputs to the end of what fuses them; None: nothing does."""
        if FUSION not in self.jobs:
            return None
        inputs = [jobs for name, jobs in self.jobs.items() if name != FUSION]
        ages = [
            self.finish[j] - max(known)
            for j in self.jobs[FUSION].tolist()
            if np.isfinite(self.finish[j])
            for jobs in inputs
            if (known := self.release[jobs[self.finish[jobs] <= self._start(j)]].tolist())
        ]
        return float(np.mean(ages)) if ages else None

    def _start(self, j: int) -> float:
        """When the first task of a job started."""
        rows = self._schedule.task == self._problem.offsets[j]
        return float(self._schedule.start[rows].min(initial=np.inf))

    def to_dict(self) -> dict[str, float]:
        """All figures by name; nothing where no series has deadlines."""
        if not self.misses:
            return {}
        fused = self.fusion_age
        return {
            "miss_macro": self.miss_macro,
            "miss_worst": self.miss_worst,
            "lateness": self.lateness,
            "response_p50": self.response(50),
            "response_p99": self.response(99),
            "firm_violations": self.firm_violations,
            "age": self.age,
            **({} if fused is None else {"fusion_age": fused}),
            **{f"miss_{name}": ratio for name, ratio in self.misses.items()},
        }
