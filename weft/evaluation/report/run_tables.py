"""Tables about a run that was carried out: differences, the chain, workers, idle time, tasks, failures, jobs."""

from __future__ import annotations

import numpy as np

from weft.evaluation.executed import Executed
from weft.evaluation.executed.records import CAUSES, FINISHED, Link, TaskRun, WorkerRun
from weft.evaluation.executed.waiting import totals
from weft.evaluation.report.blocks import BigTable, Block, Figure, Section, Table, Text
from weft.evaluation.report.plan_tables import amount
from weft.evaluation.report.svg import stacked_chart
from weft.evaluation.report.words import count
from weft.wording import number, percent

MOST_LINKS = 40
MOST_WORKERS = 40
"""Workers with a row each; of more, the rest is in a table that is turned page by page."""
MOST_WORST = 15
MOST_FAILURES = 40
MOST_KINDS = 40
MOST_JOBS = 40
MOST_TASKS = 50_000

_MEANINGS = (
    "Of a slot that runs nothing, the next execution there says why. Until its parents should have been done by "
    "plan, there is no ready task; from then until they were, it is behind a late parent, and until an earlier "
    "attempt at the same task had ended, behind a failed attempt.",
    "While its data could still be on its way over the links of the cluster it waits for data. From the moment at "
    "which the scheduler was asked and chose to wait until it was submitted it is held back. All else before its "
    "start is dispatch gap. After the last execution there is no ready task; a worker that is lost is not there. "
    "Each moment of each slot counts once: with the busy time, causes add up to all slot-time.",
)


def difference(run: Executed) -> Section | None:
    """Where the difference between plan and actual comes from."""
    if run.planned_makespan is None or not run.chain:
        return None
    planned, unit = run.planned_makespan, run.time_unit
    parts = sorted(run.why.items(), key=lambda part: -abs(part[1]))
    rows = [
        (cause, f"{time:+.4g}", percent(100 * time / planned, "+"))
        for cause, time in parts
        if abs(time) > 1e-9
    ]
    rows.append(("all together", f"{run.makespan - planned:+.4g}", percent(run.error_percent, "+")))
    lead = (
        f"Planned {number(planned, 5)} {unit}, actual {number(run.makespan, 5)} {unit}. Along the chain that ended the "
        "run: run times against those expected there, attempts that led to nothing, and time in which the next "
        "execution waited. What is left is due to transfers and to tasks that ran elsewhere or in another order."
    )
    table = Table(("along the chain", f"time [{unit}]", "of the plan"), tuple(rows), (1, 2))
    return Section("Where the difference comes from", (Text((lead,)), table))


def chain(run: Executed) -> Section | None:
    """The chain that really happened."""
    if not run.chain:
        return None
    links, half = run.chain, MOST_LINKS // 2
    shown = links if len(links) <= MOST_LINKS else (*links[:half], *links[-half:])
    left = len(links) - len(shown)
    caption = "The chain, first to last" + (
        f"; {count(left, 'execution')} in the middle left out." if left else "."
    )
    unit = run.time_unit
    headers = ("task", "worker", f"start [{unit}]", f"run time [{unit}]", "against expected", "started when")
    table = Table(headers, tuple(_link(run, link) for link in shown), (2, 3, 4), caption)
    ran = sum(link.attempt.run_time for link in links)
    parts = {"running": ran, **run.chain_waits}
    rows = tuple(
        (what, number(time, 5), percent(100 * time / run.makespan if run.makespan else None))
        for what, time in parts.items()
    )
    lead = (
        "The last execution to end waited for another, that one for another, and so on back to the start: only what "
        "shortens this chain shortens the run."
    )
    share = Table(("along the chain", f"time [{unit}]", "of the run"), rows, (1, 2))
    return Section("The critical chain", (Text((lead,)), share, table))


def _link(run: Executed, link: Link) -> tuple[str, ...]:
    one = link.attempt
    change = "-"
    if link.expected and one.outcome == FINISHED:
        change = percent(100.0 * (one.run_time / link.expected - 1.0), "+")
    ended = "" if one.outcome == FINISHED else f" ({one.outcome})"
    again = f", attempt {one.number}" if one.number > 1 else ""
    name = f"{_name(run, one.job, one.task)}{again}{ended}"
    return name, one.device, number(one.started, 5), number(one.run_time, 4), change, _why(run, link)


