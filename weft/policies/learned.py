"""A trained dispatcher as it is used: the policy, how it sees a stream, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.model.graph import Bools, Ints
from weft.model.problem import Problem
from weft.policies.checkpoint import Architecture, load_policy
from weft.policies.graph.forward import policy_of
from weft.policies.guard import Guard, fingerprint, guard_of
from weft.policies.mlp.forward import MlpPolicy
from weft.policies.sight import read_sight
from weft.sim.queues.layout import Rules, compile_stream, kind_names, num_branches
from weft.sim.queues.observation import FEATURE_VERSION, GRAPH_FEATURES, Sight, feature_names
from weft.tables import is_number

Floats32 = npt.NDArray[np.float32]
Narrow = Callable[[Bools, int, Ints], None]
"""Called as (mask, device, choices) after each device chose: may rule out choices of later ones."""


class Policy(Protocol):
    """Whatever decides for all environments at once, e.g. ``policies.forward.MlpPolicy``."""

    def decide_batch(
        self,
        observation: Floats32,  # (num_envs, num_features)
        mask: Bools,  # (num_envs, num_devices, num_kinds + 1)
        rng: np.random.Generator | None = None,
        narrow: Narrow | None = None,
    ) -> Ints:  # (num_envs, num_devices)
        """A kind per device, num_kinds to idle; drawn if ``rng`` is given, else the best.

        ``narrow`` comes only where devices choose one after another (``Setup.narrows``).
        """


@dataclass(frozen=True)
class Learned:
    """A policy from a file, with how it sees a stream."""

    policy: Policy
    name: str
    sight: Sight
    waits: bool
    narrows: bool
    """Whether its devices chose one after another in training, each from what was left."""
    version: str
    """Feature version; empty where the card does not say."""
    features: tuple[str, ...]
    """Names of what it observes; empty where the card does not say."""
    shape: tuple[int, int, int] | None
    """Number of features, devices and choices; None: it acts on any graph and cluster."""
    fingerprint: str = ""
    """Of the graph and cluster it was trained on; empty where the card does not say."""
    guard: Guard | None = None
    """Tells what lies beyond its training; None: anything goes."""
    trained_at: float | None = None
    """The one probability it was trained at; None: many, or the card does not say."""

    def clone(self) -> Learned:
        """The same policy with buffers of its own: what is loaded once may decide in several threads."""
        return replace(self, policy=self.policy.clone()) if isinstance(self.policy, MlpPolicy) else self

    def decide(self, observation: Floats32, mask: Bools, narrow: Narrow | None = None) -> Ints:
        """The best choice of every device for one observation (num_features,)."""
        if isinstance(self.policy, MlpPolicy) and narrow is None:
            return self.policy.decide(observation, mask)
        return self.policy.decide_batch(observation[None], mask[None], None, narrow)[0]

    def refuse_misfit(self, problem: Problem, rules: Rules) -> None:
        """A policy acts only on what it was trained for: the same observation and the same choices."""
        expected = GRAPH_FEATURES if self.sight.graph else FEATURE_VERSION
        if self.version not in ("", expected):
            raise InputError(
                f"trained on another feature version: expected {expected!r}, got {self.version!r}",
                file=self.name,
                field="feature_version",
            )
        if self.shape is None:
            return
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
        if self.fingerprint and self.fingerprint != fingerprint(problem):
            raise InputError(
                "trained for another graph or cluster: kinds and devices have the same names, but edges, run "
                "times or batches differ",
                file=self.name,
                field="training.fingerprint",
            )


@cache
def load_learned(name: str) -> Learned:
    """The policy of a weights file, of its card or of a run folder."""
    weights, card = load_policy(name)
    shape = card.architecture
    return Learned(
        policy_of(weights, card),
        name,
        _sight(card.training.get("sight", {}), name),
        bool(card.training.get("waits", False)),
        bool(card.training.get("narrows", False)),
        card.feature_version,
        card.features,
        (shape.num_features, shape.num_heads, shape.num_choices) if isinstance(shape, Architecture) else None,
        str(card.training.get("fingerprint", "")),
        guard_of(card),
        _trained_at(card.training.get("recipe")),
    )


def _trained_at(recipe: object) -> float | None:
    """The one value, of a setting that others draw, at which a policy was trained."""
    if not isinstance(recipe, Mapping):
        return None
    vary = recipe.get("vary")
    own = recipe["settings"].get(vary["setting"]) if vary else recipe.get("p_c")  # as weft 0.1 wrote it
    return float(own) if is_number(own) else None


def _sight(stored: object, name: str) -> Sight:
    try:
        return read_sight(stored, "training.sight")
    except InputError as error:
        raise error.at(file=name) from None
