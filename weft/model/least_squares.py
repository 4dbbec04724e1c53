"""Least squares of a function with a few parameters, by Levenberg and Marquardt; NumPy alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.model.columns import Floats


def least_squares(
    residuals: Callable[[Floats], Floats],
    jacobian: Callable[[Floats], Floats],
    start: Floats,
    most: int = 2000,
) -> Floats:
    """Parameters at a local minimum of the sum of squares, from where the search starts.

    Each step solves the normal equations with a share of their diagonal added; the share falls where a
    step is good, and grows where it is not. Steps to where the function is not finite are not taken.
    """
    at, share, growth = np.array(start, np.float64), 1e-3, 2.0
    found = residuals(at)
    cost = float(found @ found)
    scale = np.zeros(len(at))
    for _ in range(most):
        slopes = jacobian(at)
        normal, gradient = slopes.T @ slopes, slopes.T @ found
        scale = np.maximum(scale, np.diag(normal))
        step = np.linalg.lstsq(normal + share * np.diag(np.maximum(scale, 1e-300)), -gradient, rcond=None)[0]
        with np.errstate(all="ignore"):
            tried = residuals(at + step)
            reached = float(tried @ tried)
        expected = -float(step @ (2.0 * gradient + normal @ step))
        if np.isfinite(reached) and reached < cost:
            ratio = (cost - reached) / max(expected, 1e-300)
            is_still = cost - reached <= 1e-14 * cost and np.abs(step).max() <= 1e-9 * (
                np.abs(at).max() + 1e-9
            )
            at, found, cost = at + step, tried, reached
            share, growth = max(share * max(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3), 1e-15), 2.0
            if is_still:
                break
        else:
            share, growth = share * growth, growth * 2.0
            if share > 1e16:
                break
    return at
