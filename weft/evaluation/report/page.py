"""A report as one HTML file that needs nothing else: style, script and data are inside.

Texts are escaped, data is JSON in blocks that no browser runs, and the page's own policy allows only
the scripts written here, by their hashes: a name from a file can never become script.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources

import numpy as np
import numpy.typing as npt

from weft.evaluation.figures.looks import MOST_KINDS, SERIES, kind_look
from weft.evaluation.report.blocks import (
    BigTable,
    Block,
    Code,
    Figure,
    Figures,
    Gantt,
    Panel,
    Report,
    Section,
    Table,
    Text,
)

SCRIPTS = ("base.js", "panel.js", "gantt.js", "table.js")
_MOST_COLUMNS = 7
"""In a table of more columns, numbers are broken into lines."""
_RUN = "weftGantt.all();"
"""What follows the data of a chart, so that it is drawn before the rest of the page is read."""


@cache
def asset(name: str) -> str:
    """A style sheet or script that ships with weft."""
    return resources.files("weft").joinpath("evaluation", "report", "assets", name).read_text("utf-8")


def render(report: Report) -> str:
    """The whole page."""
    ids = _anchors(report.sections)
    count = _Counter()
    body = [_headline(report), _contents(report.sections, ids)]
    for section, anchor in zip(report.sections, ids, strict=True):
        level = f"h{section.level}"
        body.append(f'<section id="{anchor}"><{level}>{escape(section.title)}</{level}>')
        body += [_block(block, count) for block in section.blocks]
        body.append("</section>")
    return _document(report.title, "\n".join(body))


def style() -> str:
    """The style sheet, with the colours of series in light and dark pages and in print."""
    light, dark = ("".join(f"--c{k}:{pair[i]};" for k, pair in enumerate(SERIES)) for i in (0, 1))
    rules = [
        f"svg .c{k}{{stroke:var(--c{k})}}svg .mark.c{k},svg .fill.c{k},svg .band.c{k}{{fill:var(--c{k})}}"
        for k in range(len(SERIES))
    ]
    themes = f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}@media print{{:root{{{light}}}}}"
    return f"{themes}{''.join(rules)}{asset('report.css')}"


def _document(title: str, body: str) -> str:
    code = "".join(f"<script>{asset(name)}</script>" for name in SCRIPTS)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{style()}</style>\n{code}\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _policy() -> str:
    """What the page may do: run its own scripts, nothing else, and load nothing."""
    texts = [*(asset(name) for name in SCRIPTS), _RUN]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes)
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {allowed}"


class _Counter:
    """Numbers for the data blocks of one page."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> str:
        self._last += 1
        return f"data-{self._last}"


def _anchors(sections: Sequence[Section]) -> list[str]:
    """One anchor per section, from its title."""
    found: list[str] = []
    for section in sections:
        base = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-") or "part"
        taken = sum(1 for one in found if one == base or one.startswith(f"{base}--"))
        found.append(f"{base}--{taken + 1}" if taken else base)
    return found


def _headline(report: Report) -> str:
    points = "".join(f"<li>{escape(line)}</li>" for line in report.headline)
    return f'<h1>{escape(report.title)}</h1>\n<div class="headline"><ul>{points}</ul></div>'


def _contents(sections: Sequence[Section], ids: Sequence[str]) -> str:
    links = [
        f'<li><a href="#{anchor}">{escape(section.title)}</a></li>'
        for section, anchor in zip(sections, ids, strict=True)
        if section.level == 2
    ]
    return f'<nav aria-label="Contents"><ul>{"".join(links)}</ul></nav>'


def _block(block: Block, count: _Counter) -> str:
    match block:
        case Text():
            return _text(block)
        case Table():
            return _table(block)
        case BigTable():
            return _embedded("table", count.next(), _big_table(block), block.caption)
        case Figure():
            return _figure(block.svg, block.caption, block.alt)
        case Figures():
            inner = "".join(f"<div>{svg}</div>" for svg in block.svgs)
            return _figure(f'<div class="small">{inner}</div>{block.legend}', block.caption, block.alt)
        case Gantt():
            return _embedded("gantt", count.next(), gantt_data(block), block.caption)
        case Code():
            return f"<pre>{escape(chr(10).join(block.lines))}</pre>"


