"""Clusters: device names, links, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from weft.errors import InputError
from weft.model.cluster import Cluster, DeviceClass

CPU = DeviceClass("cpu")


def nodes() -> Cluster:
    """Two nodes of two devices: 50 bytes/s inside, 1 byte/s and 2 s latency between."""
    return Cluster(
        (CPU,),
        [0, 0, 0, 0],
        [0, 0, 1, 1],
        [0, 0, 1, 1],
        [[0.0, 2.0], [2.0, 0.0]],
        [[50.0, 1.0], [1.0, 50.0]],
    )


def test_cluster_names_devices_by_class_and_index():
    cluster = Cluster.uniform((CPU, DeviceClass("gpu")), (1, 2))
    assert cluster.device_names == ("cpu-0", "gpu-0", "gpu-1")
    assert cluster.device_index["gpu-1"] == 2
    assert repr(cluster) == "Cluster('cluster', 1 x cpu, 2 x gpu)"


def test_cluster_columns_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        nodes().device_class[0] = 1


@pytest.mark.parametrize(
    ("source", "target", "data", "time"),
    [(0, 0, 100.0, 0.0), (0, 1, 100.0, 2.0), (0, 2, 100.0, 102.0), (0, 2, 0.0, 2.0), (3, 2, 0.0, 0.0)],
)
def test_cluster_transfer_time_follows_the_link(source: int, target: int, data: float, time: float):
    assert nodes().transfer_time(source, target, data) == time


def test_cluster_transfer_over_infinite_bandwidth_is_latency():
    assert Cluster.uniform((CPU,), (2,), latency=3.0).transfer_time(0, 1, 1e12) == 3.0


def test_cluster_mean_link_leaves_out_a_device_and_itself():
    latency, inverse = nodes().mean_link
    assert latency == pytest.approx(8 * 2.0 / 12)
    assert inverse == pytest.approx((4 / 50.0 + 8 / 1.0) / 12)


def test_cluster_mean_link_of_one_device_is_free():
    assert Cluster.uniform((CPU,), (1,), bandwidth=1.0).mean_link == (0.0, 0.0)


def test_cluster_scaled_links_scale_every_transfer():
    assert nodes().scaled_links(3.0).transfer_time(0, 2, 100.0) == pytest.approx(306.0)


def test_cluster_slots_follow_the_class():
    cluster = Cluster.uniform((DeviceClass("a", slots=3), CPU), (2, 1))
    assert cluster.slots.tolist() == [3, 3, 1]


@pytest.mark.parametrize(
    ("device_class", "kind", "time"),
    [
        (DeviceClass("a", 2.0), "cnn", 5.0),
        (DeviceClass("a", 2.0, speeds={"cnn": 5.0}), "cnn", 2.0),
        (DeviceClass("a", 2.0, speeds={"cnn": 5.0}, times={"cnn": 7.0}), "cnn", 7.0),
        (DeviceClass("a", None, times={"cnn": 7.0}), "cnn", 7.0),
    ],
)
def test_class_run_time_prefers_times_then_speeds(device_class: DeviceClass, kind: str, time: float):
    assert device_class.run_time(kind, 10.0) == time


def test_class_run_time_of_an_unknown_kind_is_nan():
    assert np.isnan(DeviceClass("a", None, times={"cnn": 7.0}).run_time("bert", 1.0))


ONE = ([0], [0], [0])
REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: DeviceClass(""), "class: expected a class name"),
    (lambda: DeviceClass("a", 0.0), "class a: speed: expected a speed > 0, got 0.0"),
    (lambda: DeviceClass("a", float("nan")), "class a: speed: expected a speed > 0, got nan"),
    (lambda: DeviceClass("a", None), "class a: expected speed, speeds or times"),
    (lambda: DeviceClass("a", times={"k": -1.0}), "class a: times.k: expected a run time >= 0, got -1.0"),
    (lambda: DeviceClass("a", speeds={"k": 0.0}), "class a: speeds.k: expected a speed > 0, got 0.0"),
    (lambda: DeviceClass("a", slots=0), "class a: slots: expected a whole number >= 1, got 0"),
    (lambda: DeviceClass("a", batch=1.5), "class a: batch: expected a whole number >= 1, got 1.5"),  # type: ignore[arg-type]
    (lambda: DeviceClass("a", slots=float("nan")), "class a: slots: expected a whole number >= 1, got nan"),  # type: ignore[arg-type]
    (lambda: DeviceClass("a", slots=2**31), "class a: slots: expected at most 2147483647, got 2147483648"),
    (
        lambda: Cluster.uniform((DeviceClass("a"),), (2,), bandwidth=1e-320),
        "links.bandwidth: expected a bandwidth of at least 1e-300, got 1e-320",
    ),
    (lambda: DeviceClass("a", memory=0.0), "class a: memory: expected memory > 0, got 0.0"),
    (lambda: DeviceClass("a", price=-1.0), "class a: price: expected a finite number >= 0, got -1.0"),
    (
        lambda: DeviceClass("a", capacity={"x": -1.0}),
        "class a: capacity.x: expected a capacity >= 0, got -1.0",
    ),
    (lambda: Cluster.uniform((CPU,), (0,)), "device: expected at least one device, got none"),
    (
        lambda: Cluster.uniform((CPU, CPU), (1, 1)),
        "device: class 'cpu' is defined twice with different fields",
    ),
    (
        lambda: Cluster.uniform((CPU,), (2,), bandwidth=0.0),
        "links.bandwidth: expected a bandwidth > 0, got 0.0",
    ),
    (lambda: Cluster.uniform((CPU,), (2,), latency=-1.0), "links.latency: expected a finite latency >= 0"),
    (lambda: Cluster((CPU,), *ONE, [[0.0, 0.0]], [[1.0]]), "links: expected square link tables of one size"),
    (
        lambda: Cluster((CPU,), [1], [0], [0], [[0.0]], [[1.0]]),
        "device_class: expected one index below 1 per device",
    ),
    (
        lambda: Cluster((CPU,), [0], [0], [2], [[0.0]], [[1.0]]),
        "link_group: expected one index below 1 per device",
    ),
    (
        lambda: Cluster((CPU,), [0], [0, 1], [0], [[0.0]], [[1.0]]),
        "node: expected one index per device, got 2 for 1",
    ),
]


@pytest.mark.parametrize(("make", "text"), REFUSED, ids=[text for _, text in REFUSED])
def test_cluster_refuses_bad_input_in_one_line(make: Callable[[], object], text: str):
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value) == text
