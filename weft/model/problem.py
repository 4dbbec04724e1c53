"""Problems: jobs on a cluster under an objective, as far as a scheduler may know them.

What *happens* (noise, branches, arrivals) is a :class:`Realisation` of its own module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import InfeasibleError, InputError
from weft.model.bookings import check_bookings
from weft.model.cluster import Cluster
from weft.model.graph import Bools, Floats, Ints32, TaskGraph
from weft.model.job import INFINITE, named_apart
from weft.model.job import OVERRUNS as OVERRUNS
from weft.model.job import QUEUE as QUEUE
from weft.model.job import Job as Job
from weft.model.launches import saved_on
from weft.model.noise import LOGNORMAL, check_noise
from weft.model.realisation import Realisation as Realisation
from weft.model.realisation import expected as expected
from weft.model.realisation import realise as realise
from weft.model.run_times import run_times_on as run_times_on
from weft.model.units import SECONDS

LONGEST = 1e300
"""All run times, transfers and releases of a problem together stay below: no sum overflows."""
WIDEST = 5.0
"""Spreads of logarithms beyond are refused: factors of e^5 and more."""

METRICS = (
    "makespan",
    "mean_jct",
    "weighted_jct",
    "p99_jct",
    "misses",
    "miss_macro",
    "miss_worst",
    "gap_percent",
    "slr",
    "energy",
    "cost",
    "num_copies",
    "transfer_time",
)
"""Properties of a schedule that are better when smaller."""


@dataclass(frozen=True)
class Objective:
    """What a good schedule is."""

    metric: str = "makespan"
    """Name of the schedule property to minimise, one of ``METRICS``."""
    copies: bool = True
    """Whether a task may run more than once (duplication)."""

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise InputError(f"expected one of {', '.join(METRICS)}, got {self.metric!r}", field="metric")


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Problem:
    """Jobs, a cluster and an objective; consistent by construction.

    Tasks of all jobs are numbered through: task ``i`` of job ``j`` is ``offsets[j] + i``.
    """

    jobs: tuple[Job, ...]
    cluster: Cluster
    objective: Objective = Objective()
    noise: float = 0.0
    """Coefficient of variation of log-normal run-time noise (mean 1) in a realisation."""
    name: str = "problem"
    bias: float = 0.0
    """How wrong stated run times are: spread of the logarithm of a factor (mean 1) per kind and class in a realisation."""
    drift: float = 0.0
    """How far those factors wander from the first job to the last: spread of the logarithm, as a random walk."""
    noise_law: str = LOGNORMAL
    """Shape of the noise: ``lognormal``, ``uniform``, ``truncated`` or ``folded`` (``weft/model/noise.py``)."""
    horizon: float | None = None
    """Deadlines after this time do not count as kept or missed; None: all do."""

    def __init__(
        self,
        jobs: TaskGraph | Job | Sequence[Job],
        cluster: Cluster,
        objective: Objective | None = None,
        noise: float = 0.0,
        name: str | None = None,
        bias: float = 0.0,
        drift: float = 0.0,
        noise_law: str = LOGNORMAL,
        horizon: float | None = None,
    ) -> None:
        if isinstance(jobs, TaskGraph):
            jobs = (Job(jobs, name=jobs.name),)
        elif isinstance(jobs, Job):
            jobs = (jobs,)
        if not jobs:
            raise InputError("expected at least one job, got none", field="jobs")
        if not 0 <= noise < INFINITE:
            raise InputError(f"expected a finite coefficient of variation >= 0, got {noise}", field="noise")
        check_noise(noise_law, noise)
        if horizon is not None and not 0 <= horizon < INFINITE:
            raise InputError(f"expected a finite number >= 0, got {horizon}", field="horizon")
        for field, spread in (("bias", bias), ("drift", drift)):
            if not 0 <= spread <= WIDEST:
                raise InputError(f"expected a number from 0 to {WIDEST:g}, got {spread}", field=field)
        _check_units(jobs)
        object.__setattr__(self, "jobs", tuple(named_apart(jobs)))
        object.__setattr__(self, "cluster", cluster)
        object.__setattr__(self, "objective", objective or Objective())
        object.__setattr__(self, "noise", noise)
        object.__setattr__(self, "bias", bias)
        object.__setattr__(self, "drift", drift)
        object.__setattr__(self, "noise_law", noise_law)
        object.__setattr__(self, "horizon", horizon)
        object.__setattr__(self, "name", name or jobs[0].graph.name)
        self.eligible  # noqa: B018  checks the names
        self.run_times  # noqa: B018  checks that every task can run somewhere
        check_bookings(self)
        _check_total(self)

    def __repr__(self) -> str:
        return f"Problem({self.name!r}, {len(self.jobs)} jobs, {self.num_tasks} tasks, {self.cluster!r})"

    @property
    def graph(self) -> TaskGraph:
        """The graph of a problem with one job."""
        if len(self.jobs) != 1:
            raise InputError(f"expected a problem with one job, got {len(self.jobs)}")
        return self.jobs[0].graph

    @property
    def time_unit(self) -> str:
        """Unit of all times: that of every job's graph."""
        return self.jobs[0].graph.time_unit

    @property
    def seconds_per_unit(self) -> float:
        """Seconds in one unit of the problem's time."""
        return SECONDS[self.time_unit]

    @cached_property
    def links(self) -> tuple[Floats, Floats]:
        """Latency and bandwidth between link groups, in the problem's time unit and bytes per unit."""
        seconds = self.seconds_per_unit
        return self.cluster.latency / seconds, self.cluster.bandwidth * seconds

    @cached_property
    def mean_link(self) -> tuple[float, float]:
        """The cluster's mean latency and mean inverse bandwidth, in the problem's time unit."""
        latency, inverse = self.cluster.mean_link
        return latency / self.seconds_per_unit, inverse / self.seconds_per_unit

    def transfer_time(self, source: int, target: int, data: float) -> float:
        """Time for ``data`` bytes from one device to another, in the problem's time unit."""
        return self.cluster.transfer_time(source, target, data) / self.seconds_per_unit

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """First task number of every job, and the total at the end."""
        sizes = [job.graph.num_tasks for job in self.jobs]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @property
    def num_tasks(self) -> int:
        """Number of tasks over all jobs."""
        return int(self.offsets[-1])

    @cached_property
    def job_of(self) -> Ints32:
        """Job of every task."""
        return np.repeat(np.arange(len(self.jobs), dtype=np.int32), np.diff(self.offsets))

    @property
    def varies(self) -> bool:
        """Whether run times that happen differ from those that are stated."""
        return self.noise > 0 or self.bias > 0 or self.drift > 0

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Names of the kinds of all tasks, as they first come up."""
        used = (job.graph.kinds[k] for job in self.jobs for k in np.unique(job.graph.kind).tolist())
        return tuple(dict.fromkeys(used))

    @cached_property
    def kind_of(self) -> npt.NDArray[np.int64]:
        """Kind of every task, numbered as in ``kinds``."""
        number = {name: k for k, name in enumerate(self.kinds)}
        own = [np.array([number.get(name, -1) for name in job.graph.kinds], np.int64) for job in self.jobs]
        return np.concatenate([row[job.graph.kind] for row, job in zip(own, self.jobs, strict=True)])

    def task_name(self, number: int) -> str:
        """Display name of a task: the file's id, with the job in front when there are several."""
        j = int(self.job_of[number])
        name = self.jobs[j].graph.names[number - int(self.offsets[j])]
        return name if len(self.jobs) == 1 else f"{self.jobs[j].name}/{name}"

    @cached_property
    def eligible(self) -> Bools:
        """Which job may use which device; (0, 0) when every job may use all."""
        if all(job.eligible is None for job in self.jobs):
            return np.zeros((0, 0), dtype=np.bool_)
        allowed = np.ones((len(self.jobs), self.cluster.num_devices), dtype=np.bool_)
        for j, job in enumerate(self.jobs):
            if job.eligible is not None:
                allowed[j] = _eligible_row(job, self.cluster)
        return allowed

    @cached_property
    def run_times(self) -> Floats:
        """Expected run time of every task on every class, overhead included; infinity where it cannot run."""
        graphs = {id(job.graph): job.graph for job in self.jobs}
        known = {key: run_times_on(graph, self.cluster) for key, graph in graphs.items()}
        table = np.concatenate([known[id(job.graph)] for job in self.jobs])
        _check_runnable(self, table)
        table.setflags(write=False)
        return table

    @cached_property
    def device_counts(self) -> Floats:
        """Number of devices per class."""
        return np.bincount(self.cluster.device_class, minlength=self.cluster.num_classes).astype(np.float64)

    @cached_property
    def slot_counts(self) -> Floats:
        """Number of slots per class, those of all its devices."""
        return np.asarray(self.device_counts * self.cluster.class_column("slots"), dtype=np.float64)

    @cached_property
    def task_slots(self) -> Floats:
        """Slots that every task holds while it runs."""
        return np.concatenate([job.graph.slots for job in self.jobs]).astype(np.float64)

    @cached_property
    def mean_run_times(self) -> Floats:
        """Mean over the devices a task can run on (by class; job eligibility left aside)."""
        can = np.isfinite(self.run_times)
        weight = can * self.device_counts
        total = np.where(can, self.run_times, 0.0) * self.device_counts
        mean: Floats = total.sum(axis=1) / weight.sum(axis=1)
        return mean

    @cached_property
    def best_run_times(self) -> Floats:
        """Shortest run time of every task over the classes it can run on; elastic ones at their best rate."""
        present = self.device_counts > 0
        overhead = self.cluster.overheads_in(self.time_unit)[present]
        best: Floats = self.run_times[:, present].min(axis=1, initial=INFINITE)
        for j, job in enumerate(self.jobs):
            if job.graph.is_elastic:
                elastic = np.flatnonzero(job.graph.curve >= 0)
                rate = job.graph.best_rates[job.graph.curve[elastic]][:, None]
                alone = self.run_times[self.offsets[j] + elastic][:, present] - overhead
                best[self.offsets[j] + elastic] = (alone / rate + overhead).min(axis=1, initial=INFINITE)
        return best

    @cached_property
    def saved(self) -> Floats:
        """Share of its run time that every task saves within a launch, per class; (0, 0) where none does."""
        if not any(job.graph.saved.size for job in self.jobs):
            return np.zeros((0, 0))
        return np.concatenate([saved_on(job.graph, self.cluster) for job in self.jobs])

    @cached_property
    def least_run_times(self) -> Floats:
        """Run time of every task on every class, within a launch where that saves some: no schedule has less."""
        return self.run_times * (1.0 - self.saved) if self.saved.size else self.run_times

    @cached_property
    def ccr(self) -> float:
        """Communication to computation: mean transfer time of an edge over mean run time of a task."""
        latency, inverse = self.mean_link
        data = np.concatenate([job.graph.data for job in self.jobs])
        mean_work = float(self.mean_run_times.mean()) if self.num_tasks else 0.0
        if not len(data) or mean_work == 0:
            return 0.0
        return float((latency + data * inverse).mean() / mean_work)

    def with_ccr(self, target: float) -> Problem:
        """The same problem with all links slowed or sped up to reach this ratio."""
        if not 0 < target < INFINITE:
            raise InputError(f"expected a ratio > 0, got {target}", field="ccr")
        if self.ccr == 0:
            raise InputError(
                "the ratio cannot be set: it needs data on edges, finite bandwidth and at least two devices",
                field="ccr",
            )
        factor = target / self.ccr
        if not 0 < factor < INFINITE:
            raise InputError(f"expected a ratio that links can reach, got {target}", field="ccr")
        return self.replaced(cluster=self.cluster.scaled_links(factor))

    def replaced(self, **changes: Any) -> Problem:
        """A copy with some fields changed; everything is checked again."""
        return replace(self, **changes)

    def unrolled(self, horizon: float) -> Problem:
        """Periodic jobs replaced by their single releases before ``horizon``."""
        if not 0 <= horizon < INFINITE:
            raise InputError(f"expected a finite number >= 0, got {horizon}", field="horizon")
        jobs: list[Job] = []
        for job in self.jobs:
            if job.period is None:
                jobs.append(job)
                continue
            count = int(np.ceil(max(horizon - job.release, 0.0) / job.period))
            jobs += [
                replace(
                    job,
                    name=f"{job.name}#{k}",
                    release=job.release + k * job.period,
                    period=None,
                    series=job.series or job.name,
                    interval=job.period,
                )
                for k in range(count)
                if job.release + k * job.period < horizon
            ]
        return self.replaced(jobs=tuple(jobs))


