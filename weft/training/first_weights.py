"""Weights a run begins with: those of a run, a file or a policy that ships, refused where they do not fit."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from weft import catalog
from weft.errors import InputError
from weft.policies.checkpoint import Card, Weights, load_policy, read_card
from weft.tables import did_you_mean


def starting_weights(start: str | None, card: Card) -> Weights | None:
    """The weights of this name for a policy of this card; None where no name is given."""
    if start is None:
        return None
    weights, other = _found(start, card)
    _refuse_other_sight(other, card, start)
    _refuse_other_shape(other, card, start)
    return weights


def starting_card(start: str, card: Card) -> Card:
    """What the weights of this name are, for a policy of this card."""
    return _found(start, card)[1]


def _found(start: str, card: Card) -> tuple[Weights, Card]:
    file = _shipped(start, card) or start
    if not catalog.is_weights(file) and not Path(file).exists():
        hint = did_you_mean(start, catalog.POLICIES)
        raise InputError(
            f"expected weights, a run or a policy that ships, got {start!r:.80}{hint}", field="from"
        )
    return load_policy(file)


def _shipped(name: str, card: Card) -> str | None:
    """What ships under a name for the kind of run a policy acts in; a short name may stand for several."""
    files = [*catalog.policy_files(name).values()]
    alike = [file for file in files if read_card(Path(file)).feature_version == card.feature_version]
    return next(iter(alike or files), None)


def _refuse_other_sight(other: Card, card: Card, start: str) -> None:
    """Features and kinds must be the same; whether the last choice idles or waits may differ."""
    if type(other.architecture) is not type(card.architecture):
        message = f"expected {_net(card)} as the recipe trains, got {_net(other)}"
        raise InputError(message, file=start, field="architecture")
    pairs = {"features": (other.features, card.features), "choices": (other.choices[:-1], card.choices[:-1])}
    for field, (theirs, ours) in pairs.items():
        if theirs and theirs != ours:
            first = next((b, a) for a, b in zip((*theirs, None), (*ours, None), strict=False) if a != b)
            raise InputError(
                "these weights see or choose something else than the recipe: "
                f"expected {first[0]!r}, got {first[1]!r}",
                file=start,
                field=field,
            )


def _refuse_other_shape(other: Card, card: Card, start: str) -> None:
    theirs, ours = asdict(other.architecture), asdict(card.architecture)
    for key, value in ours.items():
        if theirs[key] != value:
            raise InputError(
                f"these weights have another shape than the recipe: expected {value!r}, got {theirs[key]!r}",
                file=start,
                field=f"architecture.{key}",
            )


def _net(card: Card) -> str:
    names = {"Architecture": "a perceptron", "GraphArchitecture": "a graph net", "EncoderShape": "a planner"}
    names |= {"CandidateArchitecture": "a net of candidates", "PickArchitecture": "a net that picks tasks"}
    names |= {"WeightsArchitecture": "weights of a rule", "HanArchitecture": "a net of edge clusters"}
    return names[type(card.architecture).__name__]
