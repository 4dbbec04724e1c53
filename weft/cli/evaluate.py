"""Verbs about evidence: evaluate, scenarios, recipes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import options as opt
from weft.cli import output
from weft.cli.evaluate_tables import show
from weft.kinds import ELASTIC, QUEUES

if TYPE_CHECKING:
    from weft.evaluation.sweep.evaluation import Evaluation
    from weft.evaluation.sweep.runner import Progress
    from weft.scenarios import Scenario

TRAINING = "training/"
"""Prefix of the names of training recipes."""
NOT_VALID = 1
"""Exit code where a schedule breaks a rule."""
EVERY = 10.0
"""Seconds between two lines of progress where there is no terminal."""
DISPATCHED = "tasks are dispatched as jobs are released"
ENOUGH = 10
"""Seeds with which a difference between the usual dispatchers can be told from chance."""

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting; [a, b] or from:to:step sweeps it."),
]
Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw it: a .png or .svg; of a stream also a folder."),
]
Aggregates = Annotated[
    bool,
    typer.Option("--aggregates", help="Also print interquartile means, medians, chances, profiles."),
]

Baseline = Annotated[
    str | None,
    typer.Option("--baseline", metavar="NAME", help="Scheduler that the others are compared with."),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        "--seeds", metavar="N", min=1, help="Seeds per problem; default 1, of files that keep arriving 10."
    ),
]
Split = Annotated[str, typer.Option("--split", help="train, validation or test.")]
Problems = Annotated[int | None, typer.Option("--problems", metavar="N", min=1, help="Number of problems.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="SWEEP", help="Folder for the rows; resumes what is there."),
]
Engine = Annotated[
    str | None,
    typer.Option("--engine", metavar="NAME", help="Spread rows over a cluster: ray or dask."),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="WHERE",
        help="Of the cluster: ray://HOST:PORT, dask://HOST:PORT; else one of our own.",
    ),
]
Check = Annotated[str, typer.Option("--check", help="What is validated: all, sample or none.")]


def evaluate(
    what: Annotated[
        list[str],
        typer.Argument(metavar="SCENARIO_OR_FILES", show_default=False, help="A scenario, or files."),
    ],
    schedulers: Annotated[
        list[str] | None,
        typer.Option("--schedulers", "-s", metavar="A,B", help="Which; default: those of the scenario."),
    ] = None,
    problems: Problems = None,
    seeds: Seeds = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="S", min=0, max=opt.MOST_SEED, help="The first of the seeds.")
    ] = 0,
    settings: Settings = None,
    out: Out = None,
    cluster: opt.Cluster = None,
    baseline: Baseline = None,
    effort: opt.Effort = None,
    split: Split = "test",
    check: Check = "sample",
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1, help="Processes.")] = 1,
    engine: Engine = None,
    address: Address = None,
    plot: Plot = None,
    aggregates: Aggregates = False,
    as_json: opt.Json = False,
) -> None:
    """Compare schedulers on many problems, with intervals and tests."""
    from weft.evaluation.sweep import request
    from weft.scenarios import parse_assignments

    names = opt.scheduler_names(schedulers)
    given = request.cells_of(what, parse_assignments(settings or []), cluster)
    cells = request.dispatched_if_asked(given, names)
    if cells != given:
        how_run = "units are given in world steps by allocators" if cells[0].kind is ELASTIC else DISPATCHED
        output.note(f"weft: {how_run}, not planned (--set run=plan plans)")
    _check_plot(plot, cells[0])
    _say_metric(cells[0])
    numbers = range(seed, seed + (seeds or _usual_seeds(cells[0])))
    which: dict[str, Any] = {"problems": problems, "seeds": numbers, "split": split, "effort": effort}
    how: dict[str, Any] = {"check": check, "baseline": baseline, "out": out, "workers": workers}
    how |= {"engine": engine, "address": address}
    with _counting("rows") as progress:
        found = request.evaluate(cells, names, **which, **how, progress=progress)
    _say_notes(found, effort)
    if plot is not None:
        _draw(found, plot)
    if as_json:
        output.emit(found.to_dict())
    else:
        show(found, out, aggregates)
        for one in found.groups:
            output.say(str(one))
    if found.faults:
        _name_faults(found)
        raise typer.Exit(NOT_VALID)


def _usual_seeds(cell: Scenario) -> int:
    """As many as a verdict takes where each is a stream of files."""
    return ENOUGH if cell.recipe.generator == "files" and cell.is_arriving else 1


def _say_metric(cell: Scenario) -> None:
    """A metric that a recipe names for another kind of run does not count."""
    from weft.scenarios import Recipe

    wanted = cell.recipe.metric
    if cell.recipe.source and wanted not in (cell.metric, Recipe.metric):
        output.note(
            f"weft: metric {wanted!r} of the recipe is not used: {cell.kind.words} are judged by {cell.metric}"
        )


def _say_notes(found: Evaluation, effort: int | None) -> None:
    """What a person should know of how the rows were made."""
    opt.say_unused(found.schedulers, {"--effort": effort})
    for name, number in found.fallbacks.items():
        output.warn(
            f"weft: {number:,} decisions of {name} were left to a rule: "
            "far outside what it was trained on, or where hardly anything arrives"
        )


def _check_plot(plot: Path | None, cell: Scenario) -> None:
    """A picture is a file; the figures of a stream may also be a folder."""
    if plot is not None and cell.kind is QUEUES and not plot.suffix:
        opt.check_chart(plot / "figure.png", "--plot", "figures of the stream")
    else:
        opt.check_chart(plot, "--plot", "a figure of the sweep")


def _draw(found: Evaluation, plot: Path) -> None:
    from weft.evaluation.figures import streams as stream_figures
    from weft.evaluation.figures import sweeps as figures

    if plot.suffix:
        figures.draw(found, plot)
        output.note(f"the figure is in {plot}")
        return
    with _counting("streams") as progress:
        drawn = stream_figures.draw_all(found, plot, progress)
    output.note(f"{output.count(len(drawn), 'figure')} in {plot}: {', '.join(path.name for path in drawn)}")


def _name_faults(found: Evaluation) -> None:
    for row in found.faults[:5]:
        where = f"{row.problem} {row.cell}".strip()
        output.warn(f"weft: NOT VALID: {row.scheduler} on {output.safe(where)}, seed {row.seed}: {row.fault}")
    output.warn(f"weft: {len(found.faults)} of {len(found.rows)} schedules break a rule")


@contextmanager
def _counting(unit: str) -> Iterator[Progress]:
    """A progress bar on a terminal, else a line every ten seconds."""
    if output.is_animated():
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

        screen = Console(stderr=True, markup=False, emoji=False)
        columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=screen, transient=True) as bar:
            task = bar.add_task(unit, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    last = time.monotonic()

    def say(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            output.note(f"weft: {done} of {total} {unit}")

    yield say


def scenarios(as_json: opt.Json = False) -> None:
    """List the scenarios, their settings and reference schedulers."""
    from weft.scenarios import offered_recipes, read_recipe, recipe_names

    found = [*(read_recipe(name) for name in recipe_names()), *offered_recipes()]
    if as_json:
        rows = [recipe.to_dict() for recipe in found]
        output.emit(output.document("scenarios", None, {"scenarios": rows}))
        return
    table = output.table(["name", "what", "settings", "compared by default"])
    for recipe in found:
        settings = ", ".join(setting.name for setting in recipe.settings)
        table.add_row(recipe.name, recipe.summary, settings, ", ".join(recipe.schedulers))
    output.show(table)
    output.next_command(f"weft evaluate {found[0].name}   (or weft recipes --show {found[0].name})")


def recipes(
    show: Annotated[
        str | None, typer.Option("--show", metavar="NAME", help="Print the TOML of this recipe.")
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """List recipes of scenarios and training, or print one."""
    from weft.scenarios import read_recipe, recipe_names, recipe_text
    from weft.training import recipes as training

    if show is not None:
        is_training = show.startswith(TRAINING)
        text = training.recipe_text(show.removeprefix(TRAINING)) if is_training else recipe_text(show)
        if as_json:
            output.emit(output.document("recipes", None, {"name": show, "text": text}))
        else:
            output.say(text.rstrip("\n"))
        return
    rows = [{"name": name, "summary": read_recipe(name).summary} for name in recipe_names()]
    rows += [{"name": TRAINING + name, "summary": f"weft train {name}"} for name in training.recipe_names()]
    if as_json:
        output.emit(output.document("recipes", None, {"recipes": rows}))
        return
    table = output.table(["name", "what"])
    for row in rows:
        table.add_row(row["name"], row["summary"])
    output.show(table)
    output.next_command(f"weft recipes --show {rows[0]['name']} > my.toml; weft evaluate my.toml")
