"""Which configurations are played, in which order, and how much is explored in each: the table ``[curriculum]``. Loads no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise, product

from weft.tables import (
    FLAG,
    POSITIVE,
    Rule,
    check,
    checked,
    is_number,
    number,
    one_of,
    refuse_changed,
    whole,
)

DEALT, LEXICOGRAPHIC, UNIFORM, GRAY, EASY, REGRET = ORDERS = (
    "",
    "lexicographic",
    "uniform",
    "gray",
    "easy",
    "regret",
)
"""As the environment deals; one after another; at random; neighbours; from easy to hard; those with most to gain."""
LADDER, DECAY, VISITS, BOTH = EXPLORATIONS = ("ladder", "decay", "visits", "both")
"""That of the learner; less with all decisions; less with those of a configuration; the larger of ladder and visits."""
REGRETS, ERRORS = SCORES = ("regret", "error")
_SHARE = number(0, 1)
_OF_ORDERS = {
    (LEXICOGRAPHIC, GRAY): ("epochs",),
    (REGRET,): ("score", "temperature", "stale_share"),
    (EASY,): ("uniform_share", "rise", "tolerance"),
}
"""Keys that mean something with these orders alone."""
_OF_EXPLORATION = ("epsilon", "epsilon_end", "epsilon_decisions")
"""Keys that mean nothing to the ladder."""


@dataclass(frozen=True)
class Curriculum:
    """Configurations are the cells of a recipe whose settings are lists."""

    order: str = checked(DEALT, one_of(*ORDERS))
    """How configurations follow one another; empty: each environment draws from what it was dealt."""
    is_split: bool = checked(False, FLAG)
    """Whether the episodes of a configuration are spread over all actors, instead of played by one."""
    episodes: int = checked(8, whole(1))
    """S: episodes of a configuration before the next one comes."""
    epochs: int = checked(0, whole(0))
    """E: passes over all configurations of orders that sweep, after which they are drawn uniformly; 0: sweeps to the end."""
    values: int = checked(0, whole(0))
    """k: values of every varied setting that are used, the first ones; 0: all."""
    dimensions: int = checked(0, whole(0))
    """N: settings that vary, the first ones; the rest keep their first value; 0: all."""
    held_out: float = checked(0.0, Rule("a number >= 0 and < 1", lambda x: is_number(x) and 0 <= x < 1))
    """Share of the configurations that are never played in training, and that choose no best policy."""
    score: str = checked(REGRETS, one_of(*SCORES))
    """What ``regret`` goes by: how far a configuration is behind the base rule, or the size of errors."""
    temperature: float = checked(0.3, POSITIVE)
    """Of ranks: the lower, the more often the first ones are played."""
    stale_share: float = checked(0.1, _SHARE)
    """Share of ``regret`` that goes to what was not played for long."""
    uniform_share: float = checked(0.2, _SHARE)
    """Share of ``easy`` that goes to all configurations, lest easy ones are forgotten."""
    rise: float = checked(0.1, POSITIVE)
    """Share of all configurations by which ``easy`` grows."""
    tolerance: float = checked(0.02, number(0))
    """How far the hardest tenth may be behind the base rule for ``easy`` to grow."""
    exploration: str = checked(BOTH, one_of(*EXPLORATIONS))
    """How much is explored where configurations are lent."""
    epsilon: float = checked(0.9, _SHARE)
    """Probability of an explored choice at first: ``decay``, ``visits``, ``both``."""
    epsilon_end: float = checked(0.05, _SHARE)
    """What it falls to."""
    epsilon_decisions: float = checked(1000.0, POSITIVE)
    """Decisions in which it falls: by a factor of e with ``decay``, else as the square root of 1 + visits / this."""

    def __post_init__(self) -> None:
        check(self, "curriculum.")
        if not self.is_leased:
            every = {one.name for one in fields(self)} - {"order"}
            refuse_changed(self, every, "an order too: without one no configurations are lent", "curriculum.")
        for orders, keys in _OF_ORDERS.items():
            if self.order not in orders:
                told = " or ".join(map(repr, orders))
                refuse_changed(self, keys, f"nothing else unless order = {told}", "curriculum.")
        if self.exploration == LADDER:
            told = f"nothing else with exploration = {LADDER!r}"
            refuse_changed(self, _OF_EXPLORATION, told, "curriculum.")

    def refuse_exploring(self, why: str) -> None:
        """Refuse changed keys about exploration and errors, where learning has neither."""
        for key in ("exploration", *_OF_EXPLORATION, "score"):
            default = type(self).__dataclass_fields__[key].default
            refuse_changed(self, {key}, f"{default!r}: {why}", "curriculum.")

    @property
    def is_leased(self) -> bool:
        """Whether anybody chooses configurations."""
        return self.order != DEALT

    @property
    def needs_errors(self) -> bool:
        """Whether configurations are chosen by the errors of decisions."""
        return self.order == REGRET and self.score == ERRORS

    def to_dict(self) -> dict[str, object]:
        """As plain JSON."""
        return asdict(self)


def gray_path(radices: Sequence[int]) -> list[tuple[int, ...]]:
    """All points of a grid, each one step in one dimension from the last: the reflected Gray code of mixed radix."""
    path: list[tuple[int, ...]] = [()]
    for radix in radices:
        longer = []
        for k, before in enumerate(path):
            digits = range(radix) if k % 2 == 0 else range(radix - 1, -1, -1)
            longer += [(*before, digit) for digit in digits]
        path = longer
    return path


def lexicographic_path(radices: Sequence[int]) -> list[tuple[int, ...]]:
    """All points of a grid, the last dimension fastest."""
    return list(product(*(range(radix) for radix in radices)))


def arcs(path: Sequence[int], count: int) -> list[list[int]]:
    """A path cut into so many parts that follow one another, as equal as can be."""
    ends = [round(k * len(path) / count) for k in range(count + 1)]
    return [list(path[a:b]) for a, b in pairwise(ends)]
