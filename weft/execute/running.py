"""``weft.run``: one call from a graph and machines to a run that is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.execute.backends import Backend, family, is_own, open_backend, this_machine, three_unequal
from weft.execute.drive import Drive
from weft.execute.folder import RunFolder, new_folder, old_folder, refuse_used
from weft.execute.kept import Kept
from weft.execute.recording import Flow
from weft.execute.resume import read_past
from weft.execute.run import Manner, Run, Task, carry_out
from weft.execute.scheduling import Wanted, refuse, refuse_shadow
from weft.execute.sources import REHEARSAL, Doing, Source, again, put_on, source_of, what_tasks_do
from weft.execute.workloads import is_flow_file
from weft.io.files import read_cluster
from weft.io.histories import read_history
from weft.io.profiled import with_profile
from weft.io.profiles import Profile, default_path
from weft.io.workers import read_workers
from weft.model.cluster import Cluster
from weft.model.graph import TaskGraph
from weft.model.problem import Problem
from weft.wording import count

Notice = Callable[[str], None]
OWN_PROFILE = "default"


@dataclass(frozen=True)
class Request:
    """Everything that can be asked of a run; the options of ``weft run``."""

    graph: str | None = None
    jobs: str | None = None
    on: str = "local"
    cluster: str | None = None
    scheduler: str = "heft"
    seed: int = 0
    is_live: bool = False
    is_strict: bool = False
    budget: float | None = None
    effort: int | None = None
    functions: str | None = None
    allow_commands: bool = False
    seconds: float | None = None
    is_real_time: bool = False
    max_attempts: int = 3
    timeout: float | None = None
    shadow: str | None = None
    split: str | None = None
    profile: str | None = None
    """``default``: the user's own file; a path; None: run times are neither used nor kept."""
    settings: tuple[str, ...] = ()
    """``key=value``, where ``graph`` is the name of a scenario."""

    def __post_init__(self) -> None:
        family(self.on)
        if self.max_attempts < 1:
            raise InputError(f"expected a whole number >= 1, got {self.max_attempts}", field="max_attempts")
        if self.timeout is not None and not self.timeout > 0:
            raise InputError(f"expected a time > 0, got {self.timeout}", field="timeout")
        if self.seconds is not None and not self.seconds > 0:
            raise InputError(f"expected a time > 0, got {self.seconds}", field="length")

    @property
    def doing(self) -> Doing:
        """What tasks do."""
        return Doing(self.functions, self.allow_commands, self.seconds, self.is_real_time)

    @property
    def profile_path(self) -> Path | None:
        """Where run times are kept."""
        if self.profile is None:
            return None
        return default_path() if self.profile == OWN_PROFILE else Path(self.profile)

    def manner(self, scheduler: Any = None) -> Manner:
        """How the run is carried out."""
        wanted = Wanted(
            scheduler or self.scheduler,
            self.seed,
            self.is_live,
            self.is_strict,
            self.budget,
            self.effort,
            self.max_attempts,
            self.split,
        )
        return Manner(
            wanted,
            shadow=self.shadow,
            profile=self.profile_path,
            watches=not self.is_strict,
            timeout=self.timeout,
            asked=asdict(self),
        )


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C came; the run in this folder can go on."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder


@dataclass(frozen=True)
class Objects:
    """What only Python can hand over, in place of names."""

    what: Flow | TaskGraph | Problem | None = None
    cluster: Cluster | None = None
    scheduler: Any = None
    functions: Mapping[str, Callable[..., Any]] | None = None


