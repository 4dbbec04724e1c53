"""What agents saw, did and got in the steps of one update, and how a net acts in a batch of environments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.model.graph import Bools, Floats, Ints
from weft.policies.han.net import HanNet, Seen, entropy, pick
from weft.sim.elastic.observation import ElasticSight

VOID, PLACED, LOST, SKIPPED = range(4)
"""Outcomes of an agent's step."""


class Decided(NamedTuple):
    """What the agents of B systems decided."""

    slot: Tensor  # (B, N)
    units: Tensor  # (B, N, R)
    log_pick: Tensor  # (B, N)
    log_units: Tensor  # (B, N)
    values: Tensor  # (B, N)


class Judged(NamedTuple):
    """Decisions in the light of a net: what PPO's loss needs."""

    log_pick: Tensor  # (B, N)
    log_units: Tensor  # (B, N)
    pick_entropy: Tensor  # (B, N)
    unit_entropy: Tensor  # (B, N)
    values: Tensor  # (B, N)


def tensors(sight: ElasticSight, device: torch.device) -> Seen:
    """What is seen, as tensors of their own."""
    return Seen(*(torch.from_numpy(np.array(getattr(sight, name))).to(device) for name in Seen._fields))


@torch.no_grad()
def decide(net: HanNet, seen: Seen, picks: torch.Generator | None, units: torch.Generator | None) -> Decided:
    """Draw tasks and units from these generators; without one take what is likeliest."""
    known = net.encode(seen)
    log_probs = net.pointer(seen, known)
    slot = pick(log_probs, picks)
    law = net.unit_law(seen, known, slot)
    given = law.draw(units)
    log_pick = log_probs.gather(-1, slot.unsqueeze(-1)).squeeze(-1)
    return Decided(slot, given, log_pick, law.log_prob(given), net.values(known))


def judged(net: HanNet, seen: Seen, slot: Tensor, units: Tensor) -> Judged:
    """How likely these decisions are now, with gradients."""
    known = net.encode(seen)
    log_probs = net.pointer(seen, known)
    law = net.unit_law(seen, known, slot)
    log_pick = log_probs.gather(-1, slot.unsqueeze(-1)).squeeze(-1)
    return Judged(log_pick, law.log_prob(units), entropy(log_probs), law.entropy(), net.values(known))


class Orders(NamedTuple):
    """Decisions as the environment takes them."""

    slot: Ints  # (B, N), -1: void
    units: Ints  # (B, N, R)
    chance: Floats  # (B, N)
    misfits: Bools  # (B, N) units that do not fit; void


def orders(sight: ElasticSight, decided: Decided) -> Orders:
    """What agents do: those without a task that fits do nothing, and neither do units that do not fit."""
    slot, units = decided.slot.cpu().numpy(), decided.units.cpu().numpy()
    row = np.maximum(np.take_along_axis(sight.slot, slot[..., None], 2), 0)  # (B, N, 1)
    least, top = (np.take_along_axis(one, row, 1) for one in (sight.least, sight.top))
    given = units.any(2) & sight.active
    fits = ((units >= least) & (units <= np.minimum(sight.most, top))).all(2)
    acts = given & fits
    chance = decided.log_pick.double().exp().cpu().numpy()
    return Orders(np.where(acts, slot, -1), units * acts[..., None], chance, given & ~fits)


class Rollout:
    """Buffers for T steps of B systems with N agents, on the device that learns."""

    def __init__(self, sight: ElasticSight, num_steps: int, num_resources: int, device: torch.device) -> None:
        self._device = device
        shape = (num_steps, *sight.slot.shape[:2])
        self.seen = Seen(
            *(
                torch.empty((num_steps, *value.shape), dtype=value.dtype, device=device)
                for value in tensors(sight, device)
            )
        )
        self.slot = torch.empty(shape, dtype=torch.int64, device=device)
        self.units = torch.empty((*shape, num_resources), dtype=torch.int64, device=device)
        self.log_pick = torch.empty(shape, device=device)
        self.log_units = torch.empty(shape, device=device)
        self.values = torch.empty((num_steps + 1, *shape[1:]), device=device)
        self.reward = np.zeros(shape, np.float32)
        self.discount = np.zeros(shape[:2], np.float32)
        self.decay = np.zeros(shape[:2], np.float32)
        """How much of a later advantage counts."""
        self.outcome = np.zeros(shape, np.int64)

    def put(self, t: int, sight: ElasticSight) -> Seen:
        """Keep what is seen in step t."""
        for name, buffer in zip(Seen._fields, self.seen, strict=True):
            buffer[t].copy_(torch.from_numpy(getattr(sight, name)))
        return self.at(t)

    def at(self, t: int) -> Seen:
        """What was seen in step t."""
        return Seen(*(buffer[t] for buffer in self.seen))

    def advantages(self) -> Tensor:
        """Generalised advantage estimates (T, B, N); no time passes, no discount."""
        reward, discount, decay = (
            torch.from_numpy(x).to(self._device) for x in (self.reward, self.discount, self.decay)
        )
        errors = reward + discount.unsqueeze(-1) * self.values[1:] - self.values[:-1]
        found, ahead = torch.empty_like(errors), torch.zeros_like(errors[0])
        for t in range(len(errors) - 1, -1, -1):
            ahead = errors[t] + decay[t].unsqueeze(-1) * ahead
            found[t] = ahead
        return found
