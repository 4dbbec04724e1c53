"""Priorities for Airflow: ``priority_weight``, and a pool and queue per class of devices.

Weights count as they are only under ``weight_rule="absolute"``; otherwise Airflow adds up those of descendants.
"""

from __future__ import annotations

from weft.io.exports.json_text import head, lines
from weft.io.exports.options import Options
from weft.io.exports.placed import Placed
from weft.io.exports.words import unique, word

LONGEST_ID = 250
LIMITS = (
    "Airflow starts the heavier of the tasks that are ready and fit their pool; it does not wait for a planned start",
    "a pool limits a class of devices; which device of the class a task gets is up to the workers of its queue",
)


def dump(placed: Placed, options: Options) -> str:
    """Pools with their slots, and per task id what its operator is given; larger weights start first."""
    slots = placed.class_slots
    pools = dict(zip(slots, unique(list(slots), word, LONGEST_ID), strict=True))
    ids = unique(placed.labels, word, LONGEST_ID)
    tasks = {}
    for rank, span in enumerate(placed.order):
        task, device = placed.tasks[span.task], placed.devices[span.device]
        tasks[ids[span.task]] = {
            "priority_weight": len(placed.order) - rank,
            "weight_rule": "absolute",
            "pool": pools[device.device_class],
            "pool_slots": task.slots,
            "queue": pools[device.device_class],
            "weft": {"job": task.job, "task": task.name, "device": device.name},
        }
    sizes = {pools[name]: {"slots": number, "class": name} for name, number in slots.items()}
    return lines({**head("airflow", placed), "pools": sizes, "tasks": tasks})
