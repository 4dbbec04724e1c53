"""A stream of jobs as it is described: one job's problem, how jobs arrive, how a branch drifts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from weft.errors import InputError
from weft.model.arrivals import Arrivals
from weft.model.draws import BRANCH, WALK, keyed_uniform
from weft.model.graph import Bools, Floats, TaskGraph
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
    """Largest step of a walk; it is reflected at 0 and 1."""

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
class StreamProblem:
    """A stream to dispatch: the problem of one job, how jobs arrive, and the rules of the game."""

    problem: Problem
    arrivals: Arrivals
    expiry: float
    """A waiting task of an older job is dropped; infinite: never."""
    idle_block: float
    """How long idling blocks a device; 0: it waits for the next event."""
    forget: float
    """Weight of older outcomes in the estimate of a branch, for every estimator; 0: its own default."""
    peeks: bool
    """Whether an outcome enters the estimate at the start of its task."""
    tracked: tuple[str, ...] | None
    """Tasks whose branches are estimated, the first being the one that drifts; None: all."""
    drift: Drift = field(default_factory=Drift)


def drift_probabilities(drift: Drift, first: float, seed: int, num_jobs: int) -> Floats:
    """(num_jobs,) probability of the drifting branch's first edge for every job; it starts at ``first``."""
    if not drift.num_knots:
        return np.full(num_jobs, first)
    share = np.arange(num_jobs) / num_jobs
    if drift.kind == "step":
        return np.where(share > drift.at, drift.to, first)
    if drift.kind == "ramp":
        return np.interp(share, [drift.at, 1.0], [first, drift.to])
    steps = drift.size * (2.0 * keyed_uniform(seed, WALK, 0, np.arange(1, drift.steps + 1), 0, 0) - 1.0)
    value = [first]
    for step in steps.tolist():
        moved = abs(value[-1] + step)
        value.append(2.0 - moved if moved > 1.0 else moved)
    return np.interp(share, np.linspace(drift.at, 1.0, drift.steps + 1), value)


def taken_edges(
    graph: TaskGraph, num_jobs: int, seed: int, drift: Drift, tracked: tuple[str, ...] | None = None
) -> Bools:
    """(num_edges, num_jobs) whether each edge is taken if its task runs, by keyed draws.

    ``tracked`` names the task whose first branch drifts; None: the first branch of the graph.
    """
    taken = np.ones((graph.num_edges, num_jobs), np.bool_)
    drifting = drifting_edges(graph, tracked)[:1] if drift.num_knots else []
    for source, group in branches_of(graph):
        edges = _edges_of(graph, source, group)
        share = graph.probability[edges][:, None]  # (num_edges of the branch, 1 or num_jobs)
        if edges[:1] == drifting:
            first = drift_probabilities(drift, float(share[0, 0]), seed, num_jobs)
            rest = share[1:] if share[1:].any() else np.ones_like(share[1:])
            share = np.vstack([first, (1.0 - first) * (rest / rest.sum())])
        draw = keyed_uniform(seed, BRANCH, np.arange(num_jobs), source, group, 0)
        place = np.minimum((draw >= np.cumsum(share, axis=0)).sum(axis=0), len(edges) - 1)
        taken[edges] = place == np.arange(len(edges))[:, None]
    return taken


def branches_of(graph: TaskGraph) -> list[tuple[int, int]]:
    """(task, group) of every branch, in the order of their first edges."""
    is_branch = graph.branch >= 0
    pairs = zip(graph.sources[is_branch].tolist(), graph.branch[is_branch].tolist(), strict=True)
    return list(dict.fromkeys(pairs))


def drifting_edges(graph: TaskGraph, tracked: tuple[str, ...] | None) -> list[int]:
    """Edges of the branch that drifts: the first of the first tracked task, or of the graph."""
    branches = branches_of(graph)
    if tracked is not None:
        branches = sorted(branch for branch in branches if graph.names[branch[0]] == tracked[0])
    return _edges_of(graph, *branches[0])


def _edges_of(graph: TaskGraph, source: int, group: int) -> list[int]:
    return np.flatnonzero((graph.sources == source) & (graph.branch == group)).tolist()
