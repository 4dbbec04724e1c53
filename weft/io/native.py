"""weft's own graph documents, ``weft/graph/1``: every column of the model as rows of a JSON or TOML file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from weft.errors import InputError
from weft.io.columns import (
    Row,
    codes,
    name_index,
    numbers,
    quantities,
    refuse_unknown,
    rows_of,
    sizes,
    texts,
    unknown_key,
    whole_numbers,
)
from weft.io.sources import shown
from weft.io.units import parse_time
from weft.model.columns import known_unit
from weft.model.graph import ALWAYS, Floats, TaskGraph

SCHEMA = "weft/graph/1"
NEVER = "never"
"""Run time on a class where a task cannot run."""
COMMANDS = "commands"
"""Entry of a graph's metadata: what tasks run, by name; nothing runs it unless a person allows that."""
_TOP_KEYS = (
    "schema",
    "name",
    "time_unit",
    "metadata",
    "curves",
    "courses",
    "switching",
    "jitter",
    "tasks",
    "edges",
)
_TASK_KEYS = (
    "name",
    "work",
    "kind",
    "times",
    "slots",
    "memory",
    "demands",
    "curve",
    "saved",
    "after",
    "command",
)
_EDGE_KEYS = ("source", "target", "data", "probability", "branch")


def graph_from_document(document: Row, name: str = "graph") -> TaskGraph:
    """A graph from its document: ``tasks`` rows, ``edges`` rows, or ``after`` inside the tasks."""
    _check_top(document)
    tasks = rows_of(document, "tasks")
    if not tasks:
        raise InputError("no tasks", field="tasks")
    refuse_unknown(tasks, _TASK_KEYS, "tasks")
    names = texts([row.get("name") for row in tasks], "tasks", "name")
    index = name_index(names, "tasks", "name")
    kinds, kind = codes(texts([row.get("kind", "task") for row in tasks], "tasks", "kind"))
    time_unit = known_unit(document.get("time_unit", "s"))
    parse = partial(parse_time, unit=time_unit)
    classes, times = _map_columns(tasks, "times", np.nan, parse)
    resources, demands = _map_columns(tasks, "demands", 0.0)
    saved = _saved(tasks, classes)
    edges = _edge_columns(document, tasks, index)
    return TaskGraph(
        _work(tasks, parse),
        **edges,
        names=names,
        kinds=kinds,
        kind=kind,
        classes=classes,
        times=times,
        slots=whole_numbers([row.get("slots", 1) for row in tasks], "tasks", "slots", low=1),
        memory=sizes([row.get("memory", 0) for row in tasks], "tasks", "memory"),
        resources=resources,
        demands=demands,
        curves=_curves(document),
        courses=_rows_of_numbers(document, "courses"),
        switching=_per_curve(document, "switching"),
        jitter=_per_curve(document, "jitter"),
        curve=whole_numbers([row.get("curve", -1) for row in tasks], "tasks", "curve", low=-1),
        saved=saved,
        name=document.get("name", name),
        time_unit=time_unit,
        metadata=document.get("metadata", {}) | _commands(tasks),
    )


def _commands(tasks: Sequence[Row]) -> dict[str, Any]:
    """The entry of the metadata with a line for the shell, or a program and its arguments, for tasks that have one."""
    commands: dict[str, str | list[str]] = {}
    for i, row in enumerate(tasks):
        if "command" not in row:
            continue
        given = row["command"]
        words = [given] if isinstance(given, str) else given
        is_known = isinstance(words, list) and all(isinstance(word, str) for word in words)
        if not is_known or not words or not words[0].strip():
            raise InputError(
                f"expected a line or a list of a program and its arguments, got {shown(given)}",
                field=f"tasks[{i}].command",
            )
        commands[row["name"]] = given
    return {COMMANDS: commands} if commands else {}


def _check_top(document: Row) -> None:
    for key in document:
        if key not in _TOP_KEYS:
            raise InputError(unknown_key(key, _TOP_KEYS), field=key)
    if document.get("schema", SCHEMA) != SCHEMA:
        raise InputError(f"expected {SCHEMA!r}, got {shown(document['schema'])}", field="schema")
    for key in ("name", "time_unit"):
        if not isinstance(document.get(key, "text"), str) or not document.get(key, "text"):
            raise InputError(f"expected a text, got {shown(document[key])}", field=key)
    if not isinstance(document.get("metadata", {}), dict):
        raise InputError(f"expected an object, got {shown(document['metadata'])}", field="metadata")


