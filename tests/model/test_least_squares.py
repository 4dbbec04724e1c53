"""Least squares against SciPy, on the speed model of Optimus."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import curve_fit

from weft.model.elastic import ElasticProblem, TaskType, insensitive, saturating
from weft.schedulers.allocators.speeds import CLOSE, TINY, Beliefs, fit_speeds, model_speed


def measured(kind: TaskType, seed: int = 0, num_steps: int = 1) -> np.ndarray:
    problem = ElasticProblem(np.array([[16, 16]]), (kind,), 1, 1.0)
    return Beliefs(problem, seed, is_swapped=False).measured(np.arange(num_steps))[:, 0]


def coordinates() -> tuple[np.ndarray, np.ndarray]:
    units = np.maximum(np.arange(17.0), TINY)
    cpus, gpus = np.meshgrid(units, units, indexing="ij")
    return cpus.ravel(), gpus.ravel()


def scipy_fit(cpus: np.ndarray, gpus: np.ndarray, speed: np.ndarray) -> np.ndarray:
    def model(x: tuple[np.ndarray, np.ndarray], *parameters: float) -> np.ndarray:
        return model_speed(np.array(parameters), *x)

    return curve_fit(model, (cpus, gpus), speed, p0=np.ones(5), maxfev=100_000)[0]


def squares(parameters: np.ndarray, cpus: np.ndarray, gpus: np.ndarray, speed: np.ndarray) -> float:
    return float(((model_speed(parameters, cpus, gpus) - speed) ** 2).sum())


@pytest.mark.parametrize("is_swapped", [False, True])
@pytest.mark.parametrize(
    "kind", [insensitive("img", (2, 1), (16, 16), 0.25), saturating("lm", (2, 1), (16, 16), 1, 16.0)]
)
def test_fit_is_as_good_as_that_of_scipy(kind, is_swapped: bool):
    cpus, gpus = coordinates()[:: -1 if is_swapped else 1]
    (speed,) = measured(kind)
    ours, theirs = fit_speeds(cpus, gpus, speed[None])[0], scipy_fit(cpus, gpus, speed)
    assert squares(ours, cpus, gpus, speed) <= squares(theirs, cpus, gpus, speed) * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_fit_of_noisy_speeds_is_within_two_percent_of_scipys(seed: int):
    """From the same start both go downhill, but not always into the same valley."""
    cpus, gpus = coordinates()
    (speed,) = measured(saturating("lm", (2, 1), (16, 16), 1, 16.0, 0.1), seed)
    ours, theirs = fit_speeds(cpus, gpus, speed[None], CLOSE)[0], scipy_fit(cpus, gpus, speed)
    assert squares(ours, cpus, gpus, speed) <= squares(theirs, cpus, gpus, speed) * 1.02


def test_fit_finds_the_parameters_that_made_the_speeds():
    cpus, gpus = (part[part_ok] for part_ok in [np.arange(289) % 17 > 0] for part in coordinates())
    cpus = np.maximum(cpus, 1.0)
    wanted = np.array([3.0, 1.0, 0.2, 0.05, 0.02])
    found = fit_speeds(cpus, gpus, model_speed(wanted, cpus, gpus)[None])[0]
    assert np.allclose(found, wanted, rtol=1e-5)


def test_many_fits_at_once_are_those_of_each_alone():
    cpus, gpus = coordinates()
    speeds = measured(saturating("lm", (2, 1), (16, 16), 1, 16.0, 0.1), num_steps=5)
    together = fit_speeds(cpus, gpus, speeds, CLOSE)
    for one, speed in zip(together, speeds, strict=True):
        alone = fit_speeds(cpus, gpus, speed[None], CLOSE)[0]
        assert np.allclose(model_speed(one, cpus, gpus), model_speed(alone, cpus, gpus), rtol=1e-6)
