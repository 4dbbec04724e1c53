"""A binary tree of sums: leaves are drawn in proportion to their values, many at once.

Every inner node is the sum of its two children, computed anew whenever one of them changes, never adjusted by a
difference: the tree is a function of its leaves alone, and rounding errors cannot pile up.
"""

from __future__ import annotations

import numpy as np

from weft.errors import InputError
from weft.model.graph import Floats, Ints
from weft.sim.jit import lean_kernel


@lean_kernel
def set_leaves(tree: Floats, leaf: Ints, value: Floats, at: Ints) -> None:
    """Give leaves (m,) new values (m,), of several for one leaf the last, and sum up all that is above them.

    ``tree`` (2 x capacity,) is changed in place: node k has the children 2 k and 2 k + 1, the root is node 1. ``at`` (m,)
    is scratch. One level after another, so that loads do not wait for one another; where a level has no more nodes than
    there are leaves, all of it is summed up.
    """
    width = len(tree) // 2
    for k in range(len(leaf)):
        at[k] = width + leaf[k]
        tree[at[k]] = value[k]
    while width > 1:
        width = width // 2
        if width <= len(leaf):
            for node in range(width, 2 * width):
                tree[node] = tree[2 * node] + tree[2 * node + 1]
        else:
            for k in range(len(leaf)):
                node = at[k] // 2
                at[k] = node
                tree[node] = tree[2 * node] + tree[2 * node + 1]


@lean_kernel
def find_leaves(tree: Floats, left: Floats, found: Ints) -> None:
    """The leaves (m,) in which running sums reach ``left`` (m,), from 0 to the total, which is used up; written to ``found``.

    A leaf of value 0 is never found while there is any other, however the sums were rounded. All walk down one level at a
    time, so that loads do not wait for one another.
    """
    half = len(tree) // 2
    for k in range(len(left)):
        found[k] = 1
    width = 1
    while width < half:
        for k in range(len(left)):
            at = 2 * found[k]
            below = tree[at]
            goes_right = (left[k] >= below) & (tree[at + 1] > 0.0)
            left[k] = left[k] - (below if goes_right else 0.0)
            found[k] = at + (1 if goes_right else 0)
        width = 2 * width
    for k in range(len(left)):
        found[k] = found[k] - half


class SumTree:
    """Values of leaves, at least ``size`` of them (the next power of two), all 0 at first."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise InputError(f"expected a whole number >= 1, got {size}", field="size")
        self.capacity = 1 << max(1, (size - 1).bit_length())
        self._tree = np.zeros(2 * self.capacity)  # (2 x capacity,)

    @property
    def total(self) -> float:
        """The sum of all leaves."""
        return float(self._tree[1])

    @property
    def leaves(self) -> Floats:
        """The values (capacity,); a view."""
        return self._tree[self.capacity :]

    def set(self, leaf: Ints, value: Floats) -> None:
        """Give leaves new values >= 0."""
        own = np.ascontiguousarray(leaf, np.int64), np.ascontiguousarray(value, np.float64)
        set_leaves(self._tree, *own, np.empty(len(leaf), np.int64))

    def set_all(self, value: Floats) -> None:
        """Give every leaf (capacity,) a new value."""
        self.leaves[:] = value
        width = self.capacity // 2
        while width >= 1:
            below = self._tree[2 * width : 4 * width]
            self._tree[width : 2 * width] = below[::2] + below[1::2]
            width //= 2

    def find(self, target: Floats) -> Ints:
        """The leaves in which running sums reach these targets."""
        found = np.empty(len(target), np.int64)
        find_leaves(self._tree, np.array(target, np.float64), found)
        return found
