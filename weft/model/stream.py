"""A stream of jobs as it is described: one job's problem, how jobs arrive, how a branch drifts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from weft.errors import InputError
from weft.model.arrivals import Arrivals
from weft.model.graph import Floats
from weft.model.problem import Problem

DRIFTS = ("none", "step", "ramp", "walk")
"""How a probability changes while jobs arrive; the position is the kernel's number."""
MOST_STEPS = 1000


@dataclass(frozen=True)
class Drift:
    """The probability of a branch's first edge as a function of the share of jobs that have arrived.

    What becomes of a job is decided by the probability at its arrival, so no decision changes it.
    """

    kind: str = "none"
    """``step`` and ``ramp`` end at ``to``; ``walk`` takes random steps, drawn from the seed."""
    to: float = 0.5
    at: float = 0.5
    """Share of the stream at which the step comes, or the ramp or walk begins."""
    steps: int = 20
    """Steps of a walk from there to the end of the stream."""
    size: float = 0.2
    """Largest step of a walk; at 0 and 1 it is thrown back."""

    def __post_init__(self) -> None:
        if self.kind not in DRIFTS:
            raise InputError(f"expected one of {', '.join(DRIFTS)}, got {self.kind!r}", field="drift")
        for name in ("to", "at", "size"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(
                    f"expected a number from 0 to 1, got {getattr(self, name)}", field=f"drift_{name}"
                )
        if not 1 <= self.steps <= MOST_STEPS or self.steps != int(self.steps):
            raise InputError(
                f"expected a whole number from 1 to {MOST_STEPS}, got {self.steps}", field="drift_steps"
            )

    @property
    def num_knots(self) -> int:
        """Points between which the probability is a straight line; 0: it never changes."""
        return {"none": 0, "walk": self.steps + 1}.get(self.kind, 2)

    @property
    def law(self) -> Floats:
        """Kind, to, at, size as the kernel takes them."""
        return np.array([float(DRIFTS.index(self.kind)), self.to, self.at, self.size])


@dataclass(frozen=True, eq=False)
class StreamCase:
    """A stream to dispatch: the problem of one job, how jobs arrive, and the rules of the game."""

    problem: Problem
    arrivals: Arrivals
    expiry: float
    """A waiting task of an older job is dropped; infinite: never."""
    idle_block: float
    """How long idling blocks a device; 0: it waits for the next event."""
    forget: float
    """Weight of older outcomes in the estimate of a branch, whoever estimates; 0: as each is made."""
    peeks: bool
    """Whether an outcome enters the estimate at the start of its task."""
    tracked: tuple[str, ...] | None
    """Tasks whose branches are estimated, the first being the one that drifts; None: all."""
    drift: Drift = field(default_factory=Drift)
