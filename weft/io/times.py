"""Files of times: one number per line, or a JSON list of numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path

from weft.errors import InputError
from weft.io.sources import decode, read_bytes, shown


def read_times(path: str | Path) -> tuple[float, ...]:
    """The times of a file in any order, each finite and at least 0; ``#`` begins a comment."""
    text = decode(read_bytes(path), path)
    entries = _listed(text, path) if text.lstrip().startswith("[") else _lines(text)
    found = tuple(_time(value, path, line) for line, value in entries)
    if not found:
        raise InputError("expected at least one time, got none", file=str(path))
    return found


def _listed(text: str, path: str | Path) -> list[tuple[int | None, object]]:
    try:
        return [(None, value) for value in json.loads(text)]
    except (ValueError, RecursionError) as error:
        raise InputError(f"expected a JSON list of times: {error}", file=str(path)) from None


def _lines(text: str) -> list[tuple[int | None, object]]:
    rows = [(n, line.partition("#")[0].strip()) for n, line in enumerate(text.splitlines(), 1)]
    return [(n, row) for n, row in rows if row]


def _time(value: object, path: str | Path, line: int | None) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0.0 <= number < math.inf:
        raise InputError(f"expected a finite time >= 0, got {shown(value)}", file=str(path), line=line)
    return number
