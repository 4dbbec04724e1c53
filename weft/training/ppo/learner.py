"""Proximal policy optimisation (Schulman et al., 2017) with masked multi-discrete choices.

Reads from top to bottom, after the configuration in ``config.py`` and the buffers in
``rollout.py``: agent, rollout, advantage, update, log. With a rule to imitate, the first updates clone it and fit the value net to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Generic

import numpy as np
import torch
from torch import Tensor

from weft.errors import InputError
from weft.policies.candidates.net import CandidateNet
from weft.policies.checkpoint import Card, Weights
from weft.policies.graph.net import GraphNet
from weft.policies.mlp.net import Mlp, joint, log_probabilities, mask_bias
from weft.policies.tensors import Array, below
from weft.scenarios.splits import check_training_seed
from weft.training.environment import BatchEnv, Bools, E, Episodes, Floats, Floats32, Rule, joint_reward
from weft.training.optimiser import FlatAdam, device_named, finite, one_thread
from weft.training.ppo.config import TUNED, PPOConfig
from weft.training.ppo.rollout import Batch, Rollout
from weft.training.run.counts import EvenUpdates
from weft.training.run.metrics import Metric

SCORE_WINDOW = 10
"""Updates over which the mean reward is averaged into the score."""


# Agent


class PPO(EvenUpdates, Generic[E]):
    """Trains one policy on one batch of environments; a :class:`weft.training.run.folder.Learner`.

    Parameters
    ----------
    env
        Is reset with ``seed`` here.
    rule
        What the first ``imitation_updates`` imitate.
    start
        Weights of the same architecture to begin with.
    card
        Names and training data for the policy's card.
    """

    config: PPOConfig

    def __init__(
        self,
        env: E,
        config: PPOConfig = TUNED,
        *,
        seed: int = 0,
        device: str = "cpu",
        rule: Rule[E] | None = None,
        start: Mapping[str, Array] | None = None,
        card: Card | None = None,
    ) -> None:
        _check_fit(env, config, has_rule=rule is not None)
        self.env, self.config, self.seed = env, config, check_training_seed(seed)
        self._rule = rule
        self._device = device_named(device)
        net = self._make_net()
        self._card = replace(card or Card("ppo", "ppo", net.architecture), architecture=net.architecture)
        net.initialise(torch.Generator().manual_seed(seed))
        if start is not None:
            net.load_weights(start)
        self.net = net.to(self._device)
        self._adam = FlatAdam(self.net)
        self._random = torch.Generator(self._device).manual_seed(seed)
        self._rollout = Rollout(env, config.num_steps, self._device)
        self._episodes = Episodes(env.num_envs)
        self._kl_coefficient = config.kl_coefficient
        self._recent = np.full(SCORE_WINDOW, np.nan)  # (SCORE_WINDOW,) mean rewards, newest last
        self._ranges = np.repeat([[np.inf], [-np.inf]], env.num_features, 1)  # (2, F) least and greatest
        self.update = 0
        env.reset(seed)

    def _make_net(self) -> Mlp | GraphNet | CandidateNet:
        """The net to train, without weights yet."""
        return Mlp(self.config.architecture(self.env))

    @property
    def score(self) -> float | None:
        """Mean reward per decision over the last updates; None while imitating."""
        known = self._recent[~np.isnan(self._recent)]
        return float(known.mean()) if len(known) else None

    @property
    def is_imitating(self) -> bool:
        """Whether the next update clones the rule."""
        return self.update < self.config.imitation_updates

    def step(self) -> dict[str, Metric]:
        """One update: collect, estimate advantages, follow the gradient, report."""
        with one_thread():
            rate = self._learning_rate()
            self._collect(self._rule if self.is_imitating else None)
            batch, row = self._batch()
            row |= self._clone(batch, rate) if self.is_imitating else self._improve(batch, rate)
            row |= {"phase": "imitate" if self.is_imitating else "ppo", "learning_rate": rate}
            self.update += 1
            return self._log(row)

    # Rollout

    def _collect(self, rule: Rule[E] | None) -> None:
        """Fill the rollout with what the rule, or else the policy, does next."""
        env, rollout = self.env, self._rollout
        for t in range(self.config.num_steps):
            rollout.observation[t] = torch.from_numpy(env.observation)
            if rule is None:
                self._act(t)
            else:
                self._follow(t, rule)
            reward, done = env.step(rollout.actions[t].cpu().numpy())
            reward = joint_reward(reward)
            rollout.reward[t] = reward
            rollout.discount[t] = np.where(done, 0.0, self._discount())
            self._episodes.add(reward, done)
            self._note_step(t)
        rollout.observation[-1] = torch.from_numpy(env.observation)

    def _note_step(self, t: int) -> None:
        """What else is kept of step t; episodes that ended in it have begun anew."""

    @torch.no_grad()
    def _act(self, t: int) -> None:
        """Draw the choices of step t: the greatest of logits plus Gumbel noise."""
        rollout, narrow = self._rollout, self.env.narrow
        mask = self.env.mask if narrow is None else self.env.mask.copy()
        bias = rollout.bias[t].copy_(self._bias(mask))
        noise = torch.empty_like(bias).exponential_(generator=self._random).clamp_min_(1e-30).log_()

        def choose(logits: Tensor, heads: slice) -> Tensor:
            chosen = (logits + bias[:, heads] - noise[:, heads]).argmax(-1)
            if narrow is not None:
                narrow(mask, heads.start, chosen[:, 0].cpu().numpy())
                bias[:, heads.stop :] = self._bias(mask[:, heads.stop :])
            return chosen

        chosen = self.net.choose(rollout.observation[t], choose, one_by_one=narrow is not None)
        rollout.actions[t], rollout.logits[t] = chosen

    def _follow(self, t: int, rule: Rule[E]) -> None:
        """Take the choices of step t from a rule; they must be allowed."""
        actions, narrow = rule(self.env), self.env.narrow
        mask = self.env.mask.copy()
        for head in range(self.env.num_heads):
            allowed = np.take_along_axis(mask[:, head], actions[:, head, None], 1)
            if not allowed.all():
                row = int(np.flatnonzero(~allowed[:, 0])[0])
                raise InputError(f"chose {actions[row, head]} for head {head}, which is masked", field="rule")
            if narrow is not None:
                narrow(mask, head, actions[:, head])
        self._rollout.bias[t] = self._bias(mask)
        self._rollout.actions[t] = torch.from_numpy(actions)

    def _bias(self, mask: Bools) -> Tensor:
        return mask_bias(torch.from_numpy(mask).to(self._device))

    def _discount(self) -> Floats32 | float:
        """Discount of the step just taken, for every environment or for all."""
        if self.config.time_unit is None:
            return self.config.gamma
        return np.asarray(self.config.gamma ** (self.env.elapsed / self.config.time_unit), np.float32)

    # Advantage

    @torch.no_grad()
    def _batch(self) -> tuple[Batch, dict[str, Metric]]:
        """The rollout with advantages, flat, and figures about it."""
        rollout = self._rollout
        reward, discount = (torch.from_numpy(x).to(self._device) for x in (rollout.reward, rollout.discount))
        values = self.net.values(rollout.observation.flatten(0, 1)).view(rollout.observation.shape[:2])
        advantage = advantages(reward, values, discount, self.config.gae_lambda)
        target = advantage + values[:-1]
        residual = (advantage.var() / target.var().clamp_min(1e-12)).item()
        if self.config.is_standardised:
            advantage = (advantage - advantage.mean()) / advantage.std().clamp_min(1e-6)
        batch = self._flat(advantage.flatten(), target.flatten())
        entropy = -batch.information.mean().item()
        return batch, {"entropy": entropy, "explained_variance": 1.0 - residual}

    def _flat(self, advantage: Tensor, target: Tensor) -> Batch:
        rollout = self._rollout
        bias, actions = rollout.bias.flatten(0, 1), rollout.actions.flatten(0, 1)
        log_probs = log_probabilities(rollout.logits.flatten(0, 1), bias)
        probabilities = log_probs.exp()
        return Batch(
            rollout.observation[:-1].flatten(0, 1),
            bias,
            actions,
            joint(log_probs, actions),
            probabilities if self._kl_coefficient else probabilities[:, 0, :0],
            (probabilities * log_probs).sum((1, 2)),
            advantage,
            target,
        )

    # Update

    def _improve(self, batch: Batch, rate: float) -> dict[str, Metric]:
        """PPO's passes over the batch, then the adapted weight of the KL penalty."""
        for _ in range(self.config.passes):
            sums = torch.zeros(4, device=self._device)
            for part in self._shuffled(batch):
                loss, figures = self._loss(part)
                self._adam.step(loss, rate, self.config.gradient_clip)
                sums += figures * len(part.target)
            limit = self.config.kl_limit
            if limit is not None and float(sums[2]) > limit * self.config.batch:
                break
        means = finite(sums / self.config.batch, self.update)
        row: dict[str, Metric] = dict(
            zip(("policy_loss", "value_loss", "kl", "clip_fraction"), means, strict=True)
        )
        row["kl_coefficient"] = self._kl_coefficient
        if means[2] > 2.0 * self.config.kl_target:
            self._kl_coefficient *= 1.5
        elif means[2] < 0.5 * self.config.kl_target:
            self._kl_coefficient *= 0.5
        return row

    def _loss(self, part: Batch) -> tuple[Tensor, Tensor]:
        """PPO's loss on a minibatch; and policy loss, value loss, KL and share of clipped ratios."""
        config = self.config
        logits, values = self.net(part.observation, part.actions)
        log_probs = log_probabilities(logits, part.bias)
        log_ratio = joint(log_probs, part.actions) - part.log_prob
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1.0 - config.clip, 1.0 + config.clip)
        policy_loss = -torch.minimum(ratio * part.advantage, clipped * part.advantage).mean()
        value_loss = squared_error(values, part.target, config.value_limit)
        loss = policy_loss + config.value_coefficient * value_loss
        kl = (ratio.detach() - 1.0 - log_ratio.detach()).mean()
        if self._kl_coefficient:
            kl = (part.information - (part.probabilities * log_probs).sum((1, 2))).mean()
            loss = loss + self._kl_coefficient * kl
        if config.entropy_coefficient:
            entropy = -(log_probs.exp() * log_probs).sum((1, 2)).mean()
            loss = loss - config.entropy_coefficient * entropy
        share = (ratio != clipped).float().mean()
        return loss, torch.stack([policy_loss, value_loss, kl, share]).detach()

    def _clone(self, batch: Batch, rate: float) -> dict[str, Metric]:
        """Passes that raise the probability of the rule's choices and fit the value to its returns."""
        for _ in range(self.config.passes):
            sums = torch.zeros(2, device=self._device)
            for part in self._shuffled(batch):
                logits, values = self.net(part.observation, part.actions)
                cross_entropy = -joint(log_probabilities(logits, part.bias), part.actions).mean()
                value_loss = squared_error(values, part.target, self.config.value_limit)
                loss = cross_entropy + self.config.value_coefficient * value_loss
                self._adam.step(loss, rate, self.config.gradient_clip)
                sums += torch.stack([cross_entropy, value_loss]).detach() * len(part.target)
        means = finite(sums / self.config.batch, self.update)
        return {"cross_entropy": means[0], "value_loss": means[1], "entropy": None}

    def _shuffled(self, batch: Batch) -> list[Batch]:
        """The batch in minibatches, in a new order."""
        order = torch.randperm(self.config.batch, generator=self._random, device=self._device)
        parts = zip(*(torch.split(column[order], self.config.minibatch) for column in batch), strict=True)
        return [Batch(*columns) for columns in parts]

    def _learning_rate(self) -> float:
        config = self.config
        if self.is_imitating:
            return config.imitation_rate
        if config.decay == "constant":
            return config.learning_rate
        left = (self.num_updates - self.update) / (self.num_updates - config.imitation_updates)
        if config.decay_end:
            left = config.decay_end + (1.0 - config.decay_end) * left
        return config.learning_rate * left

    # Log

    def _log(self, row: dict[str, Metric]) -> dict[str, Metric]:
        """The row of an update; keeps the score and the ranges of the observation up to date."""
        mean_reward = float(self._rollout.reward.mean(dtype=np.float64))
        if row["phase"] == "ppo":
            self._recent = np.append(self._recent[1:], mean_reward)
        seen = self._rollout.observation.flatten(0, 1)
        self._ranges[0] = np.minimum(self._ranges[0], seen.amin(0).cpu().numpy())
        self._ranges[1] = np.maximum(self._ranges[1], seen.amax(0).cpu().numpy())
        own = self._report()
        return {"samples": self.samples, "mean_reward": mean_reward, **self._episodes.take(), **row, **own}

    def _report(self) -> Mapping[str, Metric]:
        """What the environments say of the update."""
        return self.env.report()

    def policy(self) -> tuple[Weights, Card]:
        """The weights as they are now, and what they are."""
        about = {"seed": self.seed, "samples": self.samples, "config": asdict(self.config)}
        ranges = self._feature_ranges(self._ranges) if self.update else ()
        card = replace(self._card, ranges=ranges, training={**self._card.training, **about})
        return self.net.weights(), card

    def _feature_ranges(self, ranges: Floats) -> tuple[tuple[float, float], ...]:
        """Least and greatest value of every feature, from those (2, F) of the observation."""
        return tuple((float(low), float(high)) for low, high in ranges.T)

    def state(self) -> dict[str, Array]:
        """Everything that the next update depends on."""
        return {
            **{f"net.{name}": tensor for name, tensor in self.net.weights().items()},
            **self._adam.state(),
            **{f"env.{name}": array for name, array in self.env.snapshot().items()},
            **self._episodes.state(),
            "random": self._random.get_state().numpy(),
            "update": np.array(self.update),
            "kl_coefficient": np.array(self._kl_coefficient),
            "recent": self._recent,
            "ranges": self._ranges,
        }

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""
        self.net.load_weights(below("net.", state))
        self._adam.restore(state)
        self.env.restore(below("env.", state))
        self._episodes.restore(state)
        self._random.set_state(torch.from_numpy(state["random"]))
        self.update = int(state["update"])
        self._kl_coefficient = float(state["kl_coefficient"])
        self._recent[:] = state["recent"].astype(np.float64)
        self._ranges[:] = state["ranges"].astype(np.float64)


