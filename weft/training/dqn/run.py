"""The learner of a recipe: streams of different workflows, a net that values candidates, and its judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.policies.candidates.architecture import Q
from weft.policies.checkpoint import Weights
from weft.training.algorithms import Asked
from weft.training.candidates.judges import judge_of
from weft.training.candidates.recipe import TaskRecipe
from weft.training.candidates.setup import candidate_card, env_of, say_other_base
from weft.training.dqn.config import DQNConfig
from weft.training.dqn.learner import DQN
from weft.training.first_weights import starting_weights
from weft.training.ppo.validation import Validated


def candidate_weights(recipe: TaskRecipe[DQNConfig], start: str | None) -> Weights | None:
    """What the net of a recipe begins with."""
    return starting_weights(start, candidate_card(recipe, Q))


@contextmanager
def candidate_learner(
    recipe: TaskRecipe[DQNConfig], asked: Asked, on_notice: Callable[[str], None]
) -> Iterator[Validated]:
    """A net that values candidates, on the streams of a recipe."""
    say_other_base(recipe, candidate_card(recipe, Q), asked.start, on_notice)
    if recipe.distributed.engine:
        from weft.training.distributed.run import spread_learner

        with spread_learner(recipe, asked, on_notice) as spread:
            yield spread
        return
    card, weights = candidate_card(recipe, Q), candidate_weights(recipe, asked.start)
    on_notice(f"drawing {recipe.streams} streams, playing {len(recipe.validation.rules)} rules")
    env = env_of(recipe, asked.seed)
    learner = DQN(env, recipe.config, seed=asked.seed, device=asked.device, start=weights, card=card)
    yield Validated(learner, judge_of(recipe), recipe.every)
