"""The speed model of Optimus, fitted to the speeds of a task type; and allocations that are best for one task alone.

The model is 1 / (a / w + b + c w / p + d w + e p) with p CPUs and w GPUs, fitted over the whole grid, with 0.001 in
place of 0 units (Peng et al., EuroSys 2018; as used for edge clusters by Li et al., 2023).
"""

from __future__ import annotations

import itertools

import numpy as np

from weft.model.columns import Floats, Ints
from weft.model.draws import PROGRESS, keyed_uniform
from weft.model.elastic import ElasticProblem, TaskType
from weft.model.least_squares import least_squares

TINY = 0.001
"""Units in place of none."""
PROFILED = -1
"""The number of the task whose noise is drawn for measured speeds."""


def model_speed(parameters: Floats, cpus: Floats, gpus: Floats) -> Floats:
    """Progress per step of the model; equal shapes."""
    a, b, c, d, e = parameters
    return np.asarray(1.0 / (a / gpus + b + c * gpus / cpus + d * gpus + e * cpus))


def fit_speed(cpus: Floats, gpus: Floats, speed: Floats) -> Floats:
    """The five parameters with the least squares, from all ones; flat arrays."""
    terms = np.stack([1.0 / gpus, np.ones_like(gpus), gpus / cpus, gpus, cpus], axis=1)  # (n, 5)

    def residuals(parameters: Floats) -> Floats:
        return np.asarray(1.0 / (terms @ parameters) - speed)

    def jacobian(parameters: Floats) -> Floats:
        return np.asarray(-terms / (terms @ parameters)[:, None] ** 2)

    return least_squares(residuals, jacobian, np.ones(5))


def measured_speeds(kind: TaskType, number: int, seed: int, grid: Ints) -> Floats:
    """Progress of a first step at every point of the grid, with its noise; (grid[0] + 1, grid[1] + 1)."""
    shape = tuple(int(size) + 1 for size in grid)
    flat = np.arange(int(np.prod(shape)))
    noise = kind.noise * (2.0 * keyed_uniform(seed, PROGRESS, PROFILED, number, flat, 0) - 1.0)
    points = itertools.product(*(range(size) for size in shape))
    speeds = [
        kind.gain(point, 0.0, float(draw))
        if all(u <= m for u, m in zip(point, kind.most, strict=True))
        else 0.0
        for point, draw in zip(points, noise, strict=True)
    ]
    return np.array(speeds).reshape(shape)


def believed_speeds(problem: ElasticProblem, seed: int, *, is_swapped: bool) -> Floats:
    """The fitted speed of every type over the grid; (T, G).

    ``is_swapped`` pairs speeds that are listed by CPU first with coordinates that are listed by GPU first, as the
    published code does: on a square grid, CPUs and GPUs change places.
    """
    shape = tuple(int(size) + 1 for size in problem.grid)
    units = [np.maximum(np.arange(size, dtype=np.float64), TINY) for size in shape]
    cpus, gpus = (part.ravel() for part in np.meshgrid(*units, indexing="ij"))
    given = (cpus, gpus)
    if is_swapped:
        by_gpu = np.meshgrid(*units, indexing="xy")
        given = (by_gpu[0].ravel(), by_gpu[1].ravel())
    found = []
    for number, kind in enumerate(problem.types):
        speeds = measured_speeds(kind, number, seed, problem.grid).ravel()
        found.append(model_speed(fit_speed(*given, speeds), cpus, gpus))
    return np.array(found)


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
