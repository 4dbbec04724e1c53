"""Any training recipe, once or once per seed: ``weft.train``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from numbers import Integral
from pathlib import Path
from typing import NamedTuple

from weft.catalog import duration
from weft.errors import expect, expect_each
from weft.io.verb_documents import document
from weft.training.algorithms import Asked, TrainingRecipe
from weft.training.recipes import read_spread
from weft.training.run.folder import Outcome, Progress
from weft.training.run.once import train_once
from weft.training.run.seeds import train_group


@dataclass(frozen=True)
class Trained:
    """What training ended with."""

    recipe: TrainingRecipe
    run: str
    """Folder of the run, or of the runs where there is one per seed."""
    seeds: tuple[int, ...]
    runs: tuple[Outcome, ...]
    is_group: bool
    """Whether there is one run per seed, in folders below."""

    def __str__(self) -> str:
        return "\n".join(in_words(one, self.recipe) for one in self.runs)

    def to_dict(self) -> dict[str, object]:
        """The document of ``weft train --json``."""
        several = {"run": self.run, "runs": [asdict(one) for one in self.runs]}
        return document("train", self.seeds[0], several if self.is_group else asdict(self.runs[0]))


class Calls(NamedTuple):
    """Whom to tell what."""

    on_progress: Callable[[Progress], None]
    on_notice: Callable[[str], None]
    on_ready: Callable[[], object]
    on_done: Callable[[Outcome], None]


def in_words(found: Outcome, recipe: TrainingRecipe) -> str:
    """What a run took and reached, in a line."""
    took = f"{duration(found.seconds)} ({duration(found.cpu_seconds)} of processor time)"
    best = recipe.best_in_words(found)
    return f"{found.run}: {found.samples:,} {recipe.unit} in {took}{best and f', {best}'}"


def folder_of(recipe: str | Path) -> Path:
    """Where a recipe of this name is trained unless somebody says otherwise."""
    return Path("runs") / Path(recipe).stem


def train(
    recipe: str | Path | TrainingRecipe,
    out: str | Path | None = None,
    *,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
    seeds: Sequence[int] | None = None,
    workers: int = 1,
    threads: int | None = None,
    device: str = "cpu",
    start: str | None = None,
    resume: bool = False,
    tensorboard: bool = False,
    engine: str | None = None,
    actors: int | None = None,
    address: str | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_notice: Callable[[str], None] = lambda line: None,
    on_done: Callable[[Outcome], None] = lambda outcome: None,
    on_ready: Callable[[], object] = lambda: None,
) -> Trained:
    """Train a policy to the end of its recipe.

    Parameters
    ----------
    recipe
        A built-in recipe, a TOML file, or a recipe that was read; ``settings`` change what is read.
    out
        Folder of the run; None: ``runs/RECIPE``.
    seeds
        Train once per seed, into ``out/seed-1`` and so on, ``workers`` at a time; runs that are there go on.
    workers
        Processes: runs at a time, or without ``seeds`` those that prepare problems of one-shot planners.
    threads
        Of a run; None: 1, of one-shot planners all.
    start
        Weights or run to start from; with ``seeds`` a folder of runs stands for the one of the same seed.
    resume, tensorboard
        Continue the run in the folder; write metrics for TensorBoard too.
    engine, actors, address
        Where roles run, how many act, and the Ray cluster they run on; None: as the recipe says.
    on_progress, on_notice, on_done
        Called after updates and with lines a person should see, without ``seeds``; after each run of ``seeds``.
    on_ready
        Called before training begins, once nothing stands in its way.
    """
    expect(recipe, (str, Path, TrainingRecipe), "the name of a recipe, a TOML file or a recipe", "recipe")
    if seeds is not None:
        expect_each(seeds, Integral, "whole numbers", "seeds")
    if isinstance(recipe, str | Path):
        chosen = read_spread(recipe, settings or {}, engine, actors, address)
        name, origin = str(recipe), str(recipe)
    else:
        name, chosen, origin = recipe.name, recipe, ""
    asked = Asked(seed, device, start, workers, threads, tensorboard, address, origin)
    calls = Calls(on_progress, on_notice, on_ready, on_done)
    return _trained(chosen, out or folder_of(name), asked, seeds, resume, calls)


def _trained(
    recipe: TrainingRecipe,
    folder: str | Path,
    asked: Asked,
    seeds: Sequence[int] | None,
    is_resumed: bool,
    calls: Calls,
) -> Trained:
    if seeds is not None:
        found = train_group(recipe, folder, seeds, asked, on_done=calls.on_done, on_ready=calls.on_ready)
        return Trained(recipe, str(folder), tuple(seeds), tuple(found), True)
    done = train_once(
        recipe,
        folder,
        asked,
        is_resumed=is_resumed,
        on_progress=calls.on_progress,
        on_notice=calls.on_notice,
        on_ready=calls.on_ready,
    )
    return Trained(recipe, str(folder), (asked.seed,), (done,), False)
