"""One object, events in, decisions out: the same for simulators, executors and services.

A session knows the problem and what is reported, never what will happen: the world outside runs the
tasks and says how they end. Every event is checked before anything changes, so that after an error
the session is as it was. What a decision is, is the business of the view below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from weft import catalog
from weft.errors import InputError
from weft.model.problem import Problem
from weft.model.stream import StreamProblem
from weft.policies.learned import Learned
from weft.session.choose_view import Scheduler, view_of
from weft.session.jobs import Jobs
from weft.session.ledger import Ledger, Run
from weft.session.messages import DONE, EXPIRED, FAILED, Cancel, Decision, End, Name, Start
from weft.session.names import DeviceNames, TaskNames
from weft.session.view import Started
from weft.session.wire import arguments_of, check_finite, refuse_arguments, refuse_limits
from weft.sim.queues.environment import rules_of
from weft.sim.queues.layout import Rules

SCHEMA = "weft/session/2"
MAX_ATTEMPTS, MAX_LOSSES = 3, 5


class Session:
    """Jobs of one problem under one scheduler; events are reported one by one.

    Parameters
    ----------
    problem
        One job that keeps arriving, or several that arrive once each; or a scenario's stream.
    scheduler
        Name of a dispatcher or policy, weights file, run folder, ``plan:PLANNER``, or the object:
        weft's, or any object with ``name`` and ``decide``.
    seed
        For schedulers that draw.
    rules
        Expiry, idle blocks and estimates; those of the stream, or neutral ones, unless given.
    max_attempts
        A job fails when one of its tasks has failed so often. Lost devices do not count.
    max_losses
        A job fails when one of its tasks was running on this many devices, one after another, that were lost.
    """

    def __init__(
        self,
        problem: Problem | StreamProblem,
        scheduler: str | Scheduler | Any = "fifo",
        *,
        seed: int = 0,
        rules: Rules | None = None,
        max_attempts: int = MAX_ATTEMPTS,
        max_losses: int = MAX_LOSSES,
    ) -> None:
        refuse_arguments(problem, scheduler, seed)
        refuse_limits(max_attempts=max_attempts, max_losses=max_losses)
        case, problem = (problem, problem.problem) if isinstance(problem, StreamProblem) else (None, problem)
        chooser = catalog.scheduler_for(scheduler, problem)
        if case is not None:
            rules = rules or rules_of(case, chooser.sight if isinstance(chooser, Learned) else None)
        self.problem = problem
        self.scheduler = scheduler if isinstance(scheduler, str) else chooser.name
        self.seed, self.max_attempts, self.max_losses = seed, max_attempts, max_losses
        self._view = view_of(problem, rules or Rules(), chooser, seed)
        self._devices = DeviceNames(problem.cluster, self._view.lane_device)
        self._graphs: dict[int, TaskNames] = {}
        self._now = -math.inf
        self._is_closed = False
        self._jobs = Jobs()
        self._ledger = Ledger(len(self._devices.of_lane))
        self._news: tuple[list[Cancel], list[End]] = ([], [])

    @property
    def now(self) -> float:
        """Time of the last event or decision; minus infinity before the first."""
        return self._now

    @property
    def num_waiting(self) -> int:
        """Tasks that wait for a device."""
        return self._view.num_waiting

    @property
    def is_due(self) -> bool:
        """Whether a device is free and a task waits: time for a decision."""
        return self._view.has_choice

    @property
    def num_fallbacks(self) -> int:
        """Decisions far outside a policy's training, which a rule made."""
        return self._view.num_fallbacks

    # -- events ------------------------------------------------------------------------------------

    def arrived(self, job: Name, time: float) -> None:
        """A job enters under a name of its own."""
        self._check_time("arrived", time)
        if type(job) not in (str, int):
            raise InputError(f"expected a text or a whole number, got {job!r}", field="arrived.job")
        if job in self._jobs.number:
            raise InputError(f"job {job!r} has arrived before", field="arrived.job")
        if self._is_closed:
            raise InputError("no job was to come after closed", field="arrived.job")
        number = self._view.number(job)
        self._pass_time(time)
        self._jobs.enter(job, number)
        self._view.arrive(number, self._now)
        if self._view.is_over(number):  # a job without tasks
            self._end_job(number, DONE)

    def closed(self, time: float) -> None:
        """No more jobs will arrive: a rule that waits for company may now start without."""
        self._check_time("closed", time)
        self._pass_time(time)
        self._is_closed = True

    def started(
        self,
        job: Name,
        task: Name,
        device: Name,
        time: float,
        *,
        attempt: int | None = None,
        branch: Name | Sequence[Name] | None = None,
    ) -> None:
        """A task that was decided runs; ``branch`` only where it is known already."""
        item, run = self._find("started", job, task, device, time, attempt)
        if run.is_started:
            raise InputError(f"task {task!r} of job {job!r} was started before", field="started.task")
        edges = [] if branch is None else self._edges("started", item, branch)
        self._pass_time(time)
        self._view.begin(item, run.lane, self._now, self._ledger.begin(run, self._now))
        if branch is not None and not run.is_dropped:
            run.is_counted = True
            self._view.count_outcome(item, edges)

    def finished(
        self,
        job: Name,
        task: Name,
        device: Name,
        time: float,
        *,
        attempt: int | None = None,
        branch: Name | Sequence[Name] | None = None,
    ) -> None:
        """A task has ended well; ``branch`` names the task that follows, one for each of its branches."""
        item, run = self._find_started("finished", job, task, device, time, attempt)
        edges = self._edges("finished", item, branch)
        self._pass_time(time)
        self._leave(item, run)
        if run.is_dropped:
            self._view.drop(item)
            return
        if self._view.end(item, edges, is_counted=run.is_counted):
            self._end_job(self._view.place(item)[0], DONE)

    def failed(self, job: Name, task: Name, device: Name, time: float, *, attempt: int | None = None) -> None:
        """A task has ended badly, or could not be started: it waits again, or its job fails with it."""
        item, run = self._find("failed", job, task, device, time, attempt)
        self._pass_time(time)
        self._leave(item, run)
        if run.is_dropped:
            self._view.drop(item)
            return
        failures = self._ledger.count_failure(item, run)
        if failures < self.max_attempts:
            self._view.fail(item)
        else:
            self._give_up(item, f"task {task!r} has failed {_times(failures)}")
            self._view.drop(item)

    def vacated(self, job: Name, task: Name, device: Name, time: float) -> None:
        """The device of a started task can take other work, though the end was not reported yet."""
        _, run = self._find_started("vacated", job, task, device, time, None)
        if not self._view.can_vacate:
            raise InputError("expected the end: devices are shared task by task here", field="vacated.task")
        self._pass_time(time)
        if self._ledger.vacate(run):
            self._view.free(run.lane, self._now)

    def device_lost(self, device: Name, time: float) -> None:
        """A device is gone; what it ran waits again, or its job fails if that happens too often."""
        self._check_time("device_lost", time)
        lanes = self._devices.lanes("device_lost", device)
        if self._view.is_lost[lanes[0]]:
            raise InputError(f"device {device!r} was lost before", field="device_lost.device")
        self._pass_time(time)
        lost = [(item, run) for item, run in self._ledger.lose(lanes) if not run.is_dropped]
        losses = {item: self._ledger.count_loss(item, run) for item, run in lost}
        self._view.lose(lanes, list(losses))
        suspects = {self._view.place(item)[0]: item for item, n in losses.items() if n >= self.max_losses}
        for number, item in suspects.items():
            name = self._tasks(number).of_node[self._view.place(item)[1]]
            self._give_up(item, f"the device of task {name!r} was lost {_times(losses[item])} while it ran")

    def device_joined(self, device: Name, time: float) -> None:
        """A device that was lost is back, and free."""
        self._check_time("device_joined", time)
        lanes = self._devices.lanes("device_joined", device)
        if not self._view.is_lost[lanes[0]]:
            raise InputError(f"device {device!r} is there already", field="device_joined.device")
        self._pass_time(time)
        self._view.join(lanes, self._now)

    def tell(self, event: Mapping[str, Any]) -> None:
        """An event as plain data: its name under ``event`` and its fields."""
        name, given = arguments_of(event)
        getattr(self, name)(**given)

    # -- decisions ---------------------------------------------------------------------------------

    def decide(self, time: float) -> Decision:
        """What to start now; ask after every event, or after all that happen at one time."""
        self._check_time("decide", time)
        self._pass_time(time)
        view = self._view
        num_expired = view.num_expired
        started = view.decide()
        wake_at = view.wake_at()
        if not started and not self._ledger.runs and self._is_stuck():
            started = view.decide_anyhow()
            wake_at = self._now if started else wake_at
        if view.num_expired > num_expired:
            for number in [number for number in self._jobs.open if view.is_over(number)]:
                self._end_job(number, EXPIRED)
        cancels, ended = self._news
        self._news = ([], [])
        if self._jobs.is_full:
            self._jobs.forget({view.place(item)[0] for item in self._ledger.runs})
        return Decision(tuple(self._starts(started)), tuple(cancels), tuple(ended), wake_at)

    def _is_stuck(self) -> bool:
        """Whether nothing will ever happen unless a task is started."""
        return (self._is_closed or bool(self._view.is_lost.any())) and self._view.has_choice

    def _starts(self, started: Started) -> list[Start]:
        starts = []
        for lane, items in started:
            for item, run in zip(items, self._ledger.give(lane, items, self._now), strict=True):
                times = self._view.expected_times(item, lane)
                starts.append(Start(*self._named(item, lane), run.attempt, run.batch, *times))
        return starts

    # -- what happens to tasks and jobs ------------------------------------------------------------

    def _pass_time(self, time: float) -> None:
        self._now = float(time)
        self._view.pass_time(self._now)

    def _leave(self, item: int, run: Run) -> None:
        if self._ledger.leave(item):
            self._view.free(run.lane, self._now)

    def _give_up(self, failed: int, reason: str) -> None:
        """The job of this item fails with it."""
        number, _ = self._view.place(failed)
        self._view.withdraw(number)
        items = self._view.items(number)
        for item, run in self._ledger.runs.items():
            if item in items:
                run.is_dropped = True
                self._news[0].append(Cancel(*self._named(item, run.lane), run.attempt))
        if number in self._jobs.open:
            self._end_job(number, FAILED, reason)

    def _end_job(self, number: int, outcome: str, reason: str = "") -> None:
        self._jobs.end(number, outcome)
        self._news[1].append(End(self._jobs.name[number], outcome, self._now, reason))
        self._ledger.forget(self._view.items(number))

    def _named(self, item: int, lane: int) -> tuple[Name, str, str]:
        number, node = self._view.place(item)
        return self._jobs.name[number], self._tasks(number).of_node[node], self._devices.of_lane[lane]

    def _tasks(self, number: int) -> TaskNames:
        """Names of the tasks of a job."""
        template = self._view.template(number)
        if template not in self._graphs:
            self._graphs[template] = TaskNames(self.problem.jobs[template].graph)
        return self._graphs[template]

    def _edges(self, event: str, item: int, branch: Name | Sequence[Name] | None) -> list[int]:
        number, node = self._view.place(item)
        return self._tasks(number).edges(event, node, branch)

    # -- checks ------------------------------------------------------------------------------------

    def _check_time(self, event: str, time: float) -> None:
        check_finite(time, f"{event}.time")
        if time < self._now:
            raise InputError(f"expected a time >= {self._now:g}, got {time:g}", field=f"{event}.time")

    def _find(
        self, event: str, job: Name, task: Name, device: Name, time: float, attempt: int | None
    ) -> tuple[int, Run]:
        """Item and run of a task that was decided and has not ended."""
        self._check_time(event, time)
        if type(job) not in (str, int) or job not in self._jobs.number:
            raise InputError(f"no job {job!r} has arrived", field=f"{event}.job")
        number = self._jobs.number[job]
        item = self._view.items(number)[self._tasks(number).node(event, task)]
        lanes = self._devices.lanes(event, device)
        run = self._ledger.runs.get(item)
        if run is None:
            state = self._jobs.outcome.get(number)
            why = "is not running" if state is None else f"is not running: the job is {state}"
            raise InputError(f"task {task!r} of job {job!r} {why}", field=f"{event}.task")
        if run.lane not in lanes:
            where = self._devices.of_lane[run.lane]
            raise InputError(
                f"task {task!r} of job {job!r} was given to {where!r}, not to {device!r}",
                field=f"{event}.device",
            )
        if attempt is not None and attempt != run.attempt:
            raise InputError(
                f"task {task!r} of job {job!r} is at attempt {run.attempt}, not {attempt!r}",
                field=f"{event}.attempt",
            )
        return item, run

    def _find_started(
        self, event: str, job: Name, task: Name, device: Name, time: float, attempt: int | None
    ) -> tuple[int, Run]:
        item, run = self._find(event, job, task, device, time, attempt)
        if not run.is_started:
            raise InputError(f"task {task!r} of job {job!r} was not started", field=f"{event}.task")
        return item, run

    # -- snapshots ---------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Everything that changes, as plain data that JSON can hold."""
        return {
            "schema": SCHEMA,
            "scheduler": self.scheduler,
            "seed": self.seed,
            "max_attempts": self.max_attempts,
            "max_losses": self.max_losses,
            "fingerprint": self._view.fingerprint,
            "now": self._now if math.isfinite(self._now) else None,
            "is_closed": self._is_closed,
            **self._jobs.snapshot(),
            "ledger": self._ledger.snapshot(),
            "news": [[list(row) for row in rows] for rows in self._news],
            "view": self._view.snapshot(),
        }

    @classmethod
    def restore(
        cls,
        problem: Problem | StreamProblem,
        snapshot: Mapping[str, Any],
        *,
        scheduler: str | Scheduler | Any | None = None,
        rules: Rules | None = None,
    ) -> Session:
        """A session that goes on where the snapshot was taken, on the same problem.

        Parameters
        ----------
        scheduler
            Needed only where the session was given an object that has no name in the catalog.
        """
        if not isinstance(snapshot, Mapping) or snapshot.get("schema") != SCHEMA:
            raise InputError(f"expected a snapshot of a session, {SCHEMA!r}", field="schema")
        try:
            chosen = scheduler or str(snapshot["scheduler"])
            limits = {name: int(snapshot[name]) for name in ("seed", "max_attempts", "max_losses")}
            session = cls(problem, chosen, rules=rules, **limits)
            if snapshot["fingerprint"] != session._view.fingerprint:
                raise InputError("taken with another graph, cluster or rules", field="fingerprint")
            session._resume(snapshot)
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise InputError(f"not a whole snapshot of a session: {error!r}", field="snapshot") from None
        return session

    def _resume(self, stored: Mapping[str, Any]) -> None:
        self._now = -math.inf if stored["now"] is None else float(stored["now"])
        self._is_closed = bool(stored["is_closed"])
        self._jobs.restore(stored)
        cancels, ended = stored["news"]
        self._news = ([Cancel(*row) for row in cancels], [End(*row) for row in ended])
        self._ledger.restore(stored["ledger"])
        self._view.restore(stored["view"])


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
