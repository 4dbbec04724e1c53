"""The learner of one-shot planners, for a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from weft.policies.checkpoint import Card, Weights
from weft.policies.oneshot.features import FEATURES, VERSION
from weft.training.algorithms import Asked
from weft.training.first_weights import starting_weights
from weft.training.oneshot.learner import SampleLearner
from weft.training.oneshot.recipe import SampleRecipe


def sample_card(recipe: SampleRecipe) -> Card:
    """What the trained planner sees."""
    return Card(
        recipe.name,
        recipe.algorithm,
        recipe.config.shape,
        feature_version=VERSION,
        features=FEATURES,
        training={"recipe": recipe.to_dict()},
    )


def sample_weights(recipe: SampleRecipe, start: str | None) -> Weights | None:
    """What the planner of a recipe begins with."""
    return starting_weights(start, sample_card(recipe))


@contextmanager
def sample_learner(
    recipe: SampleRecipe, asked: Asked, on_notice: Callable[[str], None]
) -> Iterator[SampleLearner]:
    """A planner that learns from schedules it draws; ``asked.workers`` beyond one prepare problems."""
    learner = _learner(recipe, asked, on_notice)
    try:
        yield learner
    finally:
        learner.close()


def _learner(recipe: SampleRecipe, asked: Asked, on_notice: Callable[[str], None]) -> SampleLearner:
    """Draws on the threads of this process, or on actors where the recipe says."""
    make: Callable[..., SampleLearner] = partial(SampleLearner, threads=asked.threads)
    if recipe.distributed.engine:
        from weft.training.distributed.drawing import SpreadSamples
        from weft.training.distributed.run import transport_of

        transport = transport_of(recipe.distributed, asked.address)
        make = partial(SpreadSamples, transport, recipe.distributed, on_notice)
    return make(
        recipe.sources,
        recipe.config,
        seed=asked.seed,
        device=asked.device,
        start=sample_weights(recipe, asked.start),
        card=sample_card(recipe),
        workers=asked.workers if asked.workers > 1 else 0,
    )
