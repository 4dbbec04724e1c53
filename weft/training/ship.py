"""Puts a trained policy among those that ship: ``python -m weft.training.ship RUN@best NAME --command ...``.

A folder of runs stands for the mean of their best weights, where these are weights of a rule: a net's may not be averaged.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

import weft.policies
from weft.errors import InputError
from weft.policies.checkpoint import Card, Weights, load_policy, save_policy
from weft.policies.weights.architecture import WeightsArchitecture

ZOO = Path(weft.policies.__file__).parent / "zoo"


def ship(source: str, name: str, folder: Path = ZOO, **facts: str) -> Card:
    """Copy weights and card under a name of their own; facts (command, data, figures) go to the card."""
    weights, card = mean_policy(Path(source)) if has_runs(source) else load_policy(source)
    return save_policy(
        folder / f"{name}.json", weights, replace(card, name=name, training={**card.training, **facts})
    )


def has_runs(source: str) -> bool:
    """Whether a name stands for the folder of several runs."""
    return any(Path(source).glob("seed-*/best.json"))


def mean_policy(folder: Path) -> tuple[Weights, Card]:
    """The mean of the best weights of every run in a folder, with the card of the first."""
    found = [load_policy(path) for path in sorted(folder.glob("seed-*/best.json"))]
    if not all(isinstance(card.architecture, WeightsArchitecture) for _, card in found):
        raise InputError("expected runs of weights of a rule, whose mean is one too", file=str(folder))
    first, card = found[0]
    return {name: np.mean([one[name] for one, _ in found], axis=0) for name in first}, card


def main(words: list[str] | None = None) -> None:
    """Ship as the words of a command line say."""
    parser = argparse.ArgumentParser(prog="python -m weft.training.ship")
    parser.add_argument("source", help="RUN@best, RUN@last, a card or a folder of runs")
    parser.add_argument("name", help="such as jobshop-oneshot")
    parser.add_argument("--command", required=True, help="the command that trained it")
    parser.add_argument("--figures", default="docs/oneshot.md", help="where its figures stand")
    asked = parser.parse_args(words)
    card = ship(asked.source, asked.name, command=asked.command, figures=asked.figures)
    print(f"{card.name}: {card.weights}, SHA-256 {card.sha256}")


if __name__ == "__main__":
    main()
