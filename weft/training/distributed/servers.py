"""The role that holds weights: a part of all parameters as one vector, Adam, and when a gradient counts.

``sync``: a step is the mean of the first N gradients of its number; later ones are dropped (Chen et al., 2016). ``async`` and
``gorila``: a gradient counts at once, the less the older its weights, and not at all beyond a limit (Nair et al., 2015; Zhang
et al., 2015). Loads no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from weft.policies.tensors import Array
from weft.training.distributed.config import SYNC
from weft.training.environment import Floats32

_BETAS = 0.9, 0.999
_TINY = 1e-8


@dataclass(frozen=True)
class Serves:
    """What a parameter server needs to know."""

    mode: str
    learners: int
    """Gradients of a step: ``sync``."""
    max_staleness: int
    target_every: int
    """Steps from one update of the target net to the next."""
    target_rate: float


class Pushed(NamedTuple):
    """What became of a gradient."""

    is_accepted: bool
    staleness: int
    version: int
    """Steps that the weights have behind them now."""


class ParameterServer:
    """A part of the weights, and of the target net that follows them."""

    def __init__(self, serves: Serves, life: int = 0) -> None:
        self._serves = serves
        self.version = 0
        self._weights = self._target = np.zeros(0, np.float32)  # (n,)
        self._mean = self._square = self._sum = np.zeros(0, np.float32)  # (n,)
        self._pushed: set[int] = set()

    def load(self, weights: Floats32, target: Floats32, version: int) -> None:
        """Begin, or go on, with these weights; moments of Adam stay as they are."""
        self._weights, self._target = weights.copy(), target.copy()
        if len(self._mean) != len(weights):
            self._mean, self._square = np.zeros_like(weights), np.zeros_like(weights)
        self._sum = np.zeros_like(weights)
        self.version = version
        self._pushed.clear()

    def push(self, tag: int, learner: int, rate: float, gradient: Floats32) -> Pushed:
        """A gradient of the weights of version ``tag``."""
        staleness = self.version - tag
        if self._serves.mode == SYNC:
            if staleness or learner in self._pushed:
                return Pushed(False, staleness, self.version)
            self._pushed.add(learner)
            self._sum += gradient
            if len(self._pushed) == self._serves.learners:
                self._step(self._sum / np.float32(self._serves.learners), rate)
                self._sum[:] = 0.0
                self._pushed.clear()
            return Pushed(True, 0, self.version)
        if staleness > self._serves.max_staleness:
            return Pushed(False, staleness, self.version)
        self._step(gradient, rate / (1.0 + staleness))
        return Pushed(True, staleness, self.version)

    def _step(self, gradient: Floats32, rate: float) -> None:
        """One step of Adam (Kingma and Ba, 2015)."""
        self.version += 1
        first, second = (np.float32(beta) for beta in _BETAS)
        self._mean += (np.float32(1.0) - first) * (gradient - self._mean)
        self._square += (np.float32(1.0) - second) * (gradient * gradient - self._square)
        unbiased = self._square / np.float32(1.0 - _BETAS[1] ** self.version)
        scale = np.float32(rate / (1.0 - _BETAS[0] ** self.version))
        self._weights -= scale * self._mean / (np.sqrt(unbiased) + np.float32(_TINY))
        if self.version % self._serves.target_every == 0:
            self._target += np.float32(self._serves.target_rate) * (self._weights - self._target)

    def fetch(self) -> tuple[int, Floats32, Floats32]:
        """Version, weights and those of the target net."""
        return self.version, self._weights.copy(), self._target.copy()

    def state(self) -> dict[str, Array]:
        """What a resumed run needs; gradients of a step that is not full are asked for again."""
        names = ("weights", "target", "mean", "square")
        columns = (self._weights, self._target, self._mean, self._square)
        return {**dict(zip(names, columns, strict=True)), "version": np.array(self.version)}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self.load(
            state["weights"].astype(np.float32), state["target"].astype(np.float32), int(state["version"])
        )
        self._mean, self._square = (state[name].astype(np.float32) for name in ("mean", "square"))


def slices(size: int, count: int) -> list[slice]:
    """So many numbers in as many parts as there are servers."""
    ends = np.linspace(0, size, count + 1).round().astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]
