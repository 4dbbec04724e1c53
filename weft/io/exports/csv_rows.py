"""Rows for spreadsheets and data frames: who is planned where and when and, of a run, where and when it ran."""

from __future__ import annotations

import csv
import io

from weft.io.exports.options import Options
from weft.io.exports.placed import DONE, Placed, Span

LIMITS: tuple[str, ...] = ()
PLANNED = ("job", "task", "copy", "device", "start", "finish")
RAN = ("actual_device", "actual_start", "actual_finish", "attempts", "outcome")


def dump(placed: Placed, options: Options) -> str:
    """Sorted by the planned start; tasks that nobody planned follow, as they ran."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((*PLANNED, *RAN) if placed.is_run else PLANNED)
    ran = _ran(placed)
    for span in placed.plan:
        task, device = placed.tasks[span.task], placed.devices[span.device]
        times = (span.start, span.finish)
        writer.writerow([task.job, task.name, span.copy, device.name, *times, *ran[span.task]])
    planned = {span.task for span in placed.plan}
    for number, task in enumerate(placed.tasks):
        if placed.is_run and number not in planned:
            writer.writerow([task.job, task.name, 0, "", "", "", *ran[number]])
    return out.getvalue()


def _ran(placed: Placed) -> list[list[object]]:
    """Of every task the attempt that ended well, or the last one; nothing where there is no run."""
    if not placed.is_run:
        return [[] for _ in placed.tasks]
    attempts: list[list[Span]] = [[] for _ in placed.tasks]
    for span in placed.actual:
        attempts[span.task].append(span)
    found: list[list[object]] = []
    for spans in attempts:
        if not spans:
            found.append(["", "", "", 0, ""])
            continue
        last = next((span for span in spans if span.outcome == DONE), spans[-1])
        device = placed.devices[last.device].name
        found.append([device, last.start, last.finish, len(spans), last.outcome])
    return found
