"""PPO of a net that points at candidates, on streams of different workflows.

The base rule is imitated first, if the recipe says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from weft.errors import InputError
from weft.policies.candidates.net import CandidateNet
from weft.policies.checkpoint import Weights
from weft.sim.tasks.environment import TaskEnv
from weft.sim.tasks.pipeline_environment import PipelineEnv
from weft.training.algorithms import Asked
from weft.training.candidates.judges import judge_of
from weft.training.candidates.recipe import TaskRecipe
from weft.training.candidates.setup import candidate_architecture, candidate_card, env_of, say_other_base
from weft.training.environment import Floats, Ints
from weft.training.first_weights import starting_weights
from weft.training.ppo.config import PPOConfig
from weft.training.ppo.learner import PPO
from weft.training.ppo.validation import Validated


class CandidatePPO(PPO[TaskEnv | PipelineEnv]):
    """PPO with one head that points at a candidate."""

    def _make_net(self) -> CandidateNet:
        return CandidateNet(candidate_architecture(self.config, self.env.setup.sight))

    def _feature_ranges(self, ranges: Floats) -> tuple[tuple[float, float], ...]:
        world, rows = candidate_architecture(self.config, self.env.setup.sight).parts(ranges)
        low = np.concatenate([world[0], rows[0].min(axis=0)])
        high = np.concatenate([world[1], rows[1].max(axis=0)])
        return tuple(zip(low.tolist(), high.tolist(), strict=True))


def follow_base(env: TaskEnv | PipelineEnv) -> Ints:
    """What the base rule starts first, or the wait where it starts nothing."""
    if isinstance(env, PipelineEnv):
        raise InputError("pipelines have no rule to imitate", field="config.imitation_updates")
    return env.follow(env.known.base)


def candidate_weights(recipe: TaskRecipe[PPOConfig], start: str | None) -> Weights | None:
    """What the net of a recipe begins with."""
    return starting_weights(start, candidate_card(recipe))


@contextmanager
def candidate_learner(
    recipe: TaskRecipe[PPOConfig], asked: Asked, on_notice: Callable[[str], None]
) -> Iterator[Validated]:
    """A net that points at candidates, on the streams of a recipe."""
    card, weights = candidate_card(recipe), candidate_weights(recipe, asked.start)
    say_other_base(recipe, card, asked.start, on_notice)
    on_notice(f"drawing {recipe.streams} streams, playing {len(recipe.validation.rules)} rules")
    if recipe.distributed.engine:
        from weft.training.distributed.run import spread_ppo

        with spread_ppo(recipe, asked, weights, card, on_notice) as spread:
            yield Validated(spread, judge_of(recipe), recipe.every)
        return
    env = env_of(recipe, asked.seed)
    rule = follow_base if recipe.config.imitation_updates else None
    learner = CandidatePPO(
        env, recipe.config, seed=asked.seed, device=asked.device, rule=rule, start=weights, card=card
    )
    yield Validated(learner, judge_of(recipe), recipe.every)
