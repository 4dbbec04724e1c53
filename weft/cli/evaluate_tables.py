"""What ``weft evaluate`` prints: a table per cell, ratios to the best rules, how to read them, and claims."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli import output
from weft.kinds import ELASTIC, PROBLEMS

if TYPE_CHECKING:
    from weft.evaluation.statistics import Comparison
    from weft.evaluation.sweep.envelope import Ratio
    from weft.evaluation.sweep.evaluation import Evaluation
    from weft.evaluation.sweep.summary import Summary

_COLUMNS = {"slr": "slr", "speedup": "speedup", "above bound": "gap_percent"}
_STREAM_COLUMNS = {"99th percentile": "p99_jct", "utilisation": "utilisation", "batch fill": "batch_fill"}
_ELASTIC_COLUMNS = {
    "median": "median_completion",
    "95th percentile": "p95_completion",
    "longest wait": "longest_wait",
    "CPUs in use": "cpu_use",
    "GPUs in use": "gpu_use",
}
"""Columns of the table -> the metric each shows."""


def show(found: Evaluation, out: Path | None, has_aggregates: bool) -> None:
    """All of it, with the command that comes next."""
    from weft.evaluation.sweep.standing import noun_of, standing, what_it_costs, who_wins

    for cell in found.cells:
        _show_cell(found, cell.label)
        if found.kind is ELASTIC:
            _say_bound(found, cell.label)
    if found.envelopes:
        _show_envelopes(found)
    if has_aggregates:
        _show_overall(found)
    _say_how_to_read(found)
    if found.breaches:
        _say_who_broke(found)
    if len(found.units) < 2 and len(found.sound) > 1:
        output.say(f"no verdicts: a single {noun_of(found)} says nothing about others ({_more(found)})")
    elif len(found.sound) > 1:
        winner = standing(found)
        costs = what_it_costs(found, winner.winner)
        lines = (who_wins(found, winner), f"{costs[:1].upper()}{costs[1:]}")
        output.say("\n".join(output.safe(line) for line in lines if line))
    if found.claims:
        output.say("what the rows say, paired by seed:")
    for one in found.claims:
        output.say(f"- {one.text}")
    if out is not None:
        output.note(f"rows in {out}: the same command resumes or shows them")
        output.next_command(f"weft report {shlex.quote(str(out))} --open")
    else:
        output.next_command("the same with --out SWEEP keeps the rows and can be resumed")


def _more(found: Evaluation, wanted: int | None = None) -> str:
    """What gives more samples: an option, or more files where those given are all there are."""
    from weft.evaluation.sweep.standing import noun_of

    if found.asked is not None and found.asked.generator == "files" and not found.has_seed_samples:
        return "give more files" if wanted is None else f"give {wanted} files"
    option = f"--{noun_of(found)}s"
    return f"take more {option}" if wanted is None else f"{option} {wanted}"


def _say_how_to_read(found: Evaluation) -> None:
    """What marks, intervals and verdicts mean, each where there are some."""
    from weft.evaluation.sweep.standing import noun_of

    samples, num = f"{noun_of(found)}s", len(found.against)
    output.say(f"* lowest plain mean; intervals are 95 %, over {samples}")
    if found.deciding.may_be_zero and num:
        output.say(f"  {_how_differences_are_stated(found)}")
    few = [one for one in found.against.values() if one.verdict == "too few samples"]
    if few:
        most = max(few, key=lambda one: one.n)
        together = f" for {num} comparisons made together" if num > 1 else ""
        output.say(f"  {most.too_few(noun_of(found))}{together} ({_more(found, most.least_n)})")
    elif num > 1:
        output.say(f"  verdicts are corrected for {num} comparisons made together (Holm), intervals are not")
    if any(one.is_open for one in found.against.values()):
        output.say(f"  where an interval leaves out 0 and yet nothing is distinguishable, {_more(found)}")


def _how_differences_are_stated(found: Evaluation) -> str:
    """What lower and higher mean where costs may be 0."""
    factor, unit = found.deciding.step
    said = (f" in {unit}" if unit else "") + (f" of {1.0 / factor:g}" if factor != 1.0 else "")
    return (
        f"lower, higher: the difference of the means{said}, then in percent of the mean of {found.baseline}"
    )


def _show_envelopes(found: Evaluation) -> None:
    """How far each scheduler is from the best rule of every problem, and from the best single one."""
    single = {one.cell: one.single for one in found.envelopes}
    for cell in found.cells:
        numeric = ("against the envelope", "better on", f"against {single[cell.label]}")
        what = "differences" if found.deciding.may_be_zero else "ratios"
        title = output.safe(f"{what} per problem {cell.label}")
        table = output.table(["scheduler", *numeric], numeric, title)
        for one in (one for one in found.envelopes if one.cell == cell.label):
            share = f"{one.better_percent:.0f} %"
            table.add_row(
                one.scheduler, _distance(one.against_envelope), share, _distance(one.against_single)
            )
        output.show(table)
    output.say("envelope: the best rule of each problem; the last column is the rule nearest to it over all")


def _show_overall(found: Evaluation) -> None:
    """Typical differences to the baseline, and how often each scheduler is close to the best."""
    from weft.evaluation.sweep.aggregates import NO_PROFILE, WITHIN, in_percent

    if not found.aggregates:
        output.say("aggregates need two schedulers and two samples that broke no rule")
        return
    has_profile = not found.deciding.may_be_zero
    near = ("best", *(f"within {p:g} %" for p in WITHIN[1:])) if has_profile else ()
    numeric = ("interquartile mean", "median", "below it", *near)
    title = f"over all points, against {found.baseline}"
    table = output.table(["scheduler", *numeric], numeric, output.safe(title))
    for one in found.aggregates:
        typical = ("baseline", "", "")
        if one.against is not None:
            chance = in_percent(one.against.improvement_percent, 0, "")
            typical = (in_percent(one.against.iqm), in_percent(one.against.median), chance)
        table.add_row(one.scheduler, *typical, *(f"{share:.0f} %" for share in one.within.values()))
    output.show(table, spare=near[:0:-1])
    below = "below it: the chance to be below the baseline"
    if has_profile:
        output.say(f"in percent; {below}; best, within: how often close to the best")
        return
    unit = found.deciding.step[1]
    output.say(f"differences{f' in {unit}' if unit else ''}; {below}, in percent")
    output.say(NO_PROFILE)


def _distance(ratio: Ratio) -> str:
    if ratio.ends is None:
        return ratio.text(1)
    low, high = ratio.ends
    return f"{ratio.text(1)} ({low:+.1f} to {high:+.1f})"


def _show_cell(found: Evaluation, cell: str) -> None:
    """One line per scheduler of a cell; the best of those that broke no rule is marked."""
    from weft.evaluation.sweep.metrics import metric as metric_of

    summary = {(s.scheduler, s.metric): s for s in found.summary if s.cell == cell}
    best = min((summary[name, found.metric].mean for name in found.sound), default=math.nan)
    columns, took = _columns(found), found.kind.took
    words = metric_of(found.metric).words
    numeric = (words if words.startswith("mean ") else f"mean {words}", "interval", *columns, took)
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
    output.show(
        table,
        spare=("speedup", "slr", "batch fill", "utilisation", "CPUs in use", "GPUs in use", "median", took),
    )


def _say_bound(found: Evaluation, cell: str) -> None:
    """How long tasks take where none is in another one's way."""
    from weft.evaluation.sweep.elastic_runs import mean_bound

    bound = output.number(mean_bound(found, cell))
    output.say(f"no-contention bound: {bound} steps, the mean if every task had a cluster of its own")


