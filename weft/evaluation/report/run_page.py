"""A page about a run that was carried out: plan against actual, why they differ, where the time went."""

from __future__ import annotations

from dataclasses import dataclass

from weft.evaluation.executed import Executed
from weft.evaluation.executed.summary import lines
from weft.evaluation.report import run_tables as tables
from weft.evaluation.report.blocks import Code, Report, Section, Table, Text
from weft.evaluation.report.run_chart import run_chart
from weft.evaluation.report.words import count
from weft.evaluation.sweep.runner import versions

MOST_FAULTS = 20


@dataclass(frozen=True)
class RunOptions:
    """What the reader asked for."""

    title: str = ""
    """Empty: named after the folder."""
    has_charts: bool = True
    command: str = ""
    """The command line, to be repeated at the end; empty: there is none."""


def run_report(run: Executed, options: RunOptions) -> Report:
    """The whole page, the conclusion first."""
    title = options.title or f"weft run: {run.name}, {run.scheduler} on {run.on}"
    sections: list[Section | None] = [
        _broken(run),
        Section("Planned and actual", (run_chart(run),)) if options.has_charts and run.attempts else None,
        tables.difference(run),
        tables.chain(run),
        tables.workers(run),
        tables.idle(run),
        tables.calibration(run),
        tables.failures(run),
        tables.jobs(run),
        tables.others(run),
        tables.tasks(run),
        _origin(run, options.command),
    ]
    return Report(title, tuple(lines(run)), tuple(one for one in sections if one is not None))


def _broken(run: Executed) -> Section | None:
    """The promises that the run did not keep; said before anything else."""
    if not run.faults:
        return None
    shown = run.faults[:MOST_FAULTS]
    left = f"The first {len(shown)} of {len(run.faults)}." if len(shown) < len(run.faults) else ""
    lead = f"The history breaks {count(len(run.faults), 'rule')}: what follows may be wrong. {left}".strip()
    return Section("Broken promises", (Text((lead,)), Text(shown, is_list=True)))


def _origin(run: Executed, command: str) -> Section:
    plans = ", ".join(f"{reason} {times}" for reason, times in run.plans.items()) or "none"
    rows = [
        ("run", run.name),
        ("engine", run.on),
        ("scheduler", run.scheduler),
        ("policy", run.policy or "-"),
        ("seed", "-" if run.seed is None else str(run.seed)),
        ("drivers", str(run.drivers)),
        ("plans made, by reason", plans),
        *((key, value[:16]) for key, value in versions().items()),
    ]
    table = Table(("", "this page"), tuple(rows), caption="Origin and versions")
    return Section("Commands and versions", (*([Code((command,))] if command else []), table))