def run(
    what: str | Path | Flow | TaskGraph | Problem | None = None,
    *,
    on: str = "local",
    cluster: str | Path | Cluster | None = None,
    scheduler: str | Any = "heft",
    out: str | Path | None = None,
    functions: str | Path | Mapping[str, Callable[..., Any]] | None = None,
    resume: bool = False,
    on_progress: Callable[[Drive], None] | None = None,
    on_notice: Notice = lambda line: None,
    **options: Any,
) -> Run:
    """Carry out a workflow on real workers, by a plan or by a dispatcher that decides while it runs.

    Parameters
    ----------
    what
        A recording of functions (``weft.record``), a file of functions or a workflow file, a scenario, a graph, or a problem.
    on
        ``local``, ``dask``, ``dask://HOST:PORT``, ``ray`` or ``ray://HOST:PORT``.
    cluster
        A cluster file, best as ``weft calibrate`` writes it, or an object; None: what the engine has.
    functions
        A Python file, or functions by name: each task calls that of its name or kind with its parents' results.
    out
        Folder of the run; None: ``runs/NAME-1`` and so on.
    resume
        Go on with the run in the folder ``out``.
    options
        As the fields of ``weft.execute.running.Request``.
    """
    is_name = isinstance(what, str | Path)
    given = Objects(
        None if is_name else what,  # type: ignore[arg-type]
        cluster if isinstance(cluster, Cluster) else None,
        None if isinstance(scheduler, str) else scheduler,
        functions if isinstance(functions, Mapping) else None,
    )
    known = Request.__dataclass_fields__
    for name in options:
        if name not in known:
            raise InputError(f"no such option; expected one of {', '.join(known)}", field=name)
    request = Request(
        graph=str(what) if is_name else None,
        on=on,
        cluster=None if cluster is None or isinstance(cluster, Cluster) else str(cluster),
        scheduler=scheduler if isinstance(scheduler, str) else getattr(scheduler, "name", "own"),
        functions=str(functions) if isinstance(functions, str | Path) else None,
        **options,
    )
    return run_request(request, out, given=given, resume=resume, on_progress=on_progress, on_notice=on_notice)


def run_request(
    request: Request,
    out: str | Path | None = None,
    *,
    given: Objects | None = None,
    resume: bool = False,
    on_progress: Callable[[Drive], None] | None = None,
    on_notice: Notice = lambda line: None,
) -> Run:
    """Do what a request asks for."""
    objects = given or Objects()
    with ExitStack() as stack:
        if resume:
            if out is None:
                raise InputError("expected the folder of the run to go on with", field="out")
            folder = old_folder(out)
            request = _resumed(request, folder)
            task, backend = _continued(request, objects, folder, on_notice)
        else:
            refuse_used(out)
            task, backend = _prepared(request, objects, on_notice)
            stack.callback(backend.close)
            folder = new_folder(out, task.label)
        if resume:
            stack.callback(backend.close)
        try:
            return carry_out(task, backend, request.manner(objects.scheduler), folder, on_progress)
        except KeyboardInterrupt:
            raise RunInterrupted(folder.path) from None


def _source(request: Request, objects: Objects) -> Source:
    what = objects.what if request.graph is None else request.graph
    return source_of(what, request.jobs, request.settings, request.seed)


def _doing(request: Request, objects: Objects) -> Doing:
    return replace(request.doing, functions=objects.functions or request.functions)


def _prepared(request: Request, objects: Objects, notice: Notice) -> tuple[Task, Backend]:
    """Jobs on machines that are reached; whatever is wrong with either is said before anything starts."""
    source, doing = _source(request, objects), _doing(request, objects)
    wanted, is_stream = request.manner(objects.scheduler).wanted, source.is_stream or len(source.jobs) > 1
    refuse(wanted, is_stream=is_stream)
    refuse_shadow(request.shadow, wanted, is_stream=is_stream)
    is_rehearsed = what_tasks_do(source, doing) == REHEARSAL
    cluster, workers = _machines(request, objects, source, is_rehearsed=is_rehearsed, notice=notice)
    if is_rehearsed:
        notice(
            f"{source.label}: tasks are rehearsed: they take their time and hand on data, and do nothing else"
        )
    task = put_on(source, cluster, doing)
    if request.profile_path is not None:
        task = _with_profile(task, request.profile_path)
    backend = open_backend(request.on, task.problem.cluster, task.problem.seconds_per_unit, workers)
    try:
        backend.check(task)
    except BaseException:
        backend.close()
        raise
    return task, backend


def _with_profile(task: Task, path: Path) -> Task:
    problem = with_profile(task.problem, Profile.read(path))
    from weft.execute.feed import feed_of

    return replace(task, problem=problem, feed=feed_of(problem))


