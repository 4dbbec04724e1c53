"""Graphs: columns, views, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import graphs

from weft.errors import InputError
from weft.model.graph import Edge, GraphBuilder, Task, TaskGraph


def test_graph_sorts_edges_by_source_and_target():
    graph = TaskGraph([1.0, 1.0, 1.0], [1, 0, 0], [2, 2, 1], [5.0, 6.0, 7.0])
    assert list(zip(graph.sources, graph.targets, graph.data, strict=True)) == [
        (0, 1, 7),
        (0, 2, 6),
        (1, 2, 5),
    ]


def test_graph_columns_are_read_only():
    graph = TaskGraph([1.0, 2.0], [0], [1])
    with pytest.raises(ValueError, match="read-only"):
        graph.work[0] = 3.0


def test_graph_does_not_alias_its_input():
    work = np.array([1.0, 2.0])
    graph = TaskGraph(work)
    work[0] = 9.0
    assert graph.work[0] == 1.0


def test_graph_without_tasks_is_empty():
    graph = TaskGraph(np.zeros(0))
    assert (len(graph), graph.num_edges, graph.order.tolist(), graph.names) == (0, 0, [], ())


def test_graph_views_carry_names():
    graph = TaskGraph([1.0, 2.0], [0], [1], [8.0], names=("a", "b"), kinds=("x", "y"), kind=[0, 1])
    assert graph.task(1) == Task(1, "b", "y", 2.0, 1, 0.0)
    assert list(graph.edges()) == [Edge("a", "b", 8.0, 1.0, -1)]
    assert [task.name for task in graph.tasks()] == ["a", "b"]


def test_graph_neighbours_are_indices():
    graph = TaskGraph([1.0] * 4, [2, 2, 1], [0, 3, 3])
    assert graph.successors(2).tolist() == [0, 3]
    assert graph.predecessors(3).tolist() == [1, 2]
    assert graph.predecessors(1).tolist() == []


def test_graph_replaced_changes_only_what_is_named():
    graph = TaskGraph([1.0, 2.0], [0], [1], [8.0], memory=[3.0, 4.0])
    other = graph.replaced(work=[5.0, 6.0])
    assert other.work.tolist() == [5.0, 6.0]
    assert (other.memory.tolist(), other.data.tolist()) == ([3.0, 4.0], [8.0])


def test_graph_with_names_keeps_the_columns():
    graph = TaskGraph([1.0, 2.0], [0], [1]).with_names(("x", "y"))
    assert (graph.names, graph.index) == (("x", "y"), {"x": 0, "y": 1})


def test_builder_resolves_names_and_tables():
    builder = GraphBuilder("demo")
    builder.task("b", times={"gpu": 2.0}, demands={"disk": 1.0}, after=["a"])
    builder.task("a", 1.0, kind="cnn")
    graph = builder.build()
    assert (graph.kinds, graph.classes, graph.resources) == (("task", "cnn"), ("gpu",), ("disk",))
    assert graph.predecessors(0).tolist() == [1]
    assert graph.demands.tolist() == [[1.0], [0.0]]


def test_builder_without_tasks_builds_an_empty_graph():
    assert len(GraphBuilder().build()) == 0


def _duplicate_name() -> None:
    builder = GraphBuilder()
    builder.task("a", 1.0)
    builder.task("a", 1.0)


def _unknown_parent() -> None:
    builder = GraphBuilder()
    builder.task("a", 1.0, after=["ghost"])
    builder.build()


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: TaskGraph([1.0, -1.0]), "tasks.t1.work: expected a finite number >= 0, got -1.0"),
    (lambda: TaskGraph([np.inf]), "tasks.t0.work: expected a finite number >= 0, got inf"),
    (lambda: TaskGraph([1.0], slots=1.5), "slots: expected whole numbers"),
    (
        lambda: TaskGraph([1.0], time_unit="days"),
        "time_unit: expected one of s, ms, us, min, h, unit, got 'days'",
    ),
    (lambda: TaskGraph([1.0], kind=[2**32]), "kind: expected numbers up to 2147483647"),
    (lambda: TaskGraph([1.0], curves=[[np.inf]], curve=[0]), "curves: expected finite rates"),
    (lambda: TaskGraph([np.nan]), "tasks.t0.work: expected a run time (work, or times per class), got nan"),
    (lambda: TaskGraph([1.0], [0], [0]), "tasks.t0: the graph has a cycle: t0 -> t0"),
    (lambda: TaskGraph([1.0] * 2, [0, 1], [1, 0]), "the graph has a cycle: t0 -> t1 -> t0"),
    (lambda: TaskGraph([1.0] * 2, [0], [2]), "edges[0]: edge target 2 is outside 0..1"),
    (lambda: TaskGraph([1.0] * 2, [-1], [0]), "edges[0]: edge source -1 is outside 0..1"),
    (lambda: TaskGraph([1.0] * 2, [0, 0], [1]), "expected as many edge targets as sources, got 1 and 2"),
    (lambda: TaskGraph([1.0] * 2, [0, 0], [1, 1]), "edges: edge t0 -> t1 is given twice"),
    (
        lambda: TaskGraph([1.0] * 2, [0], [1], [-4.0]),
        "edges: edge t0 -> t1: expected finite data >= 0, got -4.0",
    ),
    (lambda: TaskGraph([1.0] * 2, [0], [1], [1.0, 2.0]), "data: expected 1 values, got shape (2,)"),
    (lambda: TaskGraph([1.0], names=("a", "b")), "names: expected 1 task names, got 2"),
    (lambda: TaskGraph([1.0] * 2, names=("a", "a")), "tasks.a: task 'a' is defined twice"),
    (lambda: TaskGraph([1.0], slots=[0]), "tasks.t0.slots: expected a whole number >= 1, got 0"),
    (lambda: TaskGraph([1.0], slots=[1.5]), "slots: expected whole numbers"),
    (lambda: TaskGraph([1.0], memory=[np.nan]), "tasks.t0.memory: expected a finite number >= 0, got nan"),
    (lambda: TaskGraph([1.0], kind=[3]), "tasks.t0.kind: expected an index into kinds, got 3"),
    (lambda: TaskGraph([1.0], curve=[0]), "tasks.t0.curve: expected an index into curves, got 0"),
    (lambda: TaskGraph([1.0], curves=[[0.0]], curve=[0]), "curves: expected rates > 0"),
    (
        lambda: TaskGraph([1.0] * 2, [0], [1], probability=[0.5]),
        "edges: edge t0 -> t1: an edge outside a branch group has probability 1, got 0.5",
    ),
    (
        lambda: TaskGraph([1.0] * 3, [0, 0], [1, 2], probability=[0.5, 0.4], branch=[0, 0]),
        "tasks.t0: branch 0 of task 't0': probabilities sum to 0.9, not 1",
    ),
    (_duplicate_name, "tasks.a: task 'a' is defined twice"),
    (_unknown_parent, "edges: edge 'ghost' -> 'a' names an unknown task 'ghost'"),
]


@pytest.mark.parametrize(("make", "text"), REFUSED, ids=[text for _, text in REFUSED])
def test_graph_refuses_bad_input_in_one_line(make: Callable[[], object], text: str):
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == text


def test_graph_names_a_long_cycle_in_short():
    n = 100
    with pytest.raises(InputError, match=r"\.\.\. 89 more \.\.\."):
        TaskGraph(np.ones(n), np.arange(n), (np.arange(n) + 1) % n)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(graphs())
def test_graph_order_puts_parents_first(graph: TaskGraph):
    place = np.argsort(graph.order)
    assert (place[graph.sources] < place[graph.targets]).all()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(graphs())
def test_graph_order_holds_under_reversed_indices(graph: TaskGraph):
    last = graph.num_tasks - 1
    flipped = TaskGraph(graph.work, last - graph.sources, last - graph.targets)
    place = np.argsort(flipped.order)
    assert sorted(flipped.order.tolist()) == list(range(graph.num_tasks))
    assert (place[flipped.sources] < place[flipped.targets]).all()
