"""What ``weft.show`` found, in words: facts with their names, and the table of kinds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from weft.evaluation.questions.fit import Fit, Lack
from weft.evaluation.questions.show import Shown
from weft.wording import count, number, percent, size

MOST_TASKS = 7
"""Tasks of the critical path that are named."""
MOST_JOBS = 6

Fact = tuple[str, str]
"""What is said, and the words for it."""


class KindTable(NamedTuple):
    """Kinds with counts, work and, on a cluster, the mean run time per class."""

    headers: tuple[str, ...]
    """The first is the kind, all others are numbers."""
    spare: tuple[str, ...]
    """Headers of the columns to do without first, where there is little room."""
    rows: tuple[tuple[str, ...], ...]


def scale(found: Shown) -> str:
    """How large the graph is."""
    parts = ", ".join(
        count(*pair) for pair in ((found.tasks, "task"), (found.edges, "edge"), (found.depth, "level"))
    )
    return f"{parts}, at most {count(found.width, 'task')} on one level"


def facts(found: Shown) -> Iterator[Fact]:
    """What holds on any machines."""
    unit = found.time_unit
    yield "work", f"{number(found.work)} {unit}"
    named = shortened(found.critical_tasks, MOST_TASKS, " -> ")
    tasks = count(len(found.critical_tasks), "task")
    yield "critical path", f"{number(found.critical_path)} {unit} over {tasks}: {named}"
    yield "parallelism", f"{number(found.parallelism, 3)} (work over critical path)"
    yield "data", _data(found)
    if len(found.jobs) > 1:
        releases = [f"{number(job.release)} {unit} {job.job}" for job in found.jobs]
        yield "jobs", f"{len(found.jobs)}, released at {shortened(releases, MOST_JOBS, ', ')}"


def fit_facts(fit: Fit, found: Shown) -> Iterator[Fact]:
    """What holds on these machines."""
    runs = [f"{one.name} x {one.devices} can run {_of(one.tasks, found.tasks)}" for one in fit.classes]
    yield "classes", ", ".join(runs)
    if fit.one_class or fit.no_class:
        yield "restricted", f"only one class can run {fit.one_class} of the tasks, no class {fit.no_class}"
    if fit.ccr is not None:
        yield "ccr", f"{number(fit.ccr, 3)} (mean transfer over mean run time)"
    if fit.fastest_path is not None:
        path = f"{number(fit.fastest_path)} {found.time_unit}"
        yield "critical path", f"{path} with every task on its fastest device"
    for lack in fit.lacks:
        yield "cannot run", _lack(lack)


def kind_table(found: Shown) -> KindTable:
    """One row per kind."""
    classes = [] if found.fit is None else [one.name for one in found.fit.classes]
    times = tuple(f"on {name} [{found.time_unit}]" for name in classes)
    tail = ("no class", "one class") if classes else ()
    rows = []
    for row in found.kinds:
        share = percent(100.0 * row.work / found.work if found.work else None)
        cells = [number((row.run_times or {}).get(name), 4) for name in classes]
        counts = [str(row.no_class), str(row.one_class)] if classes else []
        rows.append((row.kind, str(row.tasks), number(row.work), share, *cells, *counts))
    headers = ("kind", "tasks", f"work [{found.time_unit}]", "share", *times, *tail)
    return KindTable(headers, ("share", *tail, *times[::-1]), tuple(rows))


def shortened(names: Sequence[str], most: int, between: str) -> str:
    """Names in a row, without those in the middle where there are too many."""
    if len(names) > most:
        names = [*names[: most - most // 2 - 1], "...", *names[-(most // 2) :]]
    return between.join(names)


def _data(found: Shown) -> str:
    if found.largest_edge is None or not found.data:
        return "none"
    largest = " -> ".join(found.largest_edge)
    return f"{size(found.data)} in all, largest {size(found.largest_data)} ({largest})"


def _of(part: int, total: int) -> str:
    return "all" if part == total else f"{part} of {total}"


def _lack(lack: Lack) -> str:
    say = size if lack.what == "memory" else number
    verb = "needs" if lack.tasks == 1 else "need"
    tasks = count(lack.tasks, "task")
    return f"{tasks} {verb} more {lack.what} than any device has: {lack.task} {say(lack.needs)}, most {say(lack.most)}"
