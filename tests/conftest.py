"""Fixtures shared by the suite: a few tiny problems with known answers."""

from __future__ import annotations

import pytest

from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import GraphBuilder, TaskGraph
from weft.model.problem import Problem


@pytest.fixture
def fork() -> TaskGraph:
    """Root 1, children 10 and 10, 100 bytes to each: 21 without copies, 11 with."""
    builder = GraphBuilder("fork")
    builder.task("root", 1.0)
    builder.task("left", 10.0, after={"root": 100.0})
    builder.task("right", 10.0, after={"root": 100.0})
    return builder.build()


@pytest.fixture
def pair() -> Cluster:
    """Two equal devices, one byte per second between them."""
    return Cluster.uniform((DeviceClass("cpu"),), (2,), bandwidth=1.0)


@pytest.fixture
def fork_problem(fork: TaskGraph, pair: Cluster) -> Problem:
    """The fork on the pair."""
    return Problem(fork, pair)
