"""What an encoder sees: ratios that neither unit nor order change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policies.planners import PROBLEMS, view
from strategies import problems

from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Problem
from weft.policies.oneshot.features import FEATURES, MOST, PAIR_FEATURES, view_of
from weft.sim.arrays import compile_problem

PROPERTY = settings(max_examples=100, deadline=None, derandomize=True)


@PROPERTY
@given(problem=problems())
def test_view_is_finite_and_bounded(problem: Problem):
    if not problem.num_tasks:
        return
    found = view(problem)
    assert found.features.shape == (problem.num_tasks, len(FEATURES))
    assert found.pairs.shape == (*problem.run_times.shape, len(PAIR_FEATURES))
    assert (found.features >= -1e-9).all() and (found.features <= 1 + 1e-9).all()
    assert (np.abs(found.pairs) <= MOST).all()


@pytest.mark.parametrize("kind", PROBLEMS)
def test_view_does_not_show_the_unit_of_time(kind: str):
    a = compile_problem(PROBLEMS[kind])
    doubled = a._replace(
        run=2.0 * a.run, latency=2.0 * a.latency, inverse=2.0 * a.inverse,
        mean_latency=2.0 * a.mean_latency, mean_inverse=2.0 * a.mean_inverse,
    )  # fmt: skip
    one, two = view_of(a), view_of(doubled)
    assert (one.features == two.features).all() and (one.pairs == two.pairs).all()
    assert two.scale == 2.0 * one.scale


@PROPERTY
@given(rows=st.integers(1, 30), columns=st.integers(1, 20), seed=st.integers(0, 99))
def test_view_numbers_resources_in_the_order_of_their_classes(rows: int, columns: int, seed: int):
    rng = np.random.default_rng(seed)
    kinds = rng.random((4, columns)) < 0.5
    kinds[:, 0] = True
    can = kinds[rng.integers(4, size=rows)]
    times = np.where(can, 1.0, np.inf)
    names = [f"c{c}" for c in range(columns)]
    cluster = Cluster.uniform([DeviceClass(name) for name in names], [1] * columns)
    found = view(Problem(TaskGraph(np.ones(rows), [], [], classes=names, times=times), cluster))
    wanted = np.unique(can, axis=0, return_inverse=True)[1].reshape(-1)
    assert found.resource.tolist() == wanted.tolist()


def test_view_groups_tasks_that_compete():
    assert len(np.unique(view(PROBLEMS["shop"]).group)) == 4
    assert len(np.unique(view(PROBLEMS["workflow"]).group)) == 1


def test_features_are_those_of_a_problem_worked_out_by_hand():
    graph = TaskGraph(np.array([2.0, 1.0, 3.0, 1.0]), [0, 1, 0], [2, 2, 3], slots=[2, 1, 4, 1])
    a = compile_problem(Problem(graph, Cluster.uniform([DeviceClass("pool", slots=4)], [1])))
    found = view_of(a._replace(release=np.array([0.0, 5.0, 0.0, 0.0])))
    few = np.log(2) / np.log(3)
    expected = {
        "duration": [2 / 3, 1 / 3, 1, 1 / 3],
        "head": [0, 0, 0.4, 0.4],
        "tail": [1, 0.8, 0.6, 0.2],
        "slack": [0, 0.2, 0, 0.4],
        "share of tail": [0.4, 0.25, 1, 1],
        "work remaining": [1, 4 / 6, 3 / 6, 1 / 6],
        "share of remaining": [2 / 6, 0.25, 1, 1],
        "depth": [0, 0, 1, 1],
        "steps to go": [1, 1, 0, 0],
        "load": [1, 1, 1, 1],
        "share of load": [1 / 4.5, 0.25 / 4.5, 3 / 4.5, 0.25 / 4.5],
        "mean head of resource": [0.2] * 4,
        "mean tail of resource": [0.65] * 4,
        "demand": [0.5, 0.25, 1, 0.25],
        "freedom": [1] * 4,
        "spread": [0] * 4,
        "data in": [0] * 4,
        "data out": [0] * 4,
        "inputs": [0, 0, 1, few],
        "outputs": [1, few, 0, 0],
        "release": [0, 0.5, 0, 0],
        "load against path": [4.5 / 9.5] * 4,
        "area against path": [4.5 / 9.5] * 4,
        "transfer against run": [0] * 4,
        "area of path": [1, 3.25 / 4, 3 / 4, 0.25 / 4],
        "area remaining": [1, 3.25 / 4.25, 3 / 4.25, 0.25 / 4.25],
    }
    assert tuple(expected) == FEATURES
    np.testing.assert_allclose(found.features, np.transpose(list(expected.values())), atol=1e-12)
