"""Full tables of links: devices with equal links are one group, and every transfer takes what the table says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.io.files import read_problem, write_problem
from weft.model.cluster import Cluster
from weft.scenarios import scenario
from weft.testing.problems import make_problem


def times(cluster: Cluster) -> list[list[float]]:
    """What a thousand bytes take between any two devices."""
    every = range(cluster.num_devices)
    return [[cluster.transfer_time(a, b, 1000.0) for b in every] for a in every]


@given(st.integers(0, 200), st.sampled_from(["free", "uniform", "nodes", "matrix"]))
def test_written_links_are_those_that_are_read(
    tmp_path_factory: pytest.TempPathFactory, seed: int, links: str
):
    problem = make_problem(
        seed,
        sizes=(1, 3, 6, 2),
        graph_style=("chain", "equal", "none"),
        links=links,
        is_plain=True,
        has_copies=True,
    )
    path = tmp_path_factory.mktemp("links") / "problem.json"
    write_problem(problem, path)
    again = read_problem(path).cluster
    assert times(again) == times(problem.cluster)
    assert len(again.latency) <= problem.cluster.num_devices


def test_devices_with_equal_links_are_one_group(tmp_path):
    problem = scenario("adas-tx2", horizon=60.0).problem("test", 0)
    write_problem(problem, tmp_path / "car.json")
    again = read_problem(tmp_path / "car.json").cluster
    assert again.link_group.tolist() == problem.cluster.link_group.tolist() == [0] * 6 + [1]
    np.testing.assert_array_equal(times(again), times(problem.cluster))
