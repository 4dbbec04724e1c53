"""The verb stress: problems on which a planner thought worse beats one thought better."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as opt
from weft.cli import output, plan
from weft.cli.questions import Pace

if TYPE_CHECKING:
    from weft.evaluation.questions.stress import Find, Question, Search
    from weft.model.problem import Problem
    from weft.schedulers.base import Limit

REDRAW = 0.2
"""Seconds between two changes of the line on a terminal."""

Tell = Callable[["Search"], None]


def stress(
    better: Annotated[
        str, typer.Option("--better", metavar="A", help="The planner that should be better, A.")
    ],
    worse: Annotated[str, typer.Option("--worse", metavar="B", help="The planner that should be worse, B.")],
    ratio: Annotated[
        float, typer.Option("--ratio", metavar="R", help="Ratio of makespans, A over B, to reach.")
    ] = 1.3,
    tasks: Annotated[int, typer.Option("--tasks", metavar="N", help="Most tasks.")] = 16,
    devices: Annotated[int, typer.Option("--devices", metavar="N", help="Most devices.")] = 4,
    spread: Annotated[
        float,
        typer.Option("--spread", metavar="X", help="Work, speeds, data and bandwidth are from 1 to X."),
    ] = 10.0,
    related: Annotated[
        bool, typer.Option("--related", help="One speed per device, no run times of a task's own.")
    ] = False,
    budget: opt.Budget = None,
    effort: opt.Effort = None,
    seed: opt.Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Folder for what is found; default: stress-A-B."),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Search for problems on which the worse of two planners wins."""
    from weft.evaluation.questions.adversary import Space
    from weft.evaluation.questions.stress import Question
    from weft.schedulers.base import Limit

    question = Question(better, worse, ratio, Space(tasks, devices, spread, related), seed)
    folder = out or Path(f"stress-{_plain(better)}-{_plain(worse)}")
    output.check_folder(folder)
    stop = output.Stop()
    search, seconds = _searched(question, folder, Limit(opt.parse_duration(budget), effort), stop)
    if search.worst is None and stop.is_asked:
        raise KeyboardInterrupt
    if as_json:
        fields = _fields(search, folder, seconds, budget is None)
        output.emit(output.document("stress", seed, fields | stop.fields))
    else:
        _show(search, folder, seconds)
    if stop.is_asked:
        raise output.Interrupted(output.count(search.evaluations, "problem"))
    if as_json:
        return
    best = folder / (_file(search, search.smallest) or _file(search, search.worst) or "")
    output.next_command(
        f"weft compare {shlex.quote(str(best))} --schedulers {shlex.quote(f'{better},{worse}')}"
    )


def _plain(name: str) -> str:
    """The name of a planner, of a mix in a file its stem, as part of a folder's name."""
    return Path(name).stem


def _searched(question: Question, folder: Path, limit: Limit, stop: output.Stop) -> tuple[Search, float]:
    """Search until the limit or Ctrl-C; the folder then holds what was found."""
    from weft import doctor
    from weft.evaluation.questions import stress as searching

    with output.progress(f"compiling {question.better}, {question.worse}"):
        doctor.warm((question.better, question.worse))
    started = time.perf_counter()
    with _progress() as tell, searching.open_search(folder, question, tell) as search:
        try:
            search.run(replace(limit, started=started), lambda done: searching.save_record(done, folder))
        except KeyboardInterrupt:  # at once: the record is of the last whole round, and resumes there
            stop.is_asked = True
    return search, time.perf_counter() - started


@contextmanager
def _progress() -> Iterator[Tell]:
    """A line that changes on a terminal, else one now and then."""
    if not output.is_animated():
        pace = Pace()
        yield lambda search: output.note(f"weft: {_so_far(search)} ...") if pace.is_due() else None
        return
    from rich.console import Console

    last = 0.0

    def update(search: Search) -> None:
        nonlocal last
        if time.monotonic() - last >= REDRAW:
            last = time.monotonic()
            status.update(f"{_so_far(search)} ...")

    with Console(stderr=True, markup=False, emoji=False).status("searching ...") as status:
        yield update


