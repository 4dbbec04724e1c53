"""Several training seeds of one recipe: a run folder each, in one folder, by several processes."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from weft.errors import InputError
from weft.scenarios.splits import SEEDS_PER_SPLIT
from weft.training.algorithms import Asked, TrainingRecipe
from weft.training.run.folder import Outcome
from weft.training.run.once import Reporter, check_asked, learner_for, train_once

MOST_RUNS = 10_000
PREFIX = "seed-"
"""How the folders of a group's runs begin."""


@dataclass(frozen=True)
class Part:
    """One run of a group; resumed if it is there."""

    recipe: TrainingRecipe
    folder: str
    asked: Asked

    def __call__(self) -> Outcome:
        """Train it to its end."""
        say = Reporter(self.recipe, self.folder, 30.0)
        return train_once(self.recipe, self.folder, self.asked, is_resumed=True, on_progress=say)


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds as ``1,2,3`` or ``1:4``, the latter without its end."""
    try:
        if ":" in text:
            first, last = (int(part) for part in text.split(":"))
            seeds = tuple(range(first, min(last, first + MOST_RUNS + 1)))
        else:
            seeds = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        seeds = ()
    if not seeds or min(seeds) < 0 or max(seeds) >= SEEDS_PER_SPLIT:
        raise InputError(
            f"expected whole numbers as in 1,2,3 or 1:4, at most {SEEDS_PER_SPLIT - 1}, got {text!r:.80}",
            field="seeds",
        )
    if len(seeds) > MOST_RUNS:
        raise InputError(f"expected at most {MOST_RUNS} seeds, got {text!r:.80}", field="seeds")
    return seeds


def of_seed(asked: Asked, seed: int) -> Asked:
    """What is asked of one run of a group; where it continues another group, it continues the run of the same seed."""
    start = asked.start
    if start is not None and any(Path(start).glob(f"{PREFIX}*")):
        start = f"{Path(start) / f'{PREFIX}{seed}'}@best"
    return asked._replace(seed=seed, start=start)


def train_group(
    recipe: TrainingRecipe,
    folder: str | Path,
    seeds: Sequence[int],
    asked: Asked = Asked(),  # noqa: B008 (a NamedTuple, never changed)
    *,
    on_done: Callable[[Outcome], None] = lambda outcome: None,
    on_ready: Callable[[], object] = lambda: None,
) -> list[Outcome]:
    """Train a recipe once per seed, ``asked.workers`` at a time; runs that are finished are left as they are.

    Outcomes come in the order of the seeds. Progress goes to standard error. ``on_ready`` is called before the first.
    """
    own = [of_seed(asked, seed) for seed in seeds]
    for one in own:
        check_asked(recipe, one)
    learner_for(recipe, asked)
    on_ready()
    workers, root = asked.workers, Path(folder)
    parts = [Part(recipe, str(root / f"{PREFIX}{one.seed}"), one._replace(workers=1)) for one in own]
    if workers == 1:
        return [_reported(part(), on_done) for part in parts]
    context = multiprocessing.get_context("spawn")
    log = logging.getLogger("weft")
    with ProcessPoolExecutor(
        min(workers, len(parts)), mp_context=context, initializer=log.setLevel, initargs=(log.level,)
    ) as pool:
        futures = [pool.submit(part) for part in parts]
        for future in as_completed(futures):
            on_done(future.result())
        return [future.result() for future in futures]


def _reported(outcome: Outcome, on_done: Callable[[Outcome], None]) -> Outcome:
    on_done(outcome)
    return outcome
