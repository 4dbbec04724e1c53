"""Verbs that look at one plan: explain, gantt."""

from __future__ import annotations

import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as opt
from weft.cli import output, plan

if TYPE_CHECKING:
    from weft.model.problem import Problem
    from weft.model.schedule import Schedule

Given = Annotated[
    Path | None, typer.Option("--schedule", metavar="SCHEDULE", help="Use this schedule file, do not plan.")
]


def _planned_or_read(problem: Problem, given: Path | None, scheduler: str, seed: int) -> tuple[str, Schedule]:
    """The schedule to look at, and a title that says where it comes from."""
    from weft.io.files import read_schedule

    if given is not None:
        return given.name, read_schedule(given, problem)
    return scheduler, plan.make(problem, scheduler, seed).schedule


def explain(
    file: opt.File,
    task: Annotated[str, typer.Argument(metavar="TASK", show_default=False, help="Id of the task.")],
    cluster: opt.Cluster = None,
    scheduler: opt.Scheduler = "heft",
    schedule: Given = None,
    ccr: opt.Ccr = None,
    seed: opt.Seed = 0,
    copies: opt.Copies = True,
    as_json: opt.Json = False,
) -> None:
    """Say why a task runs where it does, and why not earlier."""
    from weft.schedulers import explain as explaining

    problem = plan.load(file, cluster, ccr, copies)
    title, found = _planned_or_read(problem, schedule, scheduler, seed)
    explanation = explaining.explain(found, task)
    if as_json:
        fields = {
            "scheduler": title,
            "task": task,
            "explanation": asdict(explanation),
            "text": str(explanation),
        }
        output.emit(output.document("explain", seed, fields))
    else:
        output.say(output.safe_lines(explanation))


def gantt(
    file: opt.File,
    schedule: Annotated[
        Path | None,
        typer.Argument(metavar="SCHEDULE", show_default=False, help="Schedule file; else one is planned."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="PNG or SVG; else it is drawn in the terminal."),
    ] = None,
    cluster: opt.Cluster = None,
    scheduler: Annotated[
        str, typer.Option("--scheduler", "-s", metavar="NAME", help="One or several, as in heft,deft.")
    ] = "heft",
    ccr: opt.Ccr = None,
    seed: opt.Seed = 0,
    copies: opt.Copies = True,
    width: Annotated[
        int | None, typer.Option("--width", min=40, max=1000, help="Columns of the terminal view.")
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Draw a schedule: as a picture, or in the terminal."""
    output.check_folder(out)
    opt.check_chart(out, "--out")
    problem = plan.load(file, cluster, ccr, copies)
    names = [scheduler] if schedule is not None else opt.split_names([scheduler])
    drawn = [_planned_or_read(problem, schedule, name, seed) for name in names]
    is_coloured = sys.stdout.isatty() and not as_json
    text = _drawn_to(drawn, out, width, is_coloured)
    if as_json:
        charts = [{"title": title, "makespan": found.makespan} for title, found in drawn]
        fields = {"out": None if out is None else str(out), "charts": charts, "text": text}
        output.emit(output.document("gantt", seed, fields))
    elif text is None:
        output.say(f"wrote {out}")
    else:
        (output.paint if is_coloured else output.say)(output.safe_lines(text))


def _drawn_to(
    drawn: list[tuple[str, Schedule]], out: Path | None, width: int | None, is_coloured: bool
) -> str | None:
    """Write the picture and return None, or return the terminal view."""
    from weft.evaluation import gantt as charts

    if out is None:
        columns = width or shutil.get_terminal_size((100, 24)).columns
        parts = [(title, charts.terminal(found, columns, markup=is_coloured)) for title, found in drawn]
        return "\n\n".join(f"{title}\n{text}" for title, text in parts) if len(parts) > 1 else parts[0][1]
    with output.progress(f"drawing {out}"):
        if len(drawn) == 1:
            charts.draw(drawn[0][1], out, title=f"{drawn[0][1].problem.name}, {drawn[0][0]}")
        else:
            charts.several(drawn, out)
    return None
