"""Matrix products that stay on one thread, however many BLAS is given.

Products of a policy are small. Threads that share one wait for each other longer than they work, and
many times as long where other processes keep the processors busy. So products are cut below the sizes
from which OpenBLAS shares them; then their bytes do not depend on the number of threads either.
"""

from __future__ import annotations

import numpy as np

from weft.policies.checkpoint import Floats32

MOST_PRODUCTS = 2**18
"""OpenBLAS shares a product of matrices between threads if it has more multiplications."""
MOST_BY_VECTOR = 4 * 2304 - 1
"""The same of a matrix and a vector, in the versions that share earliest."""
FEW_ROWS = 8
"""Products of fewer rows are not worth a call each: wide matrices are cut by columns instead."""


def product(left: Floats32, right: Floats32) -> Floats32:
    """Rows of any shape (..., k) times a matrix (k, m): (..., m)."""
    if left.size * right.shape[1] <= MOST_BY_VECTOR:
        return left @ right
    if left.ndim > 2:
        flat = product(left.reshape(-1, left.shape[-1]), right)
        return flat.reshape(*left.shape[:-1], right.shape[1])
    most = MOST_PRODUCTS if len(left) > 1 and right.shape[1] > 1 else MOST_BY_VECTOR
    return left @ right if len(left) * right.size <= most else _by_parts(left, right, most)


def _by_parts(left: Floats32, right: Floats32, most: int) -> Floats32:
    """The product (n, k) x (k, m), some rows and columns at a time."""
    (num, size), width = left.shape, right.shape[1]
    few = min(num, FEW_ROWS)
    columns = min(width, max(1, most // (size * few)))
    rows = max(few, most // (size * columns))
    # a single row at the end would be a vector, which is shared earlier
    rows = next((n for n in range(rows, 1, -1) if num % n != 1), rows)
    out = np.empty((num, width), np.float32)
    for top in range(0, num, rows):
        for first in range(0, width, columns):
            at = slice(top, top + rows), slice(first, first + columns)
            np.matmul(left[at[0]], right[:, at[1]], out=out[at])
    return out


def stacked_product(left: Floats32, right: Floats32) -> Floats32:
    """Matrices (B, n, k) times matrices (B, k, m), one by one: (B, n, m)."""
    rows = max(FEW_ROWS, MOST_PRODUCTS // right[0].size)
    if left.shape[1] <= rows:
        return left @ right
    out = np.empty((*left.shape[:2], right.shape[2]), np.float32)
    for first in range(0, left.shape[1], rows):
        at = slice(first, first + rows)
        np.matmul(left[:, at], right, out=out[:, at])
    return out
