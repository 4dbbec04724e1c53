"""Schedules: who ran where and when, and how good that is.

One row per execution of a task (copies, attempts) or, for elastic tasks, per constant allocation.
Every metric is a property here and defined nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.model.bounds import (
    Bound,
    critical_path,
    lower_bound,
    shortest_job_times,
    slowdowns_of,
    unfairness_of,
)
from weft.model.graph import Floats, Ints, Ints32
from weft.model.placement import ABORTED as ABORTED
from weft.model.placement import DONE as DONE
from weft.model.placement import EXPIRED as EXPIRED
from weft.model.placement import OUTCOMES as OUTCOMES
from weft.model.placement import SKIPPED as SKIPPED
from weft.model.placement import Placement as Placement
from weft.model.problem import Problem, Realisation
from weft.model.series import SeriesFigures


@dataclass(frozen=True, eq=False, repr=False)
class Schedule:
    """Executions of the tasks of a problem, sorted by (start, device, task, copy).

    ``task`` numbers tasks through all jobs, as in :class:`~weft.model.problem.Problem`.
    """

    problem: Problem
    task: Ints32  # (num_rows,)
    device: Ints32  # (num_rows,) -1 where the task never ran
    start: Floats  # (num_rows,)
    finish: Floats  # (num_rows,)
    copy: Ints32 = field(default_factory=lambda: np.zeros(0, np.int32))  # (num_rows,)
    attempt: Ints32 = field(default_factory=lambda: np.zeros(0, np.int32))  # (num_rows,)
    batch: Ints32 = field(default_factory=lambda: np.zeros(0, np.int32))  # (num_rows,) -1: alone
    units: Floats = field(default_factory=lambda: np.zeros((0, 0)))  # (num_rows, num_resources)
    outcome: npt.NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))  # (num_rows,)
    realisation: Realisation | None = None
    """What happened, if the schedule was carried out; None for a plan."""
    lower_bounds: tuple[Bound, ...] = ()
    """Bounds a solver proved, besides the cheap ones."""
    launch: Ints32 = field(default_factory=lambda: np.zeros(0, np.int32))  # (num_rows,) -1: alone

    def __post_init__(self) -> None:
        rows = len(self.task)
        neutral: dict[str, tuple[Any, Any]] = {
            "task": (np.int32, 0),
            "device": (np.int32, 0),
            "start": (np.float64, 0),
            "finish": (np.float64, 0),
            "copy": (np.int32, 0),
            "attempt": (np.int32, 0),
            "batch": (np.int32, -1),
            "launch": (np.int32, -1),
            "outcome": (np.int8, DONE),
        }
        columns = {}
        for key, (dtype, value) in neutral.items():
            column = np.array(getattr(self, key), dtype=dtype)
            if len(column) == 0 and rows:
                column = np.full(rows, value, dtype=dtype)
            if column.shape != (rows,):
                raise InputError(f"expected {rows} values, got shape {column.shape}", field=key)
            columns[key] = column
        if rows and (columns["task"].min() < 0 or columns["task"].max() >= self.problem.num_tasks):
            raise InputError(f"expected task numbers below {self.problem.num_tasks}", field="task")
        if rows and (
            columns["device"].min() < -1 or columns["device"].max() >= self.problem.cluster.num_devices
        ):
            raise InputError(
                f"expected device numbers below {self.problem.cluster.num_devices}", field="device"
            )
        by_time = np.lexsort((columns["copy"], columns["task"], columns["device"], columns["start"]))
        for key, column in columns.items():
            column = column[by_time]
            column.setflags(write=False)
            object.__setattr__(self, key, column)
        if len(self.units):
            object.__setattr__(self, "units", np.asarray(self.units, dtype=np.float64)[by_time])

    def __len__(self) -> int:
        return len(self.task)

    def __repr__(self) -> str:
        return (
            f"Schedule({self.problem.name!r}, makespan {self.makespan:.6g} {self.time_unit}, "
            f"{self.gap_percent:.1f} % above the bound, {self.num_copies} copies)"
        )

    @property
    def time_unit(self) -> str:
        """Unit of all times."""
        return self.problem.time_unit

    def placement(self, row: int) -> Placement:
        """View of one row."""
        number = int(self.task[row])
        j = int(self.problem.job_of[number])
        job = self.problem.jobs[j]
        device = int(self.device[row])
        return Placement(
            job.name,
            job.graph.names[number - int(self.problem.offsets[j])],
            int(self.copy[row]),
            int(self.attempt[row]),
            self.problem.cluster.device_names[device] if device >= 0 else None,
            int(self.batch[row]),
            float(self.start[row]),
            float(self.finish[row]),
            OUTCOMES[self.outcome[row]],
            int(self.launch[row]),
        )

    def placements(self) -> Iterator[Placement]:
        """Views of all rows."""
        return (self.placement(row) for row in range(len(self)))

    def rows_of(self, number: int) -> Ints:
        """Rows of one task."""
        return np.flatnonzero(self.task == number)

    def story(self, task: str | int) -> list[Placement]:
        """All that happened to one task, in time order."""
        if isinstance(task, str):
            numbers = [i for i in range(self.problem.num_tasks) if self.problem.task_name(i) == task]
            if not numbers:
                raise InputError(f"no task {task!r} in problem {self.problem.name!r}")
            task = numbers[0]
        return [self.placement(int(row)) for row in self.rows_of(task)]

    # -- time ---------------------------------------------------------------------------------

    @cached_property
    def _ran(self) -> npt.NDArray[np.bool_]:
        return (self.device >= 0) & (self.outcome == DONE)

    @cached_property
    def makespan(self) -> float:
        """Last finish minus first release."""
        first = min(job.release for job in self.problem.jobs)
        return float(self.finish[self._ran].max(initial=first) - first)

    @cached_property
    def first_finish(self) -> Floats:
        """Earliest finish of any copy of each task; NaN where it never finished."""
        finish = np.full(self.problem.num_tasks, np.inf)
        np.minimum.at(finish, self.task[self._ran], self.finish[self._ran])
        return np.where(np.isinf(finish), np.nan, finish)

    @cached_property
    def job_completion_times(self) -> Floats:
        """Finish of the last task of each job minus its release."""
        times = np.zeros(len(self.problem.jobs))
        for j, job in enumerate(self.problem.jobs):
            finish = self.first_finish[self.problem.offsets[j] : self.problem.offsets[j + 1]]
            done = finish[~np.isnan(finish)]
            times[j] = done.max(initial=job.release) - job.release
        return times

    @property
    def mean_jct(self) -> float:
        """Mean job completion time."""
        return float(self.job_completion_times.mean())

    @property
    def weighted_jct(self) -> float:
        """Mean job completion time, jobs weighted."""
        weights = np.array([job.weight for job in self.problem.jobs])
        return float((weights * self.job_completion_times).sum() / weights.sum()) if weights.sum() else 0.0

    @property
    def p99_jct(self) -> float:
        """99th percentile of the job completion time."""
        return float(np.percentile(self.job_completion_times, 99))

    @property
    def misses(self) -> int:
        """Number of jobs with a deadline that are later, or have a task that never finished."""
        due = np.array([np.inf if job.deadline is None else job.deadline for job in self.problem.jobs])
        is_open = np.isnan(self.first_finish)
        if self.realisation is not None:
            is_open &= self.realisation.runs
        is_left = np.bincount(self.problem.job_of[is_open], minlength=len(due)) > 0
        is_late = self.job_completion_times > due * (1 + 1e-12)
        return int((is_late | (is_left & np.isfinite(due))).sum())

    @cached_property
    def series(self) -> SeriesFigures:
        """What became of the instances of every pipeline."""
        return SeriesFigures(self)

    @property
    def miss_macro(self) -> float:
        """Share of deadlines missed, the mean over pipelines by weight; 0 without any."""
        return self.series.miss_macro

    @property
    def miss_worst(self) -> float:
        """Share of deadlines missed by the worst pipeline."""
        return self.series.miss_worst

    # -- quality --------------------------------------------------------------------------------

    @cached_property
    def bound(self) -> Bound:
        """The best lower bound on the makespan known for schedules like this one."""
        usable = [
            b
            for b in self.lower_bounds
            if b.copies or not self.problem.objective.copies or not self.num_copies
        ]
        return max([lower_bound(self.problem), *usable], key=lambda b: b.value)

    @property
    def gap_percent(self) -> float:
        """How far the makespan lies above the bound; infinite where only the bound is 0."""
        if self.bound.value <= 0:
            return np.inf if self.makespan > 0 else 0.0
        return 100.0 * (self.makespan / self.bound.value - 1.0)

    @property
    def slr(self) -> float:
        """Schedule length ratio: makespan over the critical path on the fastest devices."""
        path = critical_path(self.problem).value
        return self.makespan / path if path > 0 else 1.0

    @cached_property
    def sequential_time(self) -> float:
        """Time of all tasks one after another on the best single device that can run them all."""
        total = self.problem.run_times.sum(axis=0)[self.problem.device_counts > 0]
        if np.isfinite(total).any():
            return float(total.min())
        return float(self.problem.best_run_times.sum())

    @property
    def speedup(self) -> float:
        """Sequential time over makespan."""
        return self.sequential_time / self.makespan if self.makespan > 0 else 1.0

    @property
    def efficiency(self) -> float:
        """Speedup per device."""
        return self.speedup / self.problem.cluster.num_devices

    # -- devices ----------------------------------------------------------------------------------

    @cached_property
    def _lead(self) -> npt.NDArray[np.bool_]:
        """Rows that occupy their device: one per batch."""
        lead = self.device >= 0
        together = np.flatnonzero(lead & (self.batch >= 0))
        if len(together):
            _, first = np.unique(
                np.stack([self.device[together], self.batch[together]]), axis=1, return_index=True
            )
            lead = lead & (self.batch < 0)
            lead[together[first]] = True
        return lead

    @cached_property
    def busy_slot_time(self) -> Floats:
        """Slot-time in use per device."""
        slots = np.concatenate([job.graph.slots for job in self.problem.jobs])
        used = (self.finish - self.start) * slots[self.task]
        num = self.problem.cluster.num_devices
        return np.bincount(self.device[self._lead], used[self._lead], minlength=num).astype(np.float64)

    @cached_property
    def device_utilisation(self) -> Floats:
        """Share of the slot-time of each device in use up to the makespan."""
        if self.makespan == 0:
            return np.zeros(self.problem.cluster.num_devices)
        share: Floats = self.busy_slot_time / (self.problem.cluster.slots * self.makespan)
        return share

    @property
    def utilisation(self) -> float:
        """Share of all slot-time in use."""
        slots = self.problem.cluster.slots
        return float((self.device_utilisation * slots).sum() / slots.sum())

    @property
    def batch_fill(self) -> float:
        """Mean size of a batch over the largest its device takes."""
        if not self._lead.any():
            return 0.0
        size = self.problem.cluster.class_column("batch")[self.problem.cluster.device_class]
        return float((self.device >= 0).sum() / size[self.device[self._lead]].sum())

    @cached_property
    def busy_time(self) -> Floats:
        """Time each device spends with at least one task."""
        busy = np.zeros(self.problem.cluster.num_devices)
        upto = np.full(self.problem.cluster.num_devices, -np.inf)
        for row in np.flatnonzero(self._lead).tolist():
            d = self.device[row]
            busy[d] += max(0.0, self.finish[row] - max(self.start[row], upto[d]))
            upto[d] = max(upto[d], self.finish[row])
        return busy

    @cached_property
    def _power_time(self) -> Floats:
        """Watts times time of each device, up to the makespan."""
        cluster = self.problem.cluster
        watts, idle = (cluster.class_column(key)[cluster.device_class] for key in ("watts", "idle_watts"))
        return watts * self.busy_time + idle * (self.makespan - self.busy_time)

    @property
    def device_energy(self) -> Floats:
        """Joules of each device: busy power while it runs something, idle power until the makespan."""
        return self._power_time * self.problem.seconds_per_unit

    @property
    def energy(self) -> float:
        """Joules of all devices."""
        return float(self._power_time.sum() * self.problem.seconds_per_unit)

    @cached_property
    def _paid_time(self) -> Floats:
        """Price times time of each device, from its first start to its last finish."""
        cluster = self.problem.cluster
        price = cluster.class_column("price")[cluster.device_class]
        first, last = (np.full(cluster.num_devices, value) for value in (np.inf, -np.inf))
        rows = self.device >= 0
        np.minimum.at(first, self.device[rows], self.start[rows])
        np.maximum.at(last, self.device[rows], self.finish[rows])
        return price * np.where(last >= first, last - first, 0.0)

    @property
    def device_cost(self) -> Floats:
        """Money for each device: if it is used, from its first start to its last finish."""
        return self._paid_time * self.problem.seconds_per_unit / 3600.0

    @property
    def cost(self) -> float:
        """Money for all devices."""
        return float(self._paid_time.sum() * self.problem.seconds_per_unit / 3600.0)

    # -- copies, data, owners ---------------------------------------------------------------------

    @property
    def num_copies(self) -> int:
        """Executions beyond the first of each task; the rows of an elastic execution count once."""
        rows = self._ran
        if any(job.graph.is_elastic for job in self.problem.jobs):
            key = np.stack([self.task[rows], self.copy[rows], self.attempt[rows]])
            ran = np.unique(key, axis=1)[0]
        else:
            ran = self.task[rows]
        return int(len(ran) - len(np.unique(ran)))

    @cached_property
    def transfer_time(self) -> float:
        """Sum over edges of the time the data travels, from the copy that arrives first."""
        rows: dict[int, list[int]] = {}
        for row in np.flatnonzero(self._ran).tolist():
            rows.setdefault(int(self.task[row]), []).append(row)
        total = 0.0
        for j, job in enumerate(self.problem.jobs):
            base = int(self.problem.offsets[j])
            for e in range(job.graph.num_edges):
                sources = rows.get(base + int(job.graph.sources[e]), [])
                for row in rows.get(base + int(job.graph.targets[e]), []):
                    total += self._cheapest(sources, row, float(job.graph.data[e]))
        return total

    def _cheapest(self, sources: list[int], row: int, data: float) -> float:
        best_arrival, best_time = np.inf, 0.0
        for s in sources:
            time = self.problem.transfer_time(int(self.device[s]), int(self.device[row]), data)
            if float(self.finish[s]) + time < best_arrival:
                best_arrival, best_time = float(self.finish[s]) + time, time
        return best_time

    @cached_property
    def slowdowns(self) -> Floats:
        """Completion time of each job over its critical path on the fastest devices."""
        return slowdowns_of(self.job_completion_times, shortest_job_times(self.problem))

    @property
    def unfairness(self) -> float:
        """The 99th percentile of slowdowns over their mean: 1 where all jobs are slowed down alike."""
        return unfairness_of(self.slowdowns)

    @property
    def fairness(self) -> float:
        """Jain's index of the mean slowdown per owner: 1 is equal, 1 / owners is one-sided."""
        by_owner: dict[str, list[float]] = {}
        for job, slowdown in zip(self.problem.jobs, self.slowdowns.tolist(), strict=True):
            by_owner.setdefault(job.owner, []).append(slowdown)
        means = np.array([np.mean(values) for values in by_owner.values()])
        if not means.any():
            return 1.0
        return float(means.sum() ** 2 / (len(means) * (means**2).sum()))
