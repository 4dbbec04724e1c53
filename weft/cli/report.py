"""The verb that tells: sweeps, runs and comparisons as one page."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options as opt
from weft.cli import output
from weft.errors import InputError

SUFFIXES = (".html", ".md")


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
        str | None, typer.Option("--baseline", metavar="NAME", help="Whom the others are compared with.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="NAME", help="Whose losses are looked at.")
    ] = None,
    instance: Annotated[
        str | None,
        typer.Option("--instance", metavar="WORDS", help="Which one is drawn, e.g. 'p_c=0.5 test/0 seed=3'."),
    ] = None,
    claims: Annotated[
        str | None, typer.Option("--claims", metavar="NAME", help="Judge the claims of this document.")
    ] = None,
    title: Annotated[str, typer.Option("--title", metavar="TEXT", help="Title of the page.")] = "",
    charts: Annotated[bool, typer.Option("--charts/--no-charts", help="Whether plans are drawn.")] = True,
    as_json: opt.Json = False,
) -> None:
    """Write sweeps and training runs as one HTML report."""
    from weft.evaluation import report as reports

    if out.suffix.lower() not in SUFFIXES:
        raise InputError(f"expected a path that ends in .html or .md, got {str(out)!r}", field="--out")
    output.check_folder(out)
    asked = {"baseline": baseline, "subject": subject, "instance": instance, "claims": claims, "title": title}
    command = _command(sources, asked, charts, out)
    chosen = reports.Options(title, baseline, subject, instance, charts, claims, command)
    with output.progress("reading"):
        found = reports.gather(sources, baseline, _recipe_of)
    _check_subject(subject, [name for frame in found.frames for name in frame.schedulers])
    with output.progress(f"writing {out}"):
        made = reports.build(found, chosen, lambda line: output.note(f"weft: {output.safe(line)}"))
        written = reports.write(made, out)
    if as_json:
        fields = {"out": [str(path) for path in written], "headline": list(made.headline)}
        output.emit(output.document("report", None, fields))
    else:
        for line in made.headline:
            output.say(output.safe(line))
        output.say(f"wrote {', '.join(map(str, written))}")
    if open_it:
        typer.launch(str(written[0].resolve()))


def _recipe_of(name: str) -> dict[str, object]:
    """A built-in training recipe with all its defaults; empty for another."""
    from weft.training import recipes, sample_run

    if name not in recipes.recipe_names():
        return {}
    chosen = sample_run.read_sampled(name) if sample_run.is_sampled(name) else recipes.read_recipe(name)
    return chosen.to_dict()


def _command(sources: list[Path], asked: dict[str, str | None], charts: bool, out: Path) -> str:
    """The command line that writes the same report."""
    words = ["weft", "report", *map(str, sources)]
    words += [word for name, value in asked.items() if value for word in (f"--{name}", value)]
    return shlex.join([*words, *([] if charts else ["--no-charts"]), "--out", str(out)])


def _check_subject(subject: str | None, names: list[str]) -> None:
    from weft.scenarios.settings import did_you_mean

    if subject is not None and subject not in names:
        known = ", ".join(dict.fromkeys(names))
        raise InputError(
            f"expected one of {known}, got {subject!r}{did_you_mean(subject, names)}", field="--subject"
        )
