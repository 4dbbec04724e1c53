"""The speed model of Optimus, fitted to the speeds of a task type; and allocations that are best for one task alone.

The model is 1 / (a / w + b + c w / p + d w + e p) with p CPUs and w GPUs, fitted over the whole grid, with 0.001 in
place of 0 units (Peng et al., EuroSys 2018; as used for edge clusters by Li et al., 2023). Speeds are measured, with
noise of their own, and fitted anew in each world step. A resource that every task has as much of as it needs has no place in it.
"""

from __future__ import annotations

import itertools

import numpy as np

from weft.model.columns import Bools, Floats, Ints
from weft.model.draws import MEASURED, keyed_uniform
from weft.model.elastic import ElasticProblem, TaskType
from weft.model.least_squares import EXACT, least_squares

TINY = 0.001
"""Units in place of none."""
BLOCK = 32
"""World steps whose speeds are fitted together."""
CLOSE = 1.5e-8
"""Tolerance of fits to speeds with noise, which digits beyond it would only follow more closely."""


def model_speed(parameters: Floats, cpus: Floats, gpus: Floats) -> Floats:
    """Progress per step of the model: parameters (..., 5), flat coordinates (n,); (..., n)."""
    a, b, c, d, e = np.moveaxis(parameters, -1, 0)[..., None]
    return np.asarray(1.0 / (a / gpus + b + c * gpus / cpus + d * gpus + e * cpus))


def fit_speeds(cpus: Floats, gpus: Floats, speeds: Floats, tolerance: float = EXACT) -> Floats:
    """The five parameters with the least squares, from all ones, of many curves (K, n) at once; (K, 5)."""
    terms = np.stack([1.0 / gpus, np.ones_like(gpus), gpus / cpus, gpus, cpus], axis=1)  # (n, 5)

    def residuals(parameters: Floats, which: Bools) -> Floats:
        return np.asarray(1.0 / (terms @ parameters[..., None])[..., 0] - speeds[which])

    def jacobian(parameters: Floats, which: Bools) -> Floats:
        return np.asarray(-terms / (terms @ parameters[..., None]) ** 2)

    return least_squares(residuals, jacobian, np.ones((len(speeds), 5)), tolerance)


def fitted_axes(problem: ElasticProblem) -> tuple[int, ...]:
    """Resources that the model is fitted over: the first and the second of those that are not given as requested.

    With two resources in all, both of them.
    """
    if problem.num_resources == 2:
        return 0, 1
    return elastic_axes(problem)


def elastic_axes(problem: ElasticProblem) -> tuple[int, ...]:
    """Resources of which some type may have more than it needs."""
    return tuple(
        r for r in range(problem.num_resources) if any(one.least[r] < one.most[r] for one in problem.types)
    )


def first_speeds(kind: TaskType, grid: Ints, axes: tuple[int, ...] = (0, 1)) -> tuple[Floats, Bools]:
    """Progress of a first step at every point of the grid over some resources without noise, and where a task may run.

    Of other resources it has what it needs; (G,) each.
    """
    points = np.array(list(itertools.product(*(range(int(grid[r]) + 1) for r in axes))))
    least, most = (np.array(units)[list(axes)] for units in (kind.least, kind.most))
    can_run = np.asarray(((points >= least) & (points <= most)).all(axis=1))
    units = np.tile(np.array(kind.least), (len(points), 1))
    units[:, list(axes)] = points
    at = np.minimum(units, np.array(kind.rate.shape) - 1)
    rate, base = (table[tuple(at.T)] for table in (kind.rate, kind.base))
    return rate * kind.factor(0.0) + base, can_run


class Beliefs:
    """Speeds as Optimus believes them in an episode.

    ``is_swapped`` pairs speeds that are listed by CPU first with coordinates that are listed by GPU first, as the
    published code does: on a square grid, CPUs and GPUs change places.
    """

    def __init__(self, problem: ElasticProblem, seed: int, *, is_swapped: bool) -> None:
        self._problem, self._seed = problem, seed
        axes = fitted_axes(problem)
        self._true = [first_speeds(kind, problem.grid, axes) for kind in problem.types]
        units = [
            np.maximum(np.arange(size + 1, dtype=np.float64), TINY)
            for size in problem.grid[list(axes)].tolist()
        ]
        units = [np.ones(1)] * (
            2 - len(units)
        ) + units  # one resource that matters is the second of the model
        self._cpus, self._gpus = (part.ravel() for part in np.meshgrid(*units, indexing="ij"))
        listed = np.meshgrid(*units, indexing="xy" if is_swapped else "ij")
        self._listed = listed[0].ravel(), listed[1].ravel()
        self._fitted: dict[int, Floats] = {}  # block -> (steps, T, G)

    @property
    def are_fixed(self) -> bool:
        """Whether every measurement gives the same: there is no noise."""
        return not any(kind.noise for kind in self._problem.types)

    def at(self, step: int) -> Floats:
        """The fitted speed of every type over the grid in a world step; (T, G)."""
        size = 1 if self.are_fixed else BLOCK
        block, place = (0, 0) if self.are_fixed else divmod(step, BLOCK)
        if block not in self._fitted:
            self._fitted = {block: self._fit(np.arange(block * size, (block + 1) * size))}
        return np.asarray(self._fitted[block][place])

    def measured(self, steps: Ints) -> Floats:
        """Speeds with the noise of the measurement in each of some world steps; (steps, T, G)."""
        found = []
        for number, (speed, can_run) in enumerate(self._true):
            draws = keyed_uniform(self._seed, MEASURED, steps[:, None], number, np.arange(len(speed)), 0)
            noise = self._problem.types[number].noise * (2.0 * draws - 1.0)
            found.append(np.where(can_run, np.maximum(0.0, speed + noise), 0.0))
        return np.stack(found, axis=1)

    def _fit(self, steps: Ints) -> Floats:
        speeds = self.measured(steps)
        tolerance = EXACT if self.are_fixed else CLOSE
        fitted = fit_speeds(*self._listed, speeds.reshape(-1, speeds.shape[-1]), tolerance)
        return model_speed(fitted, self._cpus, self._gpus).reshape(speeds.shape)


def best_alone(problem: ElasticProblem) -> tuple[Ints, Floats]:
    """Units per type that take the least of the scarcest resource x steps, then the fewest steps; and these steps."""
    capacity = problem.capacity.max(axis=0)
    units, steps = [], []
    for kind in problem.types:
        boxes = [
            range(low, min(high, int(have)) + 1)
            for low, high, have in zip(kind.least, kind.most, capacity, strict=True)
        ]
        best = min(
            (_cost(kind, point, capacity) for point in itertools.product(*boxes)), key=lambda found: found[:3]
        )
        units.append(best[2])
        steps.append(float(best[1]))
    return np.array(units, np.int64), np.array(steps)


def _cost(kind: TaskType, point: tuple[int, ...], capacity: Ints) -> tuple[float, int, tuple[int, ...]]:
    steps = kind.steps(point, 100_000)
    share = max(u / int(have) for u, have in zip(point, capacity, strict=True))
    return round(share * steps, 9), steps, point
