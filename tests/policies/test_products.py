"""Products cut so small that no BLAS shares them: the same numbers, whatever the number of threads."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from weft.policies import products
from weft.policies.products import product, stacked_product

SIZES = [
    *((1, 63, 128), (1, 128, 128), (2, 128, 128), (17, 128, 128), (40, 63, 128), (40, 128, 28)),
    *((33, 128, 128), (57, 256, 128), (9, 512, 512), (300, 300, 1), (5000, 48, 1), (3, 4000, 9)),
]
PROGRAM = """
import hashlib, numpy as np
from weft.catalog import policy_file
from weft.policies.checkpoint import load_policy
from weft.policies.graph.forward import policy_of
rng, digest = np.random.default_rng(0), hashlib.sha256()
mlp, graph = (policy_of(*load_policy(policy_file(name))) for name in ("ppo", "conditional-graph"))
for size in (1, 40, 300):
    digest.update(mlp.logits(rng.random((size, 63), np.float32)).tobytes())
    rows = rng.random((size, graph.architecture.size(12, 8)), np.float32)
    digest.update(graph.logits(rows, np.zeros((size, 8), np.int64), 12).tobytes())
print(digest.hexdigest())
"""


def some(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, int]]:
    """Rows, inner size and columns of every product that parts are made of."""
    found: list[tuple[int, int, int]] = []
    matmul = np.matmul

    def recorded(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> np.ndarray:
        found.append((left.shape[-2], *right.shape[-2:]))
        return matmul(left, right, out=out)

    monkeypatch.setattr(products.np, "matmul", recorded)
    return found


@pytest.mark.parametrize(("rows", "size", "columns"), SIZES)
def test_product_is_cut_where_blas_would_share_it(
    rows: int, size: int, columns: int, calls: list[tuple[int, int, int]]
):
    left, right = some(rows, size), some(size, columns)
    np.testing.assert_allclose(product(left, right), left @ right, rtol=1e-4, atol=1e-4)
    for num, inner, width in calls or [(rows, size, columns)]:
        most = products.MOST_PRODUCTS if num > 1 and width > 1 else products.MOST_BY_VECTOR
        assert num * inner * width <= most


def test_product_keeps_the_shape_of_rows():
    left, right = some(7, 5, 30, 48), some(48, 48)
    np.testing.assert_allclose(product(left, right), left @ right, rtol=1e-4, atol=1e-4)


def test_stacked_product_is_cut_too(calls: list[tuple[int, int, int]]):
    left, right = some(3, 200, 200), some(3, 200, 48)
    np.testing.assert_allclose(stacked_product(left, right), left @ right, rtol=1e-4, atol=1e-4)
    assert len(calls) > 1
    assert all(num * inner * width <= products.MOST_PRODUCTS for num, inner, width in calls)


def test_policies_say_the_same_bytes_whatever_the_number_of_threads():
    found = set()
    for threads in ("1", "4"):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads}
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.add(done.stdout)
    assert len(found) == 1
    assert len(found.pop().strip()) == 2 * hashlib.sha256().digest_size
