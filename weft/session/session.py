"""One object, events in, decisions out: the same for simulators, executors and services.

A session knows the problem and what is reported, never what will happen: the world outside runs the tasks and says how
they end. Events are checked before anything changes. What a decision is, is the business of the view below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from weft import catalog
from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.graph import TaskGraph
from weft.model.noise import LOGNORMAL
from weft.model.problem import QUEUE, Problem
from weft.model.schedule import ABORTED, Schedule
from weft.model.schedule import DONE as HAS_RUN
from weft.model.stream import StreamProblem
from weft.policies.learned import Learned
from weft.session import wire
from weft.session.choose_view import Scheduler, view_of
from weft.session.endings import DESCENDANTS, JOB, Endings, times
from weft.session.lookup import Lookup
from weft.session.messages import DONE, EXPIRED, Decision, Name, Reservation
from weft.session.record import Record
from weft.sim.queues.environment import rules_of
from weft.sim.queues.layout import Rules

MAX_ATTEMPTS, MAX_LOSSES = 3, 5
_SETTINGS = (
    "seed",
    "max_attempts",
    "max_losses",
    "on_failure",
    "keeps_record",
    "time_unit",
    "noise",
    "noise_law",
)


class Session:
    """Jobs under one scheduler; events are reported one by one.

    Parameters
    ----------
    problem
        One job that keeps arriving, or several that arrive once each; a scenario's stream; or a cluster alone,
        for jobs that bring their graphs when they arrive.
    scheduler
        Name of a dispatcher or policy, weights file, run folder, ``plan:PLANNER``, or the object:
        weft's, or any object with ``name`` and ``decide``.
    seed
        For schedulers that draw.
    rules
        Expiry, idle blocks and estimates; those of the stream, or neutral ones, unless given.
    max_attempts
        A task fails for good when it has failed so often. Lost devices do not count.
    max_losses
        A task fails for good when it was running on so many devices, one after another, that were lost.
    on_failure
        What fails with such a task: its ``"job"``, or its ``"descendants"`` while the rest of the job goes on.
    keeps_record
        Keep what has run where and when, for ``record()``.
    time_unit, noise, noise_law
        Of all times, and of run times (as of a ``Problem``), where a cluster is given; a problem brings its own.
    """

    def __init__(
        self,
        problem: Problem | StreamProblem | Cluster,
        scheduler: str | Scheduler | Any = "fifo",
        *,
        seed: int = 0,
        rules: Rules | None = None,
        max_attempts: int = MAX_ATTEMPTS,
        max_losses: int = MAX_LOSSES,
        on_failure: str = JOB,
        keeps_record: bool = False,
        time_unit: str = "s",
        noise: float = 0.0,
        noise_law: str = LOGNORMAL,
    ) -> None:
        wire.refuse_arguments(problem, scheduler, seed)
        wire.refuse_limits(max_attempts=max_attempts, max_losses=max_losses)
        if on_failure not in (JOB, DESCENDANTS):
            raise InputError(
                f"expected {JOB!r} or {DESCENDANTS!r}, got {on_failure!r:.60}", field="on_failure"
            )
        self.problem, case = wire.parts_of(problem, time_unit, noise, noise_law)
        has_jobs = not isinstance(problem, Cluster)
        chooser: Scheduler = (
            catalog.scheduler_for(scheduler, self.problem) if has_jobs else catalog.task_dispatcher(scheduler)
        )
        if case is not None:
            rules = rules or rules_of(case, chooser.sight if isinstance(chooser, Learned) else None)
        self.scheduler = scheduler if isinstance(scheduler, str) else chooser.name
        self.seed, self.max_attempts, self.max_losses = seed, max_attempts, max_losses
        self.noise, self.noise_law = self.problem.noise, self.problem.noise_law
        self.on_failure, self.keeps_record, self.time_unit = on_failure, keeps_record, self.problem.time_unit
        self._view = view_of(self.problem, rules or Rules(), chooser, seed, has_jobs=has_jobs)
        self._look = Lookup(self.problem, self._view)
        self._jobs, self._ledger = self._look.jobs, self._look.ledger
        self._is_closed, self._record = False, Record() if keeps_record else None
        self._ends = Endings(self._look, self._record, on_failure)

    @property
    def now(self) -> float:
        """Time of the last event or decision; minus infinity before the first."""
        return self._look.now

    @property
    def num_waiting(self) -> int:
        """Tasks that wait for a device."""
        return self._view.num_waiting

    @property
    def is_due(self) -> bool:
        """Whether a device is free and a task waits: time for a decision."""
        return self._view.has_choice

    @property
    def has_queues(self) -> bool:
        """Whether tasks wait in queues by kind and devices take them in batches: the queue view."""
        return self._view.can_vacate

    @property
    def num_fallbacks(self) -> int:
        """Decisions far outside a policy's training, which a rule made."""
        return self._view.num_fallbacks

    # -- events ------------------------------------------------------------------------------------

    def arrived(
        self,
        job: Name,
        time: float,
        *,
        graph: TaskGraph | None = None,
        deadline: float | None = None,
        weight: float = 1.0,
        owner: str = "",
        eligible: Sequence[str] | None = None,
        booking: wire.Booked = None,
        series: str = "",
        interval: float | None = None,
        overrun: str = QUEUE,
        in_order: bool = False,
    ) -> None:
        """A job enters under a name of its own.

        Parameters
        ----------
        graph
            What it is, unless the problem has it.
        deadline, weight, owner, eligible, booking, series, interval, overrun, in_order
            As of a ``Job``; only with a graph.
        """
        self._look.check_time("arrived", time)
        self._look.check_new(job)
        if self._is_closed:
            raise InputError("no job was to come after closed", field="arrived.job")
        told: dict[str, Any] = {"deadline": deadline, "weight": weight, "owner": owner, "eligible": eligible}
        told |= {"booking": booking, "series": series, "interval": interval}
        given = wire.job_of(job, time, graph, told | {"overrun": overrun, "in_order": in_order})
        coming = self._view.expect(job, given)
        self._pass_time(time)
        self._jobs.enter(job, coming.number, given if coming.problem is not None else None)
        if self._record is not None and self._look.job(coming.number).graph.num_tasks:
            self._record.arrive(coming.number, self.now)
        num_expired = self._view.num_expired
        self._view.arrive(coming, self.now)
        if self._view.is_over(coming.number):  # a job without tasks, or one that is skipped
            is_skipped = self._view.num_expired > num_expired
            self._ends.end_job(coming.number, EXPIRED if is_skipped else DONE)

    def closed(self, time: float) -> None:
        """No more jobs will arrive: a rule that waits for company may now start without."""
        self._look.check_time("closed", time)
        self._pass_time(time)
        self._is_closed = True
        self._view.close()

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
        item, run = self._look.find("started", job, task, device, time, attempt)
        if run.start is not None:
            raise InputError(f"task {task!r} of job {job!r} was started before", field="started.task")
        edges = [] if branch is None else self._look.edges("started", item, branch)
        self._pass_time(time)
        self._view.begin(item, run.lane, self.now, self._ledger.begin(run, self.now))
        if branch is not None and not run.is_dropped:
            run.is_counted = True
            self._view.count_outcome(item, edges)

    def adopted(self, job: Name, task: Name, device: Name, time: float) -> int:
        """A task that waits was started without a decision, by whoever runs it; returns its attempt.

        So an executor may queue ahead what is reserved, and a new session may be told what runs already.
        """
        self._look.check_time("adopted", time)
        item, lane = self._look.waiting("adopted", job, task, device)
        before = self.now
        self._pass_time(time)
        if not self._view.adopt(item, lane):
            if math.isfinite(before):
                self._pass_time(before)
            raise InputError(
                f"task {task!r} of job {job!r} cannot have started on {device!r}: it is not ready, or there is no room",
                field="adopted.task",
            )
        (run,) = self._ledger.give(lane, [item], self.now)
        self._view.begin(item, lane, self.now, self._ledger.begin(run, self.now))
        return run.attempt

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
        item, run = self._look.find_started("finished", job, task, device, time, attempt)
        edges = self._look.edges("finished", item, branch)
        self._pass_time(time)
        self._ends.leave(item, run, ABORTED if run.is_dropped else HAS_RUN, edges)
        if run.is_dropped:
            self._view.drop(item)
            return
        if self._view.end(item, edges, is_counted=run.is_counted):
            self._ends.end_job(self._view.place(item)[0], DONE)

    def failed(self, job: Name, task: Name, device: Name, time: float, *, attempt: int | None = None) -> None:
        """A task has ended badly, or could not be started: it waits again, or has failed for good."""
        item, run = self._look.find("failed", job, task, device, time, attempt)
        self._pass_time(time)
        self._ends.leave(item, run, ABORTED)
        if run.is_dropped:
            self._view.drop(item)
            return
        failures = self._ledger.count_failure(item, run)
        if failures < self.max_attempts:
            self._view.fail(item)
        else:
            self._ends.give_up(item, f"task {task!r} has failed {times(failures)}")
            self._view.drop(item)

    def vacated(self, job: Name, task: Name, device: Name, time: float) -> None:
        """The device of a started task can take other work, though the end was not reported yet."""
        _, run = self._look.find_started("vacated", job, task, device, time, None)
        if not self._view.can_vacate:
            raise InputError("expected the end: devices are shared task by task here", field="vacated.task")
        self._pass_time(time)
        if self._ledger.vacate(run, self.now):
            self._view.free(run.lane, self.now)

    def device_lost(self, device: Name, time: float) -> None:
        """A device is gone; what it ran waits again, or has failed for good if that happens too often."""
        self._look.check_time("device_lost", time)
        lanes = self._look.devices.lanes("device_lost", device)
        if self._view.is_lost[lanes[0]]:
            raise InputError(f"device {device!r} was lost before", field="device_lost.device")
        self._pass_time(time)
        gone = self._ledger.lose(lanes)
        for item, run in gone:
            self._ends.note(item, run, ABORTED)
        lost = [(item, run) for item, run in gone if not run.is_dropped]
        losses = {item: self._ledger.count_loss(item, run) for item, run in lost}
        self._view.lose(lanes, list(losses))
        suspects = [item for item, n in losses.items() if n >= self.max_losses]
        if self.on_failure == JOB:  # one for each
            suspects = list({self._view.place(item)[0]: item for item in suspects}.values())
        for item in suspects:
            task = self._look.task_name(item)
            self._ends.give_up(
                item, f"the device of task {task!r} was lost {times(losses[item])} while it ran"
            )

    def device_joined(self, device: Name, time: float) -> None:
        """A device that was lost is back, and free."""
        self._look.check_time("device_joined", time)
        lanes = self._look.devices.lanes("device_joined", device)
        if not self._view.is_lost[lanes[0]]:
            raise InputError(f"device {device!r} is there already", field="device_joined.device")
        self._pass_time(time)
        self._view.join(lanes, self.now)

    def tell(self, event: Mapping[str, Any]) -> None:
        """An event as plain data: its name under ``event`` and its fields."""
        name, given = wire.arguments_of(event)
        getattr(self, name)(**given)

    # -- decisions ---------------------------------------------------------------------------------

    def decide(self, time: float) -> Decision:
        """What to start now; ask after every event, or after all that happen at one time."""
        self._look.check_time("decide", time)
        self._pass_time(time)
        view = self._view
        num_expired = view.num_expired
        started = view.decide()
        wake_at = view.wake_at()
        if not started and not self._ledger.runs and self._is_stuck():
            started = view.decide_anyhow()
            wake_at = self.now if started else wake_at
        if view.num_expired > num_expired:
            for number in [number for number in self._jobs.open if view.is_over(number)]:
                self._ends.end_job(number, EXPIRED)
        cancels, ended = self._ends.news()
        if self._jobs.is_full:
            for number in self._jobs.forget({view.place(item)[0] for item in self._ledger.runs}):
                self._ends.forget(number)
        return Decision(tuple(self._look.starts(started)), cancels, ended, wake_at)

    @property
    def num_plans(self) -> int:
        """How often a plan was made or made again; 0 for schedulers that bind nothing ahead."""
        return self._view.num_plans

    def reservations(self, device: Name | None = None, most: int | None = None) -> tuple[Reservation, ...]:
        """What is bound to a device (None: to any) and waits for its turn, in the order of its starts there.

        As of the last decision; empty for schedulers that bind nothing ahead. ``most``: of each device so many at most.
        """
        lanes = range(len(self._look.devices.of_lane))
        chosen = lanes if device is None else self._look.devices.lanes("reservations", device)
        found = self._view.reserved(chosen, most)
        return tuple(Reservation(*self._look.named(one.item, one.lane), one.start, one.end) for one in found)

    def record(self) -> Schedule:
        """What ran where and when, of all jobs that are over and remembered; see docs/session.md."""
        if self._record is None:
            raise InputError("the session keeps none: open it with keeps_record=True", field="record")
        return self._record.schedule(self.problem, self._look.named_jobs(self._record.ended))

    def _is_stuck(self) -> bool:
        """Whether nothing will ever happen unless a task is started."""
        return (self._is_closed or bool(self._view.is_lost.any())) and self._view.has_choice

    # -- what happens to tasks and jobs ------------------------------------------------------------

    def _pass_time(self, time: float) -> None:
        self._look.now = float(time)
        self._view.pass_time(self.now)

    # -- snapshots ---------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Everything that changes, as plain data that JSON can hold."""
        view = self._view.snapshot()
        return {
            "schema": wire.SCHEMA,
            "scheduler": self.scheduler,
            **{name: getattr(self, name) for name in _SETTINGS},
            "fingerprint": self._view.fingerprint,
            "now": self.now if math.isfinite(self.now) else None,
            "is_closed": self._is_closed,
            **self._jobs.snapshot(self._view.held),
            "ledger": self._ledger.snapshot(),
            "news": self._ends.snapshot(),
            "record": self._record.snapshot() if self._record is not None else None,
            "view": view,
        }

    @classmethod
    def restore(
        cls,
        problem: Problem | StreamProblem | Cluster,
        snapshot: Mapping[str, Any],
        *,
        scheduler: str | Scheduler | Any | None = None,
        rules: Rules | None = None,
    ) -> Session:
        """A session that goes on where the snapshot was taken, on the same problem or cluster.

        Parameters
        ----------
        scheduler
            Needed only where the session was given an object that has no name in the catalog.
        """
        if not isinstance(snapshot, Mapping) or snapshot.get("schema") != wire.SCHEMA:
            raise InputError(f"expected a snapshot of a session, {wire.SCHEMA!r}", field="schema")
        try:
            chosen = wire.same_scheduler(snapshot, scheduler)
            session = cls(problem, chosen, rules=rules, **{name: snapshot[name] for name in _SETTINGS})
            if snapshot["fingerprint"] != session._view.fingerprint:
                raise InputError("taken with another graph, cluster or rules", field="fingerprint")
            session._resume(snapshot)
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise InputError(f"not a whole snapshot of a session: {error!r}", field="snapshot") from None
        return session

    def _resume(self, stored: Mapping[str, Any]) -> None:
        self._look.now = -math.inf if stored["now"] is None else float(stored["now"])
        self._is_closed = bool(stored["is_closed"])
        added = self._jobs.restore(stored)
        self._ends.restore(stored["news"])
        self._ledger.restore(stored["ledger"])
        self._view.restore(stored["view"], added)
        if self._is_closed:
            self._view.close()
        if self._record is not None:
            self._record.restore(stored["record"])
