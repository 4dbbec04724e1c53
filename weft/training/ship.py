"""Puts a trained policy among those that ship: ``python -m weft.training.ship RUN@best NAME --command ...``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import weft.policies
from weft.policies.checkpoint import Card, load_policy, save_policy

ZOO = Path(weft.policies.__file__).parent / "zoo"


def ship(source: str, name: str, folder: Path = ZOO, **facts: str) -> Card:
    """Copy weights and card under a name of their own; facts (command, data, figures) go to the card."""
    weights, card = load_policy(source)
    return save_policy(
        folder / f"{name}.json", weights, replace(card, name=name, training={**card.training, **facts})
    )


def main(words: list[str] | None = None) -> None:
    """Ship as the words of a command line say."""
    parser = argparse.ArgumentParser(prog="python -m weft.training.ship")
    parser.add_argument("source", help="RUN@best, RUN@last or a card")
    parser.add_argument("name", help="such as jobshop-oneshot")
    parser.add_argument("--command", required=True, help="the command that trained it")
    parser.add_argument("--figures", default="docs/oneshot.md", help="where its figures stand")
    asked = parser.parse_args(words)
    card = ship(asked.source, asked.name, command=asked.command, figures=asked.figures)
    print(f"{card.name}: {card.weights}, SHA-256 {card.sha256}")


if __name__ == "__main__":
    main()