def advantages(reward: Tensor, values: Tensor, discount: Tensor, gae_lambda: float) -> Tensor:
    """Generalised advantage estimates (T, B) (Schulman et al., 2016).

    ``reward`` and ``discount`` are (T, B), the discount 0 where an episode ended; ``values`` are
    (T + 1, B), the last row of what follows the rollout.
    """
    errors = reward + discount * values[1:] - values[:-1]
    estimates = torch.empty_like(errors)
    ahead = torch.zeros_like(errors[0])
    for t in range(len(errors) - 1, -1, -1):
        ahead = torch.addcmul(errors[t], discount[t], ahead, value=gae_lambda)
        estimates[t] = ahead
    return estimates


def squared_error(values: Tensor, target: Tensor, limit: float | None) -> Tensor:
    """Mean squared error, each at most ``limit``."""
    errors = (values - target).square()
    return (errors if limit is None else errors.clamp(max=limit)).mean()


def _check_fit(env: BatchEnv, config: PPOConfig, *, has_rule: bool) -> None:
    """Refuse an environment that the configuration cannot be used with."""
    if env.num_envs != config.num_envs:
        raise InputError(
            f"expected {env.num_envs} as the environment has, got {config.num_envs}", field="num_envs"
        )
    if config.imitation_updates and not has_rule:
        raise InputError("expected a rule to imitate, got none", field="imitation_updates")