def _work(tasks: Sequence[Row], parse: Callable[[object], float]) -> Floats:
    """Run time at speed 1; NaN where a task only has times."""
    given = [row.get("work", 0.0 if "times" in row else None) for row in tasks]
    column = quantities(given, "tasks", "work", parse)
    column[["work" not in row for row in tasks]] = np.nan
    return column


def _map_columns(
    tasks: Sequence[Row], key: str, neutral: float, parse: Callable[[object], float] | None = None
) -> tuple[tuple[str, ...], Floats | None]:
    """A table from objects inside the rows: the keys met, in order, and a column for each.

    With ``parse``, values are times: texts with a unit, or never.
    """
    cells: dict[str, tuple[list[int], list[object]]] = {}
    for i, row in enumerate(tasks):
        entry = row.get(key, {})
        if not isinstance(entry, dict):
            raise InputError(f"expected an object, got {shown(entry)}", field=f"tasks[{i}].{key}")
        for name, value in entry.items():
            rows, values = cells.setdefault(name, ([], []))
            rows.append(i)
            values.append(value)
    if not cells:
        return (), None
    table = np.full((len(tasks), len(cells)), neutral)
    for c, (name, (rows, values)) in enumerate(cells.items()):
        is_never = np.array([parse is not None and value == NEVER for value in values])
        finite = [0.0 if never else v for v, never in zip(values, is_never.tolist(), strict=True)]
        field = f"{key}.{name}"
        column = (
            numbers(finite, "tasks", field, rows=rows)
            if parse is None
            else quantities(finite, "tasks", field, parse, rows=rows)
        )
        table[rows, c] = np.where(is_never, np.inf, column)
    return tuple(cells), table


def _saved(tasks: Sequence[Row], classes: Sequence[str]) -> Floats | None:
    """Shares saved within a launch, of the classes that run times name."""
    names, found = _map_columns(tasks, "saved", 0.0)
    if found is None:
        return None
    for name in names:
        if name not in classes:
            i = next(i for i, row in enumerate(tasks) if name in row.get("saved", {}))
            raise InputError(
                f"expected a class that some task has times for, got {shown(name)}", field=f"tasks[{i}].saved"
            )
    table = np.zeros((len(tasks), len(classes)))
    table[:, [classes.index(name) for name in names]] = found
    return table


def _curves(document: Row) -> Floats | None:
    curves = document.get("curves")
    if curves is None or curves == []:
        return None
    if isinstance(curves, list) and any(
        isinstance(row, list) and row and isinstance(row[0], list) for row in curves
    ):
        return np.array([_table(row, f"curves[{k}]") for k, row in enumerate(_alike(curves, "curves"))])
    return _rows_of_numbers(document, "curves")


def _rows_of_numbers(document: Row, key: str) -> Floats | None:
    rows = document.get(key)
    if rows is None or rows == []:
        return None
    if not isinstance(rows, list) or not all(isinstance(row, list) and row for row in rows):
        raise InputError("expected a list of lists of rates", field=key)
    return np.array([numbers(row, f"{key}[{k}]", "rate") for k, row in enumerate(_alike(rows, key))])


def _per_curve(document: Row, key: str) -> Floats | float:
    if key not in document:
        return 0.0
    if not isinstance(document[key], list):
        raise InputError(f"expected a list, one number for each curve, got {shown(document[key])}", field=key)
    return numbers(document[key], key, "value")


def _alike(rows: list[Any], key: str) -> list[Any]:
    """The rows, if they are of one length."""
    if len({len(row) if isinstance(row, list) else -1 for row in rows}) > 1:
        raise InputError("expected curves of one length", field=key)
    return rows


def _table(values: list[Any], field: str, depth: int = 0) -> Floats:
    """A table of rates, nested to a depth of its resources."""
    if not isinstance(values, list) or not values or depth > 8:
        raise InputError("expected tables of rates", field=field)
    if not isinstance(values[0], list):
        return np.asarray(numbers(values, field, "rate"))
    return np.array([_table(row, f"{field}[{k}]", depth + 1) for k, row in enumerate(_alike(values, field))])


