"""What has happened in a session, kept row by row, and as a schedule that the oracle can judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from weft.errors import InputError
from weft.model import schedule as outcomes
from weft.model.graph import ALWAYS, Bools
from weft.model.job import SKIP
from weft.model.problem import Job, Problem, Realisation
from weft.model.schedule import Schedule
from weft.session.ledger import Run
from weft.session.messages import DONE, EXPIRED


class Execution(NamedTuple):
    """One attempt at one task."""

    node: int
    device: int
    start: float
    finish: float
    attempt: int
    batch: int
    outcome: int


@dataclass
class Story:
    """What has happened to one job."""

    arrived: float
    executions: list[Execution] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    """Edges out of branches that were taken."""
    outcome: str = ""
    """Empty while the job is open."""
    ended: float = 0.0


class Record:
    """The stories of all jobs that are remembered."""

    def __init__(self) -> None:
        self._stories: dict[int, Story] = {}

    def arrive(self, number: int, time: float) -> None:
        """A job has arrived."""
        self._stories[number] = Story(time)

    def leave(self, place: tuple[int, int], device: int, run: Run, time: float, outcome: int) -> None:
        """A run of this job and node is over, well or badly; what never started leaves no trace."""
        number, node = place
        if run.start is not None and number in self._stories:
            finish = time if run.vacated is None else run.vacated
            row = Execution(node, device, run.start, finish, run.attempt, run.batch, outcome)
            self._stories[number].executions.append(row)

    def take(self, number: int, edges: Sequence[int]) -> None:
        """Edges out of branches were taken."""
        if number in self._stories:
            self._stories[number].taken += edges

    def end(self, number: int, outcome: str, time: float) -> None:
        """A job is over."""
        if number in self._stories:
            self._stories[number].outcome, self._stories[number].ended = outcome, time

    def forget(self, number: int) -> None:
        """A job is remembered no longer."""
        self._stories.pop(number, None)

    @property
    def ended(self) -> list[int]:
        """Numbers of the jobs that are over, in the order of their arrivals."""
        return [number for number, story in self._stories.items() if story.outcome]

    def schedule(self, problem: Problem, jobs: Sequence[Job]) -> Schedule:
        """What happened to the jobs that are over, given what each is and a problem with their cluster."""
        stories = [self._stories[number] for number in self.ended]
        if not stories:
            raise InputError("expected a job that has ended, and none has that is remembered", field="record")
        origin = min(0.0, *(story.arrived for story in stories))  # releases are never below 0
        told = tuple(_told(job, story, origin) for job, story in zip(jobs, stories, strict=True))
        return _Told(problem.replaced(jobs=told, noise=0.0, bias=0.0, drift=0.0), stories, origin).schedule()

    def snapshot(self) -> list[list[Any]]:
        """Everything, as plain data."""
        return [[number, asdict(story)] for number, story in self._stories.items()]

    def restore(self, stored: Sequence[Any]) -> None:
        """Go back to a snapshot; whatever does not fit raises a KeyError, TypeError or ValueError."""
        self._stories = {int(number): Story(**story) for number, story in stored}
        for story in self._stories.values():
            story.executions = [Execution(*row) for row in story.executions]


def _told(job: Job, story: Story, origin: float) -> Job:
    """The job as it came; one that was not done was due when it was given up."""
    deadline = job.deadline
    if deadline is None and story.outcome != DONE:
        deadline = max(story.ended - story.arrived, 0.0)
    return replace(job, release=story.arrived - origin, deadline=deadline, period=None)


class _Told:
    """The rows of a schedule while they are put together; batches start and end as one."""

    def __init__(self, problem: Problem, stories: Sequence[Story], origin: float) -> None:
        self._problem, self._stories = problem, stories
        rows = [(j, row) for j, story in enumerate(stories) for row in story.executions]
        self._rows = [row for _, row in rows]
        self._task = np.array([problem.offsets[j] + row.node for j, row in rows], np.int64)
        self._batch = np.full(len(rows), -1, np.int64)
        self._start = np.array([row.start for row in self._rows])
        self._finish = np.array([row.finish for row in self._rows])
        batches: dict[int, list[int]] = {}
        for k, row in enumerate(self._rows):
            batches.setdefault(row.batch, []).append(k)
        for together in batches.values():
            self._join(together)
        self._start -= origin
        self._finish -= origin

    def _join(self, together: list[int]) -> None:
        """A batch begins with the first start of its tasks and is over with the first that is done.

        A task that failed in it has a row without length, unless all did: then the longest stands for them.
        """
        done = [k for k in together if self._rows[k].outcome == outcomes.DONE]
        start = min(self._rows[k].start for k in together)
        ends = [self._rows[k].finish for k in done or together]
        finish = max(start, min(ends) if done else max(ends))
        whole = done or [max(together, key=lambda k: self._rows[k].finish)]
        for k in together:
            self._finish[k] = min(max(self._finish[k], start), finish)
            self._start[k] = start if k in whole else self._finish[k]
        self._finish[whole] = finish
        if len(done) > 1:
            self._batch[done] = self._rows[done[0]].batch

    def schedule(self) -> Schedule:
        """With the rows of tasks that were dropped, and what happened as the realisation."""
        problem = self._problem
        device = np.array([row.device for row in self._rows], np.int64)
        outcome = np.array([row.outcome for row in self._rows], np.int64)
        is_done = outcome == outcomes.DONE
        taken = tuple(_taken(job, story) for job, story in zip(problem.jobs, self._stories, strict=True))
        runs = np.concatenate([_runs(job, edges) for job, edges in zip(problem.jobs, taken, strict=True)])
        lost = np.flatnonzero(runs & ~np.isin(np.arange(problem.num_tasks), self._task[is_done]))
        pairs = list(zip(problem.jobs, self._stories, strict=True))
        is_skipped = np.array([job.overrun == SKIP and story.outcome == EXPIRED for job, story in pairs])
        ends = [job.release + (job.deadline or 0.0) for job in problem.jobs]
        due = np.where(is_skipped, [job.release for job in problem.jobs], ends)[problem.job_of[lost]]
        times = self._run_times(device, is_done)
        none = np.zeros(len(lost), np.int64)
        return Schedule(
            problem,
            np.r_[self._task, lost],
            np.r_[device, none - 1],
            np.r_[self._start, due],
            np.r_[self._finish, due],
            attempt=np.r_[np.array([row.attempt - 1 for row in self._rows], np.int64), none],
            batch=np.r_[self._batch, none - 1],
            outcome=np.r_[
                outcome,
                np.where(is_skipped[problem.job_of[lost]], outcomes.SKIPPED, outcomes.EXPIRED),
            ],
            realisation=Realisation(-1, times, taken, runs),
        )

    def _run_times(self, device: np.ndarray, is_done: Bools) -> np.ndarray:
        """Expected ones, but for what was done; what failed later than that is cut there, or its class is slower."""
        times = np.array(self._problem.run_times)
        column = self._problem.cluster.device_class[device]
        took = self._finish - self._start
        times[self._task[is_done], column[is_done]] = took[is_done]
        known = set(zip(self._task[is_done].tolist(), column[is_done].tolist(), strict=True))
        for row in np.flatnonzero(~is_done).tolist():
            i, c = int(self._task[row]), int(column[row])
            if (i, c) not in known:
                times[i, c] = max(times[i, c], took[row])
            else:
                self._finish[row] = min(self._finish[row], self._start[row] + times[i, c])
        return times


def _taken(job: Job, story: Story) -> Bools:
    taken = job.graph.branch == ALWAYS
    taken[story.taken] = True
    return np.asarray(taken, dtype=np.bool_)


def _runs(job: Job, taken: Bools) -> Bools:
    """Whether each task would run: it has no parents, or an edge that is taken leads to it."""
    graph = job.graph
    runs = np.asarray(np.diff(graph.predecessor_pointer) == 0)
    pointer = graph.successor_pointer.tolist()
    for i in graph.order.tolist():
        if runs[i]:
            edges = np.arange(pointer[i], pointer[i + 1])
            runs[graph.targets[edges[taken[edges]]]] = True
    return runs