def _why(run: Executed, link: Link) -> str:
    before = link.before
    if before is None:
        cause = "its job had arrived"
    elif link.held_by == "device":
        cause = f"{link.attempt.device} was done with {_name(run, before.job, before.task)}"
    elif link.held_by == "attempt":
        cause = f"attempt {before.number} had {'finished' if before.outcome == FINISHED else before.outcome}"
    else:
        cause = f"{before.task} was done"
    waits = [f"{what} {number(time, 3)}" for what, time in link.waits.items() if time > 1e-9]
    return f"{cause}; {', '.join(waits)}" if waits else cause


def _name(run: Executed, job: str | int, task: str) -> str:
    return task if len(run.jobs) == 1 else f"{job}/{task}"


def workers(run: Executed) -> Section:
    """What every worker did, against the plan."""
    unit = run.time_unit
    headers = (
        *(
            "worker",
            "class",
            "slots",
            "tasks",
            f"busy [{unit}]",
            f"planned busy [{unit}]",
            "run time / expected",
        ),
        *(f"idle [{unit}]", f"wasted [{unit}]", "pairs out of order", "most places moved", "losses"),
    )
    lead = (
        "Busy counts slot-time, that of attempts that ended badly (wasted) with it. Pairs out of order are those of tasks that "
        "ran where they were planned to, one before the other against the plan."
    )
    moved = sum(task.is_moved for task in run.tasks)
    if any(task.planned is not None for task in run.tasks):
        lead += f" {count(moved, 'task')} ran elsewhere than planned."
    shown = run.workers[:MOST_WORKERS]
    table = Table(headers, tuple(_worker(one) for one in shown), tuple(range(2, len(headers))))
    blocks: list[Block] = [Text((lead,)), table]
    if len(shown) < len(run.workers):
        columns = list(zip(*(_worker(one) for one in run.workers), strict=True))
        blocks[1] = BigTable(headers, tuple(columns))
    return Section("Workers", tuple(blocks))


def _worker(one: WorkerRun) -> tuple[str, ...]:
    planned = "-" if one.planned_busy is None else amount(one.planned_busy)
    times = (amount(one.busy), planned, number(one.ratio, 3), amount(one.idle_time), amount(one.wasted))
    counts = (str(one.inversions), str(one.displacement), str(one.losses))
    return one.name, one.device_class or "-", str(one.slots), str(one.tasks), *times, *counts


def idle(run: Executed) -> Section:
    """Idle time by cause, worker by worker."""
    unit = run.time_unit
    causes = [cause for cause in CAUSES if cause in run.idle]
    title = "Idle time by cause"
    if not causes:
        return Section(title, (Text(("No worker was ever idle.",)),))
    shown = run.workers[:MOST_WORKERS]
    groups = [
        (one.name[:40], [one.busy / one.slots, *(one.idle[cause] / one.slots for cause in causes)])
        for one in shown
    ]
    names = [("busy", 7), *((cause, k) for k, cause in enumerate(causes))]
    per_slot = " per slot" if any(one.slots > 1 for one in shown) else ""
    figure = Figure(
        stacked_chart(groups, names, f"time{per_slot} [{unit}]"),
        f"What every worker did from the first arrival to the last end{_left_out(run)}",
        "idle time of every worker by cause",
    )
    rows = [(one.name, *(amount(one.idle[cause]) for cause in causes)) for one in shown]
    whole = totals(one.idle for one in run.workers)
    rows.append(("all together", *(amount(whole.get(cause, 0.0)) for cause in causes)))
    table = Table(
        ("worker", *causes), tuple(rows), tuple(range(1, len(causes) + 1)), f"Slot-time without work [{unit}]"
    )
    return Section(title, (figure, table, Text(_MEANINGS)))


def _left_out(run: Executed) -> str:
    left = len(run.workers) - MOST_WORKERS
    return f"; {count(left, 'more worker')} left out" if left > 0 else ""


