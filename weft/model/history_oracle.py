"""The oracle of histories: says whether a run kept its promises, from what it wrote down.

It shares no code with engines, drivers or sessions and reads rows of ``weft/history/1`` one by one: orders
and their ends, reports, precedence, capacity, losses, what fails with a task, how jobs and the run end,
and that nothing waits while a device is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.errors import InputError, expect
from weft.model import history_ends as ends
from weft.model.history_form import FIELDS, Row, fault_of, is_number
from weft.model.history_reading import Reading
from weft.model.history_reading import Violation as Violation
from weft.model.history_state import (
    CANCELLED,
    FAILED,
    FINISHED,
    RUNNING,
    WAITING,
    Device,
    Job,
    Name,
    Order,
    Task,
)

RULES = (
    "incomplete",  # the history ends with the run: closed is its last row
    "schema",  # rows are what they should be, the first one describes the run, and no other does
    "closed",  # nothing follows the end but a new driver
    "time",  # times never go back: those that workers told, and those of the driver's own rows
    "job",  # jobs arrive once, their tasks are known, and nothing is begun for a job that has ended
    "device",  # devices are known, join only when lost, and are lost only when there
    "order",  # what starts was submitted, there; what ends was started; each order ends once
    "attempts",  # attempts count up, one at a time, and a task with a result runs again only after a loss
    "sequence",  # a device's orders count up
    "precedence",  # parents are reported before a task starts, or before it is submitted unless it is queued ahead; instances keep their order
    "lost",  # nothing is given to a lost device or starts there
    "slots",  # a device runs no more than it has room for
    "report",  # every good end is reported once, with the attempt that finished
    "dropped",  # what needs the result of a task that failed for good is dropped, and nothing else
    "skipped",  # tasks are skipped only on branches not taken
    "ended",  # a job is done when all its tasks are, failed when one of them is, and says so
    "resumed",  # drivers are numbered, and a new one knows what ran
    "planned",  # a plan names a reason that was there
    "stray",  # a late end belongs to an order that was over
    "liveness",  # nothing that could run waits longer than the deadline
)
"""Names of the rules."""
_CAUSES = {"lost": "lost", "joined": "joined", "speeds": "speed", "resumed": "resumed"}
"""Reason of a plan -> the event that must have been."""
_TOLD = (
    "started",
    "finished",
    "failed",
    "reported",
    "stray",
    "lost",
    "joined",
    "dropped",
    "skipped",
    "ended",
)
"""Events with the time at which they happened: a driver may hear of them later than of what it has done since."""
_BOUNDS = ("closed", "resumed")
"""Events that come after all before."""
_BOTH = (False, True)


def check_history(rows: Sequence[Row], deadline: float = 10.0) -> tuple[Violation, ...]:
    """All rules that a history breaks, in its order; empty if the run kept its promises.

    Parameters
    ----------
    rows
        The rows of a history, as ``weft.io.histories.read_history`` gives them.
    deadline
        Seconds that something may wait while a device is free for it.
    """
    expect(rows, Sequence, "the rows of a history", "rows")
    if not is_number(deadline) or deadline <= 0:
        raise InputError(f"expected a number of seconds > 0, got {deadline!r}", field="deadline")
    fault = fault_of(rows[0]) if rows else "the history is empty"
    if not fault and rows[0]["event"] != "run":
        fault = f"expected a row of the run, got {rows[0]['event']}"
    if fault:
        return (Violation("schema", None, None, f"row 1: {fault}"),)
    return tuple(_Reader(rows, deadline).read())


class _Reader(Reading):
    """Reads rows one by one: one method per event."""

    def read(self) -> list[Violation]:
        """All that is wrong."""
        self.time = float(self.rows[0]["time"])
        for place, row in enumerate(self.rows[1:], start=1):
            self.place = place
            fault = fault_of(row)
            if fault or row["event"] == "run":
                self.say("schema", fault or "the run is described twice")
                continue
            self._take(row)
        if not self.is_closed:
            self.say("incomplete", "the history has no end: the driver was stopped, or still runs")
        return self.found

    def _take(self, row: Row) -> None:
        event, time = row["event"], float(row["time"])
        clocks = _BOTH if event in _BOUNDS else (event in _TOLD,)
        latest = max(self.clocks[clock] for clock in clocks)
        if time < latest:
            self.say("time", f"{event} at {time:g} after a row at {latest:g}")
        for clock in clocks:
            self.clocks[clock] = max(self.clocks[clock], time)
        if self.is_closed and event != "resumed":
            self.say("closed", f"{event} after the end")
        self.time = max(self.time, time)
        if event == "resumed":
            self.waits.restart(self.time)
        for task, device, detail in self.waits.overdue(self.time):
            self.say("liveness", detail, task, device)
        getattr(self, f"_{event}")(row)
        self.seen[event] = self.seen.get(event, 0) + 1
        self.waits.note(event, self.time)

    # -- jobs ---------------------------------------------------------------------------------

    def _arrived(self, row: Row) -> None:
        if row["job"] in self.jobs:
            self.say("job", f"job {row['job']} arrives again")
            return
        job = Job(row["job"], final=self.finals.get(row["job"], ""))
        slots, allowed = row.get("slots") or {}, row.get("on") or {}
        for name in row["tasks"]:
            where = frozenset(allowed[name]) if name in allowed else None
            job.tasks[name] = Task(job, name, slots.get(name, 1), where)
            job.tasks[name].last_submission = self.last_submissions.get((job.name, name), -1)
            job.tasks[name].is_left_out = (job.name, name) in self.left_out
        if len(job.tasks) < len(row["tasks"]):
            self.say("job", f"job {job.name} has several tasks of one name")
        for source, target in row["edges"]:
            if source not in job.tasks or target not in job.tasks:
                self.say("job", f"an edge of job {job.name} names a task that is not there")
                continue
            job.tasks[target].parents.append(job.tasks[source])
            job.tasks[source].children.append(job.tasks[target])
        if "after" in row:
            self._follow(job, row["after"])
        self.jobs[job.name] = job
        self.settle(*job.tasks.values())

    def _follow(self, job: Job, name: Name) -> None:
        """Every task waits until the same task of the instance before is done."""
        before = self.jobs.get(name) if isinstance(name, str | int) else None
        if before is None:
            self.say("job", f"job {job.name} comes after {name}, which has not arrived")
            return
        for task, former in zip(job.tasks.values(), before.tasks.values(), strict=False):
            task.former, former.latter = former, task

    def _ended(self, row: Row) -> None:
        job = self.jobs.get(row["job"])
        if job is None or job.outcome:
            self.say(
                "ended", f"job {row['job']} {'ends again' if job else 'ends, but has not arrived'}", None
            )
            return
        for rule, task, detail in ends.of_job(job, row["outcome"], self.is_all_or_nothing):
            self.say(rule, detail, task)
        job.outcome = row["outcome"]
        for task in job.tasks.values():
            self.settle(task, *task.later)

    def _closed(self, row: Row) -> None:
        for rule, task, detail in ends.of_run(self.jobs.values(), row["ok"]):
            self.say(rule, detail, task)
        self.is_closed = True

    # -- orders -------------------------------------------------------------------------------

    def _submitted(self, row: Row) -> None:
        task, device = self.task(row), self.device(row)
        if task is None or device is None:
            return
        if task.is_skipped or task.because is not None or task.has_taken or task.job.outcome:
            self.say("job", "submitted, although it is not to run any more", task, device)
        if device.is_up is False:
            self.say("lost", "submitted to a lost device", task, device)
        self._check_attempt(task, row["attempt"], device)
        if device.sequence is not None and row["sequence"] <= device.sequence:
            self.say("sequence", f"order {row['sequence']} after order {device.sequence}", task, device)
        for parent in task.parents:
            on_the_way = parent.order is not None and parent.is_open
            if not (parent.is_reported or parent.is_left_out or (row["ahead"] and on_the_way)):
                self.say(
                    "precedence", f"submitted before {parent.name} was reported or under way", task, device
                )
        self.drop_order(task.order, CANCELLED)
        data_at: Any = row.get("data_at")
        since = max(self.time, data_at) if is_number(data_at) else self.time
        batch = row.get("batch") or None
        task.order = Order(task, row["attempt"], device, since, batch, float(row["time"]))
        device.waiting[task.order] = None
        device.sequence = row["sequence"]
        self.settle(task, *(task.children if task.is_reported else ()))

    def _check_attempt(self, task: Task, attempt: int, device: Device) -> None:
        order = task.order
        last = 0 if order is None else order.attempt
        if order is not None and order.is_open and attempt == last and order.state == WAITING:
            if order.device is device:
                self.say("attempts", f"attempt {attempt} is submitted twice", task, device)
            return
        if order is not None and order.is_open:
            self.say("attempts", f"submitted while attempt {last} is {order.state}", task, device)
        allowed = (last, last + 1) if order is not None and order.state == CANCELLED else (last + 1,)
        if attempt not in allowed:
            self.say("attempts", f"attempt {attempt} follows {last}", task, device)
        is_done = task.is_reported or (order is not None and order.state == FINISHED)
        if is_done and task.losses_before == self.losses:
            self.say(
                "attempts", "runs again although nothing was lost since its result was there", task, device
            )

    def _started(self, row: Row) -> None:
        order = self.order(row, (WAITING,))
        if order is None:
            return
        task, device = order.task, order.device
        if float(row["time"]) < order.submitted:
            self.say("time", f"starts at {row['time']:g}, submitted at {order.submitted:g}", task, device)
        if device.is_up is False:
            self.say("lost", "starts on a lost device", task, device)
        lacking = task.lacking
        if lacking is not None:
            self.say("precedence", f"starts although {lacking.name} has not been reported", task, device)
        if not task.has_turn:
            self.say("precedence", "starts although an instance before has not done the same", task, device)
        if task.is_skipped or task.because is not None or task.job.outcome == "done":
            self.say("job", "starts although it is not to run any more", task, device)
        device.is_up = True if device.is_up is None else device.is_up
        self.drop_order(order, RUNNING)
        joined = order.batch is not None and any(other.batch == order.batch for other in device.running)
        device.running[order] = None
        device.used += 0 if joined else task.slots
        if device.used > device.slots:
            self.say("slots", f"{device.used} slots in use of {device.slots}", task, device)

    def _finished(self, row: Row) -> None:
        order = self.order(row, (RUNNING,))
        if order is not None:
            self.drop_order(order, FINISHED)
            order.task.losses_before, order.task.done_at = self.losses, self.time
            order.task.branch = tuple(row["branch"]) if row.get("branch") else None
            self.settle(*order.task.children)

    def _failed(self, row: Row) -> None:
        order = self.order(row, (WAITING, RUNNING))
        if order is not None:
            self.drop_order(order, FAILED)
            self.settle(order.task)

    def _cancelled(self, row: Row) -> None:
        order = self.order(row, (WAITING, RUNNING))
        if order is not None:
            self.drop_order(order, CANCELLED)
            self.settle(order.task)

    def _stray(self, row: Row) -> None:
        task = self.task(row)
        order = None if task is None else task.order
        if task is not None and (order is None or order.attempt < row["attempt"]):
            self.say("stray", f"attempt {row['attempt']} was never submitted", task, row["device"])
        elif order is not None and order.is_open and order.attempt == row["attempt"]:
            is_moved = order.device.name != row["device"]
            if not is_moved:
                self.say("stray", f"attempt {row['attempt']} is {order.state}: it is waited for", task)

    # -- ends of tasks ------------------------------------------------------------------------

    def _reported(self, row: Row) -> None:
        task = self.task(row)
        if task is None:
            return
        order = task.order
        if task.is_reported:
            self.say("report", "reported twice", task)
        if order is None or order.state != FINISHED or order.attempt != row["attempt"]:
            self.say("report", f"reported, but attempt {row['attempt']} is not the one that finished", task)
        if task.is_skipped or task.because is not None or task.job.outcome:
            self.say("report", "reported, although it was skipped or dropped or its job is over", task)
        task.reported_at = self.time
        self.settle(task, *task.children, *task.later)

    def _dropped(self, row: Row) -> None:
        task = self.task(row)
        if task is None:
            return
        because = task.job.tasks.get(row["because"])
        if task.is_settled or task.is_open:
            self.say("dropped", "dropped, although it is settled or under way", task)
        if because is None or not because.has_failed:
            self.say("dropped", f"dropped for {row['because']}, which has not failed", task)
            return
        if not self.is_all_or_nothing and task not in because.descendants():
            self.say("dropped", f"dropped, although it does not need {because.name}", task)
        task.because, because.has_taken = because, True
        self.settle(task, because, *task.later)

    def _skipped(self, row: Row) -> None:
        task = self.task(row)
        if task is None:
            return
        if task.is_settled or task.order is not None:
            self.say("skipped", "skipped, although it is settled or was under way", task)
        task.is_skipped = True
        self.settle(task, *task.children)

    # -- devices and drivers ------------------------------------------------------------------

    def _lost(self, row: Row) -> None:
        device = self.device(row)
        if device is None:
            return
        if device.is_up is False:
            self.say("device", "lost, although it was not there", None, device)
        device.is_up = False
        self.losses += 1
        self.lose(device)

    def _joined(self, row: Row) -> None:
        device = self.device(row)
        if device is not None:
            if device.is_up:
                self.say("device", "joins, although it was not lost", None, device)
            device.is_up, device.free_since = True, self.time

    def _resumed(self, row: Row) -> None:
        expected = (self.driver + 1,) if self.driver else (1, 2)
        if row["driver"] not in expected:
            self.say("resumed", f"driver {row['driver']} after driver {self.driver or 1}")
        opened = {
            (o.task.job.name, o.task.name, o.attempt): o
            for device in self.devices.values()
            for o in (*device.running, *device.waiting)
        }
        named = [tuple(one) for one in row["lost"]]
        for key in named:
            if key not in opened:
                self.say("resumed", f"attempt {key[2]} was not under way", f"{key[0]}/{key[1]}")
        for key, order in opened.items():
            if order.state == RUNNING and key not in named and not order.task.is_reported:
                self.say("resumed", f"attempt {order.attempt} was running, but is not named", order.task)
        self.losses += 1
        for device in self.devices.values():
            self.lose(device)
            device.is_up, device.sequence = None, None
        self.driver, self.is_closed = row["driver"], False

    # -- what was thought ---------------------------------------------------------------------

    def _planned(self, row: Row) -> None:
        cause = _CAUSES.get(row["reason"])
        if cause is not None and not self.seen.get(cause):
            self.say("planned", f"planned because of {row['reason']}, which did not happen")
        for job, task, device, start, finish in row["rows"]:
            known = self.jobs.get(job)
            if known is None or task not in known.tasks or device not in self.devices or start > finish:
                self.say(
                    "planned", "not a task that arrived, on a device, with start <= finish", f"{job}/{task}"
                )
                return

    def _speed(self, row: Row) -> None:
        self.device(row)

    def _waited(self, row: Row) -> None:
        """Its time counts, in ``Waits``."""

    def _shadow(self, row: Row) -> None:
        """Says what another scheduler would do: nothing to check."""


assert all(hasattr(_Reader, f"_{event}") for event in FIELDS if event != "run")
