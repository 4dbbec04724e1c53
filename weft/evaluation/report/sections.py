"""The sections on one sweep: curves, tables, profiles, utilisation, every row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.evaluation.report.blocks import BigTable, Block, Figure, Figures, Section, Table, Text
from weft.evaluation.report.devices import DeviceUse, device_uses
from weft.evaluation.report.seeds import in_words
from weft.evaluation.report.svg import Axes, Dot, Series, bar_chart, interval_chart, legend_of, line_chart
from weft.evaluation.report.words import quantity, words
from weft.evaluation.statistics import Comparison
from weft.evaluation.sweep.config_form import Cell
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.metrics import metric as metric_of
from weft.evaluation.sweep.scales import in_brackets
from weft.evaluation.sweep.standing import noun_of
from weft.evaluation.sweep.summary import Summary
from weft.model.graph import Floats

MOST_LINES = 60
"""A table of more lines is shown page by page."""
_MINUS = "\N{MINUS SIGN}"
_DOUBT = "\N{ALMOST EQUAL TO}"
_TAILS = ("p99_jct", "p95_completion")
_MOST_COLUMNS = 6
"""A table of more schedulers than this and than points has a line for each of them."""
_MOST_DRAWN = 8
"""Points of a sweep of several settings that have a drawing."""
SMALL = (480.0, 240.0)
_LOG_FROM = 20.0
"""A setting that spans this factor is drawn on an axis of factors."""


def results(swept: Evaluation) -> Section:
    """Curves over the swept setting (or dots with intervals), and the tables behind them."""
    blocks: list[Block] = [Text(tuple(said))] if (said := in_words(swept)) else []
    if swept.against:
        blocks += [_curve(swept)] if swept.setting else _dots(swept)
    if swept.setting:
        blocks.append(_absolute(swept, swept.metric))
    tables = [_means(swept, metric) for metric in (swept.metric, *_beside(swept))]
    blocks += _joined([*tables, *([_differences(swept)] if swept.against else [])])
    blocks.append(Text((f"In bold: the lowest plain mean.{_how_to_read(swept) if swept.against else ''}",)))
    return Section(f"{swept.title}: results", tuple(blocks))


def _joined(tables: Sequence[Block]) -> list[Block]:
    """Tables of one point, a line per scheduler, as one; others as they are."""
    lists = [table for table in tables if isinstance(table, Table) and table.headers[0] == "scheduler"]
    if len(lists) < len(tables) or any(len(table.headers) > 2 for table in lists):
        return list(tables)
    names = [row[0] for row in lists[0].rows]
    rows = tuple((name, *(table.rows[r][1] for table in lists)) for r, name in enumerate(names))
    strong = tuple((r, c) for c, table in enumerate(lists, 1) for r, _ in table.strong)
    headers = ("scheduler", *(table.headers[1] for table in lists))
    return [Table(headers, rows, tuple(range(1, len(headers))), strong=strong)]


def _beside(swept: Evaluation) -> tuple[str, ...]:
    """What stands beside the deciding figure: a mean says nothing of the longest times."""
    return tuple(
        name for name in _TAILS if name in swept.metrics and name != swept.metric and not swept.is_idle(name)
    )


def _how_to_read(swept: Evaluation) -> str:
    few = [one for one in swept.against.values() if one.verdict == "too few samples"]
    num = len(swept.against)
    too_few = (
        f" {few[0].too_few(noun_of(swept)).capitalize()}: no difference here has a verdict." if few else ""
    )
    return (
        " Intervals are 95 %, over samples that all schedulers met. A difference stands without a sign of doubt "
        "only if its interval leaves out 0 and two paired tests agree at 5 % after Holm's correction for the "
        f"{num} comparisons of this sweep; the others are marked {_DOUBT}: they may be chance.{too_few}"
    )


def _places(swept: Evaluation) -> Floats:
    return np.array([float(str(cell.settings[swept.setting])) for cell in swept.cells])


def axes_over(swept: Evaluation, y_label: str, **more: Any) -> Axes:
    """Axes over the swept setting, labelled at its values where there are few."""
    places = _places(swept)
    is_log = bool(places.min() > 0 and places.max() / places.min() >= _LOG_FROM)
    shown = tuple(places.tolist()) if is_log or len(places) <= 12 else ()
    return Axes(swept.setting, y_label, x_ticks=shown, is_log=is_log, **more)


def lines_over(
    swept: Evaluation, names: Sequence[str], at: Callable[[str, str], Sequence[float]]
) -> list[Series]:
    """One line per scheduler over the swept setting: values, or values with both ends of their intervals."""
    drawn = []
    for name in names:
        y, *ends = np.array([at(cell.label, name) for cell in swept.cells]).T
        low, high = ends or (None, None)
        drawn.append(Series(swept.shown(name), _places(swept), y, low, high, swept.look(name)))
    return drawn


def _curve(swept: Evaluation) -> Figure:
    """Every scheduler against the baseline."""
    others = [name for name in swept.schedulers if name != swept.baseline]
    series = lines_over(swept, others, lambda *place: _triple(swept.against.get(place)))
    base = swept.shown(swept.baseline)
    axes = axes_over(
        swept, f"{words(swept.metric)} against {base}{in_brackets(swept.deciding)}", zero=f"{base} (baseline)"
    )
    what = "difference" if swept.deciding.may_be_zero else "ratio"
    caption = (
        f"{capital(words(swept.metric))} relative to {base}, lower is better. Bars are 95 % intervals of the mean "
        f"{what} over paired samples ({_per_cell(swept)})."
    )
    return Figure(line_chart(series, axes), caption, f"Difference to {base} over {swept.setting}")


def _triple(found: Comparison | None) -> tuple[float, float, float]:
    if found is None:
        return float("nan"), float("nan"), float("nan")
    return found.value, found.low, found.high


def _per_cell(swept: Evaluation) -> str:
    counts = sorted({len(swept.samples[cell.label]) for cell in swept.cells})
    many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{many} per point"


def _dots(swept: Evaluation) -> list[Block]:
    """The same where no number is swept: one drawing per cell."""
    blocks: list[Block] = []
    base = swept.shown(swept.baseline)
    for cell in swept.cells[:_MOST_DRAWN]:
        rows = [
            Dot(swept.shown(name), *_triple(swept.against.get((cell.label, name))), swept.look(name))
            for name in swept.schedulers
            if (cell.label, name) in swept.against
        ]
        if rows:
            title = f"{cell.label}: " if cell.label else ""
            label = f"{title}{words(swept.metric)} against {base}{in_brackets(swept.deciding)}"
            drawn = interval_chart(rows, label, f"{base} (baseline)")
            text = f"{title}{words(swept.metric)} relative to {base} with 95 % intervals, lower is better."
            blocks.append(Figure(drawn, text, text))
    if len(swept.cells) > _MOST_DRAWN:
        blocks.append(
            Text((f"Drawn are the first {_MOST_DRAWN} of {len(swept.cells)} points; the tables have all.",))
        )
    return blocks


def _absolute(swept: Evaluation, metric: str) -> Figure:
    series = lines_over(swept, swept.schedulers, lambda *place: _ends(swept.sum_up(metric, *place)))
    drawn = line_chart(series, axes_over(swept, quantity(swept, metric)))
    text = f"{mean_of(words(metric))}{_with_intervals(swept)} ({_per_cell(swept)})."
    return Figure(drawn, text, f"{words(metric)} over {swept.setting}")


def _ends(found: Summary) -> list[float]:
    """The mean and its interval, which a single sample has not."""
    return [np.nan if one is None else one for one in (found.mean, found.low, found.high)]


def _with_intervals(swept: Evaluation) -> str:
    return " with 95 % intervals" if any(len(own) > 1 for own in swept.samples.values()) else ""


def _means(swept: Evaluation, metric: str) -> Block:
    """Means with intervals, a line per cell; the best valid one of each line stands out."""
    lines, strong = [], []
    is_valid = np.isin(swept.schedulers, swept.ranked)
    for r, cell in enumerate(swept.cells):
        found = [swept.sum_up(metric, cell.label, name) for name in swept.schedulers]
        if metric in (swept.metric, *_beside(swept)):
            means = np.where(is_valid, [one.mean for one in found], np.inf)
            strong += [(r, c + 1) for c in np.flatnonzero(np.isclose(means, means.min(), rtol=1e-9)).tolist()]
        lines.append([place_of(swept, cell), *(with_interval(s) for s in found)])
    way = ", higher is better" if metric_of(metric).lower_is_better is False else ""
    caption = f"{mean_of(quantity(swept, metric))}{_with_intervals(swept)}{way}"
    return matrix(swept, lines, caption, strong)


def mean_of(what: str) -> str:
    """``Mean makespan``, but ``Mean job time`` for what is a mean already."""
    return capital(what) if what.startswith("mean ") else f"Mean {what}"


def capital(text: str) -> str:
    """The text with a capital letter, the rest as it is."""
    return text[:1].upper() + text[1:]


def with_interval(found: Summary) -> str:
    """A mean and its interval, to the decimals that the interval allows."""
    if not np.isfinite(found.mean):
        return "-"
    if found.low is None or found.high is None or found.high <= found.low:
        return f"{found.mean:.5g}"
    decimals = min(9, max(0, 1 - int(np.floor(np.log10(0.5 * (found.high - found.low))))))
    mean, low, high = (f"{value:.{decimals}f}" for value in (found.mean, found.low, found.high))
    return f"{mean} ({low} to {high})"


def _against(swept: Evaluation, cell: Cell, name: str) -> str:
    if name in swept.breaches:
        return "broke a rule"
    return "baseline" if name == swept.baseline else difference(swept.against.get((cell.label, name)))


def _differences(swept: Evaluation) -> Block:
    lines = []
    for cell in swept.cells:
        lines.append([place_of(swept, cell), *(_against(swept, cell, name) for name in swept.schedulers)])
    base = swept.shown(swept.baseline)
    unit = f" in {swept.deciding.compared_in}" if swept.deciding.compared_in else ""
    share = f", and in % of the mean of {base}" if swept.deciding.may_be_zero else ""
    caption = f"{capital(words(swept.metric))} against {base}{unit}, with 95 % intervals{share}"
    return matrix(swept, lines, caption, [])


def difference(found: Comparison | None) -> str:
    """A comparison in a table: value, interval, a percentage beside a difference, and a sign of doubt where it may be chance."""
    if found is None:
        return "-"
    doubt = "" if found.verdict in ("better", "worse") else f"{_DOUBT} "
    said = f"{doubt}{signed(found.value)} ({signed(found.low)} to {signed(found.high)})"
    has_share = found.difference is not None and np.isfinite(found.percent)
    return f"{said}, {signed(found.percent)} %" if has_share else said


def signed(value: float) -> str:
    """A percentage with its sign and one decimal."""
    text = f"{abs(value):.1f}"
    return text if text == "0.0" else f"{_MINUS if value < 0 else '+'}{text}"


def matrix(swept: Evaluation, lines: list[list[str]], caption: str, strong: list[tuple[int, int]]) -> Block:
    headers = (varied_of(swept), *(swept.shown(name) for name in swept.schedulers))
    if len(lines) == 1 and len(headers) > 3:
        turned = tuple((name, text) for name, text in zip(headers[1:], lines[0][1:], strict=True))
        marks = tuple((c - 1, 1) for _, c in strong)
        return Table(("scheduler", caption), turned, (1,), strong=marks)
    if len(lines) < len(headers) - 1 > _MOST_COLUMNS:
        return _turned(swept, headers, lines, caption, strong)
    if len(lines) > MOST_LINES:
        return BigTable(headers, tuple([line[k] for line in lines] for k in range(len(headers))), caption)
    rows = tuple(tuple(line) for line in lines)
    return Table(headers, rows, tuple(range(1, len(headers))), caption, tuple(strong))


def _turned(
    swept: Evaluation,
    headers: Sequence[str],
    lines: list[list[str]],
    caption: str,
    strong: list[tuple[int, int]],
) -> Table:
    """A line per scheduler and a column per point, where there are more of the former."""
    points = tuple(f"{swept.setting}={line[0]}" if swept.setting else line[0] for line in lines)
    rows = tuple((name, *(line[c] for line in lines)) for c, name in enumerate(headers[1:], 1))
    marks = tuple((c - 1, r + 1) for r, c in strong)
    return Table(("scheduler", *points), rows, tuple(range(1, len(points) + 1)), caption, marks)


def varied_of(swept: Evaluation) -> str:
    return ", ".join(swept.varied) or "all"


def place_of(swept: Evaluation, cell: Cell) -> str:
    """The value of the swept setting, or the whole label where several vary."""
    return f"{cell.settings[swept.setting]:g}" if swept.setting else cell.label or "all"


def more_figures(swept: Evaluation) -> Section | None:
    """Tables of the other metrics."""
    shown = (swept.metric, *_beside(swept))
    others = [m for m in swept.metrics if m not in shown and not swept.is_idle(m)]
    blocks = [_means(swept, metric) for metric in others]
    return Section(f"{swept.title}: other figures", tuple(blocks), level=3) if blocks else None


def utilisation(swept: Evaluation) -> Section | None:
    """How busy every device is, and how full its batches are."""
    uses = {
        (c.label, name): device_uses(swept, c.label, name) for c in swept.cells for name in swept.schedulers
    }
    if not all(uses.values()):
        return _overall_use(swept)
    names = [use.device for use in uses[swept.cells[0].label, swept.schedulers[0]]]
    fills = np.array([[use.batch_fill for use in found] for found in uses.values()])
    batched = [d for d in range(len(names)) if (fills[:, d] < 0.999).any() and (fills[:, d] > 0).any()]
    blocks: list[Block] = []
    if swept.setting:
        blocks.append(_small(swept, uses, names, list(range(len(names))), "utilisation"))
        if batched:
            blocks.append(_small(swept, uses, names, batched, "batch_fill"))
    else:
        blocks += _use_bars(swept, uses, names, batched)
    blocks.append(_use_table(swept, uses, names))
    return Section(f"{swept.title}: devices", tuple(blocks))


Uses = dict[tuple[str, str], tuple[DeviceUse, ...]]
_SAID = {
    "utilisation": "Share of the time each device runs something",
    "batch_fill": "Mean batch as a share of the largest the device takes",
}


def _small(swept: Evaluation, uses: Uses, names: list[str], shown: list[int], what: str) -> Figures:
    """One small drawing per device, over the swept setting."""
    drawn = []
    for d in shown:
        shares = {place: (100.0 * getattr(found[d], what),) for place, found in uses.items()}
        series = lines_over(swept, swept.schedulers, lambda *place, own=shares: own[place])
        size = {"width": SMALL[0], "height": SMALL[1]}
        axes = axes_over(swept, f"{names[d]} (%)", **size, y_range=(0.0, 104.0), has_legend=False)
        drawn.append(line_chart(series, axes))
    text = f"{_SAID[what]}, over {swept.setting}; one drawing per device, mean over samples."
    legend = legend_of([(swept.shown(name), swept.look(name)) for name in swept.schedulers])
    return Figures(tuple(drawn), text, text, legend)


def _use_bars(swept: Evaluation, uses: Uses, names: list[str], batched: list[int]) -> list[Block]:
    cell = swept.cells[len(swept.cells) // 2].label
    shown = [(swept.shown(name), swept.look(name)) for name in swept.schedulers]
    blocks: list[Block] = []
    for what, devices in (("utilisation", list(range(len(names)))), ("batch_fill", batched)):
        groups = [
            (names[d], [getattr(uses[cell, name][d], what) for name in swept.schedulers]) for d in devices
        ]
        if groups:
            drawn = bar_chart(groups, shown, words(what))
            blocks.append(Figure(drawn, f"{_SAID[what]}{f', {cell}' if cell else ''}.", _SAID[what]))
    return blocks


def _use_table(swept: Evaluation, uses: Uses, names: list[str]) -> Table:
    """The point in the middle, in figures."""
    cell = swept.cells[len(swept.cells) // 2].label
    rows = tuple(
        (
            swept.shown(name),
            *(f"{100 * u.utilisation:.0f} % / {100 * u.batch_fill:.0f} %" for u in uses[cell, name]),
        )
        for name in swept.schedulers
    )
    caption = f"Utilisation / batch fill{f' at {cell}' if cell else ''}"
    return Table(("scheduler", *names), rows, tuple(range(1, len(names) + 1)), caption)


def _overall_use(swept: Evaluation) -> Section | None:
    if "utilisation" not in swept.metrics or not swept.setting:
        return None
    series = lines_over(swept, swept.schedulers, lambda *at: (100.0 * swept.sum_up("utilisation", *at).mean,))
    axes = axes_over(swept, "utilisation (%)", y_range=(0.0, 104.0))
    text = "Mean share of the time a device runs something, from the first start to the last end."
    return Section(f"{swept.title}: devices", (Figure(line_chart(series, axes), text, text),))


def all_rows(swept: Evaluation) -> Section:
    """Every row, to be sorted and searched."""
    caption = "Every row; click a header to sort. The machine-readable rows are in the sweep folder."
    title = f"{swept.title}: every row"
    metrics = [m for m in swept.metrics if not swept.is_idle(m)]
    texts = [[getattr(row, key) for row in swept.rows] for key in ("cell", "problem", "scheduler")]
    seeds = np.array([row.seed for row in swept.rows], dtype=np.float64)
    numbers = [np.array([row[metric] for row in swept.rows], dtype=np.float64) for metric in metrics]
    headers = ["point", "problem", "scheduler", "seed", *(quantity(swept, metric) for metric in metrics)]
    columns: list[Sequence[str] | Floats] = [*texts, seeds, *numbers]
    if any(row.valid is not None for row in swept.rows):
        headers.append("valid")
        columns.append([_VALID[row.valid] for row in swept.rows])
    return Section(title, (BigTable(tuple(headers), tuple(columns), caption),))


_VALID = {None: "not asked", True: "yes", False: "NO"}
