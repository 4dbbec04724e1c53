"""WfFormat 1.3 to 1.6, the JSON of recorded scientific workflows, read and written.

What weft makes of it:

- work = run time in seconds; name = the task's id (its name where old files have no id);
- kind = ``command.program`` when that is one word, else the name without its id suffix;
- data of an edge = bytes of the files the parent writes and the child reads;
- ``coreCount`` = demand on the resource ``cores``, which limits only devices that declare a
  capacity ``cores``; the file's own machines do. Left out when no task asks for more than one;
- the file's own machines: one device each, ``cores`` slots, its memory, speed 1 whatever its clock
  (run times were measured there), 1 GB/s between machines, for the files name no network.

The document is kept as ``metadata["wfformat"]``, so fields weft does not know survive a round trip.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.errors import InputError
from weft.io.columns import Row, codes, name_index, numbers, object_of, rows_of, texts, whole_numbers
from weft.io.sources import shown
from weft.model.cluster import INFINITE, Cluster, DeviceClass
from weft.model.graph import Floats, Ints, TaskGraph

VERSIONS = ("1.3", "1.4", "1.5", "1.6")
WRITTEN_VERSION = "1.5"
MACHINE_BANDWIDTH = 1e9
"""Bytes per second between the machines of a file."""
CORES = "cores"
METADATA = "wfformat"
_ID_SUFFIX = re.compile(r"[._-](?:ID)?\d+$")


@dataclass(frozen=True)
class _Shape:
    """Where a version keeps its parts. Old versions have one list of tasks with everything inside."""

    tasks: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    machines: list[dict[str, Any]]
    where: str
    runs_where: str
    is_old: bool


def graph_from_document(document: Row, name: str = "workflow") -> TaskGraph:
    """The task graph of a WfFormat document."""
    shape = _shape(document)
    if not shape.tasks:
        raise InputError("no tasks", field=shape.where)
    names = _names(shape)
    kinds, kind = codes([_kind(n, run) for n, run in zip(_labels(shape, names), shape.runs, strict=True)])
    sources, targets = _edges(shape, names)
    cores = numbers([_cores(run) for run in shape.runs], shape.runs_where, "coreCount")
    has_cores = bool((cores > 1).any())
    title = document.get("name", name)
    return TaskGraph(
        _run_times(shape),
        sources,
        targets,
        _edge_data(document, shape, sources, targets),
        names=names,
        kinds=kinds,
        kind=kind,
        memory=numbers([_memory(run) for run in shape.runs], shape.runs_where, "memoryInBytes"),
        resources=(CORES,) if has_cores else (),
        demands=cores[:, None] if has_cores else None,
        name=title if isinstance(title, str) and title else name,
        metadata={METADATA: document},
    )


def _shape(document: Row) -> _Shape:
    version = document.get("schemaVersion", WRITTEN_VERSION)
    if version not in VERSIONS:
        raise InputError(
            f"expected WfFormat {VERSIONS[0]} to {VERSIONS[-1]}, got {shown(version)}", field="schemaVersion"
        )
    workflow = object_of(document, "workflow")
    if "specification" not in workflow:
        where = "workflow.tasks"
        tasks = rows_of(workflow, "tasks", "workflow")
        return _Shape(
            tasks, tasks, rows_of(workflow, "machines", "workflow", required=False), where, where, True
        )
    specification = object_of(workflow, "specification", "workflow")
    where, runs_where = "workflow.specification.tasks", "workflow.execution.tasks"
    tasks = rows_of(specification, "tasks", "workflow.specification")
    execution = object_of(workflow, "execution", "workflow") if tasks else {}
    runs = rows_of(execution, "tasks", "workflow.execution") if tasks else []
    machines = rows_of(execution, "machines", "workflow.execution", required=False)
    return _Shape(tasks, _matched(tasks, runs, where, runs_where), machines, where, runs_where, False)


def _matched(
    tasks: Sequence[Row], runs: list[dict[str, Any]], where: str, runs_where: str
) -> list[dict[str, Any]]:
    """The execution row of every task, in the order of the tasks."""
    ids = texts([row.get("id") for row in tasks], where, "id")
    run_ids = texts([row.get("id") for row in runs], runs_where, "id")
    if ids == run_ids:
        return runs
    index = name_index(run_ids, runs_where, "id")
    for i, task_id in enumerate(ids):
        if task_id not in index:
            raise InputError(f"no run time for task {shown(task_id)} of {where}[{i}]", field=runs_where)
    return [runs[index[task_id]] for task_id in ids]


def _names(shape: _Shape) -> list[str]:
    key = "id" if all("id" in row for row in shape.tasks) else "name"
    names = texts([row.get(key) for row in shape.tasks], shape.where, key)
    name_index(names, shape.where, key)
    return names


def _labels(shape: _Shape, names: Sequence[str]) -> list[str]:
    """What a task is called for people; its kind may be read off it."""
    return [
        row["name"] if isinstance(row.get("name"), str) else n
        for row, n in zip(shape.tasks, names, strict=True)
    ]


def _kind(label: str, run: Row) -> str:
    """The program, or the label without a trailing id; scripts as programs say nothing of the kind."""
    command = run.get("command")
    program = command.get("program") if isinstance(command, dict) else None
    if isinstance(program, str) and program and not any(c.isspace() for c in program):
        return program
    return _ID_SUFFIX.sub("", label) or label


def _cores(run: Row) -> object:
    return run.get("coreCount", run.get("cores", 1))


def _memory(run: Row) -> object:
    """Bytes; ``memory`` of version 1.3 counts kB."""
    value = run.get("memoryInBytes")
    if value is None and type(run.get("memory")) in (int, float):
        return run["memory"] * 1000
    return run.get("memory", 0) if value is None else value


def _run_times(shape: _Shape) -> Floats:
    values = [run.get("runtimeInSeconds", run.get("runtime")) for run in shape.runs]
    return numbers(values, shape.runs_where, "runtimeInSeconds")


def _edges(shape: _Shape, names: Sequence[str]) -> tuple[Ints, Ints]:
    """Edges from ``parents`` and ``children`` together, by id or by name, each once."""
    index = {
        row["name"]: i for i, row in reversed(list(enumerate(shape.tasks))) if type(row.get("name")) is str
    }
    index.update({name: i for i, name in enumerate(names)})
    parents = _references(shape, "parents", "parent", index)
    children = _references(shape, "children", "child", index)
    sources = np.concatenate([parents[1], children[0]])
    targets = np.concatenate([parents[0], children[1]])
    keys = np.unique(sources * len(names) + targets)
    return keys // len(names), keys % len(names)


def _references(shape: _Shape, key: str, what: str, index: dict[str, int]) -> tuple[Ints, Ints]:
    """(task, other task) for every reference under this key."""
    own: list[int] = []
    other: list[int] = []
    for i, row in enumerate(shape.tasks):
        listed = row.get(key)
        if listed is None:
            continue
        if type(listed) is not list:
            raise InputError(f"expected a list, got {shown(listed)}", field=f"{shape.where}[{i}].{key}")
        for reference in listed:
            at = index.get(reference) if type(reference) is str else None
            if at is None:
                task = row.get("id", row.get("name"))
                raise InputError(
                    f"unknown {what} {shown(reference)} of task {shown(task)}",
                    field=f"{shape.where}[{i}].{key}",
                )
            own.append(i)
            other.append(at)
    return np.array(own, dtype=np.int64), np.array(other, dtype=np.int64)


def _edge_data(document: Row, shape: _Shape, sources: Ints, targets: Ints) -> Floats:
    """Bytes of the files both ends of an edge name; the shorter list is walked."""
    sizes = _old_sizes(shape) if shape.is_old else _sizes(document["workflow"]["specification"])
    inputs = [_files(row, "input", shape, i) for i, row in enumerate(shape.tasks)]
    outputs = [_files(row, "output", shape, i) for i, row in enumerate(shape.tasks)]
    data = np.zeros(len(sources))
    for e, (s, t) in enumerate(zip(sources.tolist(), targets.tolist(), strict=True)):
        short, long = sorted((outputs[s], inputs[t]), key=len)
        data[e] = sum(_size(sizes, file, shape, t) for file in short if file in long)
    return data


def _size(sizes: dict[str, float], file: str, shape: _Shape, task: int) -> float:
    if file not in sizes:
        raise InputError(
            f"file {shown(file)} of {shape.where}[{task}] is not listed", field="workflow.specification.files"
        )
    return sizes[file]


def _files(row: Row, link: str, shape: _Shape, i: int) -> dict[str, None]:
    """The files a task reads (``input``) or writes, each once, in order."""
    if shape.is_old:
        listed = [
            f.get("name") for f in row.get("files") or () if (f.get("link") == "input") == (link == "input")
        ]
    else:
        listed = row.get(f"{link}Files") or []
    if type(listed) is not list or not all(type(file) is str for file in listed):
        raise InputError("expected a list of file ids", field=f"{shape.where}[{i}].{link}Files")
    return dict.fromkeys(listed)


def told_of(document: Row) -> list[tuple[str, dict[str, Any], tuple[str, ...]]]:
    """Of every task its name, the row that says how it ran (its ``command``), and the files it writes."""
    shape = _shape(document)
    outputs = [tuple(_files(row, "output", shape, i)) for i, row in enumerate(shape.tasks)]
    return list(zip(_names(shape), shape.runs, outputs, strict=True))


def _sizes(specification: Row) -> dict[str, float]:
    where = "workflow.specification.files"
    files = rows_of(specification, "files", "workflow.specification", required=False)
    ids = texts([row.get("id") for row in files], where, "id")
    name_index(ids, where, "id")
    values = numbers([row.get("sizeInBytes", 0) for row in files], where, "sizeInBytes")
    return dict(zip(ids, values.tolist(), strict=True))


def _old_sizes(shape: _Shape) -> dict[str, float]:
    """Sizes written inside the tasks; a file is as large as its largest mention."""
    sizes: dict[str, float] = {}
    for i, row in enumerate(shape.tasks):
        where = f"{shape.where}[{i}].files"
        files = rows_of(row, "files", f"{shape.where}[{i}]", required=False)
        values = numbers([file.get("sizeInBytes", file.get("size", 0)) for file in files], where, "size")
        for name, value in zip(
            texts([f.get("name") for f in files], where, "name"), values.tolist(), strict=True
        ):
            sizes[name] = max(value, sizes.get(name, 0.0))
    return sizes


def cluster_from_document(document: Row) -> Cluster | None:
    """The machines named in the file, or None."""
    shape = _shape(document)
    if not shape.machines:
        return None
    where = "workflow.machines" if shape.is_old else "workflow.execution.machines"
    names = texts([row.get("nodeName") for row in shape.machines], where, "nodeName")
    name_index(names, where, "nodeName")
    cpus = [row["cpu"] if isinstance(row.get("cpu"), dict) else {} for row in shape.machines]
    cores = whole_numbers(
        [cpu.get("coreCount", cpu.get("count", 1)) for cpu in cpus], where, "cpu.coreCount", low=1
    )
    memory = numbers([_memory(row) for row in shape.machines], where, "memoryInBytes")
    classes = [
        DeviceClass(name, slots=c, memory=m or INFINITE, capacity={CORES: float(c)})
        for name, c, m in zip(names, cores.tolist(), memory.tolist(), strict=True)
    ]
    return Cluster.uniform(classes, [1] * len(classes), bandwidth=MACHINE_BANDWIDTH, name="own machines")


def graph_document(graph: TaskGraph) -> dict[str, Any]:
    """The graph as WfFormat: the document it was read from with the changes, or a new one."""
    if np.isnan(graph.work).any():
        at = int(np.argmax(np.isnan(graph.work)))
        raise InputError("WfFormat needs one run time per task", field=f"tasks.{graph.names[at]}.work")
    original = graph.metadata.get(METADATA)
    if original is not None:
        before = graph_from_document(original)
        if _same_structure(before, graph):
            return _updated(original, before, graph)
    return _new_document(graph)


def _same_structure(a: TaskGraph, b: TaskGraph) -> bool:
    return (
        a.names == b.names
        and [a.kinds[k] for k in a.kind] == [b.kinds[k] for k in b.kind]
        and all(np.array_equal(getattr(a, key), getattr(b, key)) for key in ("sources", "targets", "data"))
    )


def _updated(original: Row, before: TaskGraph, graph: TaskGraph) -> dict[str, Any]:
    """A copy of the document with run times, cores and memory changed where the graph's differ."""
    document = copy.deepcopy(dict(original))
    if graph.name != before.name:
        document["name"] = graph.name
    shape = _shape(document)
    for key, old_key, before_column, column in (
        ("runtimeInSeconds", "runtime", before.work, graph.work),
        ("memoryInBytes", "memory", before.memory, graph.memory),
        ("coreCount", "cores", _core_column(before), _core_column(graph)),
    ):
        for i in np.flatnonzero(before_column != column).tolist():
            run = shape.runs[i]
            is_old = old_key in run and key not in run
            scale = 1e-3 if is_old and old_key == "memory" else 1.0
            run[old_key if is_old else key] = _plain(float(column[i]) * scale)
    return document


