"""The nets that are trained: masked categorical heads over a multi-layer perceptron, in torch.

The tensors and their names are those of :class:`weft.policies.checkpoint.Architecture`, so that
:class:`weft.policies.mlp.forward.MlpPolicy` decides the same from the saved file.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from weft.policies.checkpoint import Architecture
from weft.policies.net_tensors import Net

BARRED = float(torch.finfo(torch.float32).min)
"""Added to the logit of a masked choice: its probability is then exactly 0, and all stays finite."""

Choose = Callable[[Tensor, slice], Tensor]
"""Called as (logits (N, n, K), which n heads): their choices (N, n)."""


def mask_bias(mask: Tensor) -> Tensor:
    """log(mask), clamped to what float32 can hold."""
    return torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, BARRED)


def log_probabilities(logits: Tensor, bias: Tensor) -> Tensor:
    """Logarithms (N, H, K) of the masked choice probabilities."""
    return torch.log_softmax(logits + bias, -1)


def joint(log_probs: Tensor, actions: Tensor) -> Tensor:
    """Log-probability (N,) of choosing ``actions`` (N, H): the sum over heads."""
    return log_probs.gather(-1, actions.unsqueeze(-1)).sum((1, 2))


def _affine(fan_in: int, fan_out: int) -> nn.Linear:
    """A layer of zeros; torch's own start would draw from its global random state."""
    layer = nn.Linear(fan_in, fan_out, device="meta").to_empty(device="cpu")
    for tensor in layer.parameters():
        nn.init.zeros_(tensor)
    return layer


class Layers(nn.Module):
    """Affine layers named 0, 1, ..., out, with the activation before all but the first."""

    def __init__(self, widths: tuple[int, ...], activation: str) -> None:
        super().__init__()
        self.num_hidden = len(widths) - 2
        for i, (fan_in, fan_out) in enumerate(pairwise(widths[:-1])):
            self.add_module(str(i), _affine(fan_in, fan_out))
        self.out = _affine(widths[-2], widths[-1])
        self.activate = torch.tanh if activation == "tanh" else torch.relu

    def before_last(self, inputs: Tensor) -> Tensor:
        """The last hidden layer (N, hidden) before its activation."""
        values = inputs
        for i in range(self.num_hidden):
            values = self.get_submodule(str(i))(self.activate(values) if i else values)
        return values

    def forward(self, inputs: Tensor) -> Tensor:
        """The outputs (N, num_outputs)."""
        return self.finish(self.before_last(inputs))

    def finish(self, before: Tensor) -> Tensor:
        """The outputs (N, num_outputs) from the last hidden layer before its activation."""
        return self.out(self.activate(before))


class PrefixLayers(Layers):
    """Layers whose last hidden one also takes in the choices made so far."""

    def __init__(self, widths: tuple[int, ...], activation: str) -> None:
        super().__init__(widths, activation)
        self.prefix = nn.Parameter(torch.zeros(widths[-1], widths[-2]))  # (H * K, hidden)


class Mlp(Net):
    """Policy and value estimate of one architecture; call ``initialise`` or ``load_weights`` first."""

    architecture: Architecture

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        shape, activation = architecture, architecture.activation
        self.architecture = architecture
        self.num_heads, self.num_choices = shape.num_heads, shape.num_choices
        kind = PrefixLayers if shape.is_autoregressive else Layers
        self.policy = kind(
            (shape.num_features, *shape.hidden, shape.num_heads * shape.num_choices), activation
        )
        if shape.critic == "separate":
            self.value = Layers((shape.num_features, *shape.hidden, 1), activation)
        elif shape.critic == "shared":
            self.value = Layers((shape.hidden[-1], 1), activation)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Gaussian weights, every row scaled to length 1 (outputs of the policy: 0.01); the rest 0."""
        for name, tensor in self.named_parameters():
            if name.endswith("weight"):
                drawn = torch.randn(tensor.shape, generator=generator)
                length = 0.01 if name == "policy.out.weight" else 1.0
                tensor.copy_(drawn * length / drawn.square().sum(1, keepdim=True).sqrt())
            else:
                tensor.zero_()

    def forward(self, observation: Tensor, actions: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Logits (N, H, K), given the choices (N, H) where heads are autoregressive, and values (N,)."""
        before = self.policy.before_last(observation)
        critic_input = before if self.architecture.critic == "shared" else observation
        return self._logits(before, actions), self.value(critic_input).squeeze(-1)

    def values(self, observation: Tensor) -> Tensor:
        """Value estimates (N,)."""
        is_shared = self.architecture.critic == "shared"
        return self.value(self.policy.before_last(observation) if is_shared else observation).squeeze(-1)

    def logits(self, observation: Tensor, actions: Tensor | None = None) -> Tensor:
        """Logits (N, H, K), given the choices (N, H) where heads are autoregressive."""
        return self._logits(self.policy.before_last(observation), actions)

    def choose(self, observation: Tensor, choose: Choose, *, one_by_one: bool) -> tuple[Tensor, Tensor]:
        """Choices (N, H) and the logits (N, H, K) they were made from.

        Autoregressive heads choose one after the other; so do the others if ``one_by_one``.
        """
        before = self.policy.before_last(observation)
        if not one_by_one and not isinstance(self.policy, PrefixLayers):
            logits = self._logits(before, None)
            return choose(logits, slice(None)), logits
        actions, parts = [], []
        for head in range(self.num_heads):
            parts.append(self._head_logits(before, head))
            actions.append(choose(parts[-1], slice(head, head + 1)))
            if isinstance(self.policy, PrefixLayers):
                before = before + self.policy.prefix[head * self.num_choices + actions[-1].squeeze(1)]
        return torch.cat(actions, 1), torch.cat(parts, 1)

    def _logits(self, before: Tensor, actions: Tensor | None) -> Tensor:
        if not isinstance(self.policy, PrefixLayers):
            return self.policy.finish(before).view(-1, self.num_heads, self.num_choices)
        if actions is None:
            raise ValueError("autoregressive heads have logits only for given choices")
        rows = actions + self.num_choices * torch.arange(self.num_heads, device=actions.device)
        chosen = self.policy.prefix[rows[:, :-1]].cumsum(1)  # (N, H - 1, hidden)
        seen = torch.cat([before.unsqueeze(1), before.unsqueeze(1) + chosen], 1)  # (N, H, hidden)
        weight = self.policy.out.weight.view(self.num_heads, self.num_choices, -1)
        bias = self.policy.out.bias.view(self.num_heads, self.num_choices)
        return torch.einsum("nhd,hkd->nhk", self.policy.activate(seen), weight) + bias

    def _head_logits(self, before: Tensor, head: int) -> Tensor:
        """Logits (N, 1, K) of one head."""
        rows = slice(head * self.num_choices, (head + 1) * self.num_choices)
        out = self.policy.out
        hidden = self.policy.activate(before)
        return nn.functional.linear(hidden, out.weight[rows], out.bias[rows]).unsqueeze(1)
