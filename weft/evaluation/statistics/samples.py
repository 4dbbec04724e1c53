"""Checks of what callers pass in: finite numbers of the right shape, or one line that says why not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.model.graph import Floats


def check_confidence(confidence: float) -> float:
    """The confidence level, strictly between 0 and 1."""
    if not 0.0 < confidence < 1.0:
        raise InputError(f"expected a number between 0 and 1, got {confidence}", field="confidence")
    return confidence


def check_resamples(resamples: int) -> int:
    """The number of bootstrap resamples, at least 1."""
    if resamples < 1:
        raise InputError(f"expected a whole number >= 1, got {resamples}", field="resamples")
    return resamples


def numbers(values: npt.ArrayLike, name: str, *, ndim: int = 1, is_infinity_allowed: bool = False) -> Floats:
    """The values as float64 of this dimension, refused where one is not a (finite) number."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("expected numbers in equal rows", field=name) from None
    if array.ndim != ndim:
        raise InputError(f"expected {ndim} dimension(s), got {array.ndim}", field=name)
    bad = np.isnan(array) if is_infinity_allowed else ~np.isfinite(array)
    _refuse(array, bad, "finite numbers", name)
    return array


def column(values: npt.ArrayLike, name: str, *, at_least: int) -> Floats:
    """One row of finite numbers of this length or longer."""
    array = numbers(values, name)
    if len(array) < at_least:
        raise InputError(f"expected at least {at_least} value(s), got {len(array)}", field=name)
    return array


def pairs(a: npt.ArrayLike, b: npt.ArrayLike, *, at_least: int) -> tuple[Floats, Floats]:
    """Two rows of finite numbers of one length."""
    first, second = column(a, "a", at_least=at_least), column(b, "b", at_least=at_least)
    if len(first) != len(second):
        raise InputError(f"expected as many values as in a ({len(first)}), got {len(second)}", field="b")
    return first, second


def differences(a: npt.ArrayLike, b: npt.ArrayLike, *, at_least: int) -> Floats:
    """The paired differences a - b, refused where they overflow."""
    first, second = pairs(a, b, at_least=at_least)
    with np.errstate(over="ignore"):
        found = first - second
    _refuse(found, ~np.isfinite(found), "differences a - b within range", "a")
    return found


def crossed(own: npt.ArrayLike, other: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Two matrices (runs, seeds) over the same seeds, at least two of them."""
    first, second = numbers(own, "own", ndim=2), numbers(other, "other", ndim=2)
    for array, name in ((first, "own"), (second, "other")):
        if array.shape[0] < 1 or array.shape[1] < 2:
            got = f"{array.shape[0]} x {array.shape[1]}"
            raise InputError(f"expected at least 1 run (row) and 2 seeds (columns), got {got}", field=name)
    if first.shape[1] != second.shape[1]:
        message = f"expected as many seeds as in own ({first.shape[1]}), got {second.shape[1]}"
        raise InputError(message, field="other")
    return first, second


def refuse_not_positive(values: Floats, name: str) -> None:
    """Raise where a value is zero or below."""
    _refuse(values, ~(values > 0.0), "numbers > 0", name)


def _refuse(values: Floats, bad: npt.NDArray[np.bool_], expected: str, name: str) -> None:
    if bad.any():
        where = np.argwhere(bad)[0].tolist()
        position = ", ".join(str(index) for index in where)
        raise InputError(
            f"expected {expected}, got {values[tuple(where)]} at position {position}", field=name
        )
