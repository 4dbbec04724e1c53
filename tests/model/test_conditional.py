"""Random conditional streams: sizes, splits of branches, the fluid capacity."""

from __future__ import annotations

import numpy as np
import pytest

from weft.errors import InputError
from weft.model.cluster import Cluster, DeviceClass
from weft.model.conditional import SIZES, Ranges, fluid_capacity, random_stream, run_shares
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Problem


def branching() -> TaskGraph:
    """A, then B (0.25) or C, all 10 long."""
    builder = GraphBuilder("branching", time_unit="ms")
    for name in "ABC":
        builder.task(name, 10.0, kind=name)
    builder.edge("A", "B", branch=0, probability=0.25)
    builder.edge("A", "C", branch=0, probability=0.75)
    return builder.build()


@pytest.mark.parametrize("size", SIZES)
def test_random_stream_keeps_to_its_ranges(size: str):
    ranges = SIZES[size]
    for seed in range(20):
        found = random_stream(seed, ranges)
        graph, cluster = found.problem.graph, found.problem.cluster
        assert ranges.kinds[0] <= len(graph.kinds) <= ranges.kinds[1]
        assert ranges.devices[0] <= cluster.num_devices <= ranges.devices[1]
        assert ranges.load[0] <= found.load <= ranges.load[1]
        assert cluster.class_column("batch").max() > 1
        assert (np.diff(graph.predecessor_pointer)[1:] > 0).all()


def test_random_stream_is_a_function_of_its_seed():
    one, two, other = (random_stream(seed, SIZES["usual"]) for seed in (5, 5, 6))
    assert one.problem.graph.times.tobytes() == two.problem.graph.times.tobytes()
    assert one.gap == two.gap != other.gap


def test_random_streams_branch_fork_and_join():
    graphs = [random_stream(seed, SIZES["usual"]).problem.graph for seed in range(40)]
    assert any((g.branch >= 0).any() for g in graphs)
    assert any((np.diff(g.predecessor_pointer) > 1).any() for g in graphs)
    assert any((np.bincount(g.sources[g.branch < 0], minlength=1) > 1).any() for g in graphs)


def test_random_stream_takes_a_given_load():
    drawn, given = (random_stream(3, SIZES["usual"], load=load) for load in (0.0, 0.6))
    assert given.gap * given.load == pytest.approx(drawn.gap * drawn.load)


def test_run_shares_are_the_branch_probabilities():
    assert run_shares(branching(), 0) == pytest.approx([1.0, 0.25, 0.75], abs=0.03)


def test_fluid_capacity_of_equal_devices_is_their_number_over_the_work():
    classes = [DeviceClass("cpu"), DeviceClass("gpu", batch=4)]
    problem = Problem(branching(), Cluster.uniform(classes, [1, 1]))
    assert fluid_capacity(problem, 0) == pytest.approx((1 + 4) / 20.0)


def test_fluid_capacity_gives_every_kind_to_its_device():
    slow = {"A": 1000.0, "B": 1000.0, "C": 1000.0}
    classes = [
        DeviceClass("a", times=slow | {"A": 10.0}),
        DeviceClass("bc", times=slow | {"B": 5.0, "C": 5.0}),
    ]
    found = fluid_capacity(Problem(branching(), Cluster.uniform(classes, [1, 1])), 0)
    assert 1 / 10.0 <= found < 1.01 / 10.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kinds": (5, 4)}, "kinds: expected 2 <= low <= high, got 5 and 4"),
        ({"load": (0.5, 1.0)}, "load: expected 0 < low <= high < 1, got 0.5 and 1.0"),
    ],
)
def test_bad_ranges_are_refused(changes: dict[str, tuple[float, float]], message: str):
    with pytest.raises(InputError) as error:
        Ranges(**changes)  # type: ignore[arg-type]
    assert str(error.value) == message