def _edge_columns(document: Row, tasks: Sequence[Row], index: dict[str, int]) -> dict[str, Any]:
    """The ``edges`` rows, then those of ``after`` inside the tasks."""
    edges = rows_of(document, "edges", required=False)
    refuse_unknown(edges, _EDGE_KEYS, "edges")
    sources, targets, data = _after_columns(tasks, index)
    probability = numbers([row.get("probability", 1) for row in edges], "edges", "probability")
    branch = whole_numbers([row.get("branch", ALWAYS) for row in edges], "edges", "branch", low=ALWAYS)
    return {
        "sources": _known([row.get("source") for row in edges], index, "edges", "source") + sources,
        "targets": _known([row.get("target") for row in edges], index, "edges", "target") + targets,
        "data": np.append(sizes([row.get("data", 0) for row in edges], "edges", "data"), data),
        "probability": np.append(probability, np.ones(len(sources))),
        "branch": np.append(branch, np.full(len(sources), ALWAYS)),
    }


def _after_columns(tasks: Sequence[Row], index: dict[str, int]) -> tuple[list[int], list[int], Floats]:
    """Sources, targets and bytes of the edges that ``after`` gives: names, or names with bytes."""
    targets: list[int] = []
    parents: list[object] = []
    data: list[object] = []
    for i, row in enumerate(tasks):
        after = row.get("after", [])
        if not isinstance(after, dict | list):
            raise InputError(f"expected task names, got {shown(after)}", field=f"tasks[{i}].after")
        targets += [i] * len(after)
        parents += after
        data += after.values() if isinstance(after, dict) else [0] * len(after)
    sources = _known(parents, index, "tasks", "after", targets)
    return sources, targets, sizes(data, "tasks", "after", rows=targets)


def _known(
    values: Sequence[object], index: dict[str, int], where: str, key: str, rows: Sequence[int] | None = None
) -> list[int]:
    """The tasks of these names."""
    found = [index.get(name, -1) for name in texts(values, where, key, rows=rows)]
    if -1 in found:
        at = found.index(-1)
        row = at if rows is None else rows[at]
        raise InputError(f"names an unknown task {shown(values[at])}", field=f"{where}[{row}].{key}")
    return found


def graph_document(graph: TaskGraph) -> dict[str, Any]:
    """The document of a graph; columns at their neutral value are left out."""
    document: dict[str, Any] = {"schema": SCHEMA, "name": graph.name, "time_unit": graph.time_unit}
    metadata = {k: v for k, v in graph.metadata.items() if isinstance(v, str | int | float | bool)}
    if metadata:
        document["metadata"] = metadata
    if len(graph.curves):
        document["curves"] = graph.curves.tolist()
    if graph.courses.size:
        document["courses"] = graph.courses.tolist()
    for key, per_curve in (("switching", graph.switching), ("jitter", graph.jitter)):
        if per_curve.any():
            document[key] = per_curve.tolist()
    document["tasks"] = _task_rows(graph)
    document["edges"] = _edge_rows(graph)
    return document


def _task_rows(graph: TaskGraph) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{"name": name} for name in graph.names]
    for i in np.flatnonzero(~np.isnan(graph.work)).tolist():
        rows[i]["work"] = float(graph.work[i])
    if graph.kinds != ("task",):
        for row, k in zip(rows, graph.kind.tolist(), strict=True):
            row["kind"] = graph.kinds[k]
    for key, column, neutral in (
        ("slots", graph.slots, 1),
        ("memory", graph.memory, 0),
        ("curve", graph.curve, -1),
    ):
        for i in np.flatnonzero(column != neutral).tolist():
            rows[i][key] = column[i].item()
    for i, c in np.argwhere(~np.isnan(graph.times)).tolist():
        value = float(graph.times[i, c])
        rows[i].setdefault("times", {})[graph.classes[c]] = NEVER if np.isinf(value) else value
    for i, r in np.argwhere(graph.demands != 0).tolist():
        rows[i].setdefault("demands", {})[graph.resources[r]] = float(graph.demands[i, r])
    for i, c in np.argwhere(graph.saved != 0).tolist():
        rows[i].setdefault("saved", {})[graph.classes[c]] = float(graph.saved[i, c])
    commands: dict[str, Any] = graph.metadata.get(COMMANDS) or {}
    for row in rows:
        if row["name"] in commands:
            row["command"] = commands[row["name"]]
    return rows


def _edge_rows(graph: TaskGraph) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"source": graph.names[s], "target": graph.names[t]}
        for s, t in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)
    ]
    for key, column, neutral in (
        ("data", graph.data, 0),
        ("probability", graph.probability, 1),
        ("branch", graph.branch, ALWAYS),
    ):
        for e in np.flatnonzero(column != neutral).tolist():
            rows[e][key] = column[e].item()
    return rows
