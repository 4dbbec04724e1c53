"""Trains a recipe into a run folder, whatever its algorithm, and says how far it is."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from weft.catalog import duration
from weft.errors import InputError
from weft.training.algorithms import ALGORITHMS, Asked, LearnerOf, TrainingRecipe
from weft.training.distributed.config import RAY, Distributed
from weft.training.run.folder import Outcome, Progress, Spec, open_run
from weft.training.run.metrics import require_tensorboard


def train_once(
    recipe: TrainingRecipe,
    folder: str | Path,
    asked: Asked = Asked(),  # noqa: B008 (a NamedTuple, never changed)
    *,
    is_resumed: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_notice: Callable[[str], None] = lambda line: None,
    on_ready: Callable[[], object] = lambda: None,
) -> Outcome:
    """Train a recipe to its end; what cannot be trained is refused before there is a folder.

    ``on_ready`` is called once nothing stands in the way.
    """
    check_asked(recipe, asked)
    learner_of = learner_for(recipe, asked)
    what = {**recipe.to_dict(), "from": asked.start}
    spec = Spec(recipe.algorithm, asdict(recipe.config), asked.seed, what)
    with open_run(folder, spec, asked.recipe, is_resumed=is_resumed, on_notice=on_notice) as run:
        on_ready()
        with learner_of(recipe, asked, on_notice) as learner:
            return run.train(
                learner, every=recipe.every, on_progress=on_progress, has_tensorboard=asked.has_tensorboard
            )


def check_asked(recipe: TrainingRecipe, asked: Asked) -> None:
    """Refuse whatever training would refuse, before anything is said or written; loads torch for first weights alone."""
    row = ALGORITHMS[recipe.algorithm]
    recipe.check(asked.seed)
    if asked.device not in row.devices and not (
        "cuda" in row.devices and re.fullmatch(r"cuda:\d+", asked.device)
    ):
        where = " or ".join(row.devices)
        raise InputError(
            f"expected {where} for training by {recipe.algorithm}, got {asked.device!r:.80}", field="device"
        )
    if asked.has_tensorboard:
        require_tensorboard()
    if asked.start is not None:
        row.weights_of()(recipe, asked.start)
    if getattr(recipe, "distributed", Distributed()).engine == RAY:
        from weft.spread.ray import check

        check(asked.address)


def learner_for(recipe: TrainingRecipe, asked: Asked) -> LearnerOf:
    """What makes the learner, if torch and the device are there."""
    found = ALGORITHMS[recipe.algorithm].learner_of()
    if asked.device != "cpu":
        from weft.training.optimiser import device_named

        device_named(asked.device)
    return found


class Reporter:
    """A line on stderr every few seconds and at every validation: samples, the last update, the last validation, the time left."""

    def __init__(self, recipe: TrainingRecipe, run: str = "", every: float = 5.0) -> None:
        self._recipe, self._run, self._every = recipe, run and f"{run}: ", every
        self._validation, self._next = "", 0.0

    def __call__(self, progress: Progress) -> None:
        """Say where a run stands."""
        found = self._recipe.validation_in_words(progress.row)
        self._validation = f", validation: {found}" if found else self._validation
        now = time.monotonic()
        if now < self._next and not found and progress.update < progress.num_updates:
            return
        if not logging.getLogger("weft").isEnabledFor(logging.WARNING):  # --quiet
            return
        self._next = now + self._every
        left = f", {duration(progress.seconds_left)} left" if progress.seconds_left else ""
        samples = min(progress.samples, progress.num_samples)  # actors may be ahead of the last update
        count = f"{self._run}{samples:>12,} of {progress.num_samples:,} {self._recipe.unit}"
        said = self._recipe.progress_in_words(progress.row)
        print(f"{count}, {said}{self._validation}{left}", file=sys.stderr, flush=True)
