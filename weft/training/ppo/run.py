"""Trains a recipe into a run folder: environment, learner, card, checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from weft.errors import MissingExtra
from weft.policies.checkpoint import Card
from weft.policies.guard import fingerprint
from weft.sim.queues.environment import QueueEnv
from weft.sim.queues.layout import kind_names
from weft.training.first_weights import starting_weights
from weft.training.ppo.validation import Validated
from weft.training.recipes import TRAILING, Recipe
from weft.training.run.folder import Outcome, Progress, Spec, open_run
from weft.training.run.metrics import require_tensorboard

EVERY_MANY = 20
"""Updates between checkpoints of a graph net: the state of many problems is large."""


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


def train(
    recipe: Recipe,
    folder: str | Path,
    *,
    seed: int = 0,
    device: str = "cpu",
    start: str | None = None,
    is_resumed: bool = False,
    threads: int = 1,
    has_tensorboard: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_notice: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Train a recipe to its end.

    Parameters
    ----------
    start
        Weights or policy to begin with: of the same features and kinds; whether the last choice idles or waits may differ.
    threads
        Threads that step environments of many problems; the result is the same.
    has_tensorboard
        Whether rows are written for TensorBoard too.
    """
    try:
        from weft.training.ppo.graph_learner import check_seed, graph_card, graph_learner
        from weft.training.ppo.learner import PPO
        from weft.training.ppo.mixed_validation import ManyJudge
    except ImportError:
        raise MissingExtra("torch", "train", "training") from None
    spec = Spec("ppo", asdict(recipe.config), seed, {**recipe.to_dict(), "from": start})
    if has_tensorboard:
        require_tensorboard()
    if recipe.problems:
        check_seed(recipe, seed)
    with open_run(folder, spec, is_resumed=is_resumed, on_notice=on_notice) as run:
        if recipe.problems:
            weights = starting_weights(start, graph_card(recipe))
            many = graph_learner(recipe, seed, device, weights, threads, on_notice)
            judged = Validated(many, ManyJudge(recipe), EVERY_MANY)
            return run.train(
                judged, every=EVERY_MANY, on_progress=on_progress, has_tensorboard=has_tensorboard
            )
        env = QueueEnv(recipe.setup(), recipe.config.num_envs, seed)
        card = card_of(recipe, env)
        weights = starting_weights(start, card)
        judge = recipe.judge(env.setup)
        rule = judge.rule_to_imitate(env.num_envs) if recipe.config.imitation_updates else None
        learner = PPO(env, recipe.config, seed=seed, device=device, rule=rule, start=weights, card=card)
        every = recipe.validation.every
        judged = Validated(learner, judge, every, trails=env if recipe.p_c == TRAILING else None)
        return run.train(judged, every=every, on_progress=on_progress, has_tensorboard=has_tensorboard)