def _check_units(jobs: Sequence[Job]) -> None:
    unit = jobs[0].graph.time_unit
    for job in jobs:
        if job.graph.time_unit != unit:
            raise InputError(
                f"expected {unit!r} as in job {jobs[0].name}, got {job.graph.time_unit!r}",
                field=f"job {job.name}: time_unit",
            )


def _eligible_row(job: Job, cluster: Cluster) -> Bools:
    row = np.zeros(cluster.num_devices, dtype=np.bool_)
    class_index = {c.name: i for i, c in enumerate(cluster.classes)}
    for name in job.eligible or ():
        if name in cluster.device_index:
            row[cluster.device_index[name]] = True
        elif name in class_index:
            row |= cluster.device_class == class_index[name]
        else:
            raise InputError(
                f"{name!r} is neither a device nor a class of the cluster", field=f"job {job.name}: eligible"
            )
    if not row.any():
        raise InfeasibleError(f"job {job.name} may use no device", field="eligible")
    return row


def _check_runnable(problem: Problem, table: Floats) -> None:
    present = problem.device_counts > 0
    stuck = ~np.isfinite(table[:, present]).any(axis=1)
    if problem.eligible.size:
        device_can = np.isfinite(table)[:, problem.cluster.device_class]
        stuck |= ~(device_can & problem.eligible[problem.job_of]).any(axis=1)
    if stuck.any():
        number = int(np.argmax(stuck))
        raise InfeasibleError(_why_stuck(problem, number), field=f"tasks.{problem.task_name(number)}")


