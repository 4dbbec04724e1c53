"""The verb that runs workflows for real: local processes, Dask, Ray."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from weft.cli import options as opt
from weft.cli import output
from weft.errors import InputError
from weft.kinds import ELASTIC

if TYPE_CHECKING:
    from weft.evaluation.executed.executed import Executed
    from weft.execute.drive import Drive
    from weft.execute.run import Run
    from weft.execute.running import Request

MOST_FAILURES = 5
"""So many failed tasks are named."""
_OPTIONS = ("on", "jobs", "out", "scheduler", "split", "shadow", "functions", "timeout")
"""Arguments of a run that errors name as options."""
NOT_OK = 1
"""Exit code where a job did not end well."""

Graph = Annotated[
    str | None,
    typer.Argument(
        metavar="GRAPH",
        show_default=False,
        help="Workflow file; file of functions: flow.py, flow.py:NAME; or a scenario, which is rehearsed.",
    ),
]
On = Annotated[
    str, typer.Option("--on", metavar="ENGINE", help="local, dask, dask://HOST:PORT, ray or ray://HOST:PORT.")
]
Jobs = Annotated[
    str | None,
    typer.Option("--jobs", metavar="FILE", help="Workflows that arrive over time (TOML), in place of GRAPH."),
]
Functions = Annotated[
    str | None,
    typer.Option("--functions", metavar="FILE.py", help="Tasks call the functions of their name or kind."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="RUN", help="Folder of the run; default runs/NAME-1, ..."),
]
Timeout = Annotated[
    str | None, typer.Option("--timeout", metavar="TIME", help="An attempt at a task fails after this long.")
]
Length = Annotated[
    str | None,
    typer.Option(
        "--length", metavar="TIME", help="Scale a rehearsal so that its plan takes this long [30s]."
    ),
]
Attempts = Annotated[
    int,
    typer.Option("--attempts", metavar="N", min=1, help="How often a task may fail before it is given up."),
]
Keep = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        help="Plan with the run times kept here, and add this run's; 'default': your own file.",
    ),
]
Shadow = Annotated[
    str | None, typer.Option("--shadow", metavar="NAME", help="Also log what this scheduler would start.")
]
Split = Annotated[
    str | None,
    typer.Option("--split", metavar="A:0.9,B:0.1", help="Divide jobs between schedulers and compare them."),
]

AllowCommands = Annotated[
    bool, typer.Option("--allow-commands", help="Run the commands that the file gives its tasks.")
]
Live = Annotated[
    bool, typer.Option("--live", help="Decide at every event, where NAME is a planner and a dispatcher.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Keep to the plan however late it is; only lost workers change it.")
]

RealTime = Annotated[
    bool, typer.Option("--real-time", help="Rehearse without scaling: as long as the file says.")
]

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of the scenario; repeatable."),
]


def run(
    context: typer.Context,
    graph: Graph = None,
    on: On = "local",
    cluster: opt.Cluster = None,
    scheduler: opt.Scheduler = "heft",
    jobs: Jobs = None,
    functions: Functions = None,
    allow_commands: AllowCommands = False,
    live: Live = False,
    strict: Strict = False,
    shadow: Shadow = None,
    split: Split = None,
    profile: Keep = None,
    length: Length = None,
    real_time: RealTime = False,
    timeout: Timeout = None,
    attempts: Attempts = 3,
    budget: opt.Budget = None,
    effort: opt.Effort = None,
    seed: opt.Seed = 0,
    settings: Settings = None,
    out: Out = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder --out.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Carry a workflow out on real workers, and keep what happened."""
    from weft.execute.running import Request

    if graph is not None and is_edge_scenario(graph):
        _run_edge_clusters(context, graph)
        return
    _refuse_beside_files(graph, settings, has_work=graph is not None or jobs is not None or resume)
    times: dict[str, Any] = {
        "budget": opt.parse_duration(budget),
        "seconds": opt.parse_duration(length, "--length"),
        "timeout": opt.parse_duration(timeout, "--timeout"),
    }
    names: dict[str, Any] = {"shadow": shadow, "split": split, "profile": profile, "functions": functions}
    flags: dict[str, Any] = {"allow_commands": allow_commands, "is_live": live, "is_strict": strict}
    known: dict[str, Any] = {"effort": effort, "max_attempts": attempts, "is_real_time": real_time}
    known["settings"] = tuple(settings or ())
    request = Request(graph, jobs, on, cluster, scheduler, seed, **known, **times, **names, **flags)
    _carry_out(request, out, resume, as_json)


