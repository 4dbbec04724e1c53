"""What ``weft evaluate`` prints: a table per cell, ratios to the best rules, and who broke a rule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from weft.cli import output
from weft.kinds import PROBLEMS

if TYPE_CHECKING:
    from weft.evaluation.statistics import Comparison
    from weft.evaluation.sweep.envelope import Ratio
    from weft.evaluation.sweep.evaluation import Evaluation, Summary

_COLUMNS = {"slr": "slr", "speedup": "speedup", "above bound": "gap_percent"}
_STREAM_COLUMNS = {"p99": "p99_jct", "utilisation": "utilisation", "batch fill": "batch_fill"}
"""Columns of the table -> the metric each shows."""


def show_envelopes(found: Evaluation) -> None:
    """How far each scheduler is from the best rule of every problem, and from the best single one."""
    single = {one.cell: one.single for one in found.envelopes}
    for cell in found.sweep.cells:
        numeric = ("against the envelope", "better on", f"against {single[cell.label]}")
        table = output.table(
            ["scheduler", *numeric], numeric, output.safe(f"ratios per problem {cell.label}")
        )
        for one in (one for one in found.envelopes if one.cell == cell.label):
            share = f"{one.better_percent:.0f} %"
            table.add_row(
                one.scheduler, _distance(one.against_envelope), share, _distance(one.against_single)
            )
        output.show(table)
    output.say("envelope: the best rule of each problem; the last column is the rule nearest to it over all")


def show_overall(found: Evaluation) -> None:
    """Typical differences to the baseline, and how often each scheduler is close to the best."""
    from weft.evaluation.sweep.aggregates import WITHIN, in_percent, overall

    rows = overall(found)
    if not rows:
        output.say("aggregates need two schedulers and two samples that broke no rule")
        return
    near = ("best", *(f"within {p:g} %" for p in WITHIN[1:]))
    numeric = ("interquartile mean", "median", "below it", *near)
    title = f"over all points, against {found.baseline}"
    table = output.table(["scheduler", *numeric], numeric, output.safe(title))
    for one in rows:
        typical = ("baseline", "", "")
        if one.against is not None:
            chance = in_percent(one.against.improvement_percent, 0, "")
            typical = (in_percent(one.against.iqm_percent), in_percent(one.against.median_percent), chance)
        table.add_row(one.scheduler, *typical, *(f"{share:.0f} %" for share in one.within.values()))
    output.show(table, spare=near[:0:-1])
    output.say(
        "in percent; below it: the chance to be below the baseline; best, within: how often close to the best"
    )


def _distance(ratio: Ratio) -> str:
    if ratio.low_percent is None:
        return f"{ratio.percent:+.1f} %"
    return f"{ratio.percent:+.1f} % ({ratio.low_percent:+.1f} to {ratio.high_percent:+.1f})"


def show_cell(found: Evaluation, cell: str) -> None:
    """One line per scheduler of a cell; the best of those that broke no rule is marked."""
    summary = {(s.scheduler, s.metric): s for s in found.summary if s.cell == cell}
    verdicts = {a.scheduler: a.comparison for a in found.comparisons if a.cell == cell}
    best = min((summary[name, found.metric].mean for name in found.lawful), default=math.nan)
    columns = _COLUMNS if found.sweep.kind is PROBLEMS else _STREAM_COLUMNS
    took = found.sweep.kind.took
    mean = found.metric if found.metric.startswith("mean_") else f"mean {found.metric}"
    numeric = (mean, "interval", *columns, took)
    headers = ["", "scheduler", *numeric, f"against {found.baseline}"]
    table = output.table(headers, numeric, output.safe(_title(found, cell)))
    for name in found.sweep.schedulers:
        main = summary[name, found.metric]
        is_best = name in found.lawful and math.isclose(main.mean, best, rel_tol=1e-9)
        table.add_row(
            "!" if name in found.breaches else "*" if is_best else "",
            name,
            output.number(main.mean),
            _interval(main),
            *(_shown(header, summary[name, metric].mean) for header, metric in columns.items()),
            output.duration(found.seconds_of(cell, name)),
            _against(found, name, verdicts),
            style="bold" if is_best else None,
        )
    output.show(table, spare=("speedup", "slr", "batch fill", "utilisation", took))


def _shown(header: str, value: float) -> str:
    return output.percent(value) if header == "above bound" else output.number(value, 4)


def _title(found: Evaluation, cell: str) -> str:
    sweep = found.sweep
    where = f", {cell}" if cell else ""
    seeds = f" x {len(sweep.seeds)} seeds" if len(sweep.seeds) > 1 else ""
    if sweep.has_seed_samples:
        return f"{sweep.cells[0].name}{where}: {output.count(sweep.num_samples, f'{sweep.split} seed')}"
    problems = output.count(sweep.num_problems, f"{sweep.split} problem")
    return f"{sweep.cells[0].name}{where}: {problems}{seeds}"


def _interval(summary: Summary) -> str:
    if summary.low is None or summary.high is None:
        return "-"
    digits = 4 if max(abs(summary.low), abs(summary.high)) < 1e4 else 6
    return f"{output.number(summary.low, digits)} to {output.number(summary.high, digits)}"


def _against(found: Evaluation, name: str, verdicts: Mapping[str, Comparison]) -> str:
    if name in found.breaches:
        return "broke a rule: not compared"
    return "baseline" if name == found.baseline else _verdict(verdicts.get(name))


def _verdict(comparison: Comparison | None) -> str:
    """The comparison with the baseline in a few words."""
    if comparison is None:
        return "-"
    low, high = comparison.low_percent, comparison.high_percent
    if comparison.verdict == "not distinguishable":
        return f"not distinguishable ({low:+.1f} to {high:+.1f} %)"
    if comparison.verdict == "better":
        return f"{-comparison.percent:.1f} % below ({-high:.1f} to {-low:.1f})"
    return f"{comparison.percent:.1f} % above ({low:.1f} to {high:.1f})"


def say_who_broke(found: Evaluation) -> None:
    """What the mark of those means who broke a rule."""
    names = ", ".join(found.breaches)
    output.say(f"! broke a rule, in this table or another: neither best nor compared ({names})")
    if found.baseline in found.breaches:
        output.say(f"  the baseline {found.baseline} did: no verdicts (--baseline NAME takes another)")
