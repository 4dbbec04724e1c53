"""Task graphs: what must be done, in which order, with how much data in between.

Columns, not objects: a graph is a set of read-only NumPy columns and CSR edges. ``Task`` and
``Edge`` are views made on access. Imports nothing of weft but ``errors``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.model.units import SECONDS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

ALWAYS = -1
"""Branch group of an edge that is always taken."""


@dataclass(frozen=True)
class Task:
    """One task of a graph, as a view."""

    index: int
    name: str
    kind: str
    work: float
    slots: int
    memory: float


@dataclass(frozen=True)
class Edge:
    """One edge of a graph, as a view; ``data`` in bytes, ``branch`` is -1 when always taken."""

    source: str
    target: str
    data: float
    probability: float
    branch: int


@dataclass(frozen=True, eq=False, repr=False, init=False)
class TaskGraph:
    """A directed acyclic graph of tasks, held as read-only columns.

    Parameters
    ----------
    work
        Run time at speed 1; NaN where only ``times`` says how long a task takes.
    names, kinds, kind
        Display names; the distinct kinds and each task's index into them.
    classes, times
        Run time per device class (unrelated machines). NaN: not given, falls back to the
        cluster's rules for the kind and to ``work``; infinity: cannot run there.
    slots, memory, resources, demands
        What a task holds of its device while it runs: slots, bytes, units per named resource.
        A resource limits a task only on devices that declare a capacity for it.
    sources, targets, data, probability, branch
        Edges in any order. Edges of one source that share a branch group >= 0 exclude one
        another and their probabilities sum to 1; group -1 is always taken. A task runs when all
        its edges are settled and at least one is taken; it is skipped when none is.
    curves, curve
        Speed curves of elastic tasks: ``curves[k, u]`` is the rate with ``u + 1`` units, and
        ``curve[i]`` names the row of task i (-1: not elastic).
    """

    work: Floats  # (num_tasks,)
    sources: Ints32  # (num_edges,) sorted by (source, target)
    targets: Ints32  # (num_edges,)
    data: Floats  # (num_edges,)
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    kind: Ints32  # (num_tasks,)
    classes: tuple[str, ...]
    times: Floats  # (num_tasks, num_classes)
    slots: Ints  # (num_tasks,)
    memory: Floats  # (num_tasks,)
    resources: tuple[str, ...]
    demands: Floats  # (num_tasks, num_resources)
    probability: Floats  # (num_edges,)
    branch: Ints32  # (num_edges,)
    curves: Floats  # (num_curves, max_units)
    curve: Ints32  # (num_tasks,)
    name: str
    time_unit: str
    metadata: Mapping[str, Any]

    def __init__(
        self,
        work: npt.ArrayLike,
        sources: npt.ArrayLike = (),
        targets: npt.ArrayLike = (),
        data: npt.ArrayLike = 0.0,
        *,
        names: Sequence[str] | None = None,
        kinds: Sequence[str] = ("task",),
        kind: npt.ArrayLike = 0,
        classes: Sequence[str] = (),
        times: npt.ArrayLike | None = None,
        slots: npt.ArrayLike = 1,
        memory: npt.ArrayLike = 0.0,
        resources: Sequence[str] = (),
        demands: npt.ArrayLike | None = None,
        probability: npt.ArrayLike = 1.0,
        branch: npt.ArrayLike = ALWAYS,
        curves: npt.ArrayLike | None = None,
        curve: npt.ArrayLike = -1,
        name: str = "graph",
        time_unit: str = "s",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        work_column = np.atleast_1d(np.array(work, dtype=np.float64))
        n = len(work_column)
        source_column = _indices(sources, n, "edge source")
        target_column = _indices(targets, n, "edge target")
        m = len(source_column)
        if len(target_column) != m:
            raise InputError(f"expected as many edge targets as sources, got {len(target_column)} and {m}")
        columns = {
            "work": work_column,
            "sources": source_column,
            "targets": target_column,
            "data": _column(data, m, np.float64, "data"),
            "kind": _column(kind, n, np.int32, "kind"),
            "times": _table(times, n, len(classes), np.nan, "times"),
            "slots": _column(slots, n, np.int64, "slots"),
            "memory": _column(memory, n, np.float64, "memory"),
            "demands": _table(demands, n, len(resources), 0.0, "demands"),
            "probability": _column(probability, m, np.float64, "probability"),
            "branch": _column(branch, m, np.int32, "branch"),
            "curves": np.zeros((0, 0)) if curves is None else np.array(curves, dtype=np.float64),
            "curve": _column(curve, n, np.int32, "curve"),
        }
        for edge_column in ("sources", "targets", "data", "probability", "branch"):
            columns[edge_column] = np.ascontiguousarray(columns[edge_column])
        _sort_edges(columns, n)
        for key, value in columns.items():
            value.setflags(write=False)
            object.__setattr__(self, key, value)
        object.__setattr__(self, "names", _names(names, n))
        object.__setattr__(self, "kinds", tuple(kinds))
        object.__setattr__(self, "classes", tuple(classes))
        object.__setattr__(self, "resources", tuple(resources))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "time_unit", _unit(time_unit))
        object.__setattr__(self, "metadata", dict(metadata or {}))
        _check(self)

    @property
    def num_tasks(self) -> int:
        """Number of tasks."""
        return len(self.work)

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        return len(self.sources)

    def __len__(self) -> int:
        return self.num_tasks

    def __repr__(self) -> str:
        return f"TaskGraph({self.name!r}, {self.num_tasks} tasks, {self.num_edges} edges)"

    def task(self, index: int) -> Task:
        """View of one task."""
        return Task(
            index,
            self.names[index],
            self.kinds[self.kind[index]],
            float(self.work[index]),
            int(self.slots[index]),
            float(self.memory[index]),
        )

    def tasks(self) -> Iterator[Task]:
        """Views of all tasks in index order."""
        return (self.task(i) for i in range(self.num_tasks))

    def edges(self) -> Iterator[Edge]:
        """Views of all edges, sorted by (source, target)."""
        for e in range(self.num_edges):
            yield Edge(
                self.names[self.sources[e]],
                self.names[self.targets[e]],
                float(self.data[e]),
                float(self.probability[e]),
                int(self.branch[e]),
            )

    @cached_property
    def index(self) -> dict[str, int]:
        """Task name to index."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def successor_pointer(self) -> Ints:
        """CSR row pointer over ``targets``: edges of task i are ``[p[i], p[i + 1])``."""
        return _pointer(self.sources, self.num_tasks)

    @cached_property
    def predecessor_edges(self) -> Ints32:
        """Edge indices grouped by target, then by source."""
        return _frozen(np.argsort(self.targets, kind="stable").astype(np.int32))

    @cached_property
    def predecessor_pointer(self) -> Ints:
        """CSR row pointer over ``predecessor_edges``."""
        return _pointer(self.targets, self.num_tasks)

    def successors(self, index: int) -> Ints32:
        """Indices of the direct successors of one task."""
        p = self.successor_pointer
        return self.targets[p[index] : p[index + 1]]

    def predecessors(self, index: int) -> Ints32:
        """Indices of the direct predecessors of one task."""
        p = self.predecessor_pointer
        return self.sources[self.predecessor_edges[p[index] : p[index + 1]]]

    @cached_property
    def order(self) -> Ints32:
        """A topological order of the task indices."""
        order = _topological_order(self)
        if order is None:
            raise InputError(f"the graph has a cycle: {' -> '.join(_find_cycle(self))}")
        return _frozen(order)

    @cached_property
    def is_conditional(self) -> bool:
        """Whether some edge belongs to a branch group."""
        return bool((self.branch != ALWAYS).any())

    @cached_property
    def is_elastic(self) -> bool:
        """Whether some task has a speed curve."""
        return bool((self.curve >= 0).any())

    def with_names(self, names: Sequence[str]) -> TaskGraph:
        """The same graph under other display names."""
        return self.replaced(names=tuple(names))

    def replaced(self, **changes: Any) -> TaskGraph:
        """A copy with some constructor arguments changed; everything is checked again."""
        return replace(self, **changes)


