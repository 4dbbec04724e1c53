"""The tree of sums, held against running sums in plain Python."""

from __future__ import annotations

import numpy as np
import pytest

from weft.errors import InputError
from weft.sim.sum_tree import SumTree


def found_plainly(leaves: list[float], target: float) -> int:
    """The first leaf at which the running sum exceeds the target."""
    total = 0.0
    for k, value in enumerate(leaves):
        total += value
        if total > target:
            return k
    raise AssertionError("the target is beyond the total")


@pytest.mark.parametrize("size", [1, 2, 5, 64, 100])
def test_leaves_are_found_as_by_running_sums(size: int):
    rng = np.random.default_rng(size)
    tree = SumTree(size)
    values = rng.integers(0, 9, size).astype(np.float64)  # whole numbers: sums are exact in any order
    values[-1] = 3.0
    tree.set(np.arange(size), values)
    assert tree.total == values.sum()
    targets = rng.random(200) * tree.total
    assert tree.find(targets).tolist() == [found_plainly(values.tolist(), t) for t in targets.tolist()]


def test_capacity_is_a_power_of_two():
    assert [SumTree(size).capacity for size in (1, 2, 3, 64, 65)] == [2, 2, 4, 64, 128]


def test_tree_is_a_function_of_its_leaves():
    rng = np.random.default_rng(0)
    tree, other = SumTree(50), SumTree(50)
    for _ in range(300):  # values of very different sizes: differences would not cancel
        leaf = rng.integers(0, 50, 16)
        tree.set(leaf, 10.0 ** rng.uniform(-12, 12, 16))
    other.set_all(tree.leaves)
    assert other.total == tree.total
    targets = rng.random(500) * tree.total
    assert other.find(targets).tolist() == tree.find(targets).tolist()
    tree.set(np.arange(50), np.full(50, 0.5))
    assert tree.total == 25.0


def test_of_several_values_for_one_leaf_the_last_counts():
    tree = SumTree(4)
    tree.set(np.array([1, 1, 1]), np.array([5.0, 7.0, 2.0]))
    assert tree.leaves.tolist() == [0.0, 2.0, 0.0, 0.0] and tree.total == 2.0


def test_empty_leaves_are_never_found():
    tree = SumTree(8)
    tree.set(np.array([2, 5]), np.array([0.1, 0.2]))
    ends = np.array([0.0, 0.1, np.nextafter(0.1, 0), tree.total, np.nextafter(tree.total, 1), 1.0])
    assert set(tree.find(ends).tolist()) <= {2, 5}


def test_tree_refuses_no_leaves():
    with pytest.raises(InputError, match="size: expected a whole number >= 1, got 0"):
        SumTree(0)
