"""Columns of the model: their types, and how arguments become arrays of one dtype and length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.model.units import SECONDS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

ALWAYS = -1
"""Branch group of an edge that is always taken."""


def known_unit(time_unit: str) -> str:
    """The unit, if it is one."""
    known = tuple(SECONDS)
    if time_unit not in known:
        raise InputError(f"expected one of {', '.join(known)}, got {time_unit!r}", field="time_unit")
    return time_unit


def frozen(array: Any) -> Any:
    """The array, read-only from now on."""
    array.setflags(write=False)
    return array


def names_column(names: Sequence[str] | None, n: int) -> tuple[str, ...]:
    """The names, or ``t0``, ``t1``, ... where none are given."""
    if names is None:
        return tuple(f"t{i}" for i in range(n))
    if len(names) != n:
        raise InputError(f"expected {n} task names, got {len(names)}", field="names")
    return tuple(names)


def index_column(values: npt.ArrayLike, n: int, what: str) -> Any:
    """Indices below ``n``."""
    column = np.array(values, dtype=np.int64).reshape(-1)
    bad = np.flatnonzero((column < 0) | (column >= n))
    if len(bad):
        raise InputError(f"{what} {column[bad[0]]} is outside 0..{n - 1}", field=f"edges[{bad[0]}]")
    return column.astype(np.int32)


def column_of(values: npt.ArrayLike, n: int, dtype: Any, what: str) -> Any:
    """One value per row; a single value holds for all."""
    column = np.array(values)
    if column.ndim and column.shape != (n,):
        raise InputError(f"expected {n} values, got shape {column.shape}", field=what)
    if n and np.issubdtype(dtype, np.integer):
        if (column != np.floor(column)).any():
            raise InputError("expected whole numbers", field=what)
        if (np.abs(column) > np.iinfo(np.int32).max).any():
            raise InputError(f"expected numbers up to {np.iinfo(np.int32).max}", field=what)
    return np.full(n, column, dtype=dtype) if column.ndim == 0 else column.astype(dtype)


def table_of(values: npt.ArrayLike | None, n: int, width: int, neutral: float, what: str) -> Any:
    """``n`` rows of ``width`` values; neutral ones where none are given."""
    if values is None or not width:
        return np.full((n, width), neutral)
    table = np.array(values, dtype=np.float64).reshape(-1, width) if n else np.zeros((0, width))
    if table.shape != (n, width):
        raise InputError(f"expected {n} rows of {width} values, got {table.shape}", field=what)
    return table


def sort_edges(columns: dict[str, Any], n: int) -> None:
    """Bring the edge columns into the order of (source, target), in place and contiguous."""
    key = columns["sources"].astype(np.int64) * n + columns["targets"]
    is_sorted = len(key) < 2 or (key[1:] > key[:-1]).all()
    by_key = slice(None) if is_sorted else np.argsort(key, kind="stable")
    for name in ("sources", "targets", "data", "probability", "branch"):
        columns[name] = np.ascontiguousarray(columns[name][by_key])


def pointer_of(sorted_or_not: Ints32, n: int) -> Ints:
    """CSR row pointer of ``n`` rows, from the row of every entry."""
    counts = np.bincount(sorted_or_not, minlength=n)
    pointer = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(counts, out=pointer[1:])
    result: Ints = frozen(pointer)
    return result
