"""The parts a report is made of; renderers turn them into HTML and Markdown, nothing else does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.model.graph import Floats, Ints

Value = str | float | int | None


@dataclass(frozen=True)
class Text:
    """Paragraphs; as points of a list if ``is_list``."""

    lines: tuple[str, ...]
    is_list: bool = False


@dataclass(frozen=True)
class Table:
    """A table small enough to print whole; cells are shown as they are."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()
    """Columns set flush right."""
    caption: str = ""
    strong: tuple[tuple[int, int], ...] = ()
    """(row, column) of the cells that stand out."""


@dataclass(frozen=True, eq=False)
class BigTable:
    """A table of any length, shown page by page, sorted and filtered by the reader."""

    headers: tuple[str, ...]
    columns: tuple[Sequence[str] | Floats, ...]
    caption: str = ""

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0]) if self.columns else 0


@dataclass(frozen=True)
class Figure:
    """A drawing as SVG, with what it shows in words."""

    svg: str
    caption: str
    alt: str


@dataclass(frozen=True)
class Figures:
    """Several small drawings beside one another, under one caption."""

    svgs: tuple[str, ...]
    caption: str
    alt: str
    legend: str = ""
    """What the lines of all of them mean, as SVG."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One schedule on the time axis it shares with others."""

    title: str
    lanes: tuple[str, ...]
    lane: Ints  # (num_bars,)
    low: Floats  # (num_bars,) lower edge of the bar within its lane, 0 to 1
    high: Floats  # (num_bars,)
    start: Floats  # (num_bars,)
    finish: Floats  # (num_bars,)
    kind: Ints  # (num_bars,) into Gantt.kinds
    is_copy: Ints  # (num_bars,) 1 where the bar is a copy of a task
    names: tuple[str, ...]
    """One per bar, or none: bars then are called by kind and size."""
    size: Ints  # (num_bars,) tasks in the batch
    busy: tuple[float, ...]
    """Share of the shown time each lane is busy."""
    bound: float | None = None
    """No schedule can end before this time."""


@dataclass(frozen=True)
class Gantt:
    """Schedules below one another on one aligned time axis."""

    panels: tuple[Panel, ...]
    kinds: tuple[str, ...]
    unit: str
    caption: str
    span: tuple[float, float] | None = None
    """The time that is shown at first; None: from the first start to the last end."""


@dataclass(frozen=True)
class Code:
    """Commands or other text, word for word."""

    lines: tuple[str, ...]
    language: str = "sh"


Block = Text | Table | BigTable | Figure | Figures | Gantt | Code


@dataclass(frozen=True)
class Section:
    """A titled part of the report."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 2


@dataclass(frozen=True)
class Report:
    """Everything that is said, in order."""

    title: str
    headline: tuple[str, ...]
    """Who wins and by how much, in words."""
    sections: tuple[Section, ...] = field(default=())
