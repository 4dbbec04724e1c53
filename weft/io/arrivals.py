"""Files of arrivals: which workflows enter a run, and when.

Jobs are listed one by one (``[[job]]``), or drawn: ``files``, ``jobs`` and ``every`` say how many of which
arrive how far apart, evenly or at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InputError
from weft.io.files import read_graph
from weft.io.sources import located, read_bytes, shown
from weft.io.toml_files import parse_toml
from weft.io.units import parse_time
from weft.model.graph import TaskGraph

MOST_JOBS = 100_000
LAWS = ("even", "poisson")
_TOP = ("job", "files", "jobs", "every", "arrivals", "seed", "deadline")
_ROW = ("file", "at", "name", "count", "every", "deadline", "weight", "owner")


@dataclass(frozen=True, eq=False)
class Listed:
    """One job of a file of arrivals."""

    name: str
    time: float
    """In the unit of the graph's times."""
    graph: TaskGraph
    deadline: float | None = None
    weight: float = 1.0
    owner: str = ""


def read_arrivals(path: str | Path) -> tuple[Listed, ...]:
    """Jobs by time; files are found relative to the file that names them."""
    document = parse_toml(read_bytes(path), path)
    with located(path):
        _refuse_others(document, _TOP, "")
        if "job" in document and "files" in document:
            raise InputError("give [[job]] tables or files, not both", field="files")
        rows = document.get("job")
        found = _drawn(document, Path(path)) if rows is None else _listed(rows, Path(path))
        _refuse_twice(found)
    return tuple(sorted(found, key=lambda one: one.time))


def _listed(rows: object, path: Path) -> list[Listed]:
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
        raise InputError("expected [[job]] tables", field="job")
    found: list[Listed] = []
    for k, row in enumerate(rows):
        place = f"job[{k}]"
        _refuse_others(row, _ROW, f"{place}.")
        graph = _graph(row.get("file"), path, f"{place}.file")
        first, every = (_time(row, key, graph, place) for key in ("at", "every"))
        count = _whole(row.get("count", 1), f"{place}.count")
        name = str(row.get("name", graph.name))
        for n in range(count):
            label = name if count == 1 else f"{name}-{n + 1}"
            found.append(
                Listed(label, (first or 0.0) + n * (every or 0.0), graph, **_settings(row, graph, place))
            )
    return found


def _drawn(document: Mapping[str, Any], path: Path) -> list[Listed]:
    """As many jobs as asked for, of the files in turn."""
    files = document.get("files")
    if not isinstance(files, list) or not files:
        raise InputError("expected [[job]] tables, or a list of files", field="files")
    graphs = [_graph(name, path, f"files[{k}]") for k, name in enumerate(files)]
    count = _whole(document.get("jobs", len(graphs)), "jobs")
    gap = _time(document, "every", graphs[0], "")
    if gap is None:
        raise InputError("expected how far apart jobs arrive, such as '2 s'", field="every")
    law = document.get("arrivals", LAWS[0])
    if law not in LAWS:
        raise InputError(f"expected one of {', '.join(LAWS)}, got {shown(law)}", field="arrivals")
    gaps = np.full(count, gap)
    if law == "poisson":
        gaps = np.random.default_rng(_whole(document.get("seed", 0), "seed", 0)).exponential(gap, count)
    times = np.concatenate([[0.0], np.cumsum(gaps)[:-1]])
    of = [graphs[n % len(graphs)] for n in range(count)]
    return [
        Listed(f"{graph.name}-{n + 1}", float(times[n]), graph, **_settings(document, graph, ""))
        for n, graph in enumerate(of)
    ]


def _graph(name: object, path: Path, field: str) -> TaskGraph:
    if not isinstance(name, str) or not name:
        raise InputError(f"expected the name of a workflow file, got {shown(name)}", field=field)
    return read_graph(path.parent / name)


def _settings(row: Mapping[str, Any], graph: TaskGraph, place: str) -> dict[str, Any]:
    found: dict[str, Any] = {"deadline": _time(row, "deadline", graph, place)}
    if "weight" in row:
        if type(row["weight"]) not in (int, float) or not row["weight"] >= 0:
            raise InputError(f"expected a number >= 0, got {shown(row['weight'])}", field=f"{place}.weight")
        found["weight"] = float(row["weight"])
    if "owner" in row:
        found["owner"] = str(row["owner"])
    return found


def _time(row: Mapping[str, Any], key: str, graph: TaskGraph, place: str) -> float | None:
    if key not in row:
        return None
    try:
        return parse_time(row[key], graph.time_unit)
    except ValueError as error:
        raise InputError(str(error), field=f"{place}.{key}".lstrip(".")) from None


def _whole(value: object, field: str, least: int = 1) -> int:
    if type(value) is not int or not least <= value <= MOST_JOBS:
        raise InputError(
            f"expected a whole number from {least} to {MOST_JOBS}, got {shown(value)}", field=field
        )
    return value


def _refuse_others(table: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
    for key in table:
        if key not in known:
            raise InputError(f"no such field; expected {', '.join(known)}", field=f"{place}{key}")


def _refuse_twice(found: list[Listed]) -> None:
    seen: set[str] = set()
    for one in found:
        if one.name in seen:
            raise InputError(f"two jobs are called {one.name!r}: give them names", field="job")
        seen.add(one.name)
        if one.graph.time_unit != found[0].graph.time_unit:
            raise InputError(
                f"expected times of all workflows in {found[0].graph.time_unit!r}, got {one.graph.time_unit!r}",
                field="job",
            )
