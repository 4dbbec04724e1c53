"""JSON with one line per entry, as the exports that are JSON are written: plain ASCII, so that nothing in it can mislead."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from weft import __version__
from weft.io.exports.placed import Placed


def head(form: str, placed: Placed) -> dict[str, Any]:
    """What every document begins with."""
    return {
        "schema": f"weft/export-{form}/1",
        "weft": __version__,
        "workflow": placed.name,
        "scheduler": placed.scheduler or None,
        "time_unit": placed.time_unit,
    }


def lines(document: Mapping[str, Any]) -> str:
    """One line per key, and one per entry of the tables and lists in it."""
    rows = [f"  {_compact(key)}: {_value(value)}" for key, value in document.items()]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _value(value: Any) -> str:
    if isinstance(value, Mapping) and value:
        return "{\n" + ",\n".join(f"    {_compact(k)}: {_compact(v)}" for k, v in value.items()) + "\n  }"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f"    {_compact(one)}" for one in value) + "\n  ]"
    return _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, allow_nan=False)
