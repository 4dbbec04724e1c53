"""Kinds that a cluster names and no task has."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import weft
from weft.errors import UnknownKindWarning
from weft.io.clusters import builtin_cluster
from weft.io.files import write_cluster, write_graph
from weft.io.kind_names import unknown_kinds, warn_unknown_kinds, warning_text
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Problem


def tasks_of(*kinds: str) -> TaskGraph:
    builder = GraphBuilder("workflow")
    for i, kind in enumerate(kinds):
        builder.task(f"t{i}", 1.0, kind=kind)
    return builder.build()


def cluster_of(speeds: Mapping[str, float], times: Mapping[str, float] | None = None) -> Cluster:
    classes = (DeviceClass("cpu"), DeviceClass("gpu", speed=2.0, speeds=speeds, times=times or {}))
    return Cluster.uniform(classes, (1, 1), name="mine")


def test_unknown_kinds_finds_a_misspelling_in_speeds_and_times():
    graph = tasks_of("mProject", "mAdd")
    for cluster in (cluster_of({"mProjekt": 3.0}), cluster_of({}, {"mProjekt": 3.0})):
        (found,) = unknown_kinds(cluster, [graph])
        assert (found.kind, found.classes, found.meant) == ("mProjekt", ("gpu",), "mProject")
        assert warning_text(cluster, [found]) == (
            "cluster mine names a kind that no task has: 'mProjekt' of class gpu (did you mean 'mProject'?)"
        )


def test_unknown_kinds_takes_no_kind_for_another_that_the_class_names_too():
    """A cluster for many workflows lists ``map-1`` and ``map-2``; a workflow with one of them is no misspelling."""
    (found,) = unknown_kinds(cluster_of({"map-1": 2.0, "map-2": 3.0}), [tasks_of("map-1")])
    assert (found.kind, found.meant) == ("map-2", None)


def test_unknown_kinds_are_those_of_no_file_of_several():
    cluster = cluster_of({"mAdd": 2.0, "blast": 3.0})
    montage, genome = Problem(tasks_of("mAdd"), cluster), Problem(tasks_of("blast"), cluster)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_unknown_kinds([montage, genome])
    with pytest.warns(UnknownKindWarning, match="names a kind that no task has: 'blast'$"):
        warn_unknown_kinds([montage, montage])


def test_unknown_kinds_leaves_builtin_clusters_alone_but_not_their_changed_copies():
    graph, cluster = tasks_of("transformers"), builtin_cluster("gpu-mix-8")
    assert unknown_kinds(cluster, [graph]) == ()
    assert unknown_kinds(cluster.scaled_links(2.0), [graph]) == ()
    faster = tuple(replace(one, speed=9.0) for one in cluster.classes)
    found = unknown_kinds(cluster.replaced(classes=faster), [graph])
    assert [one.meant for one in found] == ["transformers", None, None, None, None, None]


def test_warning_names_all_misspelt_kinds_and_few_others():
    speeds = dict.fromkeys(["a", "b", "c", "d", "e", "f", "mProjekt"], 2.0)
    cluster = cluster_of(speeds)
    text = warning_text(cluster, unknown_kinds(cluster, [tasks_of("mProject")]))
    assert text == (
        "cluster mine names 7 kinds that no task has: 'mProjekt' of class gpu (did you mean 'mProject'?), "
        "'a', 'b', 'c', 'd' and 2 more"
    )


def test_read_problem_and_compare_warn_the_library_user(tmp_path: Path):
    write_graph(tasks_of("mProject"), tmp_path / "workflow.json")
    write_cluster(cluster_of({"mProjekt": 3.0}), tmp_path / "mine.toml")
    with pytest.warns(UnknownKindWarning, match="did you mean 'mProject'") as caught:
        weft.read_problem(tmp_path / "workflow.json", tmp_path / "mine.toml")
    assert [Path(one.filename).name for one in caught] == [Path(__file__).name]
    with pytest.warns(UnknownKindWarning) as caught:
        weft.compare([tmp_path / "workflow.json"] * 2, ["heft"], cluster=tmp_path / "mine.toml")
    assert len(caught) == 1
