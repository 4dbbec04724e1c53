"""The task view, decision by decision: every task of the problem's jobs is dispatched on its own.

Items are the problem's task numbers, a lane is a device. A job that arrives is one of the problem's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weft.errors import InputError, UnsupportedError
from weft.model.graph import ALWAYS, Bools
from weft.model.problem import Problem
from weft.policies.candidates.dispatcher import CandidateDispatcher
from weft.schedulers.dispatchers.replanning import PlanDispatcher, Plans, can_join
from weft.schedulers.dispatchers.tasks import RuleDispatcher
from weft.schedulers.own import Decides, OwnDispatcher
from weft.session.json_arrays import arrayed, fingerprint, plain
from weft.session.messages import Name
from weft.session.view import Started
from weft.sim.jit import announce
from weft.sim.tasks.layout import compile_tasks, new_task_state
from weft.sim.tasks.moves import expire, finish, join, lose, release
from weft.sim.tasks.prices import LivePrices
from weft.sim.tasks.rules import BY_KEY, VIRTUAL, TaskRule
from weft.sim.tasks.state import NUM_STARTED, READY, RUNNING, Facts, Tasks, TaskState
from weft.sim.tasks.step_by_step import abort, decide_live

_ROWS = ("row_task", "row_device", "row_start", "row_finish", "row_expected", "row_status")
_LISTS = ("next_row", "before", "after")

Dispatches = RuleDispatcher | PlanDispatcher | OwnDispatcher


class TaskView:
    """The jobs of one problem under a rule or another's dispatcher, or planned as they arrive."""

    can_vacate = False
    num_fallbacks = 0

    def __init__(self, problem: Problem, dispatcher: Dispatches, seed: int) -> None:
        is_plan = isinstance(dispatcher, PlanDispatcher)
        problem = _without_copies(problem) if is_plan else problem
        reason = _refuse_planner(dispatcher) or dispatcher.supports(problem)
        if reason is not None:
            raise UnsupportedError(f"{dispatcher.name}: {reason}", field="scheduler")
        announce()
        self.problem = problem
        self._w = compile_tasks([problem])
        self._f = _nothing_known(problem, self._w)
        self._s = new_task_state(self._w)
        self._plans: Plans | None = None
        self._prices: LivePrices | None = None
        self._decider: Decides | None = None
        self._rule = TaskRule(BY_KEY, VIRTUAL, 0, np.zeros(0), np.zeros((0, 0)))  # starts nothing itself
        if isinstance(dispatcher, PlanDispatcher):
            self._plans = Plans(dispatcher, problem, self._w, self._f, self._s, seed)
        elif isinstance(dispatcher, OwnDispatcher):
            self._decider = dispatcher.decider(problem, seed)
        else:
            self._rule = dispatcher.rule([problem], self._s, [seed])
            self._prices = LivePrices(problem) if dispatcher.is_priced else None
        if isinstance(dispatcher, CandidateDispatcher):
            self._decider = dispatcher.decider(problem, self._rule)
        self._is_outdated = False
        self._num_started = 0
        self._fingerprint = fingerprint(self._w)
        self._number = {job.name: j for j, job in enumerate(problem.jobs)}
        self._arrived: set[int] = set()
        self._row: dict[int, int] = {}
        self.lane_device = np.arange(problem.cluster.num_devices)
        self.is_lost: Bools = np.zeros(problem.cluster.num_devices, np.bool_)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of jobs and devices."""
        return self._fingerprint

    # -- jobs and tasks ----------------------------------------------------------------------------

    def number(self, job: Name) -> int:
        """A job of the problem, by name or number."""
        number = self._number.get(job, -1) if isinstance(job, str) else job
        if not 0 <= number < len(self.problem.jobs):
            raise InputError(f"no job {job!r} in the problem", field="arrived.job")
        if number in self._arrived:
            raise InputError(f"job {job!r} has arrived before, by its name or number", field="arrived.job")
        return number

    def template(self, number: int) -> int:
        """Every job is its own."""
        return number

    def items(self, number: int) -> range:
        """Items of all tasks of a job."""
        return range(int(self.problem.offsets[number]), int(self.problem.offsets[number + 1]))

    def place(self, item: int) -> tuple[int, int]:
        """Number of the job and node of an item."""
        number = int(self.problem.job_of[item])
        return number, item - int(self.problem.offsets[number])

    # -- events ------------------------------------------------------------------------------------

    def pass_time(self, time: float) -> None:
        """Set the clock."""
        self._s.now[0] = time

    def arrive(self, number: int, time: float) -> None:
        """A job enters."""
        self._arrived.add(number)
        self._w.job_release[number] = time
        self._s.next_job[0] += 1
        if self._prices is not None:
            self._prices.arrive(number, self._rule.price, int(self._s.next_job[0]) - 1, self._s.work)
        release(self._w, self._s, 0, number)
        if self._plans is not None:
            self._follow(self._plans)
            self._plans.plan(number)

    def count_outcome(self, item: int, edges: Sequence[int]) -> None:
        """No rule of this view keeps estimates."""

    def end(self, item: int, edges: Sequence[int], *, is_counted: bool) -> bool:
        """A task has ended and takes these of its edges; returns whether its job is done with it."""
        first = int(self._w.succ_ptr[item])
        for place in edges:
            self._f.taken[first + place] = True
        finish(self._w, self._f, self._s, 0, self._row.pop(item))
        return self.is_over(int(self._w.job[item]))

    def fail(self, item: int) -> None:
        """A running task came to nothing: it waits again."""
        abort(self._w, self._s, 0, self._row.pop(item))
        self._is_outdated = True

    def drop(self, item: int) -> None:
        """A task of a job that was given up has ended: its device is free of it."""
        abort(self._w, self._s, 0, self._row.pop(item))

    def withdraw(self, number: int) -> None:
        """A job is given up: none of its tasks waits or will."""
        expire(self._w, self._s, 0, number)

    def begin(self, item: int, lane: int, time: float, late: float) -> None:
        """A task runs, from this time on."""
        row = self._row[item]
        self._s.row_start[row] = time
        self._s.row_expected[row] = time + self._w.run[item, self._w.device_class[lane]]

    def free(self, lane: int, time: float) -> None:
        """Devices are free of a task when it ends."""

    def lose(self, lanes: Sequence[int], items: Sequence[int]) -> None:
        """Devices are gone; what ran there waits again."""
        for lane in lanes:
            self.is_lost[lane] = True
            lose(self._w, self._s, 0, lane)
        self._row = {item: row for item, row in self._row.items() if self._s.row_device[row] not in lanes}
        self._is_outdated = True

    def join(self, lanes: Sequence[int], time: float) -> None:
        """Devices are back, and free."""
        for lane in lanes:
            self.is_lost[lane] = False
            join(self._w, self._s, 0, lane)
        self._is_outdated = True

    # -- decisions ---------------------------------------------------------------------------------

    def decide(self) -> Started:
        """What the rule starts now, every task on its own."""
        if self._plans is not None:
            self._follow(self._plans)
        else:
            self._make_room(int(self._s.num_rows[0] + self._s.num_ready[0]))
            decide_live(self._rule, self._w, self._f, self._s, 0)
        if self._decider is not None:
            self._decider.decide(self._w, self._f, self._s)
        if self._s.count[0, NUM_STARTED] == self._num_started:
            return []
        self._num_started = int(self._s.count[0, NUM_STARTED])
        is_new = self._s.row_status[: self._s.num_rows[0]] == RUNNING
        is_new[list(self._row.values())] = False
        started: Started = []
        for row in np.flatnonzero(is_new).tolist():
            item = int(self._s.row_task[row])
            self._row[item] = row
            started.append((int(self._s.row_device[row]), [item]))
        return started

    def _follow(self, plans: Plans) -> None:
        """Start what is reserved and can start; plan again if something changed or is late."""
        self._make_room(int(self._s.num_rows[0]) + self.problem.num_tasks)
        if self._is_outdated:
            plans.plan_again()
        decide_live(self._rule, self._w, self._f, self._s, 0)
        if plans.is_late:
            plans.plan_again()
        self._is_outdated = False

    def decide_anyhow(self) -> Started:
        """Nothing: rules of this view start whatever has room."""
        return []

    @property
    def has_choice(self) -> bool:
        """Whether a task is ready and a device has room."""
        return bool(self._s.num_ready[0] > 0 and self._s.num_free[0] > 0)

    @property
    def num_waiting(self) -> int:
        """Tasks that are ready and have not started."""
        return int(np.count_nonzero(self._s.status == READY))

    @property
    def num_expired(self) -> int:
        """None: jobs of this view do not expire."""
        return 0

    def is_over(self, number: int) -> bool:
        """Whether a job is done."""
        return not np.isnan(self._s.job_finish[number])

    def expected_times(self, item: int, lane: int) -> tuple[float, float]:
        """When the data of a task should be there, and when it should end."""
        row = self._row[item]
        return float(self._s.row_start[row]), float(self._s.row_expected[row])

    def wake_at(self) -> float | None:
        """When the rule wants to be asked again."""
        wake = float(self._s.wake[0])
        return wake if np.isfinite(wake) else None

    def _make_room(self, num_rows: int) -> None:
        """Room for more attempts than tasks."""
        room = len(self._s.row_task)
        if num_rows <= room:
            return
        more = max(num_rows, 2 * room)
        grown = {name: np.resize(getattr(self._s, name), more) for name in (*_ROWS, *_LISTS)}
        self._s = self._s._replace(row_ptr=np.array([0, more], np.int64), **grown)
        if self._plans is not None:
            self._plans.s, late = self._s, self._plans.late
            self._plans.late = np.concatenate([late, np.full(more - room, np.inf)])

    # -- snapshots ---------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Everything that changes, as plain data."""
        return {
            "state": {name: plain(column) for name, column in self._s._asdict().items()},
            "taken": self._f.taken.tolist(),
            "release": self._w.job_release.tolist(),
            "arrived": sorted(self._arrived),
            "rows": list(self._row.items()),
            "is_lost": self.is_lost.tolist(),
            "is_outdated": self._is_outdated,
            "num_started": self._num_started,
            "prices": self._prices.snapshot() if self._prices is not None else None,
            "plans": [self._plans.planned, plain(self._plans.late)] if self._plans is not None else None,
        }

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Go back to a snapshot; whatever does not fit raises a KeyError, TypeError or ValueError."""
        columns = self._s._asdict()
        self._s = TaskState(**{name: arrayed(stored["state"][name], columns[name]) for name in columns})
        for name, column in columns.items():
            if len(getattr(self._s, name)) != len(column) and name not in (*_ROWS, *_LISTS):
                raise ValueError(f"expected {len(column)} entries of {name}")
        self._f.taken[:] = stored["taken"]
        self._w.job_release[:] = stored["release"]
        self._arrived = {int(number) for number in stored["arrived"]}
        self._row = {int(item): int(row) for item, row in stored["rows"]}
        self.is_lost[:] = stored["is_lost"]
        self._is_outdated, self._num_started = bool(stored["is_outdated"]), int(stored["num_started"])
        if self._prices is not None:
            self._prices.restore(stored["prices"], self._rule.price, int(self._s.next_job[0]) - 1)
        if self._plans is not None:
            planned, late = stored["plans"]
            self._plans.s, self._plans.planned = self._s, [int(number) for number in planned]
            self._plans.late = arrayed(late, self._plans.late)


def _without_copies(problem: Problem) -> Problem:
    """A session tells tasks apart by job and task alone, so that a plan must not copy them."""
    return problem.replaced(objective=replace(problem.objective, copies=False))


def _refuse_planner(dispatcher: Dispatches) -> str | None:
    if isinstance(dispatcher, PlanDispatcher) and not can_join(dispatcher.planner):
        return "it cannot plan around what runs already"
    return None


def _nothing_known(problem: Problem, w: Tasks) -> Facts:
    """Facts of a live session: only what is always so."""
    taken = np.concatenate([job.graph.branch == ALWAYS for job in problem.jobs])
    return Facts(run=w.run, taken=taken, is_live=True)
