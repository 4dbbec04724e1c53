"""Bookings: a share of devices that is held for one job, from when it is granted until the job ends.

Bookings are granted in the order in which jobs are released, each as a whole: to the first devices by number that have as
much left beside what is booked already. A job with a booking begins when it is granted; until then it, and whoever
booked after it, waits. From then on nothing of other jobs starts that would leave less than the share; what runs there
already ends. The job itself may also use what nobody has booked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import InfeasibleError, InputError

if TYPE_CHECKING:
    from weft.model.cluster import Cluster
    from weft.model.graph import Bools, TaskGraph
    from weft.model.problem import Job, Problem


@dataclass(frozen=True)
class Booking:
    """What a job books: ``count`` of these devices, a share of each."""

    devices: tuple[str, ...]
    """Names of devices or classes to choose from."""
    count: int = 1
    """How many of them."""
    slots: int | None = None
    """Slots of each; None: the whole device, with all its memory and resources."""
    memory: float = 0.0
    """Memory of each in bytes, where slots are given."""

    def __post_init__(self) -> None:
        if isinstance(self.devices, str) or not self.devices:
            raise InputError(f"expected names of devices or classes, got {self.devices!r}", field="devices")
        object.__setattr__(self, "devices", tuple(self.devices))
        if self.count < 1:
            raise InputError(f"expected a whole number >= 1, got {self.count}", field="count")
        if self.slots is not None and self.slots < 1:
            raise InputError(f"expected a whole number >= 1, got {self.slots}", field="slots")
        if not 0 <= self.memory < float("inf"):
            raise InputError(f"expected a finite number >= 0, got {self.memory}", field="memory")
        if self.slots is None and self.memory:
            raise InputError("expected slots with it: without, the whole device is booked", field="memory")


def bookable_row(job: Job, cluster: Cluster) -> Bools:
    """Which devices the booking of a job may be granted on (num_devices,); all False without one."""
    row = np.zeros(cluster.num_devices, dtype=np.bool_)
    booking, classes = job.booking, {one.name: c for c, one in enumerate(cluster.classes)}
    if booking is None:
        return row
    for name in booking.devices:
        if name in cluster.device_index:
            row[cluster.device_index[name]] = True
        elif name in classes:
            row |= cluster.device_class == classes[name]
        else:
            raise InputError(
                f"{name!r} is neither a device nor a class of the cluster",
                field=f"job {job.name}: booking.devices",
            )
    if booking.slots is not None:
        row &= cluster.slots >= booking.slots
        row &= cluster.class_column("memory")[cluster.device_class] >= booking.memory
    return row


def check_bookings(problem: Problem) -> None:
    """Refuse bookings that can never be granted, or in which some task of the job has no room."""
    for j, job in enumerate(problem.jobs):
        if job.booking is None:
            continue
        row = bookable_row(job, problem.cluster)
        if problem.eligible.size and (row & ~problem.eligible[j]).any():
            raise InputError(
                "expected devices that the job may use (eligible)", field=f"job {job.name}: booking.devices"
            )
        if np.count_nonzero(row) < job.booking.count:
            raise InfeasibleError(
                f"job {job.name!r} books {job.booking.count} of {', '.join(job.booking.devices)}, the cluster has "
                f"{np.count_nonzero(row)} with so many slots and so much memory",
                field=f"job {job.name}: booking",
            )
        _check_tasks(problem, j, row)


def _check_tasks(problem: Problem, j: int, row: Bools) -> None:
    """Every task must have room in the booking, or two jobs could wait for one another's devices for ever."""
    job = problem.jobs[j]
    booking, graph = job.booking, job.graph
    run = problem.run_times[problem.offsets[j] : problem.offsets[j + 1]]
    stuck = ~np.isfinite(run[:, np.unique(problem.cluster.device_class[row])]).all(axis=1)
    if booking is not None and booking.slots is not None:
        stuck |= (graph.slots > booking.slots) | _lacks_memory(graph, problem.cluster, row, booking.memory)
    if stuck.any():
        name = graph.names[int(np.argmax(stuck))]
        raise InfeasibleError(
            f"task {name!r} of job {job.name!r} has no room in what the job books: each task must be able to run on "
            "every device that may be booked, within the slots and memory of the booking",
            field=f"job {job.name}: booking",
        )


def _lacks_memory(graph: TaskGraph, cluster: Cluster, row: Bools, memory: float) -> Bools:
    """Tasks that need more memory than is booked, where some such device has a limit of it."""
    is_limited = bool(np.isfinite(cluster.class_column("memory")[cluster.device_class[row]]).any())
    return np.asarray((graph.memory > memory) & is_limited, dtype=np.bool_)
