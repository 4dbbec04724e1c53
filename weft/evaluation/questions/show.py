"""What a workflow is like, and what a cluster can do with it, before anything is planned: ``weft.show``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from weft.errors import InputError, expect
from weft.evaluation.figures import graphs as drawing
from weft.evaluation.questions import fit as fitting
from weft.evaluation.questions.fit import Fit, Machines
from weft.io import files
from weft.io.kind_names import warn_of
from weft.io.sources import located
from weft.io.verb_documents import document
from weft.model.cluster import INFINITE, Cluster
from weft.model.graph import Floats, TaskGraph
from weft.model.problem import Job, Problem


@dataclass(frozen=True)
class Kind:
    """The tasks of one kind."""

    kind: str
    tasks: int
    work: float
    run_times: Mapping[str, float | None] | None = None
    """Device class to the mean run time of the tasks that can run there; None: none can. Needs a cluster."""
    no_class: int | None = None
    """Tasks that no class can run."""
    one_class: int | None = None
    """Tasks that only one class can run."""


@dataclass(frozen=True)
class Release:
    """One of several jobs."""

    job: str
    tasks: int
    release: float
    period: float | None
    deadline: float | None


@dataclass(frozen=True)
class Shown:
    """Facts about one or several task graphs; times in ``time_unit``, at speed 1 unless said otherwise."""

    name: str
    time_unit: str
    tasks: int
    edges: int
    work: float
    """Of all tasks; where a task gives only times per class, the shortest of them."""
    critical_path: float
    """Length of the longest path, transfers left aside; of several jobs the longest of any."""
    critical_tasks: tuple[str, ...]
    data: float
    """Bytes on all edges."""
    largest_data: float
    largest_edge: tuple[str, str] | None
    kinds: tuple[Kind, ...]
    levels: tuple[Mapping[str, int], ...]
    """Tasks per kind of every level; a task's level is the longest chain of tasks before it."""
    jobs: tuple[Release, ...]
    fit: Fit | None = None

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.levels)

    @property
    def width(self) -> int:
        """Most tasks on one level."""
        return max((sum(level.values()) for level in self.levels), default=0)

    @property
    def parallelism(self) -> float | None:
        """Work over critical path: how many tasks run at once on average, if devices are free."""
        return self.work / self.critical_path if self.critical_path else None

    @property
    def fits(self) -> bool:
        """Whether there are machines, and every task can run on one."""
        return self.fit is not None and not self.fit.no_class

    def picture(self, width: int = 100) -> str:
        """The levels as rows of blocks, at most this many columns wide."""
        return drawing.terminal(self.levels, [kind.kind for kind in self.kinds], width)

    def __str__(self) -> str:
        return f"{self.name}: {self.tasks} tasks, {self.edges} edges\n{self.picture()}"

    def to_dict(self) -> dict[str, object]:
        """The document of ``weft show --json``."""
        derived = {"depth": self.depth, "width": self.width, "parallelism": self.parallelism}
        return document("show", None, {**asdict(self), **derived})


def show(
    source: Problem | TaskGraph | str | Path,
    cluster: str | Path | Cluster | None = None,
    *,
    plot: str | Path | None = None,
) -> Shown:
    """Say what a workflow is like and which devices can run what.

    Parameters
    ----------
    source
        A problem, a graph, or a file of either.
    cluster
        A built-in name, a cluster file or a cluster; None: the machines of the source, if it has any.
    plot
        Draw the graph here: a .png or .svg (extra ``plot``).
    """
    if plot is not None:
        drawing.check_path(plot, "plot", "a picture of the graph")
    name, jobs, own = _loaded(source)
    machines = (
        own if cluster is None else cluster if isinstance(cluster, Cluster) else files.read_cluster(cluster)
    )
    with located(source if isinstance(source, str | Path) else None):
        found, layers = _described(name, jobs, machines)
    if machines is not None and found.fit is not None:
        warn_of(machines, found.fit.unknown_kinds, stacklevel=3)
    if plot is not None:
        drawing.draw(layers, plot, title=f"{name}: {found.tasks} tasks, {found.edges} edges")
    return found


def _loaded(source: Problem | TaskGraph | str | Path) -> tuple[str, tuple[Job, ...], Cluster | None]:
    """Name, jobs and machines of what is to be shown."""
    if isinstance(source, str | Path):
        loaded = files.load(source)
        if loaded.posed is not None:
            return loaded.posed.name, loaded.posed.jobs, None
        found = loaded.problem or loaded.graph
        if found is None:
            raise InputError("expected a workflow or a problem, got a cluster", file=str(source))
        return *_loaded(found)[:2], found.cluster if isinstance(found, Problem) else loaded.cluster
    expect(source, (Problem, TaskGraph), "a problem, a graph or a file", "source")
    if isinstance(source, Problem):
        return source.name, source.jobs, source.cluster
    return source.name, (Job(source, name=source.name),), None


def _described(name: str, jobs: tuple[Job, ...], cluster: Cluster | None) -> tuple[Shown, drawing.Layers]:
    machines = None if cluster is None else fitting.machines_of(jobs, cluster)
    lengths = np.concatenate([_lengths(job.graph) for job in jobs])
    walks = [_walk(job.graph, part) for job, part in zip(jobs, _parts(jobs, lengths), strict=True)]
    names = _names(jobs)
    path = _critical(walks)
    layers = _layers(jobs, walks, names, path)
    data = np.concatenate([job.graph.data for job in jobs])
    largest = int(data.argmax()) if len(data) else -1
    shown = Shown(
        name=name,
        time_unit=jobs[0].graph.time_unit,
        tasks=len(names),
        edges=len(data),
        work=float(lengths.sum()),
        critical_path=float(lengths[path].sum()),
        critical_tasks=tuple(names[i] for i in path),
        data=float(data.sum()),
        largest_data=float(data.max(initial=0.0)),
        largest_edge=(names[layers.sources[largest]], names[layers.targets[largest]]) if len(data) else None,
        kinds=_kinds(layers, lengths, machines),
        levels=_levels(layers),
        jobs=_releases(jobs),
        fit=None if machines is None else _fit(jobs, names, machines),
    )
    return shown, layers


