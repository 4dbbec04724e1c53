"""Problems whose run times are what former runs took.

Observed times correct those of a problem by factors, one per kind and class: where nothing was
observed, the factor is estimated from other kinds and classes. Few observations count little beside
what the problem itself says. Where the same graph ran before, its own tasks say what is usual, and those far off do not
count; where kinds differ between classes by no more than chance, all kinds together say how much faster a class is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from weft.io.profiles import Observed, Profile, Series
from weft.model.cluster import DeviceClass
from weft.model.graph import Bools, Floats, TaskGraph
from weft.model.problem import Job, Problem
from weft.model.units import SECONDS

PRIOR = 0.25
"""The run times of the problem count as much as so many observations."""
FAR_OFF = 3.0
"""Robust standard deviations from the median beyond which a task does not tell what is usual for its kind."""
SHORTEST = 1e-9
"""Seconds; what took less is taken for this, so that ratios are finite."""


def with_profile(problem: Problem, profile: Profile, *, prior: float = PRIOR) -> Problem:
    """The problem with run times and noise as observed.

    Parameters
    ----------
    prior
        How many observations the run times and the noise of the problem count as.

    A kind known on one class is carried over to another by the mean ratio of the two over the kinds known
    on both; without any, by the ratio the problem itself gives. Kinds that were never seen get the mean correction of those that
    were. The problem itself is returned where the profile knows nothing about it.
    """
    found = _Kinds(problem, profile)
    noise = _noise(problem, found, profile, prior)
    factors = found.factors(prior)
    if np.isfinite(factors).any():
        classes = [found.corrected(c, factors) for c in range(problem.cluster.num_classes)]
        jobs = [replace(job, graph=found.scaled(job.graph, factors)) for job in problem.jobs]
        problem = problem.replaced(jobs=jobs, cluster=problem.cluster.replaced(classes=tuple(classes)))
    if any(profile.tasks_of(job.graph.name) for job in problem.jobs):
        problem = _with_tasks(problem, profile, prior)
    return problem if noise == problem.noise else problem.replaced(noise=noise)


@dataclass(frozen=True)
class _Basis:
    """What a problem says about one kind on one class."""

    alone: Floats  # (num_tasks of the kind,) run times in seconds, without overhead
    pace: float | None
    """Run time over work where the class has a speed for it, and every task of the kind has work."""
    has_equal_work: bool
    is_blank: bool = False
    """Whether the problem says that they take no time; they are then taken for a second at speed 1."""


@dataclass(frozen=True)
class _Off:
    """Logarithms of run times over those expected: their mean, how many, and the sum of squared distances from it."""

    mean: float
    count: int
    squares: float
    weight: int
    """How many runs of tasks were seen."""
    is_of_tasks: bool
    """Whether single tasks say so; else the mean is the logarithm of a mean."""


class _Kinds:
    """Kinds of a problem beside what a profile knows about them."""

    def __init__(self, problem: Problem, profile: Profile) -> None:
        self.problem, self.profile = problem, profile
        graphs = [job.graph for job in problem.jobs]
        self.kind_of = [graph.kinds[k] for graph in graphs for k in graph.kind.tolist()]
        self.kinds = list(dict.fromkeys(self.kind_of))
        self.classes = problem.cluster.classes
        self._work = np.concatenate([graph.work for graph in graphs])
        overhead = problem.cluster.overheads_in(problem.time_unit)
        self._alone = (problem.run_times - overhead) * problem.seconds_per_unit
        index = {kind: i for i, kind in enumerate(self.kinds)}
        self._number = np.array([index[kind] for kind in self.kind_of], dtype=np.int64)
        self.is_blank = np.zeros(len(self.kinds), dtype=np.bool_)
        """Kinds that take no time by the problem, but were seen."""
        self._own = self._own_tasks()

    def _own_tasks(self) -> dict[tuple[int, int], list[tuple[int, Series]]]:
        """(kind, class) -> tasks of these very graphs that were seen there, and what they took."""
        found: dict[tuple[int, int], list[tuple[int, Series]]] = {}
        classes = {one.name: c for c, one in enumerate(self.classes)}
        for job, offset in zip(self.problem.jobs, self.problem.offsets, strict=False):
            for (task, class_name), observed in self.profile.tasks_of(job.graph.name).items():
                i, c = job.graph.index.get(task), classes.get(class_name)
                if i is not None and c is not None:
                    row = int(offset) + i
                    found.setdefault((int(self._number[row]), c), []).append((row, observed.seconds))
        return found

    def known(self) -> Iterator[tuple[int, int, Observed, _Basis]]:
        """(kind, class, observed, what the problem says) of every pair that was observed and can run."""
        for k, kind in enumerate(self.kinds):
            for c, one in enumerate(self.classes):
                observed = self.profile.time(kind, one.name)
                basis = None if observed is None else self._basis(k, c)
                if observed is not None and basis is not None:
                    yield k, c, observed, basis

    def _basis(self, k: int, c: int) -> _Basis | None:
        tasks = np.flatnonzero(self._number == k)
        tasks = tasks[np.isfinite(self._alone[tasks, c])]
        alone, work = self._alone[tasks, c], self._work[tasks]
        one, kind = self.classes[c], self.kinds[k]
        speed = one.speeds.get(kind, one.speed)
        if not len(tasks):
            return None
        if not alone.sum() > 0:
            return _Basis(np.array([1.0 / (speed or 1.0)]), None, False, is_blank=True)
        follows_work = speed is not None and bool(
            np.allclose(alone, work * self.problem.seconds_per_unit / speed)
        )
        is_paced = kind not in one.times and follows_work and bool((work > 0).all())
        is_equal = bool(np.ptp(work) <= 1e-9 * abs(work[0])) if is_paced else False
        return _Basis(alone, 1.0 / speed if is_paced and speed else None, is_equal)

    def factors(self, prior: float) -> Floats:
        """Logarithm of the correction of every kind on every class, (num_kinds, num_classes); NaN: not known."""
        seen = np.full((len(self.kinds), len(self.classes)), np.nan)
        self.is_blank[:] = False
        offs: dict[tuple[int, int], _Off] = {}
        for k, c, observed, basis in self.known():
            self.is_blank[k] |= basis.is_blank
            offs[k, c] = self._off(k, c, observed, basis)
        free = sum(off.count - 1 for off in offs.values())
        variance = sum(off.squares for off in offs.values()) / max(1, free)
        doubt = np.zeros(seen.shape)
        for (k, c), off in offs.items():
            weight = 1.0 if self.is_blank[k] else off.weight / (off.weight + prior)
            # The mean of run times is above that of their logarithms.
            seen[k, c] = weight * (off.mean + 0.5 * variance * off.is_of_tasks)
            doubt[k, c] = variance / off.count
        if not self.is_blank.any():
            seen = pooled(seen, doubt)
        return filled(seen, ~self.is_blank)

    def _off(self, k: int, c: int, observed: Observed, basis: _Basis) -> _Off:
        """By how much run times of a kind on a class are off, where its tasks are known by those alone that are usual."""
        series = chosen(observed, basis)
        is_paced = series is observed.pace
        expected = basis.pace if is_paced else float(basis.alone.mean())
        assert expected is not None
        own = self._own.get((k, c), [])
        if 2 * sum(one.count for _, one in own) < observed.count:  # most of it was other graphs
            squares = (series.count - 1) * series.variation**2
            log = math.log(max(series.recent, SHORTEST) / expected)
            return _Off(log, series.count, squares, observed.count, is_of_tasks=False)
        rows = np.array([row for row, _ in own])
        took = np.maximum([one.recent for _, one in own], SHORTEST)
        logs = usual(np.log(took / (self._alone[rows, c] if is_paced else expected)))
        squares = float(((logs - logs.mean()) ** 2).sum())
        return _Off(float(logs.mean()), len(logs), squares, observed.count, is_of_tasks=True)

    def corrected(self, c: int, factors: Floats) -> DeviceClass:
        """A class with its times and speeds corrected."""
        one = self.classes[c]
        times, speeds = dict(one.times), dict(one.speeds)
        for k, kind in enumerate(self.kinds):
            speed = speeds.get(kind, one.speed)
            if not np.isfinite(factors[k, c]):
                continue
            if self.is_blank[k]:
                unit = SECONDS[one.time_unit or self.problem.time_unit]
                times[kind] = math.exp(factors[k, c]) / (speed or 1.0) / unit
            elif kind in times:
                times[kind] *= math.exp(factors[k, c])
            elif speed is not None:
                speeds[kind] = speed / math.exp(factors[k, c])
        return replace(one, times=times, speeds=speeds)

    def scaled(self, graph: TaskGraph, factors: Floats) -> TaskGraph:
        """A graph with the times of its own corrected."""
        if not graph.times.size:
            return graph
        index = {kind: i for i, kind in enumerate(self.kinds)}
        rows = np.array([index.get(kind, 0) for kind in graph.kinds], dtype=np.int64)[graph.kind]
        times = graph.times.copy()
        names = [one.name for one in self.classes]
        for column, name in enumerate(graph.classes):
            if name in names:
                times[:, column] *= np.exp(np.nan_to_num(factors[rows, names.index(name)]))
        return graph.replaced(times=times)


def chosen(observed: Observed, basis: _Basis) -> Series:
    """Run times over work where work tells tasks of the kind apart, else plain run times."""
    pace = observed.pace
    if basis.pace is None or pace is None:
        return observed.seconds
    is_better = pace.count == observed.count and pace.variation <= observed.seconds.variation * (1 + 1e-9)
    return pace if is_better or not basis.has_equal_work else observed.seconds


def usual(values: Floats) -> Floats:
    """The values, without those far off from the others; of three or less, all."""
    if len(values) <= 3:
        return values
    off = np.abs(values - np.median(values))
    return values[off <= FAR_OFF * 1.4826 * float(np.median(off)) + 1e-9]


def pooled(seen: Floats, doubt: Floats) -> Floats:
    """The table (num_kinds, num_classes) of logarithms as a sum of one number per kind and one per class, where what
    is left over is no more than chance; else as it is. ``doubt``: variance of each.
    """
    is_known: Bools = np.isfinite(seen)
    kind, one = np.nonzero(is_known)
    free = len(kind) - len(set(kind.tolist())) - len(set(one.tolist())) + 1
    values, sigma = seen[is_known], np.sqrt(doubt[is_known])
    if free <= 0 or not (sigma > 0).all():
        return seen
    design = np.zeros((len(kind), sum(seen.shape)))  # (num_known, num_kinds + num_classes)
    design[np.arange(len(kind)), kind] = 1.0
    design[np.arange(len(kind)), seen.shape[0] + one] = 1.0
    found = np.linalg.lstsq(design / sigma[:, None], values / sigma, rcond=None)[0]
    left = float(
        (((values - design @ found) / sigma) ** 2).sum()
    )  # chi-squared with so many degrees of freedom
    if left > free + 2.0 * math.sqrt(2.0 * free):
        return seen
    table = seen.copy()
    table[is_known] = design @ found
    return table


def filled(seen: Floats, is_typical: Bools) -> Floats:
    """The table (num_kinds, num_classes) of logarithms with what is not known estimated from what is.

    ``is_typical``, (num_kinds,): which kinds tell something about those that were never seen.
    """
    is_known: Bools = np.isfinite(seen)
    table, num_classes = seen.copy(), seen.shape[1]
    if not is_known.any():
        return table
    apart = np.full((num_classes, num_classes), np.nan)  # how much slower the first class is than the second
    for c in range(num_classes):
        for d in range(num_classes):
            both = is_known[:, c] & is_known[:, d]
            if both.any():
                apart[c, d] = (seen[both, c] - seen[both, d]).mean()
    is_seen: Bools = np.asarray(is_known.any(axis=1))
    for k, c in np.argwhere(~is_known & is_seen[:, None]).tolist():
        via = is_known[k] & np.isfinite(apart[c])
        if not via.any():
            via = is_known[k]
        table[k, c] = (seen[k, via] + np.nan_to_num(apart[c, via])).mean()
    if (is_seen & is_typical).any():
        table[~is_seen] = table[is_seen & is_typical].mean(axis=0)
    return table


def _noise(problem: Problem, found: _Kinds, profile: Profile, prior: float) -> float:
    """Pooled variation: of single tasks where they are known, else of kinds."""
    single = [
        one.seconds
        for job in problem.jobs
        for one in profile.tasks_of(job.graph.name).values()
        if one.count > 1
    ]
    series = single or [chosen(observed, basis) for _, _, observed, basis in found.known()]
    weight = sum(one.count - 1 for one in series)
    if not weight:
        return problem.noise
    total = sum((one.count - 1) * one.variation**2 for one in series) + prior * problem.noise**2
    return math.sqrt(total / (weight + prior))


def _with_tasks(problem: Problem, profile: Profile, prior: float) -> Problem:
    """Tasks that were seen themselves get run times of their own."""
    unit, overhead = problem.seconds_per_unit, problem.cluster.overheads_in(problem.time_unit)
    jobs: list[Job] = []
    for j, job in enumerate(problem.jobs):
        alone = problem.run_times[problem.offsets[j] : problem.offsets[j + 1]] - overhead
        jobs.append(replace(job, graph=_with_own_times(problem, job.graph, profile, (alone, unit, prior))))
    return problem.replaced(jobs=jobs)


def _with_own_times(
    problem: Problem, graph: TaskGraph, profile: Profile, known: tuple[Floats, float, float]
) -> TaskGraph:
    alone, unit, prior = known
    classes = {one.name: c for c, one in enumerate(problem.cluster.classes)}
    place = {name: i for i, name in enumerate(graph.names)}
    own = np.full(alone.shape, np.nan)  # (num_tasks, num_classes) of the cluster
    for (task, class_name), observed in profile.tasks_of(graph.name).items():
        i, c = place.get(task), classes.get(class_name)
        if i is not None and c is not None and np.isfinite(alone[i, c]):
            own[i, c] = _between(float(alone[i, c]), observed.seconds.recent / unit, observed.count, prior)
    if not np.isfinite(own).any():
        return graph
    _carry_over(own, alone)
    used = [c for c in range(len(classes)) if np.isfinite(own[:, c]).any()]
    names = list(graph.classes) + [n for n, c in classes.items() if c in used and n not in graph.classes]
    times = np.full((graph.num_tasks, len(names)), np.nan)
    times[:, : graph.times.shape[1]] = graph.times
    for name, c in classes.items():
        if c in used:
            column = times[:, names.index(name)]
            column[np.isfinite(own[:, c])] = own[np.isfinite(own[:, c]), c]
    return graph.replaced(classes=tuple(names), times=times)


def _carry_over(own: Floats, alone: Floats) -> None:
    """Fill in classes a task was not seen on: as much longer or shorter than its kind as where it was seen."""
    is_seen = np.isfinite(own) & (own > 0) & (alone > 0)
    ratio = np.log(np.where(is_seen, own, 1.0) / np.where(is_seen, alone, 1.0))
    count = is_seen.sum(axis=1)
    factor = np.exp(ratio.sum(axis=1) / np.maximum(count, 1))
    is_open = ~np.isfinite(own) & np.isfinite(alone) & (count > 0)[:, None]
    own[is_open] = (alone * factor[:, None])[is_open]


def _between(expected: float, observed: float, count: int, prior: float) -> float:
    """Geometric mean, the observed one weighted by its count."""
    if not expected > 0 or not observed > 0:
        return observed
    weight = count / (count + prior)
    return math.exp(weight * math.log(observed) + (1 - weight) * math.log(expected))
