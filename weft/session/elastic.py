"""A session for allocators: arrivals, progress and ends of elastic tasks in, placements with units out.

It knows what is reported and nothing of the future. Every event is checked before anything changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft import catalog
from weft.errors import InputError, UnsupportedError, shown
from weft.kinds import ELASTIC
from weft.model.columns import Ints
from weft.model.elastic import ElasticProblem
from weft.schedulers.allocators.rules import RuleAllocator
from weft.schedulers.allocators.running import settled
from weft.session.messages import Name
from weft.sim.elastic.live import fill_sets, report_arrival, report_end, report_step, settle_live
from weft.sim.elastic.moves import begin
from weft.sim.elastic.observation import new_sight, observe
from weft.sim.elastic.rules import decide
from weft.sim.elastic.state import RUNNING, compile_world, new_move, new_outcome, new_state
from weft.tables import is_number

ROOM = 10_000
"""Tasks that a session has room for, unless it is given another number."""
MOST_ROOM = 100_000
"""Room is memory that is kept from the start."""


class ElasticStart(NamedTuple):
    """Start this task on this cluster now, with these units."""

    task: Name
    cluster: str
    units: tuple[int, ...]
    """Of each resource; all 0: it has a place, and waits for units."""


class Change(NamedTuple):
    """Give this running task these units from now on."""

    task: Name
    cluster: str
    units: tuple[int, ...]


class ElasticDecision(NamedTuple):
    """What to do now; changes come first, for starts may need what they set free."""

    changes: tuple[Change, ...]
    starts: tuple[ElasticStart, ...]


class ElasticSession:
    """Elastic tasks under one allocator; events are reported one by one.

    Parameters
    ----------
    problem
        Clusters, types of task and rules; its arrivals do not count.
    allocator
        Name of an allocator, weights file or run folder, or the object.
    seed
        For allocators that draw.
    room
        How many tasks may arrive.
    """

    def __init__(
        self, problem: ElasticProblem, allocator: object, *, seed: int = 0, room: int = ROOM
    ) -> None:
        for key, value, least, most in (("room", room, 1, MOST_ROOM), ("seed", seed, -(2**63), 2**63 - 1)):
            if type(value) is not int or not least <= value <= most:
                raise InputError(
                    f"expected a whole number from {least} to {most}, got {shown(value)}", field=key
                )
        chosen = catalog.find(allocator, ELASTIC)
        reason = chosen.supports(problem)
        if reason is not None:
            raise UnsupportedError(f"{chosen.name}: {reason}", field="scheduler")
        self.problem = settled(problem.without_arrivals(), chosen).replaced(num_tasks=room)
        self._world, self._state = compile_world(self.problem), new_state(self.problem, 1)
        self._move, self._out = new_move(self.problem, 1), new_outcome(self.problem, 1)
        begin(self._world._replace(arrival_rate=0.0), self._state, 0)  # nothing arrives but what is reported
        self._state.seed[0] = seed
        self._names: list[Name] = []
        self._number: dict[Name, int] = {}
        self._rule = chosen.prepared(self.problem)(seed) if isinstance(chosen, RuleAllocator) else None
        seeds = np.array([seed], np.int64)
        self._deciding = None if self._rule is not None else chosen.begin(self.problem, seeds)
        self._sight = new_sight(self.problem, 1)

    @property
    def now(self) -> int:
        """World steps that have passed."""
        return int(self._state.now[0])

    @property
    def num_alive(self) -> int:
        """Tasks that have arrived and not ended."""
        return int(self._state.arrived[0] - self._state.done[0])

    def arrived(self, task: Name, kind: str, clusters: tuple[str, ...]) -> None:
        """A task of a type has arrived that some clusters may run."""
        if not isinstance(task, str | int):
            raise InputError(f"expected a name, a text or a whole number, got {shown(task)}", field="task")
        if task in self._number:
            raise InputError(f"task {task!r} has arrived before", field="task")
        types = [one.name for one in self.problem.types]
        if kind not in types:
            raise InputError(f"expected one of {', '.join(types)}, got {kind!r}", field="kind")
        known = self.problem.cluster_names
        if (
            not isinstance(clusters, tuple | list)
            or not clusters
            or any(one not in known for one in clusters)
        ):
            raise InputError(f"expected some of {', '.join(known)}, got {shown(clusters)}", field="clusters")
        if len(self._names) == self.problem.num_tasks:
            raise InputError(f"the session has room for {len(self._names)} tasks", field="room")
        least = np.array(self.problem.types[types.index(kind)].least)
        for name in clusters:
            if (self.problem.capacity[known.index(name)] < least).any():
                raise InputError(
                    f"expected clusters with what {kind} needs, got {name!r}, which has less",
                    field="clusters",
                )
        links = sum(1 << known.index(name) for name in set(clusters))
        self._number[task] = int(report_arrival(self._state, 0, types.index(kind), links))
        self._names.append(task)

    def progressed(self, task: Name, progress: float) -> None:
        """How far a running task is, from 0 to below 1."""
        j = self._running(task)
        if not (is_number(progress) and 0.0 <= progress < 1.0):
            raise InputError(f"expected a number from 0 to below 1, got {shown(progress)}", field="progress")
        self._state.progress[0, j] = progress

    def ended(self, task: Name) -> None:
        """A running task has ended; its units are free."""
        report_end(self._state, 0, self._running(task))

    def stepped(self) -> None:
        """A world step has passed."""
        report_step(self._state, 0)

    def decide(self) -> ElasticDecision:
        """What to start and to change now, until nothing more is placed or, one task per step, once."""
        state = self._state
        fill_sets(state, 0)
        units, status = state.units[0].copy(), state.status[0].copy()
        while self._decide_once() and self.problem.stepping == "multi":
            pass
        is_running = state.status[0] == RUNNING
        changed = np.flatnonzero(is_running & (status == RUNNING) & (state.units[0] != units).any(axis=1))
        started = np.flatnonzero(is_running & (status != RUNNING))
        started = started[np.argsort(state.placed_round[0, started], kind="stable")]
        return ElasticDecision(
            tuple(Change(*self._said(j)) for j in changed.tolist()),
            tuple(ElasticStart(*self._said(j)) for j in started.tolist()),
        )

    def units_of(self, task: Name) -> tuple[int, ...]:
        """What a running task has."""
        return tuple(self._state.units[0, self._running(task)].tolist())

    def free(self, cluster: str) -> Ints:
        """Units of each resource that a cluster has left; (R,)."""
        known = self.problem.cluster_names
        if cluster not in known:
            raise InputError(f"expected one of {', '.join(known)}, got {shown(cluster)}", field="cluster")
        return np.array(self._state.free[0, known.index(cluster)])

    def _decide_once(self) -> bool:
        move = self._move
        if self._rule is not None:
            decide(self._rule.at(self.now), self._world, self._state, 0, move)
        elif self._deciding is not None:
            observe(self._world, self._state, 0, self._sight)
            found = self._deciding.decide(self._sight)
            move.slot[:], move.units[:], move.chance[:] = found.slot, found.units, found.chance
            move.changes[:] = found.again is not None
            if found.again is not None:
                move.again[:] = found.again
        return bool(settle_live(self._world, self._state, 0, move, self._out))

    def _running(self, task: Name) -> int:
        j = self._number.get(task, -1) if isinstance(task, str | int) else -1
        if j < 0 or self._state.status[0, j] != RUNNING:
            raise InputError(f"expected a task that runs, got {task!r}", field="task")
        return j

    def _said(self, j: int) -> tuple[Name, str, tuple[int, ...]]:
        cluster = self.problem.cluster_names[int(self._state.cluster[0, j])]
        return self._names[j], cluster, tuple(self._state.units[0, j].tolist())
