"""Cluster files: classes, nodes, links, and the clusters that come with weft."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import clusters

from weft.errors import InputError
from weft.io.clusters import builtin_cluster, builtin_clusters, cluster_document, cluster_from_document
from weft.io.files import read_cluster, write_cluster
from weft.io.json_files import dump_json, parse_json
from weft.io.toml_files import dump_toml, parse_toml
from weft.model.cluster import Cluster

NODES = """
bandwidth = "1 GB/s"
latency = "10 us"
[[node]]
count = 2
inner_bandwidth = "50 GB/s"
[[node.device]]
class = "a100"
count = 2
speed = 3.5
[[device]]
class = "cpu"
count = 2
"""


def make(text: str) -> Cluster:
    return cluster_from_document(tomllib.loads(text))


def links(cluster: Cluster, data: float = 1e9) -> list[list[float]]:
    every = range(cluster.num_devices)
    return [[cluster.transfer_time(a, b, data) for b in every] for a in every]


def test_cluster_lists_devices_of_nodes_first():
    assert make(NODES).device_names == ("a100-0", "a100-1", "a100-2", "a100-3", "cpu-0", "cpu-1")


def test_cluster_links_are_inner_within_a_node_and_outer_elsewhere():
    cluster = make(NODES)
    assert cluster.transfer_time(0, 1, 50e9) == pytest.approx(1.0 + 1e-5)
    assert cluster.transfer_time(1, 2, 1e9) == pytest.approx(1.0 + 1e-5)
    assert cluster.transfer_time(4, 5, 1e9) == pytest.approx(1.0 + 1e-5)


def test_cluster_lone_devices_share_one_link_group():
    assert len(make(NODES).latency) == 3


def test_cluster_without_bandwidth_has_infinite_links():
    assert make('[[device]]\nclass = "cpu"\ncount = 2').transfer_time(0, 1, 1e30) == 0.0


def test_cluster_node_without_inner_bandwidth_uses_the_outer_one():
    cluster = make('bandwidth = 4\n[[node]]\n[[node.device]]\nclass = "cpu"\ncount = 2')
    assert cluster.transfer_time(0, 1, 8.0) == 2.0


def test_cluster_link_between_classes_overrides_the_outer_one():
    extra = '[[link]]\nbetween = ["a100", "cpu"]\nbandwidth = "2 GB/s"\nlatency = 0\n'
    cluster = make(NODES + extra)
    assert cluster.transfer_time(0, 4, 1e9) == cluster.transfer_time(4, 0, 1e9) == 0.5
    assert cluster.transfer_time(0, 2, 1e9) == pytest.approx(1.0 + 1e-5)


def test_cluster_link_within_a_class_leaves_the_inside_of_a_node_alone():
    cluster = make(NODES + '[[link]]\nbetween = ["a100", "a100"]\nbandwidth = "2 GB/s"\nlatency = 0\n')
    assert cluster.transfer_time(0, 2, 1e9) == 0.5
    assert cluster.transfer_time(0, 1, 50e9) == 1.0


def test_cluster_link_between_nodes_overrides_that_between_classes():
    cluster = make(NODES + '[[link]]\nnodes = [0, 2]\nbandwidth = "4 GB/s"\n')
    assert cluster.transfer_time(0, 4, 1e9) == pytest.approx(0.25 + 1e-5)
    assert cluster.transfer_time(0, 5, 1e9) == pytest.approx(1.0 + 1e-5)


def test_cluster_full_tables_may_be_asymmetric():
    cluster = make(
        'links = { bandwidth = [[0, "4 B/s"], [2, 0]], latency = [[0, 1], ["2 s", 0]] }\n'
        '[[device]]\nclass = "cpu"\ncount = 2'
    )
    assert (cluster.transfer_time(0, 1, 8), cluster.transfer_time(1, 0, 8)) == (3.0, 6.0)


def test_class_without_speed_has_speed_one():
    assert make('[[device]]\nclass = "cpu"').classes[0].speed == 1.0


def test_class_with_times_has_only_a_speed_that_is_given():
    assert make('[[device]]\nclass = "cpu"\ntimes = { bert = 2.0 }').classes[0].speed is None


def test_class_mentioned_again_refers_to_its_definition():
    cluster = make('[[device]]\nclass = "gpu"\n[[device]]\nclass = "gpu"\nspeed = 2.0\nmemory = "16 GB"')
    assert [(c.name, c.speed, c.memory) for c in cluster.classes] == [("gpu", 2.0, 16e9)]


def test_class_defined_twice_differently_is_an_error_naming_the_field():
    with pytest.raises(InputError, match="class 'gpu' is defined twice with different speed") as caught:
        make('[[device]]\nclass = "gpu"\nspeed = 1.5\n[[device]]\nclass = "gpu"\nspeed = 2.0')
    assert caught.value.field == "device[1]"


@pytest.mark.parametrize("name", list(builtin_clusters()))
def test_builtin_clusters_state_their_origin(name: str):
    cluster = builtin_cluster(name)
    assert cluster.name == name
    assert cluster.provenance
    assert all(c.memory < np.inf and c.watts > 0 for c in cluster.classes)


def test_builtin_clusters_hold_the_named_ones():
    assert set(builtin_clusters()) == {
        "cpu-4",
        "gpu-mix-8",
        "gpu-mix-16",
        "gpu-mix-32",
        "gpu-nodes-16",
        "k80-mix-8",
        "laptop",
        "related-8",
    }


def test_builtin_gpu_speeds_depend_on_the_kind():
    cluster = builtin_cluster("gpu-mix-8")
    speeds = {c.name: (c.speeds["transformer"], c.speeds["recsys"]) for c in cluster.classes}
    assert speeds == {"t4": (1.0, 1.0), "p100": (1.1, 1.5), "v100": (1.9, 0.8), "a100": (5.0, 0.9)}


def test_builtin_nodes_are_faster_inside():
    cluster = builtin_cluster("gpu-nodes-16")
    assert cluster.transfer_time(0, 1, 50e9) == pytest.approx(1.0 + 5e-6)
    assert cluster.transfer_time(3, 4, 5e9) == pytest.approx(1.0 + 2e-5)


def test_read_cluster_suggests_a_builtin():
    with pytest.raises(InputError, match=r"did you mean 'gpu-mix-8'\? \(built in: cpu-4, "):
        read_cluster("gpu-mix8")


def test_read_cluster_prefers_a_path_over_a_builtin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "cpu-4").write_text('[[device]]\nclass = "mine"')
    monkeypatch.chdir(tmp_path)
    assert read_cluster("./cpu-4").device_names == ("mine-0",)


@pytest.mark.parametrize("suffix", ["toml", "json"])
@pytest.mark.parametrize("name", list(builtin_clusters()))
def test_write_cluster_reads_back_the_same(name: str, suffix: str, tmp_path: Path):
    cluster = builtin_cluster(name)
    write_cluster(cluster, tmp_path / f"c.{suffix}")
    again = read_cluster(tmp_path / f"c.{suffix}")
    assert (again.classes, again.device_names, again.name) == (cluster.classes, cluster.device_names, name)
    assert again.node.tolist() == cluster.node.tolist()
    assert links(again) == links(cluster)
    assert again.provenance == cluster.provenance


@given(clusters())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_cluster_document_keeps_devices_and_links(cluster: Cluster):
    document = cluster_document(cluster)
    for again in (
        cluster_from_document(parse_json(dump_json(document), "c.json")),
        cluster_from_document(parse_toml(dump_toml(document), "c.toml")),
    ):
        assert again.device_names == cluster.device_names
        assert {c.name: c for c in again.classes} == {c.name: c for c in cluster.classes}
        assert links(again, 3.0) == links(cluster, 3.0)
        assert len(set(zip(again.node.tolist(), cluster.node.tolist(), strict=True))) == len(
            set(again.node.tolist())
        )


def test_cluster_document_refuses_a_node_that_is_not_together():
    cluster = make('[[device]]\nclass = "cpu"\ncount = 3').replaced(node=[0, 1, 0])
    with pytest.raises(InputError, match="devices of a node together"):
        cluster_document(cluster)


def test_cluster_refuses_more_nodes_than_a_link_table_holds():
    document = tomllib.loads(NODES.replace("count = 2", "count = 100000", 1))
    with pytest.raises(InputError, match=r"node: expected at most 4096 nodes with links of their own"):
        cluster_from_document(document)