def _core_column(graph: TaskGraph) -> Floats:
    if CORES not in graph.resources:
        return np.ones(graph.num_tasks)
    column: Floats = graph.demands[:, graph.resources.index(CORES)]
    return column


def _plain(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _new_document(graph: TaskGraph) -> dict[str, Any]:
    """One file per edge that carries data: written by its source, read by its target."""
    tasks, files = _structure(graph)
    cores = _core_column(graph)
    runs: list[dict[str, Any]] = []
    for i, name in enumerate(graph.names):
        run: dict[str, Any] = {"id": name, "runtimeInSeconds": float(graph.work[i])}
        run["command"] = {"program": graph.kinds[graph.kind[i]], "arguments": []}
        run["coreCount"] = _plain(float(cores[i]))
        run["memoryInBytes"] = _plain(float(graph.memory[i]))
        runs.append(run)
    execution = {"makespanInSeconds": 0, "executedAt": "1970-01-01T00:00:00Z", "tasks": runs}
    return {
        "name": graph.name,
        "schemaVersion": WRITTEN_VERSION,
        "workflow": {"specification": {"tasks": tasks, "files": files}, "execution": execution},
    }


def _structure(graph: TaskGraph) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    tasks: list[dict[str, Any]] = [
        {"name": n, "id": n, "parents": [], "children": [], "inputFiles": [], "outputFiles": []}
        for n in graph.names
    ]
    files: list[dict[str, Any]] = []
    for s, t, data in zip(graph.sources.tolist(), graph.targets.tolist(), graph.data.tolist(), strict=True):
        tasks[s]["children"].append(graph.names[t])
        tasks[t]["parents"].append(graph.names[s])
        if data:
            file = f"{graph.names[s]}.to.{graph.names[t]}"
            files.append({"id": file, "sizeInBytes": _plain(data)})
            tasks[s]["outputFiles"].append(file)
            tasks[t]["inputFiles"].append(file)
    return tasks, files
