"""Rows of a document (lists of objects) to checked columns, in bulk: no object per row."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from weft.errors import InputError
from weft.io.sources import shown
from weft.io.units import parse_size
from weft.model.graph import Floats, Ints, Ints32

Row = Mapping[str, Any]


def rows_of(parent: Row, key: str, where: str = "", *, required: bool = True) -> list[dict[str, Any]]:
    """The list of objects under a key."""
    field = f"{where}.{key}" if where else key
    rows = parent.get(key)
    if rows is None and not required:
        return []
    if not isinstance(rows, list):
        raise InputError(f"expected a list, got {_given(parent, key)}", field=field)
    bad = next((i for i, row in enumerate(rows) if type(row) is not dict), None)
    if bad is not None:
        raise InputError(f"expected an object, got {shown(rows[bad])}", field=f"{field}[{bad}]")
    return rows


def object_of(parent: Row, key: str, where: str = "") -> dict[str, Any]:
    """The object under a key."""
    value = parent.get(key)
    if not isinstance(value, dict):
        raise InputError(
            f"expected an object, got {_given(parent, key)}", field=f"{where}.{key}" if where else key
        )
    return value


def _given(parent: Row, key: str) -> str:
    return shown(parent[key]) if key in parent else "nothing"


def refuse_unknown(rows: Sequence[Row], known: Collection[str], where: str) -> None:
    """An error for the first key that no row of this kind has, with the nearest that is known."""
    unknown = set(chain.from_iterable(rows)) - set(known)
    if unknown:
        index, key = next((i, k) for i, row in enumerate(rows) for k in row if k in unknown)
        raise InputError(unknown_key(key, known), field=f"{where}[{index}]")


def unknown_key(key: str, known: Iterable[str]) -> str:
    """The message for a key that is not known."""
    names = list(known)
    close = difflib.get_close_matches(key, names, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"expected {', '.join(names)}"
    return f"unknown key {shown(key)}; {hint}"


def numbers(
    values: Sequence[object],
    where: str,
    key: str,
    *,
    low: float | None = 0.0,
    rows: Sequence[int] | None = None,
) -> Floats:
    """Finite numbers from ``low`` on; an error names the row, ``where[i].key``.

    ``rows`` gives the row of every value where some rows have none.
    """
    if set(map(type, values)) <= {int, float}:
        try:
            column = np.array(values, dtype=np.float64).reshape(len(values))
        except OverflowError:
            column = np.array([_float_or_nan(v) for v in values])
    else:
        column = np.array([_float_or_nan(v) for v in values])
    bad = ~np.isfinite(column)
    if low is not None:
        bad |= column < low
    if bad.any():
        at = int(np.argmax(bad))
        bound = "" if low is None else f" >= {low:g}"
        got = "nothing" if values[at] is None else shown(values[at])
        row = at if rows is None else rows[at]
        raise InputError(f"expected a finite number{bound}, got {got}", field=f"{where}[{row}].{key}")
    return column


def _float_or_nan(value: object) -> float:
    """NaN for what is not a number."""
    if type(value) not in (int, float):
        return float("nan")
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError:
        return float("inf")


def whole_numbers(values: Sequence[object], where: str, key: str, *, low: int | None = 0) -> Ints:
    """Whole numbers from ``low`` on, below 2^31."""
    column = numbers(values, where, key, low=low)
    bad = (column != np.floor(column)) | (np.abs(column) >= 2**31)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(f"expected a whole number, got {shown(values[row])}", field=f"{where}[{row}].{key}")
    return column.astype(np.int64)


def sizes(values: Sequence[object], where: str, key: str, *, rows: Sequence[int] | None = None) -> Floats:
    """Bytes from 0 on, as numbers or as texts with a unit; ``rows`` as for ``numbers``."""
    return quantities(values, where, key, parse_size, rows=rows)


def quantities(
    values: Sequence[object],
    where: str,
    key: str,
    parse: Callable[[object], float],
    *,
    rows: Sequence[int] | None = None,
) -> Floats:
    """Numbers from 0 on, or texts with a unit that ``parse`` reads; ``rows`` as for ``numbers``."""
    if str in set(map(type, values)):
        places = range(len(values)) if rows is None else rows
        values = [
            quantity(value, parse, f"{where}[{row}].{key}") if type(value) is str else value
            for row, value in zip(places, values, strict=True)
        ]
    return numbers(values, where, key, rows=rows)


def quantity(text: str, parse: Callable[[object], float], field: str) -> float:
    """A text with a unit; an error names the field."""
    try:
        return parse(text)
    except ValueError as error:
        raise InputError(str(error), field=field) from None


def texts(values: Sequence[object], where: str, key: str, *, rows: Sequence[int] | None = None) -> list[str]:
    """Non-empty texts; ``rows`` as for ``numbers``."""
    for at, value in enumerate(values):
        if type(value) is not str or not value:
            got = "nothing" if value is None else shown(value)
            row = at if rows is None else rows[at]
            raise InputError(f"expected a text, got {got}", field=f"{where}[{row}].{key}")
    return values  # type: ignore[return-value]


def name_index(names: Sequence[str], where: str, key: str) -> dict[str, int]:
    """Name to row; an error for the second row of one name."""
    index = {name: i for i, name in enumerate(names)}
    if len(index) != len(names):
        seen: dict[str, int] = {}
        for i, name in enumerate(names):
            if name in seen:
                raise InputError(
                    f"{shown(name)} is given twice, first in {where}[{seen[name]}]",
                    field=f"{where}[{i}].{key}",
                )
            seen[name] = i
    return index


def codes(values: Sequence[str]) -> tuple[tuple[str, ...], Ints32]:
    """The distinct texts in order of appearance, and the index of each value among them."""
    distinct = tuple(dict.fromkeys(values))
    index = {value: i for i, value in enumerate(distinct)}
    return distinct, np.array([index[value] for value in values], dtype=np.int32)
