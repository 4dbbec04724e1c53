"""What ``weft.show`` says about graphs with known answers, and its pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft
from weft.errors import UnknownKindWarning
from weft.evaluation.figures import graphs
from weft.evaluation.questions.fit import Lack
from weft.model.cluster import Cluster, DeviceClass
from weft.model.generate import generate
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Job, Problem


def two_kinds() -> TaskGraph:
    """Two chains that meet; only a GPU runs ``b``, whose work is known by class alone."""
    builder = GraphBuilder("two-kinds")
    builder.task("a", 4.0, kind="x")
    builder.task("b", kind="y", times={"gpu": 3.0}, after={"a": 100.0})
    builder.task("c", 1.0, kind="x", memory=50.0)
    builder.task("d", 2.0, kind="x", after={"b": 10.0, "c": 20.0})
    return builder.build()


def machines(memory: float = 100.0) -> Cluster:
    classes = (DeviceClass("cpu", memory=memory), DeviceClass("gpu", speed=2.0, memory=10.0))
    return Cluster.uniform(classes, (2, 1), bandwidth=10.0, name="mine")


def test_show_counts_levels_work_and_the_critical_path(fork: TaskGraph):
    found = weft.show(fork)
    assert (found.tasks, found.edges, found.depth, found.width) == (3, 2, 2, 2)
    assert (found.work, found.critical_path, found.parallelism) == (21.0, 11.0, 21.0 / 11.0)
    assert found.critical_tasks == ("root", "left")
    assert (found.data, found.largest_data, found.largest_edge) == (200.0, 100.0, ("root", "left"))
    assert found.fit is None


def test_show_takes_the_shortest_time_where_there_is_no_work():
    found = weft.show(two_kinds())
    assert (found.work, found.critical_path) == (10.0, 9.0)
    assert found.critical_tasks == ("a", "b", "d")
    assert [(kind.kind, kind.tasks, kind.work) for kind in found.kinds] == [("x", 3, 7.0), ("y", 1, 3.0)]
    assert found.levels == ({"x": 2}, {"y": 1}, {"x": 1})


def test_show_says_which_classes_can_run_what():
    found = weft.show(two_kinds(), machines())
    x, y = found.kinds
    assert (x.run_times, x.no_class, x.one_class) == ({"cpu": 7.0 / 3.0, "gpu": 1.5}, 0, 1)
    assert (y.run_times, y.no_class, y.one_class) == ({"cpu": None, "gpu": 3.0}, 0, 1)
    assert found.fit is not None
    assert [(one.name, one.devices, one.tasks) for one in found.fit.classes] == [("cpu", 2, 3), ("gpu", 1, 3)]
    assert (found.fit.one_class, found.fit.no_class, found.fit.lacks) == (2, 0, ())
    assert found.fit.ccr == Problem(two_kinds(), machines()).ccr
    assert found.fit.fastest_path == 2.0 + 3.0 + 1.0


def test_show_says_what_a_task_cannot_get_instead_of_failing():
    fit = weft.show(two_kinds(), machines(memory=20.0)).fit
    assert fit is not None
    assert (fit.no_class, fit.ccr, fit.fastest_path) == (1, None, None)
    assert fit.lacks == (Lack("memory", 1, "c", 50.0, 20.0),)


def test_show_counts_only_classes_a_job_may_use(fork: TaskGraph):
    job = Job(fork, eligible=("cpu-0",))
    fit = weft.show(Problem(job, machines())).fit
    assert fit is not None
    assert (fit.one_class, [one.tasks for one in fit.classes]) == (3, [3, 0])


def test_show_of_several_jobs_names_releases_and_the_longest_path(fork: TaskGraph):
    jobs = (Job(fork, "first"), Job(two_kinds(), "second", release=5.0, deadline=60.0))
    found = weft.show(Problem(jobs, machines()))
    assert [(one.job, one.tasks, one.release, one.deadline) for one in found.jobs] == [
        ("first", 3, 0.0, None),
        ("second", 4, 5.0, 60.0),
    ]
    assert (found.tasks, found.critical_path, found.critical_tasks) == (7, 11.0, ("first/root", "first/left"))


def test_show_warns_of_kinds_that_no_task_has_and_lists_them(fork: TaskGraph):
    cluster = Cluster.uniform((DeviceClass("cpu", speeds={"tusk": 2.0, "task": 1.0, "io": 1.0}),), (1,))
    with pytest.warns(UnknownKindWarning, match="2 kinds that no task has: 'tusk', 'io'"):
        found = weft.show(fork, cluster)
    assert found.fit is not None
    assert [one.kind for one in found.fit.unknown_kinds] == ["tusk", "io"]


def test_show_agrees_with_the_cheap_bound_and_takes_all_tasks():
    graph = generate("layered", 200, seed=3)
    found = weft.show(graph)
    assert sum(sum(level.values()) for level in found.levels) == 200
    assert found.critical_path == pytest.approx(weft.model.bounds.longest_path(graph, graph.work))
    assert found.work == pytest.approx(graph.work.sum())


def test_show_of_an_empty_graph_is_empty():
    found = weft.show(TaskGraph([]))
    assert (found.tasks, found.depth, found.width, found.parallelism, found.critical_tasks) == (
        0,
        0,
        0,
        None,
        (),
    )


def test_picture_shortens_long_graphs_and_scales_wide_levels():
    long = graphs.terminal([{"a": 1}] * 100, ["a"])
    assert "   ...      76  on 76 levels of 1\n" in long
    assert len(long.splitlines()) == 1 + 12 + 1 + 12 + 1
    wide = graphs.terminal([{"a": 100, "b": 100}, {"b": 1}], ["a", "b"], 56).splitlines()
    assert wide == [
        " level   tasks  (a block is 5 tasks)",
        f"     1     200  {'=' * 20}{'#' * 20}",
        "     2       1  #",
        "= a   # b",
    ]


def test_picture_names_as_many_kinds_as_there_are_symbols():
    kinds = [f"k{i}" for i in range(20)]
    text = graphs.terminal([dict.fromkeys(kinds, 1)], kinds)
    assert text.splitlines()[1].endswith("/<>....")
    assert ". 4 more kinds" in text


def test_positions_put_tasks_below_those_they_follow():
    graph = weft.TaskGraph([1.0] * 4, [0, 1], [3, 2])
    layers = graphs.Layers(
        graph.names,
        ("task",),
        np.zeros(4, int),
        np.array([0, 0, 1, 1]),
        graph.sources,
        graph.targets,
        np.array([0]),
    )
    assert graphs.positions(layers).tolist() == [[-0.5, 0], [0.5, 0], [0.5, 1], [-0.5, 1]]


@pytest.mark.parametrize(
    "graph",
    [two_kinds(), generate("layered", 400, seed=1), generate("chain", 700, seed=1), TaskGraph([])],
    ids=["tasks", "levels", "bands", "empty"],
)
def test_plot_is_the_same_every_time(graph: TaskGraph, tmp_path: Path):
    for name in ("one.svg", "two.svg"):
        weft.show(graph, plot=tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_plot_takes_any_name_as_it_is(tmp_path: Path):
    builder = GraphBuilder("$name")
    builder.task("$a", 1.0, kind="_$kind")
    builder.task("b", 1.0, kind="$\\frac$", after=["$a"])
    weft.show(builder.build(), plot=tmp_path / "odd.svg")
    assert (tmp_path / "odd.svg").stat().st_size > 0
