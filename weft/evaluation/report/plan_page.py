"""A page about one plan: how good it is, what holds it back, what every device does, the chart, where it comes from."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from weft import catalog
from weft.errors import UnknownKindWarning, WeftError
from weft.evaluation.questions import facts
from weft.evaluation.questions.show import show
from weft.evaluation.report.blocks import BigTable, Block, Code, Report, Section, Table, Text
from weft.evaluation.report.plan_chart import MOST_BARS, chart
from weft.evaluation.report.plan_facts import TRANSFERS, Chain, chain_of
from weft.evaluation.report.plan_questions import Beside, Questions, answers
from weft.evaluation.report.plan_source import Plan
from weft.evaluation.report.plan_tables import against, chain_section, device_section, devices_in_words
from weft.evaluation.report.plans import Notice
from weft.evaluation.report.sections import capital
from weft.evaluation.report.words import count
from weft.evaluation.sweep.checking import trace_hash
from weft.evaluation.sweep.runner import versions
from weft.io.json_files import dump_json
from weft.io.problems import problem_document
from weft.model.schedule import Schedule
from weft.model.validate import Violation
from weft.wording import number, percent

MOST_VIOLATIONS = 20
MOST_ROWS = 10_000
"""Placements in the table of all of them."""


@dataclass(frozen=True)
class PlanOptions:
    """What the reader asked for."""

    title: str = ""
    """Empty: named after the problem."""
    baseline: str = "heft"
    """Whose plan of the same problem stands beside."""
    has_charts: bool = True
    questions: Questions = field(default_factory=Questions)
    command: str = ""
    """The command line, to be repeated at the end; empty: there is none."""


def plan_report(
    plan: Plan, violations: Sequence[Violation], options: PlanOptions, notice: Notice = lambda line: None
) -> Report:
    """The whole page; a plan that is not valid is shown as it is and compared with nothing."""
    title = options.title or f"weft plan: {plan.problem.name} on {plan.problem.cluster.name}"
    if violations:
        return Report(
            title, _broken_lines(plan, violations), tuple(_broken_sections(plan, violations, options))
        )
    beside = _beside(plan, options.baseline)
    chain = chain_of(plan.schedule)
    asked = answers(plan, beside, options.questions, notice)
    headline = (*_lines(plan, chain, beside), *asked.lines)
    sections = [device_section(plan.schedule)]
    if options.has_charts:
        sections.append(_chart_section(plan, beside))
    sections += [chain_section(plan.schedule, chain), _against_section(plan, beside), *asked.sections]
    return Report(title, headline, (*sections, *_closing(plan, options)))


def _closing(plan: Plan, options: PlanOptions) -> list[Section]:
    """What stands at the end of every page."""
    return [_workflow(plan), _every_row(plan.schedule), _provenance(plan, options.command)]


def _who(plan: Plan) -> str:
    return plan.scheduler or "the plan"


def _scale(plan: Plan) -> str:
    problem = plan.problem
    devices = count(problem.cluster.num_devices, "device")
    by = f", planned by {plan.scheduler}" if plan.scheduler else ""
    return f"{problem.name} on {problem.cluster.name}: {count(problem.num_tasks, 'task')} on {devices}{by}"


# -- what is said first ---------------------------------------------------------------------------


def _lines(plan: Plan, chain: Chain, beside: Beside) -> list[str]:
    found = plan.schedule
    lines = [
        f"{_scale(plan)}. The makespan is {number(found.makespan)} {found.time_unit}.",
        f"{capital(catalog.quality(found))}. The validator found no broken rule.",
        _held_back(chain, found),
        devices_in_words(found),
        _jobs(found),
        _comparison(found, beside),
    ]
    return [line for line in lines if line]


def _held_back(chain: Chain, found: Schedule) -> str:
    """Where the time of the chain goes, the largest part first."""
    if not found.makespan or not chain.links:
        return ""
    parts = sorted(chain.parts.items(), key=lambda part: -part[1])
    shares = [
        f"{percent(100.0 * time / found.makespan)} {words}"
        for words, time in parts
        if time > 0.0005 * found.makespan or words == TRANSFERS
    ]
    tasks = "1 task" if len(chain.links) == 1 else f"chain of {count(len(chain.links), 'task')}"
    return f"What holds it back, along the {tasks} that ends the plan: {', '.join(shares)}."


def _jobs(found: Schedule) -> str:
    """How jobs fare, where there are several or deadlines."""
    jobs = found.problem.jobs
    due = sum(job.deadline is not None for job in jobs)
    late = f"{found.misses} of {count(due, 'deadline')} missed" if due else ""
    mean = f"mean job time {number(found.mean_jct)} {found.time_unit}" if len(jobs) > 1 else ""
    said = "; ".join(part for part in (mean, late) if part)
    return f"{count(len(jobs), 'job')}: {said}." if said else ""


def _comparison(found: Schedule, beside: Beside) -> str:
    other = beside.schedule
    if other is None:
        return f"No plan of {beside.name} to compare with: {beside.reason}."
    if trace_hash(other) == trace_hash(found):
        return f"It is the plan that {beside.name} makes of this problem."
    if not found.makespan or not other.makespan:
        return ""
    change = 100.0 * (found.makespan / other.makespan - 1.0)
    length = f"{number(other.makespan)} {other.time_unit}"
    if abs(change) < 0.05:
        return f"As long as the plan of {beside.name} ({length})."
    return f"{percent(abs(change))} {'shorter' if change < 0 else 'longer'} than the plan of {beside.name} ({length})."


def _broken_lines(plan: Plan, violations: Sequence[Violation]) -> tuple[str, ...]:
    first = (
        f"NOT VALID: the validator found {count(len(violations), 'violation')}. The first: {violations[0]}"
    )
    return (
        first,
        f"{_scale(plan)}.",
        "So no distance to the optimum, no comparison and no answer to a question is given.",
    )


def _broken_sections(plan: Plan, violations: Sequence[Violation], options: PlanOptions) -> list[Section]:
    rows = tuple((v.rule, v.task or "-", v.device or "-", v.detail) for v in violations[:MOST_VIOLATIONS])
    caption = f"The first {len(rows)} of {len(violations)}." if len(rows) < len(violations) else ""
    sections = [Section("Violations", (Table(("rule", "task", "device", "detail"), rows, caption=caption),))]
    if options.has_charts and not any(v.rule in ("numbers", "task", "device") for v in violations):
        sections.append(
            Section("The plan", (chart({_who(plan): plan.schedule}, "As it stands in the plan."),))
        )
    return [*sections, *_closing(plan, options)]


# -- beside another plan --------------------------------------------------------------------------


def _beside(plan: Plan, name: str) -> Beside:
    catalog.planner(name)  # a name that nobody has is refused, a planner that cannot act here is only said
    if plan.schedule.realisation is not None:
        return Beside(name, reason="the schedule was carried out, it is not a plan")
    try:
        other = catalog.schedule(plan.problem, name).schedule
    except WeftError as error:
        return Beside(name, reason=error.message)
    return Beside(name, replace(other, lower_bounds=plan.schedule.lower_bounds))


def _chart_section(plan: Plan, beside: Beside) -> Section:
    found, other = plan.schedule, beside.schedule
    plans, said = {_who(plan): found}, ""
    if other is not None and trace_hash(other) != trace_hash(found):
        title = beside.name if beside.name != _who(plan) else f"{beside.name} now"
        if len(found) + len(other) <= MOST_BARS:
            plans[title] = other
        else:
            said = f"The plan of {beside.name} is left out: there are more than {MOST_BARS:,} bars."
    drawn = "Both on one time axis." if len(plans) > 1 else ""
    return Section("The plan", (chart(plans, " ".join(part for part in (drawn, said) if part)),))


def _against_section(plan: Plan, beside: Beside) -> Section:
    title = f"Against {beside.name}"
    other = beside.schedule
    if other is None:
        return Section(title, (Text((f"Not compared: {beside.reason}.",)),))
    if trace_hash(other) == trace_hash(plan.schedule):
        return Section(title, (Text((f"{beside.name} makes exactly this plan.",)),))
    return Section(title, (against(plan.schedule, other, _who(plan), beside.name),))


# -- the end of the page --------------------------------------------------------------------------


def _workflow(plan: Plan) -> Section:
    """The graph as ``weft show`` describes it."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UnknownKindWarning)
        found = show(plan.problem)
    rows = [("graph", facts.scale(found)), *facts.facts(found)]
    if found.fit is not None:
        rows += [("machines", f"{found.fit.cluster}: {count(found.fit.devices, 'device')}")]
        rows += facts.fit_facts(found.fit, found)
    rows += [("warning", str(one.message)) for one in said]
    kinds = facts.kind_table(found)
    blocks: list[Block] = [Table(("", ""), tuple(rows))]
    blocks.append(Table(kinds.headers, kinds.rows, tuple(range(1, len(kinds.headers)))))
    picture = tuple(found.picture(90).split("\n"))
    return Section("The workflow", (*blocks, Code(picture, "text")))


