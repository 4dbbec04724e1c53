"""The verb that trains: a recipe into a run folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import options as opt
from weft.cli import output

if TYPE_CHECKING:
    from weft.training.run.folder import Progress
    from weft.training.run.metrics import Row
    from weft.training.train import Trained

RecipeName = Annotated[
    str,
    typer.Argument(metavar="RECIPE", show_default=False, help="A built-in recipe, or a TOML file."),
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


def train(
    recipe: RecipeName,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="RUN", help="Folder of the run; default runs/RECIPE."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the recipe or its scenario."),
    ] = None,
    seed: opt.Seed = 0,
    seeds: Seeds = None,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=1, help="Processes, with --seeds.")
    ] = 1,
    threads: Threads = None,
    device: Annotated[str, typer.Option("--device", metavar="NAME", help="cpu or cuda.")] = "cpu",
    start: Annotated[
        str | None, typer.Option("--from", metavar="WEIGHTS", help="Weights or run to begin with.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write metrics for TensorBoard too, into RUN/tensorboard.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be trained, and stop.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Train a policy; resumes after an interruption."""
    from weft.scenarios import parse_assignments
    from weft.training.recipes import Recipe
    from weft.training.run.seeds import parse_seeds
    from weft.training.train import any_recipe
    from weft.training.train import train as run

    changes = parse_assignments(settings or [])
    chosen = any_recipe(recipe, changes)
    is_dispatcher = isinstance(chosen, Recipe)
    if dry_run:
        if isinstance(chosen, Recipe):
            chosen.setup()
        _describe(chosen.to_dict(), seed, as_json)
        return
    numbers = parse_seeds(seeds) if seeds is not None and is_dispatcher else ()
    way: dict[str, Any] = {"workers": workers, "threads": threads, "device": device, "start": start}
    several = f" with {output.count(len(numbers), 'seed')}" if numbers else ""
    with output.progress(f"training {chosen.name}{several}"):
        found = run(
            recipe,
            out,
            settings=changes,
            seed=seed,
            seeds=None if seeds is None else numbers,
            resume=resume,
            tensorboard=tensorboard,
            on_progress=_Reporter("samples", _reward) if is_dispatcher else _Reporter("schedules", _Above()),
            on_notice=output.note,
            **way,
        )
    _show(found, as_json)


def _show(found: Trained, as_json: bool) -> None:
    from weft.training.recipes import Recipe

    if as_json:
        output.emit(found.to_dict())
        return
    output.say(str(found))
    if isinstance(found.recipe, Recipe):
        policy = found.run if found.is_group else f"{found.run}@best"
        output.next_command(f"weft evaluate {found.recipe.scenario} -s {policy},heavy-last-1 --seeds 8")
    else:
        output.next_command(f"weft schedule FILE --scheduler {found.run}@best --samples 64")


def _describe(recipe: dict[str, object], seed: int, as_json: bool) -> None:
    if as_json:
        output.emit(output.document("train", seed, {"recipe": recipe}))
        return
    for key, value in recipe.items():
        output.say(f"{key}: {value}")


def _reward(row: Row) -> str:
    return f"mean reward {row.get('mean_reward'):.5g}"


class _Above:
    """How far above the bound the schedules drawn last are, and those of the last validation."""

    def __init__(self) -> None:
        self._validation = ""

    def __call__(self, row: Row) -> str:
        from weft.training.oneshot.run import validation_in_words

        found = validation_in_words(row)
        self._validation = f", validation: {found}" if found else self._validation
        return f"drawn {row.get('drawn_percent'):.1f} % above the bound{self._validation}"


class _Reporter:
    """A line on stderr every few seconds; ``say`` puts every row of metrics in words."""

    every = 5.0

    def __init__(self, unit: str, say: Callable[[Row], str]) -> None:
        self._unit, self._say = unit, say
        self._next = 0.0

    def __call__(self, progress: Progress) -> None:
        said = self._say(progress.row)
        now = time.monotonic()
        if now < self._next and progress.update < progress.num_updates:
            return
        self._next = now + self.every
        left = f", {output.duration(progress.seconds_left)} left" if progress.seconds_left else ""
        print(
            f"{progress.samples:>12,} of {progress.num_samples:,} {self._unit}, {said}{left}",
            file=sys.stderr,
            flush=True,
        )
