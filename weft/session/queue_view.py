"""The queue view, decision by decision: a rule or a policy acts on what is reported.

Items are the kernel's, ``job * max_nodes + node``; a device has one lane per slot.
"""

from __future__ import annotations

import heapq
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.errors import UnsupportedError
from weft.model.graph import Bools
from weft.model.problem import Job, Problem
from weft.policies.guard import safe_dispatcher
from weft.policies.learned import Learned
from weft.schedulers.dispatchers.queues import Dispatcher, fifo, refuse_stream
from weft.session.json_arrays import arrayed, fingerprint, plain
from weft.session.messages import Name
from weft.session.names import descendants, is_same_graph
from weft.session.queue_room import with_longer_queues, with_twice_the_jobs, with_twice_the_slots
from weft.session.view import Coming, Reserved, Started
from weft.sim.queues.environment import Narrowing
from weft.sim.queues.kernel import EXPIRED, IN_SYSTEM, LAST_DONE, LAST_KIND, NEXT_JOB, NOW, State
from weft.sim.queues.layout import Rules, compile_stream, edge_probabilities, new_state, num_branches
from weft.sim.queues.observation import num_features
from weft.sim.queues.step_by_step import (
    act_on_choice,
    decide_by_rule,
    observe_due,
    queue_again,
    start_anyhow,
    tell_arrival,
    tell_end,
    tell_outcome,
)

FIRST_ROOM = 64
"""Room for this many jobs and waiting tasks; twice as much whenever that is too little."""
_COLUMNS = (
    "free_at", "running_kind", "running_size", "device_busy", "device_batches", "device_tasks", "seen",
    "count", "total",
)  # fmt: skip
"""Fields of the state that a snapshot keeps as they are."""


