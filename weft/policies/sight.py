"""What a policy observes, from a recipe or a card: every value checked before anything is made of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from weft.errors import InputError
from weft.sim.queues.observation import Sight

LARGEST = 1e12
"""Scales beyond this leave nothing to see."""
_LIMITS: dict[str, tuple[float, float]] = {
    "oldest": (0, 64),
    "age_scale": (1 / LARGEST, LARGEST),
    "length_scale": (1 / LARGEST, LARGEST),
    "room_kinds": (0, 1024),
    "room_devices": (0, 4096),
    "forget": (0, 1),
}
"""Number -> least and greatest value."""


def read_sight(table: object, place: str = "sight") -> Sight:
    """The blocks and scales of a table; ``place`` is its name in errors."""
    if not isinstance(table, Mapping):
        raise InputError(f"expected the blocks of an observation, got {table!r:.80}", field=place)
    for key in table:
        if key not in Sight._fields:
            raise InputError(f"expected one of {', '.join(Sight._fields)}", field=f"{place}.{key}")
    chosen: dict[str, Any] = {key: _value(key, value, f"{place}.{key}") for key, value in table.items()}
    return Sight(**chosen)


def _value(key: str, value: object, field: str) -> float | bool:
    neutral = Sight._field_defaults[key]
    if isinstance(neutral, bool):
        if not isinstance(value, bool):
            raise InputError(f"expected true or false, got {value!r:.80}", field=field)
        return value
    least, most = _LIMITS[key]
    is_whole = isinstance(neutral, int)
    kind = int if is_whole else int | float
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    if not isinstance(value, int | float) or not is_number or not least <= value <= most or math.isnan(value):
        what = "a whole number" if is_whole else "a number"
        raise InputError(f"expected {what} from {least:g} to {most:g}, got {value!r:.80}", field=field)
    return value if is_whole else float(value)
