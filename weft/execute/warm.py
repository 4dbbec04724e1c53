"""Having kernels loaded before a run begins: what is loaded at its first event leaves devices idle meanwhile."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from weft.errors import WeftError
from weft.execute.scheduling import MakeSession
from weft.model.graph import GraphBuilder
from weft.model.problem import Problem

JOB, FIRST, SECOND, LATER = "warm", "first", "second", "later"
FAR = 1e6
"""Long after everything should have ended, so that all is late."""


def warm(make: MakeSession, problem: Problem) -> None:
    """Take a session that nobody needs through starts, ends, lateness, a failure and a loss, of three tasks like one of the problem's."""
    graph = problem.jobs[0].graph
    like = graph.task(0)
    builder = GraphBuilder(JOB, time_unit=graph.time_unit)
    before = ""
    for name in (FIRST, SECOND, LATER):
        after = {before: 1.0} if before else {}
        builder.task(name, like.work, kind=like.kind, slots=like.slots, after=after)
        before = name
    with suppress(WeftError):  # tasks of a kind that needs more: loaded when it is needed, then
        _play(make, problem, builder)


def _play(make: MakeSession, problem: Problem, builder: GraphBuilder) -> None:
    session = make(problem.cluster)
    graph, like = builder.build(), problem.jobs[0]
    settings: dict[str, Any] = {"deadline": like.deadline, "series": like.series, "interval": like.interval}
    session.arrived(JOB, 0.0, graph=graph, **settings)
    start = session.decide(0.0).starts[0]
    session.reservations(most=2)
    session.started(JOB, FIRST, start.device, 0.0)
    session.decide(0.0)
    session.decide(FAR)  # late
    session.finished(JOB, FIRST, start.device, FAR)
    for one in session.decide(FAR).starts:
        session.started(JOB, one.task, one.device, FAR)
        session.failed(JOB, one.task, one.device, FAR)
    again = session.reservations()
    for one in session.decide(FAR).starts:
        session.started(JOB, one.task, one.device, FAR)
        session.device_lost(one.device, FAR)
        session.decide(FAR)
        session.device_joined(one.device, FAR)
    session.decide(FAR)
    other = make(problem.cluster)
    other.arrived(JOB, 0.0, graph=graph, **settings)
    other.adopted(JOB, FIRST, again[0].device if again else start.device, 0.0)
    other.decide(0.0)
