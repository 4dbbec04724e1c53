"""Least squares of functions with a few parameters, many at once, by Levenberg and Marquardt; NumPy alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.model.columns import Bools, Floats

MOST = 2000
"""Steps at most."""
EXACT = 1e-14
"""A search ends where a step gains less than this share of the sum and hardly moves: as far as floats go."""


def least_squares(
    residuals: Callable[[Floats, Bools], Floats],
    jacobian: Callable[[Floats, Bools], Floats],
    start: Floats,  # (K, P)
    tolerance: float = EXACT,
) -> Floats:
    """Parameters of K fits, each at a local minimum of its sum of squares, from where its search starts; (K, P).

    Functions are given the parameters of some fits, and which of all they are: residuals (k, n), and their slopes
    (k, n, P). Each step solves the normal equations with a share of their diagonal added; the share falls where a
    step is good, and grows where it is not. Steps to where the function is not finite are not taken. With a
    ``tolerance`` above the default, a search ends where a step gains, and was expected to gain, less than that share.
    """
    at = np.array(start, np.float64)
    left = np.ones(len(at), np.bool_)  # (K,) not yet at a minimum
    found = residuals(at, left)
    cost = _dots(found, found)
    share, growth, scale = np.full(len(at), 1e-3), np.full(len(at), 2.0), np.zeros_like(at)
    for _ in range(MOST):
        if not left.any():
            break
        slopes = jacobian(at[left], left)
        normal = np.swapaxes(slopes, 1, 2) @ slopes  # (k, P, P)
        gradient = (np.swapaxes(slopes, 1, 2) @ found[left][..., None])[..., 0]
        scale[left] = np.maximum(scale[left], np.diagonal(normal, axis1=1, axis2=2))
        step = _damped(normal, share[left, None] * np.maximum(scale[left], 1e-300), gradient)
        with np.errstate(all="ignore"):
            tried = residuals(at[left] + step, left)
            reached = _dots(tried, tried)
        expected = -_dots(step, 2.0 * gradient + (normal @ step[..., None])[..., 0])
        is_good = np.isfinite(reached) & (reached < cost[left])
        gained = np.where(is_good, cost[left] - reached, 0.0)
        is_still = is_good & (gained <= tolerance * cost[left])
        if tolerance > EXACT:
            is_still &= expected <= tolerance * cost[left]
        else:
            is_still &= np.abs(step).max(-1) <= 1e-9 * (np.abs(at[left]).max(-1) + 1e-9)
        ratio = np.minimum(gained / np.maximum(expected, 1e-300), 1e9)
        fall = np.maximum(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3)
        at[left] += np.where(is_good[:, None], step, 0.0)
        found[left] = np.where(is_good[:, None], tried, found[left])
        cost[left] = np.where(is_good, reached, cost[left])
        share[left] = np.where(is_good, np.maximum(share[left] * fall, 1e-15), share[left] * growth[left])
        growth[left] = np.where(is_good, 2.0, growth[left] * 2.0)
        left[left] = ~(is_still | (share[left] > 1e16))
    return at


def _dots(left: Floats, right: Floats) -> Floats:
    """Of each row with its row; (k,)."""
    return np.asarray((left[:, None, :] @ right[:, :, None])[:, 0, 0])


def _damped(normal: Floats, added: Floats, gradient: Floats) -> Floats:
    """The step that solves each of the equations with this much added to their diagonal; (k, P)."""
    steps = [
        np.linalg.lstsq(matrix + np.diag(more), -slope, rcond=None)[0]
        for matrix, more, slope in zip(normal, added, gradient, strict=True)
    ]
    return np.array(steps)
