"""The learners of dispatchers: environment, net, card and judge of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.policies.checkpoint import Card, Weights
from weft.policies.guard import fingerprint
from weft.sim.queues.environment import QueueEnv
from weft.sim.queues.layout import kind_names
from weft.training.algorithms import Asked
from weft.training.first_weights import starting_weights
from weft.training.ppo import graph_learner as graphs
from weft.training.ppo.learner import PPO
from weft.training.ppo.mixed_validation import ManyJudge
from weft.training.ppo.validation import TRAILING, Validated
from weft.training.recipes import Recipe


def card_of(recipe: Recipe, env: QueueEnv) -> Card:
    """What the trained policy sees and acts on."""
    kinds = kind_names(env.setup.problem)
    cluster = env.setup.problem.cluster
    heads = tuple(
        cluster.device_names[d] for d in range(cluster.num_devices) for _ in range(cluster.slots[d])
    )
    return Card(
        recipe.name,
        "ppo",
        recipe.config.architecture(env),
        feature_version=env.feature_version,
        features=tuple(env.feature_names),
        heads=heads,
        choices=(*kinds, "wait" if recipe.waits else "idle"),
        training={
            "sight": env.setup.sight._replace(forget=env.setup.rules.forget)._asdict(),
            "waits": recipe.waits,
            "narrows": recipe.narrows,
            "fingerprint": fingerprint(env.setup.problem),
            "recipe": recipe.to_dict(),
        },
    )


def flat_weights(recipe: Recipe, start: str | None) -> Weights | None:
    """What the perceptron of a recipe begins with."""
    if start is None:
        return None
    return starting_weights(start, card_of(recipe, QueueEnv(recipe.setup(), 1, 0)))


def graph_weights(recipe: Recipe, start: str | None) -> Weights | None:
    """What the graph net of a recipe begins with."""
    return starting_weights(start, graphs.graph_card(recipe))


@contextmanager
def flat_learner(recipe: Recipe, asked: Asked, on_notice: Callable[[str], None]) -> Iterator[Validated]:
    """A perceptron on one graph and cluster."""
    weights = flat_weights(recipe, asked.start)
    env = QueueEnv(recipe.setup(), recipe.config.num_envs, asked.seed)
    card = card_of(recipe, env)
    judge = recipe.judge(env.setup)
    rule = judge.rule_to_imitate(env.num_envs) if recipe.config.imitation_updates else None
    learner = PPO(
        env, recipe.config, seed=asked.seed, device=asked.device, rule=rule, start=weights, card=card
    )
    is_trailing = recipe.drawn is not None and recipe.drawn.law == TRAILING
    yield Validated(learner, judge, recipe.every, trails=env if is_trailing else None)


@contextmanager
def graph_learner(recipe: Recipe, asked: Asked, on_notice: Callable[[str], None]) -> Iterator[Validated]:
    """A graph net on many problems, whose environments ``asked.threads`` step."""
    weights = graph_weights(recipe, asked.start)
    learner = graphs.graph_learner(recipe, asked.seed, asked.device, weights, asked.threads or 1, on_notice)
    yield Validated(learner, ManyJudge(recipe), recipe.every)