def calibration(run: Executed) -> Section | None:
    """What the expected run times got wrong."""
    if not run.kinds:
        return None
    unit, shown = run.time_unit, run.kinds[:MOST_KINDS]
    headers = (
        "class",
        "kind",
        "executions",
        f"planned mean [{unit}]",
        f"observed mean [{unit}]",
        "observed / planned",
    )
    rows = tuple(
        (
            one.device_class or "-",
            one.kind or "task",
            str(one.num),
            number(one.planned, 4),
            number(one.observed, 4),
            number(one.ratio, 4),
        )
        for one in shown
    )
    left = f" The worst {len(shown)} of {len(run.kinds)}." if len(shown) < len(run.kinds) else ""
    lead = f"Run times that were expected against those of executions that ended well, the worst first.{left}"
    slow = [f"{device} by {number(factor, 3)}" for device, factor in run.factors.items()]
    found = [f"Found during the run, as factors on run times: {', '.join(slow)}."] if slow else []
    table = Table(headers, rows, tuple(range(2, len(headers))))
    return Section("What the calibration got wrong", (Text((lead, *found)), table))


def failures(run: Executed) -> Section | None:
    """Attempts that ended badly, with what was said about them."""
    bad = run.failures
    if not bad:
        return None
    unit = run.time_unit
    rows = tuple(
        (
            _name(run, one.job, one.task),
            str(one.number),
            one.device,
            number(one.started, 5),
            number(one.ended, 5),
            one.outcome,
            one.note[:300] or "-",
        )
        for one in bad[:MOST_FAILURES]
    )
    headers = ("task", "attempt", "worker", f"start [{unit}]", f"end [{unit}]", "ended", "note")
    caption = f"The first {len(rows)} of {len(bad)}." if len(rows) < len(bad) else ""
    lost = [task for task in run.tasks if task.outcome in ("failed", "dropped")]
    said = f"{count(len(bad), 'attempt')} ended badly."
    if lost:
        failed = sum(task.outcome == "failed" for task in lost)
        said += f" {count(failed, 'task')} failed for good, {count(len(lost) - failed, 'task')} with them."
    return Section("Failures and attempts", (Text((said,)), Table(headers, rows, (1, 3, 4), caption)))


def jobs(run: Executed) -> Section | None:
    """Every job, where there are several."""
    if len(run.jobs) < 2:
        return None
    unit = run.time_unit
    mean, p99 = (f"{number(time, 5)} {unit}" for time in (run.mean_job_time, run.p99_job_time))
    lead = (
        f"Mean job time {mean}, 99th percentile {p99}, over {count(len(run.job_times), 'job')} that are done."
    )
    lead = lead if run.job_times else "No job is done."
    if run.deadlines:
        lead += f" {run.missed} of {count(run.deadlines, 'deadline')} were missed."
    names = [str(job.job) for job in run.jobs]
    times = np.array([np.nan if job.time is None else job.time for job in run.jobs])
    arrived = np.array([job.arrived for job in run.jobs])
    columns: list[tuple[str, object]] = [
        ("job", names),
        (f"arrived [{unit}]", arrived),
        (f"time [{unit}]", times),
    ]
    columns.append(("tasks", np.array([float(job.tasks) for job in run.jobs])))
    if any(job.scheduler for job in run.jobs):
        columns.append(("scheduler", [job.scheduler or "-" for job in run.jobs]))
    if run.deadlines:
        due = [np.nan if job.deadline is None else job.deadline for job in run.jobs]
        columns.append((f"due after [{unit}]", np.array(due)))
        columns.append(("missed", ["yes" if job.has_missed else "-" for job in run.jobs]))
    columns += [
        ("outcome", [job.outcome for job in run.jobs]),
        ("reason", [job.reason or "-" for job in run.jobs]),
    ]
    headers = tuple(header for header, _ in columns)
    if len(run.jobs) > MOST_JOBS:
        whole: Block = BigTable(headers, tuple(column for _, column in columns))  # type: ignore[misc]
    else:
        cells = [
            [number(v, 5) if isinstance(v, float) else str(v) for v in np.asarray(c).tolist()]
            for _, c in columns
        ]
        whole = Table(headers, tuple(zip(*cells, strict=True)), (1, 2, 3))
    return Section("Jobs", (Text((lead,)), whole))


