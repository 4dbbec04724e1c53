"""What all nets share: their tensors out as NumPy arrays, and in again once they are checked."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from weft.policies.checkpoint import Shape, Weights, check_weights
from weft.policies.tensors import Array


class Net(nn.Module):
    """A module whose parameters are named and shaped as its architecture says."""

    architecture: Shape

    def weights(self) -> Weights:
        """Copies of all tensors by name, as NumPy arrays."""
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.named_parameters()}

    @torch.no_grad()
    def load_weights(self, weights: Mapping[str, Array]) -> None:
        """Take over tensors of the same architecture, in place."""
        checked = check_weights(weights, self.architecture)
        for name, tensor in self.named_parameters():
            tensor.copy_(torch.from_numpy(checked[name]))
