"""The task view, decision by decision: every task of every job is dispatched on its own.

A lane is a device. Jobs of the problem have its numbers, those that are added go on from there, and so
do the items of their tasks: both stay what they are when the kernel's own numbers close up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.errors import InputError, UnsupportedError
from weft.model.graph import Bools
from weft.model.problem import Job, Problem
from weft.policies.candidates.pipeline_decider import PipelineDecider
from weft.schedulers.dispatchers.deciding import DecidingDispatcher, GrowingDecider
from weft.schedulers.dispatchers.replanning import PlanDispatcher, Plans
from weft.schedulers.dispatchers.tasks import Place, RuleDispatcher
from weft.schedulers.own import Decider, OwnDispatcher, StateDecider
from weft.session.json_arrays import arrayed, fingerprint, plain
from weft.session.live_snapshots import restore_tasks, stored_tasks
from weft.session.market import Market
from weft.session.messages import Name
from weft.session.names import descendants
from weft.session.places import Places, reserved_on
from weft.session.plan_limits import carried_out_by, further, refuse_planner
from weft.session.view import Coming, Reserved, Started
from weft.sim.tasks.clock import admit
from weft.sim.tasks.growing import LiveTasks
from weft.sim.tasks.moves import expire, finish, join, lose, release
from weft.sim.tasks.rules import VIRTUAL, keyed_rule
from weft.sim.tasks.state import NUM_EXPIRED, NUM_STARTED, READY, RUNNING, Tasks, TaskState
from weft.sim.tasks.step_by_step import abort, adopt, decide_live, give_up

Dispatches = RuleDispatcher | PlanDispatcher | OwnDispatcher


class TaskView:
    """Jobs on one cluster under a rule or another's dispatcher, or planned as they arrive.

    Without ``has_jobs`` the problem stands for its cluster alone, and every job is added.
    """

    can_vacate = False
    num_fallbacks = 0

    def __init__(self, problem: Problem, dispatcher: Dispatches, seed: int, *, has_jobs: bool = True) -> None:
        asked, problem = problem, carried_out_by(dispatcher, problem)
        reason = refuse_planner(dispatcher, asked) or dispatcher.supports(problem)
        if reason is not None:
            raise UnsupportedError(f"{dispatcher.name}: {reason}", field="scheduler")
        self.problem, self._dispatcher, self._seed = problem, dispatcher, seed
        self.lane_device = np.arange(problem.cluster.num_devices)
        self.is_lost: Bools = np.zeros(problem.cluster.num_devices, np.bool_)
        self._known = problem.jobs if has_jobs else ()
        self._number = {job.name: j for j, job in enumerate(self._known)}
        self._arrived: set[int] = set()  # of those
        self._next = Place(problem.num_tasks, len(self._known))  # item and number of the next job to be added
        self._row: dict[int, int] = {}  # item to row, of all that runs
        self._is_outdated = False
        self._num_started = 0
        self._decider: StateDecider | None = None
        self._growing: GrowingDecider | None = None  # the same, if it has to be told of jobs
        self._lay_out(has_jobs=has_jobs)
        self._fingerprint = fingerprint(self._w)

    def _lay_out(self, *, has_jobs: bool) -> None:
        """The kernel's columns and whoever decides on them: of the problem's jobs, or of none."""
        problem, dispatcher = self.problem, self._dispatcher
        looks_back = isinstance(dispatcher, DecidingDispatcher) and dispatcher.looks_back
        self._live = LiveTasks(problem, has_jobs=has_jobs, keeps_ends=looks_back)
        self._places = Places()
        if has_jobs:
            self._places.add(problem.jobs, range(len(problem.jobs)), problem.offsets[:-1].tolist())
        self._plans: Plans | None = None
        self._market: Market | None = None
        self._rule = keyed_rule(VIRTUAL)  # starts nothing itself
        if isinstance(dispatcher, PlanDispatcher):
            self._plans = Plans(dispatcher, problem, self._w, self._live.f, self._s, self._seed)
            self._plans.jobs = self._places.jobs
        elif isinstance(dispatcher, OwnDispatcher):
            own = self._decider
            if not isinstance(own, Decider):
                own = dispatcher.decider(problem, self._seed)
            own.jobs, self._decider = self._places.jobs, own
        else:
            self._rule = dispatcher.rule([problem], self._s, [self._seed])
            self._s.learns[:] = dispatcher.profiles
            self._market = Market(problem.slot_counts) if dispatcher.is_priced else None
        if isinstance(dispatcher, DecidingDispatcher):
            self._decider = self._growing = dispatcher.decider(problem, self._rule)

    @property
    def _w(self) -> Tasks:
        return self._live.w

    @property
    def _s(self) -> TaskState:
        return self._live.s

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the problem's jobs and devices."""
        return self._fingerprint

    # -- jobs and tasks ----------------------------------------------------------------------------

    def expect(self, name: Name, job: Job | None) -> Coming:
        """A job of the problem, by name or number, or one to be added."""
        number = self._number.get(name, -1) if isinstance(name, str) else name
        is_known = 0 <= number < len(self._known)
        if job is not None:
            if is_known:
                raise InputError(
                    f"the problem has a job {name!r}: it brings its graph", field="arrived.graph"
                )
            return Coming(
                self._next.number, further(self.problem, self._dispatcher, (job,), self._places.jobs)
            )
        if not is_known:
            has = "in the problem" if self._known else "known"
            raise InputError(f"no job {name!r} {has}: tell its graph when it arrives", field="arrived.job")
        if number in self._arrived:
            raise InputError(f"job {name!r} has arrived before, by its name or number", field="arrived.job")
        return Coming(number, None)

    @property
    def held(self) -> dict[int, Job]:
        """Jobs that the problem does not have and that are there still, by number, some of them over."""
        return self._places.added(len(self._known))

    def template(self, number: int) -> int:
        """Every job of the problem is its own."""
        return number if number < len(self._known) else -1

    def items(self, number: int) -> range:
        """Items of all tasks of a job; none once it is gone."""
        return self._places.items(number)

    def place(self, item: int) -> tuple[int, int]:
        """Number of the job and node of an item."""
        return self._places.place(item)

    def _task(self, item: int) -> int:
        """The kernel's number of a task."""
        return self._places.task(item, self._w)

    # -- events ------------------------------------------------------------------------------------

    def pass_time(self, time: float) -> None:
        """Set the clock."""
        self._s.now[0] = time

    def arrive(self, coming: Coming, time: float) -> None:
        """A job enters."""
        if coming.problem is None:
            self._arrived.add(coming.number)
        else:
            self._make_space(coming.problem)
            self._add(coming.problem, [coming.number], [self._next.task])
            self._next = Place(self._next.task + coming.problem.num_tasks, coming.number + 1)
        j, w, s = self._places.at[coming.number], self._w, self._s
        w.job_release[j] = time
        s.next_job[0] += 1
        if self._market is not None:
            self._market.arrive(self._rule, w, s, j)
        release(w, s, 0, j)
        if self._plans is not None:
            self._follow(self._plans)
            self._plans.plan(j)

    def _make_space(self, problem: Problem) -> None:
        """Where there is no room for more jobs, drop those that are over if they are many."""
        if not self._live.has_room(problem):
            is_over = self._live.is_over()
            if 2 * np.count_nonzero(is_over[self._w.job[: self._live.num_tasks]]) >= self._live.num_tasks:
                self._drop(is_over)

    def _add(self, problem: Problem, numbers: list[int], first_items: list[int]) -> None:
        """Jobs that the kernel did not know."""
        first = Place(self._live.num_tasks, numbers[0])
        self._live.add(problem)
        self._places.add(problem.jobs, numbers, first_items)
        if self._plans is not None:
            self._plans.w, self._plans.f, self._plans.s = self._live.w, self._live.f, self._live.s
        if isinstance(self._dispatcher, RuleDispatcher):
            self._rule = self._dispatcher.grown(self._rule, problem, self._s, self._seed, first)
        if self._growing is not None:
            self._growing.grow(self._rule, problem, first.task)

    def _drop(self, is_over: Bools) -> None:
        """Jobs that are over, and everything the kernel knows of them, go."""
        kept = self._live.drop(is_over)
        self._places.keep(kept.jobs.tolist())
        places = {row: k for k, row in enumerate(kept.rows.tolist())}
        self._row = {item: places[row] for item, row in self._row.items()}
        if len(self._rule.about):
            self._rule.about[: len(kept.tasks)] = self._rule.about[kept.tasks]
        if self._growing is not None:
            self._growing.close_up(kept.tasks)
        if self._market is not None:
            self._market.write(self._rule, self._s)
        if self._plans is not None:
            self._plans.close_up(kept)

    def count_outcome(self, item: int, edges: Sequence[int]) -> None:
        """No rule of this view keeps estimates."""

    def end(self, item: int, edges: Sequence[int], *, is_counted: bool) -> bool:
        """A task has ended and takes these of its edges; returns whether its job is done with it."""
        task = self._task(item)
        first = int(self._w.succ_ptr[task])
        for place in edges:
            self._live.f.taken[first + place] = True
        finish(self._w, self._live.f, self._s, 0, self._row.pop(item))
        return not np.isnan(self._s.job_finish[self._w.job[task]])

    def fail(self, item: int) -> None:
        """A running task came to nothing: it waits again."""
        abort(self._w, self._s, 0, self._row.pop(item))
        self._is_outdated = True

    def drop(self, item: int) -> None:
        """A task that was given up, alone or with its job, has ended: its device is free of it."""
        abort(self._w, self._s, 0, self._row.pop(item))

    def withdraw(self, number: int) -> None:
        """A job is given up: none of its tasks waits or will."""
        expire(self._w, self._s, 0, self._places.at[number])

    def cut(self, item: int) -> list[int]:
        """A task is given up, and with it all that needs it; returns the nodes of those."""
        give_up(self._w, self._s, 0, self._task(item))
        self._is_outdated = True
        number, node = self.place(item)
        return descendants(self._places.jobs[self._places.at[number]].graph, node)

    def begin(self, item: int, lane: int, time: float, late: float) -> None:
        """A task runs, from this time on."""
        row = self._row[item]
        self._s.row_start[row] = time
        task, c = self._task(item), self._w.device_class[lane]
        self._s.row_expected[row] = time + self._w.run[task, c] * self._s.factor[self._w.kind[task], c]

    def adopt(self, item: int, lane: int) -> bool:
        """A waiting task was started on a lane without a decision; returns whether that could be."""
        self._live.make_row_room(int(self._s.num_rows[0]) + 1)
        if self._plans is not None:
            self._plans.use(self._s)
        self._take_back()
        task = self._task(item)
        late = 0.0 if self._plans is None else self._plans.late_of(task)
        row = int(adopt(self._w, self._live.f, self._s, 0, task, lane))
        if row < 0:
            return False
        self._row[item] = row
        if self._plans is not None:
            self._plans.late[row] = late
        return True

    def _take_back(self) -> None:
        """What a plan has started and no decision has said yet is not under way."""
        for row in self._untold():
            abort(self._w, self._s, 0, row)
            self._is_outdated = True

    def _untold(self) -> list[int]:
        """Rows that run since the last decision."""
        is_new = self._s.row_status[: self._s.num_rows[0]] == RUNNING
        is_new[list(self._row.values())] = False
        found: list[int] = np.flatnonzero(is_new).tolist()
        return found

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

    def close(self) -> None:
        """A policy of pipelines expects no further release."""
        if isinstance(self._growing, PipelineDecider):
            self._growing.close()

    def decide(self) -> Started:
        """What the rule starts now, every task on its own."""
        if self._plans is not None:
            self._follow(self._plans)
        else:
            admit(self._w, self._s, 0)
            self._live.make_row_room(int(self._s.num_rows[0] + self._s.num_ready[0]))
            decide_live(self._rule, self._w, self._live.f, self._s, 0)
        if self._decider is not None:
            self._decider.decide(self._w, self._live.f, self._s)
        if self._s.count[0, NUM_STARTED] == self._num_started:
            return []
        self._num_started = int(self._s.count[0, NUM_STARTED])
        started: Started = []
        for row in self._untold():
            item = self._places.item(int(self._s.row_task[row]), self._w)
            self._row[item] = row
            started.append((int(self._s.row_device[row]), [item]))
        return started

    def _follow(self, plans: Plans) -> None:
        """Start what is reserved and can start; plan again if something changed or is late."""
        self._live.make_row_room(int(self._s.num_rows[0]) + self._live.num_tasks)
        plans.use(self._s)
        if self._is_outdated:
            plans.plan_again()
        decide_live(self._rule, self._w, self._live.f, self._s, 0)
        if plans.is_late:
            plans.plan_again()
        self._is_outdated = False

    def decide_anyhow(self) -> Started:
        """Nothing: rules of this view start whatever has room."""
        return []

    @property
    def num_plans(self) -> int:
        """How often a plan was made or made again."""
        return 0 if self._plans is None else self._plans.num_made

    def reserved(self, lanes: Sequence[int], most: int | None = None) -> list[Reserved]:
        """What is bound to these lanes and waits, in the order of its starts on each; ``most`` of each at most."""
        return [one for lane in lanes for one in reserved_on(self._w, self._s, self._places, lane, most)]

    @property
    def has_choice(self) -> bool:
        """Whether a task is ready and a device has room, or a booking may be granted."""
        s = self._s
        return bool((s.num_ready[0] > 0 and s.num_free[0] > 0) or (s.num_waiting[0] > 0 and s.may_grant[0]))

    @property
    def num_waiting(self) -> int:
        """Tasks that are ready and have not started."""
        return int(np.count_nonzero(self._s.status[: self._live.num_tasks] == READY))

    @property
    def num_expired(self) -> int:
        """Jobs that were skipped or given up so far."""
        return int(self._s.count[0, NUM_EXPIRED])

    def is_over(self, number: int) -> bool:
        """Whether a job is done, was skipped or is given up."""
        j = self._places.at.get(number, -1)
        return j < 0 or bool(self._s.is_expired[j] or not np.isnan(self._s.job_finish[j]))

    def expected_times(self, item: int, lane: int) -> tuple[float, float]:
        """When the data of a task should be there, and when it should end."""
        row = self._row[item]
        return float(self._s.row_start[row]), float(self._s.row_expected[row])

    def wake_at(self) -> float | None:
        """When the rule wants to be asked again."""
        return float(self._s.wake[0]) if np.isfinite(self._s.wake[0]) else None

    # -- snapshots ---------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Everything that changes, as plain data, without the jobs that are over."""
        self._drop(self._live.is_over())
        return {
            **stored_tasks(self._live),
            "numbers": list(self._places.numbers),
            "first_items": list(self._places.first_items),
            "next": list(self._next),
            "arrived": sorted(self._arrived),
            "rows": list(self._row.items()),
            "is_lost": self.is_lost.tolist(),
            "is_outdated": self._is_outdated,
            "num_started": self._num_started,
            "prices": self._market.snapshot() if self._market is not None else None,
            "plans": self._plans and [self._plans.planned, plain(self._plans.late[: self._s.num_rows[0]])],
        }

    def restore(self, stored: Mapping[str, Any], added: Mapping[int, Job]) -> None:
        """Go back to a snapshot; whatever does not fit raises a KeyError, TypeError or ValueError."""
        numbers = [int(number) for number in stored["numbers"]]
        self._lay_out(has_jobs=False)
        self._live.know_kinds([str(name) for name in stored["kinds"]])
        if numbers:
            jobs = tuple(added[n] if n in added else self._known[n] for n in numbers)
            self._add(
                further(self.problem, self._dispatcher, jobs, ()),
                numbers,
                [int(item) for item in stored["first_items"]],
            )
            self._places.jobs[:] = jobs  # under the names they came with
        restore_tasks(self._live, stored)
        self._next = Place(*(int(number) for number in stored["next"]))
        self._arrived = {int(number) for number in stored["arrived"]}
        self._row = {int(item): int(row) for item, row in stored["rows"]}
        self.is_lost[:] = stored["is_lost"]
        self._is_outdated, self._num_started = bool(stored["is_outdated"]), int(stored["num_started"])
        if self._market is not None:
            self._market.restore(stored["prices"])
            self._market.write(self._rule, self._s)
        if self._plans is not None:
            planned, late = stored["plans"]
            self._plans.use(self._s)
            self._plans.planned = [int(number) for number in planned]
            self._plans.late[: len(late)] = arrayed(late, self._plans.late)
