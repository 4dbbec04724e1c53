"""A report as Markdown: the same words and tables; charts, what is said of them, and the table of all rows are in the HTML alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from weft.evaluation.report.blocks import (
    Block,
    Code,
    Report,
    Table,
    Text,
)

_SPECIAL = re.compile(r"([\\`*{}\[\]|~#]|(?<!\w)_|_(?!\w))")


def render(report: Report) -> str:
    """The whole page."""
    parts = [f"# {plain(report.title)}", "\n".join(f"- {plain(line)}" for line in report.headline)]
    for section in report.sections:
        blocks = [text for text in map(_block, section.blocks) if text]
        is_of_charts = len(blocks) < len(section.blocks) and not any(
            isinstance(block, Table | Code) for block in section.blocks
        )
        if blocks and not is_of_charts:
            parts += [f"{'#' * section.level} {plain(section.title)}", *blocks]
    return "\n\n".join(parts) + "\n"


def plain(text: str) -> str:
    """Text with nothing in it that Markdown or HTML would read as a sign."""
    return _SPECIAL.sub(r"\\\1", escape(" ".join(text.split()), quote=False))


def _block(block: Block) -> str:
    match block:
        case Text():
            lines = [f"- {plain(line)}" if block.is_list else plain(line) for line in block.lines]
            return ("\n" if block.is_list else "\n\n").join(lines)
        case Table():
            return _table(block)
        case Code():
            return (
                f"```{block.language}\n"
                + "\n".join(line.replace("```", "'''") for line in block.lines)
                + "\n```"
            )
        case _:
            return ""


def _table(block: Table) -> str:
    marks = ["---:" if k in block.numeric else "---" for k in range(len(block.headers))]
    rows = [[_cell(block, r, c) for c in range(len(row))] for r, row in enumerate(block.rows)]
    lines = [_line([plain(name) for name in block.headers]), _line(marks), *map(_line, rows)]
    table = "\n".join(lines)
    return f"{plain(block.caption)}\n\n{table}" if block.caption else table


def _cell(block: Table, r: int, c: int) -> str:
    text = plain(block.rows[r][c])
    return f"**{text}**" if (r, c) in block.strong and text else text


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
