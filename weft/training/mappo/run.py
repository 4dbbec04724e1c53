"""From a recipe to the learner of agents of edge clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.policies.checkpoint import Card, Weights
from weft.policies.han.allocator import FEATURE_VERSION, card_features, feature_names
from weft.training.algorithms import Asked
from weft.training.first_weights import starting_weights
from weft.training.mappo.learner import Mappo
from weft.training.mappo.recipe import MappoRecipe
from weft.training.mappo.validation import Episodes


def han_card(recipe: MappoRecipe) -> Card:
    """What the trained agents see and act on: any number of clusters with these resources and types of task."""
    problem = recipe.problem
    names = feature_names(problem.resources, tuple(one.name for one in problem.types))
    grid = tuple(problem.grid.tolist())
    return Card(
        recipe.name,
        recipe.algorithm,
        recipe.config.architecture((len(names.cluster), len(names.waiting), len(names.running)), grid),
        feature_version=FEATURE_VERSION,
        features=card_features(names),
        training={"recipe": recipe.to_dict()},
    )


def mappo_weights(recipe: MappoRecipe, start: str | None) -> Weights | None:
    """What the agents of a recipe begin with."""
    return starting_weights(start, han_card(recipe))


@contextmanager
def mappo_learner(recipe: MappoRecipe, asked: Asked, on_notice: Callable[[str], None]) -> Iterator[Mappo]:
    """Agents that share a net, on the clusters of a recipe."""
    card = han_card(recipe)
    yield Mappo(
        recipe.training_batch(asked.seed),
        card,
        recipe.config,
        seed=asked.seed,
        device=asked.device,
        start=mappo_weights(recipe, asked.start),
        judge=Episodes(recipe.validation_batch()),
        every=recipe.every,
        first=recipe.learned_first() if recipe.config.imitation_updates else None,
    )
