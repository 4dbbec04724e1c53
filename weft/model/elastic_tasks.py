"""Problems with elastic tasks as elastic problems, which allocators act on, where both say exactly the same.

A device is a cluster, a distinct speed curve with its run time a type, a release an arrival; a world step is a span of the
problem's time. What has no exact counterpart is refused with the reason. ``elastic_schedule`` has the way back.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from weft.errors import InputError, UnsupportedError
from weft.model.columns import Floats, Ints
from weft.model.elastic import LATEST, MOST_CLUSTERS, ElasticProblem, TaskType
from weft.model.job import QUEUE
from weft.model.problem import Job, Problem

MARGIN = 1e-10
"""Speeds are this share higher, so that rounding never costs a task a step; less than the validator can tell."""
CLOSE = 1e-9
"""How far, as a share, a number may be from a whole one, or run times from one another."""
SLOTS, MEMORY = "slots", "memory"
"""Resources that tasks hold besides those with names of their own."""


class Curve(NamedTuple):
    """The speed of one task on its own, over units of the named resources of its graph."""

    least: tuple[int, ...]
    most: tuple[int, ...]
    rate: Floats  # (most + 1 of each, or 1 where least is most) speed; 1: that of the stated run time
    length: float
    """Time that it takes at speed 1."""
    lost: float = 0.0
    """Time without progress at each change of units."""
    jitter: float = 0.0
    """Half the width of the draw that is added to the speed in every step of time."""


def refuse_elastic(problem: Problem) -> str | None:
    """Why allocators cannot act on this problem, as far as that shows in a look at its jobs; None: they can."""
    if problem.varies:
        return "run times vary, and allocators act on stated ones (noise, bias and drift 0; jitter of curves varies speeds)"
    if problem.cluster.num_devices > MOST_CLUSTERS:
        return (
            f"allocators act on at most {MOST_CLUSTERS} devices, and there are {problem.cluster.num_devices}"
        )
    reasons = (_refuse_job(job, problem.jobs[0].graph.resources) for job in problem.jobs)
    return next((reason for reason in reasons if reason is not None), None)


def _refuse_job(job: Job, resources: tuple[str, ...]) -> str | None:
    graph = job.graph
    if graph.num_edges:
        return f"job {job.name!r} has edges: allocators place tasks that wait for no other"
    if job.period is not None:
        return f"job {job.name!r} is periodic: unroll it over a horizon first"
    if job.booking is not None:
        return f"job {job.name!r} books devices: allocators place single tasks"
    if job.overrun != QUEUE or job.in_order:
        return (
            f"job {job.name!r} waits for the instance before it or is dropped: allocators place single tasks"
        )
    if graph.resources != resources:
        return f"job {job.name!r} names the resources {graph.resources}, the first one {resources}: expected the same"
    if graph.is_elastic and not resources:
        return f"job {job.name!r} has elastic tasks and names no resource: units of what are they given?"
    if graph.is_elastic and graph.curves.ndim == 2 and len(resources) > 1:
        return f"job {job.name!r} has curves over the sum of {' and '.join(resources)}: expected tables, an axis for each"
    return None


def elastic_problem(problem: Problem, step: float = 1.0) -> ElasticProblem:
    """The elastic problem that says the same as a problem of single tasks, some with speed curves.

    Parameters
    ----------
    step
        Length of a world step in the problem's time unit: allocators decide once in each. Releases fall on whole steps.

    Raises an ``UnsupportedError`` that names what has no counterpart.
    """
    if not (0 < step < np.inf):
        raise InputError(f"expected a time > 0, got {step}", field="step")
    reason = refuse_elastic(problem)
    if reason is not None:
        raise UnsupportedError(reason)
    curves = [curve_of(problem, number) for number in range(problem.num_tasks)]
    held, named = _held(problem, curves), problem.jobs[0].graph.resources
    _refuse_slow_changes(curves, step)
    types, kind = _types(problem, curves, held, step)
    links = _links(problem, curves)
    return ElasticProblem(
        capacity=_capacity(problem, held),
        types=types,
        num_tasks=problem.num_tasks,
        arrival_rate=1.0,
        resources=(*held, *named),
        stepping="multi",
        conflicts="own",
        name=problem.name,
        cluster_names=problem.cluster.device_names,
        arrivals=np.stack([_steps(problem, step), kind, links], axis=1)[arrival_order(problem)],
    )


def arrival_order(problem: Problem) -> Ints:
    """Number in the problem of each task of its elastic problem: by release, then as they are numbered."""
    release = np.array([job.release for job in problem.jobs])[problem.job_of]
    return np.argsort(release, kind="stable").astype(np.int64)


def curve_of(problem: Problem, number: int) -> Curve:
    """The speed of a task; one without a curve has what it demands, at speed 1."""
    job = problem.jobs[int(problem.job_of[number])]
    local = number - int(problem.offsets[int(problem.job_of[number])])
    k, name = int(job.graph.curve[local]), problem.task_name(number)
    alone = _alone(problem, number)
    if k < 0:
        units = _whole(job.graph.demands[local], f"tasks.{name}.demands")
        return Curve(units, units, np.ones((1,) * len(units)), alone)
    table = job.graph.curves[k]
    if table.ndim == 1:
        table = np.concatenate([[0.0], table])
    least = _least(table, k)
    wanted = tuple(int(np.ceil(one)) for one in job.graph.demands[local])
    least = tuple(max(pair) for pair in zip(least, wanted, strict=True))
    most = tuple(size - 1 for size in table.shape)
    if any(low > high for low, high in zip(least, most, strict=True)):
        raise UnsupportedError(
            f"demands {_shown(wanted)} units, and its curve ends at {_shown(most)}", field=f"tasks.{name}"
        )
    length = alone * float(job.graph.course_lengths[k])
    lost, jitter = float(job.graph.switching[k]), float(job.graph.jitter[k])
    return Curve(least, most, np.asarray(table), length, lost, jitter)


def _shown(units: tuple[int, ...]) -> str:
    return "x".join(str(one) for one in units)


def _least(table: Floats, k: int) -> tuple[int, ...]:
    """Units from which on a curve is above 0; the rest of it is to be 0, as the corner of a box."""
    runs = table > 0
    axes = range(table.ndim)
    least = tuple(
        int(np.argmax(runs.any(axis=tuple(a for a in axes if a != axis))))
        if table.ndim > 1
        else int(np.argmax(runs))
        for axis in axes
    )
    if not runs[tuple(slice(low, None) for low in least)].all():
        at = next(
            point
            for point in np.argwhere(~runs).tolist()
            if all(u >= low for u, low in zip(point, least, strict=True))
        )
        raise UnsupportedError(
            f"is 0 with {_shown(tuple(at))} units, and not with {_shown(least)} or fewer: allocators need a least of each resource",
            field=f"curves[{k}]",
        )
    return least


def _whole(values: Floats, field: str) -> tuple[int, ...]:
    found = np.round(values)
    if (np.abs(found - values) > CLOSE * np.maximum(1.0, np.abs(values))).any():
        raise UnsupportedError(
            f"expected whole units, got {', '.join(f'{one:g}' for one in values)}", field=field
        )
    return tuple(int(one) for one in found)


def _alone(problem: Problem, number: int) -> float:
    """Run time of a task at speed 1, where it is the same on all devices that it may use."""
    times = problem.run_times[number][problem.cluster.device_class[_may_use(problem, number)]]
    low, high = float(times.min()), float(times.max())
    name = problem.task_name(number)
    if high - low > CLOSE * high:
        raise UnsupportedError(
            f"takes {low:g} on one device and {high:g} on another: allocators know one speed per task",
            field=f"tasks.{name}",
        )
    if not low > 0:
        raise UnsupportedError("takes no time: allocators place tasks that run", field=f"tasks.{name}")
    return low


def _may_use(problem: Problem, number: int) -> Ints:
    """Devices that a task may use and can run on."""
    can = np.isfinite(problem.run_times[number])[problem.cluster.device_class]
    if problem.eligible.size:
        can = can & problem.eligible[int(problem.job_of[number])]
    return np.flatnonzero(can)


class _Held(NamedTuple):
    """What tasks hold besides named resources, as they need it: slots, or memory in units."""

    need: Ints  # (num_tasks,)
    have: Ints  # (num_devices,)


def _held(problem: Problem, curves: list[Curve]) -> dict[str, _Held]:
    """Slots and memory, where they may keep a task from starting."""
    least = np.array([one.least for one in curves], np.int64).reshape(problem.num_tasks, -1)
    most = _most_at_once(least, _named_capacity(problem))
    found = {
        SLOTS: _Held(
            problem.task_slots.astype(np.int64),
            problem.cluster.slots.astype(np.int64),
        ),
        MEMORY: _memory(problem),
    }
    enough = {name: one.need.max() * most for name, one in found.items()}
    return {
        name: _Held(one.need, np.minimum(one.have, enough[name]))
        for name, one in found.items()
        if (enough[name] > one.have).any()
    }


def _most_at_once(least: Ints, capacity: Ints) -> Ints:
    """No more tasks than this have room on each device by the named resources; (num_devices,)."""
    num_tasks = len(least)
    most = np.full(len(capacity), num_tasks, np.int64)
    for need, have in zip(least.min(axis=0), capacity.T, strict=True):
        if need > 0:
            most = np.minimum(most, have // need)
    return most


def _memory(problem: Problem) -> _Held:
    """Memory in the largest unit that every task's is a multiple of."""
    need = np.concatenate([job.graph.memory for job in problem.jobs])
    whole = [int(one) for one in np.ceil(need).tolist()]
    unit = float(math.gcd(*whole)) or 1.0
    have = problem.cluster.class_column("memory")[problem.cluster.device_class]
    enough = sum(whole)  # a device with more, or with no limit, has room for all of them
    units = np.floor(np.minimum(have, enough) / unit)
    return _Held(np.array([one / unit for one in whole], np.int64), units.astype(np.int64))


