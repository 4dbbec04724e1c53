"""Reading and writing by content: the functions a user calls. Formats live in modules of their own."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from weft.errors import InputError, expect
from weft.io import clusters, dot, native, problems, stg, wfformat
from weft.io.clusters import builtin_clusters as builtin_clusters
from weft.io.formats import Loaded, OwnFormat, find_format, own_formats
from weft.io.json_files import dump_json
from weft.io.kind_names import warn_unknown_kinds
from weft.io.schedules import is_schedule as is_schedule
from weft.io.schedules import read_schedule as read_schedule
from weft.io.schedules import schedule_document as schedule_document
from weft.io.schedules import write_schedule as write_schedule
from weft.io.sources import located, read_bytes, shown, without_collection, write_bytes
from weft.io.toml_files import dump_toml
from weft.model.cluster import Cluster
from weft.model.graph import ALWAYS, TaskGraph
from weft.model.problem import Objective, Problem

_LOG = logging.getLogger(__name__)

GRAPH_FORMATS = {
    "wfformat": (".wf.json", ".wfformat.json"),
    "json": (".json",),
    "toml": (".toml",),
    "dot": (".dot", ".gv"),
    "stg": (".stg",),
}
"""What :func:`write_graph` writes, with the suffixes that choose it."""

_HELD = {
    "wfformat": ("kind", "memory", "data", "cores"),
    "dot": ("kind", "memory", "data", "slots", "branch"),
    "stg": (),
}


def load(path: str | Path, *, limit_bytes: int | None = None) -> Loaded:
    """Everything a file holds, whatever its format."""
    expect(path, (str, Path), "the name of a file", "path")
    path = Path(path)
    with located(path), without_collection():
        data = read_bytes(path, limit_bytes)
        found = find_format(data, path)
        _LOG.info("%s: %d bytes of %s", path, len(data), found.name)
        return found.reader.read(data, path)


def read_graph(path: str | Path, *, limit_bytes: int | None = None) -> TaskGraph:
    """The task graph of a workflow file (or of a problem file with one job)."""
    loaded = load(path, limit_bytes=limit_bytes)
    if loaded.graph is not None:
        return loaded.graph
    found = loaded.problem or loaded.posed
    if found is None:
        raise InputError("expected a task graph, got a cluster", file=str(path))
    if len(found.jobs) != 1:
        raise InputError(
            f"expected a problem with one job, got {len(found.jobs)}", file=str(path), field="jobs"
        )
    return found.jobs[0].graph


def read_cluster(name: str | Path) -> Cluster:
    """A built-in cluster by name, or the cluster of a file (``./name`` for a file called like a built-in)."""
    expect(name, (str, Path), "the name of a cluster or of a file", "cluster")
    text = str(name)
    is_name = isinstance(name, str) and not Path(name).suffix and os.sep not in name
    if is_name and (clusters.is_builtin(text) or not Path(name).exists()):
        with located(None):
            return clusters.builtin_cluster(text)
    loaded = load(name)
    found = loaded.problem.cluster if loaded.problem is not None else loaded.cluster
    if found is None:
        raise InputError("expected a cluster, got a graph without machines", file=text, field="device")
    return found


def read_problem(
    path: str | Path,
    cluster: str | Path | Cluster | None = None,
    *,
    ccr: float | None = None,
    noise: float = 0.0,
    copies: bool = True,
    limit_bytes: int | None = None,
) -> Problem:
    """A problem from a problem file, or from a graph file and a cluster.

    Parameters
    ----------
    cluster
        A built-in name, a cluster file or a cluster. None: the machines in the file itself.
    ccr
        Links are slowed or sped up to this ratio of communication to computation.
    noise
        Coefficient of variation of the run times; 0 keeps what a problem file says.
    copies
        Whether tasks may run more than once; False overrides a problem file.

    Warns (``UnknownKindWarning``) where the cluster names kinds that no task has.
    """
    problem = load_problem(path, cluster, ccr=ccr, noise=noise, copies=copies, limit_bytes=limit_bytes)
    warn_unknown_kinds([problem])
    return problem


def load_problem(
    path: str | Path,
    cluster: str | Path | Cluster | None = None,
    *,
    ccr: float | None = None,
    noise: float = 0.0,
    copies: bool = True,
    limit_bytes: int | None = None,
) -> Problem:
    """The same without a warning, for one file of several that share a cluster."""
    loaded = load(path, limit_bytes=limit_bytes)
    machines = cluster if cluster is None or isinstance(cluster, Cluster) else read_cluster(cluster)
    with located(path):
        problem = _joined(loaded, machines, path)
        if noise:
            problem = problem.replaced(noise=noise)
        if not copies:
            problem = problem.replaced(objective=replace(problem.objective, copies=False))
        return problem if ccr is None else problem.with_ccr(ccr)


def _joined(loaded: Loaded, machines: Cluster | None, path: str | Path) -> Problem:
    if loaded.problem is not None:
        return loaded.problem if machines is None else loaded.problem.replaced(cluster=machines)
    if loaded.graph is None and loaded.posed is None:
        raise InputError("expected a workflow or a problem, got a cluster", file=str(path))
    machines = machines or loaded.cluster
    if machines is None:
        names = ", ".join(builtin_clusters())
        raise InputError(
            f"the file names no machines: give a cluster file or a built-in cluster ({names})",
            field="cluster",
        )
    if loaded.posed is not None:
        return loaded.posed.on(machines)
    assert loaded.graph is not None
    return Problem(loaded.graph, machines, Objective())


def write_graph(graph: TaskGraph, path: str | Path, format: str | None = None) -> tuple[str, ...]:
    """Write a graph and return the names of what the format could not hold.

    ``format`` is one of ``GRAPH_FORMATS`` or the name of another's format; None: by suffix. A format that cannot hold branches
    refuses a conditional graph, for without them it is another graph.
    """
    own = _own_writer(path, format)
    if own is not None:
        with located(path):
            write_bytes(own.dump(graph), path)
        return ()
    chosen = format or _format_by_suffix(path)
    if chosen not in GRAPH_FORMATS:
        raise InputError(
            f"expected one of {', '.join(GRAPH_FORMATS)}, got {shown(chosen)}", file=str(path), field="format"
        )
    lost = lost_columns(graph, chosen)
    with located(path):
        if "branch" in lost:
            raise InputError(
                f"{chosen} cannot hold conditional branches: write json, toml or dot", field="edges"
            )
        write_bytes(_graph_bytes(graph, chosen), path)
    return lost


def _own_writer(path: str | Path, format: str | None) -> OwnFormat | None:
    """The format that is not weft's to write with, by name or suffix; None: one of weft's."""
    name = Path(path).name.lower()
    known = tuple(suffix for suffixes in GRAPH_FORMATS.values() for suffix in suffixes)
    if format in GRAPH_FORMATS or (format is None and name.endswith(known)):
        return None
    for form in own_formats():
        if form.can_write and (form.name == format if format else name.endswith(form.suffixes or ("/",))):
            return form
    return None


def _format_by_suffix(path: str | Path) -> str:
    name = Path(path).name.lower()
    for form, suffixes in GRAPH_FORMATS.items():
        if name.endswith(suffixes):
            return form
    expected = ", ".join(suffix for suffixes in GRAPH_FORMATS.values() for suffix in suffixes)
    raise InputError(f"expected a name ending in {expected}, or a format", file=str(path), field="format")


def _graph_bytes(graph: TaskGraph, form: str) -> bytes:
    if form == "wfformat":
        return dump_json(wfformat.graph_document(graph))
    if form == "dot":
        return dot.dump(graph)
    if form == "stg":
        return stg.dump(graph)
    document = native.graph_document(graph)
    return dump_toml(document) if form == "toml" else dump_json(document)


def lost_columns(graph: TaskGraph, form: str) -> tuple[str, ...]:
    """What a graph has and a format cannot hold, e.g. ``("data", "kind")`` for STG."""
    if form not in _HELD:
        return ()
    used = {
        "kind": graph.kinds != ("task",),
        "memory": bool((graph.memory > 0).any()),
        "data": bool((graph.data > 0).any()),
        "slots": bool((graph.slots != 1).any()),
        "branch": bool((graph.branch != ALWAYS).any()),
        "curve": graph.is_elastic,
        "saved": bool(graph.saved.size),
        "times": bool((~np.isnan(graph.times)).any()),
        "cores": wfformat.CORES in graph.resources,
        "resources": any(name != wfformat.CORES for name in graph.resources),
    }
    return tuple(name for name, is_used in used.items() if is_used and name not in _HELD[form])


def write_cluster(cluster: Cluster, path: str | Path) -> None:
    """Write a cluster as TOML, or as JSON where the suffix says so."""
    with located(path):
        document = clusters.cluster_document(cluster)
        write_bytes(dump_json(document) if _is_json(path) else dump_toml(document), path)


def write_problem(problem: Problem, path: str | Path) -> None:
    """Write a problem with everything inline, as JSON, or as TOML where the suffix says so."""
    with located(path):
        document = problems.problem_document(problem)
        is_toml = Path(path).suffix.lower() == ".toml"
        write_bytes(dump_toml(document) if is_toml else dump_json(document), path)


def _is_json(path: str | Path) -> bool:
    return Path(path).suffix.lower() == ".json"
