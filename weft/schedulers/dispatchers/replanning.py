"""Planners as dispatchers: each arriving job is planned around what is committed, and carried out.

Devices and orders of the plan are kept, starts follow what happens. When a task is later than planned
by more than a share of its job's planned length, or a device is lost or joins, all that has not started
is planned again, job by job in the order of arrival; or so at every event. A planner that cannot plan around others plans each job as if it were alone,
once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeGuard

import numpy as np

from weft.errors import InfeasibleError, InputError, UnsupportedError
from weft.model.graph import Bools, Ints
from weft.model.problem import Job, Problem, Realisation
from weft.model.schedule import Schedule
from weft.schedulers.base import Limit, Planner
from weft.schedulers.dispatchers.outages import Outage, extra_rows, moves_of, refuse_unfinished
from weft.schedulers.planners.lists import Heft
from weft.sim.tasks.clock import run_until
from weft.sim.tasks.growing import Kept
from weft.sim.tasks.layout import (
    compile_tasks,
    facts_of,
    new_task_state,
    refuse_bookings,
    refuse_tasks,
    schedule_of,
)
from weft.sim.tasks.moves import cancel, reserve, serve_all
from weft.sim.tasks.replay import plan_order
from weft.sim.tasks.state import ENDED, EXPIRED, PLANNED, RUNNING, Facts, Tasks, TaskState
from weft.sim.timeline.committed import Beside, write_committed

DRIFT = 0.1
"""Share of its job's planned length by which a task may be late before all is planned again."""
ALWAYS_LATE = -1.0
"""Of a row whose every event is a reason to plan again."""
ENV = 0


@dataclass(frozen=True)
class PlanDispatcher:
    """Plans every job when it arrives."""

    name: str
    planner: Planner
    drift: float = DRIFT
    """Infinite: what is planned stays."""
    at_every_event: bool = False
    """Whether all that has not started is planned again whenever something happens, late or not."""

    def __post_init__(self) -> None:
        if not self.drift > 0:
            raise InputError(f"expected a share > 0, got {self.drift}", field="drift")

    def supports(self, problem: Problem) -> str | None:
        """None if the planner can plan these jobs and the task view can run them, else the reason."""
        if self.at_every_event and not can_join(self.planner):
            return "it cannot plan around what runs, so not again at every event"
        return refuse_tasks(problem) or refuse_bookings(problem) or self.planner.supports(problem)

    def run_all(
        self,
        problems: Sequence[Problem],
        realisations: Sequence[Realisation],
        seeds: Sequence[int],
        outages: Sequence[Outage] = (),
    ) -> list[Schedule]:
        """One problem after the other; whenever a device is lost or joins, all is planned again."""
        if outages and not can_join(self.planner):
            raise UnsupportedError(
                f"{self.name}: it cannot plan around what runs, so not again when a device is lost",
                field="scheduler",
            )
        runs = zip(problems, realisations, seeds, strict=True)
        return [_Run(self, problem, realisation, seed, outages).play() for problem, realisation, seed in runs]


heft_job = PlanDispatcher("heft-job", Heft(), float("inf"))


class Joining(Planner, Protocol):
    """A planner that plans around what devices are held by already."""

    plans_beside: bool

    def plan_beside(self, problem: Problem, beside: Beside, *, seed: int = 0) -> Schedule:
        """A plan of what has not started, around what is committed."""


def can_join(planner: Planner) -> TypeGuard[Joining]:
    """Whether a planner plans around what devices are held by already."""
    return getattr(planner, "plans_beside", False) is True


