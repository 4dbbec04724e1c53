"""The graph net that is trained, in torch; see :class:`weft.policies.graph.architecture.GraphArchitecture`.

Kinds are nodes, messages pass along the edges weighted by their probability, forward and backward.
Rows may have room for more kinds and devices than there are: those have no features and no part in
any mean or maximum. :class:`weft.policies.graph.forward.GraphPolicy` decides the same in NumPy.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, one_hot

from weft.policies.graph.architecture import DRAINED, Blocks, GraphArchitecture
from weft.policies.mlp.net import Choose
from weft.policies.net_tensors import Net

AT_ONCE = 8192
"""Values are estimated for this many observations at a time."""


class Encoded(NamedTuple):
    """What is known before the first device chooses."""

    pairs: Tensor  # (N, D, K, h) before the activation
    idle: Tensor  # (N, D, h) before the activation
    world: Tensor  # (N, h)
    queue: Tensor  # (N, K) lengths
    batch: Tensor  # (N, D)
    can_run: Tensor  # (N, D, K)


class GraphNet(Net):
    """Policy and value estimate for rows with room for this many kinds and devices."""

    architecture: GraphArchitecture

    def __init__(self, architecture: GraphArchitecture, num_kinds: int, num_devices: int) -> None:
        super().__init__()
        self.architecture = architecture
        self.num_kinds, self.num_devices = num_kinds, num_devices
        for name, shape in architecture.shapes().items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Gaussian weights, every row scaled to length 1 (outputs of the policy: 0.01); the rest 0."""
        for name, tensor in self.named_parameters():
            if tensor.dim() == 2:
                drawn = torch.randn(tensor.shape, generator=generator)
                length = 0.01 if name in ("pair_out", "idle_out") else 1.0
                tensor.copy_(drawn * length / drawn.square().sum(1, keepdim=True).sqrt())
            else:
                tensor.zero_()

    def forward(self, observation: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (N, D, K + 1) given the choices (N, D), and values (N,)."""
        known = self._encode(observation)
        taken = one_hot(actions, self.num_kinds + 1)[..., : self.num_kinds] * known.batch.unsqueeze(2)
        claimed = taken.cumsum(1) - taken  # (N, D, K) by the devices before
        left = (known.queue.unsqueeze(1) - claimed).clamp_min(0.0)
        return self._logits(known, left, slice(None)), self._value(known.world)

    def values(self, observation: Tensor) -> Tensor:
        """Value estimates (N,)."""
        parts = [
            self._value(self._embed(self._blocks(part))[2]) for part in torch.split(observation, AT_ONCE)
        ]
        return torch.cat(parts)

    def choose(
        self, observation: Tensor, choose: Choose, *, one_by_one: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Choices (N, D) and the logits (N, D, K + 1) they were made from, device after device."""
        known = self._encode(observation)
        left, actions, parts = known.queue, [], []
        for p in range(self.num_devices):
            parts.append(self._logits(known, left.unsqueeze(1), slice(p, p + 1)))
            actions.append(choose(parts[-1], slice(p, p + 1)))
            taken = one_hot(actions[-1][:, 0], self.num_kinds + 1)[:, : self.num_kinds]
            left = (left - taken * known.batch[:, p : p + 1]).clamp_min(0.0)
        return torch.cat(actions, 1), torch.cat(parts, 1)

    def _blocks(self, observation: Tensor) -> Blocks:
        return self.architecture.blocks(observation, self.num_kinds, self.num_devices)

    def _embed(self, blocks: Blocks) -> tuple[Tensor, Tensor, Tensor]:
        """Embeddings of kinds (N, K, h), devices (N, D, h) and the world (N, h)."""
        is_kind, is_device = blocks.kinds[..., 1:2], (blocks.devices[..., :1] > 0).float()
        kinds = torch.cat([blocks.kinds[..., :1].log1p(), blocks.kinds[..., 1:]], -1)
        devices = torch.cat([blocks.devices[..., :1].log1p(), blocks.devices[..., 1:]], -1)
        kinds = self._affine("kind", kinds).relu() * is_kind
        for r in range(self.architecture.rounds):
            messages = linear(kinds, self.get_parameter(f"own_weight_{r}"))
            messages = messages + linear(blocks.edges @ kinds, self.get_parameter(f"after_weight_{r}"))
            back = blocks.edges.transpose(1, 2) @ kinds
            messages = messages + linear(back, self.get_parameter(f"before_weight_{r}"))
            kinds = kinds + (messages + self.get_parameter(f"round_bias_{r}")).relu() * is_kind
        devices = self._affine("device", devices).relu() * is_device
        mean = kinds.sum(1) / is_kind.sum(1)
        pooled = torch.cat([blocks.world, mean, kinds.amax(1), devices.sum(1) / is_device.sum(1)], -1)
        return kinds, devices, self._affine("world", pooled).relu()

    def _encode(self, observation: Tensor) -> Encoded:
        blocks = self._blocks(observation)
        kinds, devices, world = self._embed(blocks)
        by_kind = linear(kinds, self.get_parameter("pair_kind_weight")).unsqueeze(1)
        by_device = linear(devices, self.get_parameter("pair_device_weight")).unsqueeze(2)
        by_world = linear(world, self.get_parameter("pair_world_weight"), self.get_parameter("pair_bias"))
        pairs = linear(blocks.pairs, self.get_parameter("pair_weight")) + by_kind + by_device
        idle = linear(devices, self.get_parameter("idle_device_weight"), self.get_parameter("idle_bias"))
        idle = idle + linear(world, self.get_parameter("idle_world_weight")).unsqueeze(1)
        return Encoded(
            pairs + by_world[:, None, None],
            idle,
            world,
            blocks.kinds[..., 0],
            blocks.devices[..., 0],
            blocks.pairs[..., 0],
        )

    def _logits(self, known: Encoded, left: Tensor, devices: slice) -> Tensor:
        """Logits (N, n, K + 1) of some devices, given what is left of the queues (N, n, K) for each."""
        batch = known.batch[:, devices, None]
        fill = torch.minimum(left, batch) / batch.clamp_min(1.0)
        seen = torch.stack([fill, left.log1p(), (left > batch).float()], -1)
        hidden = (known.pairs[:, devices] + linear(seen, self.get_parameter("pair_left_weight"))).relu()
        scores = linear(hidden, self.get_parameter("pair_out")).squeeze(-1)
        usable = left * known.can_run[:, devices]
        rest = usable.sum(-1)
        best = (fill * known.can_run[:, devices]).amax(-1)
        summary = torch.stack([best, rest.log1p(), (rest > 0).float()], -1)
        idle = (known.idle[:, devices] + linear(summary, self.get_parameter("idle_left_weight"))).relu()
        idle = linear(idle, self.get_parameter("idle_out"), self.get_parameter("idle_out_bias"))
        return torch.cat([scores.masked_fill(left <= 0, DRAINED), idle], -1)

    def _value(self, world: Tensor) -> Tensor:
        hidden = self._affine("value", world).relu()
        return linear(hidden, self.get_parameter("value_out"), self.get_parameter("value_out_bias")).squeeze(
            -1
        )

    def _affine(self, name: str, inputs: Tensor) -> Tensor:
        return linear(inputs, self.get_parameter(f"{name}_weight"), self.get_parameter(f"{name}_bias"))