def _columns(found: Evaluation) -> dict[str, str]:
    """Header -> metric of the columns beside the mean; none for batches where all are full."""
    if found.kind is PROBLEMS:
        return _COLUMNS
    if found.kind is ELASTIC:
        return {key: metric for key, metric in _ELASTIC_COLUMNS.items() if metric in found.metrics}
    is_full = all(one.mean == 1.0 for one in found.summary if one.metric == "batch_fill")
    return {
        key: metric for key, metric in _STREAM_COLUMNS.items() if not (metric == "batch_fill" and is_full)
    }


def _shown(header: str, value: float) -> str:
    return output.percent(value) if header == "above bound" else output.number(value, 4)


def _title(found: Evaluation, cell: str) -> str:
    """The scenario with its settings, the samples, and the unit of times."""
    place = ", ".join([found.title, *([cell] if cell else []), *found.chosen])
    asked, num = found.asked, len(found.samples[cell])
    if asked is None:
        return place
    unit = f", times in {_unit(found)}" if _unit(found) else ""
    if found.has_seed_samples:
        return f"{place}: {output.count(num, f'{asked.split} seed')}{unit}"
    seeds = f" x {len(asked.seeds)} seeds" if len(asked.seeds) > 1 else ""
    return f"{place}: {output.count(num, f'{asked.split} problem')}{seeds}{unit}"


def _unit(found: Evaluation) -> str:
    """The unit of times; of problems that were made here, their own."""
    if found.unit or found.sweep is None:
        return found.unit
    chosen = found.sweep.cells[0]
    units = {job.graph.time_unit for job in chosen.problem(found.sweep.split, 0).jobs}
    return units.pop() if len(units) == 1 else ""


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
    low, high = comparison.low, comparison.high
    if comparison.verdict == "too few samples":
        return f"no verdict ({comparison.ends})"
    if comparison.verdict == "not distinguishable":
        return f"not distinguishable ({comparison.ends})"
    if comparison.difference is not None:
        way, ends = ("lower", (-high, -low)) if comparison.verdict == "better" else ("higher", (low, high))
        share = f", {abs(comparison.percent):.1f} %" if math.isfinite(comparison.percent) else ""
        return f"{comparison.amount(abs(comparison.value))} {way} ({ends[0]:.1f} to {ends[1]:.1f}){share}"
    if comparison.verdict == "better":
        return f"{-comparison.percent:.1f} % below ({-high:.1f} to {-low:.1f})"
    return f"{comparison.percent:.1f} % above ({low:.1f} to {high:.1f})"


def _say_who_broke(found: Evaluation) -> None:
    """What the mark of those means who broke a rule."""
    names = ", ".join(found.breaches)
    output.say(f"! broke a rule, in this table or another: neither best nor compared ({names})")
    if found.baseline in found.breaches:
        output.say(f"  the baseline {found.baseline} did: no verdicts (--baseline NAME takes another)")
