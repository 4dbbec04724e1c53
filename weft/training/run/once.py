"""Trains a recipe into a run folder, whatever its algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from weft.training.algorithms import ALGORITHMS, Asked, TrainingRecipe
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
) -> Outcome:
    """Train a recipe to its end; what cannot be trained is refused before there is a folder."""
    recipe.check(asked.seed)
    learner_of = ALGORITHMS[recipe.algorithm].learner_of()
    if asked.has_tensorboard:
        require_tensorboard()
    what = {**recipe.to_dict(), "from": asked.start}
    spec = Spec(recipe.algorithm, asdict(recipe.config), asked.seed, what)
    with (
        open_run(folder, spec, is_resumed=is_resumed, on_notice=on_notice) as run,
        learner_of(recipe, asked, on_notice) as learner,
    ):
        return run.train(
            learner, every=recipe.every, on_progress=on_progress, has_tensorboard=asked.has_tensorboard
        )
