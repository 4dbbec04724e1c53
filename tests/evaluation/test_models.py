"""Models in ONNX files as a benchmark set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weft.errors import InputError
from weft.evaluation.sets.instances import suite

onnx = pytest.importorskip("onnx")


def save(path: Path, *, only_constants: bool = False) -> Path:
    """A constant, two branches of one operator each, and their sum."""
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    value = helper.make_tensor("v", floats, [2], [1.0, 2.0])
    nodes = [helper.make_node("Constant", [], ["c"], name="constant", value=value)]
    if not only_constants:
        nodes += [
            helper.make_node("Relu", ["x"], ["r"], name="relu"),
            helper.make_node("Mul", ["x", "c"], ["m"], name="mul"),
            helper.make_node("Add", ["r", "m"], ["y"], name="add"),
        ]
    output = helper.make_tensor_value_info("c" if only_constants else "y", floats, [2])
    inputs = [helper.make_tensor_value_info("x", floats, [2])]
    model = helper.make_model(
        helper.make_graph(nodes, "net", inputs, [output]), opset_imports=[helper.make_opsetid("", 17)]
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path


def test_models_are_found_below_the_folder(tmp_path: Path):
    save(tmp_path / "b.onnx")
    save(tmp_path / "deep" / "a.onnx")
    assert suite("onnx", tmp_path).names == ("b", "deep/a")


def test_models_keep_operators_and_edges_but_no_constants(tmp_path: Path):
    save(tmp_path / "a.onnx")
    instance = suite("onnx", tmp_path).instance("a")
    graph = instance.problem.graph
    assert instance.group == "up to 200"
    assert graph.names == ("relu", "mul", "add")
    assert [(edge.source, edge.target) for edge in graph.edges()] == [("relu", "add"), ("mul", "add")]


def test_models_get_one_type_and_a_whole_run_time_per_operator(tmp_path: Path):
    save(tmp_path / "a.onnx")
    problem = suite("onnx", tmp_path).instance("a").problem
    can = np.isfinite(problem.run_times)
    assert problem.run_times.shape == (3, 3) and (can.sum(axis=1) == 1).all()
    assert (problem.run_times[can] >= 1).all() and (problem.run_times[can] % 1 == 0).all()


def test_models_of_one_name_have_the_same_run_times_again(tmp_path: Path):
    save(tmp_path / "a.onnx")
    first, again = (suite("onnx", tmp_path).instance("a").problem.run_times for _ in range(2))
    assert np.array_equal(first, again)


def test_models_refuse_a_folder_without_any(tmp_path: Path):
    with pytest.raises(InputError, match=r"expected \*\.onnx files, found none"):
        suite("onnx", tmp_path)


def test_models_need_a_folder():
    with pytest.raises(InputError, match="--data DIR"):
        suite("onnx")


def test_models_refuse_one_of_constants_alone(tmp_path: Path):
    save(tmp_path / "a.onnx", only_constants=True)
    with pytest.raises(InputError, match="other than Constant"):
        suite("onnx", tmp_path).instance("a")


def test_models_that_are_none_are_named(tmp_path: Path):
    (tmp_path / "a.onnx").write_bytes(b"\x08\x07nothing of the kind")
    with pytest.raises(InputError, match="ONNX") as caught:
        suite("onnx", tmp_path).instance("a")
    assert str(caught.value.file).endswith("a.onnx")