def _refuse_beside_files(graph: str | None, settings: list[str] | None, *, has_work: bool) -> None:
    """What is no scenario needs work to do, and has no settings."""
    from weft.execute.sources import is_scenario

    if not has_work:
        raise InputError("expected a workflow, a file of functions, a scenario, or --jobs", field="GRAPH")
    if settings and not (graph is not None and is_scenario(graph)):
        raise InputError("is about scenarios: files and jobs have no settings", field="--set")


def is_edge_scenario(name: str) -> bool:
    """Whether this names a scenario of edge clusters, and no file."""
    from weft.execute.sources import is_scenario
    from weft.scenarios import scenario

    return is_scenario(name) and scenario(name).kind is ELASTIC


def _run_edge_clusters(context: typer.Context, name: str) -> None:
    """Run edge clusters live."""
    from weft.cli.agents import run_scenario

    given = context.params
    told = {key for key in given if getattr(context.get_parameter_source(key), "name", "") == "COMMANDLINE"}
    strange = sorted(told - {"graph", "scheduler", "on", "seed", "settings", "out", "as_json"})
    if strange:
        option = f"--{strange[0].replace('_', '-')}"
        raise InputError(f"is not about edge clusters: see weft agents {name} --help", field=option)
    if given["on"] != "local":
        raise InputError(
            f"edge clusters run on this machine: expected local, got {given['on']!r} (weft agents has --elsewhere)",
            field="--on",
        )
    scheduler = given["scheduler"] if "scheduler" in told else "optimus"
    run_scenario(name, scheduler, given["settings"], given["seed"], given["out"], given["as_json"])


def _carry_out(request: Request, out: Path | None, resume: bool, as_json: bool) -> None:
    from weft.execute.running import RunInterrupted, run_request

    with opt.named(*_OPTIONS), Progress() as progress:
        try:
            found = run_request(request, out, resume=resume, on_progress=progress, on_notice=output.note)
        except RunInterrupted as stop:
            raise output.RunInterrupted(str(stop.folder)) from None
    _print(found, as_json)
    if not found.ok:
        raise typer.Exit(NOT_OK)


def _print(found: Run, as_json: bool) -> None:
    from weft.evaluation.executed.executed import read_executed
    from weft.evaluation.executed.summary import summary

    assert found.folder is not None
    executed = read_executed(found.folder)
    if as_json:
        document = output.document("run", 0, {**found.to_dict(), "inversions": executed.inversions})
        output.emit(document)
        return
    output.say(output.safe_lines(summary(executed)))
    for line in failures(executed, found.folder):
        output.say(output.safe(line))
    folder = shlex.quote(str(found.folder))
    output.next_command(f"weft report {folder} --out {folder}.html")


def failures(executed: Executed, folder: Path) -> list[str]:
    """Tasks that failed for good: why, and where their logs are."""
    from weft.execute.folder import RunFolder

    files = RunFolder(folder)
    failed = [one for one in executed.tasks if one.outcome == "failed"]
    notes = {one.key: one.note for one in executed.attempts if one.note}
    lines = []
    for one in failed[:MOST_FAILURES]:
        note = notes.get((one.job, one.task), "no reason given")
        lines.append(f"{one.task} failed: {note}; logs in {files.home(one.job, one.task)}")
    if len(failed) > MOST_FAILURES:
        lines.append(f"... and {len(failed) - MOST_FAILURES} more")
    return lines


class Progress:
    """Says how far a run is: a line that changes on a terminal, else one every few seconds."""

    def __init__(self) -> None:
        self._last = -1e9
        self._live: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            print(file=sys.stderr, flush=True)

    def __call__(self, drive: Drive) -> None:
        """Show the state of a run."""
        import time

        wait = 0.25 if output.is_animated() else 5.0
        now = time.monotonic()
        if now - self._last < wait and not drive.is_over:
            return
        self._last = now
        line = line_of(drive)
        if output.is_animated():
            self._live = True
            print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)
        else:
            output.note(line)


def line_of(drive: Drive) -> str:
    """Done, running and waiting tasks; when the plan was to end, and when it now seems to."""
    told, ledger = drive.told, drive.ledger
    running = len(ledger.started)
    waiting = max(0, told.num_tasks - told.num_done - running)
    parts = [f"{drive.now:.1f} {told.session.problem.time_unit}"]
    parts.append(f"{told.num_done} done, {running} running, {waiting} waiting")
    if drive.planned_end is not None:
        parts.append(f"plan ends at {drive.planned_end:.1f}")
    if (end := drive.expected_end()) is not None:
        parts.append(f"expected {end:.1f}")
    if told.away:
        parts.append(f"lost: {', '.join(sorted(told.away))}")
    return output.safe(" | ".join(parts))
