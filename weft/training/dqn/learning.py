"""The nets of DQN and one gradient step on a batch: double (van Hasselt et al., 2016), dueling, with weights of importance."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from weft.policies.candidates.architecture import CandidateArchitecture
from weft.policies.candidates.net import CandidateNet
from weft.policies.tensors import Array, below
from weft.training.dqn.config import DQNConfig
from weft.training.environment import CandidateEnv, Floats32
from weft.training.optimiser import FlatAdam
from weft.training.replay import Drawn, ReplayShape, shape_of


class Learning:
    """A net, the target net that follows it, and Adam."""

    def __init__(self, net: CandidateNet, config: DQNConfig, where: torch.device) -> None:
        self._config = config
        self.net = net.to(where)
        self.target = CandidateNet(net.architecture).to(where)
        self.move_target(1.0)
        self.adam = FlatAdam(self.net)
        self.sums = torch.zeros(3, device=where)  # loss, |error|, worth of the chosen, since the last row
        self.learned = 0

    def learn(self, batch: Drawn, learning_rate: float) -> Floats32:
        """One gradient step; returns the errors (m,) of the batch."""
        loss, error = self.loss(batch)
        self.adam.step(loss, learning_rate, self._config.gradient_clip)
        self.learned += 1
        if self.learned % self._config.target_every == 0:
            self.move_target(self._config.target_rate)
        return error

    def loss(self, batch: Drawn) -> tuple[Tensor, Floats32]:
        """The loss on a batch, and the errors (m,) in it."""
        target = self.targets(batch)
        action, weight = (self._tensor(x) for x in (batch.action, batch.weight))
        worth = self.net.q_values(batch.state).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = (weight * huber_loss(worth, target, reduction="none", delta=self._config.huber)).mean()
        error = (target - worth).detach()
        self.sums += torch.stack([loss.detach(), error.abs().mean(), worth.detach().mean()])
        return loss, error.cpu().numpy()

    @torch.no_grad()
    def targets(self, batch: Drawn) -> Tensor:
        """What the chosen rows (m,) should be worth: the net picks among what is allowed then, the target net values it."""
        best = self.net.q_values(batch.after).argmax(1, keepdim=True)
        later = self.target.q_values(batch.after).gather(1, best).squeeze(1)
        return self._tensor(batch.reward) + self._tensor(batch.discount) * later

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self.sums.device)

    @torch.no_grad()
    def set_level(self, level: float) -> None:
        """Begin with values of about the right size: learning that first would spoil what scores say at the start."""
        for net in (self.net, self.target):
            net.value_out_bias.fill_(level)

    @torch.no_grad()
    def move_target(self, rate: float) -> None:
        """Let the target net go this share of the way to the net."""
        for theirs, ours in zip(self.target.parameters(), self.net.parameters(), strict=True):
            theirs.copy_(ours) if rate == 1.0 else theirs.lerp_(ours, rate)

    def state(self) -> dict[str, Array]:
        """What a resumed run needs; the number of steps is kept by whoever counts."""
        return {
            **{f"net.{name}": tensor for name, tensor in self.net.weights().items()},
            **{f"target.{name}": tensor for name, tensor in self.target.weights().items()},
            **self.adam.state(),
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self.net.load_weights(below("net.", state))
        self.target.load_weights(below("target.", state))
        self.adam.restore(state)


@torch.no_grad()
def new_net(
    shape: CandidateArchitecture,
    seed: int,
    base_column: int | None,
    margin: float,
    start: Mapping[str, Array] | None = None,
) -> CandidateNet:
    """A net to begin with: these weights, else values near 0 that prefer what the base rule does by a margin."""
    net = CandidateNet(shape)
    if start is not None:
        net.load_weights(start)
        return net
    net.initialise(torch.Generator().manual_seed(seed))
    net.value_out.mul_(0.01)
    if base_column is not None:
        net.score_out.mul_(0.1 * margin)
        net.score_direct.zero_()
        net.score_direct[0, base_column] = margin
    return net


def replay_shape(env: CandidateEnv, config: DQNConfig) -> ReplayShape:
    """How much is kept of the decisions in these environments."""
    return shape_of(config, config.num_envs, env.num_world, env.num_columns, env.num_choices)
