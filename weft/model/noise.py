"""Laws of run-time noise: factors around 1 from uniform draws. Imports ``errors`` only.

With spread s, the ``noise`` of a problem:

- ``lognormal``: mean 1 and coefficient of variation s;
- ``uniform``: between 1 - s and 1 + s;
- ``truncated``: normal around 1 with deviation s, redrawn by its quantiles between 1 - 2s and 1 + 2s;
- ``folded``: 1 + s |N| - s / 2 with N normal: seldom much shorter than stated, now and then much longer.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import InputError

Floats = npt.NDArray[np.float64]

LOGNORMAL, UNIFORM, TRUNCATED, FOLDED = LAWS = ("lognormal", "uniform", "truncated", "folded")
_WIDEST = {UNIFORM: 1.0, TRUNCATED: 0.5, FOLDED: 2.0}
"""Spreads from which on factors of 0 or less could be drawn."""
_CUT = 2.0
"""Deviations at which the truncated normal law ends."""
_NODES = 2001


def check_noise(law: str, spread: float) -> None:
    """Refuse an unknown law, and a spread that could make run times negative."""
    if law not in LAWS:
        raise InputError(f"expected one of {', '.join(LAWS)}, got {law!r}", field="noise_law")
    if law in _WIDEST and not spread < _WIDEST[law]:
        raise InputError(
            f"expected less than {_WIDEST[law]:g} with the law {law}, got {spread}", field="noise"
        )


def factors(law: str, spread: float, first: Any, second: Any) -> Floats:
    """Factors of one law from two uniform draws in [0, 1) each."""
    if law == UNIFORM:
        return np.asarray(1.0 + spread * (2.0 * first - 1.0))
    if law == TRUNCATED:
        return np.asarray(1.0 + spread * _quantile(first))
    drawn = normal(first, second)
    if law == FOLDED:
        return np.asarray(1.0 + spread * np.abs(drawn) - spread / 2.0)
    sigma2 = np.log1p(spread**2)
    return np.asarray(np.exp(np.sqrt(sigma2) * drawn - sigma2 / 2.0))


def normal(first: Floats, second: Floats) -> Floats:
    """Standard normal draws, each from two uniform ones."""
    return np.asarray(np.sqrt(-2.0 * np.log1p(-first)) * np.cos(2.0 * np.pi * second))


@cache
def log_mean(law: str, spread: float) -> float:
    """Minus the mean logarithm of a factor."""
    if law == LOGNORMAL:
        return float(np.log1p(spread**2) / 2.0)
    level = (np.arange(_NODES) + 0.5) / _NODES
    if law == FOLDED:  # |N| by its quantiles
        half = np.array([_normal_quantile(0.5 + p / 2.0) for p in level.tolist()])
        return -float(np.log(1.0 + spread * half - spread / 2.0).mean())
    return -float(np.log(factors(law, spread, level, level)).mean())


def _quantile(level: Any) -> Floats:
    """Quantiles of a standard normal law cut at two deviations on either side."""
    low = _normal_level(-_CUT)
    knots = np.linspace(-_CUT, _CUT, _NODES)
    upto = (np.array([_normal_level(x) for x in knots.tolist()]) - low) / (1.0 - 2.0 * low)
    return np.interp(level, upto, knots)


def _normal_level(x: float) -> float:
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


def _normal_quantile(level: float) -> float:
    """The standard normal quantile, by bisection."""
    low, high = -10.0, 10.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _normal_level(middle) < level else (low, middle)
    return (low + high) / 2.0
