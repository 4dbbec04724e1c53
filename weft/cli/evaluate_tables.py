"""What ``weft evaluate`` prints: a table per cell, ratios to the best rules, how to read them, and claims."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
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


def show(found: Evaluation, out: Path | None, has_aggregates: bool) -> None:
    """All of it, with the command that comes next."""
    for cell in found.cells:
        _show_cell(found, cell.label)
    if found.envelopes:
        _show_envelopes(found)
    if has_aggregates:
        _show_overall(found)
    _say_how_to_read(found)
    if found.breaches:
        _say_who_broke(found)
    samples = _samples(found)
    if len(found.units) < 2 and len(found.sound) > 1:
        output.say(f"one of the {samples} says nothing about others: no verdicts ({_more(found)})")
    if found.claims:
        output.say("what the rows say, paired by seed:")
    for one in found.claims:
        output.say(f"- {one.text}")
    if out is not None:
        output.note(f"rows in {out}: the same command resumes or shows them")
        output.next_command(f"weft report {shlex.quote(str(out))} --open")
    else:
        output.next_command("the same with --out SWEEP keeps the rows and can be resumed")


def _samples(found: Evaluation) -> str:
    return "seeds" if found.has_seed_samples else "problems"


def _more(found: Evaluation) -> str:
    """What gives more samples: an option, or more files where those given are all there are."""
    is_files = found.asked is not None and found.asked.generator == "files"
    return "give more files" if is_files and not found.has_seed_samples else f"take more --{_samples(found)}"


def _say_how_to_read(found: Evaluation) -> None:
    """What marks, intervals and verdicts mean, each where there are some."""
    samples, num = _samples(found), len(found.against)
    output.say(f"* best mean; intervals are 95 %, over {samples}")
    if num > 1:
        output.say(f"  verdicts are corrected for {num} comparisons made together (Holm), intervals are not")
    if any(one.is_short_of_samples for one in found.against.values()):
        output.say(f"  where an interval leaves out 0 and yet nothing is distinguishable, {_more(found)}")
    if found.has_too_few_samples:
        output.say(f"  an interval that reaches below 0 comes of too few {samples}: {_more(found)}")


def _show_envelopes(found: Evaluation) -> None:
    """How far each scheduler is from the best rule of every problem, and from the best single one."""
    single = {one.cell: one.single for one in found.envelopes}
    for cell in found.cells:
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


def _show_overall(found: Evaluation) -> None:
    """Typical differences to the baseline, and how often each scheduler is close to the best."""
    from weft.evaluation.sweep.aggregates import WITHIN, in_percent

    if not found.aggregates:
        output.say("aggregates need two schedulers and two samples that broke no rule")
        return
    near = ("best", *(f"within {p:g} %" for p in WITHIN[1:]))
    numeric = ("interquartile mean", "median", "below it", *near)
    title = f"over all points, against {found.baseline}"
    table = output.table(["scheduler", *numeric], numeric, output.safe(title))
    for one in found.aggregates:
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


def _show_cell(found: Evaluation, cell: str) -> None:
    """One line per scheduler of a cell; the best of those that broke no rule is marked."""
    summary = {(s.scheduler, s.metric): s for s in found.summary if s.cell == cell}
    best = min((summary[name, found.metric].mean for name in found.sound), default=math.nan)
    columns = _COLUMNS if found.kind is PROBLEMS else _STREAM_COLUMNS
    took = found.kind.took
    mean = found.metric if found.metric.startswith("mean_") else f"mean {found.metric}"
    numeric = (mean, "interval", *columns, took)
    headers = ["", "scheduler", *numeric, f"against {found.baseline}"]
    table = output.table(headers, numeric, output.safe(_title(found, cell)))
    for name in found.schedulers:
        main = summary[name, found.metric]
        is_best = name in found.sound and math.isclose(main.mean, best, rel_tol=1e-9)
        table.add_row(
            "!" if name in found.breaches else "*" if is_best else "",
            name,
            output.number(main.mean),
            _interval(main),
            *(_shown(header, summary[name, metric].mean) for header, metric in columns.items()),
            output.duration(found.seconds_of(cell, name)),
            _against(found, cell, name),
            style="bold" if is_best else None,
        )
    output.show(table, spare=("speedup", "slr", "batch fill", "utilisation", took))


def _shown(header: str, value: float) -> str:
    return output.percent(value) if header == "above bound" else output.number(value, 4)


def _title(found: Evaluation, cell: str) -> str:
    place = f"{found.title}, {cell}" if cell else found.title
    asked, num = found.asked, len(found.samples[cell])
    if asked is None:
        return place
    if found.has_seed_samples:
        return f"{place}: {output.count(num, f'{asked.split} seed')}"
    seeds = f" x {len(asked.seeds)} seeds" if len(asked.seeds) > 1 else ""
    return f"{place}: {output.count(num, f'{asked.split} problem')}{seeds}"


def _interval(summary: Summary) -> str:
    if summary.low is None or summary.high is None:
        return "-"
    digits = 4 if max(abs(summary.low), abs(summary.high)) < 1e4 else 6
    return f"{output.number(summary.low, digits)} to {output.number(summary.high, digits)}"


def _against(found: Evaluation, cell: str, name: str) -> str:
    if name in found.breaches:
        return "broke a rule: not compared"
    return "baseline" if name == found.baseline else _verdict(found.against.get((cell, name)))


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


def _say_who_broke(found: Evaluation) -> None:
    """What the mark of those means who broke a rule."""
    names = ", ".join(found.breaches)
    output.say(f"! broke a rule, in this table or another: neither best nor compared ({names})")
    if found.baseline in found.breaches:
        output.say(f"  the baseline {found.baseline} did: no verdicts (--baseline NAME takes another)")
