"""Training runs that differ in their seed alone, as one scheduler of a report: their mean."""

from __future__ import annotations

import re
from collections.abc import Sequence

from weft.evaluation.sweep.evaluation import Evaluation

_RUN = re.compile(r"(?P<folder>.+)/seed-[^/]+")


def together(swept: Evaluation, apart: Sequence[str | None] = ()) -> Evaluation:
    """The sweep with the runs of every folder ``seed-1``, ``seed-2``, ... as one scheduler.

    Parameters
    ----------
    apart
        Schedulers that were asked for by name: their folders are left as they are.
    """
    folders: dict[str, list[str]] = {}
    for name in swept.learned:
        if (match := _RUN.fullmatch(name)) is not None:
            folders.setdefault(match["folder"], []).append(name)
    alone = {swept.baseline, *apart}
    runs = {folder: tuple(own) for folder, own in folders.items() if len(own) > 1 and not alone & set(own)}
    return swept.grouped(runs)


def in_words(swept: Evaluation) -> list[str]:
    """Which schedulers stand for several runs."""
    parts = [f"{swept.shown(name)} for {len(own)}" for name, own in swept.runs.items()]
    if not parts:
        return []
    return [
        f"Some schedulers stand for several training seeds, with their mean: {', '.join(parts)}. Their intervals are over "
        "training seeds and samples, the other ones over samples alone. Every row names its run."
    ]