def _text(block: Text) -> str:
    if block.is_list:
        return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in block.lines)}</ul>"
    return "".join(f"<p>{escape(line)}</p>" for line in block.lines)


def _figure(inner: str, caption: str, alt: str) -> str:
    label = f'role="group" aria-label="{escape(alt)}"'
    return f"<figure {label}>{inner}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(block: Table) -> str:
    caption = f"<caption>{escape(block.caption)}</caption>" if block.caption else ""
    number = [' class="number"' if k in block.numeric else "" for k in range(len(block.headers))]
    head = "".join(
        f'<th scope="col"{css}>{escape(name)}</th>' for name, css in zip(block.headers, number, strict=True)
    )
    body = "".join(_row(block, r) for r in range(len(block.rows)))
    inner = f"{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    css = ' class="tight"' if len(block.headers) > _MOST_COLUMNS else ""
    return f'<div class="scroll"><table{css}>{inner}</table></div>'


def _row(block: Table, r: int) -> str:
    cells = []
    for c, text in enumerate(block.rows[r]):
        css = [*(["number"] if c in block.numeric else []), *(["strong"] if (r, c) in block.strong else [])]
        cells.append(f"<td{_css(css)}>{escape(text)}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _css(names: Sequence[str]) -> str:
    return f' class="{" ".join(names)}"' if names else ""


def _embedded(kind: str, name: str, data: Mapping[str, object], caption: str) -> str:
    """Data that the page's script draws: charts as soon as they are read, tables once all is there."""
    block = f'<script type="application/json" id="{name}">{script_json(data)}</script>'
    host = f'<div class="{kind}-host" data-source="{name}"></div>'
    none = "<noscript><p>This part is drawn by the page's own script.</p></noscript>"
    run = f"<script>{_RUN}</script>" if kind == "gantt" else ""
    return f"<figure>{host}{none}{block}{run}<figcaption>{escape(caption)}</figcaption></figure>"


def script_json(data: Mapping[str, object]) -> str:
    """JSON that cannot end its block or begin another, whatever the names in it are."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def packed(column: npt.ArrayLike, kind: str) -> str:
    """A column as base64 of little-endian numbers."""
    return base64.b64encode(np.ascontiguousarray(np.asarray(column), dtype=np.dtype(kind)).tobytes()).decode()


def gantt_data(chart: Gantt) -> dict[str, object]:
    """What ``weftGantt`` takes; columns are packed."""
    return {
        "unit": chart.unit,
        "kinds": list(chart.kinds),
        "looks": [kind_look(k)._asdict() for k in range(min(len(chart.kinds), MOST_KINDS + 1))],
        "span": chart.span,
        "panels": [_panel(one) for one in chart.panels],
    }


def _panel(panel: Panel) -> dict[str, object]:
    """Bars by lane and start, as the script expects them; columns that say nothing are left out."""
    order = np.lexsort((panel.start, panel.lane))
    counts = np.bincount(panel.lane, minlength=len(panel.lanes))
    is_whole = bool((panel.low == 0).all() and (panel.high == 1).all())
    return {
        "title": panel.title,
        "lanes": list(panel.lanes),
        "busy": [round(share, 6) for share in panel.busy],
        "bound": panel.bound,
        "names": [panel.names[k] for k in order.tolist()] if panel.names else [],
        "counts": counts.tolist(),
        "low": "" if is_whole else packed(panel.low[order], "<f4"),
        "high": "" if is_whole else packed(panel.high[order], "<f4"),
        "start": packed(panel.start[order], "<f8"),
        "finish": packed(panel.finish[order], "<f8"),
        "kind": packed(panel.kind[order], "<u2"),
        "copy": packed(panel.is_copy[order], "u1") if panel.is_copy.any() else "",
        "size": packed(panel.size[order], "<u4") if (panel.size != 1).any() else "",
    }


def _big_table(table: BigTable) -> dict[str, object]:
    return {
        "headers": list(table.headers),
        "rows": table.num_rows,
        "columns": [_column(column) for column in table.columns],
    }


def _column(column: Sequence[str] | npt.NDArray[np.float64]) -> dict[str, object]:
    if isinstance(column, np.ndarray):
        return {"values": packed(column, "<f8")}
    texts = list(dict.fromkeys(column))
    index = {text: k for k, text in enumerate(texts)}
    return {"texts": texts, "code": packed([index[text] for text in column], "<u4")}
