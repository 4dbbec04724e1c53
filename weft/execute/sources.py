"""What a run carries out: functions, commands or rehearsals, of a file, a recording or a list of arrivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weft import catalog
from weft.errors import InputError, UnsupportedError
from weft.execute.commands import (
    MOST_REHEARSED_BYTES,
    REHEARSED_SECONDS,
    command_works,
    has_commands,
    rehearsals,
    scale_to,
)
from weft.execute.feed import feed_of
from weft.execute.recording import Flow
from weft.execute.run import Task
from weft.execute.work import Workload
from weft.execute.workloads import JobWorks, call_functions, is_flow_file, record_file
from weft.io.arrivals import read_arrivals
from weft.io.files import load
from weft.kinds import PROBLEMS, TASKS
from weft.model.cluster import Cluster
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Objective, Problem
from weft.scenarios import recipe_names, scenario
from weft.scenarios.settings import parse_assignments

FUNCTIONS, COMMANDS, REHEARSAL = "functions", "commands", "a rehearsal"


@dataclass(frozen=True)
class Source:
    """Jobs to carry out, before they are put on machines."""

    jobs: tuple[Job, ...]
    label: str
    flow: Flow | None = None
    is_stream: bool = False
    file: str = ""
    cluster: Cluster | None = None
    """Machines that the file itself names."""

    @property
    def graphs(self) -> list[TaskGraph]:
        """Graphs of the jobs."""
        return [job.graph for job in self.jobs]


@dataclass(frozen=True)
class Doing:
    """What tasks are to do."""

    functions: str | Mapping[str, Any] | None = None
    allow_commands: bool = False
    seconds: float | None = None
    """Length of the plan of a rehearsal; None: 30 s, or as long as the file says with ``is_real_time``."""
    is_real_time: bool = False


def source_of(
    what: str | Path | Flow | TaskGraph | Problem | None,
    jobs: str | Path | None,
    settings: Sequence[str] = (),
    seed: int = 0,
) -> Source:
    """Jobs of a file, a scenario, a recording, an object, or of a file of arrivals."""
    if jobs is not None:
        if what is not None:
            raise InputError("give a graph or a file of arrivals, not both", field="jobs")
        listed = read_arrivals(jobs)
        made = tuple(
            Job(one.graph, one.name, one.time, None, one.deadline, one.weight, one.owner) for one in listed
        )
        return Source(made, Path(jobs).stem, is_stream=True, file=str(jobs))
    if what is None:
        raise InputError("expected a workflow, a file of functions, or --jobs", field="graph")
    if isinstance(what, Flow):
        return Source((Job(what.graph, what.name),), what.name, flow=what)
    if isinstance(what, TaskGraph):
        return Source((Job(what, what.name),), what.name)
    if isinstance(what, Problem):
        return _of_problem(what)
    name = str(what)
    if is_flow_file(name):
        flow = record_file(name)
        return Source((Job(flow.graph, flow.name),), Path(name.partition(":")[0]).stem, flow=flow, file=name)
    if is_scenario(name):
        return _of_problem(_of_scenario(name, settings, seed))
    return _of_file(Path(what))


def is_scenario(name: str) -> bool:
    """Whether this names a scenario, and no file."""
    return name in recipe_names() and not Path(name).exists()


def _of_scenario(name: str, settings: Sequence[str], seed: int) -> Problem:
    """The first test problem of a scenario; which one, its settings say."""
    chosen = scenario(name, **parse_assignments(settings))
    if chosen.kind not in (PROBLEMS, TASKS):
        raise InputError(
            f"tasks of {name} wait in queues by kind: weft evaluate {name} compares schedulers on it",
            field="GRAPH",
        )
    found = chosen.problem("test", 0) if chosen.kind is PROBLEMS else chosen.dispatched("test", 0, seed)
    return found.replaced(name=name)


def _of_problem(problem: Problem) -> Source:
    return Source(problem.jobs, problem.name, is_stream=_has_releases(problem.jobs), cluster=problem.cluster)


def _of_file(path: Path) -> Source:
    loaded = load(path)
    label, file = path.stem, str(path)
    if loaded.problem is not None:
        jobs = loaded.problem.jobs
        return Source(jobs, label, is_stream=_has_releases(jobs), file=file, cluster=loaded.problem.cluster)
    if loaded.posed is not None:
        jobs = loaded.posed.jobs
        return Source(jobs, label, is_stream=_has_releases(jobs), file=file)
    if loaded.graph is None:
        raise InputError("expected a workflow, got a cluster", file=file)
    return Source((Job(loaded.graph, loaded.graph.name),), label, file=file, cluster=loaded.cluster)


def _has_releases(jobs: Sequence[Job]) -> bool:
    return any(job.release > 0 for job in jobs)


def what_tasks_do(source: Source, doing: Doing) -> str:
    """``functions``, ``commands`` or ``a rehearsal``."""
    if source.flow is not None or doing.functions is not None:
        return FUNCTIONS
    is_command = doing.allow_commands and all(has_commands(graph) for graph in source.graphs)
    return COMMANDS if is_command else REHEARSAL


def put_on(source: Source, cluster: Cluster, doing: Doing) -> Task:
    """The jobs on these machines, with what their tasks do."""
    kind = what_tasks_do(source, doing)
    jobs = source.jobs
    for job in jobs:
        if kind != REHEARSAL and job.graph.is_conditional:
            raise UnsupportedError(
                f"job {job.name!r} branches, and {kind} cannot say which way: only rehearsals draw it",
                file=source.file or None,
            )
    if source.flow is not None:
        jobs = (replace(jobs[0], graph=source.flow.graph_on(cluster)),)
    problem = Problem(jobs, cluster, Objective(copies=False), name=source.label)
    if kind == REHEARSAL:
        problem = rehearsed(problem, doing, is_stream=source.is_stream)
    return Task(
        problem, feed_of(problem), workload_of(source, problem, doing), source.label, source.is_stream
    )


def workload_of(source: Source, problem: Problem, doing: Doing) -> Workload:
    """What the tasks of a problem do."""
    kind = what_tasks_do(source, doing)
    if kind == REHEARSAL:
        return rehearsals(without_overhead(problem))
    if source.flow is not None:
        return source.flow
    if kind == FUNCTIONS:
        assert doing.functions is not None
        made: dict[str | int, Workload] = {
            job.name: call_functions(job.graph, doing.functions) for job in problem.jobs
        }
    else:
        made = {
            job.name: command_works(job.graph, allow_commands=True, file=source.file or None)
            for job in problem.jobs
        }
    return JobWorks({**made})


def without_overhead(problem: Problem) -> Problem:
    """The same on devices that lose no time between tasks: what a task itself takes."""
    classes = tuple(replace(one, overhead=0.0) for one in problem.cluster.classes)
    return problem.replaced(cluster=problem.cluster.replaced(classes=classes))


def rehearsed(problem: Problem, doing: Doing, *, is_stream: bool) -> Problem:
    """The problem in seconds of its rehearsal: run times, releases and data are scaled."""
    scale = problem.seconds_per_unit
    if not doing.is_real_time:
        alone = problem.replaced(jobs=tuple(replace(job, release=0.0) for job in problem.jobs))
        length = catalog.schedule(without_overhead(alone if is_stream else problem), "heft").schedule.makespan
        scale *= scale_to(length, problem, doing.seconds or REHEARSED_SECONDS)
    largest = max((float(job.graph.data.max(initial=0.0)) for job in problem.jobs), default=0.0)
    shrink = min(1.0, MOST_REHEARSED_BYTES / largest) if largest > 0 else 1.0
    jobs = tuple(_scaled(job, scale, shrink) for job in problem.jobs)
    return problem.replaced(jobs=jobs, cluster=_scaled_times(problem, scale))


def _scaled(job: Job, scale: float, shrink: float) -> Job:
    graph = job.graph
    changed = graph.replaced(
        work=graph.work * scale, times=graph.times * scale, data=graph.data * shrink, time_unit="s"
    )
    deadline = None if job.deadline is None else job.deadline * scale
    return replace(job, graph=changed, release=job.release * scale, deadline=deadline)


def _scaled_times(problem: Problem, scale: float) -> Cluster:
    """Classes whose times per kind are scaled; ``scale`` is in seconds per unit of the problem."""
    classes = tuple(
        replace(
            one,
            times={kind: time * scale for kind, time in one.times_in(problem.time_unit).items()},
            time_unit="s" if one.times else one.time_unit,
        )
        for one in problem.cluster.classes
    )
    return problem.cluster.replaced(classes=classes)


def again(source: Source, problem: Problem, doing: Doing) -> Task:
    """The same jobs as a run that goes on has written them down."""
    return Task(
        problem, feed_of(problem), workload_of(source, problem, doing), source.label, source.is_stream
    )
