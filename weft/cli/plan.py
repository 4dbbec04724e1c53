"""Verbs that plan: schedule and compare."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as opt
from weft.cli import output
from weft.errors import INTERRUPTED, InputError

if TYPE_CHECKING:
    from weft.catalog import Result
    from weft.evaluation.comparing import Comparison, Contest, Row
    from weft.evaluation.figures.charts import Gantt
    from weft.model.problem import Problem
    from weft.model.schedule import Schedule

Noise = Annotated[
    str | None,
    typer.Option("--noise", metavar="CV", help="Replay the plan with run times that vary: 0.3 or 30%."),
]
Drawn = Annotated[
    Path | None, typer.Option("--gantt", metavar="FILE", help="Draw it here (PNG, SVG or HTML).")
]
NOT_VALID = 1
"""Exit code where a schedule breaks a rule."""


def load(file: Path, cluster: str | None, ccr: float | None, copies: bool) -> Problem:
    """Read a problem, saying so where it takes long."""
    from weft.io.files import read_problem

    with output.progress(f"reading {file}"):
        return read_problem(file, cluster, ccr=ccr, copies=copies)


def no_problem(schedule: Path, verb: str) -> InputError:
    """The refusal of a schedule file alone, with what is missing."""
    return InputError(
        f"a schedule does not hold its problem: give the workflow, and the cluster unless the workflow names its machines, "
        f"as in weft {verb} {shlex.quote(str(schedule))} FILE --cluster C",
        file=str(schedule),
    )


def make(
    problem: Problem, scheduler: str, seed: int, budget: float | None = None, effort: int | None = None
) -> Result:
    """Plan with one scheduler, saying so where it takes long."""
    from weft import catalog

    with output.progress(f"planning {output.count(problem.num_tasks, 'task')} with {scheduler}"):
        return catalog.schedule(problem, scheduler, seed=seed, budget=budget, effort=effort)


def first_fault(plan: Schedule) -> str | None:
    """The first rule the plan breaks, by the independent validator; None: it is valid."""
    from weft.model.validate import validate as check

    with output.progress(f"checking {len(plan)} placements"):
        found = check(plan)
    return str(found[0]) if found else None


def schedule(
    file: opt.File,
    cluster: opt.Cluster = None,
    scheduler: opt.Scheduler = "heft",
    ccr: opt.Ccr = None,
    samples: opt.Samples = None,
    budget: opt.Budget = None,
    effort: opt.Effort = None,
    seed: opt.Seed = 0,
    copies: opt.Copies = True,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the schedule here (JSON).")
    ] = None,
    gantt: Drawn = None,
    noise: Noise = None,
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="Replays, with --noise.")] = 50,
    as_json: opt.Json = False,
) -> None:
    """Plan a workflow on a cluster and say how good the plan is."""
    from weft.cli import questions
    from weft.io.files import write_schedule

    seconds, spread_by = opt.parse_duration(budget), opt.parse_noise(noise)
    output.check_folder(out)
    output.check_folder(gantt)
    opt.check_gantt(gantt, "--gantt")
    evaluations = opt.efforts(effort, samples)
    problem = load(file, cluster, ccr, copies)
    with output.until_interrupt() as stop:
        result = make(problem, scheduler, seed, seconds, evaluations)
    opt.say_unused([scheduler], {"--samples": samples, "--effort": effort, "--budget": budget})
    fault = first_fault(result.schedule)
    if out is not None:
        write_schedule(result, out, valid=fault is None)
    if gantt is not None:
        draw({scheduler: result.schedule}, gantt)
    is_played = spread_by is not None and fault is None
    spread = questions.under_noise(result.schedule, spread_by or 0.0, seeds, seed) if is_played else None
    if as_json:
        document = result.to_dict(valid=fault is None)
        if spread is not None:
            questions.add_noise(document, spread)
        output.emit(document)
        _end(fault, stop)
        return
    output.say(summary(result, fault, is_stopped=stop.is_asked))
    if spread is not None:
        output.say(questions.noise_summary(result.schedule, spread))
    for path in (out, gantt):
        if path is not None:
            output.note(f"wrote {path}")
    _end(fault, stop)
    output.next_command(f"weft compare {opt.again(file, cluster, ccr, copies, seed)}")


def _end(fault: str | None, stop: output.Stop) -> None:
    """End with an exit code where the plan is not valid, or was made before an interruption."""
    if fault is not None:
        raise typer.Exit(NOT_VALID)
    if stop.is_asked:
        raise SystemExit(INTERRUPTED)  # the plan is the answer: not an error to be said


def draw(
    plans: Mapping[str, Schedule], out: Path | None, width: int = 100, is_coloured: bool = False
) -> Gantt:
    """Draw schedules by their titles, saying so where a picture takes long."""
    from weft.evaluation.figures.charts import gantt

    with nullcontext() if out is None else output.progress(f"drawing {out}"):
        return gantt(plans, out, width=width, markup=is_coloured)


def summary(result: Result, fault: str | None, is_stopped: bool = False) -> str:
    """A few lines a person reads first."""
    from weft import catalog

    plan = result.schedule
    problem = plan.problem
    rows = [
        f"{output.safe(problem.name)}: {scale(problem)}, "
        f"by {result.scheduler} in {output.duration(result.seconds)}",
        f"  makespan     {output.number(plan.makespan)} {plan.time_unit}",
        f"  quality      {catalog.quality(plan)}",
        f"  utilisation  {', '.join(f'{name} {output.percent(100 * u)}' for name, u in busy(plan).items())}",
        f"  copies       {plan.num_copies} of {problem.num_tasks} tasks run again elsewhere"
        if plan.num_copies
        else "  copies       none",
        f"  check        {'valid' if fault is None else f'NOT VALID: {output.safe(fault)}'}",
    ]
    if result.note:
        rows.append(f"  note         {output.safe(result.note)}")
    if not result.is_repeatable:
        ended = "Ctrl-C" if is_stopped else "the wall clock"
        rows.append(f"  note         {ended} ended the search: not repeatable, see --effort")
    return "\n".join(rows)


def scale(problem: Problem) -> str:
    """How large a problem is, in words."""
    devices = output.count(problem.cluster.num_devices, "device")
    return f"{output.count(problem.num_tasks, 'task')} on {devices}"


def busy(plan: Schedule) -> dict[str, float]:
    """Share of the slot-time of each device class in use up to the makespan."""
    cluster = plan.problem.cluster
    used = [0.0] * cluster.num_classes
    slots = [0.0] * cluster.num_classes
    for c, time, num in zip(
        cluster.device_class.tolist(), plan.busy_slot_time.tolist(), cluster.slots.tolist(), strict=True
    ):
        used[c] += time
        slots[c] += num
    return {
        output.safe(device_class.name): used[c] / (slots[c] * plan.makespan) if plan.makespan else 0.0
        for c, device_class in enumerate(cluster.classes)
        if slots[c]
    }


def compare(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", show_default=False, help="Workflow or problem files.")
    ],
    cluster: opt.Cluster = None,
    schedulers: Annotated[
        list[str] | None,
        typer.Option("--schedulers", "-s", metavar="A,B", help="Which; default: all but the searches."),
    ] = None,
    ccr: opt.Ccr = None,
    budget: opt.Budget = None,
    effort: opt.Effort = None,
    seed: opt.Seed = 0,
    copies: opt.Copies = True,
    as_json: opt.Json = False,
) -> None:
    """Plan with several schedulers and mark the winner."""
    from weft.evaluation.comparing import compare as run

    names, seconds = opt.scheduler_names(schedulers), opt.parse_duration(budget)
    with output.until_interrupt("the plans that are finished") as stop:
        found = run(
            files,
            names,
            cluster=cluster,
            ccr=ccr,
            copies=copies,
            seed=seed,
            budget=seconds,
            effort=effort,
            around=output.progress,
        )
    if not found.rows and stop.is_asked:
        raise KeyboardInterrupt
    opt.say_unused(found.schedulers, {"--budget": budget, "--effort": effort})
    if as_json:
        question = opt.again(None, cluster, ccr, copies, seed)
        command = _compare_command(files, found.schedulers, question, budget, effort)
        output.emit(replace(found, command=command).to_dict() | stop.fields)
    else:
        for contest in found.contests:
            _show_contest(contest)
        if len(found.contests) > 1:
            _show_standings(found)
        if stop.is_asked:
            _say_cut(found.rows[-1])
        best = found.contests[0].best
        question = opt.again(files[0], cluster, ccr, copies, seed)
        winner = shlex.quote(best.scheduler if best else "heft")
        output.next_command(f"weft gantt {question} --scheduler {winner} --out gantt.png")
    if stop.is_asked:
        raise output.Interrupted(f"{len(found.rows)} of {len(files) * len(found.schedulers)} plans")
    if not all(row.valid for row in found.rows):
        raise typer.Exit(NOT_VALID)


def _say_cut(last: Row) -> None:
    """Say that the last plan is what a search had when it was stopped."""
    from weft import catalog

    if catalog.is_limited(last.scheduler):
        output.say(f"  {output.safe(last.scheduler)} was stopped: its last plan is the best so far")


def _show_contest(contest: Contest) -> None:
    """Print a table with the winner marked, and below it what was skipped."""
    unit = contest.rows[0].time_unit if contest.rows else "s"
    title = f"{contest.file}: {scale(contest.problem)}"
    numeric = (f"makespan [{unit}]", "above bound", "vs heft", "copies", "planned in")
    table = output.table(["", "scheduler", *numeric, "check"], numeric, output.safe(title))
    for row in contest.rows:
        table.add_row(
            "*" if row.best else "",
            row.scheduler,
            output.number(row.makespan),
            output.percent(row.gap_percent if row.valid else None),
            output.percent(row.vs_heft_percent, "+"),
            str(row.copies),
            output.duration(row.seconds),
            "valid" if row.valid else "NOT VALID",
            style="bold" if row.best else None,
        )
    output.show(table)
    if contest.rows:
        bound = max(contest.rows, key=lambda row: row.lower_bound)
        output.say(f"* shortest; bound {output.number(bound.lower_bound)} {unit} by {bound.bound_by}")
    for entry in contest.skipped:
        output.say(f"  {entry.scheduler} left out: {output.safe(entry.reason)}")


def _show_standings(found: Comparison) -> None:
    """One table over all files: who wins how often, and how far behind each is."""
    total = len(found.contests)
    numeric = ("files", "shortest on", "times the shortest", "at worst", "planned in")
    table = output.table(["", "scheduler", *numeric], numeric, f"all {total} files")
    for k, one in enumerate(found.standings):
        table.add_row(
            "" if k else "*",
            output.safe(one.scheduler),
            str(one.problems),
            str(one.wins),
            output.number(one.mean_ratio, 4),
            output.number(one.worst_ratio, 4),
            output.duration(one.seconds),
            style=None if k else "bold",
        )
    output.say("")
    output.show(table)
    output.say(
        "* shortest on average (geometric mean over the files planned, of the ratio to the shortest plan)"
    )


def _compare_command(
    files: list[Path], names: Sequence[str], question: str, budget: str | None, effort: int | None
) -> str:
    """The command line that prints the same comparison."""
    words = ["weft", "compare", *map(str, files), "--schedulers", ",".join(names)]
    words += ["--budget", budget] if budget is not None else []
    words += ["--effort", str(effort)] if effort is not None else []
    return output.in_full(" ".join(part for part in (shlex.join(words), question, "--json") if part))
