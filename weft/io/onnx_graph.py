"""ONNX models as operator graphs (extra ``onnx``); weights in other files are never opened.

A node is a task of kind ``op_type``; a tensor between two nodes is an edge with its bytes (0 where its
shape is unknown; an open dimension such as the batch counts 1). Work is an estimate in unit operations:
elements of the outputs, times the length of the inner product for Conv, Gemm and MatMul.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InputError, MissingExtra
from weft.io.columns import codes
from weft.io.formats import Loaded
from weft.io.sources import located
from weft.model.graph import TaskGraph

_ITEM_BYTES = {
    1: 4,
    2: 1,
    3: 1,
    4: 2,
    5: 2,
    6: 4,
    7: 8,
    9: 1,
    10: 2,
    11: 8,
    12: 4,
    13: 8,
    14: 8,
    15: 16,
    16: 2,
}
"""Bytes per element by ONNX element type; others count 1."""

Shapes = dict[str, tuple[tuple[int, ...], int]]  # tensor: dimensions, bytes per element


def detect(head: bytes, path: Path) -> bool:
    """Whether the content starts like a serialised model: field 1 (IR version), then not text."""
    return head[:1] == b"\x08" and len(head) > 2 and head[1] < 32


def read(data: bytes, path: Path) -> Loaded:
    """The operator graph of a model."""
    with located(path):
        return Loaded(graph=_operator_graph(_model(data), path.stem))


def _model(data: bytes) -> Any:
    """The model with inferred shapes; what does not parse or check is refused."""
    try:
        import onnx
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtra("onnx", "onnx", "reading an ONNX model") from None
    try:
        model = onnx.load_model_from_string(data)
        onnx.checker.check_model(_without_weights(model))
    except (DecodeError, onnx.checker.ValidationError, ValueError) as error:
        reason = str(error).strip().splitlines()
        raise InputError(
            f"expected an ONNX model: {reason[0] if reason else 'it cannot be parsed'}"
        ) from None
    try:
        return onnx.shape_inference.infer_shapes(model)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return model


def _without_weights(model: Any) -> Any:
    """A copy to check that mentions no other file."""
    bare = type(model)()
    bare.CopyFrom(model)
    for tensor in bare.graph.initializer:
        if tensor.data_location:
            del tensor.external_data[:]
            tensor.data_location = 0
            tensor.dims[:] = [0]
            tensor.raw_data = b""
    return bare


def _operator_graph(model: Any, name: str) -> TaskGraph:
    nodes = list(model.graph.node)
    if not nodes:
        raise InputError("no tasks", field="graph.node")
    shapes = _shapes(model.graph)
    edges = _edges(nodes, shapes)
    kinds, kind = codes([node.op_type for node in nodes])
    return TaskGraph(
        [_work(node, shapes) for node in nodes],
        [s for s, _ in edges],
        [t for _, t in edges],
        list(edges.values()),
        names=_names(nodes),
        kinds=kinds,
        kind=kind,
        name=model.graph.name or name,
        time_unit="unit",
    )


def _names(nodes: Sequence[Any]) -> list[str]:
    """The nodes' names where all are given and differ, else operator and position."""
    names = [node.name for node in nodes]
    if all(names) and len(set(names)) == len(names):
        return names
    return [f"{node.op_type}_{i}" for i, node in enumerate(nodes)]


def _shapes(graph: Any) -> Shapes:
    found: Shapes = {}
    for value in (*graph.value_info, *graph.input, *graph.output):
        tensor = value.type.tensor_type
        if tensor.HasField("shape"):
            dims = tuple(
                max(dim.dim_value, 1) if dim.dim_param or dim.dim_value < 1 else dim.dim_value
                for dim in tensor.shape.dim
            )
            found[value.name] = (dims, _ITEM_BYTES.get(tensor.elem_type, 1))
    for weights in graph.initializer:
        found[weights.name] = (tuple(weights.dims), _ITEM_BYTES.get(weights.data_type, 1))
    return found


def _edges(nodes: Sequence[Any], shapes: Shapes) -> dict[tuple[int, int], float]:
    """Bytes per pair of nodes; every tensor counts once."""
    producer = {output: i for i, node in enumerate(nodes) for output in node.output if output}
    edges: dict[tuple[int, int], float] = {}
    for target, node in enumerate(nodes):
        for tensor in dict.fromkeys(_inputs(node)):
            source = producer.get(tensor)
            if source is not None and source != target:
                dims, item = shapes.get(tensor, ((0,), 0))
                edges[source, target] = edges.get((source, target), 0.0) + float(prod(dims)) * item
    return edges


def _inputs(node: Any) -> Iterator[str]:
    """Tensors a node reads, those its bodies take from outside included."""
    yield from node.input
    for attribute in node.attribute:
        for body in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
            own = {output for inner in body.node for output in inner.output}
            for inner in body.node:
                yield from (name for name in _inputs(inner) if name not in own)


def _work(node: Any, shapes: Shapes) -> float:
    outputs = sum(float(prod(shapes[name][0])) for name in node.output if name in shapes)
    return max(outputs, 1.0) * _inner_length(node, shapes)


def _inner_length(node: Any, shapes: Shapes) -> float:
    """Multiplications per output element."""
    if node.op_type in ("Conv", "ConvInteger", "QLinearConv", "ConvTranspose"):
        weights = shapes.get(node.input[3 if node.op_type == "QLinearConv" else 1], ((), 0))[0]
        return float(np.prod(weights[1:], initial=1.0)) or 1.0
    if node.op_type in ("MatMul", "Gemm", "MatMulInteger", "QLinearMatMul"):
        first = shapes.get(node.input[0], ((), 0))[0]
        is_turned = any(a.name == "transA" and a.i for a in node.attribute)
        return float((first[0] if is_turned else first[-1]) if first else 1)
    return 1.0
