"""Relations of a graph and attention along them, against plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import make_cluster, make_edges

from weft.model.graph import TaskGraph
from weft.model.problem import Problem
from weft.sim.arrays import Arrays, compile_problem
from weft.sim.relations import attend, components, descendants, hops, reduced

PROPERTY = settings(max_examples=50, deadline=None, derandomize=True)


def arrays(seed: int, n: int, shape: str) -> Arrays:
    edges = make_edges(np.random.default_rng(seed), n, shape)
    graph = TaskGraph(np.ones(n), [a for a, _ in edges], [b for _, b in edges])
    return compile_problem(Problem(graph, make_cluster(0, 1, 1, "free", is_plain=True)))


def paths(a: Arrays) -> np.ndarray:
    """Whether a path leads from row to column, by matrix products."""
    n = len(a.release)
    edge = np.zeros((n, n), int)
    edge[np.repeat(np.arange(n), np.diff(a.succ_ptr)), a.succ] = 1
    reach = edge.copy()
    for _ in range(n):
        reach = ((reach + reach @ edge) > 0).astype(int)
    return reach > 0


@PROPERTY
@given(seed=st.integers(0, 99), n=st.integers(1, 12), shape=st.sampled_from(["random", "chain", "diamond"]))
def test_descendants_are_what_paths_reach(seed: int, n: int, shape: str):
    a = arrays(seed, n, shape)
    assert (descendants(a.order, a.succ_ptr, a.succ) == paths(a)).all()


@PROPERTY
@given(seed=st.integers(0, 99), n=st.integers(1, 12))
def test_reduction_keeps_the_edges_without_another_path(seed: int, n: int):
    a = arrays(seed, n, "random")
    reach = paths(a)
    source = np.repeat(np.arange(n), np.diff(a.succ_ptr))
    wanted = [not (reach[i] & reach[:, j]).any() for i, j in zip(source, a.succ, strict=True)]
    assert reduced(a.succ_ptr, a.succ, descendants(a.order, a.succ_ptr, a.succ)).tolist() == wanted


@PROPERTY
@given(seed=st.integers(0, 99), n=st.integers(1, 12))
def test_components_are_joined_by_paths_in_either_direction(seed: int, n: int):
    a = arrays(seed, n, "random")
    joined = np.eye(n, dtype=bool) | paths(a) | paths(a).T
    for _ in range(n):
        joined = (joined.astype(int) @ joined) > 0
    number = components(a.succ_ptr, a.succ)
    assert ((number[:, None] == number[None, :]) == joined).all()
    assert number[0] == 0 and (np.diff(np.maximum.accumulate(number)) <= 1).all()


def test_hops_count_the_edges_before_and_behind():
    a = arrays(0, 4, "chain")
    assert hops(a.order, a.succ_ptr, a.succ).tolist() == [[0, 1, 2, 3], [3, 2, 1, 0]]


def test_attention_is_a_softmax_with_a_null_key():
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 5, 4))
    pointer, index = np.array([0, 2, 2, 5, 6, 7]), np.array([1, 3, 0, 2, 4, 4, 0])
    size = rng.normal(size=5)
    out = np.empty((5, 4))
    attend(q, k, v, size, pointer, index, out)
    for i in range(5):
        mine = index[pointer[i] : pointer[i + 1]]
        weight = np.exp(k[mine] @ q[i] + size[mine])
        np.testing.assert_allclose(out[i], weight @ v[mine] / (1.0 + weight.sum()), atol=1e-12)