class GraphBuilder:
    """Collects tasks and edges by name; ``build()`` makes the :class:`TaskGraph`.

    >>> builder = GraphBuilder("demo")
    >>> builder.task("load", work=2.0)
    0
    >>> builder.task("train", work=8.0, kind="cnn", after={"load": 1e6})
    1
    >>> builder.build()
    TaskGraph('demo', 2 tasks, 1 edges)
    """

    def __init__(self, name: str = "graph", time_unit: str = "s") -> None:
        self.name = name
        self.time_unit = time_unit
        self._rows: list[tuple[str, float, str, int, float]] = []
        self._times: list[Mapping[str, float]] = []
        self._demands: list[Mapping[str, float]] = []
        self._edges: list[tuple[str, str, float, float, int]] = []
        self._index: dict[str, int] = {}
        self._metadata: dict[str, Any] = {}

    def task(
        self,
        name: str,
        work: float = float("nan"),
        *,
        kind: str = "task",
        times: Mapping[str, float] | None = None,
        slots: int = 1,
        memory: float = 0.0,
        demands: Mapping[str, float] | None = None,
        after: Mapping[str, float] | Sequence[str] = (),
    ) -> int:
        """Add one task and, with ``after``, its incoming edges (name -> bytes); return its index."""
        if name in self._index:
            raise InputError(f"task {name!r} is defined twice", field=f"tasks.{name}")
        self._index[name] = len(self._rows)
        self._rows.append((name, float(work), kind, slots, float(memory)))
        self._times.append(times or {})
        self._demands.append(demands or {})
        parents = after.items() if isinstance(after, Mapping) else ((p, 0.0) for p in after)
        for parent, amount in parents:
            self.edge(parent, name, data=amount)
        return self._index[name]

    def edge(
        self,
        source: str,
        target: str,
        *,
        data: float = 0.0,
        probability: float = 1.0,
        branch: int = ALWAYS,
    ) -> None:
        """Add one edge; its ends may be defined later."""
        self._edges.append((source, target, float(data), float(probability), branch))

    def build(self) -> TaskGraph:
        """Check everything and return the graph."""
        kinds = tuple(dict.fromkeys(row[2] for row in self._rows)) or ("task",)
        kind_index = {kind: i for i, kind in enumerate(kinds)}
        classes = tuple(dict.fromkeys(c for times in self._times for c in times))
        resources = tuple(dict.fromkeys(r for demand in self._demands for r in demand))
        return TaskGraph(
            np.array([row[1] for row in self._rows], dtype=np.float64),
            [self._find(source, source, target) for source, target, *_ in self._edges],
            [self._find(target, source, target) for source, target, *_ in self._edges],
            [edge[2] for edge in self._edges],
            names=tuple(row[0] for row in self._rows),
            kinds=kinds,
            kind=np.array([kind_index[row[2]] for row in self._rows], dtype=np.int32),
            classes=classes,
            times=[[times.get(c, np.nan) for c in classes] for times in self._times],
            slots=np.array([row[3] for row in self._rows], dtype=np.int64),
            memory=np.array([row[4] for row in self._rows], dtype=np.float64),
            resources=resources,
            demands=[[demand.get(r, 0.0) for r in resources] for demand in self._demands],
            probability=[edge[3] for edge in self._edges],
            branch=[edge[4] for edge in self._edges],
            name=self.name,
            time_unit=self.time_unit,
            metadata=self._metadata,
        )

    def _find(self, name: str, source: str, target: str) -> int:
        if name not in self._index:
            raise InputError(f"edge {source!r} -> {target!r} names an unknown task {name!r}", field="edges")
        return self._index[name]


