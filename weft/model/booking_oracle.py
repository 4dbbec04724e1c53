"""The rule of the validator on bookings, in plain Python: who held what when, worked out from releases and ends alone.

Bookings are granted in the order of releases, each on the first devices by number that have enough beside what is
booked, and end with their jobs. A row may start if what others use or have booked, whichever is more, leaves room for it
beside what its own job uses. A row that starts as soon as its data is there, and was ready before a booking was
granted, may have been on its way: it is not held against that booking.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from weft.model.bookings import Booking
from weft.model.oracle_input import OracleInput
from weft.model.schedule import DONE, EXPIRED

TOLERANCE = 1e-9


class Held(NamedTuple):
    """A share of one device, held for a job from a time to another."""

    job: int
    device: int
    begin: float
    end: float
    share: dict[str, float]
    is_first: bool
    """Whether it was granted before anything could start at that time: no other job began and ended just then."""


def broken_bookings(given: OracleInput) -> Iterator[tuple[int, str]]:
    """Rows that start against a booking, and why."""
    if all(job.booking is None for job in given.problem.jobs):
        return
    shares: dict[int, list[Held]] = {}
    begins: dict[int, float] = {}
    for one in _all_held(given):
        shares.setdefault(one.device, []).append(one)
        begins[one.job] = one.begin
    parents: dict[int, list[tuple[int, float]]] = {}
    for parent, child, data in given.edges():
        parents.setdefault(child, []).append((parent, data))
    rows_on: dict[int, list[int]] = {}
    for row in given.ran:
        rows_on.setdefault(given.device[row], []).append(row)
    for row in given.ran:
        job, start = given.job[given.task[row]], given.start[row]
        if given.problem.jobs[job].booking is not None and start < begins.get(job, math.inf):
            yield row, f"starts at {start}, before the booking of its job is granted"
        now = [one for one in shares.get(given.device[row], []) if one.job != job and _holds(one, start)]
        if now and given.finish[row] > start:
            ready = _ready_since(given, row, parents.get(given.task[row], []))
            now = [one for one in now if ready is None or ready >= one.begin]
            yield from _against(given, row, now, rows_on[given.device[row]])


def _holds(one: Held, time: float) -> bool:
    return (one.begin <= time if one.is_first else one.begin < time) and time < one.end


def _against(given: OracleInput, row: int, now: list[Held], beside: list[int]) -> Iterator[tuple[int, str]]:
    """What one row takes from the bookings of other jobs that hold now; ``beside``: rows of the same device."""
    start, job = given.start[row], given.job[given.task[row]]
    used = _use_at(given, beside, start)
    for name, limit in _limits(given, given.device[row]).items():
        booked = {one.job: one.share.get(name, 0.0) for one in now}
        if not any(booked.values()) or given.held(row).get(name, 0.0) == 0:
            continue
        own = used[job].get(name, 0.0)
        others = sum(
            max(used.get(other, {}).get(name, 0.0), booked.get(other, 0.0))
            for other in {*used, *booked} - {job}
        )
        if own + others > limit * (1 + TOLERANCE):
            yield (
                row,
                f"leaves less than others have booked: {own:g} and {others:g} of {limit:g} {name} at {start}",
            )


def _use_at(given: OracleInput, rows: list[int], time: float) -> dict[int, dict[str, float]]:
    """What each job uses of a device from this time on, by name of the resource."""
    used: dict[int, dict[str, float]] = {}
    for row in rows:
        if given.start[row] <= time < given.finish[row]:
            own = used.setdefault(given.job[given.task[row]], {})
            for name, amount in given.held(row).items():
                own[name] = own.get(name, 0.0) + amount
    return used


def _ready_since(given: OracleInput, row: int, parents: list[tuple[int, float]]) -> float | None:
    """Since when a row waited for its data alone; None where it did not start as soon as that was there."""
    since = arrival = given.problem.jobs[given.job[given.task[row]]].release
    for parent, data in parents:
        there, origin = given.first_arrival(parent, given.device[row], data)
        arrival, since = max(arrival, there), max(since, given.finish[origin]) if origin >= 0 else math.inf
    return since if given.start[row] <= arrival + TOLERANCE * abs(arrival) else None


def _limits(given: OracleInput, device: int) -> dict[str, float]:
    """Slots, memory and resources of a device, those that bind."""
    own = given.cluster.classes[given.class_of[device]]
    limits = {"slots": float(own.slots), "memory": own.memory}
    limits |= {f"resource {name}": value for name, value in own.capacity.items()}
    return {name: value for name, value in limits.items() if value < math.inf}


def _share(given: OracleInput, booking: Booking, device: int) -> dict[str, float]:
    """What a booking holds of a device."""
    limits = _limits(given, device)
    if booking.slots is None:
        return limits
    asked = {"slots": float(booking.slots), "memory": booking.memory}
    return {name: amount for name, amount in asked.items() if name in limits}


def _may_hold(given: OracleInput, booking: Booking, device: int) -> bool:
    """Whether a device is one of those that a booking names, and large enough."""
    own = given.cluster.classes[given.class_of[device]]
    is_named = given.cluster.device_names[device] in booking.devices or own.name in booking.devices
    is_large = booking.slots is None or (own.slots >= booking.slots and own.memory >= booking.memory)
    return is_named and is_large


def _job_end(given: OracleInput, job: int) -> float:
    """When a job is over: all its tasks are done, or what was left of it has expired."""
    end = given.problem.jobs[job].release
    for task in range(given.first[job], given.first[job + 1]):
        done = [given.finish[row] for row in given.rows_of.get(task, []) if given.outcome[row] == DONE]
        if done:
            end = max(end, min(done))
        elif given.runs[task]:
            end = math.inf
    dropped = [
        given.start[row]
        for row in given.good
        if given.outcome[row] == EXPIRED and given.job[given.task[row]] == job
    ]
    return min([end, *dropped])


def _all_held(given: OracleInput) -> list[Held]:
    """Play the line: at each release or end, grant bookings in order until one does not fit."""
    jobs = given.problem.jobs
    line = sorted(
        (j for j, job in enumerate(jobs) if job.booking is not None and given.graphs[j].num_tasks),
        key=lambda j: (jobs[j].release, j),
    )
    ends = {j: _job_end(given, j) for j in line}
    held: list[Held] = []
    times = sorted({jobs[j].release for j in line} | {end for end in ends.values() if end < math.inf})
    for time in times:
        while line and jobs[line[0]].release <= time:
            first = line[0]
            if ends[first] <= time and jobs[first].release < ends[first] and _never_ran(given, first):
                line.pop(0)  # it expired in line
                continue
            found = _granted(given, first, ends[first], time, held)
            if not found:
                break
            held += found
            line.pop(0)
    return held


def _never_ran(given: OracleInput, job: int) -> bool:
    return not any(given.rows_of.get(task) for task in range(given.first[job], given.first[job + 1]))


def _granted(given: OracleInput, job: int, end: float, time: float, held: list[Held]) -> list[Held]:
    """What a booking is granted at a time beside the others; nothing where devices are too few."""
    booking = given.problem.jobs[job].booking
    assert booking is not None
    found: list[Held] = []
    for device in range(len(given.class_of)):
        if len(found) == booking.count or not _may_hold(given, booking, device):
            continue
        share, limits = _share(given, booking, device), _limits(given, device)
        others = [one for one in held if one.device == device and one.end > time]
        taken = {name: sum(one.share.get(name, 0.0) for one in others) for name in limits}
        if all(taken[name] + share.get(name, 0.0) <= limits[name] * (1 + TOLERANCE) for name in limits):
            is_first = not any(one.begin == one.end == time for one in held)
            found.append(Held(job, device, time, end, share, is_first))
    return found if len(found) == booking.count else []
