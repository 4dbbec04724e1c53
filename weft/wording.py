"""Numbers as a person reads them; imports nothing of weft."""

from __future__ import annotations

import math
from collections.abc import Sequence


def number(value: float | None, digits: int = 6) -> str:
    """A number for a table; a dash where there is none."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def count(num: int, noun: str) -> str:
    """``1 task``, ``2 tasks``."""
    return f"{num} {noun}" if num == 1 else f"{num} {noun}s"


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def percent(value: float | None, sign: str = "") -> str:
    """A percentage with one decimal; ``sign="+"`` always shows the sign."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{0.0 if abs(value) < 0.05 else value:{sign}.1f} %"


def size(num_bytes: float) -> str:
    """Bytes as a person says them; MB is 10^6."""
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if num_bytes >= scale:
            return f"{num_bytes / scale:.3g} {unit}"
    return f"{num_bytes:.0f} B"