def _so_far(search: Search) -> str:
    question = search.question
    text = f"{search.evaluations} problems tried"
    if search.worst is not None:
        percent = output.percent(search.worst.above_percent, "+")
        text += f", {output.safe(question.better)} up to {percent} against {output.safe(question.worse)}"
    if search.smallest is not None:
        text += f", ratio {question.ratio:g} with {output.count(search.smallest.size[0], 'task')}"
    return text


def _file(search: Search, find: Find | None) -> str | None:
    from weft.evaluation.questions.stress import SMALLEST, WORST

    if find is None:
        return None
    return SMALLEST if find is search.smallest else WORST


def _fields(search: Search, folder: Path, seconds: float, is_repeatable: bool) -> dict[str, object]:
    from weft.evaluation.questions.stress import SMALLEST, WORST

    question, space = search.question, search.question.space
    return {
        "better": question.better,
        "worse": question.worse,
        "ratio": question.ratio,
        "reached": search.smallest is not None,
        "tasks": space.tasks,
        "devices": space.devices,
        "spread": space.spread,
        "related": space.is_related,
        "evaluations": search.evaluations,
        "rounds": search.rounds,
        "seconds": seconds,
        "repeatable": is_repeatable,
        "worst": _find_fields(search.worst, folder / WORST),
        "smallest": _find_fields(search.smallest, folder / SMALLEST),
    }


def _find_fields(find: Find | None, path: Path) -> dict[str, object] | None:
    if find is None:
        return None
    tasks, devices, edges, _ = find.size
    return {
        "file": str(path),
        "tasks": tasks,
        "edges": edges,
        "devices": devices,
        "better_makespan": find.better,
        "worse_makespan": find.worse,
        "ratio": find.ratio,
        "above_percent": find.above_percent,
    }


def _show(search: Search, folder: Path, seconds: float) -> None:
    from weft.evaluation.questions.stress import SMALLEST, WORST

    question = search.question
    a, b = output.safe(question.better), output.safe(question.worse)
    numeric = ("tasks", "edges", "devices", f"{a} [s]", f"{b} [s]", "ratio", f"{a} against {b}")
    table = output.table(["", *numeric], numeric, _table_title(search, a, b))
    finds = {"worst": search.worst, "smallest": search.smallest}
    for label, find in finds.items():
        if find is None:
            continue
        tasks, devices, edges, _ = find.size
        table.add_row(
            label,
            *(str(number) for number in (tasks, edges, devices)),
            *(output.number(value) for value in (find.better, find.worse, find.ratio)),
            output.percent(find.above_percent, "+"),
        )
    output.show(table, spare=("edges", "devices"))
    rounds = output.count(search.rounds, "round")
    output.say(f"{search.evaluations} problems tried in {rounds}, {output.duration(seconds)}")
    names = [name for name, find in zip((WORST, SMALLEST), finds.values(), strict=True) if find is not None]
    output.say(f"files: {', '.join(output.safe(folder / name) for name in names)}")
    if search.smallest is None:
        output.say(f"no problem found on which {a} takes {question.ratio:g} times as long as {b}")
        return
    output.say("")
    _show_problem(search.smallest.problem)


def _table_title(search: Search, a: str, b: str) -> str:
    is_beaten = search.worst is not None and search.worst.above_percent > 0.0
    return f"problems on which {b} beats {a}" if is_beaten else f"the problem nearest to {b} beating {a}"


def _show_problem(problem: Problem) -> None:
    """The smallest problem in full: run times per device, what each task waits for."""
    graph = problem.graph
    names = problem.cluster.device_names
    bandwidth = output.size(float(problem.cluster.bandwidth[0, 0]))
    title = f"the smallest: {plan.scale(problem)}, {bandwidth}/s between them; run times in s"
    table = output.table(["task", *names, "after"], names, title)
    for i, name in enumerate(graph.names):
        edges = graph.predecessor_edges[graph.predecessor_pointer[i] : graph.predecessor_pointer[i + 1]]
        after = ", ".join(
            f"{graph.names[graph.sources[e]]} ({output.size(float(graph.data[e]))})" for e in edges.tolist()
        )
        table.add_row(name, *(output.number(value, 4) for value in problem.run_times[i].tolist()), after)
    output.show(table)
