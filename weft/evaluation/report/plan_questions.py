"""Questions a page about a plan may answer: other machines, run times that vary, cost and energy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weft import catalog
from weft.errors import InputError, WeftError
from weft.evaluation.questions import whatif as asking
from weft.evaluation.questions.changes import Change, parse_change, parse_links, parse_speed
from weft.evaluation.questions.pareto import Exploration, explore
from weft.evaluation.questions.robustness import Robustness, robustness, slack
from weft.evaluation.report.blocks import Block, Section, Table, Text
from weft.evaluation.report.plan_source import Plan
from weft.evaluation.report.plan_tables import amount, has_prices, has_watts
from weft.evaluation.report.plans import Notice
from weft.evaluation.report.words import count
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.wording import number, percent

REPLAYS = 50
MOST_CRITICAL = 10
TRADERS = ("heft", "peft", "cpop", "deft")
"""Whose plans are looked at for cost and energy, as in ``weft pareto``."""
MOST_PLANS, FEWEST_PLANS = 400, 20
MOST_PLANNED = 2_000_000
"""Tasks in all plans on parts of the cluster together: plans of large problems are fewer."""
EACH = "each"


@dataclass(frozen=True)
class Questions:
    """What is asked besides the plan itself."""

    whatif: tuple[str, ...] = ()
    """Changes such as ``add:a100=1``, ``remove:t4=2``, ``bandwidth:x2``, ``latency:5us``, ``speed:a100=x2``, ``each``."""
    noise: float | None = None
    """Coefficient of variation of the run times."""
    has_front: bool = False
    """Whether parts of the cluster are compared in makespan, cost and energy."""

    def __post_init__(self) -> None:
        for _ in changes_of(self.whatif):
            pass


class Answers(NamedTuple):
    """Lines for the head of the page, and sections."""

    lines: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()


def changes_of(texts: Sequence[str]) -> Iterator[Change]:
    """The changes that are asked for by name; ``each`` is none."""
    for text in texts:
        try:
            yield from _change(text)
        except InputError as error:
            error.field = "whatif"
            raise


def _change(text: str) -> Iterator[Change]:
    what, _, value = (part.strip() for part in text.partition(":"))
    if what in ("add", "remove"):
        yield parse_change(value, 1 if what == "add" else -1, "whatif")
    elif what in ("bandwidth", "latency"):
        yield parse_links(value, what)
    elif what == "speed":
        yield parse_speed(value)
    elif text.strip() != EACH:
        raise InputError(
            "expected a change such as add:a100=1, remove:t4=2, bandwidth:x2, latency:5us, speed:a100=x2 "
            f"or {EACH}, got {text!r}"
        )


class Beside(NamedTuple):
    """Another planner's plan of the same problem; without a schedule, why not."""

    name: str
    schedule: Schedule | None = None
    reason: str = ""


def answers(plan: Plan, beside: Beside, asked: Questions, notice: Notice) -> Answers:
    """All that was asked; what cannot be answered is said with the reason."""
    lines: list[str] = []
    sections: list[Section] = []
    found = []
    if asked.whatif:
        notice("planning on other machines")
        found.append(_whatif(plan, asked.whatif))
    if asked.noise is not None:
        notice(f"replaying the plan {REPLAYS} times")
        found.append(_noise(plan, beside, asked.noise))
    if asked.has_front:
        notice("planning on parts of the cluster")
        found.append(_front(plan))
    for one in found:
        lines += one.lines
        sections += one.sections
    return Answers(tuple(lines), tuple(sections))


def _planner(plan: Plan) -> str:
    """Who plans on other machines: whoever made the plan if it is a rule of weft's, else HEFT.

    A search has no effort to repeat here, and a name from a file must never load code or weights.
    """
    is_rule = plan.scheduler in catalog.PLANNERS and not catalog.is_limited(plan.scheduler)
    return plan.scheduler if is_rule else "heft"


# -- other machines -------------------------------------------------------------------------------


def _whatif(plan: Plan, texts: Sequence[str]) -> Answers:
    name = _planner(plan)

    def make(problem: Problem) -> Schedule:
        return catalog.schedule(problem, name, seed=plan.seed or 0).schedule

    answer = asking.whatif(plan.problem, list(changes_of(texts)), make, each=EACH in map(str.strip, texts))
    title = "What if the machines were different?"
    lead = (
        f"Every row is planned anew by {name}, the first one too, so that rows compare. It is a heuristic: more devices can "
        "make its plan longer; the bound changes with the machines alone."
    )
    said = tuple(f"{one.change} left out: {one.reason}." for one in answer.skipped)
    blocks: list[Block] = [Text((lead, *said)), _changes_table(answer, plan.schedule)]
    return Answers(_best_change(answer, name), (Section(title, tuple(blocks)),))


def _changes_table(answer: asking.Answer, found: Schedule) -> Table:
    unit = found.time_unit
    headers = ["machines", "devices", f"makespan [{unit}]", "change", f"bound [{unit}]", "busy"]
    headers += ["cost", "change"] if has_prices(found) else []
    headers += ["energy [J]", "change"] if has_watts(found) else []
    rows = []
    for row in answer.rows:
        cells = [
            row.change,
            str(row.devices),
            number(row.makespan, 5),
            percent(row.makespan_change_percent, "+"),
        ]
        cells += [number(row.lower_bound, 5), percent(100.0 * row.utilisation)]
        cells += [amount(row.cost), percent(row.cost_change_percent, "+")] if has_prices(found) else []
        cells += [amount(row.energy), percent(row.energy_change_percent, "+")] if has_watts(found) else []
        rows.append(tuple(cells))
    return Table(tuple(headers), tuple(rows), tuple(range(1, len(headers))))


