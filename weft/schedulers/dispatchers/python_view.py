"""What a dispatcher in plain Python is shown: what has arrived, and what may be expected of it.

Nothing here tells of jobs that have not arrived, of how long tasks really take, or of branches that
are not settled. Times are in the unit of the problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from weft.errors import InputError
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import Floats
from weft.model.problem import Job
from weft.sim.tasks.bookings import spare_shares
from weft.sim.tasks.moves import commit
from weft.sim.tasks.rules import write_finishes
from weft.sim.tasks.state import SLACK, Facts, Tasks, TaskState

ENV = 0


@dataclass(frozen=True, eq=False)
class ReadyTask:
    """A task that may start: all it waits for has ended."""

    number: int
    """In the graph of its job."""
    name: str
    kind: str
    job: Job
    """All of it is known, for it has arrived; ``job.release`` is when."""


@dataclass(frozen=True, eq=False)
class Device:
    """A device as it is now."""

    number: int
    name: str
    device_class: DeviceClass
    is_up: bool
    """It is not away."""
    is_idle: bool
    """It is up and runs nothing."""
    free_slots: float
    """Slots in which nothing runs; 0 if it is away."""


class Start(NamedTuple):
    """A task that starts on a device: it holds its share from now on and runs once its data is there."""

    task: ReadyTask
    device: Device


class DispatchView:
    """The moment of one decision; its tasks and devices are valid until ``decide`` returns.

    Parameters
    ----------
    seed
        Of the run; whatever a dispatcher draws is to come from it.
    """

    def __init__(
        self, cluster: Cluster, jobs: Sequence[Job], w: Tasks, f: Facts, s: TaskState, seed: int
    ) -> None:
        self._all_jobs, self._w, self._f, self._s = jobs, w, f, s
        self._item: dict[ReadyTask, int] = {}  # the problem's number of a task, which tells of other jobs
        self._finishes: dict[ReadyTask, Floats] = {}
        self._jobs: dict[int, Job] = {}
        self._wake = float("inf")
        self.cluster = cluster
        """The devices, and how data gets from one to the other."""
        self.seed = seed

    @property
    def now(self) -> float:
        """Time of the decision."""
        return float(self._s.now[ENV])

    @cached_property
    def ready(self) -> tuple[ReadyTask, ...]:
        """Tasks that may start, oldest job first, then by number."""
        w, s = self._w, self._s
        items = s.ready[: s.num_ready[ENV]].tolist()
        items.sort(key=lambda item: (w.job_release[w.job[item]], item))
        self._item = {self._task(item): item for item in items}
        return tuple(self._item)

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """All devices, by number."""
        return tuple(self._device(p) for p in range(self.cluster.num_devices))

    def options(self, task: ReadyTask) -> list[Device]:
        """The devices on which the task can start now, if nothing else does."""
        return [device for device in self.devices if self.can_start(task, device)]

    def can_start(self, task: ReadyTask, device: Device) -> bool:
        """Whether the task can start on the device now, if nothing else does."""
        return self.refusal(task, device) is None

    def run_time(self, task: ReadyTask, device: Device) -> float:
        """Expected run time; infinite where the task cannot run."""
        return float(self._w.run[self._item[task], self._w.device_class[device.number]])

    def finish(self, task: ReadyTask, device: Device) -> float:
        """Expected finish if the task starts once the device has room and its data is there.

        Infinite where it cannot or must not run. Other starts of the same decision are not counted.
        """
        if task not in self._finishes:
            found = np.empty((1, self.cluster.num_devices))
            item = np.array([self._item[task]], np.int64)
            write_finishes(self._w, self._f, self._s, ENV, item, found)
            self._finishes[task] = found[0]
        return float(self._finishes[task][device.number])

    def ask_again(self, time: float) -> None:
        """Have a decision at this time even if nothing happens until then."""
        if not time > self.now:
            raise InputError(f"expected a time after {self.now:g}, got {time!r}", field="ask_again")
        self._wake = min(self._wake, float(time))

    def refusal(self, task: ReadyTask, device: Device) -> str | None:
        """Why the task cannot start on the device now, or None; counts what was started meanwhile."""
        if task not in self._item:
            return "it is not one of view.ready"
        w, s, i, p = self._w, self._s, self._item[task], device.number
        if s.place[i] < 0:
            return "it was started before"
        if not s.is_up[p]:
            return "the device is away"
        if w.run[i, w.device_class[p]] == np.inf:
            return "the device cannot run it"
        if w.allowed.shape[0] and not w.allowed[w.job[i], p]:
            return "its job may not use this device"
        room = s.free[p] + spare_shares(w, s, ENV, int(w.job[i]), p)
        if not s.has_room[p] or (w.demand[i] > room + w.capacity[p] * SLACK).any():
            return "the device has no room for it, or it is booked for another job"
        return None

    def start(self, task: ReadyTask, device: Device) -> None:
        """Carry a start out, if it is possible; for the simulator, which does so with what ``decide`` returns."""
        reason = self.refusal(task, device)
        if reason is not None:
            what = f"task {task.name!r} of job {task.job.name!r}"
            raise InputError(f"cannot start {what} on {device.name!r}: {reason}")
        commit(self._w, self._f, self._s, ENV, self._item[task], device.number)

    def settle(self) -> None:
        """Note when the next decision is wanted; called after ``decide``."""
        self._s.wake[ENV] = min(self._s.wake[ENV], self._wake)

    def _task(self, item: int) -> ReadyTask:
        j = int(self._w.job[item])
        if j not in self._jobs:
            job, arrived = self._all_jobs[j], float(self._w.job_release[j])
            self._jobs[j] = job if job.release == arrived else replace(job, release=arrived)
        job, number = self._jobs[j], item - int(self._w.job_task_ptr[j])
        return ReadyTask(number, job.graph.names[number], job.graph.kinds[job.graph.kind[number]], job)

    def _device(self, p: int) -> Device:
        cluster, s = self.cluster, self._s
        is_up = bool(s.is_up[p])
        return Device(
            p,
            cluster.device_names[p],
            cluster.classes[cluster.device_class[p]],
            is_up,
            is_up and bool(s.running[p] < 0),
            max(float(s.free[p, 0]), 0.0) if is_up else 0.0,
        )
