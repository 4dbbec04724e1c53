"""The verb that reports: sweeps, runs and comparisons as one page."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from weft.cli import options as opt
from weft.cli import output


def report(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN_OR_SWEEP...",
            show_default=False,
            help="Sweep folders, training runs, or JSON files of compare and bench.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="The page (.html, with .md beside), or .md alone."),
    ] = Path("report.html"),
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="NAME", help="Scheduler that the others are compared with."),
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="NAME", help="Scheduler whose losses are shown.")
    ] = None,
    instance: Annotated[
        str | None,
        typer.Option(
            "--instance", metavar="WORDS", help="Which one is drawn, e.g. 'load=0.5 test/0 seed=3'."
        ),
    ] = None,
    claims: Annotated[
        str | None, typer.Option("--claims", metavar="NAME", help="Judge the claims of this document.")
    ] = None,
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Title of the page.")] = "",
    charts: Annotated[bool, typer.Option("--charts/--no-charts", help="Whether plans are drawn.")] = True,
    as_json: opt.Json = False,
) -> None:
    """Write sweeps and training runs as one HTML report."""
    from weft.reporting import report as run

    output.check_folder(out)
    asked: dict[str, Any] = {
        "baseline": baseline,
        "subject": subject,
        "instance": instance,
        "claims": claims,
        "title": title,
    }
    told: dict[str, Any] = {"command": _command(sources, asked, charts, out), "around": output.progress}
    told["on_notice"] = lambda line: output.note(f"weft: {output.safe(line)}")
    with opt.named("out", "subject", "baseline"):
        found = run(sources, out, **asked, charts=charts, **told)
    if as_json:
        output.emit(found.to_dict())
    else:
        for line in found.headline:
            output.say(output.safe(line))
        output.say(f"wrote {', '.join(map(str, found.out))}")
    if open_it:
        typer.launch(str(found.out[0].resolve()))


def _command(sources: list[Path], asked: dict[str, str | None], charts: bool, out: Path) -> str:
    """The command line that writes the same report."""
    words = ["weft", "report", *map(str, sources)]
    words += [word for name, value in asked.items() if value for word in (f"--{name}", value)]
    return shlex.join([*words, *([] if charts else ["--no-charts"]), "--out", str(out)])
