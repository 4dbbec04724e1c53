"""Named ratios that a benchmark reports beside its table, for ``python -m benchmarks check``.

A ratio sets two things measured on one machine against each other, the larger the better, so that it can
be compared with one measured on another day or another machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

SHARE = 0.8


@dataclass(frozen=True)
class Ratio:
    """One measured ratio; it has dropped when it is below ``share`` of what was usual before."""

    value: float
    share: float = SHARE


_open: list[dict[str, Ratio]] = []


def report(name: str, value: float, share: float = SHARE) -> None:
    """Hand a ratio to whoever collects; without a collector, or for what is not finite, nothing happens."""
    if not _open or not math.isfinite(value):
        return
    if name in _open[-1]:
        raise ValueError(f"the ratio {name!r} is reported twice")
    _open[-1][name] = Ratio(float(f"{value:.6g}"), share)


@contextmanager
def collected() -> Iterator[dict[str, Ratio]]:
    """The ratios reported meanwhile, by name."""
    found: dict[str, Ratio] = {}
    _open.append(found)
    try:
        yield found
    finally:
        _open.pop()
