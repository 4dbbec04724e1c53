"""Computation graphs of real models: the ONNX files below a folder, posed like generated operator graphs.

Operators and edges are the model's. Types and run times are drawn by the law of the generated graphs,
because no file says how long an operator takes on which device; the name of the model is the seed.
Constants are left out: they are there before anything runs.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import numpy as np

from weft.errors import InputError
from weft.evaluation.sets.instances import Instance, Suite
from weft.io.files import read_graph
from weft.model.generate import as_opgraph, opgraph_cluster
from weft.model.graph import TaskGraph
from weft.model.problem import Objective, Problem

GROUPS = {"up to 200": 200, "200-500": 500, "500-700": 700, "700-1000": 1000}
"""Sizes of the study's groups, and the largest number of operators of each."""
LARGER = "above 1000"
CONSTANT = "Constant"


def onnx_models(folder: Path | None) -> Suite:
    """Every ``*.onnx`` below the folder; rows are called like the file, relative to the folder."""
    if folder is None:
        raise InputError("onnx needs a folder of ONNX models: --data DIR", field="data")
    files = sorted(path for path in folder.rglob("*.onnx") if path.is_file())
    if not files:
        raise InputError("expected *.onnx files, found none", file=str(folder), field="data")
    names = {path.relative_to(folder).with_suffix("").as_posix(): path for path in files}
    return Suite("onnx", {name: functools.partial(_instance, name, path) for name, path in names.items()})


def _instance(name: str, path: Path) -> Instance:
    operators = without_constants(read_graph(path), str(path))
    graph = as_opgraph(operators, _seed(name))
    group = next((label for label, most in GROUPS.items() if graph.num_tasks <= most), LARGER)
    return Instance(name, group, Problem(graph, opgraph_cluster(), Objective(copies=False), name=name))


def _seed(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")


def without_constants(graph: TaskGraph, file: str) -> TaskGraph:
    """The operators that do something at run time."""
    constants = [k for k, kind in enumerate(graph.kinds) if kind == CONSTANT]
    kept = ~np.isin(graph.kind, constants)
    if not kept.any():
        raise InputError("expected an operator other than Constant", file=file, field="graph.node")
    number = np.cumsum(kept) - 1
    stays = kept[graph.sources] & kept[graph.targets]
    return TaskGraph(
        graph.work[kept],
        number[graph.sources[stays]],
        number[graph.targets[stays]],
        graph.data[stays],
        names=[name for name, is_kept in zip(graph.names, kept, strict=True) if is_kept],
        kinds=graph.kinds,
        kind=graph.kind[kept],
        name=graph.name,
        time_unit=graph.time_unit,
    )
