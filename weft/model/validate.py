"""The oracle: checks a schedule against its problem, rule by rule, in plain Python.

It shares no code with the kernels and works out run times and transfers on its own, from the
fields of graphs and device classes. Deadlines are a metric, not a rule.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from weft.model.cluster import DeviceClass
from weft.model.oracle_input import Case
from weft.model.problem import Problem, Realisation
from weft.model.schedule import DONE, EXPIRED, Schedule

TOLERANCE = 1e-9
"""Slack of every comparison, relative to the run time or to the time since the first release."""
ROUNDING = 1e-15
"""What adding up two times may lose, relative to their sum."""
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
    "slots",  # at every instant, per device
    "memory",
    "resource",
    "precedence",  # some copy of every parent has finished, and its data has arrived
    "one-port",  # the transfers can be placed, one at a time per sender and per receiver
)
"""Names of the rules, in the order in which they are checked."""


@dataclass(frozen=True)
class Violation:
    """One broken rule; task and device by display name, None where the rule names none."""

    rule: str
    task: str | None
    device: str | None
    detail: str

    def __str__(self) -> str:
        where = ", ".join(name for name in (self.task, self.device) if name is not None)
        return f"{self.rule} ({where}): {self.detail}" if where else f"{self.rule}: {self.detail}"


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
    case = Case(
        schedule,
        schedule.problem if problem is None else problem,
        schedule.realisation if realisation is None else realisation,
    )
    checks = (_rows, _tasks, _places, _durations, _batches, _capacities, _precedence, _one_port)
    return tuple(violation for check in checks for violation in check(case))


def _broken(case: Case, rule: str, detail: str, row: int) -> Violation:
    device = case.device[row]
    is_known = 0 <= device < len(case.class_of)
    device_name = case.cluster.device_names[device] if is_known else None
    return Violation(rule, case.task_name(case.task[row]), device_name, detail)


def _later(case: Case, time: float, than: float) -> bool:
    """Whether a time is later by more than rounding; releases may be dates, far from zero."""
    return time > than + TOLERANCE * abs(than - case.origin) + ROUNDING * abs(than)


def _rows(case: Case) -> Iterator[Violation]:
    for row in range(len(case.task)):
        fault = case.fault(row)
        if fault is not None:
            yield _broken(case, *fault, row)


def _tasks(case: Case) -> Iterator[Violation]:
    expired = [False] * len(case.work)
    for row in case.good:
        if case.outcome[row] == EXPIRED:
            expired[case.task[row]] = case.problem.jobs[case.job[case.task[row]]].deadline is not None
    for task, runs in enumerate(case.runs):
        rows = case.rows_of.get(task, [])
        if not runs:
            if rows:
                yield _broken(case, "not-taken", "runs although its branch is not taken", rows[0])
        elif not any(case.outcome[row] == DONE for row in rows) and not expired[task]:
            yield Violation("missing", case.task_name(task), None, "is never done")
        if len(rows) > 1:
            yield from _several(case, task, rows)


def _several(case: Case, task: int, rows: list[int]) -> Iterator[Violation]:
    """Rules for a task with more than one row."""
    done = [run[0] for run in case.executions(task) if case.outcome[run[-1]] == DONE]
    if len(done) > 1 and not case.problem.objective.copies:
        yield _broken(case, "copies", f"runs {len(done)} times, but the objective allows no copies", done[1])
    seen: set[tuple[int, int]] = set()
    for row in rows if case.curve[task] < 0 else ():
        key = (case.copy[row], case.attempt[row])
        if key in seen:
            yield _broken(case, "duplicate", f"copy {key[0]}, attempt {key[1]} has two rows", row)
        seen.add(key)


def _places(case: Case) -> Iterator[Violation]:
    allowed = [_allowed(case, j) for j in range(len(case.graphs))]
    for row in case.ran:
        task, device = case.task[row], case.device[row]
        job = case.problem.jobs[case.job[task]]
        if _later(case, job.release, case.start[row]):
            yield _broken(case, "release", f"starts at {case.start[row]}, before {job.release}", row)
        if not allowed[case.job[task]][device]:
            yield _broken(case, "eligible", f"job {job.name!r} may not use this device", row)
        device_class = case.cluster.classes[case.class_of[device]]
        if case.expected(task, case.class_of[device]) == math.inf:
            lack = case.unfit(task, device_class)
            why = f"too little {lack}" if lack else f"no run time for kind {case.kind[task]!r}"
            yield _broken(case, "class", f"class {device_class.name!r} cannot run it: {why}", row)


def _allowed(case: Case, job: int) -> list[bool]:
    names = case.problem.jobs[job].eligible
    devices = zip(case.cluster.device_names, case.class_of, strict=True)
    return [names is None or name in names or case.cluster.classes[c].name in names for name, c in devices]


def _durations(case: Case) -> Iterator[Violation]:
    for task in range(len(case.work)):
        for rows in case.executions(task):
            yield from _elastic_duration(case, rows) if case.curve[task] >= 0 else _duration(case, rows[0])


def _duration(case: Case, row: int) -> Iterator[Violation]:
    """A batch takes as long as its longest member; what was not done may have been cut short."""
    class_index = case.class_of[case.device[row]]
    expected = max(case.expected(case.task[other], class_index) for other in case.together(row))
    took = case.finish[row] - case.start[row]
    allowed = TOLERANCE * expected + ROUNDING * abs(case.finish[row])
    is_wrong = abs(took - expected) > allowed if case.outcome[row] == DONE else took > expected + allowed
    if expected < math.inf and is_wrong:
        yield _broken(case, "duration", f"takes {took}, expected {expected}", row)


def _elastic_duration(case: Case, rows: list[int]) -> Iterator[Violation]:
    """The shares of the run time covered by the rows, at the rates of their units, add up to one."""
    share, rounding, upto = 0.0, 0.0, -math.inf
    for row in rows:
        expected = case.expected(case.task[row], case.class_of[case.device[row]])
        took, rate = case.finish[row] - case.start[row], case.rate(row)
        if math.isnan(rate):
            yield _broken(case, "duration", "holds more units than its speed curve has", row)
            return
        if _later(case, upto, case.start[row]):
            yield _broken(case, "duration", f"starts before its row until {upto} ends", row)
        upto = max(upto, case.finish[row])
        share += rate * took / expected if expected else 1.0 / len(rows)
        rounding += rate * ROUNDING * abs(case.finish[row]) / expected if expected else 0.0
    is_done = case.outcome[rows[-1]] == DONE
    if share > 1 + TOLERANCE + rounding or (is_done and share < 1 - TOLERANCE - rounding):
        yield _broken(case, "duration", f"covers {share} of its work, expected 1", rows[-1])


def _batches(case: Case) -> Iterator[Violation]:
    for (device, _), rows in case.batches.items():
        lead, most = rows[0], case.cluster.classes[case.class_of[device]].batch
        if len(rows) > most:
            yield _broken(case, "batch", f"batch of {len(rows)}, the class takes at most {most}", lead)
        for row in rows[1:]:
            if case.kind[case.task[row]] != case.kind[case.task[lead]]:
                yield _broken(
                    case,
                    "batch",
                    f"shares a batch with {case.task_name(case.task[lead])} of another kind",
                    row,
                )
            if (case.start[row], case.finish[row]) != (case.start[lead], case.finish[lead]):
                yield _broken(case, "batch", "does not start and finish with its batch", row)


def _capacities(case: Case) -> Iterator[Violation]:
    leads: list[list[int]] = [[] for _ in case.class_of]
    for row in case.ran:
        if case.together(row)[0] == row:
            leads[case.device[row]].append(row)
    for device, rows in enumerate(leads):
        rows.sort(key=case.start.__getitem__)
        yield from _sweep(case, case.cluster.classes[case.class_of[device]], rows)


def _sweep(case: Case, device_class: DeviceClass, rows: list[int]) -> Iterator[Violation]:
    """Walk the starts of one device in time order; what is over by then is given back."""
    limits = {"slots": float(device_class.slots), "memory": device_class.memory}
    limits |= {f"resource {name}": value for name, value in device_class.capacity.items()}
    used = dict.fromkeys(limits, 0.0)
    active: list[tuple[float, int, dict[str, float]]] = []
    for row in rows:
        while active and not _later(case, active[0][0], case.start[row]):
            for name, amount in heappop(active)[2].items():
                used[name] -= amount
        if not _later(case, case.finish[row], case.start[row]):
            continue
        held = _held_together(case, row, limits)
        heappush(active, (case.finish[row], row, held))
        for name, amount in held.items():
            used[name] += amount
            if amount > 0 and used[name] > limits[name] * (1 + TOLERANCE):
                detail = f"{used[name]:g} of {limits[name]:g} {name} in use at {case.start[row]}"
                yield _broken(case, name.split()[0], detail, row)


def _held_together(case: Case, row: int, limits: dict[str, float]) -> dict[str, float]:
    """What a row, or the batch it leads, holds: a batch holds the most any of its members needs."""
    held: dict[str, float] = {}
    for other in case.together(row):
        for name, amount in case.held(other).items():
            if name in limits:
                held[name] = max(held.get(name, 0.0), amount)
    return held


def _precedence(case: Case) -> Iterator[Violation]:
    for parent, child, data in case.edges():
        for rows in case.executions(child):
            row = rows[0]
            arrival, origin = case.first_arrival(parent, case.device[row], data)
            if origin < 0:
                yield _broken(case, "precedence", f"its parent {case.task_name(parent)} is never done", row)
            elif _later(case, arrival, case.start[row]):
                detail = f"starts at {case.start[row]}, data of {case.task_name(parent)} arrives at {arrival}"
                yield _broken(case, "precedence", detail, row)


def _one_port(case: Case) -> Iterator[Violation]:
    """Place the transfers one by one, the most urgent first, each in the first gap of both ports.

    Success proves that the transfers fit. Failure proves nothing: the order is greedy, so a
    schedule that fits only in another order is reported too.
    """
    if not case.cluster.one_port:
        return
    sending: dict[int, list[tuple[float, float]]] = {}
    receiving: dict[int, list[tuple[float, float]]] = {}
    for deadline, release, length, origin, row in _transfers(case):
        ports = (
            sending.setdefault(case.device[origin], []),
            receiving.setdefault(case.device[row], []),
        )
        at = _first_gap(ports, release, length)
        if _later(case, at + length, deadline):
            detail = f"found no time for the data of {case.task_name(case.task[origin])} before {deadline}"
            yield _broken(case, "one-port", detail, row)
            continue
        for port in ports:
            insort(port, (at, at + length))


def _transfers(case: Case) -> list[tuple[float, float, float, int, int]]:
    """(needed by, ready at, length, row it comes from, row it goes to), most urgent first.

    Copies of a child on one device share a transfer.
    """
    needed: dict[tuple[int, int, int], tuple[float, float, float, int, int]] = {}
    for parent, child, data in case.edges():
        for rows in case.executions(child):
            row = rows[0]
            arrival, origin = case.first_arrival(parent, case.device[row], data)
            if origin < 0 or _is_at_hand(case, parent, row):
                continue
            length = case.transfer(case.device[origin], case.device[row], data)
            transfer = (case.start[row], case.finish[origin], length, origin, row)
            key = (parent, child, case.device[row])
            if length > 0 and not _later(case, arrival, case.start[row]):
                needed[key] = min(transfer, needed.get(key, transfer))
    return sorted(needed.values())


def _is_at_hand(case: Case, parent: int, row: int) -> bool:
    """Whether a copy of the parent on the row's own device is done in time."""
    return any(
        case.device[run[-1]] == case.device[row]
        and case.outcome[run[-1]] == DONE
        and not _later(case, case.finish[run[-1]], case.start[row])
        for run in case.executions(parent)
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
