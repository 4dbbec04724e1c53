"""Schedulers of a stream by name: dispatchers, and policies from files with how they see a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from weft import catalog
from weft.errors import InputError
from weft.model.graph import Bools, Ints
from weft.schedulers.dispatch import Dispatcher
from weft.sim.env import Setup
from weft.sim.observe import FEATURE_VERSION, Sight, feature_names
from weft.sim.streams import compile_stream, kind_names, num_branches

_WEIGHTS = (".safetensors", ".json")

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
    shape: tuple[int, int, int]
    """Number of features, devices and choices."""
    trained_at: float | None
    """The one probability it was trained at; None: many, or the card does not say."""


def chooser(name: str) -> Dispatcher | Learned:
    """The dispatcher of this name, or the policy that ships, of a weights file or of a run folder."""
    name = catalog.policy_file(name) or name
    is_file = Path(name).suffix in _WEIGHTS or name.endswith(("@best", "@last")) or Path(name).is_dir()
    return read_policy(name) if is_file else catalog.dispatcher(name)


@cache
def read_policy(name: str) -> Learned:
    """The policy of a weights file or run folder."""
    from weft.policies.checkpoint import load_policy
    from weft.policies.forward import MlpPolicy

    weights, card = load_policy(name)
    shape = card.architecture
    return Learned(
        MlpPolicy(weights, shape, card),
        name,
        _sight(card.training.get("sight", {}), name),
        bool(card.training.get("waits", False)),
        bool(card.training.get("narrows", False)),
        card.feature_version,
        card.features,
        (shape.num_features, shape.num_heads, shape.num_choices),
        _trained_at(card.training.get("recipe")),
    )


def _trained_at(recipe: object) -> float | None:
    p_c = recipe.get("p_c") if isinstance(recipe, Mapping) else None
    return float(p_c) if isinstance(p_c, int | float) and not isinstance(p_c, bool) else None


def _sight(stored: object, name: str) -> Sight:
    if not isinstance(stored, Mapping) or any(key not in Sight._fields for key in stored):
        raise InputError(f"expected the blocks of an observation, got {stored!r}", file=name, field="sight")
    return Sight(**stored)


def refuse_misfit(chosen: Learned, setup: Setup) -> None:
    """A policy acts only on what it was trained for: the same observation and the same choices."""
    if chosen.version not in ("", FEATURE_VERSION):
        raise InputError(
            f"trained on another feature version: expected {FEATURE_VERSION!r}, got {chosen.version!r}",
            file=chosen.name,
            field="feature_version",
        )
    stream = compile_stream(setup.problem, setup.rules)
    num_devices, num_kinds = stream.can_run.shape
    names = feature_names(setup.sight, list(kind_names(setup.problem)), num_devices, num_branches(stream))
    here = (len(names), num_devices, num_kinds + 1)
    if chosen.shape != here:
        raise InputError(
            f"trained for another graph or cluster: expected {here[0]} features, {here[1]} devices and "
            f"{here[2]} choices, got {', '.join(str(n) for n in chosen.shape)}",
            file=chosen.name,
            field="architecture",
        )
    for mine, theirs in zip(names, chosen.features, strict=False):
        if mine != theirs:
            raise InputError(
                f"trained on another observation: expected {mine!r}, got {theirs!r}",
                file=chosen.name,
                field="features",
            )


def policy_hashes(schedulers: Sequence[str]) -> dict[str, str]:
    """SHA-256 of the weights of every policy among these: a name may stand for others tomorrow."""
    from weft.policies.checkpoint import load_policy

    learned = [name for name in schedulers if isinstance(chooser(name), Learned)]
    return {name: load_policy(catalog.policy_file(name) or name)[1].sha256 for name in learned}
