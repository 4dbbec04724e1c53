"""Tables of TOML and JSON as dataclasses: what a field may be, and one line for what does not fit.

A field that says its :class:`Rule` (``width: int = checked(80, whole(1))``) is checked whoever makes the dataclass,
if its ``__post_init__`` calls :func:`check`.
"""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from weft.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Default = TypeVar("Default")
Made = TypeVar("Made", bound="DataclassInstance")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean ...?`` where a known name is close, else nothing."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


@dataclass(frozen=True)
class Rule:
    """What a value may be."""

    expected: str
    """In words."""
    fits: Callable[[Any], bool]

    def refuse(self, value: object, place: str) -> None:
        """Raise InputError at this place unless the value fits."""
        if not self.fits(value):
            shown = list(value) if isinstance(value, tuple) else value  # as a person wrote it
            raise InputError(f"expected {self.expected}, got {shown!r:.80}", field=place)

    def or_none(self) -> Rule:
        """The same, or nothing at all."""
        return Rule(f"{self.expected} or none", lambda x: x is None or self.fits(x))

    def several(self, what: str) -> Rule:
        """At least one such value, in a list."""
        return Rule(what, lambda x: isinstance(x, list | tuple) and bool(x) and all(map(self.fits, x)))


MOST_UPDATES, MOST_AT_ONCE, MOST_SAMPLES = 10**6, 2**16, 10**12
"""No training takes more updates, steps more of something together or takes more decisions: a slip of the keys is told at once."""


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether this is a number that a float can hold; true and false are none."""
    return isinstance(value, int | float) and type(value) is not bool and abs(value) <= sys.float_info.max


def whole(least: int, most: float = math.inf) -> Rule:
    """A whole number between these."""
    limits = f">= {least}" if most == math.inf else f"from {least} to {_shown(most)}"
    return Rule(f"a whole number {limits}", lambda x: type(x) is int and least <= x <= most)


def _shown(most: float) -> str:
    return f"{most:g}" if most < 1e6 else f"{most:,.0f}"


def number(least: float = -math.inf, most: float = math.inf) -> Rule:
    """A number between these."""
    limits = (
        "" if least == -math.inf else f" >= {least:g}" if most == math.inf else f" from {least:g} to {most:g}"
    )
    return Rule(f"a number{limits}", lambda x: is_number(x) and least <= x <= most)


POSITIVE = Rule("a number > 0", lambda x: is_number(x) and x > 0)
FLAG = Rule("true or false", lambda x: type(x) is bool)


def one_of(*names: str) -> Rule:
    """One of these texts."""
    shown = [name or "''" for name in names]
    words = " or ".join(shown) if len(shown) < 3 else f"one of {', '.join(shown)}"
    return Rule(words, lambda x: isinstance(x, str) and x in names)


NAME = Rule("a name", lambda x: isinstance(x, str) and x != "")
NAMES = Rule(
    "a list of texts", lambda x: isinstance(x, list | tuple) and all(isinstance(one, str) for one in x)
)


def checked(default: Default, rule: Rule) -> Default:
    """The default of a dataclass's field that has a rule."""
    return field(default=default, metadata={"rule": rule})


def check(made: DataclassInstance, place: str = "") -> None:
    """Refuse a dataclass with a value that breaks the rule of its field; lists become tuples."""
    for one in fields(made):
        value = getattr(made, one.name)
        if "rule" in one.metadata:
            one.metadata["rule"].refuse(value, f"{place}{one.name}")
        if isinstance(value, list):
            object.__setattr__(made, one.name, _frozen(value))


def refuse_changed(made: DataclassInstance, keys: Collection[str], expected: str, place: str = "") -> None:
    """Refuse a dataclass in which one of these fields is not what it is by default: nothing would read it."""
    for one in fields(made):
        value = getattr(made, one.name)
        if one.name in keys and value != one.default:
            raise InputError(f"expected {expected}, got {value!r:.80}", field=f"{place}{one.name}")


def _frozen(value: object) -> object:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def read_table(kind: type[Made], table: object, place: str) -> Made:
    """The dataclass of a table; ``none`` stands for nothing, which TOML cannot say."""
    if not isinstance(table, Mapping):
        raise InputError(f"expected a table, got {table!r:.60}", field=place)
    known = [one.name for one in fields(kind)]
    for key in table:
        if key not in known:
            hint = did_you_mean(key, known) or f"; expected one of {', '.join(known)}"
            raise InputError(f"unknown{hint}", field=f"{place}.{key}")
    return kind(**{key: None if value == "none" else _frozen(value) for key, value in table.items()})
