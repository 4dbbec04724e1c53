"""First values of choices: what each truly costs if the base rule goes on after it, played on common random numbers.

All choices of a moment meet the same run times and arrivals (``sim/tasks/ahead.py``), so what is learned from is the
difference that the choice makes, and not the noise of all that follows. This is a step of policy iteration from the base rule.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from weft.errors import InputError
from weft.policies.candidates.net import CandidateNet
from weft.policies.candidates.packed import pack
from weft.sim.tasks.environment import TaskEnv
from weft.training.dqn.config import DQNConfig
from weft.training.dqn.exploration import base_choices
from weft.training.environment import Bools, CandidateEnv, Floats32, Ints
from weft.training.optimiser import FlatAdam

HUBER = 3.0
"""Errors count squared up to so many mean run times."""
FIRST = 0.1
"""Length of the weights of the score at the start."""
_SALT = 3
"""Keeps the order of moments apart from other draws."""


class Moments(NamedTuple):
    """N moments and what their choices cost."""

    observation: Floats32  # (N, F)
    mask: Bools  # (N, 1, K)
    cost: Floats32  # (N, K) beyond what the base rule's choice costs, in mean run times; NaN: no choice


def check_rollouts(env: CandidateEnv, config: DQNConfig) -> TaskEnv | None:
    """The environments, if choices are to be played in them; None: they are not."""
    if not config.rollouts:
        return None
    if not isinstance(env, TaskEnv):
        raise InputError(
            f"expected 0, as only streams of workflows can be played ahead, got {config.rollouts}",
            field="config.rollouts",
        )
    return env


def gathered(env: TaskEnv, config: DQNConfig) -> Moments:
    """Let the base rule act, and play all choices of every so many decisions."""
    seen: list[tuple[Floats32, Bools, Floats32]] = []
    looks = env.looks
    while len(seen) * env.num_envs < config.rollouts:
        env.looks = False
        for _ in range(config.rollout_every):
            env.step(base_choices(env)[:, None])
        env.looks = looks
        env.look()
        cost = env.true_costs(config.rollout_horizon).astype(np.float32)
        seen.append((env.observation.copy(), env.mask.copy(), cost))
    parts = (np.concatenate(part) for part in zip(*seen, strict=True))
    return Moments(*parts)


def learn_first_values(net: CandidateNet, env: TaskEnv, config: DQNConfig, seed: int) -> float:
    """Learn how choices differ from rollouts; returns the mean loss of the last pass."""
    scale = env.setup.reward_scale * env.setup.time_unit * config.reward_scale
    return first_values(net, gathered(env, config), config, seed, env.base_column, scale)


def first_values(
    net: CandidateNet, moments: Moments, config: DQNConfig, seed: int, base_column: int, scale: float
) -> float:
    """The same from moments that are there; a mean run time of job time is worth ``scale``."""
    own = CandidateNet(net.architecture)  # on the CPU, with an Adam of its own
    own.load_weights(net.weights())
    with torch.no_grad():
        own.score_out.normal_(generator=torch.Generator().manual_seed(seed))  # whatever the margin left of it
        own.score_out.mul_(FIRST / own.score_out.norm())
        own.score_direct.zero_()
    adam, rng, loss = FlatAdam(own), np.random.default_rng([seed, _SALT]), 0.0
    size = min(config.minibatch, len(moments.mask))
    num = len(moments.mask) // size
    for epoch in range(config.rollout_epochs):
        order, total = rng.permutation(len(moments.mask)), 0.0
        for k in range(num):
            left = 1.0 - (epoch * num + k) / (config.rollout_epochs * num)
            found = _loss(own, moments, order[k * size : (k + 1) * size], base_column, scale)
            adam.step(found, config.rollout_rate * left, config.gradient_clip)
            total += float(found.detach())
        loss = total / num
    with torch.no_grad():
        own.score_direct[0, base_column] += config.base_margin
        for theirs, ours in zip(net.parameters(), own.parameters(), strict=True):
            theirs.copy_(ours)
    return loss


def _loss(net: CandidateNet, moments: Moments, which: Ints, base_column: int, scale: float) -> Tensor:
    """How far values are from costs, each against that of the base rule's choice."""
    seen, choice = pack(moments.observation[which], moments.mask[which], net.architecture.world)
    cost = torch.from_numpy(moments.cost[which][seen.owner, choice])
    is_base = torch.from_numpy(seen.rows[:, base_column] > 0)
    owner, place = torch.from_numpy(seen.owner), torch.from_numpy(seen.place)
    worth = net.q_values(seen)[owner, place]
    of_base = torch.zeros(len(which)).index_put((owner[is_base],), worth[is_base])
    known = torch.isfinite(cost) & ~is_base & torch.isfinite(worth)
    more = (worth - of_base[owner])[known] / scale
    return huber_loss(more, -cost[known], delta=HUBER)
