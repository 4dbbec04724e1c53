"""What the rows of a sweep say of every device."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.errors import InputError
from weft.evaluation.sweep.evaluation import Evaluation
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


def device_uses(swept: Evaluation, cell: str, scheduler: str) -> tuple[DeviceUse, ...]:
    """Every device's share of busy time and of its batches; empty where rows do not say, or machines differ."""
    mine = [device_rows(row) for row in swept.rows_of(cell, scheduler) if row.devices]
    lists = [[str(one["device"]) for one in row] for row in mine]
    if not lists or any(names != lists[0] for names in lists):
        return ()
    names = numbered(lists[0])
    columns = [
        [float(np.mean([float(str(row[d][key])) for row in mine])) for d in range(len(names))]
        for key in ("utilisation", "batch_fill")
    ]
    return tuple(DeviceUse(*one) for one in zip(names, *columns, strict=True))
