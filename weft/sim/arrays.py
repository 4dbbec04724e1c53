"""A problem as the flat arrays kernels work on. Tasks of all jobs are numbered through."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import Problem

SLOTS = 0
"""Column of ``demand`` and ``capacity`` that holds slots; memory and named resources follow."""


class Arrays(NamedTuple):
    """What a scheduler may know of a problem; C-contiguous, writable, fixed dtypes."""

    run: Floats  # (num_tasks, num_classes) expected run time, infinite where it cannot run
    release: Floats  # (num_tasks,)
    job: Ints  # (num_tasks,)
    order: Ints  # (num_tasks,) topological
    succ_ptr: Ints  # (num_tasks + 1,)
    succ: Ints  # (num_edges,)
    succ_data: Floats  # (num_edges,)
    pred_ptr: Ints  # (num_tasks + 1,)
    pred: Ints  # (num_edges,)
    pred_data: Floats  # (num_edges,)
    demand: Floats  # (num_tasks, num_resources)
    capacity: Floats  # (num_devices, num_resources)
    is_unary: Bools  # (num_devices,) whether the device runs one task at a time
    device_class: Ints  # (num_devices,)
    class_count: Floats  # (num_classes,) devices per class
    allowed: Bools  # (num_jobs, num_devices), or (0, 0) when every job may use all
    group: Ints  # (num_devices,) link group
    latency: Floats  # (num_groups, num_groups)
    inverse: Floats  # (num_groups, num_groups) time per byte
    mean_latency: float
    mean_inverse: float


def compile_problem(problem: Problem, run_times: Floats | None = None, *, is_open: bool = False) -> Arrays:
    """Lay a problem out for the kernels; ``run_times`` replaces the expected ones.

    ``is_open``: with every resource that binds on some device, whether or not a task here needs it.
    """
    cluster = problem.cluster
    demand, capacity = _resources(problem, is_open=is_open)
    latency, bandwidth = problem.links
    mean_latency, mean_inverse = problem.mean_link
    graphs = [job.graph for job in problem.jobs]
    sources = _joined(problem, [g.sources for g in graphs])
    targets = _joined(problem, [g.targets for g in graphs])
    data = _flat([g.data for g in graphs], np.float64)
    by_target = _joined_edges([g.predecessor_edges for g in graphs])
    return Arrays(
        run=np.array(problem.run_times if run_times is None else run_times, dtype=np.float64, order="C"),
        release=np.repeat([job.release for job in problem.jobs], np.diff(problem.offsets)).astype(np.float64),
        job=np.array(problem.job_of, dtype=np.int64),
        order=_joined(problem, [g.order for g in graphs]),
        succ_ptr=_pointer(sources, problem.num_tasks),
        succ=targets,
        succ_data=data,
        pred_ptr=_pointer(targets, problem.num_tasks),
        pred=sources[by_target],
        pred_data=data[by_target],
        demand=demand,
        capacity=capacity,
        is_unary=np.array(cluster.slots == 1),
        device_class=np.array(cluster.device_class, dtype=np.int64),
        class_count=np.array(problem.device_counts),
        allowed=np.array(problem.eligible),
        group=np.array(cluster.link_group, dtype=np.int64),
        latency=np.array(latency),
        inverse=1.0 / bandwidth,
        mean_latency=mean_latency,
        mean_inverse=mean_inverse,
    )


def _resources(problem: Problem, *, is_open: bool) -> tuple[Floats, Floats]:
    """Demand and capacity tables over slots, memory and every resource that can bind."""
    cluster = problem.cluster
    graphs = [job.graph for job in problem.jobs]
    demand = [np.concatenate([g.slots for g in graphs]).astype(np.float64)]
    capacity = [cluster.slots.astype(np.float64)]
    has_memory, names = _binding(problem, is_open=is_open)
    if has_memory:
        demand.append(np.concatenate([g.memory for g in graphs]))
        capacity.append(cluster.class_column("memory")[cluster.device_class])
    for name in names:
        demand.append(np.concatenate([_demand_column(g, name) for g in graphs]))
        capacity.append(
            np.array([c.capacity.get(name, np.inf) for c in cluster.classes])[cluster.device_class]
        )
    return np.ascontiguousarray(np.stack(demand, axis=1)), np.ascontiguousarray(np.stack(capacity, axis=1))


def _binding(problem: Problem, *, is_open: bool) -> tuple[bool, list[str]]:
    """Whether memory can bind, and the names of other resources that can."""
    cluster, graphs = problem.cluster, [job.graph for job in problem.jobs]
    needs_memory = is_open or any(g.memory.any() for g in graphs)
    named = (c.capacity for c in cluster.classes) if is_open else (g.resources for g in graphs)
    limits = {
        name: np.array([c.capacity.get(name, np.inf) for c in cluster.classes])
        for name in dict.fromkeys(r for names in named for r in names)
    }
    has_memory = bool(needs_memory and np.isfinite(cluster.class_column("memory")).any())
    return has_memory, [name for name, limit in limits.items() if np.isfinite(limit).any()]


def booking_needs(problem: Problem, *, is_open: bool) -> Floats:
    """What jobs book of each device (num_jobs, num_resources), by the columns of demands; infinite: all there is."""
    has_memory, names = _binding(problem, is_open=is_open)
    needs = np.zeros((len(problem.jobs), 1 + has_memory + len(names)))
    for j, job in enumerate(problem.jobs):
        if job.booking is not None and job.booking.slots is None:
            needs[j] = np.inf
        elif job.booking is not None:
            needs[j, SLOTS] = job.booking.slots
            needs[j, SLOTS + 1 : SLOTS + 1 + has_memory] = job.booking.memory
    return needs


def _demand_column(graph: Any, name: str) -> Floats:
    if name not in graph.resources:
        return np.zeros(graph.num_tasks)
    return np.array(graph.demands[:, graph.resources.index(name)])


def _flat(parts: list[Any], dtype: Any) -> Any:
    return np.concatenate(parts).astype(dtype) if parts else np.zeros(0, dtype)


def _joined(problem: Problem, parts: list[Any]) -> Any:
    """Task indices of every job, numbered through."""
    return np.concatenate(
        [part + offset for part, offset in zip(parts, problem.offsets[:-1], strict=True)]
    ).astype(np.int64)


def _joined_edges(parts: list[Any]) -> Any:
    starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    return np.concatenate([part + start for part, start in zip(parts, starts[:-1], strict=True)])


def _pointer(ends: Any, num_tasks: int) -> Ints:
    pointer = np.zeros(num_tasks + 1, dtype=np.int64)
    np.cumsum(np.bincount(ends, minlength=num_tasks), out=pointer[1:])
    return pointer


def zeros(kind: Any, *groups: tuple[tuple[int, ...], str]) -> dict[str, Any]:
    """Zeros for fields of a NamedTuple of arrays, given as shape and names; its annotations say the dtypes."""
    dtypes = _dtypes(kind)
    return {name: np.zeros(shape, dtypes[name]) for shape, names in groups for name in names.split()}


_DTYPES: dict[str, Any] = {str(Floats): np.float64, str(Ints): np.int64, str(Bools): np.bool_}
"""By the text of an annotation: what its parts are differs between versions of NumPy."""


@cache
def _dtypes(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind).items()
    return {name: _DTYPES[str(hint)] for name, hint in hints if str(hint) in _DTYPES}
