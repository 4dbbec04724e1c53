"""TPC-H queries as stage graphs, and sets of them that share one pool of executor slots."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from weft.errors import InputError
from weft.io.sources import decode, located, read_bytes, shown
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Objective, Problem

TPCH_SLOTS = 6000


def read_tpch(folder: Path) -> dict[str, Callable[[], Problem]]:
    """Name and maker of every problem of ``tpch_*_sets.json``, over the graphs of ``tpch_stages.json``.

    Problems are called set/index, e.g. ``50/3``; where two files hold a set of the same name, the
    middle of the file name goes in front (``train-50/3``).
    """
    stages = _read_stages(folder / "tpch_stages.json")
    files = sorted(folder.glob("tpch_*_sets.json"))
    if not files:
        raise InputError("expected a file tpch_*_sets.json, found none", file=str(folder), field="data")
    sets = [(path, group, rows) for path in files for group, rows in _read_sets(path, stages).items()]
    groups = [group for _, group, _ in sets]
    makers: dict[str, Callable[[], Problem]] = {}
    for path, group, rows in sets:
        tag = path.stem.removeprefix("tpch_").removesuffix("_sets")
        label = group if groups.count(group) == 1 else f"{tag}-{group}"
        for k, queries in enumerate(rows):
            name = f"{label}/{k}"
            makers[name] = functools.partial(_problem, name, queries, stages)
    return makers


def _problem(name: str, queries: list[str], stages: Mapping[str, TaskGraph]) -> Problem:
    graph = union([stages[query] for query in queries], name)
    cluster = Cluster.uniform([DeviceClass("pool", slots=TPCH_SLOTS)], [1], name="tpch-pool")
    return Problem(graph, cluster, Objective(copies=False), name=name)


def union(graphs: list[TaskGraph], name: str) -> TaskGraph:
    """Stage graphs side by side; task ``s`` of graph ``k`` is called ``q<k>.s<s>``."""
    offsets = np.cumsum([0, *(graph.num_tasks for graph in graphs)])[:-1]
    return TaskGraph(
        np.concatenate([graph.work for graph in graphs]),
        np.concatenate([graph.sources + at for graph, at in zip(graphs, offsets, strict=True)]),
        np.concatenate([graph.targets + at for graph, at in zip(graphs, offsets, strict=True)]),
        names=tuple(f"q{k}.s{s}" for k, graph in enumerate(graphs) for s in range(graph.num_tasks)),
        kinds=("stage",),
        slots=np.concatenate([graph.slots for graph in graphs]),
        name=name,
        time_unit="ms",
    )


def _read_json(path: Path) -> dict[str, object]:
    text = decode(read_bytes(path), path)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"expected JSON: {error.msg}", file=str(path), line=error.lineno) from None
    except (RecursionError, ValueError):
        raise InputError(
            "expected JSON: nested too deeply or with too long a number", file=str(path)
        ) from None
    if not isinstance(content, dict) or not content:
        raise InputError("expected a JSON object with entries", file=str(path))
    return content


def _read_stages(path: Path) -> dict[str, TaskGraph]:
    graphs = {}
    for key, entry in _read_json(path).items():
        with located(path, key):
            graphs[key] = _stage_graph(key, entry)
    return graphs


def _stage_graph(key: str, entry: object) -> TaskGraph:
    if not isinstance(entry, dict):
        raise InputError(f"expected an object with tasks, duration_ms and edges, got {shown(entry)}")
    tasks = _numbers(entry, "tasks", whole=True)
    durations = _numbers(entry, "duration_ms")
    edges = entry.get("edges")
    if not isinstance(edges, list) or any(not isinstance(e, list) or len(e) != 2 for e in edges):
        raise InputError("expected a list of [from, to] pairs", field=f"{key}.edges")
    ends = [_numbers({"edges": edge}, "edges", whole=True) for edge in edges]
    if len(tasks) != len(durations) or not tasks:
        raise InputError(f"expected as many tasks as durations, got {len(tasks)} and {len(durations)}")
    return TaskGraph(
        durations, [e[0] for e in ends], [e[1] for e in ends], slots=tasks, name=key, time_unit="ms"
    )


def _numbers(entry: Mapping[str, object], key: str, whole: bool = False) -> list[float]:
    values = entry.get(key)
    if not isinstance(values, list):
        raise InputError(f"expected a list of numbers, got {shown(values)}", field=key)
    for value in values:
        if (
            isinstance(value, bool)
            or not isinstance(value, int if whole else (int, float))
            or not 0 <= value < 1e15
        ):
            what = "a whole number" if whole else "a number"
            raise InputError(f"expected {what} in 0..1e15, got {shown(value)}", field=key)
    return values


def _read_sets(path: Path, stages: Mapping[str, TaskGraph]) -> dict[str, list[list[str]]]:
    sets: dict[str, list[list[str]]] = {}
    for group, rows in _read_json(path).items():
        if not isinstance(rows, list):
            raise InputError(f"expected a list of instances, got {shown(rows)}", file=str(path), field=group)
        for k, queries in enumerate(rows):
            _check_queries(queries, stages, str(path), f"{group}/{k}")
        sets[group] = rows
    return sets


def _check_queries(queries: object, stages: Mapping[str, TaskGraph], file: str, where: str) -> None:
    if not isinstance(queries, list) or not queries:
        raise InputError(f"expected a list of query names, got {shown(queries)}", file=file, field=where)
    for query in queries:
        if not isinstance(query, str) or query not in stages:
            raise InputError(f"no query {shown(query)} in tpch_stages.json", file=file, field=where)