def _unit(time_unit: str) -> str:
    known = tuple(SECONDS)
    if time_unit not in known:
        raise InputError(f"expected one of {', '.join(known)}, got {time_unit!r}", field="time_unit")
    return time_unit


def _frozen(array: Any) -> Any:
    array.setflags(write=False)
    return array


def _names(names: Sequence[str] | None, n: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"t{i}" for i in range(n))
    if len(names) != n:
        raise InputError(f"expected {n} task names, got {len(names)}", field="names")
    return tuple(names)


def _indices(values: npt.ArrayLike, n: int, what: str) -> Any:
    column = np.array(values, dtype=np.int64).reshape(-1)
    bad = np.flatnonzero((column < 0) | (column >= n))
    if len(bad):
        raise InputError(f"{what} {column[bad[0]]} is outside 0..{n - 1}", field=f"edges[{bad[0]}]")
    return column.astype(np.int32)


def _column(values: npt.ArrayLike, n: int, dtype: Any, what: str) -> Any:
    column = np.array(values)
    if column.ndim and column.shape != (n,):
        raise InputError(f"expected {n} values, got shape {column.shape}", field=what)
    if n and np.issubdtype(dtype, np.integer):
        if (column != np.floor(column)).any():
            raise InputError("expected whole numbers", field=what)
        if (np.abs(column) > np.iinfo(np.int32).max).any():
            raise InputError(f"expected numbers up to {np.iinfo(np.int32).max}", field=what)
    return np.full(n, column, dtype=dtype) if column.ndim == 0 else column.astype(dtype)


def _table(values: npt.ArrayLike | None, n: int, width: int, neutral: float, what: str) -> Any:
    if values is None or not width:
        return np.full((n, width), neutral)
    table = np.array(values, dtype=np.float64).reshape(-1, width) if n else np.zeros((0, width))
    if table.shape != (n, width):
        raise InputError(f"expected {n} rows of {width} values, got {table.shape}", field=what)
    return table


def _sort_edges(columns: dict[str, Any], n: int) -> None:
    key = columns["sources"].astype(np.int64) * n + columns["targets"]
    if len(key) > 1 and not (key[1:] > key[:-1]).all():
        by_key = np.argsort(key, kind="stable")
        for name in ("sources", "targets", "data", "probability", "branch"):
            columns[name] = columns[name][by_key]


def _pointer(sorted_or_not: Ints32, n: int) -> Ints:
    counts = np.bincount(sorted_or_not, minlength=n)
    pointer = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(counts, out=pointer[1:])
    result: Ints = _frozen(pointer)
    return result


def _first(mask: Any) -> int:
    return int(np.argmax(mask)) if mask.any() else -1


def _check(graph: TaskGraph) -> None:
    _check_tasks(graph)
    _check_edges(graph)
    if graph.is_conditional:
        _check_branches(graph)
    graph.order  # noqa: B018  raises on a cycle


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
    if not (graph.curves > 0).all():
        raise InputError("expected rates > 0", field="curves")
    if np.isinf(graph.curves).any():
        raise InputError("expected finite rates", field="curves")


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


def _topological_order(graph: TaskGraph) -> Any:
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


def _find_cycle(graph: TaskGraph, longest: int = 12) -> list[str]:
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