def _machines(
    request: Request, objects: Objects, source: Source, *, is_rehearsed: bool, notice: Notice
) -> tuple[Cluster, Mapping[str, str]]:
    """The cluster of the run, and the worker of each device where a file says so."""
    if objects.cluster is not None:
        return objects.cluster, {}
    if request.cluster is not None:
        return read_cluster(request.cluster), read_workers(request.cluster)
    if not is_own(request.on):
        return _calibrated(request.on, notice)
    if source.cluster is not None:
        return source.cluster, {}
    if is_rehearsed:
        return _measured_links(request.on, three_unequal(), notice), {}
    return this_machine(), {}


def _calibrated(on: str, notice: Notice) -> tuple[Cluster, Mapping[str, str]]:
    from weft.execute.calibrate import calibrate
    from weft.execute.probes import open_probe

    notice(
        f"no cluster file: measuring the workers of {on}; weft calibrate --on {on} --out FILE keeps the figures"
    )
    probe = open_probe(on)
    try:
        found = calibrate(probe)
    finally:
        probe.close()
    return found.cluster, found.workers


def _measured_links(on: str, cluster: Cluster, notice: Notice) -> Cluster:
    """The cluster with the dispatch gap and links that three workers of the engine have here."""
    from weft.execute.calibrate import calibrate
    from weft.execute.probes import open_probe

    notice(
        f"no cluster: starting three workers of {family(on)} that are taken to be unequal, and measuring them"
    )
    probe = open_probe(on, cluster.num_devices)
    try:
        found = calibrate(probe, seconds=4.0)
    finally:
        probe.close()
    classes = tuple(replace(one, overhead=found.dispatch_gap) for one in cluster.classes)
    links = found.cluster
    fast = float(links.bandwidth.min()), float(links.latency.max())
    return cluster.replaced(
        classes=classes,
        bandwidth=cluster.bandwidth * 0.0 + min(fast[0], 1e12),
        latency=cluster.latency * 0.0 + fast[1],
    )


# -- going on ------------------------------------------------------------------------------------------


def _resumed(request: Request, folder: RunFolder) -> Request:
    """What the run was asked to do; files that the present command names must be the same."""
    asked = folder.read_asked()
    stored = {key: asked[key] for key in Request.__dataclass_fields__ if key in asked}
    former = Request(**stored)
    _refuse_unnamed(request, former, folder)
    for name in ("graph", "jobs"):
        now, before = getattr(request, name), getattr(former, name)
        if now is not None and now != before:
            raise InputError(
                f"the run in {folder.path} is of {before!r}, not of {now!r}",
                field="GRAPH" if name == "graph" else name,
            )
    return former


def _refuse_unnamed(request: Request, former: Request, folder: RunFolder) -> None:
    """Code runs only where a person names it, so a folder alone is not enough to go on with it."""
    graph = former.graph if former.graph is not None and is_flow_file(former.graph) else None
    for option, name in (("GRAPH", graph), ("--functions", former.functions)):
        now = request.graph if option == "GRAPH" else request.functions
        if name is not None and now != name:
            raise InputError(
                f"the run calls functions of {name}: name the file again to go on with it", field=option
            )
    if former.allow_commands and not request.allow_commands:
        raise InputError(
            f"the run in {folder.path} runs commands: say so again to go on", field="--allow-commands"
        )


def _continued(request: Request, objects: Objects, folder: RunFolder, notice: Notice) -> tuple[Task, Backend]:
    source = _source(request, objects)
    problem = folder.read_problem()
    past = read_past(read_history(folder.history))
    is_all = past.ended.issuperset(job.name for job in problem.jobs)
    if past.is_ok or (past.is_closed and is_all):
        raise InputError("this run is over: nothing is left to do", file=str(folder.path))
    task = again(source, problem, _doing(request, objects))
    workers: Mapping[str, str] = {} if request.cluster is None else read_workers(request.cluster)
    backend = open_backend(request.on, problem.cluster, problem.seconds_per_unit, workers)
    if backend.shares_files:
        task = replace(task, workload=Kept(task.workload, folder.task, past.reported))
    notice(f"{folder.path}: done before: {count(len(past.reported), 'task')}; the rest goes on")
    return task, backend
