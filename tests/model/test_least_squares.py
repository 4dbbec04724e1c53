"""Least squares against SciPy, on the speed model of Optimus."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import curve_fit

from weft.model.elastic import insensitive, saturating
from weft.schedulers.allocators.speeds import TINY, fit_speed, measured_speeds, model_speed

GRID = np.array([16, 16])


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
    speed = measured_speeds(kind, 0, 0, GRID).ravel()
    ours, theirs = fit_speed(cpus, gpus, speed), scipy_fit(cpus, gpus, speed)
    assert squares(ours, cpus, gpus, speed) <= squares(theirs, cpus, gpus, speed) * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_fit_of_noisy_speeds_is_within_two_percent_of_scipys(seed: int):
    """From the same start both go downhill, but not always into the same valley."""
    cpus, gpus = coordinates()
    speed = measured_speeds(saturating("lm", (2, 1), (16, 16), 1, 16.0, 0.1), 1, seed, GRID).ravel()
    ours, theirs = fit_speed(cpus, gpus, speed), scipy_fit(cpus, gpus, speed)
    assert squares(ours, cpus, gpus, speed) <= squares(theirs, cpus, gpus, speed) * 1.02


def test_fit_finds_the_parameters_that_made_the_speeds():
    cpus, gpus = (part[part_ok] for part_ok in [np.arange(289) % 17 > 0] for part in coordinates())
    cpus = np.maximum(cpus, 1.0)
    wanted = np.array([3.0, 1.0, 0.2, 0.05, 0.02])
    found = fit_speed(cpus, gpus, model_speed(wanted, cpus, gpus))
    assert np.allclose(found, wanted, rtol=1e-5)
