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
from weft.errors import INTERRUPTED, InputError

if TYPE_CHECKING:
    from weft.model.problem import Problem
    from weft.model.schedule import Schedule

Given = Annotated[
    Path | None, typer.Option("--schedule", metavar="SCHEDULE", help="Use this schedule file, do not plan.")
]


def _end(stop: output.Stop) -> None:
    """End with the exit code of an interruption: the plan was that of a search cut short."""
    if stop.is_asked:
        raise SystemExit(INTERRUPTED)


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
    with output.until_interrupt() as stop:
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
    _end(stop)


def gantt(
    file: opt.File,
    schedule: Annotated[
        Path | None,
        typer.Argument(
            metavar="SCHEDULE",
            show_default=False,
            help="Schedule file, may stand first; else one is planned.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="PNG, SVG or HTML; else it is drawn in the terminal."
        ),
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
    """Draw a schedule: as a picture or page, or in the terminal."""
    output.check_folder(out)
    opt.check_gantt(out, "--out")
    with output.until_interrupt() as stop:
        drawn = _carried_out(file) if schedule is None else None
        if drawn is None:
            file, schedule = _in_order(file, schedule)
            problem = plan.load(file, cluster, ccr, copies)
            names = [scheduler] if schedule is not None else opt.split_names([scheduler])
            drawn = dict(_planned_or_read(problem, schedule, name, seed) for name in names)
    is_coloured = sys.stdout.isatty() and not as_json
    found = plan.draw(drawn, out, width or shutil.get_terminal_size((100, 24)).columns, is_coloured)
    if as_json:
        output.emit(output.document("gantt", seed, found.to_dict()))
    else:
        (output.paint if is_coloured and out is None else output.say)(output.safe_lines(found))
    _end(stop)


def _carried_out(folder: Path) -> dict[str, Schedule] | None:
    """Plan and actual of a run, by their titles; None: this is no run."""
    from weft.evaluation.executed.executed import PLAN, PROBLEM, read_executed, schedule_of
    from weft.io.files import load_problem, read_schedule
    from weft.io.histories import is_history

    if not is_history(folder):
        return None
    folder = folder if folder.is_dir() else folder.parent
    if not (folder / PROBLEM).is_file():
        raise InputError(
            "the problem of the run is not there: see weft report for its chart", file=str(folder / PROBLEM)
        )
    problem = load_problem(folder / PROBLEM)
    actual = {"actual": schedule_of(read_executed(folder), problem)}
    if (folder / PLAN).is_file():
        return {"planned": read_schedule(folder / PLAN, problem), **actual}
    return actual


def _in_order(file: Path, schedule: Path | None) -> tuple[Path, Path | None]:
    """The workflow and the schedule, whichever stands first."""
    from weft.io.files import is_schedule

    if not is_schedule(file):
        return file, schedule
    if schedule is None:
        raise plan.no_problem(file, "gantt")
    return schedule, file
