"""What a policy observes, from a recipe or a card: every value checked before anything is made of it."""

from __future__ import annotations

from collections.abc import Mapping

from weft.errors import InputError
from weft.sim.queues.observation import Sight
from weft.tables import FLAG, number, whole

LARGEST = 1e12
"""Scales beyond this leave nothing to see."""
_RULES = {
    "oldest": whole(0, 64),
    "age_scale": number(1 / LARGEST, LARGEST),
    "length_scale": number(1 / LARGEST, LARGEST),
    "room_kinds": whole(0, 1024),
    "room_devices": whole(0, 4096),
    "forget": number(0, 1),
}
"""Numbers; everything else is true or false."""


def read_sight(table: object, place: str = "sight") -> Sight:
    """The blocks and scales of a table; ``place`` is its name in errors."""
    if not isinstance(table, Mapping):
        raise InputError(f"expected the blocks of an observation, got {table!r:.80}", field=place)
    for key, value in table.items():
        if key not in Sight._fields:
            raise InputError(f"expected one of {', '.join(Sight._fields)}", field=f"{place}.{key}")
        _RULES.get(key, FLAG).refuse(value, f"{place}.{key}")
    usual = Sight._field_defaults
    return Sight(**{key: type(usual[key])(value) for key, value in table.items()})
