"""Trains a recipe into a run folder: environment, learner, card, checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from weft.errors import InputError, MissingExtra
from weft.policies.checkpoint import Card, load_policy
from weft.sim.env import QueueEnv
from weft.sim.streams import kind_names
from weft.training.recipes import Recipe
from weft.training.run import Outcome, Progress, Spec, open_run


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
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_notice: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Train a recipe to its end; ``start`` names weights to begin with."""
    try:
        from weft.training.ppo import PPO
    except ImportError:
        raise MissingExtra("torch", "train", "training") from None
    env = QueueEnv(recipe.setup(), recipe.config.num_envs, seed)
    card = card_of(recipe, env)
    weights = None
    if start is not None:
        weights, other = load_policy(start)
        if other.features != card.features or other.choices != card.choices:
            raise InputError("these weights see or choose something else than the recipe", file=start)
    spec = Spec("ppo", asdict(recipe.config), seed, {**recipe.to_dict(), "from": start})
    with open_run(folder, spec, is_resumed=is_resumed, on_notice=on_notice) as run:
        learner = PPO(env, recipe.config, seed=seed, device=device, start=weights, card=card)
        return run.train(learner, on_progress=on_progress)
