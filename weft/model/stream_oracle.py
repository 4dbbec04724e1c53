"""The oracle for long streams of one graph: the rules of ``validate``, over all jobs at once.

It shares no code with the kernels. Run times and transfers are those the plain oracle works out
(``oracle_input.py``); the rules are checked column by column in NumPy, because a published sweep has a
thousand million rows. A property test holds it against ``validate``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from weft.model.graph import ALWAYS, Bools, Floats, Ints
from weft.model.oracle_input import OracleInput
from weft.model.schedule import Schedule
from weft.model.stream_record import StreamRecord
from weft.model.validate import ROUNDING, TOLERANCE, Violation


def validate_stream(record: StreamRecord) -> tuple[Violation, ...]:
    """The rules a stream breaks, each with the first place where it does; empty if it is valid."""
    given = _input_of(record)
    senseless = tuple(_numbers(record, given))
    if senseless:
        return senseless
    checks = (_tasks, _releases, _expiries, _batches, _durations, _capacities, _precedence)
    return tuple(violation for check in checks for violation in check(record, given))


def _input_of(record: StreamRecord) -> OracleInput:
    """One job as the plain oracle sees it, every branch taken; no rows."""
    job = record.problem.jobs[0]
    branch = np.full(job.graph.num_edges, ALWAYS)
    plain = job.graph.replaced(branch=branch, probability=np.ones(len(branch)))
    problem = record.problem.replaced(jobs=(replace(job, graph=plain),))
    none: list[float] = []
    return OracleInput(Schedule(problem, none, none, none, none), problem, None)  # type: ignore[arg-type]


def _first(record: StreamRecord, rule: str, is_broken: Bools, detail: str) -> Iterator[Violation]:
    """One violation for all places (num_jobs, num_tasks) that break a rule, naming the first."""
    places = np.argwhere(is_broken)
    if not len(places):
        return
    job, task = places[0].tolist()
    device = int(record.device[job, task])
    names = record.problem.cluster.device_names
    more = f", and {len(places) - 1} more" if len(places) > 1 else ""
    yield Violation(
        rule,
        f"{record.problem.jobs[0].name}-{job + 1}/{record.problem.graph.names[task]}",
        names[device] if 0 <= device < len(names) else None,
        f"{detail}{more}",
    )


def _slack(record: StreamRecord, time: Floats) -> Floats:
    """What rounding may do to a time; releases may be dates, far from zero."""
    slack: Floats = TOLERANCE * np.abs(time - record.arrival.min()) + ROUNDING * np.abs(time)
    return slack


def _numbers(record: StreamRecord, given: OracleInput) -> Iterator[Violation]:
    is_wrong = record.has_run & ~(np.isfinite(record.finish) & (record.start <= record.finish))
    yield from _first(record, "numbers", is_wrong, "has no finite start <= finish")
    unknown = (record.device < -1) | (record.device >= len(given.class_of))
    yield from _first(record, "device", unknown, "has a device that is not there")


def _tasks(record: StreamRecord, given: OracleInput) -> Iterator[Violation]:
    """What runs is done once, unless it was dropped or waits for something that was."""
    yield from _first(
        record, "not-taken", record.has_run & ~record.runs, "runs although its branch is not taken"
    )
    graph, left = record.problem.graph, record.runs & ~record.has_run
    is_excused = left & np.isfinite(record.finish)
    for i in graph.order.tolist():
        for e in range(int(graph.successor_pointer[i]), int(graph.successor_pointer[i + 1])):
            is_excused[:, graph.targets[e]] |= record.taken[e] & left[:, i]
    yield from _first(record, "missing", left & ~is_excused, "is never done")


def _releases(record: StreamRecord, given: OracleInput) -> Iterator[Violation]:
    early = record.start + _slack(record, record.start) < record.arrival[:, None]
    yield from _first(record, "release", record.has_run & early, "starts before its job arrives")


def _expiries(record: StreamRecord, given: OracleInput) -> Iterator[Violation]:
    """Nothing starts once its job is too old, and nothing is dropped before."""
    due = record.arrival[:, None] + record.expiry
    slack = _slack(record, record.arrival)[:, None] + TOLERANCE
    late = record.has_run & (record.start > due + slack)
    yield from _first(record, "expiry", late, f"starts although its job is older than {record.expiry:g}")
    was_dropped = ~record.has_run & np.isfinite(record.finish)
    early = was_dropped & ~(record.finish > due - slack)
    yield from _first(record, "missing", early, "was dropped before its job expired")


def _groups(record: StreamRecord) -> tuple[Ints, Ints, Ints, Ints]:
    """Jobs and tasks of all rows sorted by device and batch, the place where each batch begins, its size."""
    job, task = np.nonzero(record.has_run)
    device, batch = record.device[job, task], record.batch[job, task]
    order = np.lexsort((job, batch, device))
    job, task, device, batch = job[order], task[order], device[order], batch[order]
    is_new = np.ones(len(job), np.bool_)
    is_new[1:] = (np.diff(device) != 0) | (np.diff(batch) != 0)
    begins = np.flatnonzero(is_new)
    return job, task, begins, np.diff(np.append(begins, len(job)))


def _marked(record: StreamRecord, job: Ints, task: Ints, is_broken: Bools) -> Bools:
    """The rows that break a rule as places (num_jobs, num_tasks)."""
    places = np.zeros_like(record.has_run)
    places[job[is_broken], task[is_broken]] = True
    return places


def _batches(record: StreamRecord, given: OracleInput) -> Iterator[Violation]:
    job, task, begins, size = _groups(record)
    lead = np.repeat(begins, size)
    kind = record.problem.graph.kind[task]
    start, finish = record.start[job, task], record.finish[job, task]
    most = np.array([c.batch for c in given.cluster.classes])[given.class_of][record.device[job, task]]
    too_large = _marked(record, job, task, np.repeat(size, size) > most)
    yield from _first(record, "batch", too_large, "is in a batch larger than its device takes")
    mixed = _marked(record, job, task, kind != kind[lead])
    yield from _first(record, "batch", mixed, "shares a batch with another kind")
    apart = _marked(record, job, task, (start != start[lead]) | (finish != finish[lead]))
    yield from _first(record, "batch", apart, "does not start and finish with its batch")


def _durations(record: StreamRecord, given: OracleInput) -> Iterator[Violation]:
    """A batch takes as long as its longest member."""
    num_tasks, num_classes = record.problem.num_tasks, len(given.cluster.classes)
    table = np.array([[given.expected(i, c) for c in range(num_classes)] for i in range(num_tasks)])
    job, task, begins, size = _groups(record)
    if not len(job):
        return
    alone = table[task, np.array(given.class_of)[record.device[job, task]]]
    yield from _first(
        record, "class", _marked(record, job, task, ~np.isfinite(alone)), "cannot run on its device"
    )
    expected = np.repeat(np.maximum.reduceat(alone, begins), size)
    start, finish = record.start[job, task], record.finish[job, task]
    is_wrong = np.abs(finish - start - expected) > TOLERANCE * expected + ROUNDING * np.abs(finish)
    wrong = _marked(record, job, task, is_wrong & np.isfinite(expected))
    yield from _first(record, "duration", wrong, "does not take its run time")


def _capacities(record: StreamRecord, given: OracleInput) -> Iterator[Violation]:
    """At no time do the batches of a device hold more than it has; a batch holds what one member needs."""
    graph = record.problem.graph
    job, task, begins, _ = _groups(record)
    if not len(job):
        return
    needs = {"slots": graph.slots.astype(np.float64), "memory": graph.memory}
    needs |= {f"resource {name}": graph.demands[:, r] for r, name in enumerate(graph.resources)}
    held = {name: np.maximum.reduceat(need[task], begins) for name, need in needs.items()}
    lead = job[begins], task[begins]
    for device, class_index in enumerate(given.class_of):
        own = np.flatnonzero(record.device[lead] == device)
        limits = _limits(given, class_index)
        for name in (name for name in limits if name in held and limits[name] < np.inf):
            is_over = np.zeros(len(begins), np.bool_)
            is_over[own] = _overloaded(record, lead, own, held[name][own], limits[name])
            over = _marked(record, *lead, is_over)
            yield from _first(
                record, name.split()[0], over, f"with it, more than {limits[name]:g} {name} are in use"
            )


def _limits(given: OracleInput, class_index: int) -> dict[str, float]:
    device_class = given.cluster.classes[class_index]
    limits = {"slots": float(device_class.slots), "memory": device_class.memory}
    return limits | {f"resource {name}": value for name, value in device_class.capacity.items()}


def _overloaded(
    record: StreamRecord, lead: tuple[Ints, Ints], own: Ints, held: Floats, limit: float
) -> Bools:
    """Which of these batches of one device begin when too much is held; those that take no time hold nothing."""
    start, finish = record.start[lead][own], record.finish[lead][own]
    until = finish - _slack(record, finish)
    held = np.where(until > start, held, 0.0)
    times = np.concatenate([start, until])
    order = np.lexsort((np.repeat([1, 0], len(own)), times))  # what ends makes room first
    in_use = np.cumsum(np.concatenate([held, -held])[order])
    at_start = np.empty(len(times))
    at_start[order] = in_use
    return np.asarray((held > 0) & (at_start[: len(own)] > limit * (1 + TOLERANCE)))


def _precedence(record: StreamRecord, given: OracleInput) -> Iterator[Violation]:
    """The data of every parent that runs is there when a task starts."""
    graph, num = record.problem.graph, len(given.class_of)
    for e, (parent, child) in enumerate(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)):
        data = float(graph.data[e])
        travel = np.array([[given.transfer(a, b, data) for b in range(num)] for a in range(num)])
        is_needed = record.taken[e] & record.runs[:, parent] & record.has_run[:, child]
        is_lacking = is_needed & ~record.has_run[:, parent]
        there = record.finish[:, parent] + travel[record.device[:, parent], record.device[:, child]]
        is_late = is_needed & (there - _slack(record, there) > record.start[:, child])
        places = np.zeros_like(record.has_run)
        places[:, child] = is_lacking | is_late
        yield from _first(
            record, "precedence", places, f"starts before the data of {graph.names[parent]} is there"
        )
