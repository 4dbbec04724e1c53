"""Multi-agent PPO (Yu et al., 2022) of agents that share one net, each for one cluster.

An agent's decision is a task and units for it. Whoever loses a conflict over a task was not asked for units, so
that only the pick counts; agents without a task that fits are left out, and so are states without any other. Time passes only in
some steps: only those are discounted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from weft.errors import InputError
from weft.model.columns import Ints
from weft.policies.checkpoint import Card, Weights
from weft.policies.han.architecture import MODES, HanArchitecture
from weft.policies.han.net import HanNet, Seen
from weft.policies.tensors import Array, below
from weft.scenarios.splits import check_training_seed
from weft.sim.elastic.environment import ElasticBatch, ElasticMove
from weft.sim.elastic.observation import ElasticSight
from weft.training.mappo.config import MappoConfig
from weft.training.mappo.rollout import LOST, Decided, Orders, Rollout, decide, judged, orders, tensors
from weft.training.optimiser import FlatAdam, device_named, finite, one_thread
from weft.training.run.counts import EvenUpdates
from weft.training.run.metrics import Metric

FIGURES = ("policy_loss", "value_loss", "kl", "clip_fraction", "pick_entropy", "unit_entropy")


class Judge(Protocol):
    """Plays a net on episodes that are not trained on."""

    def judge(self, net: HanNet) -> dict[str, float]:
        """Mean completion time of every way to act."""

    @property
    def rules(self) -> Mapping[str, float]:
        """Mean completion time of rules on the same episodes."""


class Batch(NamedTuple):
    """States to learn from, flat."""

    seen: Seen
    slot: Tensor  # (S, N)
    units: Tensor  # (S, N, R)
    log_prob: Tensor  # (S, N)
    has_units: Tensor  # (S, N) whether the units count
    is_active: Tensor  # (S, N)
    advantage: Tensor  # (S, N)
    target: Tensor  # (S, N)

    def part(self, which: Tensor) -> Batch:
        """Some of the states."""
        return Batch(Seen(*(x[which] for x in self.seen)), *(x[which] for x in self[1:]))


class Mappo(EvenUpdates):
    """Trains one net for all agents; a :class:`weft.training.run.folder.Learner`.

    Parameters
    ----------
    judge
        Says every ``every`` updates how good the policy is.
    start
        Weights of the same architecture to begin with.
    card
        Names and training data for the policy's card.
    first
        Units per type of task (types, resources) that the first updates imitate.
    """

    config: MappoConfig

    def __init__(
        self,
        env: ElasticBatch,
        card: Card,
        config: MappoConfig,
        *,
        seed: int = 0,
        device: str = "cpu",
        start: Mapping[str, Array] | None = None,
        judge: Judge | None = None,
        every: int = 5,
        first: Ints | None = None,
    ) -> None:
        if not isinstance(card.architecture, HanArchitecture):
            raise TypeError(f"expected a net of edge clusters, got {type(card.architecture).__name__}")
        if env.num_envs != config.num_envs:
            raise InputError(f"expected {env.num_envs}, got {config.num_envs}", field="num_envs")
        if config.imitation_updates and first is None:
            raise InputError("expected units to imitate, got none", field="imitation_updates")
        self.env, self.config, self.seed = env, config, check_training_seed(seed)
        self._device = device_named(device)
        self._card, self._judge, self._every = card, judge, every
        net = HanNet(card.architecture)
        net.initialise(torch.Generator().manual_seed(seed))
        if start is not None:
            net.load_weights(start)
        self.net = net.to(self._device)
        self._adam = FlatAdam(self.net)
        self._random = torch.Generator(self._device).manual_seed(seed)
        self._first = None if first is None else torch.from_numpy(first).to(self._device)
        self.rollout = Rollout(env.observe(), config.num_steps, len(card.architecture.most), self._device)
        self._ended = np.zeros(2)  # (2,) episodes that ended in this update, and their completion times
        self._ranges = np.repeat([[np.inf], [-np.inf]], card.architecture.labels["ranges"], 1)  # (2, F)
        self._score, self._mode = np.nan, 0
        self.update = 0

    @property
    def score(self) -> float | None:
        """Minus the mean completion time in validation; None: not judged yet."""
        return None if np.isnan(self._score) else float(self._score)

    @property
    def is_imitating(self) -> bool:
        """Whether the next update learns fixed units."""
        return self.update < self.config.imitation_updates

    def step(self) -> dict[str, Metric]:
        """One update: collect, estimate advantages, follow the gradient, judge, report."""
        with one_thread():
            is_imitating = self.is_imitating
            self.collect()
            batch, row = self.gathered()
            row |= self._improve(batch)
            self.update += 1
            row |= {"phase": "imitate" if is_imitating else "ppo"}
            if self._judge is not None and (
                self.update % self._every == 0 or self.update == self.num_updates
            ):
                row |= self._validate(self._judge)
            return {"samples": self.samples, **row}

    # Rollout

    def collect(self) -> None:
        """Fill the rollout with what the agents do next."""
        env, rollout = self.env, self.rollout
        self._ended[:] = 0.0
        for t in range(self.config.num_steps):
            sight = env.observe()
            self._widen(sight)
            seen = rollout.put(t, sight)
            decided = decide(self.net, seen, self._random, self._random)
            if self.is_imitating and self._first is not None:
                decided = decided._replace(units=_fixed_units(self._first, seen, decided))
            rollout.slot[t], rollout.units[t] = decided.slot, decided.units
            rollout.log_pick[t], rollout.log_units[t] = decided.log_pick, decided.log_units
            rollout.values[t] = decided.values
            told = orders(sight, decided)
            self._note(t, told, env.act(told.slot, told.units, told.chance))
        rollout.values[-1] = self._last_values(env.observe())

    @torch.no_grad()
    def _last_values(self, sight: ElasticSight) -> Tensor:
        return self.net.values(self.net.encode(tensors(sight, self._device)))

    def _note(self, t: int, told: Orders, move: ElasticMove) -> None:
        """Keep what a step brought."""
        config, rollout = self.config, self.rollout
        alive = move.reward_alive[:, None] / move.reward.shape[1]
        reward = (1.0 - config.team) * move.reward + config.team * alive
        rollout.reward[t] = (reward - config.penalty * told.misfits) / config.reward_unit
        passed = np.where(move.advanced, config.gamma, 1.0)
        rollout.discount[t] = np.where(move.done, 0.0, passed)
        rollout.decay[t] = rollout.discount[t] * np.where(move.advanced, config.gae_lambda, 1.0)
        rollout.outcome[t] = move.outcome
        self._ended += move.done.sum(), move.mean_completion[move.done].sum()

    # Advantage

    def gathered(self) -> tuple[Batch, dict[str, Metric]]:
        """The states in which some agent could act, with advantages, flat."""
        rollout = self.rollout
        advantage = rollout.advantages()
        target = advantage + rollout.values[:-1]
        active = rollout.seen.active
        chosen = advantage[active]
        residual = (advantage.var() / target.var().clamp_min(1e-12)).item()
        advantage = (advantage - chosen.mean()) / chosen.std().clamp_min(1e-6)
        has_units = torch.from_numpy(rollout.outcome != LOST).to(self._device)
        log_prob = rollout.log_pick + rollout.log_units * has_units
        whole = Batch(
            Seen(*(x.flatten(0, 1) for x in rollout.seen)),
            *(
                x.flatten(0, 1)
                for x in (rollout.slot, rollout.units, log_prob, has_units, active, advantage, target)
            ),
        )
        some = active.flatten(0, 1).any(1).nonzero().squeeze(1)
        ended, times = self._ended.tolist()
        row: dict[str, Metric] = {
            "mean_reward": float(rollout.reward.mean(dtype=np.float64)),
            "explained_variance": 1.0 - residual,
            "lost": float((rollout.outcome == LOST).mean()),
            "episodes": int(ended),
            "completion_time": times / ended if ended else None,
        }
        return whole.part(some), row

    # Update

    def _improve(self, batch: Batch) -> dict[str, Metric]:
        """Passes over the batch."""
        config = self.config
        rate = (
            config.imitation_rate
            if self.is_imitating
            else config.falling(config.learning_rate, config.final_rate, self.update)
        )
        for _ in range(config.passes):
            sums, count = torch.zeros(len(FIGURES), device=self._device), len(batch.slot)
            order = torch.randperm(count, generator=self._random, device=self._device)
            for which in torch.split(order, config.minibatch):
                loss, figures = self.loss(batch.part(which))
                self._adam.step(loss, rate, config.gradient_clip)
                sums += figures * len(which)
        means = finite(sums / count, self.update)
        return {**dict(zip(FIGURES, means, strict=True)), "learning_rate": rate}

    def loss(self, part: Batch) -> tuple[Tensor, Tensor]:
        """PPO's loss on a minibatch, or the loss of imitation; and figures."""
        config = self.config
        now = judged(self.net, part.seen, part.slot, part.units)
        weight = part.is_active / part.is_active.sum().clamp_min(1)
        value_loss = (now.values - part.target).square().mean()
        unit_entropy = (now.unit_entropy * part.has_units * weight).sum()
        spread = (now.pick_entropy * weight).sum() + unit_entropy
        log_ratio = now.log_pick + now.log_units * part.has_units - part.log_prob
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1.0 - config.clip, 1.0 + config.clip)
        if self.is_imitating:
            policy_loss = -(now.log_units * weight).sum()
            loss = policy_loss
        else:
            gain = torch.minimum(ratio * part.advantage, clipped * part.advantage)
            policy_loss = -(gain * weight).sum()
            bonus = config.falling(config.entropy_coefficient, config.final_entropy, self.update)
            loss = policy_loss - bonus * spread
        with torch.no_grad():
            kl = ((ratio - 1.0 - log_ratio) * weight).sum()
            share = ((ratio != clipped) * weight).sum()
            pick_entropy = (now.pick_entropy * weight).sum()
            figures = torch.stack([policy_loss, value_loss, kl, share, pick_entropy, unit_entropy])
        return loss + config.value_coefficient * value_loss, figures

    # Log

    def _validate(self, judge: Judge) -> dict[str, Metric]:
        """Judge the policy in every way to act; the best of them is how it is kept."""
        found = judge.judge(self.net)
        best = min(found, key=lambda mode: found[mode])
        self._mode, self._score = list(found).index(best), -found[best]
        row: dict[str, Metric] = {f"validation_{mode}": value for mode, value in found.items()}
        if judge.rules:
            row["rules_percent"] = 100.0 * (found[best] / min(judge.rules.values()) - 1.0)
        return row | {"validation": found[best], "mode": best}

    def _widen(self, sight: ElasticSight) -> None:
        """Keep the ranges of features up to date."""
        parts = [
            np.asarray(x).reshape(-1, x.shape[-1]) for x in (sight.cluster, sight.waiting, sight.running)
        ]
        low = np.concatenate([part.min(0) for part in parts])
        high = np.concatenate([part.max(0) for part in parts])
        np.minimum(self._ranges[0], low, out=self._ranges[0])
        np.maximum(self._ranges[1], high, out=self._ranges[1])

    def policy(self) -> tuple[Weights, Card]:
        """The weights as they are now, and what they are."""
        about = {"seed": self.seed, "samples": self.samples, "config": asdict(self.config)}
        if self.score is not None:
            about |= {"mode": MODES[self._mode], "validation": -self.score}
        pairs = self._ranges.T.tolist() if self.update else []
        card = replace(
            self._card,
            ranges=tuple((low, high) for low, high in pairs),
            training={**self._card.training, **about},
        )
        return self.net.weights(), card

    def state(self) -> dict[str, Array]:
        """Everything that the next update depends on."""
        return {
            **{f"net.{name}": tensor for name, tensor in self.net.weights().items()},
            **self._adam.state(),
            **{f"env.{name}": array for name, array in self.env.snapshot().items()},
            "random": self._random.get_state().numpy(),
            "update": np.array(self.update),
            "ranges": self._ranges.copy(),
            "score": np.array([self._score, self._mode]),
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self.net.load_weights(below("net.", state))
        self._adam.restore(state)
        self.env.restore(below("env.", state))
        self._random.set_state(torch.from_numpy(state["random"]))
        self.update = int(state["update"])
        self._ranges[:] = state["ranges"].astype(np.float64)
        self._score, self._mode = float(state["score"][0]), int(state["score"][1])


def _fixed_units(wanted: Tensor, seen: Seen, decided: Decided) -> Tensor:
    """Units (B, N, R) of the picked task by its type, from (types, R), or as many as may be given."""
    row = seen.slot.gather(2, decided.slot.unsqueeze(-1)).clamp_min(0)
    least, top = (one.gather(1, row.expand(-1, -1, one.shape[-1])) for one in (seen.least, seen.top))
    task = seen.waiting.gather(1, row.expand(-1, -1, seen.waiting.shape[-1]))
    kind = task[..., least.shape[-1] : -3].argmax(-1)
    return torch.maximum(torch.minimum(torch.minimum(wanted[kind], seen.most), top), least)