def _best_change(answer: asking.Answer, name: str) -> tuple[str, ...]:
    changed = answer.rows[1:]
    if not changed:
        return ()
    best = min(changed, key=lambda row: row.makespan)
    gain = -(best.makespan_change_percent or 0.0)
    if gain < 0.05:
        return (f"What if: none of {count(len(changed), 'change')} shortens the plan that {name} makes.",)
    most = "makes" if len(changed) == 1 else f"gains most of {count(len(changed), 'change')}: it makes"
    return (f"What if: {best.change} {most} the plan of {name} {percent(gain)} shorter.",)


# -- run times that vary --------------------------------------------------------------------------


def _noise(plan: Plan, beside: Beside, noise: float) -> Answers:
    title = "What if run times vary?"
    first = plan.seed or 0
    seeds = range(first, first + REPLAYS)
    try:
        spread, spare = robustness(plan.schedule, noise, seeds), slack(plan.schedule)
        other = None if beside.schedule is None else robustness(beside.schedule, noise, seeds)
    except WeftError as error:
        return Answers((), (Section(title, (Text((f"Not replayed: {error.message}.",)),)),))
    unit = plan.schedule.time_unit
    line = (
        f"If run times vary by {percent(100.0 * noise)}, half of the runs take more than {number(spread.median, 5)} {unit}, "
        f"one in twenty more than {number(spread.p95, 5)} {unit}."
    )
    critical = [plan.problem.task_name(int(task)) for task in plan.schedule.task[spare == 0.0]]
    named = ", ".join(critical[:MOST_CRITICAL]) + (", ..." if len(critical) > MOST_CRITICAL else "")
    text = (
        f"{count(REPLAYS, 'replay')} with log-normal run times whose mean is the planned one; devices and orders are kept.",
        f"{len(critical)} of {count(len(spare), 'placement')} have no slack, so that any delay of theirs moves the end: {named}.",
    )
    plans = {"this plan": spread}
    if other is not None and not np.array_equal(other.rows, spread.rows):
        plans[f"{beside.name}'s plan"] = other
    table = _noise_table(plans, unit)
    return Answers((line,), (Section(title, (Text(text), table)),))


def _noise_table(plans: Mapping[str, Robustness], unit: str) -> Table:
    rows = tuple(
        (who, *(number(value, 5) for value in (one.planned, one.median, one.mean, one.p95, one.worst)))
        for who, one in plans.items()
    )
    headers = ("", "planned", "median", "mean", "95 % within", "worst")
    return Table(headers, rows, tuple(range(1, 6)), f"Makespans [{unit}].")


# -- cost and energy ------------------------------------------------------------------------------


def _front(plan: Plan) -> Answers:
    title, found = "What does it cost?", plan.schedule
    if not has_prices(found):
        return Answers(
            (), (Section(title, (Text(("The cluster states no prices, so there is nothing to trade.",)),)),)
        )

    def make(problem: Problem, name: str) -> Schedule:
        return catalog.schedule(problem, name, seed=plan.seed or 0).schedule

    fitting = MOST_PLANNED // max(1, plan.problem.num_tasks)
    most = max(FEWEST_PLANS, min(MOST_PLANS, fitting))
    tried = explore(plan.problem, TRADERS, make, most=most, seed=plan.seed or 0)
    mine = (found.makespan, found.cost, found.energy)
    energy = f" and {amount(found.energy)} J" if has_watts(found) else ""
    line = f"It costs {amount(found.cost)}{energy}; {_verdict(tried, mine)}."
    return Answers((line,), (Section(title, (Text((_tried(tried),)), _front_table(tried, plan))),))


def _verdict(tried: Exploration, mine: tuple[float, float, float]) -> str:
    better = [
        one
        for one in tried.best
        if one.objectives != mine and all(a <= b for a, b in zip(one.objectives, mine, strict=True))
    ]
    if not better:
        return "no plan that was tried is as good in everything and better in something"
    return f"{better[0].scheduler} on {better[0].label} is as good in everything and better in something"


def _tried(tried: Exploration) -> str:
    parts = (
        f"{tried.num_clusters:,} of {tried.num_possible:,}"
        if tried.num_clusters < tried.num_possible
        else "all"
    )
    return (
        f"{count(len(tried.points), 'plan')} by {', '.join(TRADERS)} on {parts} parts of the cluster; devices that are left "
        "out are switched off and unpaid. The table holds this plan and those that nothing beats."
    )


def _front_table(tried: Exploration, plan: Plan) -> Table:
    found = plan.schedule
    has_energy = has_watts(found)
    rows = [("this plan", "all", found.makespan, found.cost, found.energy)]
    rows += [(one.scheduler, one.label, *one.objectives) for one in tried.best]
    cells = tuple(
        (who, devices, number(time, 5), amount(cost), *([amount(energy)] if has_energy else []))
        for who, devices, time, cost, energy in rows
    )
    headers = (
        "plan",
        "devices",
        f"makespan [{found.time_unit}]",
        "cost",
        *(["energy [J]"] if has_energy else []),
    )
    strong = tuple((0, c) for c in range(len(headers)))
    return Table(headers, cells, tuple(range(2, len(headers))), strong=strong)
