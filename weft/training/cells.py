"""Lists in the settings of a recipe: every combination is a cell, and problems take the cells in turn. Loads no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import TypeVar

from weft.errors import InputError
from weft.kinds import QUEUES
from weft.scenarios.scenario import Scenario, sweep

T = TypeVar("T")


def cells_of(name: str, settings: Mapping[str, object]) -> tuple[Scenario, ...]:
    """The scenario with each combination of its settings, if it is one of single tasks."""
    found = sweep(name, settings)
    if any(cell.kind is QUEUES for cell in found):
        raise InputError(f"{name} is one repeated job, whose queues algorithm ppo learns", field="scenario")
    return found


def in_turn(cells: Sequence[Scenario], number: int) -> tuple[Scenario, int]:
    """The cell whose turn a number is, and which of its problems."""
    return cells[number % len(cells)], number // len(cells)


def shares(count: int, num_cells: int) -> list[int]:
    """How many of the first ``count`` problems each cell has."""
    return [count // num_cells + (k < count % num_cells) for k in range(num_cells)]


def dealt(groups: Sequence[Sequence[T]]) -> tuple[T, ...]:
    """One of each group in turn, until all are through."""
    nothing = object()
    rounds = chain.from_iterable(zip_longest(*groups, fillvalue=nothing))
    return tuple(one for one in rounds if one is not nothing)  # type: ignore[misc]