def _parts(jobs: Sequence[Job], column: Floats) -> list[Floats]:
    """A column over all tasks, job by job."""
    return np.split(column, np.cumsum([job.graph.num_tasks for job in jobs])[:-1])


def _names(jobs: Sequence[Job]) -> list[str]:
    if len(jobs) == 1:
        return list(jobs[0].graph.names)
    return [f"{job.name}/{name}" for job in jobs for name in job.graph.names]


def _lengths(graph: TaskGraph) -> Floats:
    """Work of every task, or the shortest of its times per class where only those are given."""
    if not graph.classes:
        return graph.work
    shortest = np.where(np.isfinite(graph.times), graph.times, INFINITE).min(axis=1)
    return np.where(np.isnan(graph.work), np.where(np.isfinite(shortest), shortest, 0.0), graph.work)


class _Walk(NamedTuple):
    reach: list[float]
    before: list[int]
    level: list[int]


def _walk(graph: TaskGraph, lengths: Floats) -> _Walk:
    """Per task: the longest path that ends with it, the task before it there, and its level."""
    pointer, targets, own = graph.successor_pointer.tolist(), graph.targets.tolist(), lengths.tolist()
    reach, before, level = own.copy(), [-1] * len(own), [0] * len(own)
    for i in graph.order.tolist():
        for j in targets[pointer[i] : pointer[i + 1]]:
            length = reach[i] + own[j]
            if length > reach[j] or (before[j] < 0 and length == reach[j]):
                reach[j], before[j] = length, i
            level[j] = max(level[j], level[i] + 1)
    return _Walk(reach, before, level)


def _critical(walks: Sequence[_Walk]) -> list[int]:
    """Task numbers of the longest path of any job, first to last."""
    path: list[int] = []
    longest, offset = -1.0, 0
    for walk in walks:
        last = max(range(len(walk.reach)), key=lambda i: (walk.reach[i], walk.level[i]), default=-1)
        if last >= 0 and walk.reach[last] > longest:
            longest, path = walk.reach[last], []
            while last >= 0:
                path.append(offset + last)
                last = walk.before[last]
        offset += len(walk.reach)
    return path[::-1]


def _layers(
    jobs: Sequence[Job], walks: Sequence[_Walk], names: Sequence[str], path: Sequence[int]
) -> drawing.Layers:
    """All jobs as one graph; kinds in the order a Gantt chart has them."""
    used = [job.graph.kinds[k] for job in jobs for k in np.unique(job.graph.kind).tolist()]
    index = {kind: k for k, kind in enumerate(dict.fromkeys(used))}
    kind = [np.array([index.get(k, 0) for k in job.graph.kinds])[job.graph.kind] for job in jobs]
    offsets = np.cumsum([0, *(job.graph.num_tasks for job in jobs)]).tolist()
    return drawing.Layers(
        names=tuple(names),
        kinds=tuple(index),
        kind=np.concatenate(kind).astype(np.int64),
        level=np.concatenate([np.array(walk.level, dtype=np.int64) for walk in walks]),
        sources=np.concatenate(
            [job.graph.sources + first for job, first in zip(jobs, offsets, strict=False)]
        ),
        targets=np.concatenate(
            [job.graph.targets + first for job, first in zip(jobs, offsets, strict=False)]
        ),
        critical=np.array(path, dtype=np.int64),
    )


def _levels(layers: drawing.Layers) -> tuple[Mapping[str, int], ...]:
    counts: list[Counter[int]] = [Counter() for _ in range(int(layers.level.max(initial=-1)) + 1)]
    for level, kind in zip(layers.level.tolist(), layers.kind.tolist(), strict=True):
        counts[level][kind] += 1
    return tuple({layers.kinds[k]: count[k] for k in sorted(count)} for count in counts)


def _releases(jobs: Sequence[Job]) -> tuple[Release, ...]:
    return tuple(
        Release(job.name, job.graph.num_tasks, job.release, job.period, job.deadline) for job in jobs
    )


def _kinds(layers: drawing.Layers, lengths: Floats, machines: Machines | None) -> tuple[Kind, ...]:
    num = len(layers.kinds)
    counts = np.bincount(layers.kind, minlength=num).tolist()
    work = np.bincount(layers.kind, lengths, minlength=num).tolist()
    if machines is None:
        return tuple(map(Kind, layers.kinds, counts, work))
    no_class, one_class = (
        np.bincount(layers.kind[machines.options == n], minlength=num).tolist() for n in (0, 1)
    )
    times = machines.mean_times(layers.kind, num)
    return tuple(map(Kind, layers.kinds, counts, work, times, no_class, one_class))


def _fit(jobs: Sequence[Job], names: Sequence[str], machines: Machines) -> Fit:
    fastest = None
    if machines.problem is not None:
        parts = _parts(jobs, machines.problem.best_run_times)
        walks = [_walk(job.graph, part) for job, part in zip(jobs, parts, strict=True)]
        fastest = max((max(walk.reach, default=0.0) for walk in walks), default=0.0)
    return fitting.fit(jobs, names, machines, fastest)
