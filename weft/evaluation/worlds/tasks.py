"""A simulated world around a session of the task view: the jobs of one problem, carried out.

Decisions are asked for when the kernel asks for them, so the schedule is the kernel's own.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from weft.model.problem import Problem, Realisation
from weft.model.schedule import Schedule
from weft.session import Session, Start

NEVER = float("inf")


@dataclass
class _Row:
    """One start and when it ends."""

    job: int
    node: int
    device: int
    start: float
    end: float


@dataclass
class _World:
    """Clock, releases and running tasks; jobs are called by their number."""

    session: Session
    problem: Problem
    world: Realisation
    tells_graphs: bool
    now: float = 0.0
    wake_at: float = NEVER
    rows: list[_Row] = field(default_factory=list)
    begins: list[tuple[float, int]] = field(default_factory=list)  # start, row
    ends: list[tuple[float, int]] = field(default_factory=list)  # end, row

    def __post_init__(self) -> None:
        release = [job.release for job in self.problem.jobs]
        self.coming = [(release[j], j) for j in np.argsort(release, kind="stable").tolist()][::-1]
        self.branching = [np.flatnonzero(job.graph.branch >= 0).tolist() for job in self.problem.jobs]

    def next_time(self) -> float:
        """Time of the next event; a start is none."""
        end = self.ends[0][0] if self.ends else NEVER
        return min(end, self.wake_at, self.coming[-1][0] if self.coming else NEVER)

    def branch(self, row: _Row) -> list[int]:
        """The tasks that the branches of a task lead to."""
        graph, taken = self.problem.jobs[row.job].graph, self.world.taken[row.job]
        edges = [e for e in self.branching[row.job] if graph.sources[e] == row.node and taken[e]]
        return [int(graph.targets[e]) for e in edges]

    def begin_until(self, time: float) -> None:
        """Tell the starts up to a time."""
        while self.begins and self.begins[0][0] <= time:
            start, k = heapq.heappop(self.begins)
            row = self.rows[k]
            self.session.started(row.job, row.node, row.device, max(start, self.session.now))

    def happen_until(self, time: float) -> None:
        """Tell what happens up to a time: ends first, then jobs that come."""
        while self.ends and self.ends[0][0] <= time:
            end, k = heapq.heappop(self.ends)
            self.begin_until(end)
            row = self.rows[k]
            self.session.finished(row.job, row.node, row.device, end, branch=self.branch(row))
        self.begin_until(time)
        while self.coming and self.coming[-1][0] <= time:
            _, job = self.coming.pop()
            self.arrive(job, time)

    def arrive(self, number: int, time: float) -> None:
        """Tell of a job, and what it is if the session does not know it."""
        if not self.tells_graphs:
            self.session.arrived(number, time)
            return
        job = self.problem.jobs[number]
        self.session.arrived(
            number,
            time,
            graph=job.graph,
            deadline=job.deadline,
            weight=job.weight,
            owner=job.owner,
            eligible=job.eligible,
        )

    def start(self, starts: tuple[Start, ...]) -> None:
        """Run what was decided, from when its data is there."""
        cluster = self.problem.cluster
        for start in starts:
            job, device = int(start.job), cluster.device_index[start.device]
            node = self.problem.jobs[job].graph.index[start.task]
            run = self.world.run_times[self.problem.offsets[job] + node, cluster.device_class[device]]
            row = _Row(job, node, device, start.expected_start, start.expected_start + float(run))
            heapq.heappush(self.begins, (row.start, len(self.rows)))
            heapq.heappush(self.ends, (row.end, len(self.rows)))
            self.rows.append(row)

    def step(self) -> bool:
        """All that happens at the next time, and the decision after it; returns whether all is over."""
        time = self.next_time()
        if time == NEVER:
            return True
        self.now = max(self.now, time)
        self.wake_at = NEVER
        self.happen_until(self.now)
        if self.next_time() > self.now:
            decision = self.session.decide(self.now)
            self.start(decision.starts)
            self.wake_at = NEVER if decision.wake_at is None else decision.wake_at
        return False


def drive_tasks(
    session: Session, problem: Problem, world: Realisation, *, tells_graphs: bool = False
) -> Schedule:
    """Carry a problem out with a new session; returns what happened.

    ``tells_graphs``: the session is one of the cluster alone, and jobs bring their graphs.
    """
    played = _World(session, problem, world, tells_graphs)
    while not played.step():
        pass
    rows = played.rows
    return Schedule(
        problem,
        np.array([problem.offsets[row.job] + row.node for row in rows], np.int64),
        np.array([row.device for row in rows], np.int64),
        np.array([row.start for row in rows], np.float64),
        np.array([row.end for row in rows], np.float64),
        realisation=world,
    )
