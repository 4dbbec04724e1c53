"""Training runs that differ in their seed alone, as one scheduler of a report: their mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from weft.evaluation.report.frame import Frame

_RUN = re.compile(r"(?P<folder>.+)/seed-[^/]+")


def together(frame: Frame, apart: Sequence[str | None] = ()) -> Frame:
    """The frame with the runs of every folder ``seed-1``, ``seed-2``, ... as one scheduler.

    Parameters
    ----------
    apart
        Schedulers that were asked for by name: their folders are left as they are.
    """
    folders: dict[str, list[str]] = {}
    for name in frame.learned:
        if (match := _RUN.fullmatch(name)) is not None:
            folders.setdefault(match["folder"], []).append(name)
    alone = {frame.baseline, *apart}
    runs = {folder: tuple(own) for folder, own in folders.items() if len(own) > 1 and not alone & set(own)}
    return _joined(frame, runs) if runs else frame


def _joined(frame: Frame, runs: dict[str, tuple[str, ...]]) -> Frame:
    folder_of = {name: folder for folder, own in runs.items() for name in own}
    values = dict(frame.values)
    for folder, own in runs.items():
        for metric in frame.metrics:
            for cell in frame.cells:
                columns = [frame.values[metric, cell.label, name] for name in own]
                values[metric, cell.label, folder] = np.mean(columns, axis=0)
    return replace(
        frame,
        schedulers=tuple(dict.fromkeys(folder_of.get(name, name) for name in frame.schedulers)),
        learned=tuple(dict.fromkeys(folder_of.get(name, name) for name in frame.learned)),
        breaches={folder_of.get(name, name): breach for name, breach in frame.breaches.items()},
        values=values,
        runs=runs,
    )


def in_words(frame: Frame) -> list[str]:
    """Which schedulers stand for several runs."""
    parts = [f"{frame.shown(name)} for {len(own)}" for name, own in frame.runs.items()]
    if not parts:
        return []
    return [
        f"Some schedulers stand for several training seeds, with their mean: {', '.join(parts)}. Their intervals are over "
        "training seeds and samples, the other ones over samples alone. Every row names its run."
    ]
