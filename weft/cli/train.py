"""The verb that trains: a recipe into a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import options as opt
from weft.cli import output

if TYPE_CHECKING:
    from weft.training.algorithms import TrainingRecipe

RecipeName = Annotated[
    str,
    typer.Argument(metavar="RECIPE", show_default=False, help="A built-in recipe, or a TOML file."),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="RUN", help="Folder of the run; default runs/RECIPE."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the recipe or its scenario."),
]
Seeds = Annotated[
    str | None,
    typer.Option("--seeds", metavar="1,2,3", help="Train once per seed, into RUN/seed-1, RUN/seed-2, ..."),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", metavar="N", min=1, help="Threads of a run; default: 1, of one-shot planners all."
    ),
]
Workers = Annotated[
    int, typer.Option("--workers", metavar="N", min=1, help="Processes: runs at a time, or feeders of one.")
]
Start = Annotated[
    str | None, typer.Option("--from", metavar="WEIGHTS", help="Weights, run or runs to start from.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")]
Engine = Annotated[
    str | None,
    typer.Option("--engine", metavar="NAME", help="Spread it over roles: local, processes or ray."),
]
Actors = Annotated[
    int | None, typer.Option("--actors", metavar="N", min=1, max=1000, help="Roles that act, with --engine.")
]
Address = Annotated[
    str | None, typer.Option("--address", metavar="ray://HOST:PORT", help="A Ray cluster, with --engine ray.")
]
TensorBoard = Annotated[
    bool, typer.Option("--tensorboard", help="Write metrics for TensorBoard too, into RUN/tensorboard.")
]


def train(
    recipe: RecipeName,
    out: Out = None,
    settings: Settings = None,
    seed: opt.Seed = 0,
    seeds: Seeds = None,
    workers: Workers = 1,
    threads: Threads = None,
    device: Annotated[str, typer.Option("--device", metavar="NAME", help="cpu or cuda.")] = "cpu",
    start: Start = None,
    resume: Resume = False,
    tensorboard: TensorBoard = False,
    engine: Engine = None,
    actors: Actors = None,
    address: Address = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be trained, and stop.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Train a policy; resumes after an interruption."""
    from weft.scenarios import parse_assignments
    from weft.training.algorithms import Asked
    from weft.training.recipes import read_spread
    from weft.training.run.once import Reporter, check_asked
    from weft.training.run.seeds import of_seed, parse_seeds
    from weft.training.train import train as run

    changes = parse_assignments(settings or [])
    chosen = read_spread(recipe, changes, engine, actors, address)
    numbers = None if seeds is None else parse_seeds(seeds)
    if dry_run:
        asked = Asked(seed, device, start, has_tensorboard=tensorboard, address=address)
        for one in [asked] if numbers is None else [of_seed(asked, number) for number in numbers]:
            check_asked(chosen, one)
        _describe(chosen, seed, as_json)
        return
    how: dict[str, Any] = {
        "seed": seed,
        "seeds": numbers,
        "workers": workers,
        "threads": threads,
        "device": device,
    }
    how |= {"start": start, "resume": resume, "tensorboard": tensorboard}
    how |= {"engine": engine, "actors": actors, "address": address}
    with ExitStack() as stack:
        found = run(
            recipe,
            out,
            settings=changes,
            **how,
            on_progress=Reporter(chosen),
            on_notice=output.note,
            on_ready=lambda: stack.enter_context(output.progress(_what(chosen, numbers))),
        )
    if as_json:
        output.emit(found.to_dict())
        return
    output.say(str(found))
    output.next_command(chosen.next_command(found.run if found.is_group else f"{found.run}@best"))


def _what(recipe: TrainingRecipe, seeds: Sequence[int] | None) -> str:
    several = f" with {output.count(len(seeds), 'seed')}" if seeds else ""
    return f"training {recipe.name}{several}"


def _describe(recipe: TrainingRecipe, seed: int, as_json: bool) -> None:
    from weft.training.algorithms import ALGORITHMS

    row = ALGORITHMS[recipe.algorithm]
    if as_json:
        what = {"recipe": recipe.to_dict(), "algorithm": recipe.algorithm, "role": row.role}
        output.emit(output.document("train", seed, what))
        return
    article = "an" if row.role[0] in "aeiou" else "a"
    output.say(f"{article} {row.role}, by {recipe.algorithm}: {row.words}")
    for key, value in recipe.to_dict().items():
        output.say(f"{key}: {value}")
