"""The verb agents: edge clusters live, with a process per cluster and a coordinator that may die."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from weft.cli import options as opt
from weft.cli import output

if TYPE_CHECKING:
    from weft.execute.agents.launching import Status
    from weft.execute.agents.places import Address
    from weft.execute.agents.running import AgentsRun
    from weft.scenarios import Scenario as Chosen

BROKEN = 1
"""Exit code where a promise was not kept."""
_OPTIONS = (
    "scheduler",
    "replicas",
    "step",
    "patience",
    "latency",
    "bandwidth",
    "out",
    "elsewhere",
    "listen",
    "kill-coordinator-at",
)
"""Arguments that errors name as options."""

_JOINING = ("scenario", "scheduler", "listen", "join", "out", "as_json")
"""Arguments that go with --join."""

Scenario = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        show_default=False,
        help="A scenario of edge clusters; with --join, the party to be: cluster-1, coordinator-0.",
    ),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the scenario.")
]
Replicas = Annotated[
    int, typer.Option("--replicas", metavar="N", min=1, max=32, help="Coordinators, of which one leads.")
]
Step = Annotated[
    str | None, typer.Option("--step", metavar="TIME", help="Least length of a world step; default: none.")
]
Kill = Annotated[
    list[int] | None,
    typer.Option(
        "--kill-coordinator-at", metavar="STEP", min=0, help="Kill whoever leads then; may be repeated."
    ),
]
Latency = Annotated[
    str | None, typer.Option("--latency", metavar="TIME", help="Between coordinator and clusters, one way.")
]
Bandwidth = Annotated[
    float | None,
    typer.Option(
        "--bandwidth", metavar="MBPS", min=0, help="Of each such link, in Mbps; 0 and default: no limit."
    ),
]
Patience = Annotated[
    str, typer.Option("--patience", metavar="TIME", help="Go on without a cluster that is away for so long.")
]
Elsewhere = Annotated[
    str | None,
    typer.Option(
        "--elsewhere", metavar="NAMES", help="Parties that join from elsewhere: cluster-1,coordinator-0."
    ),
]
Listen = Annotated[
    str | None,
    typer.Option(
        "--listen", metavar="HOST:PORT", help="Where parties join; with --join, where this one listens."
    ),
]
Join = Annotated[
    str | None,
    typer.Option("--join", metavar="HOST:PORT", help="Be one party of a run that was started elsewhere."),
]
Stepwise = Annotated[
    bool, typer.Option("--stepwise", help="Send state for every logical step, not once per world step.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="RUN", help="Folder of the run; default runs/SCENARIO-1, ..."),
]


def agents(
    context: typer.Context,
    scenario: Scenario,
    scheduler: opt.Scheduler = "optimus",
    settings: Settings = None,
    seed: opt.Seed = 0,
    replicas: Replicas = 2,
    step: Step = None,
    kill: Kill = None,
    latency: Latency = None,
    bandwidth: Bandwidth = None,
    patience: Patience = "10s",
    stepwise: Stepwise = False,
    elsewhere: Elsewhere = None,
    listen: Listen = None,
    join: Join = None,
    out: Out = None,
    as_json: opt.Json = False,
) -> None:
    """Run edge clusters live; their coordinator may die."""
    if join is not None:
        _refuse_besides(context)
        be_party(scenario, join, listen, out, as_json)
        return
    from weft.execute.agents.link import Conditions
    from weft.execute.agents.running import run_agents
    from weft.execute.agents.setup import Setup
    from weft.scenarios import parse_assignments
    from weft.scenarios import scenario as chosen

    found = chosen(scenario, **parse_assignments(settings or []))
    problem = found.elastic("test", 0)
    with opt.named(*_OPTIONS):
        setup = Setup(
            scheduler,
            *_episode(found, seed),
            replicas,
            opt.parse_duration(step, "--step") or 0.0,
            stepwise,
            patience=opt.parse_duration(patience, "--patience") or 0.0,
            conditions=Conditions(opt.parse_duration(latency, "--latency") or 0.0, 1e6 * (bandwidth or 0.0)),
            **_elsewhere(elsewhere, listen),
        )
        told = Progress(problem.num_tasks)
        ran = run_agents(
            problem, setup, out or new_folder(found.name), kill_at=tuple(kill or []), on_status=told,
            on_waiting=say_waiting,
        )  # fmt: skip
    _tell(ran, len(kill or []), seed, as_json)


def _tell(ran: AgentsRun, num_kills: int, seed: int, as_json: bool) -> None:
    """Print what became of a run, and end with an error where a promise was broken."""
    missed = num_kills + 1 - ran.checked.num_terms
    if missed > 0:
        output.note(f"--kill-coordinator-at: {missed} of {num_kills} not done, the run was over before")
    if as_json:
        output.emit(output.document("agents", seed, ran.to_dict()))
    else:
        show(ran)
    if ran.faults:
        raise typer.Exit(BROKEN)


class _Apart(TypedDict, total=False):
    """Fields of the setup that parties elsewhere need."""

    host: str
    port: int
    elsewhere: tuple[str, ...]


def _elsewhere(names: str | None, listen: str | None) -> _Apart:
    from weft.errors import InputError
    from weft.execute.agents.places import HOST, Address

    if names is None:
        if listen is not None:
            raise InputError("expected --elsewhere too: all parties run here", field="listen")
        return {}
    parties = tuple(opt.split_names([names]))
    if not parties:
        raise InputError(f"expected names such as cluster-1, got {names!r}", field="elsewhere")
    host, port = Address.of(listen, "listen") if listen is not None else (HOST, 0)
    return {"host": host, "port": port, "elsewhere": parties}


def _refuse_besides(context: typer.Context) -> None:
    """Refuse options that whoever started a run has decided."""
    from weft.errors import InputError

    for one in context.command.params:
        source = context.get_parameter_source(str(one.name))
        is_given = getattr(source, "name", "") == "COMMANDLINE"
        if is_given and one.name not in _JOINING:
            raise InputError("expected no such option with --join: the run says it", field=one.opts[0])


def say_waiting(names: list[str], desk: Address) -> None:
    """Say who is waited for, and how they join."""
    output.note(f"waiting for {', '.join(names)}: weft agents {names[0]} --join {desk}")


def be_party(name: str, desk: str, listen: str | None, out: Path | None, as_json: bool) -> None:
    """Be one party of a run that was started elsewhere, until that is over."""
    from weft.execute.agents.joining import join_agents
    from weft.execute.agents.places import Address

    folder = out or new_folder(name)
    where = None if listen is None else Address.of(listen, "--listen")

    def joined(name: str) -> None:
        again = shlex.join(["weft", "agents", name, "--join", desk, "--out", str(folder)])
        output.note(f"{name} has joined {desk}; if it is interrupted: {again}")

    join_agents(name, Address.of(desk, "--join"), folder, listen=where, on_joined=joined)
    if as_json:
        output.emit(output.document("agents", None, {"party": name, "folder": str(folder)}))
    else:
        output.say(f"{name}: the run is over; journal in {output.safe(folder)}")


def _episode(found: Chosen, seed: int) -> tuple[str, int]:
    """What an episode is called, and the seed of its draws: that of ``weft evaluate``."""
    from weft.evaluation.sweep.elastic_runs import world_of

    label = " ".join(part for part in (found.name, found.label) if part)
    return label, world_of(found, found.problem_name("test", 0), seed)


def run_scenario(
    name: str, scheduler: str, settings: list[str] | None, seed: int, out: Path | None, as_json: bool
) -> None:
    """``weft run`` of a scenario of edge clusters: live, with the defaults of ``weft agents``."""
    from weft.execute.agents.running import run_agents
    from weft.execute.agents.setup import Setup
    from weft.scenarios import parse_assignments
    from weft.scenarios import scenario as chosen

    found = chosen(name, **parse_assignments(settings or []))
    problem = found.elastic("test", 0)
    with opt.named(*_OPTIONS):
        setup = Setup(scheduler, *_episode(found, seed))
        told = Progress(problem.num_tasks)
        ran = run_agents(problem, setup, out or new_folder(found.name), on_status=told)
    planned, actual = (float(one.finish.max()) for one in (ran.simulated, ran.run))
    if as_json:
        figures = {
            "run": str(ran.folder), "on": "local", "scheduler": scheduler, "time_unit": "world steps",
            "tasks": ran.checked.num_arrived, "planned": planned, "actual": actual,
            "error_percent": 100.0 * (actual / planned - 1.0),
            "attempts": ran.checked.num_arrived + ran.checked.num_again, "inversions": ran.inversions,
            "ok": not ran.faults, "reason": "; ".join(ran.faults[:1]), "metrics": ran.run.figures,
        }  # fmt: skip
        output.emit(output.document("run", seed, figures))
    else:
        output.say(f"planned {planned:.0f} world steps by simulation, actual {actual:.0f}")
        show(ran)
        folder = shlex.quote(str(ran.folder))
        output.next_command(f"weft report {folder} --out {folder}.html")
    if ran.faults:
        raise typer.Exit(BROKEN)


def new_folder(name: str) -> Path:
    """A folder for a run that has none."""
    number = 1
    while (Path("runs") / f"{name}-{number}").exists():
        number += 1
    return Path("runs") / f"{name}-{number}"


def show(ran: AgentsRun) -> None:
    """Print what became of a run."""
    checked, facts = ran.checked, ran.to_dict()
    output.say(
        f"{checked.num_completed} of {checked.num_arrived} tasks completed in {checked.last_step} world steps, "
        f"mean completion time {ran.run.mean_completion:.2f} steps"
    )
    same = "the same as the simulation, bit for bit" if ran.is_as_simulated else "not as simulated"
    output.say(f"{output.count(checked.num_terms, 'coordinator')} led; {same}")
    if ran.trips:
        output.say(
            f"decision: {1000 * facts['round_trip']:.1f} ms round trip, {1000 * facts['inference']:.2f} ms of it inference; "
            f"{facts['logical_steps']:.1f} logical steps; "
            f"{facts['state_bytes']:.0f} bytes of state and {facts['action_bytes']:.0f} of orders per cluster"
        )
    if ran.outages:
        output.say(f"without a coordinator: {', '.join(f'{one:.2f} s' for one in ran.outages)}")
    if checked.num_again:
        output.say(f"{output.count(checked.num_again, 'placement')} withdrawn after a cluster was given up")
    for fault in ran.faults:
        output.say(output.safe(f"broken: {fault}"))
    if not ran.faults:
        output.say(
            "promises kept: every task completed once, none lost or placed twice, units within capacity"
        )
    output.say(f"journals in {output.safe(ran.folder)}")


class Progress:
    """A line now and then about how far a run is."""

    def __init__(self, num_tasks: int) -> None:
        self._num_tasks, self._last, self._term = num_tasks, time.monotonic(), -1

    def __call__(self, status: Status) -> None:
        """Say it every few seconds, and when another coordinator leads."""
        is_new = status.term != self._term and self._term >= 0
        self._term = status.term
        if not is_new and time.monotonic() - self._last < 5.0:
            return
        self._last = time.monotonic()
        lead = f"coordinator {status.rank} leads (term {status.term})" if status.rank >= 0 else "starting"
        output.note(
            f"step {status.step} | {self._num_tasks - status.left} of {self._num_tasks} tasks done | {lead}"
        )
