"""A run that was carried out, told from its folder: plan against actual."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InputError
from weft.evaluation.executed.deviations import inversions, kind_errors, ratio_of, shadow_of, split_of
from weft.evaluation.executed.expectations import Expectations
from weft.evaluation.executed.records import (
    CANCELLED,
    DATA,
    DISPATCH,
    FAILED,
    FINISHED,
    LOST,
    OPEN,
    Attempt,
    JobRun,
    Key,
    KindError,
    Link,
    Placed,
    Shadow,
    Split,
    TaskRun,
    WorkerRun,
)
from weft.evaluation.executed.story import Story, story_of
from weft.evaluation.executed.waiting import Waiting, totals
from weft.io.files import load_problem
from weft.io.histories import HISTORY, read_history
from weft.io.schedules import read_schedule
from weft.model.history_oracle import check_history
from weft.model.problem import Problem
from weft.model.schedule import ABORTED, DONE, Schedule
from weft.model.units import SECONDS

PROBLEM, PLAN = "problem.json", "plan.json"
_UNREADABLE = ("schema", "job", "device")
"""Rules without which nothing can be told."""


@dataclass(frozen=True)
class Executed:
    """What was planned and what happened; times are in ``time_unit`` since the run began."""

    name: str
    on: str
    """The engine it ran on."""
    scheduler: str
    seed: int | None
    time_unit: str
    policy: str
    """``plan`` or ``live``."""
    is_ok: bool | None
    """Whether it was closed well; None: its history has no end."""
    reason: str
    """Why it was closed, where it was not closed well."""
    faults: tuple[str, ...]
    """Rules that its history breaks, in words; a missing end is not among them."""
    drivers: int
    """Processes that drove it: more than one where it was resumed."""
    begin: float
    """When the first job arrived."""
    planned_makespan: float | None
    """Of the first plans; None where some task was not planned before."""
    makespan: float
    """From the first arrival to the last end that was reported."""
    tasks: tuple[TaskRun, ...]
    workers: tuple[WorkerRun, ...]
    jobs: tuple[JobRun, ...]
    attempts: tuple[Attempt, ...]
    """All orders, by submission."""
    chain: tuple[Link, ...]
    """The executions that the end of the run waited for, the first one first."""
    kinds: tuple[KindError, ...]
    """What the calibration got wrong, worst first."""
    plans: Mapping[str, int]
    """How often plans were made, by reason."""
    factors: Mapping[str, float]
    """Workers that were found slower or faster than planned, by which factor."""
    shadow: Shadow | None
    split: Split | None

    @property
    def error_percent(self) -> float | None:
        """How much longer than planned the run took."""
        planned = self.planned_makespan
        return 100.0 * (self.makespan / planned - 1.0) if planned else None

    @property
    def num_done(self) -> int:
        """Tasks that were reported."""
        return sum(task.outcome == "done" for task in self.tasks)

    @property
    def throughput(self) -> float:
        """Tasks reported per second."""
        seconds = self.makespan * SECONDS.get(self.time_unit, 1.0)
        return self.num_done / seconds if seconds > 0 else 0.0

    @property
    def failures(self) -> tuple[Attempt, ...]:
        """Attempts that failed or were lost."""
        return tuple(one for one in self.attempts if one.outcome in (FAILED, LOST))

    @property
    def inversions(self) -> int:
        """Pairs of tasks that ran against the planned order, on all workers."""
        return sum(worker.inversions for worker in self.workers)

    @property
    def idle(self) -> dict[str, float]:
        """Slot-time without work of all workers by cause."""
        return totals(worker.idle for worker in self.workers)

    @cached_property
    def job_times(self) -> tuple[float, ...]:
        """Times of all jobs that are done."""
        return tuple(job.time for job in self.jobs if job.time is not None and job.outcome == "done")

    @property
    def mean_job_time(self) -> float | None:
        """Mean over the jobs that are done."""
        return float(np.mean(self.job_times)) if self.job_times else None

    @property
    def p99_job_time(self) -> float | None:
        """99th percentile over the jobs that are done."""
        return float(np.percentile(self.job_times, 99)) if self.job_times else None

    @property
    def deadlines(self) -> int:
        """Jobs that were due at some time."""
        return sum(job.deadline is not None for job in self.jobs)

    @property
    def missed(self) -> int:
        """Those of them that were not done by then."""
        return sum(job.has_missed for job in self.jobs)

    @property
    def chain_waits(self) -> dict[str, float]:
        """Time along the chain in which nothing of it ran, by cause."""
        return totals(link.waits for link in self.chain)

    @property
    def why(self) -> dict[str, float]:
        """Where the difference to the plan comes from, along the chain; adds up to it. Empty without a plan.

        Of dispatch gaps, what plans allow for them as overhead does not count.
        """
        if self.planned_makespan is None:
            return {}
        good = [link for link in self.chain if link.attempt.outcome == FINISHED]
        parts = {
            "run times": sum(o.attempt.run_time - (o.expected or o.attempt.run_time) for o in good),
            "attempts that failed or were lost": sum(
                o.attempt.run_time for o in self.chain if o.attempt.outcome != FINISHED
            ),
        }
        parts |= {cause: time for cause, time in self.chain_waits.items() if cause != DATA}
        planned = sum(link.overhead for link in self.chain)
        parts |= {DISPATCH: parts.get(DISPATCH, 0.0) - planned} if planned else {}
        rest = self.makespan - self.planned_makespan - sum(parts.values())
        return {**parts, "transfers, and another place or order of tasks": rest}

    def facts(self) -> dict[str, Any]:
        """The figures of the whole run, for a document that does not list every task."""
        names = (
            *("on", "scheduler", "policy", "time_unit", "is_ok", "reason", "faults", "drivers"),
            *("planned_makespan", "makespan", "error_percent", "why", "idle", "inversions", "throughput"),
            *("plans", "factors", "mean_job_time", "p99_job_time", "deadlines", "missed"),
        )
        workers = [asdict(worker) for worker in self.workers]
        return {name: getattr(self, name) for name in names} | {
            "tasks": len(self.tasks),
            "done": self.num_done,
            "attempts": sum(task.attempts for task in self.tasks),
            "failures": len(self.failures),
            "jobs": len(self.jobs),
            "workers": workers,
            "kinds": [asdict(one) for one in self.kinds],
            "shadow": None if self.shadow is None else asdict(self.shadow) | {"share": self.shadow.share},
            "split": None if self.split is None else asdict(self.split),
        }

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        whole = asdict(self)
        own = ("error_percent", "throughput", "inversions", "idle", "mean_job_time", "p99_job_time", "why")
        return whole | {name: getattr(self, name) for name in (*own, "deadlines", "missed")}


def read_executed(folder: str | Path) -> Executed:
    """The run of a folder, or of the history file in it."""
    path = Path(folder)
    path = path.parent if path.name == HISTORY else path
    rows = read_history(path)
    problem = load_problem(path / PROBLEM) if (path / PROBLEM).is_file() else None
    plan = None
    if problem is not None and (path / PLAN).is_file():
        plan = read_schedule(path / PLAN, problem)
    return executed_of(rows, problem, plan, str(path))


def executed_of(
    rows: Sequence[Mapping[str, Any]],
    problem: Problem | None = None,
    plan: Schedule | None = None,
    name: str = "run",
) -> Executed:
    """The run that a history tells.

    Parameters
    ----------
    rows
        The history; one that no run could have written is refused.
    problem
        For run times and transfers that were expected; None: those of the first plan are all that is known.
    plan
        The first plan, where the history holds none.
    """
    faults = [one for one in check_history(rows) if one.rule != "incomplete"]
    broken = [one for one in faults if one.rule in _UNREADABLE]
    if broken:
        raise InputError(f"not the history of a run: {broken[0]} (weft validate names all)", file=name)
    story = story_of(rows)
    if plan is not None and not story.planned:
        _take_plan(story, plan)
    known = Expectations(story, problem)
    end = max((o.ended or 0.0 for o in story.attempts if _is_result(story, o)), default=story.begin)
    waiting = Waiting(known, end)
    tasks = tuple(_task(known, key, waiting) for key in story.kinds)
    jobs = tuple(story.jobs.values())
    head = story.head
    return Executed(
        name=Path(name).name,
        on=str(head.get("on", "")),
        scheduler=str(head.get("scheduler", "")),
        seed=head.get("seed") if isinstance(head.get("seed"), int) else None,
        time_unit=head["time_unit"],
        policy=str(head.get("policy", "")),
        is_ok=story.is_ok,
        reason=story.reason,
        faults=tuple(map(str, faults)),
        drivers=story.drivers,
        begin=story.begin,
        planned_makespan=_planned_makespan(story),
        makespan=end - story.begin,
        tasks=tasks,
        workers=tuple(_worker(waiting, tasks, device) for device in known.slots),
        jobs=jobs,
        attempts=tuple(story.attempts),
        chain=waiting.chain(),
        kinds=kind_errors(known, waiting.ran),
        plans=story.plans,
        factors=story.factors,
        shadow=shadow_of(story),
        split=split_of(jobs),
    )


def _take_plan(story: Story, plan: Schedule) -> None:
    """Use a plan that was kept beside the history; its times count from the first arrival."""
    for row in plan.placements():
        if row.device is not None and (row.job, row.task) in story.kinds and not row.copy:
            placed = Placed(row.device, story.begin + row.start, story.begin + row.finish)
            story.planned.setdefault((row.job, row.task), placed)


def _is_result(story: Story, one: Attempt) -> bool:
    return one.outcome == FINISHED and story.reported.get(one.key) == one.number


def _planned_makespan(story: Story) -> float | None:
    wanted = [key for key in story.kinds if story.settled.get(key) != "skipped"]
    if not wanted or any(key not in story.planned for key in wanted):
        return None
    return max(story.planned[key].finish for key in wanted) - story.begin


def _task(known: Expectations, key: Key, waiting: Waiting) -> TaskRun:
    story = known.story
    ran = [one for one in waiting.by_task.get(key, ()) if _is_result(story, one)]
    actual = Placed(ran[0].device, ran[0].started or 0.0, ran[0].ended or 0.0) if ran else None
    own = story.orders.get(key, [])
    given = [one for one in own if one.outcome != CANCELLED]
    if key in story.reported:
        outcome = "done"
    else:
        has_failed = bool(given) and given[-1].outcome in (FAILED, LOST)
        outcome = story.settled.get(key, "failed" if has_failed else OPEN)
    return TaskRun(
        *key, known.kind(key), story.parents[key], story.planned.get(key), actual, len(given), outcome
    )


def _worker(waiting: Waiting, tasks: tuple[TaskRun, ...], device: str) -> WorkerRun:
    known = waiting.known
    ran = [one for one in waiting.ran if one.device == device]
    busy, wasted = waiting.busy(device)
    placed = [
        (
            max(task.planned.length - known.overhead(device), 0.0),
            known.num_slots((task.job, task.task)),
        )
        for task in tasks
        if task.planned is not None and task.planned.device == device
    ]
    pairs, places = inversions(tasks, device)
    return WorkerRun(
        name=device,
        device_class=known.device_class[device],
        slots=known.slots[device],
        tasks=sum(one.outcome == FINISHED for one in ran),
        busy=busy,
        wasted=wasted,
        planned_busy=sum(time * slots for time, slots in placed) if known.story.planned else None,
        ratio=ratio_of(known, ran),
        idle=waiting.idle(device),
        inversions=pairs,
        displacement=places,
        losses=len(known.story.away.get(device, ())),
    )


def schedule_of(run: Executed, problem: Problem) -> Schedule:
    """What ran as a schedule of its problem, attempts that ended badly as aborted; for charts and metrics."""
    jobs = {job.name: j for j, job in enumerate(problem.jobs)}
    devices = problem.cluster.device_index
    rows: list[tuple[int, int, float, float, int, int]] = []
    for one in run.attempts:
        if one.started is None or one.ended is None:
            continue
        j = jobs.get(str(one.job))
        number = None if j is None else problem.jobs[j].graph.index.get(one.task)
        if j is None or number is None or one.device not in devices:
            raise InputError(
                f"the problem has no task {one.task!r} of job {one.job!r}, or no device {one.device!r}",
                field="problem",
            )
        place = (int(problem.offsets[j]) + number, devices[one.device], one.started, one.ended)
        rows.append((*place, one.number - 1, DONE if one.outcome == FINISHED else ABORTED))
    table = np.array(rows, dtype=np.float64).reshape(-1, 6)
    task, device, attempt = (table[:, k].astype(np.int32) for k in (0, 1, 4))
    outcome = table[:, 5].astype(np.int8)
    return Schedule(problem, task, device, table[:, 2], table[:, 3], attempt=attempt, outcome=outcome)
