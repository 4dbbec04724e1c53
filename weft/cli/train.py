"""The verb that trains: a recipe into a run folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as opt
from weft.cli import output
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.training.metrics import Row
    from weft.training.recipes import Recipe
    from weft.training.run import Outcome, Progress
    from weft.training.sample_run import SampleRecipe


def train(
    recipe: Annotated[
        str,
        typer.Argument(metavar="RECIPE", show_default=False, help="A built-in recipe, or a TOML file."),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="RUN", help="Folder of the run; default runs/RECIPE."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a value of the recipe or its scenario."),
    ] = None,
    seed: opt.Seed = 0,
    seeds: Annotated[
        str | None,
        typer.Option(
            "--seeds", metavar="1,2,3", help="Train once per seed, into RUN/seed-1, RUN/seed-2, ..."
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=1, help="Processes, with --seeds.")
    ] = 1,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", metavar="N", min=1, help="Threads of a run; default: 1, of one-shot planners all."
        ),
    ] = None,
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
    from weft.training import sample_run
    from weft.training.recipes import Recipe, read_recipe

    changes = parse_assignments(settings or [])
    is_sampled = sample_run.is_sampled(recipe)
    chosen = sample_run.read_sampled(recipe, changes) if is_sampled else read_recipe(recipe, changes)
    folder = out or Path("runs") / Path(recipe).stem
    if dry_run:
        if isinstance(chosen, Recipe):
            chosen.setup()
        _describe(chosen.to_dict(), seed, as_json)
        return
    if seeds is not None:
        if not isinstance(chosen, Recipe):
            raise InputError(f"expected --seed: {recipe} trains one seed at a time", field="seeds")
        _train_group(chosen, folder, seeds, (workers, threads or 1), device, start, tensorboard, as_json)
        return
    with output.progress(f"training {chosen.name}"):
        found = _trained(chosen, folder, seed, device, start, resume, threads, tensorboard)
    if as_json:
        output.emit(output.document("train", seed, asdict(found)))
        return
    _show(found, chosen)
    if isinstance(chosen, Recipe):
        output.next_command(f"weft evaluate {chosen.scenario} -s {found.run}@best,heavy-last-1 --seeds 8")
    else:
        output.next_command(f"weft schedule FILE --scheduler {found.run}@best --samples 64")


def _trained(
    chosen: Recipe | SampleRecipe,
    folder: Path,
    seed: int,
    device: str,
    start: str | None,
    resume: bool,
    threads: int | None,
    tensorboard: bool,
) -> Outcome:
    """Train either kind of recipe, saying how it goes."""
    from weft.training import sample_run, stream_run
    from weft.training.recipes import Recipe

    if isinstance(chosen, Recipe):
        return stream_run.train(
            chosen,
            folder,
            seed=seed,
            device=device,
            start=start,
            is_resumed=resume,
            threads=threads or 1,
            has_tensorboard=tensorboard,
            on_progress=_Reporter("samples", _reward),
            on_notice=output.note,
        )
    return sample_run.train(
        chosen,
        folder,
        seed=seed,
        device=device,
        start=start,
        is_resumed=resume,
        threads=threads,
        has_tensorboard=tensorboard,
        on_progress=_Reporter("schedules", _Above()),
        on_notice=output.note,
    )


def _train_group(
    recipe: Recipe,
    folder: Path,
    seeds: str,
    parallel: tuple[int, int],
    device: str,
    start: str | None,
    tensorboard: bool,
    as_json: bool,
) -> None:
    """Train once per seed; ``parallel`` is runs at a time and threads of each."""
    from weft.training.group import parse_seeds, train_group

    numbers = parse_seeds(seeds)
    with output.progress(f"training {recipe.name} with {output.count(len(numbers), 'seed')}"):
        found = train_group(
            recipe,
            folder,
            numbers,
            workers=parallel[0],
            threads=parallel[1],
            device=device,
            start=start,
            has_tensorboard=tensorboard,
        )
    if as_json:
        runs = [asdict(one) for one in found]
        output.emit(output.document("train", numbers[0], {"run": str(folder), "runs": runs}))
        return
    for one in found:
        _show(one, recipe)
    output.next_command(f"weft evaluate {recipe.scenario} -s {folder},heavy-last-1 --seeds 8")


def _show(found: Outcome, recipe: Recipe | SampleRecipe) -> None:
    from weft.training.recipes import Recipe
    from weft.training.sample_run import best_in_words

    took = f"{output.duration(found.seconds)} ({output.duration(found.cpu_seconds)} of processor time)"
    if not isinstance(recipe, Recipe):
        output.say(f"{found.run}: {found.samples:,} schedules in {took}{best_in_words(found)}")
        return
    best = ""
    if found.best is not None:
        best = f", best policy {-found.best:+.2f} % against the best rules in validation"
    output.say(f"{found.run}: {found.samples:,} samples in {took}{best}")


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
        from weft.training.sample_run import validation_in_words

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
