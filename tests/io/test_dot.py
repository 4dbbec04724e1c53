"""DOT files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import graphs

from weft.errors import InputError
from weft.io import dot
from weft.model.graph import TaskGraph


def make(text: str) -> TaskGraph:
    graph = dot.read(text.encode(), Path("file.dot")).graph
    assert graph is not None
    return graph


def edges(graph: TaskGraph) -> list[tuple[str, str, float]]:
    return [(e.source, e.target, e.data) for e in graph.edges()]


def test_read_takes_weights_kinds_and_sizes():
    graph = make('digraph G { a [weight=2, kind=cnn]; "b b" [work="3.5"]; a -> "b b" [size=1e3]; }')
    assert (graph.names, graph.work.tolist(), graph.name) == (("a", "b b"), [2.0, 3.5], "G")
    assert graph.kinds == ("cnn", "task")
    assert edges(graph) == [("a", "b b", 1000.0)]


def test_read_passes_over_comments_and_unknown_attributes():
    text = "// one\n# two\n/* three\n */ digraph {\n rankdir=LR; graph [label=x]\n a [color=red] // end\n}"
    assert make(text).names == ("a",)


def test_read_follows_chains_and_ports():
    assert edges(make("digraph { a -> b:n -> c [data=4] }")) == [("a", "b", 4.0), ("b", "c", 4.0)]


def test_read_joins_groups_of_nodes():
    assert [e[:2] for e in edges(make("digraph { a -> {b c} -> d }"))] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "d"),
        ("c", "d"),
    ]


def test_read_tolerates_subgraphs_and_scopes_defaults():
    graph = make("digraph { node [work=1]; subgraph cluster_x { node [work=5]; a } b; a -> b }")
    assert dict(zip(graph.names, graph.work.tolist(), strict=True)) == {"a": 5.0, "b": 1.0}


def test_read_gives_every_task_one_where_no_run_time_is_given():
    assert make("digraph { a -> b }").work.tolist() == [1.0, 1.0]


def test_read_merges_repeated_edges_of_a_strict_graph():
    assert make("strict digraph { a -> b; a -> b }").num_edges == 1


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("digraph {\n a -> \n}", 3, "expected a node, an edge or '}', got '}'"),
        ("digraph {\n a -- b }", 2, "expected '->' between the nodes of a digraph, got '--'"),
        ("graph {\n a }", 1, "expected digraph, got 'graph'"),
        ("digraph {\n a [work=1\n", 2, "expected an attribute or '\\]', got the end of the file"),
        ("digraph {\n a [work=x] }", 2, "expected a finite number >= 0, got 'x'"),
        ("digraph {\n\n a [work=1e999] }", 3, "expected a finite number >= 0, got '1e999'"),
        ('digraph {\n "a }', 2, "got a text that does not end"),
        ("digraph { a }\n}", 2, "expected the end of the file after the graph"),
    ],
)
def test_read_names_the_line_of_an_error(text: str, line: int, message: str):
    with pytest.raises(InputError, match=message) as caught:
        make(text)
    assert (caught.value.line, caught.value.file) == (line, "file.dot")


def test_read_wants_run_times_for_all_or_none():
    with pytest.raises(InputError, match="expected a work or weight") as caught:
        make("digraph { a [work=1]; b }")
    assert caught.value.field == "tasks.b"


@given(graphs())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_written_graphs_read_back_the_same(graph: TaskGraph):
    if not graph.num_tasks:
        return
    again = make(dot.dump(graph).decode())
    assert again.names == graph.names
    for key in ("work", "sources", "targets", "data"):
        assert np.array_equal(getattr(again, key), getattr(graph, key)), key


def test_written_branches_and_odd_names_read_back():
    graph = TaskGraph(
        [1.0] * 3,
        [0, 0],
        [1, 2],
        probability=[0.25, 0.75],
        branch=[0, 0],
        names=('a"b\\', "->", "\n"),
        slots=[1, 2, 1],
    )
    again = make(dot.dump(graph).decode())
    assert again.names == graph.names
    assert again.probability.tolist() == [0.25, 0.75]
    assert again.slots.tolist() == [1, 2, 1]
