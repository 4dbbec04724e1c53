"""Tuned weights as a dispatcher of single tasks: a rule like ``priced``, with other numbers."""

from __future__ import annotations

from functools import cache

from weft.errors import InputError
from weft.policies.checkpoint import Card, Weights, load_policy
from weft.policies.weights.architecture import TENSOR, WeightsArchitecture
from weft.schedulers.dispatchers.tasks import RuleDispatcher
from weft.sim.tasks.rules import LATE
from weft.sim.tasks.weights import NUM_WEIGHTS, READABLE, VERSION


def dispatcher_of(name: str, weights: Weights, card: Card) -> RuleDispatcher:
    """The rule of these weights, if they are for the features that rules have."""
    if not isinstance(card.architecture, WeightsArchitecture):
        raise InputError(f"{card.name} is no vector of weights", field="architecture")
    if card.features != READABLE.get(card.feature_version):
        raise InputError(
            f"trained on other features: expected {VERSION!r}, got {card.feature_version!r}",
            field="feature_version",
        )
    known = weights[TENSOR].astype(float).tolist()
    return RuleDispatcher(name, LATE, weights=(*known, *[0.0] * (NUM_WEIGHTS - len(known))))


@cache
def load_weights(name: str) -> RuleDispatcher:
    """The rule of a weights file, of its card or of a run folder, read once."""
    return read_weights(name)


def read_weights(name: str) -> RuleDispatcher:
    """The rule of a weights file, of its card or of a run folder, as it is now."""
    weights, card = load_policy(name)
    try:
        return dispatcher_of(name, weights, card)
    except InputError as error:
        raise error.at(file=name) from None
