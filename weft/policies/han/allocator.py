"""A trained net for edge clusters as an allocator: it acts by name, wherever allocators do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from weft.errors import InputError
from weft.model.columns import Ints
from weft.model.elastic import ElasticProblem
from weft.policies.checkpoint import Card, load_policy
from weft.policies.han.architecture import MODES, HanArchitecture
from weft.policies.han.forward import HanPolicy
from weft.schedulers.allocators.protocol import Allocation, Deciding
from weft.sim.elastic.observation import ElasticSight

FEATURE_VERSION = "elastic/1"


class FeatureNames(NamedTuple):
    """Names of the columns of what is seen."""

    cluster: tuple[str, ...]
    waiting: tuple[str, ...]
    running: tuple[str, ...]


def feature_names(resources: tuple[str, ...], types: tuple[str, ...]) -> FeatureNames:
    """What a net sees of clusters with these resources and tasks of these types."""
    free = tuple(f"free {name}" for name in resources)
    capacity = tuple(f"capacity {name}" for name in resources)
    kinds = tuple(f"is {name}" for name in types)
    return FeatureNames(
        (*free, *capacity, "queue beyond the set", "tasks in the set", "tasks running"),
        (*(f"least {name}" for name in resources), *kinds, "steps waited", "clusters connected", "exists"),
        (*(f"{name} given" for name in resources), *kinds, "steps since placed", "progress", "exists"),
    )


def card_features(names: FeatureNames) -> tuple[str, ...]:
    """The same as a card has them."""
    return tuple(f"{node}: {name}" for node, part in names._asdict().items() for name in part)


@dataclass(frozen=True)
class HanAllocator:
    """Picks tasks and units with a trained net; an :class:`weft.schedulers.allocators.protocol.Allocator`."""

    name: str
    policy: HanPolicy
    mode: str = "mixed"
    """``sampled``, ``greedy`` or ``mixed``: what did best in validation."""
    conflicts: str = "softmax"
    """How conflicts over a task were settled in training."""

    def supports(self, problem: ElasticProblem) -> str | None:
        """Why it cannot act on this problem; None: it can."""
        shape = self.policy.architecture
        names = feature_names(problem.resources, tuple(one.name for one in problem.types))
        here = (len(names.cluster), len(names.waiting), len(names.running))
        if here != (shape.cluster, shape.waiting, shape.running):
            resources = (shape.cluster - len(feature_names((), ()).cluster)) // 2
            types = shape.waiting - len(feature_names((), ()).waiting) - resources
            return (
                f"it was trained for {resources} resources and {types} types of task, "
                f"here are {problem.num_resources} and {len(problem.types)}"
            )
        known = () if self.policy.card is None else self.policy.card.features
        if known and known != card_features(names):
            theirs = [name.removeprefix("waiting: is ") for name in known if name.startswith("waiting: is ")]
            return (
                f"it was trained on tasks of the types {' and '.join(theirs)}, here they are "
                f"{' and '.join(one.name for one in problem.types)}"
            )
        if tuple(problem.grid.tolist()) != shape.most:
            grid = "x".join(str(most) for most in problem.grid.tolist())
            return f"it was trained to give at most {shape.grid} units, here tasks may have {grid}"
        return None

    def begin(self, problem: ElasticProblem, seeds: Ints) -> Deciding:
        """Get ready for a batch with one environment per seed."""
        return _AtWork(self.policy, self.mode, [np.random.default_rng(int(seed)) for seed in seeds.tolist()])


class _AtWork:
    """Draws of every environment come from its own seed, so that batches do not matter."""

    def __init__(self, policy: HanPolicy, mode: str, rngs: list[np.random.Generator]) -> None:
        self._policy, self._mode, self._rngs = policy, mode, rngs

    def decide(self, sight: ElasticSight) -> Allocation:
        """What every agent does now."""
        return Allocation(*self._policy.decide(sight, self._mode, self._rngs))


@cache
def load_allocator(name: str) -> HanAllocator:
    """The policy of a weights file, of its card or of a run folder, if it places elastic tasks."""
    weights, card = load_policy(name)
    try:
        return HanAllocator(
            name, HanPolicy(weights, checked_shape(card), card), _mode(card), _conflicts(card)
        )
    except InputError as error:
        raise error.at(file=name) from None


def checked_shape(card: Card) -> HanArchitecture:
    """The shape of a net for edge clusters, if it sees what is seen here."""
    if not isinstance(card.architecture, HanArchitecture):
        raise InputError(f"{card.name} does not place elastic tasks", field="architecture")
    if card.feature_version != FEATURE_VERSION:
        raise InputError(
            f"trained on another feature version: expected {FEATURE_VERSION!r}, got {card.feature_version!r}",
            field="feature_version",
        )
    return card.architecture


def _mode(card: Card) -> str:
    mode = card.training.get("mode", "mixed")
    if mode not in MODES:
        raise InputError(f"expected one of {', '.join(MODES)}, got {mode!r:.60}", field="training.mode")
    return str(mode)


def _conflicts(card: Card) -> str:
    """What the recipe set; unless it did, by Bayes with a softmax over room."""
    recipe = card.training.get("recipe")
    settings = recipe.get("settings") if isinstance(recipe, dict) else None
    named = settings.get("conflicts") if isinstance(settings, dict) else None
    return str(named) if named in ("lowest", "softmax", "count") else "softmax"
