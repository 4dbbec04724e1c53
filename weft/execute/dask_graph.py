"""Graphs of Dask as weft's task graphs: one task per key, kinds by the prefix of the key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from weft.execute.work import Call, Result, Work
from weft.io.profiles import Profile
from weft.model.graph import TaskGraph

UNKNOWN_SECONDS = 1.0
"""What a task takes as long as nothing was seen at all."""
DATA = "data"
"""Kind of keys that only hold a value or stand for another key."""

Key = Any
"""A text, or a tuple of texts and numbers."""


@dataclass(frozen=True, eq=False)
class DaskGraph:
    """What Dask would run for some keys."""

    nodes: Mapping[Key, Any]
    """Parents before children."""
    annotations: Mapping[str, Mapping[Key, Any]]
    """Those of the user: what -> key -> value."""

    @cached_property
    def keys(self) -> list[Key]:
        """In the order of the tasks of ``task_graph``."""
        return list(self.nodes)

    @cached_property
    def names(self) -> list[str]:
        """Names of the tasks."""
        names = [str(key) for key in self.keys]
        if len(set(names)) == len(names):
            return names
        return [f"{name} #{i}" for i, name in enumerate(names)]

    @cached_property
    def kinds(self) -> list[str]:
        """Kind of every task."""
        from dask.utils import key_split

        return [DATA if self.is_data(node) else str(key_split(key)) for key, node in self.nodes.items()]

    @staticmethod
    def is_data(node: Any) -> bool:
        """Whether a node computes nothing."""
        from dask.task_spec import Alias, DataNode

        return isinstance(node, Alias | DataNode)

    def has_outside(self) -> bool:
        """Whether it needs what is on the cluster already: futures, persisted collections."""
        return any(parent not in self.nodes for node in self.nodes.values() for parent in node.dependencies)

    def task_graph(self, profile: Profile | None, classes: Sequence[str]) -> TaskGraph:
        """As weft plans it; all tasks alike but for the sizes that were seen."""
        kinds = list(dict.fromkeys(self.kinds))
        index = {key: i for i, key in enumerate(self.keys)}
        number = {kind: i for i, kind in enumerate(kinds)}
        kind = np.array([number[one] for one in self.kinds], dtype=np.int32)
        pairs = [
            (index[parent], i)
            for i, node in enumerate(self.nodes.values())
            for parent in node.dependencies
            if parent in index
        ]
        edges = np.array(pairs, dtype=np.int32).reshape(-1, 2)
        sizes = _sizes(kinds, profile, classes)
        resources, demands = self._demands()
        return TaskGraph(
            np.array([0.0 if one == DATA else UNKNOWN_SECONDS for one in self.kinds]),
            edges[:, 0],
            edges[:, 1],
            sizes[kind[edges[:, 0]]],
            names=self.names,
            kinds=kinds,
            kind=kind,
            resources=resources,
            demands=demands,
            name="dask",
        )

    def _demands(self) -> tuple[list[str], Any]:
        asked = self.annotations.get("resources", {})
        resources = sorted({name for one in asked.values() for name in one})
        if not resources:
            return [], None
        rows = [[float(asked.get(key, {}).get(name, 0.0)) for name in resources] for key in self.keys]
        return resources, np.array(rows)


class NodeWork:
    """What the tasks of a graph of Dask do, one by one."""

    def __init__(self, graph: DaskGraph) -> None:
        self._nodes = dict(zip(graph.names, graph.nodes.values(), strict=True))
        self._names = dict(zip(graph.keys, graph.names, strict=True))

    def work(self, job: str | int, task: str) -> Work:
        """What this task does."""
        node = self._nodes[task]
        return Call(run_node, (node, {key: Result(self._names[key]) for key in node.dependencies}))


def run_node(node: Callable[[dict[Key, Any]], Any], values: dict[Key, Any]) -> Any:
    """Compute one key from those it needs."""
    return node(values)


def graph_of(given: Any, keys: Any) -> DaskGraph:
    """What Dask would run to get these keys, in an order in which it could."""
    from dask._task_spec import convert_legacy_graph
    from dask.core import flatten

    is_expression = hasattr(given, "__dask_annotations__")
    annotations = given.__dask_annotations__() if is_expression else {}
    low_level = given.__dask_graph__() if hasattr(given, "__dask_graph__") else given
    nodes = convert_legacy_graph(dict(low_level))
    found: dict[Key, Any] = {}
    ahead = [(key, False) for key in flatten([keys])]
    while ahead:
        key, is_ready = ahead.pop()
        if key in found or key not in nodes:
            continue
        if is_ready:
            found[key] = nodes[key]
        else:
            ahead.append((key, True))
            ahead += [(parent, False) for parent in nodes[key].dependencies]
    return DaskGraph(found, annotations)


def _sizes(kinds: Sequence[str], profile: Profile | None, classes: Sequence[str]) -> Any:
    """Bytes of the results of every kind, (num_kinds,): as seen, or the mean of what was seen."""
    sizes = np.full(len(kinds), np.nan)
    for i, kind in enumerate(kinds):
        seen = [profile.time(kind, name) for name in classes] if profile is not None else []
        means = [one.size.mean for one in seen if one is not None and one.size is not None]
        if means:
            sizes[i] = float(np.mean(means))
    return np.nan_to_num(sizes, nan=float(np.nanmean(sizes)) if np.isfinite(sizes).any() else 0.0)
