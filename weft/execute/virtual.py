"""Engines of virtual time: a clock that jumps from event to event, and run times from a problem.

They know what will happen, the session they serve does not. Arrivals are not theirs: whoever drives them brings
those. What goes wrong is given beforehand, as ``Faults``.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count

import numpy as np

from weft.execute.engine import CANCELLED, FAILED, FINISHED, JOINED, LOST, STARTED, VACATED, Event, Order
from weft.execute.faults import NEVER, Faults
from weft.model.cluster import Cluster
from weft.model.graph import ALWAYS, Bools, TaskGraph
from weft.model.problem import Problem, Realisation
from weft.session.messages import Name
from weft.sim.queues.environment import Setup
from weft.sim.queues.outcomes import taken_edges

NO_FAULTS = Faults()
Branch = tuple[int, ...] | None
"""Tasks that the branches of a task lead to; None: it has none."""


@dataclass(eq=False)
class _Run:
    """An order and what becomes of it."""

    order: Order
    job: int
    node: int
    device: int
    start: float = NEVER
    end: float = NEVER
    fails: bool = False
    awaits: tuple[str, ...] = ()
    """Inputs that were not finished when it was given."""
    is_begun: bool = False
    is_over: bool = False

    def event(self, kind: str, time: float, branch: Branch = None, note: str = "") -> Event:
        """Something that happens to it."""
        job, task, device, attempt, *_ = self.order
        return Event(kind, time, device, job, task, attempt, branch, note)


Heap = list[tuple[float, tuple[int, ...], _Run]]
"""Runs by time; the numbers say who comes first at one time, and no two runs have the same."""


def _first_time(heap: Heap) -> float:
    """Of the first run that is not over."""
    while heap and heap[0][-1].is_over:
        heapq.heappop(heap)
    return heap[0][0] if heap else NEVER


class _Virtual:
    """What both engines have in common: the clock, ends to come, devices that go and come."""

    name = "virtual"
    is_live = False
    waits_for_inputs = False

    def __init__(self, cluster: Cluster, faults: Faults) -> None:
        faults.refuse_strangers(cluster.device_names)
        self.now = 0.0
        self._cluster, self._faults = cluster, faults
        self._moves = faults.moves()[::-1]
        self._lost: set[str] = set()
        self._runs: dict[tuple[Name, str, int], _Run] = {}  # those that have not ended
        self._ends: Heap = []
        self._news: list[Event] = []  # ends that were asked for
        self._counter = count()

    def start(self) -> None:
        """The clock is at 0 already."""

    def release(self, job: Name) -> None:
        """There are no results."""

    def close(self) -> None:
        """Nothing runs any more."""
        for run in self._runs.values():
            run.is_over = True
        self._runs.clear()
        self._news, self._moves = [], []

    def events(self, until: float | None) -> list[Event]:
        """What happens next, unless that is after ``until``; empty with None: nothing ever will."""
        limit = NEVER if until is None else until
        time = max(self.now, self._next_time())
        if time > limit or time == NEVER:
            self.now = self.now if limit == NEVER else max(self.now, limit)
            return []
        self.now = time
        return self._happen()

    def cancel(self, order: Order) -> None:
        """End an order badly, now, unless it has ended."""
        run = self._runs.get(order.key)
        if run is not None:
            self._leave(run)
            self._news.append(run.event(FAILED, self.now, note=CANCELLED))

    def _next_time(self) -> float:
        """When something happens next."""
        move = self._moves[-1].time if self._moves else NEVER
        return min(self.now if self._news else NEVER, _first_time(self._ends), move)

    def _happen(self) -> list[Event]:
        """What happens now."""
        raise NotImplementedError

    def _enter(self, run: _Run) -> bool:
        """Whether an order can run at all: it cannot where its device is lost."""
        if run.order.device in self._lost:
            self._news.append(run.event(FAILED, self.now, note="the device is lost"))
            return False
        self._runs[run.order.key] = run
        return True

    def _time_end(self, run: _Run, start: float, duration: float) -> None:
        """Settle when and how a run ends."""
        failure = self._faults.failure(*run.order.key)
        run.start, run.fails = start, failure is not None
        if failure is None or not failure.hangs:
            run.end = self._faults.end(run.order.device, start, duration)

    def _leave(self, run: _Run) -> None:
        """A run is over."""
        run.is_over = True
        del self._runs[run.order.key]

    def _ended(self, run: _Run, branch: Branch) -> Event:
        self._leave(run)
        if run.fails:
            return run.event(FAILED, run.end, note="it was to fail")
        return run.event(FINISHED, run.end, branch)

    def _move_devices(self) -> list[Event]:
        """Devices that come and go now; what runs on those that go is over."""
        found = []
        while self._moves and self._moves[-1].time <= self.now:
            _, goes, device = self._moves.pop()
            found.append(Event(LOST if goes else JOINED, self.now, device))
            (self._lost.add if goes else self._lost.discard)(device)
            for run in [run for run in self._runs.values() if goes and run.order.device == device]:
                self._leave(run)
        return found


class VirtualTasks(_Virtual):
    """The jobs of a problem, each task on its own; jobs go by name or number.

    An order runs from its ``start`` on, when its data is there. One that was given ahead, or while its device is
    full or its inputs are not finished, runs as soon as both are over and its data has come; it fails where an
    input has failed. All that happens at one moment is told together: ends in the order in which they were
    begun, then starts, then devices.
    """

    def __init__(self, problem: Problem, realisation: Realisation, faults: Faults = NO_FAULTS) -> None:
        super().__init__(problem.cluster, faults)
        self._problem, self._realisation = problem, realisation
        self._number = {job.name: j for j, job in enumerate(problem.jobs)}
        self._branches = [_branches(job.graph) for job in problem.jobs]
        self._begins: Heap = []
        self._waiting: dict[int, list[_Run]] = {}  # what was given ahead, by device
        self._free: list[int] = problem.cluster.slots.tolist()
        self._done: dict[tuple[int, int], tuple[int, float]] = {}  # device and end of what is finished

    def submit(self, order: Order) -> None:
        """Have a device run a task, after what it was given before."""
        job = order.job if isinstance(order.job, int) else self._number[order.job]
        run = _Run(order, job, self._node(job, order.task), self._cluster.device_index[order.device])
        run.awaits = self._open(order.job, order.inputs)
        if not self._enter(run):
            return
        if run.device in self._waiting or not self._can_begin(run):
            self._waiting.setdefault(run.device, []).append(run)
        else:
            self._begin(run, self._data_there(run) if order.is_ahead else max(self.now, order.start))

    def _happen(self) -> list[Event]:
        found, self._news = self._news, []
        found += self._happen_to_runs()
        if moved := self._move_devices():
            found += [*moved, *self._happen_to_runs()]  # what has lost an input
        return found

    def _happen_to_runs(self) -> list[Event]:
        found: list[Event] = []
        while more := [*self._happen_ends(), *self._happen_starts()]:
            found += more
        return found

    def _happen_ends(self) -> list[Event]:
        """Ends that are due; what takes no time starts and ends at once."""
        found = []
        while _first_time(self._ends) <= self.now:
            run = heapq.heappop(self._ends)[-1]
            if not run.is_begun:
                found.append(run.event(STARTED, run.start))
            taken = self._realisation.taken[run.job]
            found.append(self._ended(run, _branch(self._branches[run.job][run.node], taken)))
            if not run.fails:
                self._done[run.job, run.node] = run.device, run.end
        return found

    def _happen_starts(self) -> list[Event]:
        """Starts that are due, also of what was given ahead."""
        found = [event for runs in list(self._waiting.values()) for event in self._take(runs)]
        while _first_time(self._begins) <= self.now:
            run = heapq.heappop(self._begins)[-1]
            run.is_begun = True
            found.append(run.event(STARTED, run.start))
        return found

    def _take(self, runs: list[_Run]) -> list[Event]:
        """What a device was given ahead and can begin; what has lost an input fails, wherever it stands."""
        found = []
        for run in list(runs):
            missing = [
                task for task in self._ended_of(run) if (run.job, self._node(run.job, task)) not in self._done
            ]
            if missing:
                self._leave(run)
                found.append(run.event(FAILED, self.now, note=f"its input {missing[0]!r} has failed"))
        while runs and self._can_begin(runs[0]):
            run = runs[0]
            self._wait_no_more(run)
            self._begin(run, self._data_there(run))
        return found

    def _ended_of(self, run: _Run) -> list[str]:
        """Of the inputs that a run awaits, those that have ended."""
        still = self._open(run.order.job, run.awaits)
        return [task for task in run.awaits if task not in still]

    def _wait_no_more(self, run: _Run) -> None:
        self._waiting[run.device].remove(run)
        if not self._waiting[run.device]:
            del self._waiting[run.device]

    def _next_time(self) -> float:
        return min(super()._next_time(), _first_time(self._begins))

    def _node(self, job: int, task: str) -> int:
        return self._problem.jobs[job].graph.index[task]

    def _slots(self, run: _Run) -> int:
        return int(self._problem.jobs[run.job].graph.slots[run.node])

    def _can_begin(self, run: _Run) -> bool:
        """Whether the device has room, and no input is still to end."""
        return self._slots(run) <= self._free[run.device] and not self._open(run.order.job, run.awaits)

    def _open(self, job: Name, tasks: tuple[str, ...]) -> tuple[str, ...]:
        """Those of these tasks of a job that have been given here and have not ended."""
        given = {task for name, task, _ in self._runs if name == job} if tasks else set()
        return tuple(task for task in tasks if task in given)

    def _begin(self, run: _Run, start: float) -> None:
        """A run holds its slots from now on and starts when its data is there."""
        self._free[run.device] -= self._slots(run)
        row = self._problem.offsets[run.job] + run.node
        duration = self._realisation.run_times[row, self._cluster.device_class[run.device]]
        self._time_end(run, start, float(duration))
        number = (next(self._counter),)
        heapq.heappush(self._begins, (run.start, number, run))
        heapq.heappush(self._ends, (run.end, number, run))

    def _data_there(self, run: _Run) -> float:
        """When all results that a run needs can be on its device."""
        graph, ready = self._problem.jobs[run.job].graph, self.now
        for e in np.flatnonzero(graph.targets == run.node).tolist():
            device, end = self._done.get((run.job, int(graph.sources[e])), (run.device, 0.0))
            ready = max(ready, end + self._problem.transfer_time(device, run.device, float(graph.data[e])))
        return ready

    def _leave(self, run: _Run) -> None:
        super()._leave(run)
        if run.start < NEVER:
            self._free[run.device] += self._slots(run)
        else:
            self._wait_no_more(run)


class VirtualQueues(_Virtual):
    """A stream of jobs, which go by number; orders of one batch, given together, run as one from now on.

    ``taken`` (num_edges, num_jobs) says what the branches of tasks decide; None: the seed does. A device is vacated
    when the time of its batch has come, and ends follow one a call, older jobs first: whoever drives the
    engine may decide in between, and what takes no time then ends in its place among them.
    """

    def __init__(
        self, setup: Setup, seed: int, taken: Bools | None = None, faults: Faults = NO_FAULTS
    ) -> None:
        problem = setup.problem
        super().__init__(problem.cluster, faults)
        self._taken = taken_edges(setup, seed) if taken is None else taken
        self._branches, self._peeks = _branches(problem.graph), setup.rules.peeks
        self._index, self._run_times = problem.graph.index, problem.run_times.tolist()
        self._device_class = problem.cluster.device_class.tolist()
        self._given: list[_Run] = []  # since the last events
        self._batches: list[tuple[float, int, list[_Run]]] = []  # a heap: when each is over

    def submit(self, order: Order) -> None:
        """Have a device run a task at once, with all others of its batch."""
        device = self._cluster.device_index[order.device]
        run = _Run(order, int(order.job), self._index[order.task], device)
        if self._enter(run):
            self._given.append(run)

    def _happen(self) -> list[Event]:
        found = [*self._news, *self._happen_starts()]
        self._news = []
        is_quiet = not found
        while self._batches and self._batches[0][0] <= self.now:
            there = [run for run in heapq.heappop(self._batches)[-1] if not run.is_over]
            found += [run.event(VACATED, self.now) for run in there[:1]]
        if is_quiet and _first_time(self._ends) <= self.now:
            run = heapq.heappop(self._ends)[-1]
            return [*found, self._ended(run, self._branch(run))]
        return found or self._move_devices()

    def _happen_starts(self) -> list[Event]:
        """All that was given starts now."""
        given, self._given = [run for run in self._given if not run.is_over], []
        batches: dict[int, list[_Run]] = {}
        for run in given:
            batches.setdefault(run.order.batch, []).append(run)
        for runs in batches.values():
            self._begin(runs)
        return [run.event(STARTED, self.now, self._branch(run) if self._peeks else None) for run in given]

    def _begin(self, runs: list[_Run]) -> None:
        """The longest task says how long a batch takes; one that hangs keeps its device."""
        duration = max(self._run_times[run.node][self._device_class[run.device]] for run in runs)
        for run in runs:
            self._time_end(run, self.now, duration)
            heapq.heappush(self._ends, (run.end, (run.job, run.node, run.device, next(self._counter)), run))
        end = max(run.end for run in runs)
        heapq.heappush(self._batches, (end, next(self._counter), runs))

    def _next_time(self) -> float:
        return min(super()._next_time(), self.now if self._given else NEVER)

    def _branch(self, run: _Run) -> Branch:
        return _branch(self._branches[run.node], self._taken[:, run.job])


Ways = list[tuple[int, int]]
"""Edge and target of every way out of the branches of a task."""


def _branches(graph: TaskGraph) -> list[Ways]:
    """Of every task."""
    found: list[Ways] = [[] for _ in range(graph.num_tasks)]
    for e in np.flatnonzero(graph.branch != ALWAYS).tolist():
        found[int(graph.sources[e])].append((e, int(graph.targets[e])))
    return found


def _branch(ways: Ways, taken: Bools) -> Branch:
    """Where they lead; ``taken`` (num_edges,)."""
    return tuple(target for e, target in ways if taken[e]) if ways else None
