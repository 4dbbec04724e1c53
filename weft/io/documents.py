"""What a parsed JSON or TOML document is, recognised by its keys, and the model it becomes."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.io import clusters, native, problems, wfformat
from weft.io.formats import Loaded
from weft.io.sources import located, named_in, shown
from weft.model.cluster import Cluster
from weft.model.graph import TaskGraph

SCHEDULE_SCHEMA = "weft/schedule/1"
_WHOLE = {"wfformat": "workflow", native.SCHEMA: "edges"}
"""Field of errors that concern a graph as a whole, such as a cycle."""

_TOLD_BY = (
    ("workflow", "wfformat"),
    ("schemaVersion", "wfformat"),
    ("jobs", problems.SCHEMA),
    ("tasks", native.SCHEMA),
    ("node", clusters.SCHEMA),
    ("device", clusters.SCHEMA),
    ("placements", SCHEDULE_SCHEMA),
)
"""Key -> the kind of document that has it, in the order in which they are looked for."""


def load(document: dict[str, Any], path: Path | None, *, follow: bool = True) -> Loaded:
    """The graph, cluster or problem in a document.

    ``follow``: whether a problem may name other files; never for documents from outside.
    """
    kind = _kind(document)
    name = path.stem if path is not None else "document"
    with located(path, _WHOLE.get(kind)):
        if kind == "wfformat":
            graph = wfformat.graph_from_document(document, name)
            return Loaded(graph=graph, cluster=wfformat.cluster_from_document(document))
        if kind == native.SCHEMA:
            return Loaded(graph=native.graph_from_document(document, name))
        if kind == clusters.SCHEMA:
            return Loaded(cluster=clusters.cluster_from_document(document, name))
        if kind == problems.SCHEMA:
            references = _references(path) if follow and path is not None else None
            posed = problems.posed_from_document(document, references, name)
            if "cluster" not in document:
                return Loaded(posed=posed)
            return Loaded(problem=posed.on(problems.cluster_of(document, references)))
        raise InputError(_unexpected(document, kind), field="schema")


def _kind(document: dict[str, Any]) -> str:
    """The schema a document names, or the one its keys tell."""
    schema = document.get("schema")
    if schema is not None:
        return str(schema)
    for key, kind in _TOLD_BY:
        if key in document:
            return kind
    return ""


def _unexpected(document: dict[str, Any], kind: str) -> str:
    known = ", ".join((native.SCHEMA, clusters.SCHEMA, problems.SCHEMA))
    if kind == SCHEDULE_SCHEMA:
        return "expected a graph, cluster or problem, got a schedule"
    if kind:
        return f"expected one of {known}, got {shown(kind)}"
    keys = ", ".join(shown(key) for key in list(document)[:5]) or "nothing"
    return f"expected a WfFormat workflow, or schema = one of {known}; got the keys {keys}{_hint(document)}"


def _hint(document: dict[str, Any]) -> str:
    """The key by which a document is recognised that one of its keys comes close to."""
    for key in list(document)[:20]:
        close = difflib.get_close_matches(str(key)[:40], [name for name, _ in _TOLD_BY], 1)
        if close:
            return f"; did you mean {close[0]!r} by {shown(key)}?"
    return ""


def _references(path: Path) -> problems.References:
    """Files are named relative to the problem file; what is wrong in them says who named them."""
    from weft.io import files

    def graph(name: str, field: str) -> TaskGraph:
        with named_in(path, field):
            return files.read_graph(path.parent / name)

    def cluster(name: str, field: str) -> Cluster:
        is_name = clusters.is_builtin(name) or not (Path(name).suffix or (path.parent / name).exists())
        with named_in(path, field):
            return clusters.builtin_cluster(name) if is_name else files.read_cluster(path.parent / name)

    return problems.References(graph, cluster)
