"""The sections on one sweep: curves, tables, profiles, utilisation, every row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.evaluation.report.blocks import BigTable, Block, Figure, Figures, Section, Table, Text
from weft.evaluation.report.devices import DeviceUse
from weft.evaluation.report.frame import Cell, Frame
from weft.evaluation.report.seeds import in_words
from weft.evaluation.report.svg import Axes, Series, bar_chart, interval_chart, legend_of, line_chart
from weft.evaluation.report.words import quantity, words
from weft.evaluation.statistics import Comparison
from weft.evaluation.sweep.evaluation import Summary
from weft.model.graph import Floats

MOST_LINES = 60
"""A table of more lines is shown page by page."""
_MINUS = "\N{MINUS SIGN}"
_SMALL = (480.0, 240.0)
_LOG_FROM = 20.0
"""A setting that spans this factor is drawn on an axis of factors."""


def results(frame: Frame) -> Section:
    """Curves over the swept setting (or dots with intervals), and the tables behind them."""
    blocks: list[Block] = [Text(tuple(said))] if (said := in_words(frame)) else []
    if frame.against:
        blocks += [_curve(frame)] if frame.setting else _dots(frame)
    if frame.setting:
        blocks.append(_absolute(frame, frame.metric))
    blocks.append(_means(frame, frame.metric))
    if frame.against:
        blocks.append(_differences(frame))
        blocks.append(Text((_how_to_read(frame),)))
    return Section(f"{frame.title}: results", tuple(blocks))


def _how_to_read(frame: Frame) -> str:
    return (
        "Intervals are 95 %, over samples that all schedulers met. A difference stands without a sign of doubt "
        "only if its interval leaves out 0 and two paired tests agree at 5 % after Holm's correction for the "
        f"{len(frame.against)} comparisons of this sweep; the others are marked \N{ALMOST EQUAL TO}: they may be chance."
    )


def _places(frame: Frame) -> Floats:
    return np.array([float(str(cell.settings[frame.setting])) for cell in frame.cells])


def _axes(frame: Frame, y_label: str, **more: Any) -> Axes:
    """Axes over the swept setting, labelled at its values where there are few."""
    places = _places(frame)
    is_log = bool(places.min() > 0 and places.max() / places.min() >= _LOG_FROM)
    shown = tuple(places.tolist()) if is_log or len(places) <= 12 else ()
    return Axes(frame.setting, y_label, x_ticks=shown, is_log=is_log, **more)


def _curve(frame: Frame) -> Figure:
    """Every scheduler against the baseline, in percent."""
    series = []
    for look, name in enumerate(frame.schedulers):
        if name != frame.baseline:
            found = [frame.against.get((cell.label, name)) for cell in frame.cells]
            columns = np.array([_triple(one) for one in found]).T
            series.append(Series(frame.shown(name), _places(frame), columns[0], columns[1], columns[2], look))
    base = frame.shown(frame.baseline)
    axes = _axes(frame, f"{words(frame.metric)} against {base} (%)", zero=f"{base} (baseline)")
    caption = (
        f"{capital(words(frame.metric))} relative to {base}, lower is better. Bars are 95 % intervals of the mean "
        f"ratio over paired samples ({_per_cell(frame)})."
    )
    return Figure(line_chart(series, axes), caption, f"Difference to {base} over {frame.setting}")


def _triple(found: Comparison | None) -> tuple[float, float, float]:
    if found is None:
        return float("nan"), float("nan"), float("nan")
    return found.percent, found.low_percent, found.high_percent


def _per_cell(frame: Frame) -> str:
    counts = sorted({len(frame.samples[cell.label]) for cell in frame.cells})
    many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{many} per point"


def _dots(frame: Frame) -> list[Block]:
    """The same where no number is swept: one drawing per cell."""
    blocks: list[Block] = []
    base = frame.shown(frame.baseline)
    for cell in frame.cells[:8]:
        rows = [
            (frame.shown(name), *_triple(frame.against.get((cell.label, name))))
            for name in frame.schedulers
            if (cell.label, name) in frame.against
        ]
        if rows:
            title = f"{cell.label}: " if cell.label else ""
            drawn = interval_chart(rows, f"{words(frame.metric)} against {base} (%)", f"{base} (baseline)")
            text = f"{title}{words(frame.metric)} relative to {base} with 95 % intervals, lower is better."
            blocks.append(Figure(drawn, text, text))
    return blocks


def _absolute(frame: Frame, metric: str) -> Figure:
    series = []
    for look, name in enumerate(frame.schedulers):
        found = [frame.summary(metric, cell.label, name) for cell in frame.cells]
        y = np.array([one.mean for one in found])
        low = np.array([one.mean if one.low is None else one.low for one in found])
        high = np.array([one.mean if one.high is None else one.high for one in found])
        series.append(Series(frame.shown(name), _places(frame), y, low, high, look))
    drawn = line_chart(series, _axes(frame, quantity(frame, metric)))
    text = f"{mean_of(words(metric))} with 95 % intervals ({_per_cell(frame)})."
    return Figure(drawn, text, f"{words(metric)} over {frame.setting}")


def _means(frame: Frame, metric: str) -> Block:
    """Means with intervals, a line per cell; the best valid one of each line stands out."""
    lines, strong = [], []
    is_lawful = np.isin(frame.schedulers, frame.lawful)
    for r, cell in enumerate(frame.cells):
        found = [frame.summary(metric, cell.label, name) for name in frame.schedulers]
        if metric == frame.metric:
            means = np.where(is_lawful, [one.mean for one in found], np.inf)
            strong += [(r, c + 1) for c in np.flatnonzero(np.isclose(means, means.min(), rtol=1e-9)).tolist()]
        lines.append([_place(frame, cell), *(with_interval(s) for s in found)])
    caption = f"{mean_of(quantity(frame, metric))} with 95 % intervals"
    return _matrix(frame, lines, caption, strong)


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


def _against(frame: Frame, cell: Cell, name: str) -> str:
    if name in frame.breaches:
        return "broke a rule"
    return "baseline" if name == frame.baseline else difference(frame.against.get((cell.label, name)))


def _differences(frame: Frame) -> Block:
    lines = []
    for cell in frame.cells:
        lines.append([_place(frame, cell), *(_against(frame, cell, name) for name in frame.schedulers)])
    base = frame.shown(frame.baseline)
    return _matrix(
        frame, lines, f"{capital(words(frame.metric))} against {base} in %, with 95 % intervals", []
    )


def difference(found: Comparison | None) -> str:
    """A comparison in a table: percentage, interval, and a sign of doubt where it may be chance."""
    if found is None:
        return "-"
    doubt = "\N{ALMOST EQUAL TO} " if found.verdict == "not distinguishable" else ""
    return f"{doubt}{signed(found.percent)} ({signed(found.low_percent)} to {signed(found.high_percent)})"


def signed(value: float) -> str:
    """A percentage with its sign and one decimal."""
    text = f"{abs(value):.1f}"
    return text if text == "0.0" else f"{_MINUS if value < 0 else '+'}{text}"


def _matrix(frame: Frame, lines: list[list[str]], caption: str, strong: list[tuple[int, int]]) -> Block:
    headers = (_varied(frame), *(frame.shown(name) for name in frame.schedulers))
    if len(lines) == 1 and len(headers) > 3:
        turned = tuple((name, text) for name, text in zip(headers[1:], lines[0][1:], strict=True))
        marks = tuple((c - 1, 1) for _, c in strong)
        return Table(("scheduler", caption), turned, (1,), strong=marks)
    if len(lines) > MOST_LINES:
        return BigTable(headers, tuple([line[k] for line in lines] for k in range(len(headers))), caption)
    rows = tuple(tuple(line) for line in lines)
    return Table(headers, rows, tuple(range(1, len(headers))), caption, tuple(strong))


def _varied(frame: Frame) -> str:
    return ", ".join(frame.varied) or "all"


def _place(frame: Frame, cell: Cell) -> str:
    """The value of the swept setting, or the whole label where several vary."""
    return f"{cell.settings[frame.setting]:g}" if frame.setting else cell.label or "all"


def more_figures(frame: Frame) -> Section | None:
    """Tables of the other metrics."""
    others = [m for m in frame.metrics if m != frame.metric and not _is_idle(frame, m)]
    blocks = [_means(frame, metric) for metric in others]
    return Section(f"{frame.title}: other figures", tuple(blocks), level=3) if blocks else None


def _is_idle(frame: Frame, metric: str) -> bool:
    """Whether a metric says nothing: absent, or zero everywhere."""
    columns = [frame.values[metric, cell.label, name] for cell in frame.cells for name in frame.schedulers]
    found = np.concatenate(columns)
    return bool(np.isnan(found).any() or (found == 0.0).all())


def utilisation(frame: Frame) -> Section | None:
    """How busy every device is, and how full its batches are."""
    uses = {(c.label, name): frame.devices(c.label, name) for c in frame.cells for name in frame.schedulers}
    if not all(uses.values()):
        return _overall_use(frame)
    names = [use.device for use in uses[frame.cells[0].label, frame.schedulers[0]]]
    fills = np.array([[use.batch_fill for use in found] for found in uses.values()])
    batched = [d for d in range(len(names)) if (fills[:, d] < 0.999).any() and (fills[:, d] > 0).any()]
    blocks: list[Block] = []
    if frame.setting:
        blocks.append(_small(frame, uses, names, list(range(len(names))), "utilisation"))
        if batched:
            blocks.append(_small(frame, uses, names, batched, "batch_fill"))
    else:
        blocks += _use_bars(frame, uses, names, batched)
    blocks.append(_use_table(frame, uses, names))
    return Section(f"{frame.title}: devices", tuple(blocks))


Uses = dict[tuple[str, str], tuple[DeviceUse, ...]]
_SAID = {
    "utilisation": "Share of the time each device runs something",
    "batch_fill": "Mean batch as a share of the largest the device takes",
}


def _small(frame: Frame, uses: Uses, names: list[str], shown: list[int], what: str) -> Figures:
    """One small drawing per device, over the swept setting."""
    drawn = []
    for d in shown:
        series = [
            Series(
                frame.shown(name),
                _places(frame),
                np.array([100.0 * getattr(uses[cell.label, name][d], what) for cell in frame.cells]),
                look=look,
            )
            for look, name in enumerate(frame.schedulers)
        ]
        size = {"width": _SMALL[0], "height": _SMALL[1]}
        axes = _axes(frame, f"{names[d]} (%)", **size, y_range=(0.0, 104.0), has_legend=False)
        drawn.append(line_chart(series, axes))
    text = f"{_SAID[what]}, over {frame.setting}; one drawing per device, mean over samples."
    legend = legend_of([frame.shown(name) for name in frame.schedulers])
    return Figures(tuple(drawn), text, text, legend)


def _use_bars(frame: Frame, uses: Uses, names: list[str], batched: list[int]) -> list[Block]:
    cell = frame.cells[len(frame.cells) // 2].label
    shown = [frame.shown(name) for name in frame.schedulers]
    blocks: list[Block] = []
    for what, devices in (("utilisation", list(range(len(names)))), ("batch_fill", batched)):
        groups = [
            (names[d], [getattr(uses[cell, name][d], what) for name in frame.schedulers]) for d in devices
        ]
        if groups:
            drawn = bar_chart(groups, shown, words(what))
            blocks.append(Figure(drawn, f"{_SAID[what]}{f', {cell}' if cell else ''}.", _SAID[what]))
    return blocks


def _use_table(frame: Frame, uses: Uses, names: list[str]) -> Table:
    """The point in the middle, in figures."""
    cell = frame.cells[len(frame.cells) // 2].label
    rows = tuple(
        (
            frame.shown(name),
            *(f"{100 * u.utilisation:.0f} % / {100 * u.batch_fill:.0f} %" for u in uses[cell, name]),
        )
        for name in frame.schedulers
    )
    caption = f"Utilisation / batch fill{f' at {cell}' if cell else ''}"
    return Table(("scheduler", *names), rows, tuple(range(1, len(names) + 1)), caption)


def _overall_use(frame: Frame) -> Section | None:
    if "utilisation" not in frame.metrics or not frame.setting:
        return None
    series = [
        Series(
            frame.shown(name),
            _places(frame),
            np.array([100.0 * frame.summary("utilisation", cell.label, name).mean for cell in frame.cells]),
            look=look,
        )
        for look, name in enumerate(frame.schedulers)
    ]
    axes = _axes(frame, "utilisation (%)", y_range=(0.0, 104.0))
    text = "Mean share of the time a device runs something, from the first start to the last end."
    return Section(f"{frame.title}: devices", (Figure(line_chart(series, axes), text, text),))


def all_rows(frame: Frame) -> Section:
    """Every row, to be sorted and searched."""
    caption = "Every row; click a header to sort. The machine-readable rows are in the sweep folder."
    title = f"{frame.title}: every row"
    if not frame.rows:
        return Section(title, (_value_rows(frame, caption),))
    metrics = [m for m in frame.metrics if not _is_idle(frame, m)]
    texts = [[getattr(row, key) for row in frame.rows] for key in ("cell", "problem", "scheduler")]
    seeds = np.array([row.seed for row in frame.rows], dtype=np.float64)
    numbers = [
        np.array([_as_float(getattr(row, metric)) for row in frame.rows], dtype=np.float64)
        for metric in metrics
    ]
    headers = ["point", "problem", "scheduler", "seed", *metrics]
    columns: list[Sequence[str] | Floats] = [*texts, seeds, *numbers]
    if any(row.valid is not None for row in frame.rows):
        headers.append("valid")
        columns.append([_VALID[row.valid] for row in frame.rows])
    return Section(title, (BigTable(tuple(headers), tuple(columns), caption),))


_VALID = {None: "not asked", True: "yes", False: "NO"}


def _as_float(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _value_rows(frame: Frame, caption: str) -> BigTable:
    keys = [
        (c.label, k, name)
        for c in frame.cells
        for k in range(len(frame.samples[c.label]))
        for name in frame.schedulers
    ]
    problems = [frame.samples[cell][k].problem for cell, k, _ in keys]
    numbers = [np.array([frame.values[m, cell, name][k] for cell, k, name in keys]) for m in frame.metrics]
    headers = ("problem", "scheduler", *frame.metrics)
    return BigTable(headers, (problems, [name for *_, name in keys], *numbers), caption)
