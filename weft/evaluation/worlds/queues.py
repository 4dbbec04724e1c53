"""A simulated world around a session: it runs what is decided and reports what happens.

Arrivals and branches are those of the kernel's own runs, and so are the moments at which a decision
is asked for: a session driven here decides as the kernel does, job for job and byte for byte.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from weft.errors import InputError
from weft.evaluation.sweep.stream_bounds import taken_edges
from weft.model.graph import ALWAYS, Bools, Floats
from weft.session import End, Session, Start
from weft.session.messages import EXPIRED
from weft.sim.queues.environment import START, Setup

NEVER = float("inf")


@dataclass(frozen=True, eq=False)
class Driven:
    """What became of one stream."""

    job_times: Floats  # (num_jobs,) expired jobs count with the limit
    starts: tuple[tuple[float, Start], ...]
    """When what was started, in order."""


@dataclass
class _World:
    """Clock, arrivals and running tasks; jobs are called by their number."""

    session: Session
    setup: Setup
    seed: int
    taken: (
        Bools  # (num_edges, num_jobs) whether each edge is taken if its task runs; empty: as the seed draws
    )
    now: float = START
    next_job: int = 0
    running: list[tuple[float, int, int, int]] = field(default_factory=list)  # end, job, node, device
    occupied: list[tuple[float, int, int, int]] = field(default_factory=list)  # the same, one per batch
    starts: list[tuple[float, Start]] = field(default_factory=list)
    ended: list[End] = field(default_factory=list)

    def __post_init__(self) -> None:
        graph = self.setup.problem.graph
        self.arrival: list[float] = self.setup.arrivals.draw(self.seed).tolist()
        if not self.taken.size:
            self.taken = taken_edges(self.setup, self.seed)
        pointer = graph.successor_pointer.tolist()
        self.branches = [
            [e for e in range(pointer[i], pointer[i + 1]) if graph.branch[e] != ALWAYS]
            for i in range(graph.num_tasks)
        ]
        self.device_class = self.setup.problem.cluster.device_class.tolist()
        self.run_times = self.setup.problem.run_times.tolist()

    def branch(self, job: int, node: int) -> list[int]:
        """The tasks that the branches of a task lead to."""
        targets = self.setup.problem.graph.targets
        return [int(targets[e]) for e in self.branches[node] if self.taken[e, job]]

    def next_time(self) -> float:
        """Time of the next event."""
        end = self.running[0][0] if self.running else NEVER
        return min(end, self.arrival[self.next_job]) if self.next_job < len(self.arrival) else end

    def pop_event(self) -> None:
        """Let the next event happen; at one time, ends come before arrivals, older jobs first."""
        time = self.next_time()
        self.now = max(self.now, time)
        if self.running and self.running[0][0] <= time:
            _, job, node, device = heapq.heappop(self.running)
            self.vacate()
            self.session.finished(job, node, device, time, branch=self.branch(job, node))
            return
        self.session.arrived(self.next_job, time)
        self.next_job += 1
        if self.next_job == len(self.arrival):
            self.session.closed(time)

    def vacate(self) -> None:
        """Devices are free when the time of their batch has come, whichever end is reported first."""
        while self.occupied and self.occupied[0][0] <= self.now:
            _, job, node, device = heapq.heappop(self.occupied)
            self.session.vacated(job, node, device, self.now)

    def start(self, starts: tuple[Start, ...]) -> None:
        """Run what was decided."""
        graph, cluster = self.setup.problem.graph, self.setup.problem.cluster
        peeks = self.setup.rules.peeks
        batches: dict[int, list[tuple[int, int, int]]] = {}
        for start in starts:
            job, node, device = int(start.job), graph.index[start.task], cluster.device_index[start.device]
            batches.setdefault(start.batch, []).append((job, node, device))
            branch = self.branch(job, node) if peeks and self.branches[node] else None
            self.session.started(job, node, device, self.now, branch=branch)
            self.starts.append((self.now, start))
        for rows in batches.values():
            end = self.now + max(self.run_times[node][self.device_class[device]] for _, node, device in rows)
            for row in rows:
                heapq.heappush(self.running, (end, *row))
            heapq.heappush(self.occupied, (end, *rows[0]))
        self.vacate()

    def decide(self) -> float | None:
        """One decision, or several where the session asks for it; returns when to ask again."""
        while True:
            decision = self.session.decide(self.now)
            self.start(decision.starts)
            self.ended += decision.ended
            if decision.wake_at != self.now:
                return decision.wake_at

    def advance(self, wake_at: float | None) -> bool:
        """Let time pass until the next decision; returns whether all is over."""
        popped = 0
        while self.next_time() < NEVER:
            if self.session.is_due and self.next_time() > self.now:
                break
            self.pop_event()
            popped += 1
        if popped == 0:
            if self.next_time() < NEVER:
                self.pop_event()
            elif wake_at is not None:
                self.now = wake_at
            elif self.session.num_waiting:
                raise InputError("tasks wait, and nothing will ever start them", field="scheduler")
        return self.next_time() == NEVER and self.session.num_waiting == 0


def drive(session: Session, setup: Setup, seed: int, taken: Bools | None = None) -> Driven:
    """Play one stream of this seed against a new session of the same problem.

    ``taken`` (num_edges, num_jobs) says what the branches of tasks decide; None: the seed does.
    """
    world = _World(session, setup, seed, np.zeros((0, 0), np.bool_) if taken is None else taken)
    is_over = world.advance(None)
    while not is_over:
        is_over = world.advance(world.decide())
    world.decide()
    arrival = np.array(world.arrival)
    finish = np.full(len(arrival), np.nan)
    for end in world.ended:
        job = int(end.job)
        finish[job] = arrival[job] + setup.rules.expiry if end.outcome == EXPIRED else end.time
    return Driven(finish - arrival, tuple(world.starts))
