"""The net that is trained to point at a candidate, in torch.

Candidates that are not there cost nothing: those that are stand in one long list.
:class:`weft.policies.candidates.forward.CandidatePolicy` decides the same in NumPy.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from weft.policies.candidates.architecture import CandidateArchitecture
from weft.policies.candidates.packed import Packed
from weft.policies.mlp.net import Choose
from weft.policies.net_tensors import Net

AT_ONCE = 4096
"""Values are estimated for so many observations at a time."""


class Encoded(NamedTuple):
    """M candidates of N observations."""

    place: tuple[Tensor, Tensor]  # (M,) observation and number of every candidate
    rows: Tensor  # (M, C)
    hidden: Tensor  # (M, h)
    mean: Tensor  # (N, h)
    world: Tensor  # (N, W)


class CandidateNet(Net):
    """Policy and value estimate for any number of candidates."""

    architecture: CandidateArchitecture
    encode_weight: nn.Parameter
    encode_world_weight: nn.Parameter
    encode_bias: nn.Parameter
    mix_weight: nn.Parameter
    mix_mean_weight: nn.Parameter
    mix_bias: nn.Parameter
    score_out: nn.Parameter
    score_direct: nn.Parameter
    value_world_weight: nn.Parameter
    value_mean_weight: nn.Parameter
    value_bias: nn.Parameter
    value_out: nn.Parameter
    value_out_bias: nn.Parameter

    def __init__(self, architecture: CandidateArchitecture) -> None:
        super().__init__()
        self.architecture = architecture
        for name, shape in architecture.shapes().items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Gaussian weights, every row scaled to length 1 (outputs of the policy: 0.01); the rest 0."""
        for name, tensor in self.named_parameters():
            if tensor.dim() == 2:
                drawn = torch.randn(tensor.shape, generator=generator)
                length = 0.01 if name.startswith("score") else 1.0
                tensor.copy_(drawn * length / drawn.square().sum(1, keepdim=True).sqrt())
            else:
                tensor.zero_()

    def forward(self, observation: Tensor, actions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits (N, 1, K), 0 where there is no candidate, and values (N,)."""
        known = self._encode(observation)
        num_choices = (observation.shape[1] - self.architecture.world) // self.architecture.column
        return self._scores(known, num_choices).unsqueeze(1), self._value(known)

    def q_values(self, seen: Packed) -> Tensor:
        """What the rows (N, width) of observations are worth, minus infinity where they are not allowed.

        Dueling (Wang et al., 2016): the value, plus a row's score, less the mean score of all allowed rows.
        """
        device = self.score_out.device
        world, rows, owner, place, allowed = (
            torch.from_numpy(x).to(device)
            for x in (seen.world, seen.rows, seen.owner, seen.place, seen.allowed)
        )
        width = int(seen.sizes.max())
        known = self._embed(world, rows, (owner, place))
        scores = self._scores(known, width)
        mask = torch.zeros(len(world), width, dtype=torch.bool, device=device)
        mask[owner, place] = allowed
        mean = (scores * mask).sum(1) / mask.sum(1).clamp_min(1)
        worth = scores + (self._value(known) - mean).unsqueeze(1)
        return worth.masked_fill(~mask, -torch.inf)

    def values(self, observation: Tensor) -> Tensor:
        """Value estimates (N,)."""
        return torch.cat([self._value(self._encode(part)) for part in torch.split(observation, AT_ONCE)])

    def choose(
        self, observation: Tensor, choose: Choose, *, one_by_one: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Choices (N, 1) and the logits (N, 1, K) they were made from."""
        logits, _ = self(observation)
        return choose(logits, slice(None)), logits

    def _encode(self, observation: Tensor) -> Encoded:
        world, rows = self.architecture.parts(observation)
        owner, place = torch.nonzero(rows[..., :2].amax(-1) > 0, as_tuple=True)
        return self._embed(world, rows[owner, place], (owner, place))

    def _embed(self, world: Tensor, found: Tensor, place: tuple[Tensor, Tensor]) -> Encoded:
        """Embeddings of rows (M, C) that stand at these places."""
        by_world = linear(world, self.encode_world_weight, self.encode_bias)
        hidden = linear(found, self.encode_weight).add_(by_world[place[0]]).relu_()  # in place: fewer pages
        count = torch.bincount(place[0], minlength=len(world)).clamp_min(1).unsqueeze(1)
        total = torch.zeros(len(world), hidden.shape[1], device=hidden.device)
        mean = total.index_add(0, place[0], hidden) / count
        return Encoded(place, found, hidden, mean, world)

    def _scores(self, known: Encoded, num_choices: int) -> Tensor:
        """Scores (N, num_choices), 0 where there is no candidate."""
        mixed = linear(known.hidden, self.mix_weight, self.mix_bias)
        mixed = mixed.add_(linear(known.mean, self.mix_mean_weight)[known.place[0]]).relu_()
        scores = linear(mixed, self.score_out) + linear(known.rows, self.score_direct)
        found = torch.zeros(len(known.world), num_choices, device=scores.device)
        return found.index_put(known.place, scores.squeeze(-1))

    def _value(self, known: Encoded) -> Tensor:
        hidden = linear(known.world, self.value_world_weight, self.value_bias)
        hidden = (hidden + linear(known.mean, self.value_mean_weight)).relu()
        return linear(hidden, self.value_out, self.value_out_bias).squeeze(-1)