def others(run: Executed) -> Section | None:
    """What other schedulers would have done, or did."""
    blocks: list[Block] = []
    unit = run.time_unit
    if run.shadow is not None:
        one = run.shadow
        blocks.append(
            Text(
                (
                    f"{one.scheduler} was asked too and not listened to. It would have given {one.agreeing} of {count(one.num, 'task')} "
                    f"({percent(100 * one.share)}) to the same device, {number(abs(one.lead), 3)} {unit} "
                    f"{'earlier' if one.lead >= 0 else 'later'} on average.",
                )
            )
        )
    if run.split is not None:
        two = run.split
        rows = (
            (two.first, str(two.num_first), number(two.mean_first, 5)),
            (two.second, str(two.num_second), number(two.mean_second, 5)),
        )
        blocks.append(Table(("scheduler", "jobs done", f"mean job time [{unit}]"), rows, (1, 2)))
        said = "Too few jobs for an interval."
        if two.difference is not None:
            said = (
                f"{two.second} minus {two.first}: {two.difference} {unit}. Jobs were divided, so they differ."
            )
        blocks.append(Text((said,)))
    return Section("Other schedulers", tuple(blocks)) if blocks else None


def tasks(run: Executed) -> Section:
    """The tasks with the largest errors, and all of them."""
    unit = run.time_unit
    wrong = sorted((t for t in run.tasks if t.error is not None), key=lambda t: -abs(t.error or 0.0))[
        :MOST_WORST
    ]
    blocks: list[Block] = []
    if wrong:
        rows = tuple((_name(run, t.job, t.task), *_places(t), f"{t.error:+.4g}") for t in wrong)
        headers = (
            "task",
            "planned on",
            "ran on",
            f"planned end [{unit}]",
            f"end [{unit}]",
            f"error [{unit}]",
        )
        blocks.append(Table(headers, rows, (3, 4, 5), "The largest errors of the end of a task"))
        errors = np.array([abs(t.error) for t in run.tasks if t.error is not None])
        mean = (
            f"Mean error of the end of a task, whatever its sign: {number(float(errors.mean()), 4)} {unit}."
        )
        blocks.append(Text((mean,)))
    if len(run.tasks) > MOST_TASKS:
        return Section(
            "Tasks", (*blocks, Text((f"The table of all is left out: there are {len(run.tasks):,}.",)))
        )
    return Section("Tasks", (*blocks, _every_task(run)))


def _places(task: TaskRun) -> tuple[str, ...]:
    planned, actual = task.planned, task.actual
    assert planned is not None
    assert actual is not None
    return planned.device, actual.device, number(planned.finish, 5), number(actual.finish, 5)


def _every_task(run: Executed) -> BigTable:
    unit = run.time_unit
    names = [_name(run, task.job, task.task) for task in run.tasks]
    times = np.array([_times(task) for task in run.tasks]).reshape(-1, 5)
    on = [task.actual.device if task.actual else "-" for task in run.tasks]
    columns: list[tuple[str, object]] = [
        ("task", names),
        ("kind", [task.kind or "task" for task in run.tasks]),
    ]
    if run.planned_makespan is not None or any(task.planned for task in run.tasks):
        columns.append(("planned on", [task.planned.device if task.planned else "-" for task in run.tasks]))
        columns += [(f"planned start [{unit}]", times[:, 0]), (f"planned end [{unit}]", times[:, 1])]
    columns += [("ran on", on), (f"start [{unit}]", times[:, 2]), (f"end [{unit}]", times[:, 3])]
    columns += [(f"error [{unit}]", times[:, 4])] if run.planned_makespan is not None else []
    columns.append(("attempts", np.array([float(task.attempts) for task in run.tasks])))
    columns.append(("outcome", [task.outcome for task in run.tasks]))
    headers = tuple(header for header, _ in columns)
    return BigTable(headers, tuple(column for _, column in columns), "Every task")  # type: ignore[misc]


def _times(task: TaskRun) -> tuple[float, ...]:
    nothing = float("nan")
    planned = (task.planned.start, task.planned.finish) if task.planned else (nothing, nothing)
    actual = (task.actual.start, task.actual.finish) if task.actual else (nothing, nothing)
    return *planned, *actual, nothing if task.error is None else task.error
