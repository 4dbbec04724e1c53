"""The queue view: what comes after a decision is changed, and all decisions up to it are compared.

Known at a decision are the jobs that have arrived and the branches of the tasks that have ended. The
others change: later arrivals, their number, and all branches that are still open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from weft import Session, catalog
from weft.execute.virtual_runs import Driven, drive_queues
from weft.model.arrivals import Arrivals
from weft.model.graph import Bools, Floats, Ints
from weft.policies.learned import Learned
from weft.scenarios import StreamProblem, scenario
from weft.schedulers.dispatchers.queues import act_all, begin_all, observe_all
from weft.sim.queues.environment import START, Narrowing, Setup, setup_of
from weft.sim.queues.kernel import NEXT_JOB, NOW, State, Stream, advance, apply_action
from weft.sim.queues.layout import compile_stream, edge_probabilities, new_state, num_branches
from weft.sim.queues.observation import num_features
from weft.sim.queues.outcomes import taken_edges
from weft.sim.queues.rules import choose
from weft.testing.blindness import Compared

JOBS = 60
STREAMS: dict[str, dict[str, object]] = {"conditional": {"p_c": 0.5}, "conditional-many": {"load": 0.8}}
"""Scenarios and their settings."""

Decision = tuple[float, tuple[Any, ...]]
"""When, and what was chosen."""


@dataclass(frozen=True)
class World:
    """One stream and all that happens in it."""

    case: StreamProblem
    arrival: Floats  # (num_jobs,)
    taken: Bools  # (num_edges, num_jobs) whether each edge is taken if its task runs

    @property
    def timed(self) -> StreamProblem:
        """The case with these arrivals."""
        count = len(self.arrival)
        return replace(self.case, arrivals=Arrivals("trace", count, times=tuple(self.arrival.tolist())))


@cache
def drawn(name: str, number: int, *, peeks: bool = False) -> World:
    """A stream of a scenario; ``peeks``: the outcome of a branch is counted when its task starts."""
    case = scenario(name, jobs=JOBS, **STREAMS[name]).stream("validation", number)
    case = replace(case, peeks=peeks)
    return World(case, np.sort(case.arrivals.draw(number)), taken_edges(setup_of(case), number))


def changed(world: World, time: float, is_known: Bools, rng: np.random.Generator) -> World:
    """Another world: arrivals after the time, their number and branches of tasks (task, job) not known differ."""
    graph, old = world.case.problem.graph, world.arrival
    num_kept = int((old <= time).sum())
    gaps = rng.exponential(float(np.diff(old).mean()), int(rng.integers(1, 2 * (len(old) - num_kept) + 2)))
    arrival = np.concatenate([old[:num_kept], time + 1e-6 + np.cumsum(gaps)])
    taken = taken_edges(
        replace(setup_of(world.case), arrivals=Arrivals("once", len(arrival))), int(rng.integers(1 << 30))
    )
    kept = is_known[graph.sources, :num_kept]
    taken[:, :num_kept] = np.where(kept, world.taken[:, :num_kept], taken[:, :num_kept])
    return World(world.case, arrival, taken)


# -- the kernel -------------------------------------------------------------------------------------------


class Played:
    """A scheduler in the event kernel, one decision at a time."""

    def __init__(self, name: str, world: World, seed: int) -> None:
        self._chosen = catalog.chooser(name)
        self._setup = self._made_setup(world)
        problem = self._setup.problem
        self.stream: Stream = compile_stream(problem, self._setup.rules)
        count = len(world.arrival)
        self.state: State = new_state(
            self.stream, 1, count, edge_probabilities(problem), slots=count, room=4096, traced=True
        )
        self.state.arrival[0], self.state.seed[0] = world.arrival, seed
        self.state.trace[0] = edge_places(world)
        if not isinstance(self._chosen, Learned):
            self._rule = self._chosen.rule(problem, self.stream, np.array([seed], np.int64))
        self._done = np.zeros(1, np.bool_)

    def _made_setup(self, world: World) -> Setup:
        chosen = self._chosen
        if not isinstance(chosen, Learned):
            return setup_of(world.timed)
        return setup_of(world.timed, chosen.sight, waits=chosen.waits, narrows=chosen.narrows)

    def decisions(self, upto: int | None = None) -> list[Decision]:
        """Play from the start; stops in front of decision number ``upto``."""
        found: list[Decision] = []
        begin_all(self.stream, self.state, START, self._done)
        while not self._done[0] and (upto is None or len(found) < upto):
            time = float(self.state.total[0, NOW])
            found.append((time, self.decide()))
        assert not self.state.overflow.any()
        return found

    def decide(self) -> tuple[Any, ...]:
        """The choice for every device, carried out up to the next decision."""
        num_devices, num_kinds = self.stream.can_run.shape
        if isinstance(self._chosen, Learned):
            return self._ask(self._chosen, num_devices, num_kinds)
        action: Ints = np.empty(num_devices, np.int64)
        choose(self._rule, self.stream, self.state, 0, action, np.empty(num_kinds, np.int64))
        apply_action(self.stream, self.state, 0, action)
        self._done[0] = advance(self.stream, self.state, 0)
        return tuple(action.tolist())

    def _ask(self, learned: Learned, num_devices: int, num_kinds: int) -> tuple[Any, ...]:
        """The choice of a policy, with what it saw: that must not differ either."""
        sight = self._setup.sight
        width = num_features(sight, num_kinds, num_devices, num_branches(self.stream))
        seen, mask = np.zeros((1, width), np.float32), np.ones((1, num_devices, num_kinds + 1), np.bool_)
        observe_all(self.stream, sight, self.state, self._done, seen, mask)
        narrow = (Narrowing(self.stream, self.state),) if self._setup.narrows else ()
        action = np.ascontiguousarray(learned.policy.decide_batch(seen, mask, None, *narrow), np.int64)
        act_all(self.stream, self.state, action, self._setup.waits, self._done)
        return (*action[0].tolist(), seen.tobytes())


def edge_places(world: World) -> Ints:
    """(num_jobs, num_tasks) which of its edges every branching task takes, as the kernel counts them."""
    graph = world.case.problem.graph
    places = np.zeros((len(world.arrival), graph.num_tasks), np.int64)
    for e in np.flatnonzero(graph.branch >= 0).tolist():
        source = int(graph.sources[e])
        places[world.taken[e], source] = e - int(graph.successor_pointer[source])
    return places


def settled(played: Played, num_tasks: int) -> Bools:
    """(num_tasks, num_jobs) whether the branches of a task may be known: it has ended or was skipped."""
    stream, state = played.stream, played.state
    is_known = np.zeros((num_tasks, state.arrival.shape[1]), np.bool_)
    for job in range(int(state.count[0, NEXT_JOB])):
        for v in range(num_tasks):
            after = stream.succ[stream.succ_ptr[v] : stream.succ_ptr[v + 1]]
            is_known[v, job] = bool((state.open_edges[0, job, after] != stream.num_in[after]).all())
    return is_known


def compare(name: str, world: World, number: int) -> Compared:
    """Change what is yet to come in front of a random decision; it and all before must be the same."""
    rng = np.random.default_rng([3, number])
    times = [time for time, _ in Played(name, world, number).decisions()]
    upto = int(rng.integers(*np.searchsorted(times, np.quantile(world.arrival, [0.25, 0.75]))))
    played = Played(name, world, number)
    first = played.decisions(upto)
    other = changed(
        world, float(played.state.total[0, NOW]), settled(played, world.case.problem.num_tasks), rng
    )
    first = [*first, (float(played.state.total[0, NOW]), played.decide())]
    second = Played(name, other, number).decisions(upto + 1)
    return Compared(len(first), _differing(first, second))


# -- sessions ---------------------------------------------------------------------------------------------


def compare_sessions(name: str, world: World, number: int) -> Compared:
    """Change what is yet to come at a random time; all starts before it must be the same."""
    rng = np.random.default_rng([4, number])
    first = _driven(name, world, number)
    time = float(rng.uniform(*np.quantile(world.arrival, [0.25, 0.75])))
    other = changed(world, time, _ended(first, world, time), rng)
    second = _driven(name, other, number)
    before, after = ([_plain(one) for one in run.starts if one[0] < time] for run in (first, second))
    return Compared(len(before), _differing(before, after))


def _driven(name: str, world: World, number: int) -> Driven:
    return drive_queues(Session(world.timed, name, seed=number), setup_of(world.timed), number, world.taken)


def _plain(start: tuple[float, Any]) -> Decision:
    time, what = start
    return time, (int(what.job), what.task, what.device, what.batch)


def _ended(driven: Driven, world: World, time: float) -> Bools:
    """(num_tasks, num_jobs) which tasks have ended by a time; those of a batch end together."""
    problem = world.case.problem
    index, classes = problem.cluster.device_index, problem.cluster.device_class
    ends: dict[tuple[float, int], float] = {}
    for at, start in driven.starts:
        run = float(problem.run_times[problem.graph.index[start.task], classes[index[start.device]]])
        ends[at, start.batch] = max(ends.get((at, start.batch), 0.0), at + run)
    has_ended = np.zeros((problem.num_tasks, len(world.arrival)), np.bool_)
    for at, start in driven.starts:
        if ends[at, start.batch] <= time:
            has_ended[problem.graph.index[start.task], int(start.job)] = True
    return has_ended


def _differing(first: list[Decision], second: list[Decision]) -> int:
    """Decisions of the first that the second did not make, and what it made beyond."""
    same = sum(a == b for a, b in zip(first, second, strict=False))
    return max(len(first), len(second)) - same
