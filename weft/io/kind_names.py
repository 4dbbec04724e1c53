"""Kinds that a cluster's ``times`` and ``speeds`` name and no task has: most often misspelt, and then ignored.

The rule: the tasks are those of all problems that are read together, and built-in clusters, which
serve every workflow, are left alone. A name is taken for a misspelling if it is close to a kind
that the same class does not name.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from weft.errors import UnknownKindWarning
from weft.io.clusters import builtin_cluster, is_builtin
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Problem

CLOSE = 0.8
"""Least likeness, from 0 to 1, of a misspelt name and the right one."""
MOST_NAMED = 5
"""Kinds a warning spells out beside the misspelt ones."""


@dataclass(frozen=True)
class UnknownKind:
    """A kind of a cluster that no task has."""

    kind: str
    classes: tuple[str, ...]
    """The device classes that name it."""
    meant: str | None
    """The kind of a task it is close to; None: none."""

    def __str__(self) -> str:
        where = f"of class {', '.join(self.classes)}"
        return (
            repr(self.kind) if self.meant is None else f"{self.kind!r} {where} (did you mean {self.meant!r}?)"
        )


def unknown_kinds(cluster: Cluster, graphs: Iterable[TaskGraph]) -> tuple[UnknownKind, ...]:
    """What a cluster names and no task of these graphs has, the misspelt ones first; of a built-in one nothing."""
    named = {one.name: {*one.times, *one.speeds} for one in cluster.classes}
    if not any(named.values()) or _is_builtin(cluster):
        return ()
    known = {graph.kinds[k] for graph in graphs for k in np.unique(graph.kind).tolist()}
    found = []
    for kind in dict.fromkeys(k for one in cluster.classes for k in (*one.times, *one.speeds)):
        if kind not in known:
            classes = tuple(name for name, kinds in named.items() if kind in kinds)
            found.append(UnknownKind(kind, classes, _meant(kind, known - named[classes[0]])))
    return tuple(sorted(found, key=lambda one: one.meant is None))


def warn_unknown_kinds(problems: Sequence[Problem], stacklevel: int = 3) -> None:
    """One warning per cluster that names kinds which no task of all the problems has."""
    graphs = {id(job.graph): job.graph for problem in problems for job in problem.jobs}
    said: list[tuple[DeviceClass, ...]] = []
    for cluster in (problem.cluster for problem in problems):
        if cluster.classes not in said:
            said.append(cluster.classes)
            warn_of(cluster, unknown_kinds(cluster, graphs.values()), stacklevel + 1)


def warn_of(cluster: Cluster, found: Sequence[UnknownKind], stacklevel: int) -> None:
    """Warn of these kinds of a cluster, if there are any."""
    if found:
        warnings.warn(warning_text(cluster, found), UnknownKindWarning, stacklevel=stacklevel)


def warning_text(cluster: Cluster, found: Sequence[UnknownKind]) -> str:
    """One line: all misspelt kinds, and a few of the others."""
    count = sum(one.meant is not None for one in found)
    shown = found[: max(count, MOST_NAMED)]
    more = f" and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
    kinds = "a kind" if len(found) == 1 else f"{len(found)} kinds"
    return f"cluster {cluster.name} names {kinds} that no task has: {', '.join(map(str, shown))}{more}"


def _meant(kind: str, candidates: Collection[str]) -> str | None:
    lower = {candidate.lower(): candidate for candidate in sorted(candidates)}
    close = difflib.get_close_matches(kind.lower(), list(lower), 1, CLOSE)
    return lower[close[0]] if close else None


def _is_builtin(cluster: Cluster) -> bool:
    return is_builtin(cluster.name) and builtin_cluster(cluster.name).classes == cluster.classes
