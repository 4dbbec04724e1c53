"""The section on training runs: what was trained, for how long, and how it learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from weft.evaluation.report.blocks import Block, Figure, Section, Table
from weft.evaluation.report.runs import REWARDS, TrainingRun
from weft.evaluation.report.svg import Axes, Series, line_chart
from weft.evaluation.sweep.summary import summary_of
from weft.io.runs import VALIDATED

MOST_POINTS = 400
"""A curve of more points is thinned to this many, its last one kept."""
ORIGIN, COST = ("run", "recipe", "seed"), ("wall time (s)", "processor time (s)")
"""Columns that every table of runs has."""


def learning(runs: Sequence[TrainingRun]) -> Section:
    """Curves, one per policy with a band over its training seeds, and tables of all runs."""
    planners = [run for run in runs if run.is_planner]
    others = [run for run in runs if not run.is_planner]
    blocks = [*(_dispatchers(others) if others else ()), *(_planners(planners) if planners else ())]
    return Section("Training", tuple(blocks))


def _dispatchers(runs: Sequence[TrainingRun]) -> list[Block]:
    """Job time against the rules, and reward, over decisions."""
    groups = by_policy(runs)
    blocks: list[Block] = []
    for column, rules in _against(runs).items():
        text = (
            f"Mean job time on validation workloads against {rules} at each point, averaged over the points; "
            f"below zero the policy is ahead.{_about_bands(groups)}"
        )
        blocks += _figure(groups, column, _over_decisions("job time against rules (%)", rules), text)
    for column in REWARDS[:1] if any(run.best(REWARDS[0]) is not None for run in runs) else REWARDS[1:]:
        said = column.replace("_", " ")
        text = f"{said.capitalize()} of training over the decisions collected; higher is better.{_about_bands(groups)}"
        blocks += _figure(groups, column, _over_decisions(said), text)
    return [*blocks, _table(runs)]


def _against(runs: Sequence[TrainingRun]) -> dict[str, str]:
    """Columns with job times against rules -> which rules, of all runs."""
    found = {column: dict.fromkeys(run.against[column] for run in runs) for column in runs[0].against}
    return {column: " or ".join(rules) for column, rules in found.items()}


def _over_decisions(y_label: str, zero: str = "") -> Axes:
    return Axes(
        "decisions collected (millions)", y_label, zero=zero, x_format=lambda value: f"{value / 1e6:g}"
    )


def _planners(runs: Sequence[TrainingRun]) -> list[Block]:
    """Makespan of one-shot planners above the bound, over updates."""
    groups = by_policy(runs)
    blocks: list[Block] = []
    for column, said in VALIDATED.items():
        text = (
            f"Mean makespan above the lower bound on validation problems, {said}, over updates; "
            f"lower is better.{_about_bands(groups)}"
        )
        blocks += _figure(groups, column, Axes("updates", f"above the bound, {said} (%)"), text)
    return [*blocks, _planner_table(runs)]


def by_policy(runs: Sequence[TrainingRun]) -> dict[str, list[TrainingRun]]:
    """Runs that differ in their training seed alone, by the name of their folder."""
    found: dict[str, list[TrainingRun]] = {}
    for run in runs:
        found.setdefault(run.name.rpartition("/seed-")[0] or run.name, []).append(run)
    return found


def in_words(name: str, runs: Sequence[TrainingRun]) -> str:
    """One policy's training in a sentence."""
    seeds = f"{len(runs)} seeds, " if len(runs) > 1 else ""
    seconds = [run.seconds for run in runs if run.seconds is not None]
    took = f" in {_span(seconds, '.0f')} s" if seconds else ""
    samples, said = _span([run.samples for run in runs], ","), f"decisions{took}"
    if not all(run.is_planner for run in runs):
        for column, rules in _against(runs).items():
            best = [value for value in (run.best(column) for run in runs) if value is not None]
            said += f"; at best {_span(best, '+.1f')} % against {rules}" if best else ""
        return f"Training {name}: {seeds}{samples} {said}."
    updates = _span([run.updates for run in runs], ",")
    said = f"schedules and {updates} {'update' if updates == '1' else 'updates'}{took}"
    for column, how in VALIDATED.items():
        values = [found for found in (run.column(column)[1] for run in runs) if len(found)]
        if values:
            last, best_ones = _span([v[-1] for v in values], ".1f"), _span([v.min() for v in values], ".1f")
            said += f"; {how} {last} % above the bound at last, {best_ones} % at best"
    return f"Training {name}: {seeds}{samples} {said}."


