"""What PPO keeps of the decisions of one update: as they were made, and flat."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.training.environment import BatchEnv


class Rollout:
    """What the environments went through during one update, allocated once."""

    def __init__(self, env: BatchEnv, num_steps: int, device: torch.device) -> None:
        time, batch, heads = num_steps, env.num_envs, (env.num_heads, env.num_choices)
        self.observation = torch.zeros(time + 1, batch, env.num_features, device=device)  # (T + 1, B, F)
        self.bias = torch.zeros(time, batch, *heads, device=device)  # (T, B, H, K) log of the mask
        self.logits = torch.zeros(time, batch, *heads, device=device)  # (T, B, H, K)
        self.actions = torch.zeros(time, batch, heads[0], dtype=torch.int64, device=device)  # (T, B, H)
        self.reward = np.zeros((time, batch), np.float32)  # (T, B)
        self.discount = np.zeros((time, batch), np.float32)  # (T, B) 0 where the episode ended


class Batch(NamedTuple):
    """The decisions of an update, flat and ready to be shuffled."""

    observation: Tensor  # (N, F)
    bias: Tensor  # (N, H, K)
    actions: Tensor  # (N, H)
    log_prob: Tensor  # (N,) when chosen
    probabilities: Tensor  # (N, H, K) when chosen; (N, 0) where no KL penalty needs them
    information: Tensor  # (N,) minus the entropy of those
    advantage: Tensor  # (N,)
    target: Tensor  # (N,) for the value
