"""Small nets and masks for the policy tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from weft.policies.checkpoint import Architecture
from weft.policies.mlp.net import Mlp

TINY = Architecture(4, 3, 3, (6, 5))
SHAPES = [
    replace(TINY, critic=critic, activation=activation, is_autoregressive=is_autoregressive)
    for critic in ("separate", "shared")
    for activation, is_autoregressive in (("tanh", False), ("relu", True), ("tanh", True))
]


def net_of(shape: Architecture, seed: int = 0) -> Mlp:
    """A net with weights large enough to matter everywhere."""
    net = Mlp(shape)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in net.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator))
    return net


def some_masks(rng: np.random.Generator, num: int, num_heads: int, num_choices: int) -> np.ndarray:
    mask = rng.random((num, num_heads, num_choices)) < 0.5
    mask[..., -1] = True
    return mask
