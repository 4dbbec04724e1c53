"""The verb that describes a workflow before anything is planned: show."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as opt
from weft.cli import output

if TYPE_CHECKING:
    from weft.evaluation.questions.fit import Fit, Lack
    from weft.evaluation.questions.show import Shown

MOST_TASKS = 7
"""Tasks of the critical path that are named."""
MOST_JOBS = 6


def show(
    file: opt.File,
    cluster: opt.Cluster = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the graph here (PNG or SVG).")
    ] = None,
    width: Annotated[
        int | None, typer.Option("--width", min=40, max=1000, help="Columns of the terminal view.")
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Describe a workflow, and which devices can run what."""
    from weft.evaluation.questions.show import show as describe

    output.check_folder(plot)
    opt.check_chart(plot, "--plot", "a picture of the graph")
    with output.progress(f"reading {file}"):
        found = describe(file, cluster, plot=plot)
    if as_json:
        output.emit(found.to_dict())
        return
    output.say(output.safe_lines("\n".join(_facts(found))))
    _show_kinds(found)
    if found.fit is not None:
        output.say(output.safe_lines("\n".join(_fit(found.fit, found))))
    output.say(output.safe_lines(f"\n{found.picture(width or shutil.get_terminal_size((100, 24)).columns)}"))
    if plot is not None:
        output.note(f"wrote {plot}")
    if found.fit is None or not found.fit.no_class:
        machines = cluster if found.fit is not None else "gpu-mix-8"
        output.next_command(f"weft schedule {opt.again(file, machines, None, True, 0)}")


def _facts(found: Shown) -> Iterator[str]:
    unit = found.time_unit
    size = ", ".join(output.count(*pair) for pair in ((found.tasks, "task"), (found.edges, "edge")))
    yield (
        f"{found.name}: {size}, {output.count(found.depth, 'level')}, "
        f"at most {output.count(found.width, 'task')} on one"
    )
    yield f"  work           {output.number(found.work)} {unit}"
    named = _shortened(found.critical_tasks, MOST_TASKS, " -> ")
    tasks = output.count(len(found.critical_tasks), "task")
    yield f"  critical path  {output.number(found.critical_path)} {unit} over {tasks}: {named}"
    yield f"  parallelism    {output.number(found.parallelism, 3)} (work over critical path)"
    yield f"  data           {_data(found)}"
    if len(found.jobs) > 1:
        releases = [f"{output.number(job.release)} {unit} {job.job}" for job in found.jobs]
        yield f"  jobs           {len(found.jobs)}, released at {_shortened(releases, MOST_JOBS, ', ')}"


def _data(found: Shown) -> str:
    if found.largest_edge is None or not found.data:
        return "none"
    largest = " -> ".join(found.largest_edge)
    return f"{output.size(found.data)} in all, largest {output.size(found.largest_data)} ({largest})"


def _shortened(names: Sequence[str], most: int, between: str) -> str:
    if len(names) > most:
        names = [*names[: most - most // 2 - 1], "...", *names[-(most // 2) :]]
    return between.join(names)


def _show_kinds(found: Shown) -> None:
    """Kinds with counts, work and, on a cluster, the mean run time per class."""
    classes = [] if found.fit is None else [one.name for one in found.fit.classes]
    times = [f"on {output.safe(name)} [{found.time_unit}]" for name in classes]
    tail = ["no class", "one class"] if classes else []
    numeric = ["tasks", f"work [{found.time_unit}]", "share", *times, *tail]
    table = output.table(["kind", *numeric], numeric)
    for row in found.kinds:
        share = 100.0 * row.work / found.work if found.work else None
        cells = [output.number((row.run_times or {}).get(name), 4) for name in classes]
        tail_cells = [str(row.no_class), str(row.one_class)] if classes else []
        start = (output.safe(row.kind), str(row.tasks), output.number(row.work))
        table.add_row(*start, output.percent(share), *cells, *tail_cells)
    output.say("")
    output.show(table, spare=["share", *tail, *times[::-1]])


def _fit(fit: Fit, found: Shown) -> Iterator[str]:
    yield f"\non {fit.cluster}: {output.count(fit.devices, 'device')}"
    runs = [f"{one.name} x {one.devices} can run {_of(one.tasks, found.tasks)}" for one in fit.classes]
    yield f"  classes        {', '.join(runs)}"
    if fit.one_class or fit.no_class:
        yield f"  restricted     only one class can run {fit.one_class} of the tasks, no class {fit.no_class}"
    if fit.ccr is not None:
        yield f"  ccr            {output.number(fit.ccr, 3)} (mean transfer over mean run time)"
    if fit.fastest_path is not None:
        path = f"{output.number(fit.fastest_path)} {found.time_unit}"
        yield f"  critical path  {path} with every task on its fastest device"
    for lack in fit.lacks:
        yield f"  cannot run     {_lack(lack)}"


def _of(count: int, total: int) -> str:
    return "all" if count == total else f"{count} of {total}"


def _lack(lack: Lack) -> str:
    say = output.size if lack.what == "memory" else output.number
    verb = "needs" if lack.tasks == 1 else "need"
    tasks = output.count(lack.tasks, "task")
    return f"{tasks} {verb} more {lack.what} than any device has: {lack.task} {say(lack.needs)}, most {say(lack.most)}"
