"""The verb that reports: sweeps, runs and comparisons, one plan, or one run of it, as one page."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import options as opt
from weft.cli import output, plan
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.model.problem import Problem


Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="SOURCE...",
        show_default=False,
        help="Sweeps, training runs, JSON of compare and bench; one schedule file with its workflow; or one run.",
    ),
]
Out = Annotated[
    Path, typer.Option("--out", "-o", metavar="FILE", help="The page (.html, with .md beside), or .md alone.")
]
Opened = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
Baseline = Annotated[
    str | None, typer.Option("--baseline", metavar="NAME", help="Whom the others are compared with.")
]
Subject = Annotated[str | None, typer.Option("--subject", metavar="NAME", help="Whose losses are looked at.")]
Instance = Annotated[
    str | None,
    typer.Option("--instance", metavar="WORDS", help="Which one is drawn, e.g. 'load=0.5 test/0 seed=3'."),
]
Claims = Annotated[
    str | None, typer.Option("--claims", metavar="NAME", help="Judge the claims of this document.")
]
Title = Annotated[str, typer.Option("--title", metavar="TEXT", help="Title of the page.")]
Charts = Annotated[bool, typer.Option("--charts/--no-charts", help="Whether plans are drawn.")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--whatif",
        metavar="CHANGE",
        help="Of a plan: add:a100=1, remove:t4=2, bandwidth:x2, speed:a100=x2, each.",
    ),
]
Noise = Annotated[
    str | None, typer.Option("--noise", metavar="CV", help="Of a plan: run times that vary by 0.3 or 30%.")
]
Pareto = Annotated[
    bool, typer.Option("--pareto", help="Of a plan: cost and energy against plans on parts of the cluster.")
]


def report(
    sources: Sources,
    out: Out = Path("report.html"),
    open_it: Opened = False,
    baseline: Baseline = None,
    subject: Subject = None,
    instance: Instance = None,
    claims: Claims = None,
    title: Title = "",
    charts: Charts = True,
    cluster: opt.Cluster = None,
    ccr: opt.Ccr = None,
    copies: opt.Copies = True,
    whatif: Changes = None,
    noise: Noise = None,
    pareto: Pareto = False,
    as_json: opt.Json = False,
) -> None:
    """Write sweeps, training runs, a plan or a run as one page."""
    from weft.reporting import report as run

    output.check_folder(out)
    asked: dict[str, Any] = {
        "baseline": baseline,
        "subject": subject,
        "instance": instance,
        "claims": claims,
        "title": title,
    }
    changes = opt.split_names(whatif)
    questions: dict[str, Any] = {"whatif": changes, "noise": opt.parse_noise(noise), "pareto": pareto}
    machines = opt.again(None, cluster, ccr, copies, 0)
    options = _options(
        {**asked, "whatif": changes, "noise": noise}, {"--pareto": pareto, "--no-charts": not charts}
    )
    told: dict[str, Any] = {"command": _command(sources, machines, [*options, "--out", str(out)])}
    told |= {"around": output.progress, "on_notice": lambda line: output.note(f"weft: {output.safe(line)}")}
    with opt.named("out", *asked, *questions):
        about, problem = _about(sources, machines, lambda file: plan.load(file, cluster, ccr, copies))
        found = run(about, out, **asked, charts=charts, problem=problem, **questions, **told)
    if as_json:
        output.emit(found.to_dict())
    else:
        for line in found.headline:
            output.say(output.safe(line))
        output.say(f"wrote {', '.join(map(str, found.out))}")
    if open_it:
        typer.launch(str(found.out[0].resolve()))
    if found.valid is False:
        raise typer.Exit(plan.NOT_VALID)


def _about(
    sources: list[Path], machines: str, load: Callable[[Path], Problem]
) -> tuple[list[Path] | Path, Problem | None]:
    """What the page is about; of a schedule file, with the problem in the file beside it."""
    from weft.io.files import is_schedule

    plans = [path for path in sources if is_schedule(path)]
    others = [path for path in sources if path not in plans]
    if not plans and machines:
        raise InputError(
            f"{machines} is about the workflow of a schedule: give a schedule file", file=str(sources[0])
        )
    if not plans:
        return sources, None
    if len(plans) > 1 or len(others) > 1 or any(path.is_dir() for path in others):
        raise InputError(
            f"expected one schedule and its workflow file, got {', '.join(map(str, sources))}: sweeps, runs and each plan "
            "have pages of their own",
            file=str(plans[0]),
        )
    if not others:
        raise plan.no_problem(plans[0], "report")
    return plans[0], load(others[0])


def _options(values: Mapping[str, str | list[str] | None], flags: Mapping[str, bool]) -> list[str]:
    """The words of the options that were given."""
    words = []
    for name, value in values.items():
        several = [value] if isinstance(value, str) else value or []
        words += [word for one in several if one for word in (f"--{name}", one)]
    return [*words, *(flag for flag, is_set in flags.items() if is_set)]


def _command(sources: list[Path], machines: str, options: list[str]) -> str:
    """The command line that writes the same report."""
    parts = (shlex.join(["weft", "report", *map(str, sources)]), machines, shlex.join(options))
    return " ".join(part for part in parts if part)
