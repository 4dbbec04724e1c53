"""Any training recipe, once or once per seed: ``weft.train``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from weft.catalog import duration
from weft.errors import InputError
from weft.io.verb_documents import document
from weft.training.oneshot import run as sample_run
from weft.training.oneshot.run import SampleRecipe
from weft.training.ppo import run as stream_run
from weft.training.recipes import Recipe, read_recipe
from weft.training.run.folder import Outcome, Progress
from weft.training.run.seeds import train_group


@dataclass(frozen=True)
class Trained:
    """What training ended with."""

    recipe: Recipe | SampleRecipe
    run: str
    """Folder of the run, or of the runs where there is one per seed."""
    seeds: tuple[int, ...]
    runs: tuple[Outcome, ...]
    is_group: bool
    """Whether there is one run per seed, in folders below."""

    def __str__(self) -> str:
        return "\n".join(_in_words(one, self.recipe) for one in self.runs)

    def to_dict(self) -> dict[str, object]:
        """The document of ``weft train --json``."""
        several = {"run": self.run, "runs": [asdict(one) for one in self.runs]}
        return document("train", self.seeds[0], several if self.is_group else asdict(self.runs[0]))


def _in_words(found: Outcome, recipe: Recipe | SampleRecipe) -> str:
    took = f"{duration(found.seconds)} ({duration(found.cpu_seconds)} of processor time)"
    if not isinstance(recipe, Recipe):
        return f"{found.run}: {found.samples:,} schedules in {took}{sample_run.best_in_words(found)}"
    against = "" if found.best is None else f"{-found.best:+.2f} % against the best rules in validation"
    return f"{found.run}: {found.samples:,} samples in {took}{against and f', best policy {against}'}"


def any_recipe(name: str | Path, settings: Mapping[str, object] | None = None) -> Recipe | SampleRecipe:
    """A built-in recipe or a TOML file, of dispatchers or of one-shot planners, with values changed."""
    if sample_run.is_sampled(str(name)):
        return sample_run.read_sampled(str(name), settings)
    return read_recipe(str(name), settings)


def train(
    recipe: str | Path | Recipe | SampleRecipe,
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
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_notice: Callable[[str], None] = lambda line: None,
    on_done: Callable[[Outcome], None] = lambda outcome: None,
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
    threads
        Of a run; None: 1, of one-shot planners all.
    start
        Weights or run to begin with.
    resume
        Go on with the run in the folder.
    tensorboard
        Write metrics for TensorBoard too.
    on_progress, on_notice
        Called after updates and with lines a person should see, without ``seeds``.
    on_done
        Called after each run of ``seeds``.
    """
    name = recipe.name if isinstance(recipe, Recipe | SampleRecipe) else str(recipe)
    chosen = recipe if isinstance(recipe, Recipe | SampleRecipe) else any_recipe(recipe, settings)
    folder = out or Path("runs") / Path(name).stem
    way: dict[str, Any] = {"device": device, "start": start, "has_tensorboard": tensorboard}
    if seeds is None:
        said: dict[str, Any] = {"on_progress": on_progress, "on_notice": on_notice}
        done = _begin(chosen, threads)(folder, seed=seed, is_resumed=resume, **way, **said)
        return Trained(chosen, str(folder), (seed,), (done,), False)
    if not isinstance(chosen, Recipe):
        raise InputError(f"expected --seed: {name} trains one seed at a time", field="seeds")
    found = train_group(chosen, folder, seeds, workers=workers, threads=threads or 1, on_done=on_done, **way)
    return Trained(chosen, str(folder), tuple(seeds), tuple(found), True)


def _begin(recipe: Recipe | SampleRecipe, threads: int | None) -> Callable[..., Outcome]:
    if isinstance(recipe, Recipe):
        return partial(stream_run.train, recipe, threads=threads or 1)
    return partial(sample_run.train, recipe, threads=threads)