def _every_row(found: Schedule) -> Section:
    title = "Every placement"
    if len(found) > MOST_ROWS:
        return Section(title, (Text((f"Left out: there are {len(found):,}, more than {MOST_ROWS:,}.",)),))
    placed = list(found.placements())
    names = [found.problem.task_name(int(task)) for task in found.task]
    marks = [f"copy {one.copy}" if one.copy else "" for one in placed]
    columns: list[tuple[str, Sequence[str]]] = [
        ("task", names),
        ("device", [one.device or "-" for one in placed]),
    ]
    columns += [("copy", marks)] if any(marks) else []
    unit = found.time_unit
    headers = (*(name for name, _ in columns), f"start [{unit}]", f"finish [{unit}]")
    table = BigTable(headers, (*(column for _, column in columns), found.start, found.finish))
    return Section(title, (table,))


def _provenance(plan: Plan, command: str) -> Section:
    problem = hashlib.sha256(dump_json(problem_document(plan.problem))).hexdigest()
    rows = [("SHA-256 of the problem", problem[:16]), ("of the schedule", trace_hash(plan.schedule)[:16])]
    rows += [(f"of {plan.source}", plan.digest[:16])] if plan.digest else []
    rows += [("scheduler", plan.scheduler)] if plan.scheduler else []
    rows += [("seed", str(plan.seed))] if plan.seed is not None else []
    rows += [("planned in", catalog.duration(plan.seconds))] if plan.seconds is not None else []
    rows += [("note of the scheduler", plan.note)] if plan.note else []
    rows += [(key, value[:16]) for key, value in versions().items()]
    table = Table(
        ("", "this page"), tuple(rows), caption="Origin and versions; long hashes are cut to 16 letters"
    )
    return Section("Commands and versions", (*([Code((command,))] if command else []), table))
