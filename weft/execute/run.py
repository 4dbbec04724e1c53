"""``weft.run``: a graph and machines in, everything carried out, and a folder that says what happened."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.errors import InputError
from weft.execute.backends import Backend
from weft.execute.drive import Drive
from weft.execute.engine import Engine
from weft.execute.feed import Feed
from weft.execute.folder import PLAN, RunFolder
from weft.execute.keeping import RESULT, NotKept, kept
from weft.execute.resume import go_on, read_past
from weft.execute.scheduling import Chosen, Wanted, choose
from weft.execute.told import Told
from weft.execute.warm import warm
from weft.execute.watch import SpeedWatch
from weft.execute.work import Workload
from weft.io.folders import locked
from weft.io.histories import SCHEMA, History, Row, read_history
from weft.io.profiles import Profile
from weft.io.schedules import write_schedule
from weft.model.cluster import Cluster
from weft.model.problem import Problem, realise
from weft.session.messages import Name

Listen = Callable[[Drive], None]


@dataclass(frozen=True)
class Task:
    """What is to be carried out, before anybody says how."""

    problem: Problem
    """Jobs that are known at the start, on the cluster of the run."""
    feed: Feed
    workload: Workload
    label: str
    """What it is called: the file or function."""
    is_stream: bool = False


@dataclass(frozen=True)
class Manner:
    """How it is carried out."""

    wanted: Wanted = field(default_factory=Wanted)
    ahead: int = 1
    shadow: str | None = None
    profile: Path | None = None
    """Where observed run times are kept; None: nowhere."""
    watches: bool = True
    """Whether devices that turn slow are noticed."""
    timeout: float | None = None
    """Seconds after which an attempt at a task fails."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """The options as they were given, to go on with."""


@dataclass(frozen=True, eq=False)
class Run:
    """What became of a run."""

    folder: Path | None
    label: str
    on: str
    scheduler: str
    time_unit: str
    planned: float | None
    """When the first plan was to end; None: nobody planned."""
    actual: float
    """When the last task ended."""
    attempts: int
    """How often tasks were started."""
    num_tasks: int
    ok: bool
    """Whether every job ended well."""
    reason: str
    rows: tuple[Row, ...]

    def result(self, task: str, job: Name | None = None) -> Any:
        """Result of a task, as the folder of the run keeps it; which job's, where there are several."""
        jobs = [row["job"] for row in self.rows if row["event"] == "arrived"]
        if job is None and len(jobs) != 1:
            raise InputError(f"expected one of {', '.join(map(str, jobs)):.200}", field="job")
        if self.folder is None:
            raise InputError("a run without a folder keeps no results", field="task")
        home = RunFolder(self.folder).home(jobs[0] if job is None else job, task)
        try:
            return kept(home)
        except NotKept:
            raise InputError(
                f"no result of it is kept: it did not end well, or returned what {RESULT} cannot hold",
                field=f"task {task}",
            ) from None

    @property
    def error_percent(self) -> float | None:
        """By how much the run took longer than planned."""
        if not self.planned:
            return None
        return 100.0 * (self.actual / self.planned - 1.0)

    def to_dict(self) -> dict[str, Any]:
        """The figures of ``weft run --json``."""
        return {
            "run": None if self.folder is None else str(self.folder),
            "on": self.on,
            "scheduler": self.scheduler,
            "time_unit": self.time_unit,
            "tasks": self.num_tasks,
            "planned": self.planned,
            "actual": self.actual,
            "error_percent": self.error_percent,
            "attempts": self.attempts,
            "ok": self.ok,
            "reason": self.reason,
        }


def carry_out(
    task: Task, backend: Backend, manner: Manner, folder: RunFolder | None, listen: Listen | None = None
) -> Run:
    """Run everything, from the start or from where the history of the folder ends."""
    with ExitStack() as stack:
        if folder is not None:
            stack.enter_context(locked(folder.path, "running this run"))
        path = None if folder is None else folder.history
        past = read_past(read_history(path)) if path is not None and path.exists() else None
        chosen = choose(manner.wanted, task.problem, is_stream=task.is_stream)
        warm(chosen.make, task.problem)
        history = stack.enter_context(_closing(History(path)))
        if past is None:
            _begin(task, backend, manner, folder, chosen, history)
        engine = backend.engine(task.workload, folder, past.elapsed if past is not None else 0.0, manner)
        stack.callback(engine.close)
        drive = _drive(task, manner, chosen, engine, history, listen)
        if past is not None:
            go_on(drive, past, task.feed)
        _go(drive, history)
        if manner.profile is not None:
            _learn(drive, task.problem.cluster, manner.profile)
        return _result(drive, task, chosen, folder, engine)


