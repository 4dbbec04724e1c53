"""Problems and streams, carried out in virtual time by a session.

Decisions are asked for when the kernels of ``weft.sim`` ask for them: schedules and job times are those of the
kernels' own runs, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from weft.execute.drive import Drive
from weft.execute.engine import Engine
from weft.execute.feed import Arrival, Feed
from weft.execute.told import Told
from weft.execute.virtual import VirtualQueues, VirtualTasks
from weft.io.histories import History
from weft.model.graph import Bools, Floats
from weft.model.problem import Problem, Realisation
from weft.model.schedule import Schedule
from weft.session import Session, Start
from weft.session.messages import EXPIRED
from weft.sim.queues.environment import Setup


@dataclass(frozen=True, eq=False)
class Driven:
    """What became of one stream."""

    job_times: Floats  # (num_jobs,) expired jobs count with the limit
    starts: tuple[tuple[float, Start], ...]
    """When what was started, in order."""


def play(session: Session, engine: Engine, arrivals: Iterable[Arrival]) -> Drive:
    """Carry out what a session decides until nothing is left to do, writing nothing down."""
    told = Told(session.problem.cluster, lambda cluster: session, is_kept=False)
    drive = Drive(told, engine, Feed(arrivals), History(None, keeps=False), ahead=0)
    try:
        drive.run()
    finally:
        engine.close()
    return drive


def drive_queues(session: Session, setup: Setup, seed: int, taken: Bools | None = None) -> Driven:
    """Play one stream of this seed against a new session of the same problem; jobs are called by their number.

    ``taken`` (num_edges, num_jobs) says what the branches of tasks decide; None: the seed does.
    """
    arrival = setup.arrivals.draw(seed)
    (what,) = setup.problem.jobs
    coming = [Arrival(time, job, what, is_known=True) for job, time in enumerate(arrival.tolist())]
    played = play(session, VirtualQueues(setup, seed, taken), coming)
    finish = np.full(len(arrival), np.nan)
    for end in played.told.ends:
        job = int(end.job)
        finish[job] = arrival[job] + setup.rules.expiry if end.outcome == EXPIRED else end.time
    return Driven(finish - arrival, tuple(played.starts))


def drive_tasks(
    session: Session, problem: Problem, world: Realisation, *, tells_graphs: bool = False
) -> Schedule:
    """Carry a problem out with a new session; returns what happened. Jobs are called by their number.

    ``tells_graphs``: the session is one of the cluster alone, and jobs bring their graphs.
    """
    played = play(session, VirtualTasks(problem, world), arrivals_of(problem, tells_graphs=tells_graphs))
    starts = [start for _, start in played.starts]
    ends = {(one.job, one.task): one.end for one in played.observed}
    jobs = [int(one.job) for one in starts]
    nodes = [problem.jobs[j].graph.index[one.task] for j, one in zip(jobs, starts, strict=True)]
    return Schedule(
        problem,
        np.array([problem.offsets[j] + i for j, i in zip(jobs, nodes, strict=True)], np.int64),
        np.array([problem.cluster.device_index[one.device] for one in starts], np.int64),
        np.array([one.expected_start for one in starts], np.float64),
        np.array([ends[one.job, one.task] for one in starts], np.float64),
        realisation=world,
    )


def arrivals_of(problem: Problem, *, tells_graphs: bool = False) -> list[Arrival]:
    """The jobs of a problem by release, called by their number; ``tells_graphs``: with what they are."""
    order = np.argsort([job.release for job in problem.jobs], kind="stable").tolist()
    return [Arrival(problem.jobs[j].release, j, problem.jobs[j], is_known=not tells_graphs) for j in order]
