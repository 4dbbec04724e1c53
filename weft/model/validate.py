"""The oracle: checks a schedule against its problem, rule by rule, in plain Python.

It shares no code with the kernels and works out run times and transfers on its own, from the
fields of graphs and device classes. Deadlines are a metric, not a rule.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import heappop, heappush

from weft.errors import expect
from weft.model.booking_oracle import broken_bookings
from weft.model.cluster import DeviceClass
from weft.model.oracle_input import OracleInput
from weft.model.problem import Problem, Realisation
from weft.model.schedule import DONE, EXPIRED, SKIPPED, Schedule
from weft.model.validate_launches import check_launches
from weft.model.validate_series import check_order, check_overruns
from weft.model.violation import ROUNDING as ROUNDING
from weft.model.violation import TOLERANCE as TOLERANCE
from weft.model.violation import Violation as Violation
from weft.model.violation import broken, later

RULES = (
    "numbers",  # start and finish are finite, and the finish is not before the start
    "task",  # the task exists
    "device",  # the device exists, and a task that is done has one
    "missing",  # every task is done, unless its branch is not taken or its job may expire
    "not-taken",  # no task of a branch that is not taken runs
    "copies",  # a task runs once unless the objective allows copies
    "duplicate",  # one row per (task, copy, attempt), save for elastic tasks
    "release",  # nothing starts before its job is released
    "eligible",  # the job may use the device
    "class",  # the class of the device can run the task
    "duration",  # finish - start is the run time
    "batch",  # a batch is of one kind, starts and ends as one, and is not too large
    "launch",  # a launch is of consecutive tasks of a chain, on one device that saves time so, without a gap
    "booked",  # nothing starts that leaves less of a device than other jobs have booked, or before its own booking
    "slots",  # at every instant, per device
    "memory",
    "resource",
    "precedence",  # some copy of every parent has finished, and its data has arrived
    "one-port",  # the transfers can be placed, one at a time per sender and per receiver
    "overrun",  # instances are skipped only behind one that is not done, and aborted ones end at their deadline
    "order",  # a task runs after the same task of the instance before it, where instances are kept in order
)
"""Names of the rules, in the order in which they are checked."""


def validate(
    schedule: Schedule, problem: Problem | None = None, realisation: Realisation | None = None
) -> tuple[Violation, ...]:
    """All rules the schedule breaks; empty if it is valid.

    Parameters
    ----------
    problem, realisation
        What to judge by; by default the schedule's own. Without a realisation every run time is
        the expected one, and a problem with conditional branches is refused.
    """
    expect(schedule, Schedule, "a weft.Schedule (of a result, result.schedule)", "schedule")
    given = OracleInput(
        schedule,
        schedule.problem if problem is None else problem,
        schedule.realisation if realisation is None else realisation,
    )
    checks = (
        *(_rows, _tasks, _places, _durations, _batches, check_launches, _booked, _capacities),
        *(_precedence, _one_port, check_overruns, check_order),
    )
    return tuple(violation for check in checks for violation in check(given))


def _rows(given: OracleInput) -> Iterator[Violation]:
    for row in range(len(given.task)):
        fault = given.fault(row)
        if fault is not None:
            yield broken(given, *fault, row)


def _tasks(given: OracleInput) -> Iterator[Violation]:
    expired = [False] * len(given.work)
    for row in given.good:
        job = given.problem.jobs[given.job[given.task[row]]]
        if given.outcome[row] == EXPIRED:
            expired[given.task[row]] = job.deadline is not None
        elif given.outcome[row] == SKIPPED:
            expired[given.task[row]] = job.overrun == "skip"
    for task, runs in enumerate(given.runs):
        rows = given.rows_of.get(task, [])
        if not runs:
            if rows:
                yield broken(given, "not-taken", "runs although its branch is not taken", rows[0])
        elif not any(given.outcome[row] == DONE for row in rows) and not expired[task]:
            yield Violation("missing", given.task_name(task), None, "is never done")
        if len(rows) > 1:
            yield from _several(given, task, rows)


def _several(given: OracleInput, task: int, rows: list[int]) -> Iterator[Violation]:
    """Rules for a task with more than one row."""
    done = [run[0] for run in given.executions(task) if given.outcome[run[-1]] == DONE]
    if len(done) > 1 and not given.problem.objective.copies:
        yield broken(given, "copies", f"runs {len(done)} times, but the objective allows no copies", done[1])
    seen: set[tuple[int, int]] = set()
    for row in rows if given.curve[task] < 0 else ():
        key = (given.copy[row], given.attempt[row])
        if key in seen:
            yield broken(given, "duplicate", f"copy {key[0]}, attempt {key[1]} has two rows", row)
        seen.add(key)


def _places(given: OracleInput) -> Iterator[Violation]:
    allowed = [_allowed(given, j) for j in range(len(given.graphs))]
    for row in given.ran:
        task, device = given.task[row], given.device[row]
        job = given.problem.jobs[given.job[task]]
        if later(given, job.release, given.start[row]):
            yield broken(given, "release", f"starts at {given.start[row]}, before {job.release}", row)
        if not allowed[given.job[task]][device]:
            yield broken(given, "eligible", f"job {job.name!r} may not use this device", row)
        device_class = given.cluster.classes[given.class_of[device]]
        if given.expected(task, given.class_of[device]) == math.inf:
            lack = given.unfit(task, device_class)
            why = f"too little {lack}" if lack else f"no run time for kind {given.kind[task]!r}"
            yield broken(given, "class", f"class {device_class.name!r} cannot run it: {why}", row)


def _allowed(given: OracleInput, job: int) -> list[bool]:
    names = given.problem.jobs[job].eligible
    devices = zip(given.cluster.device_names, given.class_of, strict=True)
    return [names is None or name in names or given.cluster.classes[c].name in names for name, c in devices]


def _durations(given: OracleInput) -> Iterator[Violation]:
    for task in range(len(given.work)):
        for rows in given.executions(task):
            yield from _elastic_duration(given, rows) if given.curve[task] >= 0 else _duration(given, rows[0])


def _duration(given: OracleInput, row: int) -> Iterator[Violation]:
    """A batch takes as long as its longest member; what was not done may have been cut short."""
    class_index = given.class_of[given.device[row]]
    expected = max(given.expected(given.task[other], class_index) for other in given.together(row))
    expected *= given.share_taken(row)
    took = given.finish[row] - given.start[row]
    allowed = TOLERANCE * expected + ROUNDING * abs(given.finish[row])
    is_wrong = abs(took - expected) > allowed if given.outcome[row] == DONE else took > expected + allowed
    if expected < math.inf and is_wrong:
        yield broken(given, "duration", f"takes {took}, expected {expected}", row)


def _elastic_duration(given: OracleInput, rows: list[int]) -> Iterator[Violation]:
    """The shares of the run time covered by the rows, at the rates of their units, add up to one.

    First the overhead of the class where it begins passes, at no rate; where units change, what that costs.
    """
    share, rounding, upto = 0.0, 0.0, -math.inf
    overhead = given.overhead(given.class_of[given.device[rows[0]]])
    whole = given.course(given.task[rows[0]])
    for number, row in enumerate(rows):
        overhead += given.lost(row, rows[number - 1]) if number else 0.0
        class_index = given.class_of[given.device[row]]
        expected = max(0.0, given.expected(given.task[row], class_index) - given.overhead(class_index))
        took, rate = given.finish[row] - given.start[row], given.rate(row)
        if math.isnan(rate):
            yield broken(given, "duration", "holds more units than its speed curve has", row)
            return
        if later(given, upto, given.start[row]):
            yield broken(given, "duration", f"starts before its row until {upto} ends", row)
        upto = max(upto, given.finish[row])
        idle = min(took, overhead)
        overhead -= idle
        covered = given.covered(row, given.start[row] + idle)
        share += covered / (expected * whole) if expected else 1.0 / len(rows)
        rounding += rate * ROUNDING * abs(given.finish[row]) / (expected * whole) if expected else 0.0
    is_done = given.outcome[rows[-1]] == DONE
    if is_done and overhead > TOLERANCE * upto:
        yield broken(given, "duration", f"ends {overhead} before its overhead has passed", rows[-1])
    elif share > 1 + TOLERANCE + rounding or (is_done and share < 1 - TOLERANCE - rounding):
        yield broken(given, "duration", f"covers {share} of its work, expected 1", rows[-1])


def _batches(given: OracleInput) -> Iterator[Violation]:
    for (device, _), rows in given.batches.items():
        lead, most = rows[0], given.cluster.classes[given.class_of[device]].batch
        if len(rows) > most:
            yield broken(given, "batch", f"batch of {len(rows)}, the class takes at most {most}", lead)
        for row in rows[1:]:
            if given.kind[given.task[row]] != given.kind[given.task[lead]]:
                yield broken(
                    given,
                    "batch",
                    f"shares a batch with {given.task_name(given.task[lead])} of another kind",
                    row,
                )
            if (given.start[row], given.finish[row]) != (given.start[lead], given.finish[lead]):
                yield broken(given, "batch", "does not start and finish with its batch", row)


def _booked(given: OracleInput) -> Iterator[Violation]:
    for row, detail in broken_bookings(given):
        yield broken(given, "booked", detail, row)


def _capacities(given: OracleInput) -> Iterator[Violation]:
    leads: list[list[int]] = [[] for _ in given.class_of]
    for row in given.ran:
        if given.together(row)[0] == row:
            leads[given.device[row]].append(row)
    for device, rows in enumerate(leads):
        rows.sort(key=given.start.__getitem__)
        yield from _sweep(given, given.cluster.classes[given.class_of[device]], rows)


def _sweep(given: OracleInput, device_class: DeviceClass, rows: list[int]) -> Iterator[Violation]:
    """Walk the starts of one device in time order; what is over by then is given back."""
    limits = {"slots": float(device_class.slots), "memory": device_class.memory}
    limits |= {f"resource {name}": value for name, value in device_class.capacity.items()}
    used = dict.fromkeys(limits, 0.0)
    active: list[tuple[float, int, dict[str, float]]] = []
    for row in rows:
        while active and not later(given, active[0][0], given.start[row]):
            for name, amount in heappop(active)[2].items():
                used[name] -= amount
        if not later(given, given.finish[row], given.start[row]):
            continue
        held = _held_together(given, row, limits)
        heappush(active, (given.finish[row], row, held))
        for name, amount in held.items():
            used[name] += amount
            if amount > 0 and used[name] > limits[name] * (1 + TOLERANCE):
                detail = f"{used[name]:g} of {limits[name]:g} {name} in use at {given.start[row]}"
                yield broken(given, name.split()[0], detail, row)


def _held_together(given: OracleInput, row: int, limits: dict[str, float]) -> dict[str, float]:
    """What a row, or the batch it leads, holds: a batch holds the most any of its members needs."""
    held: dict[str, float] = {}
    for other in given.together(row):
        for name, amount in given.held(other).items():
            if name in limits:
                held[name] = max(held.get(name, 0.0), amount)
    return held


def _precedence(given: OracleInput) -> Iterator[Violation]:
    for parent, child, data in given.edges():
        for rows in given.executions(child):
            row = rows[0]
            arrival, origin = given.first_arrival(parent, given.device[row], data)
            if origin < 0:
                yield broken(given, "precedence", f"its parent {given.task_name(parent)} is never done", row)
            elif later(given, arrival, given.start[row]):
                detail = (
                    f"starts at {given.start[row]}, data of {given.task_name(parent)} arrives at {arrival}"
                )
                yield broken(given, "precedence", detail, row)


def _one_port(given: OracleInput) -> Iterator[Violation]:
    """Place the transfers one by one, the most urgent first, each in the first gap of both ports.

    Success proves that the transfers fit. Failure proves nothing: the order is greedy, so a
    schedule that fits only in another order is reported too.
    """
    if not given.cluster.one_port:
        return
    sending: dict[int, list[tuple[float, float]]] = {}
    receiving: dict[int, list[tuple[float, float]]] = {}
    for deadline, release, length, origin, row in _transfers(given):
        ports = (
            sending.setdefault(given.device[origin], []),
            receiving.setdefault(given.device[row], []),
        )
        at = _first_gap(ports, release, length)
        if later(given, at + length, deadline):
            detail = f"found no time for the data of {given.task_name(given.task[origin])} before {deadline}"
            yield broken(given, "one-port", detail, row)
            continue
        for port in ports:
            insort(port, (at, at + length))


def _transfers(given: OracleInput) -> list[tuple[float, float, float, int, int]]:
    """(needed by, ready at, length, row it comes from, row it goes to), most urgent first.

    Copies of a child on one device share a transfer.
    """
    needed: dict[tuple[int, int, int], tuple[float, float, float, int, int]] = {}
    for parent, child, data in given.edges():
        for rows in given.executions(child):
            row = rows[0]
            arrival, origin = given.first_arrival(parent, given.device[row], data)
            if origin < 0 or _is_at_hand(given, parent, row):
                continue
            length = given.transfer(given.device[origin], given.device[row], data)
            transfer = (given.start[row], given.finish[origin], length, origin, row)
            key = (parent, child, given.device[row])
            if length > 0 and not later(given, arrival, given.start[row]):
                needed[key] = min(transfer, needed.get(key, transfer))
    return sorted(needed.values())


def _is_at_hand(given: OracleInput, parent: int, row: int) -> bool:
    """Whether a copy of the parent on the row's own device is done in time."""
    return any(
        given.device[run[-1]] == given.device[row]
        and given.outcome[run[-1]] == DONE
        and not later(given, given.finish[run[-1]], given.start[row])
        for run in given.executions(parent)
    )


def _first_gap(ports: tuple[list[tuple[float, float]], ...], release: float, length: float) -> float:
    """The first time from ``release`` at which both ports are free for ``length``."""
    at, is_moving = release, True
    while is_moving:
        is_moving = False
        for port in ports:
            i = max(0, bisect_left(port, (at, math.inf)) - 1)
            while i < len(port) and port[i][0] < at + length:
                if port[i][1] > at:
                    at, is_moving = port[i][1], True
                i += 1
    return at
