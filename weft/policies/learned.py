"""A trained dispatcher as it is used: the policy, how it sees a stream, and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.model.graph import Bools, Ints
from weft.model.problem import Problem
from weft.policies.checkpoint import load_policy
from weft.policies.forward import MlpPolicy
from weft.sim.observe import Sight, feature_names
from weft.sim.streams import Rules, compile_stream, kind_names, num_branches

Floats32 = npt.NDArray[np.float32]


class Policy(Protocol):
    """Whatever decides for all environments at once, e.g. ``policies.forward.MlpPolicy``."""

    def decide_batch(
        self,
        observation: Floats32,  # (num_envs, num_features)
        mask: Bools,  # (num_envs, num_devices, num_kinds + 1)
        rng: np.random.Generator | None = None,
    ) -> Ints:  # (num_envs, num_devices)
        """A kind per device, num_kinds to idle; drawn if ``rng`` is given, else the best."""


@dataclass(frozen=True)
class Learned:
    """A policy from a file, with how it sees a stream."""

    policy: Policy
    name: str
    sight: Sight
    waits: bool
    features: tuple[str, ...]
    """Names of what it observes; empty where the card does not say."""
    shape: tuple[int, int, int]
    """Number of features, devices and choices."""

    def clone(self) -> Learned:
        """The same policy with buffers of its own: what is loaded once may decide in several threads."""
        return replace(self, policy=self.policy.clone()) if isinstance(self.policy, MlpPolicy) else self

    def decide(self, observation: Floats32, mask: Bools) -> Ints:
        """The best choice of every device for one observation (num_features,)."""
        if isinstance(self.policy, MlpPolicy):
            return self.policy.decide(observation, mask)
        return self.policy.decide_batch(observation[None], mask[None])[0]

    def refuse_misfit(self, problem: Problem, rules: Rules) -> None:
        """A policy acts only on what it was trained for: the same observation and the same choices."""
        stream = compile_stream(problem, rules)
        num_devices, num_kinds = stream.can_run.shape
        names = feature_names(self.sight, list(kind_names(problem)), num_devices, num_branches(stream))
        here = (len(names), num_devices, num_kinds + 1)
        if self.shape != here:
            raise InputError(
                f"trained for another graph or cluster: expected {here[0]} features, {here[1]} devices and "
                f"{here[2]} choices, got {', '.join(str(n) for n in self.shape)}",
                file=self.name,
                field="architecture",
            )
        for mine, theirs in zip(names, self.features, strict=False):
            if mine != theirs:
                raise InputError(
                    f"trained on another observation: expected {mine!r}, got {theirs!r}",
                    file=self.name,
                    field="features",
                )


@cache
def load_learned(name: str) -> Learned:
    """The policy of a weights file, of its card or of a run folder."""
    weights, card = load_policy(name)
    shape = card.architecture
    return Learned(
        MlpPolicy(weights, shape, card),
        name,
        _sight(card.training.get("sight", {}), name),
        bool(card.training.get("waits", False)),
        card.features,
        (shape.num_features, shape.num_heads, shape.num_choices),
    )


def _sight(stored: object, name: str) -> Sight:
    if not isinstance(stored, Mapping) or any(key not in Sight._fields for key in stored):
        raise InputError(f"expected the blocks of an observation, got {stored!r}", file=name, field="sight")
    return Sight(**stored)
