"""What the rows of a run's history look like, ``weft/history/1``: which fields each event has, and of what type.

Read by the oracle of histories alone; it shares no code with what writes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

SCHEMA = "weft/history/1"
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0, "unit": 1.0}
"""Seconds per unit of time."""
OUTCOMES = ("done", "failed", "expired")
REASONS = ("arrival", "late", "lost", "joined", "failed", "speeds", "resumed")

Row = Mapping[str, Any]
Check = Callable[[object], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_name(value: object) -> bool:
    return isinstance(value, str) or _is_whole(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return _is_whole(value) and int(str(value)) >= 1


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _are_edges(value: object) -> bool:
    return isinstance(value, list) and all(_are_texts(one) and len(one) == 2 for one in value)


def _are_devices(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict) and _is_text(one.get("name")) and _is_count(one.get("slots", 1))
        for one in value
    )


def _are_orders(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, list | tuple)
        and len(one) == 3
        and _is_name(one[0])
        and _is_text(one[1])
        and _is_count(one[2])
        for one in value
    )


def _are_rows(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, list | tuple)
        and len(one) == 5
        and _is_name(one[0])
        and all(map(_is_text, one[1:3]))
        and all(map(is_number, one[3:]))
        for one in value
    )


def _are_starts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, list | tuple) and len(one) == 3 for one in value)


_TASK: dict[str, Check] = {"job": _is_name, "task": _is_text}
_ATTEMPT: dict[str, Check] = {**_TASK, "attempt": _is_count}
_ORDER: dict[str, Check] = {**_ATTEMPT, "device": _is_text}
FIELDS: dict[str, dict[str, Check]] = {
    "run": {
        "schema": lambda value: value == SCHEMA,
        "time_unit": lambda value: value in SECONDS,
        "devices": _are_devices,
    },
    "arrived": {"job": _is_name, "tasks": _are_texts, "edges": _are_edges},
    "planned": {"reason": lambda value: value in REASONS, "rows": _are_rows},
    "submitted": {**_ORDER, "sequence": _is_whole, "ahead": _is_flag},
    "started": _ORDER,
    "finished": _ORDER,
    "failed": {**_ORDER, "note": _is_text},
    "reported": _ATTEMPT,
    "dropped": {**_TASK, "because": _is_text},
    "skipped": _TASK,
    "cancelled": _ORDER,
    "stray": _ORDER,
    "lost": {"device": _is_text},
    "joined": {"device": _is_text},
    "speed": {"device": _is_text, "factor": is_number},
    "waited": {"reason": lambda value: isinstance(value, str) and bool(value)},
    "shadow": {"scheduler": _is_text, "starts": _are_starts},
    "ended": {"job": _is_name, "outcome": lambda value: value in OUTCOMES},
    "resumed": {"driver": _is_count, "lost": _are_orders},
    "closed": {"ok": _is_flag},
}
"""Event -> the fields it must have."""


def fault_of(row: object) -> str:
    """What is wrong with the form of a row, in words; empty: nothing."""
    if not isinstance(row, Mapping):
        return f"expected an object, got {type(row).__name__}"
    event, time = row.get("event"), row.get("time")
    if not isinstance(event, str) or event not in FIELDS:
        return f"unknown event {event!r}"
    if not is_number(time) or float(str(time)) < 0.0:
        return f"{event}: expected a time >= 0, got {time!r}"
    wrong = [field for field, check in FIELDS[event].items() if not check(row.get(field))]
    return f"{event}: unexpected {wrong[0]} {row.get(wrong[0])!r}"[:200] if wrong else ""
