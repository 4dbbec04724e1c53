"""WfFormat, old and new: what becomes of it, and that nothing is lost on the way back."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import graphs

from weft.errors import InfeasibleError, InputError
from weft.io.files import read_graph, read_problem, write_graph
from weft.io.wfformat import graph_document, graph_from_document
from weft.model.graph import TaskGraph

NEW: dict[str, Any] = {
    "name": "sample",
    "schemaVersion": "1.5",
    "author": {"name": "somebody", "unknown": [1, {"deep": None}]},
    "workflow": {
        "specification": {
            "tasks": [
                {
                    "name": "split",
                    "id": "split_ID01",
                    "parents": [],
                    "children": ["work_ID02"],
                    "outputFiles": ["a", "b"],
                },
                {
                    "name": "work",
                    "id": "work_ID02",
                    "parents": ["split_ID01"],
                    "inputFiles": ["a", "b", "c"],
                    "outputFiles": ["d"],
                },
                {"name": "NF.MERGE", "id": "NF.MERGE_3", "parents": ["work_ID02"], "inputFiles": ["d"]},
            ],
            "files": [
                {"id": "a", "sizeInBytes": 10},
                {"id": "b", "sizeInBytes": 5},
                {"id": "c", "sizeInBytes": 1000},
                {"id": "d", "sizeInBytes": 7},
            ],
        },
        "execution": {
            "makespanInSeconds": 9,
            "tasks": [
                {
                    "id": "work_ID02",
                    "runtimeInSeconds": 2.5,
                    "coreCount": 4,
                    "memoryInBytes": 100,
                    "command": {"program": "cruncher"},
                },
                {"id": "split_ID01", "runtimeInSeconds": 1, "avgCPU": 99.5},
                {"id": "NF.MERGE_3", "runtimeInSeconds": 3, "command": {"program": "cat x \\\n > y"}},
            ],
            "machines": [
                {"nodeName": "big", "cpu": {"coreCount": 8, "speedInMHz": 1200}, "memoryInBytes": 1000},
                {"nodeName": "small"},
            ],
        },
    },
}
OLD: dict[str, Any] = {
    "name": "old",
    "schemaVersion": "1.3",
    "wms": {"name": "Pegasus"},
    "workflow": {
        "makespan": 10,
        "tasks": [
            {
                "name": "first_ID1",
                "id": "ID1",
                "runtime": 1.5,
                "cores": 2,
                "memory": 3,
                "files": [{"name": "x", "size": 8, "link": "output"}],
            },
            {
                "name": "second_ID2",
                "id": "ID2",
                "runtime": 2,
                "parents": ["first_ID1"],
                "files": [{"name": "x", "size": 8, "link": "input"}],
            },
        ],
        "machines": [{"nodeName": "node", "cpu": {"count": 2, "speed": 2400}, "memory": 64}],
    },
}


def saved(document: dict[str, Any], tmp_path: Path) -> Path:
    path = tmp_path / "in.json"
    path.write_text(json.dumps(document))
    return path


def test_read_takes_names_kinds_and_run_times():
    graph = graph_from_document(NEW)
    assert graph.names == ("split_ID01", "work_ID02", "NF.MERGE_3")
    assert [graph.kinds[k] for k in graph.kind] == ["split", "cruncher", "NF.MERGE"]
    assert graph.work.tolist() == [1.0, 2.5, 3.0]
    assert graph.memory.tolist() == [0.0, 100.0, 0.0]


def test_read_sums_the_files_both_ends_share():
    edges = [(e.source, e.target, e.data) for e in graph_from_document(NEW).edges()]
    assert edges == [("split_ID01", "work_ID02", 15.0), ("work_ID02", "NF.MERGE_3", 7.0)]


def test_read_counts_cores_as_demand():
    graph = graph_from_document(NEW)
    assert (graph.resources, graph.demands.tolist()) == (("cores",), [[1.0], [4.0], [1.0]])


def test_read_has_no_demand_when_every_task_takes_one_core():
    document = copy.deepcopy(NEW)
    document["workflow"]["execution"]["tasks"][0]["coreCount"] = 1
    assert graph_from_document(document).resources == ()


def test_read_uses_the_machines_of_the_file(tmp_path: Path):
    cluster = read_problem(saved(NEW, tmp_path)).cluster
    assert cluster.device_names == ("big-0", "small-0")
    assert [(c.slots, c.speed, c.memory, dict(c.capacity)) for c in cluster.classes] == [
        (8, 1.0, 1000.0, {"cores": 8.0}),
        (1, 1.0, np.inf, {"cores": 1.0}),
    ]
    assert cluster.transfer_time(0, 1, 1e9) == 1.0


def test_cores_over_every_machine_are_infeasible(tmp_path: Path):
    document = copy.deepcopy(NEW)
    document["workflow"]["execution"]["tasks"][0]["coreCount"] = 9
    with pytest.raises(InfeasibleError, match="work_ID02"):
        read_problem(saved(document, tmp_path))


def test_cores_do_not_count_on_clusters_without_them(tmp_path: Path):
    document = copy.deepcopy(NEW)
    document["workflow"]["execution"]["tasks"][0]["coreCount"] = 9
    assert np.isfinite(read_problem(saved(document, tmp_path), "cpu-4").run_times).all()


def test_read_old_files_by_name_with_sizes_inside():
    graph = graph_from_document(OLD)
    assert graph.names == ("ID1", "ID2")
    assert [graph.kinds[k] for k in graph.kind] == ["first", "second"]
    assert graph.work.tolist() == [1.5, 2.0]
    assert graph.data.tolist() == [8.0]
    assert graph.memory.tolist() == [3000.0, 0.0]
    assert graph.demands.tolist() == [[2.0], [1.0]]


def test_read_accepts_version_1_4_with_children_only():
    document = copy.deepcopy(OLD)
    document["schemaVersion"] = "1.4"
    first, second = document["workflow"]["tasks"]
    del second["parents"]
    first["children"] = ["ID2"]
    first["runtimeInSeconds"] = first.pop("runtime")
    graph = graph_from_document(document)
    assert (graph.num_edges, graph.work.tolist()) == (1, [1.5, 2.0])


@pytest.mark.parametrize("document", [NEW, OLD], ids=["1.5", "1.3"])
def test_write_keeps_every_unknown_field(document: dict[str, Any], tmp_path: Path):
    graph = read_graph(saved(document, tmp_path))
    write_graph(graph, tmp_path / "out.json", "wfformat")
    assert json.loads((tmp_path / "out.json").read_text()) == document
    assert read_graph(tmp_path / "out.json").metadata["wfformat"] == document


def test_write_changes_only_what_weft_knows():
    graph = graph_from_document(NEW)
    changed = graph_document(graph.replaced(work=graph.work * 2, memory=[0.0, 200.0, 0.0]))
    expected = copy.deepcopy(NEW)
    for run in expected["workflow"]["execution"]["tasks"]:
        run["runtimeInSeconds"] *= 2
    expected["workflow"]["execution"]["tasks"][0]["memoryInBytes"] = 200
    assert changed == expected


def test_write_of_an_old_file_keeps_its_units():
    graph = graph_from_document(OLD)
    first = graph_document(graph.replaced(work=[4.0, 2.0], memory=[5000.0, 0.0]))["workflow"]["tasks"][0]
    assert (first["runtime"], first["memory"]) == (4, 5)


def test_write_does_not_change_the_document_it_came_from():
    document = copy.deepcopy(NEW)
    graph = graph_from_document(document)
    graph_document(graph.replaced(work=graph.work * 2))
    assert document == NEW


def test_write_makes_a_new_document_when_the_structure_changed():
    graph = graph_from_document(NEW)
    document = graph_document(graph.with_names(["a", "b", "c"]))
    assert document["schemaVersion"] == "1.5"
    assert graph_from_document(document).names == ("a", "b", "c")


@given(graphs())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_written_graphs_read_back_the_same(graph: TaskGraph):
    if not graph.num_tasks:
        return
    again = graph_from_document(graph_document(graph))
    assert again.names == graph.names
    assert [again.kinds[k] for k in again.kind] == [graph.kinds[k] for k in graph.kind]
    for key in ("work", "sources", "targets", "data", "memory"):
        assert np.array_equal(getattr(again, key), getattr(graph, key)), key


def test_write_refuses_tasks_without_a_run_time():
    graph = TaskGraph([np.nan], classes=("gpu",), times=[[1.0]])
    with pytest.raises(InputError, match="one run time per task"):
        graph_document(graph)
