"""Learners of recipes, without folders and judges."""

from __future__ import annotations

from dataclasses import replace

from weft.scenarios import parse_assignments
from weft.training.candidates.recipe import TaskRecipe
from weft.training.candidates.setup import env_of
from weft.training.distributed.apex import Apex
from weft.training.distributed.config import Distributed
from weft.training.distributed.gradients import Gradients
from weft.training.distributed.run import TaskEnvMaker, transport_of
from weft.training.dqn.config import DQNConfig
from weft.training.recipes import read_recipe


def recipe_of(name: str, changes: list[str], **others: object) -> TaskRecipe[DQNConfig]:
    """A recipe with single values changed."""
    found = read_recipe(name, {**parse_assignments(changes), **others})
    if not isinstance(found, TaskRecipe):
        raise TypeError(f"expected a recipe of single tasks, got {name}")
    return found


def learner_of(
    recipe: TaskRecipe[DQNConfig], maker: TaskEnvMaker, seed: int = 1, **changes: object
) -> Apex | Gradients:
    """A learner with roles as the changes say."""
    spread = replace(Distributed(), **changes)
    kind = Apex if spread.mode == "apex" else Gradients
    return kind(transport_of(spread, None), maker, recipe.config, spread, seed=seed)


def maker_of(recipe: TaskRecipe[DQNConfig]) -> TaskEnvMaker:
    """Environments on the training streams of a recipe."""
    return TaskEnvMaker(env_of(recipe, 1).setup)
