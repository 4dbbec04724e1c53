"""What must hold in every task graph, and the orders that prove it has no cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.errors import InputError
from weft.model.columns import ALWAYS
from weft.model.launches import parent_in_chain

if TYPE_CHECKING:
    from weft.model.graph import TaskGraph


def _first(mask: Any) -> int:
    return int(np.argmax(mask)) if mask.any() else -1


def check(graph: TaskGraph) -> None:
    """Refuse a graph whose columns do not make sense, naming the first task or edge at fault."""
    _check_tasks(graph)
    _check_edges(graph)
    if graph.is_conditional:
        _check_branches(graph)
    graph.order  # noqa: B018  raises on a cycle
    if graph.saved.size:
        _check_saved(graph)


def _check_tasks(graph: TaskGraph) -> None:
    if len(graph.index) != graph.num_tasks:
        seen: set[str] = set()
        for name in graph.names:
            if name in seen:
                raise InputError(f"task {name!r} is defined twice", field=f"tasks.{name}")
            seen.add(name)

    def refuse(mask: Any, column: str, expected: str, values: Any) -> None:
        bad = _first(mask)
        if bad >= 0:
            raise InputError(
                f"expected {expected}, got {values[bad]}", field=f"tasks.{graph.names[bad]}.{column}"
            )

    work = graph.work
    refuse((work < 0) | np.isinf(work), "work", "a finite number >= 0", work)
    untimed = np.isnan(work) & np.isnan(graph.times).all(axis=1)
    refuse(untimed, "work", "a run time (work, or times per class)", work)
    if graph.times.size:
        refuse((graph.times < 0).any(axis=1), "times", "run times >= 0", graph.times)
    refuse(graph.slots < 1, "slots", "a whole number >= 1", graph.slots)
    refuse(~(graph.memory >= 0) | np.isinf(graph.memory), "memory", "a finite number >= 0", graph.memory)
    if graph.demands.size:
        demands = graph.demands
        refuse((~(demands >= 0) | np.isinf(demands)).any(axis=1), "demands", "finite numbers >= 0", demands)
    refuse((graph.kind < 0) | (graph.kind >= len(graph.kinds)), "kind", "an index into kinds", graph.kind)
    refuse(graph.curve >= len(graph.curves), "curve", "an index into curves", graph.curve)
    _check_curves(graph)


def _check_curves(graph: TaskGraph) -> None:
    curves, num_resources = graph.curves, len(graph.resources)
    if np.isinf(curves).any():
        raise InputError("expected finite rates", field="curves")
    if curves.ndim == 2 and not (curves > 0).all():
        raise InputError("expected rates > 0", field="curves")
    if curves.ndim != 2 and (num_resources < 2 or curves.ndim != 1 + num_resources):
        raise InputError(
            f"expected one axis, or one for each of {num_resources} resources, got {curves.ndim - 1}",
            field="curves",
        )
    if curves.ndim > 2 and not (
        (curves >= 0).all() and (curves.reshape(len(curves), -1).max(axis=1) > 0).all()
    ):
        raise InputError("expected rates >= 0, some above 0 in each table", field="curves")
    courses = graph.courses
    if courses.size and (courses.ndim != 2 or len(courses) != len(curves)):
        raise InputError(
            f"expected a row for each of {len(curves)} curves, got {courses.shape}", field="courses"
        )
    if courses.size and not ((courses > 0) & np.isfinite(courses)).all():
        raise InputError("expected finite factors > 0", field="courses")
    if not ((graph.switching >= 0) & np.isfinite(graph.switching)).all():
        raise InputError("expected finite times >= 0", field="switching")
    if not ((graph.jitter >= 0) & np.isfinite(graph.jitter)).all():
        raise InputError("expected finite rates >= 0", field="jitter")


def _check_saved(graph: TaskGraph) -> None:
    bad = _first(~((graph.saved >= 0) & (graph.saved < 1)).all(axis=1))
    if bad >= 0:
        raise InputError(
            f"expected shares from 0 to below 1, got {graph.saved[bad].tolist()}",
            field=f"tasks.{graph.names[bad]}.saved",
        )
    bad = _first(graph.saved.any(axis=1) & (parent_in_chain(graph) < 0))
    if bad >= 0:
        raise InputError(
            f"expected 0 for a task that does not follow one parent as its only child, got {graph.saved[bad].tolist()}",
            field=f"tasks.{graph.names[bad]}.saved",
        )


def _check_edges(graph: TaskGraph) -> None:
    def refuse(mask: Any, what: str, values: Any) -> None:
        bad = _first(mask)
        if bad >= 0:
            ends = f"{graph.names[graph.sources[bad]]} -> {graph.names[graph.targets[bad]]}"
            raise InputError(f"edge {ends}: {what}, got {values[bad]}", field="edges")

    bad = _first(graph.sources == graph.targets)
    if bad >= 0:
        name = graph.names[graph.sources[bad]]
        raise InputError(f"the graph has a cycle: {name} -> {name}", field=f"tasks.{name}")
    same = (graph.sources[1:] == graph.sources[:-1]) & (graph.targets[1:] == graph.targets[:-1])
    bad = _first(same)
    if bad >= 0:
        ends = f"{graph.names[graph.sources[bad]]} -> {graph.names[graph.targets[bad]]}"
        raise InputError(f"edge {ends} is given twice", field="edges")
    refuse(~(graph.data >= 0) | np.isinf(graph.data), "expected finite data >= 0", graph.data)
    probability = graph.probability
    refuse(~((probability >= 0) & (probability <= 1)), "expected a probability in [0, 1]", probability)
    always = graph.branch == ALWAYS
    refuse(graph.branch < ALWAYS, "expected a branch group >= -1", graph.branch)
    refuse(always & (probability != 1), "an edge outside a branch group has probability 1", probability)


def _check_branches(graph: TaskGraph) -> None:
    total: dict[tuple[int, int], float] = {}
    for e in np.flatnonzero(graph.branch != ALWAYS).tolist():
        key = (int(graph.sources[e]), int(graph.branch[e]))
        total[key] = total.get(key, 0.0) + float(graph.probability[e])
    for (source, group), value in total.items():
        if abs(value - 1.0) > 1e-9:
            raise InputError(
                f"branch {group} of task {graph.names[source]!r}: probabilities sum to {value:g}, not 1",
                field=f"tasks.{graph.names[source]}",
            )


def topological_order(graph: TaskGraph) -> Any:
    """Indices parents-first, or None on a cycle. Index order if it is one already."""
    n = graph.num_tasks
    if (graph.sources < graph.targets).all():
        return np.arange(n, dtype=np.int32)
    pointer = graph.successor_pointer.tolist()
    targets = graph.targets.tolist()
    waiting = np.bincount(graph.targets, minlength=n)
    order = np.flatnonzero(waiting == 0).tolist()
    left = waiting.tolist()
    for i in order:  # grows while it is walked
        for j in targets[pointer[i] : pointer[i + 1]]:
            left[j] -= 1
            if left[j] == 0:
                order.append(j)
    return np.array(order, dtype=np.int32) if len(order) == n else None


def find_cycle(graph: TaskGraph, longest: int = 12) -> list[str]:
    """Names along one cycle, first repeated at the end, shortened in the middle if long."""
    waiting = np.bincount(graph.targets, minlength=graph.num_tasks).tolist()
    free = [i for i, count in enumerate(waiting) if count == 0]
    while free:
        for j in graph.successors(free.pop()).tolist():
            waiting[j] -= 1
            if waiting[j] == 0:
                free.append(j)
    # every task still waiting has a waiting predecessor: walk back until one repeats
    at = next(i for i, count in enumerate(waiting) if count)
    place: dict[int, int] = {}
    path: list[int] = []
    while at not in place:
        place[at] = len(path)
        path.append(at)
        at = next(j for j in graph.predecessors(at).tolist() if waiting[j])
    names = [graph.names[i] for i in [*path[place[at] :], at]][::-1]
    if len(names) > longest:
        names = [*names[: longest // 2], f"... {len(names) - longest} more ...", *names[-longest // 2 :]]
    return names
