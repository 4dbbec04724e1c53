"""What series, kinds of task and copies look like: one table for pictures, reports and the terminal.

Colours are Okabe and Ito's, told apart with any colour vision, some of them darker to stand out on white.
After the eighth, dashes of lines and hatches of bars begin to differ, so that no two look alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

SERIES = (
    ("#0072b2", "#4aa3e0"),
    ("#d55e00", "#f0803c"),
    ("#009e73", "#1fc095"),
    ("#cc79a7", "#de9cc3"),
    ("#c78a00", "#e6b23a"),
    ("#3a9bd6", "#9ad6f5"),
    ("#1b1f24", "#e8eaed"),
    ("#8c8c8c", "#9a9a9a"),
)
"""Colours of lines and of bars of schedulers, on a light page and on a dark one."""
DASHES = ("-", "--", ":", "-.")
"""Of lines, as matplotlib writes them."""
MARKS = "osD^vPX*"
"""Of points, as matplotlib writes them."""
TONES = (1.0, 0.62, 0.36, 0.16)
"""How solid the bars of a scheduler are filled."""
KINDS = (
    ("#56b4e9", "#56b4e9"),
    ("#e69f00", "#e69f00"),
    ("#009e73", "#14b88a"),
    ("#f0e442", "#f0e442"),
    ("#0072b2", "#3d8fd1"),
    ("#d55e00", "#ec7a35"),
    ("#cc79a7", "#d48db6"),
    ("#8c8c8c", "#9a9a9a"),
)
"""Colours of kinds of task, on a light page and on a dark one."""
HATCHES = ("", "....", "||||", "----")
"""Of kinds of task, as matplotlib writes them; none is slanted, for copies are."""
COPY_HATCH = "/////"
MOST_KINDS = len(KINDS) * len(HATCHES)
"""As many kinds can be told apart; the others share one look."""
REST = ("#333333", "#5a6068")
CUT = "intervals beyond the axis are cut"
_REACH = 3.0
"""Intervals further out than this many times the span of all values are cut, or nobody would see the values."""


class SeriesLook(NamedTuple):
    """A line with its marks, or a set of bars."""

    colour: int  # into SERIES
    dash: int  # into DASHES and TONES
    mark: int  # into MARKS


class KindLook(NamedTuple):
    """The bars of one kind of task, with the ink of their labels."""

    light: str
    light_ink: str
    dark: str
    dark_ink: str
    hatch: int  # into HATCHES


def series_look(k: int) -> SeriesLook:
    """The look of series k: different for the first 32, with marks for 256."""
    row, colour = divmod(k, len(SERIES))
    shift, dash = divmod(row, len(DASHES))
    return SeriesLook(colour, dash, (colour + shift) % len(MARKS))


def kind_look(k: int) -> KindLook:
    """The look of kind k: different for the first 32, one for all others."""
    light, dark = KINDS[k % len(KINDS)] if k < MOST_KINDS else REST
    hatch = k // len(KINDS) if k < MOST_KINDS else 0
    return KindLook(light, ink_on(light), dark, ink_on(dark), hatch)


def ink_on(colour: str) -> str:
    """Black or white, whichever is easier to read on a colour."""
    return max("#000000", "#ffffff", key=lambda ink: contrast(ink, colour))


def contrast(first: str, second: str) -> float:
    """Contrast of two colours ``#rrggbb`` by WCAG 2: from 1 to 21."""
    low, high = sorted(_luminance(colour) for colour in (first, second))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    shares = [int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def limits(values: Sequence[float], ends: Sequence[float]) -> tuple[float, float]:
    """From where to where an axis reaches that shows finite values, at least one, and the ends of their intervals."""
    low, high = min(values), max(values)
    far = _REACH * (high - low or abs(high) or 1.0)
    return max(min([low, *ends]), low - far), min(max([high, *ends]), high + far)


def legend_name(name: str) -> str:
    """The name as matplotlib's legends take it: they leave out one that begins with an underscore."""
    return f" {name}" if name.startswith("_") else name
