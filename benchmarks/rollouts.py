"""What there is to gain by deviating from the base rule at single moments, and what a net finds of it.

Moments of streams that the base rule plays are gathered; every choice of each is played on the same run times and arrivals (``weft/training/dqn/rollouts.py``).
A net learns from those of the training split, and acts on those of the validation split wherever it promises more than a margin: once with the columns that
look ahead, once with zeros in their place. Costs are in mean run times per decision of the rule; below 0 is a gain.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from benchmarks._workflow_tables import table
from benchmarks.groups import chosen_recipe
from weft.errors import InputError
from weft.model.graph import Floats
from weft.policies.candidates.architecture import Q
from weft.policies.candidates.net import CandidateNet
from weft.policies.candidates.packed import pack
from weft.scenarios.settings import parse_assignments
from weft.sim.tasks.environment import TaskEnv
from weft.sim.tasks.features import AHEAD, BASE, WORLD
from weft.training.candidates.recipe import TaskRecipe
from weft.training.candidates.setup import candidate_architecture, scaled
from weft.training.dqn.config import DQNConfig
from weft.training.dqn.exploration import base_choices
from weft.training.dqn.rollouts import Moments, first_values, gathered
from weft.training.optimiser import one_thread

MARGINS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)


class Judged(NamedTuple):
    """Moments of the validation split, by the advantage that a net promises for its best other choice."""

    promised: Floats  # (N,)
    cost: Floats  # (N,) of that choice
    share: float
    """Of the variance of costs that values explain."""


def main(arguments: list[str]) -> int:
    """Gather, learn, judge and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks rollouts", description=__doc__)
    parser.add_argument("--recipe", default="workflows-dqn", help="of candidate-dqn, with rollouts")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--judged", type=int, default=6144, help="moments of the validation split")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    recipe = chosen_recipe(options.recipe, parse_assignments(options.set))
    if not isinstance(recipe.config, DQNConfig) or not recipe.config.rollouts or not recipe.sight.ahead:
        raise InputError("expected a recipe that looks ahead and has rollouts", field="--recipe")
    learned = gathered(environment(recipe, "train", options.seed), recipe.config)
    env = environment(recipe, "validation", options.seed)
    fresh = gathered(env, replace(recipe.config, rollouts=options.judged))
    print(
        f"{len(learned.mask)} moments learned from, {len(fresh.mask)} judged, {job_time(env):.3f} mean run times of "
        "jobs in the system per decision; cost of acting, 95 % interval, in brackets the share of decisions changed"
    )
    arms = {"as `es` knows it": blinded, "looking ahead": lambda moments: moments}
    rows = []
    for words, shown in arms.items():
        found = judged(net_of(recipe, shown(learned), options.seed), shown(fresh))
        rows.append((words, [f"{found.share:.2f}", *(acted(found, margin) for margin in MARGINS)]))
    table("what the net sees", ["explained", *(f"margin {margin:g}" for margin in MARGINS)], rows)
    return 0


def environment(recipe: TaskRecipe[DQNConfig], split: str, seed: int) -> TaskEnv:
    """Streams of a split, as many as the recipe trains on."""
    setup = replace(scaled(recipe), problems=recipe.problems(split, recipe.streams))
    return TaskEnv(setup, recipe.config.num_envs, seed)


def job_time(env: TaskEnv, steps: int = 500) -> float:
    """Time that jobs are in the system per decision of the base rule, in mean run times."""
    env.looks, total = False, 0.0
    for _ in range(steps):
        reward, _ = env.step(base_choices(env)[:, None])
        total -= float(reward.mean())
    return total / steps / (env.setup.reward_scale * env.setup.time_unit)


def blinded(moments: Moments) -> Moments:
    """The same without the columns that look ahead."""
    seen = moments.observation.copy()
    rows = seen[:, len(WORLD) :].reshape(len(seen), moments.mask.shape[2], -1)
    rows[..., -len(AHEAD) :] = 0.0
    return moments._replace(observation=seen)


def net_of(recipe: TaskRecipe[DQNConfig], moments: Moments, seed: int) -> CandidateNet:
    """A net that learned values, in mean run times, from moments alone."""
    net = CandidateNet(candidate_architecture(recipe.config, recipe.sight, Q))
    net.initialise(torch.Generator().manual_seed(seed))
    with one_thread():
        first_values(net, moments, replace(recipe.config, base_margin=0.0), seed, BASE, 1.0)
    return net


def judged(net: CandidateNet, moments: Moments) -> Judged:
    """What a net promises at every moment, and what doing it costs."""
    seen, choice = pack(moments.observation, moments.mask, len(WORLD))
    with torch.no_grad():
        worth = net.q_values(seen).numpy()[seen.owner, seen.place]
    of_base = np.zeros(len(moments.mask))
    is_base = seen.rows[:, BASE] > 0
    of_base[seen.owner[is_base]] = worth[is_base]
    more = np.full(moments.cost.shape, -np.inf)
    more[seen.owner, choice] = np.where(seen.allowed & ~is_base, worth - of_base[seen.owner], -np.inf)
    known = np.isfinite(moments.cost) & np.isfinite(more)
    cost = moments.cost[known]
    share = 1.0 - float(((cost + more[known]) ** 2).mean() / (cost**2).mean())
    best = np.where(known, more, -np.inf).argmax(axis=1)
    at = np.arange(len(best))
    return Judged(np.where(known.any(axis=1), more[at, best], -np.inf), moments.cost[at, best], share)


def acted(found: Judged, margin: float) -> str:
    """Mean cost of deviating wherever more than a margin is promised."""
    deviates = found.promised > margin
    costs = np.where(deviates, found.cost, 0.0)
    half = 1.96 * costs.std() / np.sqrt(len(costs))
    return f"{costs.mean():+.4f} ±{half:.4f} ({100 * deviates.mean():.0f} %)"