@dataclass(eq=False)
class GivenPlan:
    """Plans that were made before, by any planner: each job is carried out as its plan says.

    A job without one, and whatever has to be planned again, is planned by HEFT around what runs.
    """

    name: str
    given: Mapping[str, Schedule]
    """Name of a job to its plan, of that job alone from time 0 on."""
    plans_beside: bool = True

    def supports(self, problem: Problem) -> str | None:
        """As of HEFT."""
        return Heft().supports(problem)

    def plan(self, problem: Problem, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
        """By HEFT: a given plan is for a session that carries it out."""
        return Heft().plan(problem, seed=seed, limit=limit)

    def plan_beside(self, problem: Problem, beside: Beside, *, seed: int = 0) -> Schedule:
        """The given plan if nothing is in its way, else a new one."""
        given = self.given.get(problem.jobs[0].name)
        if given is None or len(beside.fixed_task) or not _fits(given, problem, beside):
            return Heft().plan_beside(problem, beside, seed=seed)
        first = problem.jobs[0].release
        return Schedule(problem, given.task, given.device, given.start + first, given.finish + first)


def _fits(given: Schedule, problem: Problem, beside: Beside) -> bool:
    """Whether a plan is one for this problem, on devices that are free from now on."""
    is_same = given.problem.num_tasks == problem.num_tasks and np.array_equal(
        given.problem.run_times, problem.run_times
    )
    allowed = problem.eligible
    return is_same and not len(beside.device) and (not allowed.size or bool(allowed[0, given.device].all()))


class Plans:
    """What is reserved for the jobs of one problem in a state of the task view."""

    def __init__(
        self, dispatcher: PlanDispatcher, problem: Problem, w: Tasks, f: Facts, s: TaskState, seed: int
    ) -> None:
        self.planner, self.problem, self.seed = dispatcher.planner, problem, seed
        self.jobs: Sequence[Job] = problem.jobs
        self.drift = dispatcher.drift if can_join(dispatcher.planner) else float("inf")
        self.at_every_event = dispatcher.at_every_event
        self.w, self.f, self.s = w, f, s
        self.late = np.full(len(s.row_task), np.inf)  # (max_rows,) when a row counts as late
        self.planned: list[int] = []
        self.num_made = 0
        """How often a plan was made or made again."""

    @property
    def is_late(self) -> bool:
        """Whether something that runs should have ended, by more than the drift allows."""
        n = int(self.s.num_rows[ENV])
        is_due = self.late[:n] < self.s.now[ENV]
        return bool(is_due.any() and (self.s.row_status[:n][is_due] == RUNNING).any())

    def plan(self, j: int) -> None:
        """Job j has arrived: reserve devices for its tasks."""
        self.planned.append(j)
        self._plan(j)

    def plan_again(self) -> None:
        """Give up all reservations and make new ones, job by job in the order of arrival."""
        self.num_made += 1
        for row in np.flatnonzero(self._rows(PLANNED)).tolist():
            cancel(self.w, self.s, ENV, row)
        self.late[:] = ALWAYS_LATE if self.at_every_event else np.inf  # what runs late now is known to
        for j in self.planned:
            if np.isnan(self.s.job_finish[j]) and not self.s.is_expired[j]:
                self._plan(j)

    def late_of(self, task: int) -> float:
        """When a task that is reserved counts as late; infinite: it is not reserved."""
        row = int(self.s.first_row[task])
        while row >= 0 and self.s.row_status[row] != PLANNED:
            row = int(self.s.next_row[row])
        return float(self.late[row]) if row >= 0 else float("inf")

    def use(self, s: TaskState) -> None:
        """Go on with a state that has more room for rows."""
        more = len(s.row_task) - len(self.late)
        self.s, self.late = s, np.concatenate([self.late, np.full(more, np.inf)]) if more else self.late

    def close_up(self, kept: Kept) -> None:
        """Jobs were dropped from the state."""
        places = {j: k for k, j in enumerate(kept.jobs.tolist())}
        self.planned = [places[j] for j in self.planned if j in places]
        self.late[: len(kept.rows)] = self.late[kept.rows]
        self.late[len(kept.rows) :] = np.inf

    def _plan(self, j: int) -> None:
        """Reserve devices for all tasks of job j that have not started."""
        self.num_made += 1
        first = int(self.w.job_task_ptr[j])
        now = float(self.s.now[ENV])
        job = replace(self.jobs[j], release=now, eligible=self._eligible(j))
        try:
            alone = self.problem.replaced(jobs=(job,), noise=0.0, bias=0.0, drift=0.0)
        except InfeasibleError:  # no device is up that could run some task: a later plan may find one
            return
        plan = self._planned(alone, first)
        if not len(plan):
            return
        allowance = self.drift * (float(plan.finish.max()) - now)
        for k in plan_order(plan).tolist():
            start, finish = float(plan.start[k]), float(plan.finish[k])
            row = reserve(self.w, self.s, ENV, first + int(plan.task[k]), int(plan.device[k]), start)
            if row >= 0:
                self.late[row] = ALWAYS_LATE if self.at_every_event else finish + allowance
        serve_all(self.w, self.f, self.s, ENV)

    def _eligible(self, j: int) -> tuple[str, ...] | None:
        """The devices a job may use, without those that are lost."""
        if self.s.is_up.all():
            return self.jobs[j].eligible
        may_use = self.s.is_up & (self.w.allowed[j] if self.w.allowed.size else True)
        names = self.problem.cluster.device_names
        return tuple(names[p] for p in np.flatnonzero(may_use).tolist())

    def _planned(self, alone: Problem, first: int) -> Schedule:
        if not can_join(self.planner):
            return self.planner.plan(alone, seed=self.seed)
        return self.planner.plan_beside(alone, self._beside(first, alone.num_tasks), seed=self.seed)

    def _rows(self, *status: int) -> Bools:
        used = np.arange(len(self.s.row_status)) < self.s.num_rows[ENV]
        return np.asarray(used & np.isin(self.s.row_status, status), dtype=np.bool_)

    def _beside(self, first: int, num_tasks: int) -> Beside:
        """What devices are held by, and which tasks of the job have started."""
        s, room = self.s, int(self.s.num_rows[ENV])
        device: Ints = np.zeros(room, np.int64)
        start, finish, slots = np.zeros(room), np.zeros(room), np.zeros(room)
        count = write_committed(self.w, s, ENV, device, start, finish, slots)
        own = (s.row_task >= first) & (s.row_task < first + num_tasks) & self._rows(RUNNING, ENDED)
        ends = np.maximum(np.where(s.row_status == ENDED, s.row_finish, s.row_expected), 0.0)
        ends = np.where(s.row_status == RUNNING, np.maximum(ends, s.now[ENV]), ends)
        dropped = np.flatnonzero(s.status[first : first + num_tasks] == EXPIRED)  # nothing waits for them
        at_once = np.full(len(dropped), s.now[ENV])
        return Beside(
            device[:count],
            start[:count],
            finish[:count],
            slots[:count],
            np.r_[s.row_task[own] - first, dropped],
            np.r_[s.row_device[own], np.zeros(len(dropped), np.int64)],
            np.r_[s.row_start[own], at_once],
            np.r_[ends[own], at_once],
        )


class _Run:
    """One problem while it is carried out."""

    def __init__(
        self,
        dispatcher: PlanDispatcher,
        problem: Problem,
        realisation: Realisation,
        seed: int,
        outages: Sequence[Outage],
    ) -> None:
        self.problem, self.realisation = problem, realisation
        self.moves, self.has_outages = moves_of(outages, problem), len(outages) > 0
        self.w = compile_tasks([problem])
        self.f = facts_of([realisation], self.w)
        self.s = new_task_state(self.w, problem.num_tasks + 1 + extra_rows(self.moves, problem))
        self.plans = Plans(dispatcher, problem, self.w, self.f, self.s, seed)

    def play(self) -> Schedule:
        """From the first job to the end."""
        for j in self.w.job_order.tolist():
            self._move_until(float(self.w.job_release[j]))
            self.plans.plan(j)
        self._move_until(float("inf"))
        if self.has_outages:
            refuse_unfinished(self.problem, self.s, 0)
        if self.s.overflow.any():
            raise InputError("the event kernel ran out of room for rows or events")
        return schedule_of(self.problem, self.realisation, self.w, self.s)

    def _move_until(self, time: float) -> None:
        """Let time pass; devices go and come."""
        while self.moves and self.moves[0].time <= time:
            move = self.moves.pop(0)
            self._until(move.time)
            move.carry_out(self.w, self.s, ENV)
            self.plans.plan_again()
        self._until(time)

    def _until(self, time: float) -> None:
        """Let time pass, planning again whenever something is late."""
        while run_until(self.w, self.f, self.s, ENV, time, self.plans.late):
            self.plans.plan_again()
        self.s.now[ENV] = max(self.s.now[ENV], time) if time < np.inf else self.s.now[ENV]
