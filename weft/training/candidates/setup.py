"""The environments of a recipe of candidates, and what the policy trained in them sees. Loads no torch.

Rewards are in units of the time that jobs spend in the system under ``priced``, time is in mean run times.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.model.problem import realise
from weft.policies.candidates.architecture import POLICY, CandidateArchitecture
from weft.policies.checkpoint import Card
from weft.schedulers.dispatchers.tasks import priced, run_one
from weft.sim.tasks.candidates import FEATURE_VERSION, CandidateSight
from weft.sim.tasks.environment import TaskEnv, TaskSetup
from weft.sim.tasks.pipeline_environment import PipelineEnv, PipelineReward, PipelineSetup
from weft.sim.tasks.pipeline_features import PIPELINE_VERSION, PipelineSight
from weft.sim.tasks.reward import ELAPSED, Reward
from weft.sim.tasks.weights import PRICED, check_weights
from weft.training.candidates.recipe import TaskConfig, TaskRecipe, sight_table
from weft.training.first_weights import starting_card

HORIZON = 50.0
"""Rewards are divided by this many mean run times, so that discounted sums are about -1."""
TRIALS = 8
"""Streams from which the unit of rewards is known."""


def candidate_architecture(
    config: TaskConfig, sight: CandidateSight | PipelineSight, head: str = POLICY
) -> CandidateArchitecture:
    """The net a configuration asks for."""
    return CandidateArchitecture(len(sight.world), len(sight.columns), config.hidden[0], head=head)


def candidate_card(recipe: TaskRecipe[TaskConfig], head: str = POLICY) -> Card:
    """What the trained policy sees and acts on: any tasks and devices."""
    return Card(
        recipe.name,
        recipe.algorithm,
        candidate_architecture(recipe.config, recipe.sight, head),
        feature_version=PIPELINE_VERSION if isinstance(recipe.sight, PipelineSight) else FEATURE_VERSION,
        features=(
            *(f"world: {name}" for name in recipe.sight.world),
            *(f"candidate: {name}" for name in recipe.sight.columns),
        ),
        training={
            "sight": sight_table(recipe.sight),
            **({"base": list(recipe.base_weights)} if isinstance(recipe.sight, CandidateSight) else {}),
            "recipe": recipe.to_dict(),
        },
    )


def say_other_base(
    recipe: TaskRecipe[TaskConfig], card: Card, start: str | None, on_notice: Callable[[str], None]
) -> None:
    """Say so where the first weights were trained with another base rule: order and mark mean something else then."""
    if start is None or not isinstance(recipe.sight, CandidateSight):
        return
    trained = starting_card(start, card).training.get("base", PRICED)
    if check_weights(trained, "training.base") != recipe.base_weights:
        on_notice(
            f"{start} was trained with another base rule than {recipe.base}: "
            "candidates now come in another order, and another choice is marked"
        )


def setup_of(recipe: TaskRecipe[TaskConfig]) -> TaskSetup | PipelineSetup:
    """What the environments of a recipe play: pipelines, or streams of workflows."""
    if isinstance(recipe.sight, PipelineSight) and isinstance(recipe.reward, PipelineReward):
        problems = recipe.problems("train", recipe.streams)
        spread = max(1, recipe.streams // len(problems))
        return PipelineSetup(problems, recipe.sight, recipe.reward, spread=spread)
    return scaled(recipe)


def env_from(
    setup: TaskSetup | PipelineSetup, num_envs: int, seed: int, *, shared: bool = False
) -> TaskEnv | PipelineEnv:
    """So many environments; with ``shared`` each has all problems, else its part of them."""
    if isinstance(setup, PipelineSetup):
        return PipelineEnv(setup, num_envs, seed, shared=shared)
    return TaskEnv(setup, num_envs, seed, shared=shared)


def env_of(recipe: TaskRecipe[TaskConfig], seed: int) -> TaskEnv | PipelineEnv:
    """The environments of a recipe."""
    return env_from(setup_of(recipe), recipe.config.num_envs, seed)


def scaled(recipe: TaskRecipe[TaskConfig]) -> TaskSetup:
    """The training streams, with rewards and time in units of what ``priced`` makes of them."""
    sight, reward = recipe.sight, recipe.reward
    if not isinstance(sight, CandidateSight) or not isinstance(reward, Reward):
        raise TypeError("expected a recipe of streams, got one of pipelines")
    problems = recipe.problems("train", recipe.streams)
    found = [run_one(priced, problem, realise(problem, 0)) for problem in problems[:TRIALS]]
    level = float(np.mean([one.mean_jct * len(one.problem.jobs) / one.makespan for one in found]))
    unit = float(np.mean(np.concatenate([problem.best_run_times for problem in problems])))
    if reward.of == ELAPSED:
        level = 1.0
    scale = 1.0 / (level * unit * HORIZON)
    return TaskSetup(problems, sight, scale, unit, reward=reward, base=recipe.base_weights)
