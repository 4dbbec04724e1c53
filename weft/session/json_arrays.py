"""Arrays as plain data and back: JSON has no infinities, so they are text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np


def plain(column: np.ndarray) -> Any:
    """Nested lists; what is not finite as text."""
    if column.dtype.kind != "f" or np.isfinite(column).all():
        return column.tolist()
    return [plain(row) if row.ndim else (float(row) if np.isfinite(row) else str(row)) for row in column]


def arrayed(stored: Any, like: np.ndarray) -> np.ndarray:
    """The array of these nested lists, of the kind and with all but the first length of another one."""
    found = np.array(stored, dtype=None if len(stored) else like.dtype).astype(like.dtype)
    if found.ndim == 1 and like.ndim > 1 and not len(found):
        found = np.zeros((0, *like.shape[1:]), like.dtype)
    if found.shape[1:] != like.shape[1:] or found.ndim != like.ndim:
        raise ValueError(f"expected shape {like.shape}, got {found.shape}")
    return found


def fingerprint(values: Iterable[Any]) -> str:
    """SHA-256 of arrays and numbers."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(np.asarray(value).tobytes())
    return digest.hexdigest()
