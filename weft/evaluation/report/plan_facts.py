"""What a plan is made of: what its end waited for, and what every device did."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.model.graph import Floats, Ints
from weft.model.schedule import Schedule
from weft.schedulers.explain import Link, critical_chain

TOLERANCE = 1e-9
TRANSFERS = "waiting for transfers"


@dataclass(frozen=True)
class Chain:
    """The executions that the end of a plan waited for, one after another, and where their time went."""

    links: tuple[Link, ...]
    needed: float
    """Run time of tasks whose results the next one needs; the last one is among them."""
    queued: float
    """Run time of tasks that only kept the device of the next one busy."""
    transfers: float
    """Time in which data was on its way from one to the next."""
    released: float
    """Time before the job of the first one was released."""
    free: float
    """Time in which nothing known held the next one."""

    @property
    def parts(self) -> dict[str, float]:
        """The parts by what a person calls them; they add up to the makespan."""
        return {
            "tasks that need one another's results": self.needed,
            "waiting for a device that runs something else": self.queued,
            TRANSFERS: self.transfers,
            "waiting for a job to be released": self.released,
            "nothing that the plan shows": self.free,
        }


def chain_of(schedule: Schedule) -> Chain:
    """What the makespan is made of."""
    links = critical_chain(schedule)
    time = dict.fromkeys(("needed", "queued", "transfers", "released", "free"), 0.0)
    upto = min(job.release for job in schedule.problem.jobs)
    room = TOLERANCE * max(1.0, schedule.makespan)
    reasons = [link.reason for link in links[1:]] + ["data"]
    for link, next_reason in zip(links, reasons, strict=False):
        at, gap = link.placement, link.placement.start - upto
        between = {"data": "transfers", "release": "released"}.get(link.reason, "free")
        time[between] += gap if gap > room else 0.0
        time["needed" if next_reason == "data" else "queued"] += at.finish - at.start
        upto = at.finish
    return Chain(links, **time)


@dataclass(frozen=True, eq=False)
class DeviceFacts:
    """One value per device."""

    tasks: Ints  # (num_devices,) executions that were done
    idle: Floats  # (num_devices,) time with nothing to do, up to the makespan
    peak_memory: Floats  # (num_devices,) bytes


def device_facts(schedule: Schedule) -> DeviceFacts:
    """What every device did."""
    num = schedule.problem.cluster.num_devices
    rows = schedule.device >= 0
    return DeviceFacts(
        np.bincount(schedule.device[rows], minlength=num),
        np.maximum(schedule.makespan - schedule.busy_time, 0.0),
        _peak_memory(schedule),
    )


def _peak_memory(schedule: Schedule) -> Floats:
    """Most bytes in use at once; a batch holds what the largest of its members needs."""
    memory = np.concatenate([job.graph.memory for job in schedule.problem.jobs])
    peak = np.zeros(schedule.problem.cluster.num_devices)
    if not memory.any():
        return peak
    for device in range(len(peak)):
        rows = np.flatnonzero(schedule.device == device)
        if len(rows):
            lead, held = _held(schedule, rows, memory[schedule.task[rows]])
            peak[device] = _most_at_once(schedule, lead, held)
    return peak


def _held(schedule: Schedule, rows: Ints, memory: Floats) -> tuple[Ints, Floats]:
    """The rows of a device, one per batch, and what each holds."""
    own = np.where(schedule.batch[rows] >= 0, schedule.batch[rows], -1 - np.arange(len(rows)))
    _, first, group = np.unique(own, return_index=True, return_inverse=True)
    held = np.zeros(len(first))
    np.maximum.at(held, group, memory)
    return rows[first], held


def _most_at_once(schedule: Schedule, rows: Ints, held: Floats) -> float:
    """The largest sum over rows that run at one time; what ends makes room first."""
    ends = schedule.finish[rows] - TOLERANCE * max(1.0, schedule.makespan)
    time = np.concatenate([schedule.start[rows], ends])
    order = np.lexsort((np.repeat([1, 0], len(rows)), time))
    return float(np.cumsum(np.concatenate([held, -held])[order]).max(initial=0.0))
