"""PPO of a net that points at candidates, on streams of different workflows.

The base rule is imitated first, if the recipe says so. Rewards are in units of the time that jobs spend in the
system under ``priced``, time is in mean run times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from weft import catalog
from weft.errors import InputError
from weft.model.problem import Problem, realise
from weft.policies.candidates.architecture import POLICY, CandidateArchitecture
from weft.policies.candidates.dispatcher import CandidateDispatcher
from weft.policies.candidates.forward import CandidatePolicy
from weft.policies.candidates.net import CandidateNet
from weft.policies.checkpoint import Card, Weights
from weft.schedulers.dispatchers.tasks import TaskDispatcher, priced, run_one
from weft.sim.tasks.candidates import FEATURE_VERSION, CandidateSight
from weft.sim.tasks.environment import TaskEnv, TaskSetup
from weft.sim.tasks.pipeline_environment import PipelineEnv, PipelineReward, PipelineSetup
from weft.sim.tasks.pipeline_features import PIPELINE_VERSION, PipelineSight
from weft.sim.tasks.reward import ELAPSED, Reward
from weft.training.algorithms import Asked
from weft.training.environment import Floats, Ints
from weft.training.first_weights import starting_weights
from weft.training.ppo.config import PPOConfig
from weft.training.ppo.learner import PPO
from weft.training.ppo.pipeline_judge import PipelineJudge
from weft.training.ppo.task_recipe import TaskConfig, TaskRecipe
from weft.training.ppo.validation import Validated
from weft.training.run.metrics import Metric

HORIZON = 50.0
"""Rewards are divided by this many mean run times, so that discounted sums are about -1."""
TRIALS = 8
"""Streams from which the unit of rewards is known."""


class CandidatePPO(PPO[TaskEnv | PipelineEnv]):
    """PPO with one head that points at a candidate."""

    def _make_net(self) -> CandidateNet:
        return CandidateNet(candidate_architecture(self.config, self.env.setup.sight))

    def _feature_ranges(self, ranges: Floats) -> tuple[tuple[float, float], ...]:
        world, rows = candidate_architecture(self.config, self.env.setup.sight).parts(ranges)
        low = np.concatenate([world[0], rows[0].min(axis=0)])
        high = np.concatenate([world[1], rows[1].max(axis=0)])
        return tuple(zip(low.tolist(), high.tolist(), strict=True))


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
            "sight": recipe.sight._asdict(),
            **({"base": list(recipe.base_weights)} if isinstance(recipe.sight, CandidateSight) else {}),
            "recipe": recipe.to_dict(),
        },
    )


def env_of(recipe: TaskRecipe[TaskConfig], seed: int) -> TaskEnv | PipelineEnv:
    """The environments of a recipe: pipelines, or streams of workflows."""
    if isinstance(recipe.sight, PipelineSight) and isinstance(recipe.reward, PipelineReward):
        problems = recipe.problems("train", recipe.streams)
        spread = max(1, recipe.streams // len(problems))
        setup = PipelineSetup(problems, recipe.sight, recipe.reward, spread=spread)
        return PipelineEnv(setup, recipe.config.num_envs, seed)
    return TaskEnv(scaled(recipe), recipe.config.num_envs, seed)


def judge_of(recipe: TaskRecipe[TaskConfig]) -> TaskJudge | PipelineJudge:
    """Who judges the policies of a recipe."""
    return PipelineJudge(recipe) if isinstance(recipe.sight, PipelineSight) else TaskJudge(recipe)


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


def follow_base(env: TaskEnv | PipelineEnv) -> Ints:
    """What the base rule starts first, or the wait where it starts nothing."""
    if isinstance(env, PipelineEnv):
        raise InputError("pipelines have no rule to imitate", field="config.imitation_updates")
    return env.follow(env.known.base)


class TaskJudge:
    """Streams of the validation split, and what the rules make of them."""

    def __init__(self, recipe: TaskRecipe[TaskConfig]) -> None:
        if not isinstance(recipe.sight, CandidateSight):
            raise TypeError("expected a recipe of streams, got one of pipelines")
        self._sight, self._base = recipe.sight, recipe.base_weights
        cells = recipe.by_cell("validation", [recipe.validation.seeds] * len(recipe.cells))
        self._problems = [problem for cell in cells for problem in cell]
        self._ends = np.cumsum([len(cell) for cell in cells])  # (num_cells,)
        self.points = tuple(float(k) for k in range(len(self._problems)))
        names = recipe.validation.rules
        self.rules = {name: _job_times(catalog.task_dispatcher(name), self._problems) for name in names}
        """Rule -> mean job times (num_points,)."""

    def job_times(self, weights: Weights, card: Card) -> Floats:
        policy = CandidatePolicy(weights, candidate_shape(card))
        dispatcher = CandidateDispatcher(
            card.name, weights=self._base, profiles=self._sight.profile, policy=policy, sight=self._sight
        )
        return _job_times(dispatcher, self._problems)

    @property
    def reference(self) -> Floats:
        """Mean job times (num_points,) of the rule that is best on average, whatever the cell."""
        return min(self.rules.values(), key=lambda times: float(np.log(self._by_cell(times)).mean()))

    def _by_cell(self, times: Floats) -> Floats:
        """Mean job time (num_cells,) of every cell."""
        return np.array([own.mean() for own in np.split(times, self._ends[:-1])])

    def _percent(self, times: Floats, rule: Floats) -> float:
        """Percent above the mean of a rule, the mean over cells: no load or cluster outweighs another."""
        return 100.0 * (float((self._by_cell(times) / self._by_cell(rule)).mean()) - 1.0)

    def percent_by_cell(self, times: Floats) -> Floats:
        """Percent (num_cells,) above the rule that is best on average, of every cell."""
        return np.asarray(100.0 * (self._by_cell(times) / self._by_cell(self.reference) - 1.0))

    def score(self, times: Floats) -> float:
        return -self._percent(times, self.reference)

    def figures(self, times: Floats) -> dict[str, Metric]:
        above = {f"{name}_percent": self._percent(times, rule) for name, rule in self.rules.items()}
        own = {"jct": float(times.mean()), "envelope_percent": self._percent(times, self.reference)}
        return {**own, **above}


def candidate_shape(card: Card) -> CandidateArchitecture:
    """The shape of a card that this learner made."""
    if not isinstance(card.architecture, CandidateArchitecture):
        raise TypeError(f"expected a net of candidates, got {type(card.architecture).__name__}")
    return card.architecture


def _job_times(dispatcher: TaskDispatcher | CandidateDispatcher, problems: Sequence[Problem]) -> Floats:
    found = [run_one(dispatcher, problem, realise(problem, k)) for k, problem in enumerate(problems)]
    return np.array([one.mean_jct for one in found])


@contextmanager
def candidate_learner(
    recipe: TaskRecipe[PPOConfig], asked: Asked, on_notice: Callable[[str], None]
) -> Iterator[Validated]:
    """A net that points at candidates, on the streams of a recipe."""
    card = candidate_card(recipe)
    weights = starting_weights(asked.start, card)
    on_notice(f"drawing {recipe.streams} streams, playing {len(recipe.validation.rules)} rules")
    env = env_of(recipe, asked.seed)
    if recipe.distributed.engine:
        from weft.training.distributed.run import spread_ppo

        with spread_ppo(recipe, asked, env, weights, card, on_notice) as spread:
            yield Validated(spread, judge_of(recipe), recipe.every)
        return
    rule = follow_base if recipe.config.imitation_updates else None
    learner = CandidatePPO(
        env, recipe.config, seed=asked.seed, device=asked.device, rule=rule, start=weights, card=card
    )
    yield Validated(learner, judge_of(recipe), recipe.every)
