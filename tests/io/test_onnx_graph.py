"""ONNX models as operator graphs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from weft.errors import InputError, MissingExtra
from weft.io.files import read_graph

onnx = pytest.importorskip("onnx")


def save(path: Path, *, external: bool = False) -> Path:
    """Conv 1x3x8x8 -> 1x4x6x6, Relu, Flatten, Gemm to 10."""
    helper = onnx.helper
    floats = onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Flatten", ["r"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "g"], ["y"], name="gemm"),
    ]
    weights = [
        helper.make_tensor("w", floats, [4, 3, 3, 3], [0.0] * 108),
        helper.make_tensor("g", floats, [144, 10], [0.0] * 1440),
    ]
    if external:
        del weights[0].float_data[:]
        weights[0].data_location = onnx.TensorProto.EXTERNAL
        weights[0].external_data.add(key="location", value="../../etc/passwd")
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", floats, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("y", floats, ["batch", 10])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path.write_bytes(model.SerializeToString())
    return path


def test_read_makes_a_task_per_operator(tmp_path: Path):
    graph = read_graph(save(tmp_path / "net.onnx"))
    assert graph.names == ("conv", "relu", "flat", "gemm")
    assert [graph.kinds[k] for k in graph.kind] == ["Conv", "Relu", "Flatten", "Gemm"]
    assert (graph.name, graph.time_unit) == ("net", "unit")


def test_read_counts_tensor_bytes_on_edges(tmp_path: Path):
    graph = read_graph(save(tmp_path / "net.onnx"))
    assert [(e.source, e.target, e.data) for e in graph.edges()] == [
        ("conv", "relu", 576.0),
        ("relu", "flat", 576.0),
        ("flat", "gemm", 576.0),
    ]


def test_read_estimates_work_by_inner_products(tmp_path: Path):
    graph = read_graph(save(tmp_path / "net.onnx"))
    assert graph.work.tolist() == [144.0 * 27, 144.0, 144.0, 10.0 * 144]


def test_read_knows_a_model_by_its_content(tmp_path: Path):
    assert read_graph(save(tmp_path / "net.bin")).num_tasks == 4


def test_read_never_opens_external_weights(tmp_path: Path):
    assert read_graph(save(tmp_path / "net.onnx", external=True)).num_tasks == 4


@pytest.mark.parametrize("offset", [3, 40, 200, 2000])
def test_read_refuses_a_truncated_model(offset: int, tmp_path: Path):
    path = save(tmp_path / "net.onnx")
    path.write_bytes(path.read_bytes()[:offset])
    with pytest.raises(InputError, match="expected an ONNX model") as caught:
        read_graph(path)
    assert caught.value.file == str(path)


def test_read_without_the_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = save(tmp_path / "net.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtra, match=r"weft\[onnx\]"):
        read_graph(path)
