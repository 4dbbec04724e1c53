"""Ranks for ``snakemake-scheduler-plugin-weft``: a row per task, found by output files, name, or rule and kind."""

from __future__ import annotations

from weft.io.exports.json_text import head, lines
from weft.io.exports.options import Options
from weft.io.exports.placed import Placed

LIMITS = (
    "Snakemake starts the first ranked of the jobs that are ready and fit; it does not wait for a planned start",
    "which machine runs a job is up to Snakemake's executor; the planned device is only written down",
)


def dump(placed: Placed, options: Options) -> str:
    """Rows in the order of the plan."""
    jobs = []
    for rank, span in enumerate(placed.order):
        task, device = placed.tasks[span.task], placed.devices[span.device]
        row = {"rank": rank, "task": task.name, "kind": task.kind, "outputs": list(task.outputs)}
        jobs.append({**row, "device": device.name, "class": device.device_class})
    return lines({**head("snakemake", placed), "jobs": jobs})
