"""STG files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import graphs

from weft.errors import InputError
from weft.io import stg
from weft.model.graph import TaskGraph

SAMPLE = "3\n0 0 0\n1 4 1 0\n2 5 1 0\n3 6 2 1 2\n4 0 1 3\n# made by hand\n"


def make(text: str) -> TaskGraph:
    graph = stg.read(text.encode(), Path("file.stg")).graph
    assert graph is not None
    return graph


def test_read_leaves_the_dummies_out():
    graph = make(SAMPLE)
    assert (graph.names, graph.work.tolist()) == (("1", "2", "3"), [4.0, 5.0, 6.0])
    assert [(e.source, e.target) for e in graph.edges()] == [("1", "3"), ("2", "3")]


def test_read_keeps_dummies_that_cost_something():
    assert make("1\n0 2 0\n1 4 1 0\n2 0 1 1").work.tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("3 4\n0 0 0\n", 1, "expected the number of tasks on the first line"),
        ("2\n0 0 0\n1 1 1 0\n2 1 0\n", 4, r"expected 4 task rows \(2 and two dummies\), got 3"),
        ("1\n0 0 0\n1 x 1 0\n2 0 1 1", 3, "expected a cost >= 0, got 'x'"),
        ("1\n0 0 0\n1 -4 1 0\n2 0 1 1", 3, "expected a cost >= 0, got '-4'"),
        ("1\n0 0 0\n1 4 2 0\n2 0 1 1", 3, "expected 2 predecessors of task 1, got 1"),
        ("1\n0 0 0\n1 4 1 9\n2 0 1 1", 3, "unknown predecessor 9 of task 1"),
        ("1\n0 0 0\n0 4 1 0\n2 0 1 0", 3, "task 0 is given twice"),
    ],
)
def test_read_names_the_line_of_an_error(text: str, line: int, message: str):
    with pytest.raises(InputError, match=message) as caught:
        make(text)
    assert caught.value.line == line


@given(graphs())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_written_graphs_read_back_the_same(graph: TaskGraph):
    if not graph.num_tasks:
        return
    again = make(stg.dump(graph).decode())
    for key in ("work", "sources", "targets"):
        assert np.array_equal(getattr(again, key), getattr(graph, key)), key


def test_write_numbers_tasks_parents_first():
    assert stg.dump(TaskGraph([1.0, 2.5], [1], [0])) == b"2\n0 0 0\n1 2.5 1 0\n2 1 1 1\n3 0 1 2\n"
