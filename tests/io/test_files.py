"""Reading by content and writing by suffix."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.io.files import lost_columns, read_cluster, read_graph, read_problem, write_graph, write_problem
from weft.model.cluster import Cluster
from weft.model.graph import TaskGraph
from weft.model.problem import Problem

CHAIN = TaskGraph([1.0, 2.0], [0], [1], 1e9, names=("a", "b"), kinds=("x", "y"), kind=[0, 1], name="chain")


@pytest.mark.parametrize("form", ["wfformat", "json", "toml", "dot", "stg"])
def test_read_graph_goes_by_content_not_by_suffix(form: str, tmp_path: Path):
    write_graph(CHAIN, tmp_path / "file.data", form)
    graph = read_graph(tmp_path / "file.data")
    assert (graph.work.tolist(), graph.num_edges) == ([1.0, 2.0], 1)


@pytest.mark.parametrize("form", ["wfformat", "json", "toml", "dot", "stg"])
def test_read_graph_accepts_a_byte_order_mark(form: str, tmp_path: Path):
    write_graph(CHAIN, tmp_path / "plain", form)
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbf" + (tmp_path / "plain").read_bytes())
    assert read_graph(tmp_path / "marked").num_tasks == 2


@pytest.mark.parametrize(
    ("name", "start"),
    [("g.json", b"{"), ("g.toml", b"schema"), ("g.dot", b"digraph"), ("g.stg", b"2\n"), ("g.wf.json", b"{")],
)
def test_write_graph_goes_by_suffix(name: str, start: bytes, tmp_path: Path):
    write_graph(CHAIN, tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_write_graph_refuses_an_unknown_suffix(tmp_path: Path):
    with pytest.raises(InputError, match=r"expected a name ending in \.wf\.json"):
        write_graph(CHAIN, tmp_path / "g.xml")


def test_write_graph_refuses_an_unknown_format(tmp_path: Path):
    with pytest.raises(InputError, match="expected one of wfformat, json, toml, dot, stg, got 'xml'"):
        write_graph(CHAIN, tmp_path / "g", "xml")


def test_write_graph_says_what_a_format_cannot_hold(tmp_path: Path):
    assert write_graph(CHAIN, tmp_path / "g.stg") == ("kind", "data")
    assert write_graph(CHAIN, tmp_path / "g.dot") == ()


def test_write_graph_refuses_to_lose_branches(tmp_path: Path):
    graph = TaskGraph([1.0] * 3, [0, 0], [1, 2], probability=[0.5, 0.5], branch=[0, 0])
    with pytest.raises(InputError, match="stg cannot hold conditional branches"):
        write_graph(graph, tmp_path / "g.stg")
    assert not (tmp_path / "g.stg").exists()


def test_lost_columns_name_times_and_resources():
    graph = TaskGraph([1.0], classes=("c",), times=[[2.0]], resources=("cores", "licence"), demands=[[2, 1]])
    assert lost_columns(graph, "wfformat") == ("times", "resources")
    assert lost_columns(graph, "json") == ()


def test_read_problem_joins_graph_and_cluster(tmp_path: Path):
    write_graph(CHAIN, tmp_path / "g.json")
    (tmp_path / "c.toml").write_text('bandwidth = "1 GB/s"\n[[device]]\nclass = "cpu"\ncount = 2')
    problem = read_problem(tmp_path / "g.json", tmp_path / "c.toml", noise=0.1, copies=False)
    assert (problem.cluster.num_devices, problem.noise, problem.objective.copies) == (2, 0.1, False)


def test_read_problem_without_machines_lists_the_builtins(tmp_path: Path):
    write_graph(CHAIN, tmp_path / "g.json")
    with pytest.raises(InputError, match=r"built-in cluster \(cpu-4, gpu-mix-16, ") as caught:
        read_problem(tmp_path / "g.json")
    assert (caught.value.file, caught.value.field) == (str(tmp_path / "g.json"), "cluster")


def test_read_problem_rescales_links_to_a_ratio(tmp_path: Path):
    write_graph(CHAIN, tmp_path / "g.json")
    assert read_problem(tmp_path / "g.json", "cpu-4", ccr=5.0).ccr == pytest.approx(5.0)


def test_read_problem_may_replace_the_cluster_of_a_problem_file(pair: Cluster, tmp_path: Path):
    write_problem(Problem(CHAIN, pair), tmp_path / "p.json")
    assert read_problem(tmp_path / "p.json", "cpu-4").cluster.num_devices == 4
    assert read_problem(tmp_path / "p.json").cluster.num_devices == 2


def test_read_graph_and_cluster_take_their_part_of_a_problem_file(pair: Cluster, tmp_path: Path):
    write_problem(Problem(CHAIN, pair), tmp_path / "p.json")
    assert read_graph(tmp_path / "p.json").names == ("a", "b")
    assert read_cluster(tmp_path / "p.json").device_names == ("cpu-0", "cpu-1")


def test_read_graph_refuses_a_cluster(tmp_path: Path):
    (tmp_path / "c.toml").write_text('[[device]]\nclass = "cpu"')
    with pytest.raises(InputError, match="expected a task graph, got a cluster"):
        read_graph(tmp_path / "c.toml")


def test_read_cluster_refuses_a_graph(tmp_path: Path):
    write_graph(CHAIN, tmp_path / "g.json")
    with pytest.raises(InputError, match="expected a cluster, got a graph without machines"):
        read_cluster(tmp_path / "g.json")


def test_read_graph_takes_names_that_look_odd(tmp_path: Path):
    names = ["new\nline", "\u202ereversed", "../up", "x" * 10_000]
    (tmp_path / "g.json").write_text(json.dumps({"tasks": [{"name": n, "work": 1} for n in names]}))
    assert list(read_graph(tmp_path / "g.json").names) == names


def test_import_of_the_readers_loads_nothing_heavy():
    code = (
        "import sys, weft.io.files; "
        "print([m for m in ('pydantic', 'numba', 'torch', 'scipy', 'onnx') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