def _named_capacity(problem: Problem) -> Ints:
    """Units of the named resources of every device; (num_devices, num_resources)."""
    names = problem.jobs[0].graph.resources
    rows = []
    for k in problem.cluster.device_class.tolist():
        given = problem.cluster.classes[k]
        missing = [name for name in names if not np.isfinite(given.capacity.get(name, np.inf))]
        if missing:
            raise UnsupportedError(
                f"has no capacity of {missing[0]}: allocators need a number of units",
                field=f"class {given.name}",
            )
        if given.overhead:
            raise UnsupportedError(
                f"has an overhead of {given.overhead:g} s, which units do not shorten: expected 0",
                field=f"class {given.name}",
            )
        rows.append([int(given.capacity[name]) for name in names])
    return np.array(rows, np.int64).reshape(problem.cluster.num_devices, len(names))


def _capacity(problem: Problem, held: dict[str, _Held]) -> Ints:
    return np.column_stack([*(one.have for one in held.values()), _named_capacity(problem)])


def _types(
    problem: Problem, curves: list[Curve], held: dict[str, _Held], step: float
) -> tuple[tuple[TaskType, ...], Ints]:
    """The distinct types, named like the kinds of their tasks, and the type of every task."""
    found: dict[tuple[object, ...], int] = {}
    types: list[TaskType] = []
    number = np.zeros(problem.num_tasks, np.int64)
    kinds = [problem.kinds[k] for k in problem.kind_of.tolist()]
    for i, one in enumerate(curves):
        more = tuple(int(each.need[i]) for each in held.values())
        rate = one.rate * (step / one.length * (1.0 + MARGIN))
        noise, switching = one.jitter * step / one.length, 1.0 - one.lost / step
        key = (kinds[i], more, one.least, one.most, rate.tobytes(), noise, switching)
        if key not in found:
            found[key] = len(types)
            table = rate.reshape((1,) * len(more) + rate.shape)
            name = _apart(kinds[i], types)
            bounds = more + one.least, more + one.most
            none = np.zeros_like(table)
            types.append(TaskType(name, *bounds, table, none, noise=noise, switching=switching))
        number[i] = found[key]
    return tuple(types), number


