"""The role that learns where there are several: a batch in, a gradient out; weights are fetched and not its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from weft.policies.candidates.architecture import CandidateArchitecture
from weft.policies.candidates.net import CandidateNet
from weft.training.distributed.servers import slices
from weft.training.distributed.shards import Standing, batch_of
from weft.training.dqn.config import DQNConfig
from weft.training.dqn.learning import Learning
from weft.training.environment import Floats32
from weft.training.optimiser import one_thread
from weft.training.replay import Kept


@dataclass(frozen=True)
class Learns:
    """What a learner needs to know; the same for all of them."""

    architecture: CandidateArchitecture
    config: DQNConfig
    servers: int
    push_every: int = 1


class Work(NamedTuple):
    """What a learner is asked for."""

    tag: int
    """Version of the weights that come with it; -1: none do."""
    rate: float
    """Learning rate of the steps that it takes on its own."""
    beta: float
    num_uniform: int
    standings: tuple[Standing, ...]
    """Of all shards that it draws from."""


@dataclass(frozen=True)
class Worked:
    """What a learner says of a batch."""

    tag: int
    """Version of the weights that the gradient is of, or began with."""
    stamps: tuple[np.ndarray, ...]
    """Of every part, the names of its decisions."""
    errors: tuple[Floats32, ...]
    sums: tuple[float, float, float]
    """Loss, mean size of errors, mean worth."""
    is_pushed: bool
    """Whether the gradient is to be pushed, or more is added to it first."""


class GradientLearner:
    """A replica of the nets that follows what it fetches.

    Parameters
    ----------
    slowness
        How many times as long as it would it takes.
    """

    def __init__(self, learns: Learns, slowness: float = 1.0, life: int = 0) -> None:
        self._learns, self._slowness = learns, slowness
        self._learning = Learning(CandidateNet(learns.architecture), learns.config, torch.device("cpu"))
        self._tag, self._count = -1, 0
        self._sum = np.zeros(len(flat_of(self._learning.net)), np.float32)

    def work(self, order: Work, *given: Floats32 | Kept) -> tuple[Worked | Floats32, ...]:
        """The gradient of a batch, cut for the servers; ``given`` are weights and target of each server, then parts."""
        started = time.perf_counter()
        num = self._learns.servers
        if order.tag >= 0:
            self._fetch([x for x in given[: 2 * num] if isinstance(x, np.ndarray)], order.tag)
        parts = [x for x in given if isinstance(x, Kept)]
        batch = batch_of(parts, order.standings, order.num_uniform, order.beta)
        learning, config = self._learning, self._learns.config
        learning.sums.zero_()
        with one_thread():
            loss, error = learning.loss(batch)
            self._sum += learning.adam.gradient(loss, config.gradient_clip).cpu().numpy()
        self._count += 1
        is_pushed = self._count % self._learns.push_every == 0
        if not is_pushed or order.tag < 0 or self._learns.push_every > 1:
            learning.adam.follow(order.rate)  # on its own, until it fetches again
        pushed = self._sum / np.float32(self._learns.push_every)
        if is_pushed:
            self._sum[:] = 0.0
        ends = np.cumsum([len(part.slot) for part in parts])[:-1]
        loss_sum, size, worth = learning.sums.tolist()
        said = Worked(
            self._tag,
            tuple(part.slot for part in parts),
            tuple(np.split(error, ends)),
            (loss_sum, size, worth),
            is_pushed,
        )
        if self._slowness > 1.0:
            time.sleep((self._slowness - 1.0) * (time.perf_counter() - started))
        return (said, *(pushed[own] for own in slices(len(pushed), num)))

    @torch.no_grad()
    def _fetch(self, vectors: Sequence[Floats32], tag: int) -> None:
        num = self._learns.servers
        load_flat(self._learning.net, np.concatenate(vectors[:num]))
        load_flat(self._learning.target, np.concatenate(vectors[num:]))
        self._tag = tag


def flat_of(net: CandidateNet) -> Floats32:
    """All parameters as one vector."""
    return np.concatenate([p.detach().cpu().numpy().reshape(-1) for p in net.parameters()])


@torch.no_grad()
def load_flat(net: CandidateNet, vector: Floats32) -> None:
    """Take over all parameters from one vector."""
    at = 0
    for p in net.parameters():
        p.copy_(torch.from_numpy(vector[at : at + p.numel()]).view_as(p))
        at += p.numel()