def _drive(
    task: Task, manner: Manner, chosen: Chosen, engine: Engine, history: History, listen: Listen | None
) -> Drive:
    cluster, shadow = task.problem.cluster, None
    if manner.shadow is not None:
        wanted = replace(manner.wanted, scheduler=manner.shadow, split=None)
        shadow = choose(wanted, task.problem, is_stream=task.is_stream).make
    watcher = SpeedWatch(seconds_per_unit=task.problem.seconds_per_unit) if manner.watches else None
    return Drive(
        Told(cluster, chosen.make, shadow),
        engine,
        task.feed,
        history,
        ahead=manner.ahead,
        keeps_results=not task.is_stream,
        watcher=watcher,
        listen=listen or (lambda drive: None),
        outcome=outcomes_of(task.problem, manner.wanted.seed),
    )


def outcomes_of(problem: Problem, seed: int) -> Callable[[Name, str], tuple[str, ...] | None]:
    """What the branches of tasks lead to, as a seed draws it from their probabilities."""
    if not any(job.graph.is_conditional for job in problem.jobs):
        return lambda job, task: None
    drawn = realise(problem.replaced(noise=0.0, bias=0.0, drift=0.0), seed)
    found: dict[tuple[Name, str], tuple[str, ...]] = {}
    for j, job in enumerate(problem.jobs):
        graph = job.graph
        for e in np.flatnonzero(graph.branch >= 0).tolist():
            key = (job.name, graph.names[int(graph.sources[e])])
            way = (graph.names[int(graph.targets[e])],) if drawn.taken[j][e] else ()
            found[key] = (*found.get(key, ()), *way)
    return lambda job, task: found.get((job, task))


def _begin(
    task: Task,
    backend: Backend,
    manner: Manner,
    folder: RunFolder | None,
    chosen: Chosen,
    history: History,
) -> None:
    """Write down what is about to be done."""
    cluster = task.problem.cluster
    if folder is not None:
        folder.write_asked({"weft": weft.__version__, "label": task.label, **manner.asked})
        folder.write_problem(task.problem)
        if chosen.plan is not None:
            write_schedule(chosen.plan, folder.path / PLAN, valid=True)
    history.add(
        "run",
        0.0,
        schema=SCHEMA,
        weft=weft.__version__,
        run=uuid.uuid4().hex[:12],
        label=task.label,
        on=backend.name,
        scheduler=chosen.name,
        policy=chosen.policy,
        seed=manner.wanted.seed,
        time_unit=task.problem.time_unit,
        devices=_devices(cluster, backend.workers),
        started_at=round(time.time(), 3),
    )


def _devices(cluster: Cluster, workers: Mapping[str, str]) -> list[dict[str, Any]]:
    found = []
    for name, c in zip(cluster.device_names, cluster.device_class.tolist(), strict=True):
        one = cluster.classes[c]
        row: dict[str, Any] = {"name": name, "class": one.name, "slots": one.slots}
        if one.memory < float("inf"):
            row["memory"] = one.memory
        found.append({**row, "worker": workers.get(name, name)})
    return found


def _go(drive: Drive, history: History) -> None:
    """Until the end; whatever ends it is written down."""
    try:
        drive.run()
    except BaseException as error:
        reason = "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
        history.add("closed", drive.now, ok=False, reason=" ".join(reason.split())[:300])
        raise
    ends = (row for row in history.rows if row["event"] == "ended")  # those of a former driver, too
    failed = [row for row in ends if row["outcome"] != "done"]
    history.add("closed", drive.now, ok=not failed, reason=failed[0]["reason"] if failed else "")


def _learn(drive: Drive, cluster: Cluster, path: Path) -> None:
    """Add what was observed to the profile of the user."""
    profile = Profile.read(path)
    seconds = drive.told.session.problem.seconds_per_unit
    for one in drive.observed:
        number = drive.told.number(one.device)
        name = cluster.classes[int(cluster.device_class[number])].name
        work = one.work * seconds if one.work is not None else None
        profile.add(one.kind, name, one.actual * seconds, one.size, work=work, graph=one.graph, task=one.task)
    profile.write()


def _result(drive: Drive, task: Task, chosen: Chosen, folder: RunFolder | None, engine: Engine) -> Run:
    rows = drive.history.rows
    ends = [float(row["at"] if "at" in row else row["time"]) for row in rows if row["event"] == "finished"]
    last = rows[-1]
    return Run(
        None if folder is None else folder.path,
        task.label,
        engine.name,
        chosen.name,
        task.problem.time_unit,
        planned_end(rows),
        max(ends, default=0.0),
        sum(row["event"] == "started" for row in rows),
        drive.told.num_tasks,
        bool(last.get("ok")),
        str(last.get("reason", "")),
        tuple(rows),
    )


def planned_end(rows: list[Row]) -> float | None:
    """When the first plan of a history was to end; None: nobody planned, or jobs came later."""
    plan = next((row for row in rows if row["event"] == "planned"), None)
    num_jobs = sum(row["event"] == "arrived" for row in rows)
    if plan is None or not plan["rows"] or num_jobs > 1:
        return None
    return max(float(row[4]) for row in plan["rows"])


class _closing:
    """Closes a history at the end."""

    def __init__(self, history: History) -> None:
        self._history = history

    def __enter__(self) -> History:
        return self._history

    def __exit__(self, *_: object) -> None:
        self._history.close()
