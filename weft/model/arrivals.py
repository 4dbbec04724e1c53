"""How jobs of a stream arrive: all at once, periodic, Poisson, with normal gaps, or as traced."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.errors import InputError
from weft.model.draws import ARRIVAL, keyed_uniform
from weft.model.graph import Floats

KINDS = ("once", "periodic", "poisson", "normal", "trace")


@dataclass(frozen=True)
class Arrivals:
    """The law of a stream of jobs; ``gap`` and ``spread`` in the time unit of the graph."""

    kind: str = "once"
    count: int = 1
    """Number of jobs; a stream always ends."""
    gap: float = 0.0
    """Mean time between jobs."""
    spread: float = 0.0
    """Standard deviation of normal gaps; negative gaps swap neighbours."""
    times: tuple[float, ...] = ()
    """Arrival times of a trace."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"expected one of {', '.join(KINDS)}, got {self.kind!r}", field="arrivals.kind")
        if not isinstance(self.count, int | np.integer) or self.count < 1:
            raise InputError(f"expected a whole number >= 1, got {self.count}", field="arrivals.count")
        if self.kind in ("periodic", "poisson", "normal") and not 0 < self.gap < float("inf"):
            raise InputError(f"expected a gap > 0, got {self.gap}", field="arrivals.gap")
        if not 0 <= self.spread < float("inf"):
            raise InputError(f"expected a spread >= 0, got {self.spread}", field="arrivals.spread")
        if self.kind == "trace" and len(self.times) != self.count:
            raise InputError(f"expected {self.count} times, got {len(self.times)}", field="arrivals.times")
        if not np.isfinite(self.times).all():
            raise InputError("expected finite times", field="arrivals.times")

    def draw(self, seed: int) -> Floats:
        """Sorted arrival times; each gap is a function of (seed, job) alone."""
        if self.kind == "once":
            return np.zeros(self.count)
        if self.kind == "trace":
            return np.sort(np.array(self.times, dtype=np.float64))
        if self.kind == "periodic":
            return self.gap * np.arange(1, self.count + 1, dtype=np.float64)
        jobs = np.arange(self.count)
        first = keyed_uniform(seed, ARRIVAL, jobs, 0, 0, 0)
        if self.kind == "poisson":
            return np.cumsum(-self.gap * np.log1p(-first))
        second = keyed_uniform(seed, ARRIVAL, jobs, 0, 0, 1)
        normal = np.sqrt(-2.0 * np.log1p(-first)) * np.cos(2.0 * np.pi * second)
        return np.sort(np.cumsum(self.gap + self.spread * normal))
