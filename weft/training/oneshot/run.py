"""The learner of one-shot planners, for a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.policies.checkpoint import Card
from weft.policies.oneshot.features import FEATURES, VERSION
from weft.training.algorithms import Asked
from weft.training.first_weights import starting_weights
from weft.training.oneshot.learner import SampleLearner
from weft.training.oneshot.recipe import SampleRecipe


@contextmanager
def sample_learner(
    recipe: SampleRecipe, asked: Asked, on_notice: Callable[[str], None]
) -> Iterator[SampleLearner]:
    """A planner that learns from schedules it draws; ``asked.workers`` beyond one prepare problems."""
    card = Card(
        recipe.name,
        recipe.algorithm,
        recipe.config.shape,
        feature_version=VERSION,
        features=FEATURES,
        training={"recipe": recipe.to_dict()},
    )
    learner = SampleLearner(
        recipe.sources,
        recipe.config,
        seed=asked.seed,
        device=asked.device,
        start=starting_weights(asked.start, card),
        card=card,
        workers=asked.workers if asked.workers > 1 else 0,
        threads=asked.threads,
    )
    try:
        yield learner
    finally:
        learner.close()