def _apart(kind: str, types: list[TaskType]) -> str:
    """The name of a kind, numbered where a type has it already: ``train``, ``train-2``, ..."""
    names = {one.name for one in types}
    count = 1
    while (name := kind if count == 1 else f"{kind}-{count}") in names:
        count += 1
    return name


def _links(problem: Problem, curves: list[Curve]) -> Ints:
    """Bits of the devices that each task may use and that have what it needs; (num_tasks,)."""
    capacity, found = _named_capacity(problem), []
    for number, one in enumerate(curves):
        devices = [n for n in _may_use(problem, number).tolist() if (capacity[n] >= one.least).all()]
        if not devices:
            raise UnsupportedError(
                f"needs {_shown(one.least)} units, and no device it may use has so many",
                field=f"tasks.{problem.task_name(number)}",
            )
        found.append(sum(1 << n for n in devices))
    return np.array(found, np.int64)


def _refuse_slow_changes(curves: list[Curve], step: float) -> None:
    most = max(one.lost for one in curves)
    if most > step:  # what is left of a step could be below 0
        raise UnsupportedError(
            f"a change of units costs {most:g}, more than a world step of {step:g} (--set step=)",
            field="switching",
        )


def _steps(problem: Problem, step: float) -> Ints:
    """World step in which each task arrives."""
    found = []
    for job in problem.jobs:
        steps = job.release / step
        if abs(steps - round(steps)) > CLOSE * max(1.0, steps):
            raise UnsupportedError(
                f"expected a whole number of world steps of {step:g} {problem.time_unit}, got {job.release:g} (--set step=)",
                field=f"job {job.name}: release",
            )
        if steps > LATEST:
            raise UnsupportedError(
                f"expected at most {LATEST:,} world steps, got {steps:,.0f} (--set step=)",
                field=f"job {job.name}: release",
            )
        found.append(round(steps))
    return np.array(found, np.int64)[problem.job_of]