def _check_total(problem: Problem) -> None:
    """Refuse times that may add up to more than a number can hold."""
    table, (latency, bandwidth) = problem.run_times, problem.links
    run = float(np.max(table, where=np.isfinite(table), initial=0.0)) * problem.num_tasks
    data = max(float(job.graph.data.max(initial=0.0)) for job in problem.jobs)
    slowest = float(latency.max()) + data / float(bandwidth.min())
    moved = slowest * sum(job.graph.num_edges for job in problem.jobs)
    total = (run + moved) * problem.cluster.num_devices + max(job.release for job in problem.jobs)
    if not total < LONGEST:
        raise InputError(
            f"run times and transfers may add up to {total:g}, expected less than {LONGEST:g}", field="work"
        )


def _in_bytes(amount: float) -> str:
    """An amount of memory as a person writes it."""
    return f"{amount / 1e9:g} GB" if amount >= 1e6 else f"{amount:g} bytes"


def _why_stuck(problem: Problem, number: int) -> str:
    j = int(problem.job_of[number])
    graph = problem.jobs[j].graph
    task = graph.task(number - int(problem.offsets[j]))
    classes = [c for c, count in zip(problem.cluster.classes, problem.device_counts, strict=True) if count]
    if task.slots > max(c.slots for c in classes):
        return f"task {task.name!r} needs {task.slots} slots, no device has more than {max(c.slots for c in classes)}"
    if task.memory > max(c.memory for c in classes):
        need, most = _in_bytes(task.memory), _in_bytes(max(c.memory for c in classes))
        return f"task {task.name!r} needs {need} of memory, no device has more than {most}"
    names = ", ".join(c.name for c in classes)
    return f"task {task.name!r} (kind {task.kind}) can run on no device of the cluster ({names})"