class QueueView:
    """One stream of jobs under a rule or a policy."""

    can_vacate = True

    def __init__(self, problem: Problem, rules: Rules, chooser: Dispatcher | Learned, seed: int) -> None:
        _refuse(problem, rules, chooser)
        self.problem = problem
        self.lane_device = np.repeat(np.arange(problem.cluster.num_devices), problem.cluster.slots)
        self.stream = compile_stream(problem, rules)._replace(peeks=False)
        self._counted = self.stream._replace(peeks=True)
        self._chooser = chooser.clone() if isinstance(chooser, Learned) else chooser
        self._dispatcher = (
            chooser if isinstance(chooser, Dispatcher) else safe_dispatcher(problem, chooser.guard)
        )
        self.num_fallbacks = 0
        seeds = np.array([seed], np.int64)
        self._rule = self._acting = self._dispatcher.rule(problem, self.stream, seeds)
        self._fallback = fifo.waiting().rule(problem, self.stream, seeds)
        self._whole = (self.stream.batch.copy(), self.stream.can_run.copy())
        self._longest = float(np.max(self.stream.run, where=np.isfinite(self.stream.run), initial=0.0))
        self._state = _empty_state(self)
        self.max_nodes = self._state.open_edges.shape[2]
        num_lanes, num_kinds = self.stream.can_run.shape
        self.is_busy: Bools = np.zeros(num_lanes, np.bool_)
        self.is_lost: Bools = np.zeros(num_lanes, np.bool_)
        self._action = np.zeros(num_lanes, np.int64)
        self._items = np.zeros((num_lanes, int(self.stream.batch.max(initial=1))), np.int64)
        self._sizes = np.zeros(num_lanes, np.int64)
        width = 0
        if isinstance(chooser, Learned):
            width = num_features(chooser.sight, num_kinds, num_lanes, num_branches(self.stream))
        self._observation = np.zeros(width, np.float32)
        self._mask = np.ones((num_lanes, num_kinds + 1), np.bool_)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of graph, devices and rules of the game."""
        return fingerprint(self.stream._replace(batch=self._whole[0], can_run=self._whole[1]))

    # -- jobs and tasks ----------------------------------------------------------------------------

    def expect(self, name: Name, job: Job | None) -> Coming:
        """Jobs are numbered as they arrive, whatever they are called; all have the graph of the problem."""
        if job is not None:
            self._refuse_other(job)
        return Coming(int(self._state.count[0, NEXT_JOB]), None)

    def _refuse_other(self, job: Job) -> None:
        if not is_same_graph(job.graph, self.problem.graph):
            raise UnsupportedError(
                f"expected the graph of {self.problem.jobs[0].name!r}: {self._dispatcher.name} keeps queues by its "
                "kinds; a session that is opened with the cluster takes any graph",
                field="arrived.graph",
            )
        for name in ("deadline", "eligible", "booking"):
            if getattr(job, name) is not None:
                raise UnsupportedError("queues by kind know none", field=f"arrived.{name}")

    def template(self, number: int) -> int:
        """All jobs repeat the one of the problem."""
        return 0

    def items(self, number: int) -> range:
        """Items of all tasks of a job."""
        return range(number * self.max_nodes, (number + 1) * self.max_nodes)

    def place(self, item: int) -> tuple[int, int]:
        """Number of the job and node of an item."""
        return divmod(item, self.max_nodes)

    # -- events ------------------------------------------------------------------------------------

    def pass_time(self, time: float) -> None:
        """Set the clock."""
        self._state.total[0, NOW] = time

    def arrive(self, coming: Coming, time: float) -> None:
        """The next job enters."""
        self._make_room(coming.number)
        self._state.arrival[0, coming.number] = time
        tell_arrival(self.stream, self._state, 0)

    def count_outcome(self, item: int, edges: Sequence[int]) -> None:
        """The branches of a task are known: count them in the running estimates."""
        self._tell(edges)
        tell_outcome(self.stream, self._state, 0, item)

    def end(self, item: int, edges: Sequence[int], *, is_counted: bool) -> bool:
        """A task has ended and takes these of its edges; returns whether its job is done with it."""
        self._make_queue_room()
        finish, job = self._state.finish, item // self.max_nodes
        was_open = bool(np.isnan(finish[0, job]))
        self._tell(edges)
        tell_end(self._counted if is_counted else self.stream, self._state, 0, item)
        return was_open and not np.isnan(finish[0, job])

    def fail(self, item: int) -> None:
        """A task that did not end waits again."""
        self._make_queue_room()
        queue_again(self.stream, self._state, 0, item)

    def drop(self, item: int) -> None:
        """What is dropped has left the queues already; its lane is freed by batch."""

    def withdraw(self, number: int) -> None:
        """A job is given up: none of its tasks waits or will."""
        self._unqueue(self.items(number))
        self._close(number, int(self._state.open_tasks[0, number % self._state.open_tasks.shape[1]]))

    def cut(self, item: int) -> list[int]:
        """A task is given up, and with it all that needs it; returns the nodes of those."""
        number, node = self.place(item)
        self._unqueue(range(item, item + 1))
        self._close(number, 1)
        return descendants(self.problem.graph, node)

    def _close(self, number: int, num_tasks: int) -> None:
        """So many tasks of a job neither wait nor run any longer; it is over when no other does."""
        s = self._state
        slot = number % s.open_tasks.shape[1]
        s.open_tasks[0, slot] -= num_tasks
        if s.open_tasks[0, slot] == 0 and np.isnan(s.finish[0, number]):
            s.finish[0, number] = s.total[0, NOW]
            s.count[0, IN_SYSTEM] -= 1

    def _unqueue(self, items: range) -> None:
        """None of these items waits any longer."""
        s = self._state
        for kind in range(s.queued.shape[1]):
            waiting = s.queue[0, kind, : s.queued[0, kind]].tolist()
            kept = [item for item in waiting if item not in items]
            if len(kept) < len(waiting):
                heapq.heapify(kept)
                s.queue[0, kind, : len(kept)] = kept
                s.queued[0, kind] = len(kept)

    def begin(self, item: int, lane: int, time: float, late: float) -> None:
        """A task runs; if its batch began late, its lane is free the later."""
        if late > 0:
            self._state.free_at[0, lane] += late

    def adopt(self, item: int, lane: int) -> bool:
        """Nothing starts here but by decision: tasks of a kind are told apart when they are given out."""
        return False

    def free(self, lane: int, time: float) -> None:
        """A lane can start again."""
        self.is_busy[lane] = False
        self._state.free_at[0, lane] = min(self._state.free_at[0, lane], time)

    def lose(self, lanes: Sequence[int], items: Sequence[int]) -> None:
        """Lanes are gone; these items, which ran there, wait again."""
        for lane in lanes:
            self.is_lost[lane], self.is_busy[lane] = True, False
            self.stream.batch[lane], self.stream.can_run[lane] = 0, False
            self._state.free_at[0, lane], self._state.running_kind[0, lane] = np.inf, -1
        for item in items:
            self.fail(item)
        self._adapt()

    def join(self, lanes: Sequence[int], time: float) -> None:
        """Lanes are back, and free."""
        for lane in lanes:
            self.is_lost[lane] = False
            self.stream.batch[lane], self.stream.can_run[lane] = (column[lane] for column in self._whole)
            self._state.free_at[0, lane] = time
        self._adapt()

    def _adapt(self) -> None:
        """Where a rule cannot act on the devices that are left, the oldest job goes first."""
        fits = self._dispatcher.refuse_devices(self.problem, self.stream) is None
        self._acting = self._rule if fits else self._fallback

    # -- decisions ---------------------------------------------------------------------------------

    def close(self) -> None:
        """The session asks for a start where a rule would wait for others in vain."""

    def decide(self) -> Started:
        """What the rule or the policy starts now."""
        if isinstance(self._chooser, Learned):
            return self._ask_policy(self._chooser)
        is_due = decide_by_rule(
            self._acting, self.stream, self._state, 0, self.is_busy, self._action, self._items, self._sizes
        )
        return self._started() if is_due else []

    def _ask_policy(self, learned: Learned) -> Started:
        s = self._state
        if self.is_lost.any():  # to a policy a lost device is one that will be busy for long
            s.free_at[0, self.is_lost] = s.total[0, NOW] + self._longest
        if not observe_due(self.stream, learned.sight, s, 0, self.is_busy, self._observation, self._mask):
            return []
        if learned.guard is not None and learned.guard.is_needed(self._observation):
            return self._fall_back(learned)
        narrow = Narrowing(self.stream, s) if learned.narrows else None
        self._action[:] = learned.decide(self._observation, self._mask, narrow)
        act_on_choice(self.stream, s, 0, self._action, learned.waits, self._items, self._sizes)
        return self._started()

    def _fall_back(self, learned: Learned) -> Started:
        """A rule decides where the policy never was in training; said once, counted always."""
        if not self.num_fallbacks and learned.guard is not None and learned.guard.warning:
            message = f"{learned.name}: {learned.guard.warning}, {self._dispatcher.name} decides there"
            warnings.warn(message, stacklevel=5)
        self.num_fallbacks += 1
        decide_by_rule(
            self._acting, self.stream, self._state, 0, self.is_busy, self._action, self._items, self._sizes
        )
        return self._started()

    def decide_anyhow(self) -> Started:
        """The first start that is possible, for when the rule would wait forever."""
        start_anyhow(self.stream, self._state, 0, self._items, self._sizes)
        return self._started()

    def _started(self) -> Started:
        lanes = np.flatnonzero(self._sizes).tolist()
        self.is_busy[lanes] = True
        return [(lane, self._items[lane, : self._sizes[lane]].tolist()) for lane in lanes]

    def reserved(self, lanes: Sequence[int], most: int | None = None) -> list[Reserved]:
        """Nothing: tasks in queues by kind go to whichever device asks first."""
        return []

    @property
    def num_plans(self) -> int:
        """None."""
        return 0

    @property
    def has_choice(self) -> bool:
        """Whether a lane is free and a task waits."""
        s = self._state
        return bool(s.queued.any()) and bool(((s.free_at[0] <= s.total[0, NOW]) & ~self.is_busy).any())

    @property
    def num_waiting(self) -> int:
        """Tasks in all queues."""
        return int(self._state.queued.sum())

    def expected_times(self, item: int, lane: int) -> tuple[float, float]:
        """From now until the lane is free."""
        return float(self._state.total[0, NOW]), float(self._state.free_at[0, lane])

    def wake_at(self) -> float | None:
        """When to ask again if nothing happens: a block ends, or a waiting task expires."""
        s = self._state
        if (self.stream.idle_block == 0.0 and self.stream.expiry == np.inf) or not s.queued.any():
            return None
        is_blocked = ~self.is_busy & ~self.is_lost & (s.free_at[0] > s.total[0, NOW])
        if is_blocked.any():
            return float(s.free_at[0, is_blocked].min())
        if self.stream.expiry == np.inf:
            return None
        oldest = int(s.queue[0, s.queued[0] > 0, 0].min()) // self.max_nodes
        return float(np.nextafter(s.arrival[0, oldest] + self.stream.expiry, np.inf))

    @property
    def num_expired(self) -> int:
        """Jobs that have expired so far."""
        return int(self._state.count[0, EXPIRED])

    def is_over(self, number: int) -> bool:
        """Whether a job is done, expired or given up."""
        return not np.isnan(self._state.finish[0, number])

    # -- room --------------------------------------------------------------------------------------

    def _tell(self, edges: Sequence[int]) -> None:
        told = self._state.told[0]
        told[:] = False
        for place in edges:
            told[place] = True

    def _make_room(self, job: int) -> None:
        """Room for one more job and all its tasks."""
        if job >= self._state.arrival.shape[1]:
            self._state = with_twice_the_jobs(self._state)
        while self._state.open_tasks[0, job % self._state.open_tasks.shape[1]] > 0:
            self._state = with_twice_the_slots(self._state, job)
        self._make_queue_room()

    def _make_queue_room(self) -> None:
        s = self._state
        if int(s.queued.max(initial=0)) + self.max_nodes > s.queue.shape[2]:
            self._state = with_longer_queues(s)

    # -- snapshots ---------------------------------------------------------------------------------

    @property
    def held(self) -> Mapping[int, Job]:
        """None: all jobs are of the problem's one graph."""
        return {}

    def snapshot(self) -> dict[str, Any]:
        """Everything that changes, as plain data; ended jobs are left out."""
        s = self._state
        num_jobs, num_slots = int(s.count[0, NEXT_JOB]), s.open_tasks.shape[1]
        slots = np.flatnonzero(s.open_tasks[0]).tolist()
        jobs = sorted(num_jobs - 1 - (num_jobs - 1 - slot) % num_slots for slot in slots)
        return {
            "jobs": [[job, float(s.arrival[0, job]), self.is_over(job)] for job in jobs],
            "open_tasks": [int(s.open_tasks[0, job % num_slots]) for job in jobs],
            "open_edges": [s.open_edges[0, job % num_slots].tolist() for job in jobs],
            "queues": [s.queue[0, k, :n].tolist() for k, n in enumerate(s.queued[0].tolist())],
            "columns": {name: plain(getattr(s, name)[0]) for name in _COLUMNS},
            "is_busy": self.is_busy.tolist(),
            "is_lost": self.is_lost.tolist(),
            "rules": [[int(rule.state[0]), int(rule.last[0])] for rule in (self._rule, self._fallback)],
        }

    def restore(self, stored: Mapping[str, Any], added: Mapping[int, Job]) -> None:
        """Go back to a snapshot; whatever does not fit raises a KeyError, TypeError or ValueError."""
        for name in _COLUMNS:
            column = getattr(self._state, name)
            column[0] = arrayed(stored["columns"][name], column[0])
        self._restore_jobs(stored)
        for kind, items in enumerate(stored["queues"]):
            while len(items) > self._state.queue.shape[2] - self.max_nodes:
                self._state = with_longer_queues(self._state)
            self._state.queue[0, kind, : len(items)] = items
            self._state.queued[0, kind] = len(items)
        for rule, (word, last) in zip((self._rule, self._fallback), stored["rules"], strict=True):
            rule.state[0], rule.last[0] = word, last
        self.is_busy[:] = stored["is_busy"]
        is_lost = np.array(stored["is_lost"], np.bool_)
        self.lose(np.flatnonzero(is_lost).tolist(), ())

    def _restore_jobs(self, stored: Mapping[str, Any]) -> None:
        num_jobs = int(self._state.count[0, NEXT_JOB])
        while self._state.arrival.shape[1] < num_jobs:
            self._state = with_twice_the_jobs(self._state)
        rows = zip(stored["jobs"], stored["open_tasks"], stored["open_edges"], strict=True)
        for (job, arrival, is_over), num_open, edges in rows:
            while self._state.open_tasks[0, job % self._state.open_tasks.shape[1]] > 0:
                self._state = with_twice_the_slots(self._state, job)
            slot = job % self._state.open_tasks.shape[1]
            self._state.arrival[0, job] = arrival
            self._state.finish[0, job] = arrival if is_over else np.nan
            self._state.open_tasks[0, slot], self._state.open_edges[0, slot] = num_open, edges


def _refuse(problem: Problem, rules: Rules, chooser: Dispatcher | Learned) -> None:
    """Raise where the chooser cannot act on a stream of this problem."""
    reason = chooser.supports(problem) if isinstance(chooser, Dispatcher) else refuse_stream(problem)
    if reason is None and problem.num_tasks == 0:
        reason = "the graph has no tasks"
    if reason is not None:
        raise UnsupportedError(f"{chooser.name}: {reason}", field="scheduler")
    if isinstance(chooser, Learned):
        chooser.refuse_misfit(problem, rules)


def _empty_state(view: QueueView) -> State:
    """No job yet, all lanes free, the clock not started."""
    probability = edge_probabilities(view.problem)
    state = new_state(view.stream, 1, FIRST_ROOM, probability, room=FIRST_ROOM, told=True)
    state.finish[:] = np.nan
    state.free_at[:] = state.total[:, NOW] = -np.inf
    state.running_kind[:] = -1
    state.count[:, [LAST_KIND, LAST_DONE]] = -1
    return state