def _span(values: Sequence[float], form: str) -> str:
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"


def _about_bands(groups: Mapping[str, Sequence[TrainingRun]]) -> str:
    most = max(len(runs) for runs in groups.values())
    return f" Lines are means over up to {most} training seeds, bands 95 % intervals." if most > 1 else ""


def _series(name: str, runs: Sequence[TrainingRun], column: str, look: int) -> Series | None:
    """The mean over runs where all of them logged the column, thinned, with an interval."""
    logged = [dict(zip(*(c.tolist() for c in run.column(column)), strict=True)) for run in runs]
    logged = [values for values in logged if values]
    shared = [x for x in logged[0] if all(x in values for values in logged)] if logged else []
    if not shared:
        return None
    every = max(1, -(-len(shared) // MOST_POINTS))
    kept = list(dict.fromkeys([*shared[::every], shared[-1]]))
    found = [summary_of("", name, column, np.array([values[x] for values in logged])) for x in kept]
    x, y = np.array(kept), np.array([one.mean for one in found])
    if len(logged) < 2:
        return Series(name, x, y, look=look)
    low, high = (np.array([getattr(one, end) for one in found], dtype=np.float64) for end in ("low", "high"))
    return Series(name, x, y, low, high, look)


def _figure(groups: Mapping[str, Sequence[TrainingRun]], column: str, axes: Axes, text: str) -> list[Block]:
    """The curves of one column; none where no run logged it."""
    found = [_series(name, runs, column, look) for look, (name, runs) in enumerate(groups.items())]
    series = [one for one in found if one is not None]
    if not series:
        return []
    return [Figure(line_chart(series, axes, has_marks=False), text, text)]


def _origin(run: TrainingRun) -> tuple[str, ...]:
    """Cells below ``ORIGIN`` and the number of samples."""
    recipe, seed = run.recipe.get("name", "-"), run.config.get("seed", "-")
    return run.name, str(recipe), str(seed), f"{run.samples:,}"


def _cost(run: TrainingRun) -> tuple[str, str]:
    """Cells below ``COST``."""
    return _seconds(run.seconds), _seconds(run.cpu_seconds)


def _table(runs: Sequence[TrainingRun]) -> Table:
    against = _against(runs)
    rows = tuple(
        (*_origin(run), *_cost(run), *(_percent(run.best(column)) for column in against)) for run in runs
    )
    headers = (*ORIGIN, "decisions", *COST, *(f"best against {rules}" for rules in against.values()))
    return Table(headers, rows, tuple(range(2, 8)), "Training runs")


def _planner_table(runs: Sequence[TrainingRun]) -> Table:
    rows = tuple(
        (
            *_origin(run),
            f"{run.updates:,}",
            *_cost(run),
            *(_percent(value) for column in VALIDATED for value in _course(run, column)),
        )
        for run in runs
    )
    headers = (
        *ORIGIN,
        "schedules",
        "updates",
        *COST,
        *(f"{said}, {when}" for said in VALIDATED.values() for when in ("first", "last", "best")),
    )
    return Table(
        headers, rows, tuple(range(2, len(headers))), "Training runs of one-shot planners, above the bound"
    )


def _course(run: TrainingRun, column: str) -> tuple[float | None, float | None, float | None]:
    """First, last and lowest value of a metric."""
    values = run.column(column)[1]
    return (float(values[0]), float(values[-1]), float(values.min())) if len(values) else (None, None, None)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _percent(value: float | None) -> str:
    return "not measured" if value is None else f"{value:+.1f} %"
