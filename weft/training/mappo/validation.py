"""Judges agents while they are trained, on fixed episodes of the validation split, in every way to act."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from weft.model.graph import Floats
from weft.policies.han.architecture import MODES
from weft.policies.han.net import HanNet
from weft.sim.elastic.environment import ElasticBatch
from weft.training.mappo.rollout import decide, orders, tensors

MOST_STEPS = 6
"""Steps per task after which an episode that does not end is given up: some policies never place a task."""
DRAWS = 7
"""Seed of what is drawn while a policy is judged."""


class Episodes:
    """Fixed episodes, played again for every judgement; a :class:`weft.training.mappo.learner.Judge`.

    Parameters
    ----------
    env
        One episode per environment, at its start.
    rules
        Mean completion time of rules on the same episodes.
    """

    def __init__(self, env: ElasticBatch, rules: Mapping[str, float] | None = None) -> None:
        self._env, self._start = env, env.snapshot()
        self.rules = dict(rules or {})

    def judge(self, net: HanNet) -> dict[str, float]:
        return {mode: float(self.play(net, mode).mean()) for mode in MODES}

    def play(self, net: HanNet, mode: str) -> Floats:
        """Mean completion time (B,) of every episode."""
        self._env.restore(self._start)
        return play(net, self._env, mode)


def play(net: HanNet, env: ElasticBatch, mode: str, seed: int = DRAWS) -> Floats:
    """Mean completion time (B,) of the episode that every environment stands at the start of.

    Tasks alive, summed over the steps in which time passes, are completion times, summed over tasks.
    """
    device = next(net.parameters()).device
    random = torch.Generator(device).manual_seed(seed)
    picks, units = (None if mode == "greedy" else random), (random if mode == "sampled" else None)
    alive, is_open = np.zeros(env.num_envs), np.ones(env.num_envs, bool)
    for _ in range(MOST_STEPS * env.problem.num_tasks):
        sight = env.observe()
        told = orders(sight, decide(net, tensors(sight, device), picks, units))
        move = env.act(told.slot, told.units, told.chance)
        alive -= np.where(is_open, move.reward_alive, 0.0)
        is_open &= ~move.done
        if not is_open.any():
            break
    return np.asarray(alive / env.problem.num_tasks)
