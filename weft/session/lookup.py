"""Jobs, tasks, devices and branches as events name them, found or refused with the event and the field."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from weft.errors import InputError
from weft.model.problem import Job, Problem
from weft.session.jobs import Jobs
from weft.session.ledger import Ledger, Run
from weft.session.messages import Name, Start
from weft.session.names import DeviceNames, TaskNames
from weft.session.view import Started, View
from weft.session.wire import check_finite


class Lookup:
    """Items and runs behind the names of one session; changes nothing but its clock, and the attempts that it gives out."""

    def __init__(self, problem: Problem, view: View) -> None:
        self.now = -math.inf
        self.view = view
        self.jobs = Jobs()
        self.devices = DeviceNames(problem.cluster, view.lane_device)
        self.ledger = Ledger(len(self.devices.of_lane))
        self._problem = problem
        self._names: dict[int, TaskNames] = {}  # by job of the problem, or by the negated number of others

    def check_time(self, event: str, time: float) -> None:
        """Refuse a time that is no number, or has passed."""
        check_finite(time, f"{event}.time")
        if time < self.now:
            raise InputError(f"expected a time >= {self.now:g}, got {time:g}", field=f"{event}.time")

    def check_new(self, job: Name) -> None:
        """Refuse a name that no job can have, or that another one has."""
        if type(job) not in (str, int):
            raise InputError(f"expected a text or a whole number, got {job!r}", field="arrived.job")
        if job in self.jobs.number:
            raise InputError(f"job {job!r} has arrived before", field="arrived.job")

    def job(self, number: int) -> Job:
        """What a job is."""
        added = self.jobs.added.get(number)
        return self._problem.jobs[self.view.template(number)] if added is None else added

    def tasks(self, number: int) -> TaskNames:
        """Names of the tasks of a job."""
        key = -1 - number if number in self.jobs.added else self.view.template(number)
        if key not in self._names:
            self._names[key] = TaskNames(self.job(number).graph)
        return self._names[key]

    def forget(self, number: int) -> None:
        """Nothing will be asked about the graph of a job that was added."""
        if self.jobs.added.pop(number, None) is not None:
            self._names.pop(-1 - number, None)

    def named(self, item: int, lane: int) -> tuple[Name, str, str]:
        """Names of a job, its task and the device of a lane."""
        number, node = self.view.place(item)
        return self.jobs.name[number], self.tasks(number).of_node[node], self.devices.of_lane[lane]

    def named_jobs(self, numbers: Sequence[int]) -> list[Job]:
        """What jobs are, under the names they came with."""
        return [replace(self.job(number), name=str(self.jobs.name[number])) for number in numbers]

    def starts(self, started: Started) -> list[Start]:
        """What a view has decided to start, given out as attempts, in names."""
        found = []
        for lane, items in started:
            for item, run in zip(items, self.ledger.give(lane, items, self.now), strict=True):
                expected = self.view.expected_times(item, lane)
                found.append(Start(*self.named(item, lane), run.attempt, run.batch, *expected))
        return found

    def task_name(self, item: int) -> str:
        """Name of a task."""
        number, node = self.view.place(item)
        return self.tasks(number).of_node[node]

    def edges(self, event: str, item: int, branch: Name | Sequence[Name] | None) -> list[int]:
        """Places of the edges that a task takes, among all that leave it."""
        number, node = self.view.place(item)
        return self.tasks(number).edges(event, node, branch)

    def find(
        self, event: str, job: Name, task: Name, device: Name, time: float, attempt: int | None
    ) -> tuple[int, Run]:
        """Item and run of a task that was decided and has not ended."""
        self.check_time(event, time)
        if type(job) not in (str, int) or job not in self.jobs.number:
            raise InputError(f"no job {job!r} has arrived", field=f"{event}.job")
        number = self.jobs.number[job]
        is_known = number in self.jobs.added or self.view.template(number) >= 0
        items = self.view.items(number)
        item = items[self.tasks(number).node(event, task)] if items and is_known else -1
        lanes = self.devices.lanes(event, device)
        run = self.ledger.runs.get(item)
        if run is None:
            state = self.jobs.outcome.get(number)
            why = "is not running" if state is None else f"is not running: the job is {state}"
            raise InputError(f"task {task!r} of job {job!r} {why}", field=f"{event}.task")
        if run.lane not in lanes:
            where = self.devices.of_lane[run.lane]
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

    def waiting(self, event: str, job: Name, task: Name, device: Name) -> tuple[int, int]:
        """Item of a task that was not given out, and a lane of the device."""
        if type(job) not in (str, int) or job not in self.jobs.number:
            raise InputError(f"no job {job!r} has arrived", field=f"{event}.job")
        number = self.jobs.number[job]
        items = self.view.items(number)
        if number in self.jobs.outcome or not items:
            raise InputError(f"job {job!r} is over", field=f"{event}.job")
        item = items[self.tasks(number).node(event, task)]
        if item in self.ledger.runs:
            where = self.devices.of_lane[self.ledger.runs[item].lane]
            raise InputError(f"task {task!r} of job {job!r} was given to {where!r}", field=f"{event}.task")
        return item, self.devices.lanes(event, device)[0]

    def find_started(
        self, event: str, job: Name, task: Name, device: Name, time: float, attempt: int | None
    ) -> tuple[int, Run]:
        """The same for a task that runs."""
        item, run = self.find(event, job, task, device, time, attempt)
        if run.start is None:
            raise InputError(f"task {task!r} of job {job!r} was not started", field=f"{event}.task")
        return item, run
