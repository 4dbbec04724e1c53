"""Task graphs: what must be done, in which order, with how much data in between.

Columns, not objects: a graph is a set of read-only NumPy columns and CSR edges. ``Task`` and
``Edge`` are views made on access.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.model.columns import ALWAYS as ALWAYS
from weft.model.columns import Bools as Bools
from weft.model.columns import Floats as Floats
from weft.model.columns import Ints as Ints
from weft.model.columns import Ints32 as Ints32
from weft.model.columns import (
    column_of,
    frozen,
    index_column,
    known_unit,
    names_column,
    pointer_of,
    sort_edges,
    table_of,
)
from weft.model.graph_checks import check, find_cycle, topological_order


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
        Speed curves of elastic tasks: ``curves[k, u]`` is the rate with ``u + 1`` units of all resources
        together, and ``curve[i]`` names the row of task i (-1: not elastic). With two resources or more they may be
        tables: ``curves[k, u, v]`` is the rate with u of the first and v of the second; 0: too few.
    courses, switching
        How the rate of each curve changes with progress, as factors over equal parts of it (none: it
        does not), and the time that passes without progress whenever the units of a task change.
    jitter
        Half the width of a uniform draw that is added to the rate of each curve in every step of time; a rate is never below 0.
    saved
        Share of its run time per class that a task saves where it follows its only parent within one launch
        (:mod:`weft.model.launches`); 0: it cannot follow there.
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
    curves: Floats  # (num_curves, max_units), or (num_curves, most + 1 of each resource ...)
    curve: Ints32  # (num_tasks,)
    courses: Floats  # (num_curves or 0, num_parts)
    switching: Floats  # (num_curves,)
    jitter: Floats  # (num_curves,)
    saved: Floats  # (num_tasks, num_classes), or (0, 0): nothing is
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
        courses: npt.ArrayLike | None = None,
        switching: npt.ArrayLike = 0.0,
        jitter: npt.ArrayLike = 0.0,
        saved: npt.ArrayLike | None = None,
        name: str = "graph",
        time_unit: str = "s",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        work_column = np.atleast_1d(np.array(work, dtype=np.float64))
        n = len(work_column)
        source_column = index_column(sources, n, "edge source")
        target_column = index_column(targets, n, "edge target")
        m = len(source_column)
        if len(target_column) != m:
            raise InputError(f"expected as many edge targets as sources, got {len(target_column)} and {m}")
        columns = {
            "work": work_column,
            "sources": source_column,
            "targets": target_column,
            "data": column_of(data, m, np.float64, "data"),
            "kind": column_of(kind, n, np.int32, "kind"),
            "times": table_of(times, n, len(classes), np.nan, "times"),
            "slots": column_of(slots, n, np.int64, "slots"),
            "memory": column_of(memory, n, np.float64, "memory"),
            "demands": table_of(demands, n, len(resources), 0.0, "demands"),
            "probability": column_of(probability, m, np.float64, "probability"),
            "branch": column_of(branch, m, np.int32, "branch"),
            "curves": np.zeros((0, 0)) if curves is None else np.array(curves, dtype=np.float64),
            "curve": column_of(curve, n, np.int32, "curve"),
            "courses": np.zeros((0, 0)) if courses is None else np.array(courses, dtype=np.float64),
            "saved": np.zeros((0, 0)),
        }
        if saved is not None and np.any(saved):
            columns["saved"] = table_of(saved, n, len(classes), 0.0, "saved")
        for key, given in (("switching", switching), ("jitter", jitter)):
            per_curve = given if np.size(given) else 0.0  # a graph that had no curves is given some
            columns[key] = column_of(per_curve, len(columns["curves"]), np.float64, key)
        sort_edges(columns, n)
        for key, value in columns.items():
            value.setflags(write=False)
            object.__setattr__(self, key, value)
        object.__setattr__(self, "names", names_column(names, n))
        object.__setattr__(self, "kinds", tuple(kinds))
        object.__setattr__(self, "classes", tuple(classes))
        object.__setattr__(self, "resources", tuple(resources))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "time_unit", known_unit(time_unit))
        object.__setattr__(self, "metadata", dict(metadata or {}))
        check(self)

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
        return pointer_of(self.sources, self.num_tasks)

    @cached_property
    def predecessor_edges(self) -> Ints32:
        """Edge indices grouped by target, then by source."""
        return frozen(np.argsort(self.targets, kind="stable").astype(np.int32))

    @cached_property
    def predecessor_pointer(self) -> Ints:
        """CSR row pointer over ``predecessor_edges``."""
        return pointer_of(self.targets, self.num_tasks)

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
        order = topological_order(self)
        if order is None:
            raise InputError(f"the graph has a cycle: {' -> '.join(find_cycle(self))}")
        return frozen(order)

    @cached_property
    def is_conditional(self) -> bool:
        """Whether some edge belongs to a branch group."""
        return bool((self.branch != ALWAYS).any())

    @cached_property
    def is_elastic(self) -> bool:
        """Whether some task has a speed curve."""
        return bool((self.curve >= 0).any())

    @cached_property
    def best_rates(self) -> Floats:
        """The rate of each curve with its best units and draws, on average over the course of a task; (num_curves,)."""
        best = self.curves.reshape(len(self.curves), -1).max(axis=1, initial=0.0) + self.jitter
        return np.asarray(best / self.course_lengths)

    @cached_property
    def course_lengths(self) -> Floats:
        """How much longer a task takes than at a constant rate of its curve; (num_curves,)."""
        return (
            np.asarray((1.0 / self.courses).mean(axis=1)) if self.courses.size else np.ones(len(self.curves))
        )

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
