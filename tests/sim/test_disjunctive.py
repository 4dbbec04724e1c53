"""Kernels of disjunctive problems and their tabu search against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import SEEDS, make_edges

from weft.model.graph import Floats, Ints
from weft.sim.timeline.disjunctive import (
    BEST,
    ITERATION,
    MAKESPAN,
    SINCE,
    Shop,
    Walk,
    begin,
    dispatch,
    longest_paths,
    new_walk,
)
from weft.sim.timeline.tabu import MOVED, OPTIMAL, SWAPS, TO_ENDS, search

PROPERTY = settings(max_examples=200, deadline=None, derandomize=True)
NEIGHBOURHOODS = (SWAPS, TO_ENDS)
MANY = 10**9


def make_shop(seed: int, n: int, num_machines: int, shape: str = "random", *, is_plain: bool = False) -> Shop:
    """A random shop; plain ones have whole run times and neither lags nor releases."""
    rng = np.random.default_rng(seed)
    edges = np.array(make_edges(rng, n, shape), dtype=np.int64).reshape(-1, 2)
    lag = (
        np.zeros(len(edges))
        if is_plain
        else rng.uniform(0.0, 5.0, len(edges)) * (rng.random(len(edges)) < 0.5)
    )
    run = (
        rng.integers(1, 10, n).astype(float) if is_plain else rng.uniform(0.0, 9.0, n) * (rng.random(n) < 0.8)
    )
    by_target = np.argsort(edges[:, 1], kind="stable")
    return Shop(
        run=run,
        release=np.zeros(n) if is_plain else rng.uniform(0.0, 20.0, n) * (rng.random(n) < 0.3),
        machine=np.unique(rng.integers(0, num_machines, n), return_inverse=True)[1].astype(np.int64),
        order=np.arange(n),
        pred_ptr=np.searchsorted(np.sort(edges[:, 1]), np.arange(n + 1)),
        pred=edges[by_target, 0],
        pred_lag=lag[by_target],
        succ_ptr=np.searchsorted(edges[:, 0], np.arange(n + 1)),
        succ=edges[:, 1].copy(),
        succ_lag=lag,
    )


def arcs(shop: Shop, order: Ints) -> list[tuple[int, int, float]]:
    """Precedence with lags and the order of each device, as (from, to, lag)."""
    found = []
    for j in range(len(shop.run)):
        for e in range(shop.pred_ptr[j], shop.pred_ptr[j + 1]):
            found.append((int(shop.pred[e]), j, float(shop.pred_lag[e])))
    last: dict[int, int] = {}
    for i in order.tolist():
        machine = int(shop.machine[i])
        if machine in last:
            found.append((last[machine], i, 0.0))
        last[machine] = i
    return found


def slow_heads(shop: Shop, order: Ints) -> list[float]:
    """Starts by relaxing all arcs until nothing changes."""
    head = shop.release.tolist()
    for _ in range(len(head) + 1):
        before = list(head)
        for i, j, lag in arcs(shop, order):
            head[j] = max(head[j], head[i] + float(shop.run[i]) + lag)
        if head == before:
            return head
    raise AssertionError("the order makes a cycle")


def slow_tails(shop: Shop, order: Ints) -> list[float]:
    """Tails by relaxing all arcs backwards until nothing changes."""
    tail = [0.0] * len(shop.run)
    for _ in range(len(tail) + 1):
        before = list(tail)
        for i, j, lag in arcs(shop, order):
            tail[i] = max(tail[i], tail[j] + float(shop.run[j]) + lag)
        if tail == before:
            return tail
    raise AssertionError("the order makes a cycle")


def started(shop: Shop, seed: int = 0) -> Walk:
    """A walk at a random non-delay order."""
    walk = new_walk(shop, seed)
    begin(shop, walk, dispatch(shop, np.random.default_rng(seed).random(len(shop.run))))
    return walk


def assert_consistent(shop: Shop, walk: Walk) -> None:
    """The derived columns of a walk belong to its sequence."""
    assert walk.place[walk.sequence].tolist() == list(range(len(shop.run)))
    assert all(walk.place[i] < walk.place[j] for i, j, _ in arcs(shop, walk.sequence))
    fresh = new_walk(shop, 0)
    begin(shop, fresh, walk.sequence.copy())
    for name in ("before", "after", "last", "ready", "head", "finish", "rest", "tail", "back"):
        assert getattr(walk, name).tolist() == getattr(fresh, name).tolist(), name
    assert not walk.mark.any()


SHOPS = st.builds(
    make_shop,
    SEEDS,
    st.integers(1, 14),
    st.integers(1, 4),
    st.sampled_from(("random", "disconnected", "independent")),
)


@PROPERTY
@given(shop=SHOPS, seed=st.integers(0, 3))
def test_begin_heads_and_tails_equal_the_slow_twin(shop: Shop, seed: int):
    walk = started(shop, seed)
    assert walk.head.tolist() == pytest.approx(slow_heads(shop, walk.sequence), rel=1e-12)
    assert walk.tail.tolist() == pytest.approx(slow_tails(shop, walk.sequence), rel=1e-12)
    assert walk.values[MAKESPAN] == (walk.head + shop.run).max()


@PROPERTY
@given(shop=SHOPS, seed=st.integers(0, 3), neighbourhood=st.sampled_from(NEIGHBOURHOODS))
def test_search_keeps_the_walk_consistent(shop: Shop, seed: int, neighbourhood: int):
    walk = started(shop, seed)
    for _ in range(8):
        search(shop, walk, 1, MANY, neighbourhood)
        assert_consistent(shop, walk)


@PROPERTY
@given(shop=SHOPS, seed=st.integers(0, 3), neighbourhood=st.sampled_from(NEIGHBOURHOODS))
def test_search_best_is_what_its_sequence_gives(shop: Shop, seed: int, neighbourhood: int):
    walk = started(shop, seed)
    first = walk.values[MAKESPAN]
    search(shop, walk, 50, MANY, neighbourhood)
    makespan = (np.array(slow_heads(shop, walk.best)) + shop.run).max()
    assert walk.values[BEST] == pytest.approx(makespan, rel=1e-12)
    assert walk.values[BEST] <= first


@PROPERTY
@given(shop=SHOPS, seed=st.integers(0, 3))
def test_search_optimal_means_no_order_is_shorter(shop: Shop, seed: int):
    walk = started(shop, seed)
    if search(shop, walk, 200, MANY, TO_ENDS) == OPTIMAL:
        for other in range(20):
            assert started(shop, other).values[MAKESPAN] >= walk.values[BEST] * (1 - 1e-12)


@PROPERTY
@given(shop=SHOPS, seed=st.integers(0, 3))
def test_dispatch_keeps_no_device_idle_while_a_task_is_ready(shop: Shop, seed: int):
    order = dispatch(shop, np.random.default_rng(seed).random(len(shop.run))).tolist()
    head = slow_heads(shop, np.array(order))
    ready = longest_ready(shop, head)
    free = [0.0] * len(head)
    for k, i in enumerate(order):
        machine = shop.machine[i]
        if head[i] > free[machine]:
            assert all(ready[j] >= head[i] for j in order[k:] if shop.machine[j] == machine)
        free[machine] = head[i] + float(shop.run[i])


def longest_ready(shop: Shop, head: list[float]) -> list[float]:
    """When each task could start if its device were free."""
    ready = shop.release.tolist()
    for j in range(len(head)):
        for e in range(shop.pred_ptr[j], shop.pred_ptr[j + 1]):
            i = int(shop.pred[e])
            ready[j] = max(ready[j], head[i] + float(shop.run[i]) + float(shop.pred_lag[e]))
    return ready


def slow_dispatch(shop: Shop, key: Floats) -> list[int]:
    """All candidates looked at in every step."""
    free = [0.0] * (int(shop.machine.max()) + 1)
    ready, order = shop.release.tolist(), list[int]()
    waiting = np.diff(shop.pred_ptr).tolist()
    while len(order) < len(key):
        can = [i for i in range(len(key)) if waiting[i] == 0 and i not in order]
        start, _, i = min((max(ready[i], free[shop.machine[i]]), key[i], i) for i in can)
        order.append(i)
        free[shop.machine[i]] = start + float(shop.run[i])
        for e in range(shop.succ_ptr[i], shop.succ_ptr[i + 1]):
            j = int(shop.succ[e])
            waiting[j] -= 1
            ready[j] = max(ready[j], free[shop.machine[i]] + float(shop.succ_lag[e]))
    return order


@PROPERTY
@given(shop=SHOPS, seed=st.integers(0, 3))
def test_dispatch_equals_the_slow_twin(shop: Shop, seed: int):
    key = np.random.default_rng(seed).integers(0, 4, len(shop.run)).astype(float)
    assert dispatch(shop, key).tolist() == slow_dispatch(shop, key)


def test_dispatch_starts_the_smallest_key_among_equals():
    shop = make_shop(0, 5, 1, "independent", is_plain=True)
    assert dispatch(shop, np.array([3.0, 1.0, 4.0, 1.0, 0.0])).tolist() == [4, 1, 3, 0, 2]


def test_longest_paths_ignores_the_devices():
    shop = make_shop(1, 6, 1, "chain", is_plain=True)
    head = longest_paths(shop.order, shop.pred_ptr, shop.pred, shop.pred_lag, shop.run, shop.release)
    assert head.tolist() == [0.0, *np.cumsum(shop.run)[:-1].tolist()]


def test_search_stops_at_the_target():
    shop = make_shop(3, 40, 4, is_plain=True)
    walk = started(shop)
    loose = new_walk(shop, 0, target=walk.values[MAKESPAN])
    begin(shop, loose, walk.sequence.copy())
    assert search(shop, loose, 100, MANY, TO_ENDS) == MOVED
    assert loose.counts[ITERATION] == 0


def test_search_stops_when_patience_ends():
    shop = make_shop(4, 60, 4, "disconnected")
    walk = started(shop)
    if search(shop, walk, 5000, 7, TO_ENDS) == MOVED:
        assert walk.counts[SINCE] == 7


def test_search_in_pieces_equals_search_in_one():
    shop = make_shop(5, 60, 5, "disconnected")
    one, pieces = started(shop), started(shop)
    search(shop, one, 90, MANY, TO_ENDS)
    for _ in range(9):
        search(shop, pieces, 10, MANY, TO_ENDS)
    assert one.sequence.tolist() == pieces.sequence.tolist()
    assert one.best.tolist() == pieces.best.tolist()


def test_search_proves_a_single_device_optimal():
    shop = make_shop(6, 9, 1, "independent", is_plain=True)
    walk = started(shop)
    assert search(shop, walk, 10, MANY, TO_ENDS) == OPTIMAL
    assert walk.values[BEST] == shop.run.sum()


@pytest.mark.parametrize("kernel", [begin, dispatch, longest_paths, search])
def test_kernel_compiles_once(kernel: object):
    test_search_in_pieces_equals_search_in_one()
    test_longest_paths_ignores_the_devices()
    assert len(kernel.signatures) == 1  # type: ignore[attr-defined]
