"""Small drawings as SVG text: lines with intervals, steps, dots with intervals, bars.

The same numbers give the same bytes. Colours are classes ``c0`` to ``c7`` of the page, so that a
drawing follows the reader's dark mode and printer; marks and dashes are those of :mod:`looks`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple

import numpy as np

from weft.evaluation.figures.looks import CUT, DASHES, MARKS, TONES, limits, series_look
from weft.model.graph import Floats

WIDTH, HEIGHT = 760.0, 340.0
_LETTER = 6.6
"""Mean width of a letter at 12 px."""
_DODGE = 3.0
"""Pixels between the intervals of two series at one place."""


@dataclass(frozen=True, eq=False)
class Series:
    """One line: a value per place, and the ends of its interval where there is one."""

    name: str
    x: Floats  # (num_points,)
    y: Floats  # (num_points,)
    low: Floats | None = None  # (num_points,)
    high: Floats | None = None  # (num_points,)
    look: int = 0
    """Which colour, mark and dashes: the number of the series."""


@dataclass(frozen=True)
class Axes:
    """What the axes say, and where they are."""

    x_label: str
    y_label: str
    width: float = WIDTH
    height: float = HEIGHT
    y_from_zero: bool = False
    y_range: tuple[float, float] | None = None
    zero: str = ""
    """What a value of 0 means: a dashed line with this name."""
    x_ticks: tuple[float, ...] = ()
    """Where the axis is labelled; empty: at round numbers."""
    is_log: bool = False
    """Whether the x axis counts factors."""
    has_legend: bool = True
    x_format: Callable[[float], str] = lambda value: f"{value:g}"


class Dot(NamedTuple):
    """One value with its interval."""

    name: str
    value: float
    low: float
    high: float
    look: int = 0


@dataclass(frozen=True)
class _Frame:
    """From values to pixels."""

    left: float
    right: float
    top: float
    bottom: float
    x0: float
    x1: float
    y0: float
    y1: float
    is_log: bool = False

    def x(self, value: float) -> float:
        value = math.log10(value) if self.is_log else value
        return self.left + (value - self.x0) / (self.x1 - self.x0) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - (value - self.y0) / (self.y1 - self.y0) * (self.bottom - self.top)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers within a range."""
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [low]
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(k * power for k in (1.0, 2.0, 2.5, 5.0, 10.0) if k * power >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    return [round((first + k) * step, 12) + 0.0 for k in range(count)]


def line_chart(series: Sequence[Series], axes: Axes, *, is_step: bool = False, has_marks: bool = True) -> str:
    """Lines over a numeric axis, with a bar for every interval."""
    frame = _frame(series, axes)
    parts = [_grid(frame, axes)]
    for place, one in enumerate(series):
        is_dodged = has_marks and one.low is not None
        shift = _DODGE * (place - (len(series) - 1) / 2) if is_dodged else 0.0
        parts.append(_line(frame, one, shift, is_step, has_marks))
    if any(not frame.y0 <= end <= frame.y1 for end in _ends(series)):
        parts.append(_text(frame.right, frame.top + 8.0, CUT, "end", "note"))
    if not axes.has_legend:
        return _document(axes.width, axes.height, parts)
    names = [(one.name, one.look) for one in series]
    legend, height = _legend(names, axes.width, axes.height, has_marks, axes.zero)
    return _document(axes.width, axes.height + height, [*parts, legend])


def legend_of(entries: Sequence[tuple[str, int]]) -> str:
    """A drawing of the legend alone, names with their looks, for several charts together."""
    drawn, height = _legend(entries, WIDTH, 0.0, True, "")
    return _document(WIDTH, height, [drawn])


def _frame(series: Sequence[Series], axes: Axes) -> _Frame:
    xs = [float(x) for one in series for x in one.x]
    xs = [math.log10(x) for x in xs] if axes.is_log else xs
    x0, x1 = _padded(min(xs, default=0.0), max(xs, default=1.0), 0.03 if axes.x_ticks else 0.0)
    y0, y1 = axes.y_range or _padded(*_limits(series, axes), 0.06)
    if axes.y_from_zero:
        y0 = 0.0
    label = max(len(f"{tick:g}") for tick in ticks(y0, y1)) * _LETTER
    return _Frame(34.0 + label, axes.width - 14.0, 10.0, axes.height - 44.0, x0, x1, y0, y1, axes.is_log)


def _limits(series: Sequence[Series], axes: Axes) -> tuple[float, float]:
    """The smallest and the largest number to be shown."""
    values = [float(y) for one in series for y in one.y if math.isfinite(y)]
    values += [0.0] if axes.zero or axes.y_from_zero else []
    return limits(values, _ends(series)) if values else (0.0, 1.0)


def _ends(series: Sequence[Series]) -> list[float]:
    ends = [column for one in series for column in (one.low, one.high) if column is not None]
    return [float(v) for column in ends for v in column if math.isfinite(v)]


def _padded(low: float, high: float, share: float) -> tuple[float, float]:
    if high - low < 1e-12 * max(abs(low), abs(high), 1e-300):
        half = 0.5 * abs(low) or 0.5
        return low - half, high + half
    return low - share * (high - low), high + share * (high - low)


def _grid(frame: _Frame, axes: Axes) -> str:
    parts = []
    for tick in ticks(frame.y0, frame.y1):
        y = frame.y(tick)
        parts.append(f'<path class="grid" d="M{_f(frame.left)} {_f(y)}H{_f(frame.right)}"/>')
        parts.append(_text(frame.left - 6, y + 4, f"{tick:g}", "end"))
    for tick in axes.x_ticks or ticks(frame.x0, frame.x1, 10 if axes.width > 500 else 4):
        x = frame.x(tick)
        parts.append(f'<path class="axis" d="M{_f(x)} {_f(frame.bottom)}v4"/>')
        parts.append(_text(x, frame.bottom + 18, axes.x_format(tick), "middle"))
    parts.append(f'<path class="axis" d="M{_f(frame.left)} {_f(frame.bottom)}H{_f(frame.right)}"/>')
    middle = (frame.left + frame.right) / 2
    parts.append(_text(middle, axes.height - 8, axes.x_label, "middle", "label"))
    turn = f'transform="rotate(-90 14 {_f((frame.top + frame.bottom) / 2)})"'
    parts.append(_text(14, (frame.top + frame.bottom) / 2, axes.y_label, "middle", "label", turn))
    if axes.zero and frame.y0 <= 0 <= frame.y1:
        y = frame.y(0.0)
        parts.append(f'<path class="zero" d="M{_f(frame.left)} {_f(y)}H{_f(frame.right)}"/>')
    return "".join(parts)


def _line(frame: _Frame, one: Series, shift: float, is_step: bool, has_marks: bool) -> str:
    points = [
        (frame.x(float(x)) + shift, frame.y(float(y)), k)
        for k, (x, y) in enumerate(zip(one.x, one.y, strict=True))
        if math.isfinite(y)
    ]
    if not points:
        return ""
    parts = [f'<path class="line {_css(one.look)}" d="{_path(points, is_step)}"/>']
    if not has_marks and one.low is not None and one.high is not None:
        parts.insert(0, _band(frame, one, one.low, one.high))
    for x, y, k in points if has_marks else []:
        said = f"{one.name}: {float(one.y[k]):.5g} at {float(one.x[k]):g}"
        bar = ""
        if one.low is not None and one.high is not None and math.isfinite(one.low[k] + one.high[k]):
            low, high = float(one.low[k]), float(one.high[k])
            said += f" ({low:.5g} to {high:.5g})"
            bar = _whisker(x, frame, (low, high), one.look)
        parts.append(f"<g>{bar}{_mark(x, y, one.look)}<title>{escape(said)}</title></g>")
    return "".join(parts)


def _band(frame: _Frame, one: Series, low: Floats, high: Floats) -> str:
    """The intervals of a line without marks, as an area."""

    def edge(ends: Floats) -> list[tuple[float, float, int]]:
        pairs = zip(one.x.tolist(), np.clip(ends, frame.y0, frame.y1).tolist(), strict=True)
        return [(frame.x(x), frame.y(y), 0) for x, y in pairs if math.isfinite(y)]

    there, back = edge(low), edge(high)[::-1]
    return f'<path class="band {_colour(one.look)}" d="{_path([*there, *back], False)}Z"/>'


def _path(points: Sequence[tuple[float, float, int]], is_step: bool) -> str:
    words = [f"M{_f(points[0][0])} {_f(points[0][1])}"]
    for x, y, _ in points[1:]:
        words.append(f"H{_f(x)}V{_f(y)}" if is_step else f"L{_f(x)} {_f(y)}")
    return "".join(words)


def _whisker(x: float, frame: _Frame, ends: tuple[float, float], look: int) -> str:
    """The bar of an interval, without a cap where it is cut."""
    low, high = (frame.y(min(max(end, frame.y0), frame.y1)) for end in ends)
    caps = "".join(f"M{_f(x - 3)} {_f(frame.y(end))}h6" for end in ends if frame.y0 <= end <= frame.y1)
    return f'<path class="bar {_colour(look)}" d="M{_f(x)} {_f(low)}V{_f(high)}{caps}"/>'


def _mark(x: float, y: float, look: int, size: float = 4.0) -> str:
    """A shape per look, so that lines differ in print and without colour vision; hollow where lines have dashes."""
    own = series_look(look)
    css = f'class="mark {"hollow " if own.dash else ""}{_colour(look)}"'
    if MARKS[own.mark] == "o":
        return f'<circle {css} cx="{_f(x)}" cy="{_f(y)}" r="{_f(size)}"/>'
    corners = [(x + size * dx, y + size * dy) for dx, dy in _SHAPES[MARKS[own.mark]]]
    return f'<path {css} d="M{"L".join(f"{_f(px)} {_f(py)}" for px, py in corners)}z"/>'


def _turned(corners: Sequence[tuple[float, float]], angle: float) -> list[tuple[float, float]]:
    cos, sin = math.cos(angle), math.sin(angle)
    return [(cos * x - sin * y, sin * x + cos * y) for x, y in corners]


_PLUS = [
    (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4),
    (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4),
]  # fmt: skip
_STAR = [
    (r * math.sin(k * math.pi / 5), -r * math.cos(k * math.pi / 5))
    for k in range(10)
    for r in ((1.5, 0.6)[k % 2],)
]
_SHAPES: dict[str, Sequence[tuple[float, float]]] = {
    "s": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
    "D": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
    "^": [(0, -1.3), (1.2, 0.7), (-1.2, 0.7)],
    "v": [(0, 1.3), (1.2, -0.7), (-1.2, -0.7)],
    "P": _PLUS,
    "X": _turned(_PLUS, math.pi / 4),
    "*": _STAR,
}
"""Corners of the marks, in units of their size."""
_DASH_CLASSES = dict(zip(DASHES, ("", " dash", " dots", " dashdot"), strict=True))


def _colour(look: int) -> str:
    return f"c{series_look(look).colour}"


def _css(look: int) -> str:
    return f"{_colour(look)}{_DASH_CLASSES[DASHES[series_look(look).dash]]}"


def _fill(look: int) -> str:
    return f'class="fill {_colour(look)}" fill-opacity="{TONES[series_look(look).dash]:g}"'


def _legend(
    entries: Sequence[tuple[str, int]], width: float, top: float, has_marks: bool, zero: str
) -> tuple[str, float]:
    """Names with line and mark, in as many rows as they need; and the height of it."""
    parts, x, y = [], 20.0, top + 16.0
    looks = [f"line {_css(look)}" for _, look in entries]
    marks = [_mark(0.0, 0.0, look) if has_marks else "" for _, look in entries]
    names = [name for name, _ in entries]
    if zero:
        names, looks, marks = [*names, zero], [*looks, "zero"], [*marks, ""]
    for name, css, mark in zip(names, looks, marks, strict=True):
        need = 40.0 + len(name) * _LETTER + 14.0
        if x > 20.0 and x + need > width:
            x, y = 20.0, y + 20.0
        line = f'<path class="{css}" d="M{_f(x)} {_f(y - 4)}h30"/>'
        moved = f'<g transform="translate({_f(x + 15)} {_f(y - 4)})">{mark}</g>' if mark else ""
        parts.append(line + moved + _text(x + 36, y, name, "start"))
        x += need
    return "".join(parts), y + 8.0 - top if names else 0.0


def interval_chart(rows: Sequence[Dot], x_label: str, zero: str) -> str:
    """One line per name: a value with its interval on a horizontal axis, a dashed line at 0."""
    left = 30.0 + _LETTER * max(len(one.name) for one in rows)
    height = 26.0 * len(rows) + 66.0
    ends = [v for one in rows for v in (one.value, one.low, one.high) if math.isfinite(v)] + [0.0]
    x0, x1 = _padded(min(ends), max(ends), 0.05)
    frame = _Frame(left, WIDTH - 20.0, 24.0, height - 42.0, x0, x1, 0.0, 1.0)
    parts = []
    for tick in ticks(x0, x1, 8):
        x = frame.x(tick)
        parts.append(f'<path class="grid" d="M{_f(x)} {_f(frame.top)}V{_f(frame.bottom)}"/>')
        parts.append(_text(x, frame.bottom + 18, f"{tick:g}", "middle"))
    at_zero = frame.x(0.0)
    parts.append(f'<path class="zero" d="M{_f(at_zero)} {_f(frame.top)}V{_f(frame.bottom)}"/>')
    parts.append(_text(at_zero, 16, zero, "middle", "note"))
    parts.append(_text((frame.left + frame.right) / 2, height - 6, x_label, "middle", "label"))
    for k, (name, value, low, high, look) in enumerate(rows):
        y = frame.top + 13.0 + 26.0 * k
        parts.append(_text(left - 10, y + 4, name, "end"))
        said = f"{name}: {value:.4g} ({low:.4g} to {high:.4g})"
        span = f'<path class="bar {_colour(look)}" d="M{_f(frame.x(low))} {_f(y)}H{_f(frame.x(high))}"/>'
        parts.append(f"<g>{span}{_mark(frame.x(value), y, look)}<title>{escape(said)}</title></g>")
    return _document(WIDTH, height, parts)


def bar_chart(
    groups: Sequence[tuple[str, Sequence[float]]],
    names: Sequence[tuple[str, int]],
    x_label: str,
    most: float = 1.0,
) -> str:
    """Horizontal bars in groups, one bar per name with its look, from 0 to ``most``."""
    left = 20.0 + _LETTER * max(len(label) for label, _ in groups)
    step = 14.0 * len(names) + 12.0
    height = step * len(groups) + 52.0
    frame = _Frame(left, WIDTH - 60.0, 8.0, height - 44.0, 0.0, most, 0.0, 1.0)
    parts = []
    for tick in ticks(0.0, most, 5):
        x = frame.x(tick)
        parts.append(f'<path class="grid" d="M{_f(x)} {_f(frame.top)}V{_f(frame.bottom)}"/>')
        parts.append(_text(x, frame.bottom + 18, f"{100 * tick:g} %", "middle"))
    for g, (label, values) in enumerate(groups):
        top = frame.top + 6.0 + step * g
        parts.append(_text(left - 10, top + 7.0 * len(names) + 4, label, "end"))
        for k, value in enumerate(values):
            y, end = top + 14.0 * k, frame.x(value)
            name, look = names[k]
            said = escape(f"{name}, {label}: {100 * value:.1f} %")
            box = f'x="{_f(left)}" y="{_f(y)}" width="{_f(end - left)}" height="11"'
            parts.append(f"<rect {_fill(look)} {box}><title>{said}</title></rect>")
            parts.append(_text(end + 4, y + 9.5, f"{100 * value:.0f} %", "start", "note"))
    parts.append(_text((frame.left + frame.right) / 2, height - 8, x_label, "middle", "label"))
    axes = Axes("", "", height=height)
    legend, more = _bar_legend(names, axes)
    return _document(WIDTH, height + more, [*parts, legend])


def stacked_chart(
    groups: Sequence[tuple[str, Sequence[float]]],
    names: Sequence[tuple[str, int]],
    x_label: str,
) -> str:
    """One horizontal bar per group, made of one part per name with its look."""
    left = 20.0 + _LETTER * max(len(label) for label, _ in groups)
    height = 22.0 * len(groups) + 52.0
    most = max(sum(values) for _, values in groups) or 1.0
    frame = _Frame(left, WIDTH - 40.0, 8.0, height - 44.0, 0.0, most, 0.0, 1.0)
    parts = []
    for tick in ticks(0.0, most, 8):
        parts.append(f'<path class="grid" d="M{_f(frame.x(tick))} {_f(frame.top)}V{_f(frame.bottom)}"/>')
        parts.append(_text(frame.x(tick), frame.bottom + 18, f"{tick:g}", "middle"))
    for g, (label, values) in enumerate(groups):
        y, upto = frame.top + 4.0 + 22.0 * g, 0.0
        parts.append(_text(left - 10, y + 11, label, "end"))
        for (name, look), value in zip(names, values, strict=True):
            x, upto = frame.x(upto), upto + value
            box = f'x="{_f(x)}" y="{_f(y)}" width="{_f(frame.x(upto) - x)}" height="15"'
            said = escape(f"{label}, {name}: {value:.4g}")
            parts.append(f"<rect {_fill(look)} {box}><title>{said}</title></rect>" if value > 0 else "")
    parts.append(_text((frame.left + frame.right) / 2, height - 8, x_label, "middle", "label"))
    legend, more = _bar_legend(names, Axes("", "", height=height))
    return _document(WIDTH, height + more, [*parts, legend])


def _bar_legend(names: Sequence[tuple[str, int]], axes: Axes) -> tuple[str, float]:
    parts, x, y = [], 20.0, axes.height + 14.0
    for name, look in names:
        need = 24.0 + len(name) * _LETTER + 14.0
        if x > 20.0 and x + need > axes.width:
            x, y = 20.0, y + 20.0
        box = f'<rect {_fill(look)} x="{_f(x)}" y="{_f(y - 10)}" width="14" height="11"/>'
        parts.append(box + _text(x + 20, y, name, "start"))
        x += need
    return "".join(parts), y + 8.0 - axes.height


def _text(x: float, y: float, words: str, anchor: str, css: str = "tick", more: str = "") -> str:
    place = f'x="{_f(x)}" y="{_f(y)}" text-anchor="{anchor}"'
    return f'<text class="{css}" {place}{" " + more if more else ""}>{escape(words)}</text>'


def _document(width: float, height: float, parts: Sequence[str]) -> str:
    box = f'viewBox="0 0 {_f(width)} {_f(height)}" width="{_f(width)}" height="{_f(height)}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" {box}>{"".join(parts)}</svg>'


def _f(value: float) -> str:
    """A coordinate: one decimal, no negative zero."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text
