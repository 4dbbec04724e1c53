"""The learner of a recipe that is spread: transport, environments, curriculum and judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from weft.model.fluid import fluid_load
from weft.model.problem import Problem
from weft.policies.candidates.architecture import Q
from weft.policies.checkpoint import Card, Weights
from weft.sim.tasks.environment import TaskEnv, TaskSetup
from weft.sim.tasks.pipeline_environment import PipelineEnv, PipelineReward, PipelineSetup
from weft.training.algorithms import Asked
from weft.training.candidates.judges import judge_of
from weft.training.candidates.recipe import TaskConfig, TaskRecipe
from weft.training.candidates.setup import candidate_card, env_from, setup_of
from weft.training.cells import dealt, shares
from weft.training.distributed.apex import Apex
from weft.training.distributed.config import APEX, LOCAL, PROCESSES, Distributed
from weft.training.distributed.gradients import Gradients
from weft.training.distributed.leases import Seats
from weft.training.distributed.local import LocalTransport
from weft.training.distributed.pipeline_returns import Unshaped, at_stake, rule_returns
from weft.training.distributed.points import period_points, setting_points
from weft.training.distributed.processes import ProcessTransport
from weft.training.distributed.rollouts import SpreadPPO
from weft.training.distributed.scheduler import ConfigScheduler, Grid
from weft.training.distributed.transport import Transport
from weft.training.dqn.config import DQNConfig
from weft.training.dqn.exploration import base_choices
from weft.training.environment import Floats
from weft.training.first_weights import starting_weights
from weft.training.ppo.config import PPOConfig
from weft.training.ppo.validation import Validated


@dataclass(frozen=True)
class TaskEnvMaker:
    """Makes environments of single tasks; an :class:`weft.training.distributed.actor.EnvMaker`."""

    setup: TaskSetup | PipelineSetup
    configurations: tuple[int, ...] = ()
    """Of every problem, the cell it belongs to; empty: episodes are dealt and not leased."""
    reward_scale: float = 1.0
    """What the learner multiplies rewards by."""

    def env(self, num_envs: int) -> TaskEnv | PipelineEnv:
        return env_from(self.setup, num_envs, 0, shared=bool(self.configurations))

    def seats(self, env: TaskEnv | PipelineEnv, seed: int) -> Seats | None:
        if not self.configurations:
            return None
        each = np.array(self.configurations, np.int64)
        correction = Unshaped(env, self.reward_scale) if isinstance(env, PipelineEnv) else None
        return Seats(env, [each] * env.num_envs, seed, correction)


def maker_of(recipe: TaskRecipe[TaskConfig], *, is_leased: bool) -> TaskEnvMaker:
    """Makes the environments of a recipe."""
    configurations = configurations_of(recipe) if is_leased else ()
    return TaskEnvMaker(setup_of(recipe), configurations, reward_scale(recipe.config))


def reward_scale(config: TaskConfig) -> float:
    """What a learner multiplies rewards by: PPO, which standardises advantages, by nothing."""
    return config.reward_scale if isinstance(config, DQNConfig) else 1.0


def scheduler_of(recipe: TaskRecipe[TaskConfig], grid: Grid | None, seed: int) -> ConfigScheduler | None:
    """Who lends the configurations of a grid to the actors of a recipe; None: nobody does."""
    workers = [f"actor-{k}" for k in range(recipe.distributed.actors)]
    return None if grid is None else ConfigScheduler(grid, recipe.curriculum, workers, seed)


def configurations_of(recipe: TaskRecipe[TaskConfig]) -> tuple[int, ...]:
    """The cell of every training problem, in their order."""
    groups = recipe.by_cell("train", shares(recipe.streams, len(recipe.cells)))
    return dealt([[cell] * len(group) for cell, group in enumerate(groups)])


def lent_grid(recipe: TaskRecipe[TaskConfig], maker: TaskEnvMaker) -> Grid | None:
    """The cells of a recipe whose configurations are lent; None: they are not."""
    return grid_of(recipe, maker) if recipe.curriculum.is_leased else None


def grid_of(recipe: TaskRecipe[TaskConfig], maker: TaskEnvMaker) -> Grid:
    """The cells of a recipe as points of a grid, with how hard they are and what the base rule makes of them."""
    each = np.array(maker.configurations)
    problems = maker.setup.problems
    first = [int(np.flatnonzero(each == cell)[0]) for cell in range(len(recipe.cells))]
    if isinstance(maker.setup, PipelineSetup):
        return pipeline_grid([problems[k] for k in first], maker.setup.reward, maker.reward_scale)
    reference = maker.reward_scale * base_returns(maker.setup, first)
    return Grid(
        setting_points([cell.settings for cell in recipe.cells]),
        np.array([offered_load(problems[k]) for k in first]),
        reference,
        np.abs(reference),
    )


def pipeline_grid(problems: Sequence[Problem], reward: PipelineReward, scale: float) -> Grid:
    """Configurations of pipelines, given a problem of each; regrets are shares of what all deadlines are worth."""
    return Grid(
        period_points(problems),
        np.array([fluid_load(one) for one in problems]),
        scale * rule_returns(problems, reward),
        scale * np.array([at_stake(one, reward) for one in problems]),
    )


def offered_load(problem: Problem) -> float:
    """How hard a configuration is: work on the best devices per time and slot, while jobs are released."""
    work = float(problem.best_run_times.sum())
    last = max(job.release for job in problem.jobs)
    return work / (last or work) / float(problem.cluster.slots.sum())


def base_returns(setup: TaskSetup, which: Sequence[int]) -> Floats:
    """What the base rule gets (len(which),) for an episode of each of these problems."""
    chosen = replace(setup, problems=tuple(setup.problems[k] for k in which))
    env = TaskEnv(chosen, len(which))
    total, is_over = np.zeros(len(which)), np.zeros(len(which), np.bool_)
    while not is_over.all():
        reward, done = env.step(np.ascontiguousarray(base_choices(env)[:, None]))
        total += np.where(is_over, 0.0, reward)
        is_over |= done
    return total


def transport_of(spread: Distributed, address: str | None) -> Transport:
    """What carries the calls."""
    if spread.engine == LOCAL:
        return LocalTransport()
    if spread.engine == PROCESSES:
        return ProcessTransport()
    from weft.training.distributed.ray_transport import RayTransport

    return RayTransport(address, spread.actors + spread.shards + spread.num_learners + spread.servers)


@contextmanager
def spread_learner(
    recipe: TaskRecipe[DQNConfig], asked: Asked, on_notice: Callable[[str], None]
) -> Iterator[Validated]:
    """A net that values candidates, on the streams of a recipe, with roles where the recipe says."""
    card = candidate_card(recipe, Q)
    weights = starting_weights(asked.start, card)
    on_notice(f"drawing {recipe.streams} streams, playing {len(recipe.validation.rules)} rules")
    spread, judge = recipe.distributed, judge_of(recipe)
    maker = maker_of(recipe, is_leased=recipe.curriculum.is_leased)
    learner: Apex | Gradients = (Apex if spread.mode == APEX else Gradients)(
        transport_of(spread, asked.address),
        maker,
        recipe.config,
        spread,
        seed=asked.seed,
        device=asked.device,
        start=weights,
        card=card,
        scheduler=scheduler_of(recipe, lent_grid(recipe, maker), asked.seed),
        on_notice=on_notice,
    )
    try:
        yield Validated(learner, judge, recipe.every)
    finally:
        learner.close()


@contextmanager
def spread_ppo(
    recipe: TaskRecipe[PPOConfig],
    asked: Asked,
    weights: Weights | None,
    card: Card,
    on_notice: Callable[[str], None],
) -> Iterator[SpreadPPO]:
    """PPO with actors where the recipe says."""
    maker = maker_of(recipe, is_leased=recipe.curriculum.is_leased)
    learner = SpreadPPO(
        transport_of(recipe.distributed, asked.address),
        maker,
        env_from(maker.setup, recipe.config.num_envs, asked.seed),
        recipe.config,
        recipe.distributed,
        seed=asked.seed,
        device=asked.device,
        start=weights,
        card=card,
        scheduler=scheduler_of(recipe, lent_grid(recipe, maker), asked.seed),
        on_notice=on_notice,
    )
    try:
        yield learner
    finally:
        learner.close()
