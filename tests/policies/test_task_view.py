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
from weft.policies.task_view import FEATURES, MOST, PAIR_FEATURES
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
    from weft.policies.task_view import view_of

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
