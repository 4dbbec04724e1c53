"""What the rows of a sweep say of every device."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.errors import InputError
from weft.evaluation.sweep.store import Row


@dataclass(frozen=True)
class DeviceUse:
    """How busy one device was under one scheduler, the mean over samples."""

    device: str
    utilisation: float
    batch_fill: float


def numbered(names: Sequence[str]) -> list[str]:
    """Names made different: slots of one device share its name."""
    return [f"{name} ({names[:i].count(name) + 1})" if names.count(name) > 1 else name
            for i, name in enumerate(names)]  # fmt: skip


def device_rows(row: Row) -> list[Mapping[str, object]]:
    """What a row says of every device; empty where it says nothing."""
    try:
        found = json.loads(row.devices or "[]")
        return [{**one, "device": str(one["device"])} for one in found]
    except (ValueError, TypeError, KeyError):
        raise InputError(
            "expected a list of devices", field=f"{row.problem}, {row.scheduler}: devices"
        ) from None
