"""Annotations for ``dask.annotate``: the same as weft's own drop-in for ``dask.compute`` gives its graphs.

Pins are soft: work goes elsewhere when a worker dies, where a hard pin would wait for ever.
"""

from __future__ import annotations

from weft.io.exports.json_text import head, lines
from weft.io.exports.options import Options
from weft.io.exports.placed import Placed

LIMITS = (
    "Dask orders ready tasks by priority and keeps pins soft; it holds no start times",
    "switch work stealing off (distributed.scheduler.work-stealing), or idle workers take pinned tasks",
)


def dump(placed: Placed, options: Options) -> str:
    """Key -> workers, allow_other_workers and priority; tasks that start earlier have larger priorities."""
    notes = {}
    for rank, span in enumerate(placed.order):
        device = placed.devices[span.device]
        notes[placed.labels[span.task]] = {
            "workers": [device.worker or device.name],
            "allow_other_workers": True,
            "priority": -rank,
        }
    return lines({**head("dask", placed), "annotations": notes})
