"""Which schedules the oracle looks at, and hashes of schedules."""

from __future__ import annotations

import hashlib

import numpy as np

from weft.evaluation.sweep.store import Key
from weft.model.schedule import Schedule
from weft.model.validate import validate

SMALL = 2_000
"""Schedules of at most this many rows are always checked, unless the check is off."""
ONE_IN = 10
"""Of the larger ones, one in this many is checked."""
_COLUMNS = ("task", "device", "start", "finish", "copy", "attempt", "batch", "outcome")


def is_drawn_for_check(check: str, num_rows: int, key: Key) -> bool:
    """Whether the oracle looks at a schedule; the draw depends on the key alone."""
    if check == "sample" and num_rows > SMALL:
        return digest("check", *key) % ONE_IN == 0
    return check != "none"


def fault_of(schedule: Schedule) -> str | None:
    """The first rule that a schedule breaks; None: it keeps them all."""
    return next((str(violation) for violation in validate(schedule)), None)


def trace_hash(schedule: Schedule) -> str:
    """SHA-256 of all columns: equal hashes, equal schedules."""
    digest = hashlib.sha256()
    launched = ("launch",) if (schedule.launch >= 0).any() else ()
    for name in (*_COLUMNS, *launched):
        column = np.ascontiguousarray(getattr(schedule, name))
        digest.update(column.astype(column.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


def digest(*key: object) -> int:
    """A number that is a function of the key alone."""
    text = "\x1f".join(str(part) for part in key)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")
