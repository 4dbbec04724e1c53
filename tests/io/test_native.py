"""weft's own graph documents, in JSON and TOML."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import make_cluster, make_graph, with_needs

from weft.io.files import read_graph, write_graph
from weft.io.json_files import dump_json, parse_json
from weft.io.native import graph_document, graph_from_document
from weft.io.toml_files import dump_toml, parse_toml
from weft.model.graph import TaskGraph

EVERYTHING = TaskGraph(
    [1.0, np.nan, 2.5, 0.0],
    [0, 0, 1, 2],
    [1, 2, 3, 3],
    [0.0, 10.0, 1.5e9, 0.0],
    names=("load", 'odd "name"\n\x7f\\', "wärme", "z.z"),
    kinds=("io", "cnn"),
    kind=[0, 1, 1, 0],
    classes=("gpu", "cpu"),
    times=[[np.nan, np.nan], [3.0, np.inf], [np.nan, 4.0], [np.nan, np.nan]],
    slots=[1, 2, 1, 1],
    memory=[0.0, 1e9, 0.0, 0.0],
    resources=("licence",),
    demands=[[0.0], [1.5], [0.0], [0.0]],
    probability=[0.25, 0.75, 1.0, 1.0],
    branch=[0, 0, -1, -1],
    curves=[[1.0, 1.8], [1.0, 1.2]],
    curve=[-1, 1, -1, 0],
    name="everything",
    time_unit="ms",
    metadata={"source": "by hand", "year": 2024},
)
COLUMNS = (
    "work",
    "sources",
    "targets",
    "data",
    "times",
    "slots",
    "memory",
    "demands",
    "probability",
    "branch",
    "curve",
)


def test_graph_takes_sizes_with_units():
    document = {
        "tasks": [
            {"name": "a", "work": 1, "memory": "2 GB"},
            {"name": "b", "work": 1, "after": {"a": "100 MB"}},
            {"name": "c", "work": 1, "after": {"a": 5, "b": "0 B"}},
        ],
        "edges": [],
    }
    graph = graph_from_document(document)
    assert graph.memory.tolist() == [2e9, 0.0, 0.0]
    assert graph.data.tolist() == [1e8, 5.0, 0.0]


def test_graph_joins_edges_and_after():
    document = {
        "tasks": [
            {"name": "a", "work": 1},
            {"name": "b", "work": 1},
            {"name": "c", "work": 1, "after": ["b"]},
        ],
        "edges": [{"source": "a", "target": "b", "data": "1 KiB"}],
    }
    graph = graph_from_document(document)
    assert list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)) == [(0, 1), (1, 2)]
    assert graph.data.tolist() == [1024.0, 0.0]


def assert_same(again: TaskGraph, graph: TaskGraph) -> None:
    assert (again.names, again.classes, again.resources) == (graph.names, graph.classes, graph.resources)
    assert [again.kinds[k] for k in again.kind] == [graph.kinds[k] for k in graph.kind]
    assert np.array_equal(again.curves, graph.curves)
    for key in COLUMNS:
        assert np.array_equal(getattr(again, key), getattr(graph, key), equal_nan=key in ("work", "times")), (
            key
        )


@pytest.mark.parametrize("suffix", ["json", "toml"])
def test_written_graph_keeps_every_column(suffix: str, tmp_path: Path):
    assert write_graph(EVERYTHING, tmp_path / f"g.{suffix}") == ()
    again = read_graph(tmp_path / f"g.{suffix}")
    assert_same(again, EVERYTHING)
    assert (again.name, again.time_unit, again.metadata) == ("everything", "ms", EVERYTHING.metadata)


@pytest.mark.parametrize("suffix", ["json", "toml"])
def test_written_graph_keeps_what_launches_save(suffix: str, tmp_path: Path):
    graph = TaskGraph(
        [1.0, 1.0, np.nan], [0, 1], [1, 2], classes=("gpu", "cpu"),
        times=[[2.0, np.nan], [np.nan, np.nan], [2.0, 3.0]], saved=[[0, 0], [0, 0.25], [0.1, 0.5]],
    )  # fmt: skip
    assert write_graph(graph, tmp_path / f"g.{suffix}") == ()
    assert np.array_equal(read_graph(tmp_path / f"g.{suffix}").saved, graph.saved)
    assert graph_document(graph.replaced(saved=None))["tasks"][1] == {"name": "t1", "work": 1.0}


@given(st.integers(0, 10**6), st.integers(1, 12), st.booleans())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_documents_read_back_the_same(seed: int, n: int, has_needs: bool):
    graph = make_graph(seed, n, "random", "wide", "uniform")
    if has_needs:
        graph = with_needs(graph, seed, make_cluster(seed, 4, 2, "free", is_plain=False))
    document = graph_document(graph)
    for parsed in (parse_json(dump_json(document), "g"), parse_toml(dump_toml(document), "g")):
        again = graph_from_document(parsed)
        used = [c for c, column in enumerate(graph.times.T) if not np.isnan(column).all()]
        place = [again.classes.index(graph.classes[c]) for c in used]
        assert np.array_equal(again.times[:, place], graph.times[:, used], equal_nan=True)
        for key in ("work", "sources", "targets", "data", "slots", "memory"):
            assert np.array_equal(getattr(again, key), getattr(graph, key)), key


def test_after_gives_edges_with_and_without_bytes():
    document = parse_toml(
        b"""
        [[tasks]]
        name = "a"
        work = 1
        [[tasks]]
        name = "b"
        work = 1
        after = { a = 5 }
        [[tasks]]
        name = "c"
        work = 1
        after = ["a", "b"]
        """,
        "g.toml",
    )
    edges = [(e.source, e.target, e.data) for e in graph_from_document(document).edges()]
    assert edges == [("a", "b", 5.0), ("a", "c", 0.0), ("b", "c", 0.0)]


def test_times_tell_never_from_not_given():
    document = {"tasks": [{"name": "a", "times": {"gpu": 1, "cpu": "never"}}, {"name": "b", "work": 2}]}
    graph = graph_from_document(document)
    assert graph.times[0].tolist() == [1.0, np.inf]
    assert np.isnan(graph.times[1]).all()
    assert np.isnan(graph.work[0])


def test_write_leaves_neutral_columns_out():
    assert graph_document(TaskGraph([1.0, 2.0], [0], [1]))["tasks"] == [
        {"name": "t0", "work": 1.0},
        {"name": "t1", "work": 2.0},
    ]
