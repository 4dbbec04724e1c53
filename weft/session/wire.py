"""Events as plain data, as a service or a log holds them: ``{"event": "finished", "job": ...}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.errors import InputError

TASK = ("job", "task", "device", "time")
FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "arrived": (("job", "time"), ()),
    "closed": (("time",), ()),
    "started": (TASK, ("attempt", "branch")),
    "finished": (TASK, ("attempt", "branch")),
    "failed": (TASK, ("attempt",)),
    "vacated": (TASK, ()),
    "device_lost": (("device", "time"), ()),
    "device_joined": (("device", "time"), ()),
}
"""Event to the fields it must have and those it may have."""


def arguments_of(event: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and arguments of an event; raises InputError where a field is missing or unknown."""
    if not isinstance(event, Mapping):
        raise InputError(f"expected an event with named fields, got {event!r}", field="event")
    name = event.get("event")
    if not isinstance(name, str) or name not in FIELDS:
        raise InputError(f"expected one of {', '.join(FIELDS)}, got {name!r}", field="event")
    needed, optional = FIELDS[name]
    for key in needed:
        if key not in event:
            raise InputError("expected this field, found none", field=f"{name}.{key}")
    given = {key: value for key, value in event.items() if key != "event"}
    for key in given:
        if key not in needed and key not in optional:
            raise InputError(
                f"no such field; expected {', '.join((*needed, *optional))}", field=f"{name}.{key}"
            )
    return name, given
