"""A page about edge clusters that ran live: what the simulation of the episode expected, and what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.evaluation.report.blocks import BigTable, Code, Figure, Gantt, Report, Section, Table, Text
from weft.evaluation.report.cluster_chart import UNIT, alive_chart, cluster_panel, clusters_of, shares_of
from weft.evaluation.report.plan_chart import MOST_BARS, fitted
from weft.evaluation.report.run_page import RunOptions
from weft.evaluation.report.words import count, words
from weft.evaluation.sweep.runner import versions
from weft.model.columns import Floats
from weft.model.elastic_run import ElasticRun
from weft.wording import number, percent


@dataclass(frozen=True, eq=False)
class Lived:
    """One run of clusters, as its folder tells it."""

    name: str
    scenario: str
    scheduler: str
    seed: int
    planned: ElasticRun
    """The simulation of the same episode with the same allocator."""
    actual: ElasticRun
    faults: tuple[str, ...]
    """Promises that were broken."""
    facts: Mapping[str, object]
    """What is said of coordinators and messages, in words."""


def live_report(run: Lived, options: RunOptions) -> Report:
    """The whole page, the conclusion first."""
    title = options.title or f"weft run: {run.name}, {run.scheduler} on live clusters"
    sections: list[Section | None] = [
        _broken(run),
        Section("Planned and actual", (_chart(run),)) if options.has_charts else None,
        _figures(run),
        _alive(run),
        _clusters(run),
        _decisions(run),
        _tasks(run),
        _origin(run, options.command),
    ]
    return Report(title, tuple(live_lines(run)), tuple(one for one in sections if one is not None))


def live_lines(run: Lived) -> list[str]:
    """The run in a few lines, the conclusion first."""
    planned, actual = run.planned.mean_completion, run.actual.mean_completion
    done = f"{count(len(run.actual.finish), 'task')} in {int(run.actual.finish.max())} {UNIT}"
    same = run.planned.trace == run.actual.trace
    steps = "all as simulated, bit for bit" if same else "not all as simulated"
    return [
        f"{run.scheduler} on live clusters: mean completion time planned {number(planned, 4)} {UNIT}, "
        f"actual {number(actual, 4)}, {percent(100.0 * (actual / planned - 1.0), '+')}.",
        f"{done}; {steps}.",
        "A promise was broken." if run.faults else "All promises were kept.",
    ]


def _broken(run: Lived) -> Section | None:
    if not run.faults:
        return None
    return Section("Broken promises", (Text(run.faults, is_list=True),))


def _chart(run: Lived) -> Gantt:
    """Tasks on their clusters, planned and actual, on one axis."""
    panels, said = [], []
    for title, one in (("planned", run.planned), ("actual", run.actual)):
        panel, left_out = fitted(
            cluster_panel(f"{title}: {int(one.finish.max())} {UNIT}", one), MOST_BARS // 2
        )
        panels.append(panel)
        said += [f"Of what was {title}, {left_out}"] if left_out else []
    kinds = tuple(kind.name for kind in run.actual.problem.types)
    caption = "Both on one time axis; planned is the simulation of the same episode."
    return Gantt(tuple(panels), kinds, UNIT, " ".join([caption, *said]))


def _figures(run: Lived) -> Section:
    rows = []
    for name, planned in run.planned.figures.items():
        actual = run.actual.figures[name]
        rows.append((words(name), number(planned, 4), number(actual, 4), number(actual - planned, 3)))
    table = Table(("figure", "planned", "actual", "difference"), tuple(rows), (1, 2, 3))
    return Section("Figures", (table,))


def _alive(run: Lived) -> Section:
    drawn = alive_chart([("planned", run.planned, 0), ("actual", run.actual, 1)], has_legend=True)
    text = "Tasks that have arrived and not ended."
    return Section("Tasks alive", (Figure(drawn, text, text),))


def _clusters(run: Lived) -> Section:
    problem = run.actual.problem
    kinds = [kind.name for kind in problem.types]
    headers = ("cluster", "units", *kinds, *(f"{name} in use" for name in problem.resources))
    rows = []
    shares = shares_of(run.actual)
    for n, name in enumerate(problem.cluster_names):
        units = " x ".join(map(str, problem.capacity[n].tolist()))
        taken = [str(num) for num in run.actual.types_per_cluster[n].tolist()]
        rows.append((name, units, *taken, *(percent(100.0 * share) for share in shares[n].tolist())))
    lead = f"Units are {' x '.join(problem.resources)}; tasks of each type that a cluster took."
    return Section("Clusters", (Text((lead,)), Table(headers, tuple(rows), tuple(range(2, len(headers))))))


def _decisions(run: Lived) -> Section:
    rows = tuple((key, _said(value)) for key, value in run.facts.items())
    return Section("Decisions and messages", (Table(("", "this run"), rows, (1,)),))


def _said(value: object) -> str:
    if isinstance(value, float):
        return number(value, 4)
    if isinstance(value, list | tuple):
        return ", ".join(_said(one) for one in value) or "none"
    return "-" if value is None else str(value)


def _tasks(run: Lived) -> Section:
    one, names = run.actual, run.actual.problem.cluster_names
    headers = ("task", "type", "cluster", "arrived", "placed", "ended", "planned cluster", "planned end")
    columns: tuple[Sequence[str] | Floats, ...] = (
        np.arange(len(one.finish), dtype=np.float64),
        [one.problem.types[kind].name for kind in one.kind.tolist()],
        [names[n] for n in clusters_of(one).tolist()],
        one.arrival.astype(np.float64),
        one.start.astype(np.float64),
        one.finish.astype(np.float64),
        [names[n] for n in clusters_of(run.planned).tolist()],
        run.planned.finish.astype(np.float64),
    )
    return Section("Tasks", (BigTable(headers, columns, f"Times are in {UNIT}"),))


def _origin(run: Lived, command: str) -> Section:
    rows = [
        ("run", run.name),
        ("scenario", run.scenario),
        ("scheduler", run.scheduler),
        ("seed of the episode", str(run.seed)),
        *((key, value[:16]) for key, value in versions().items()),
    ]
    table = Table(("", "this page"), tuple(rows), caption="Origin and versions")
    return Section("Commands and versions", (*([Code((command,))] if command else []), table))
