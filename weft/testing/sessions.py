"""What every session owes, whoever decides in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from weft import catalog
from weft.errors import WeftError
from weft.evaluation.sweep.queue_runs import play
from weft.execute.virtual_runs import drive_queues, drive_tasks
from weft.model.cluster import Cluster
from weft.model.problem import Problem
from weft.model.stream import StreamProblem
from weft.model.validate import validate
from weft.scenarios import scenario
from weft.schedulers.dispatchers.tasks import TaskDispatcher, run_one
from weft.session import Decision, Session
from weft.session.plan_limits import without_copies
from weft.sim.queues.environment import setup_of
from weft.testing.blindness import World, by_session, compare, drawn
from weft.testing.planners import columns, ensure, told

QUEUE_JOBS = 60
EVERY = 25
"""A checked session is stored and restored before every so-many-th decision."""
REFUSED: dict[str, Callable[[Session], object]] = {
    "a time that has passed": lambda s: s.closed(s.now - 1.0),
    "no time": lambda s: s.closed(float("nan")),
    "a job of no possible name": lambda s: s.arrived(None, s.now),  # type: ignore[arg-type]
    "what is no graph": lambda s: s.arrived("weft.testing", s.now, graph="none"),  # type: ignore[arg-type]
    "the start of an unknown job": lambda s: s.started("weft.testing", 0, 0, s.now),
    "the end of an unknown job": lambda s: s.finished("weft.testing", 0, 0, s.now),
    "the failure of an unknown job": lambda s: s.failed("weft.testing", 0, 0, s.now),
    "the loss of an unknown device": lambda s: s.device_lost("weft.testing", s.now),
    "the return of an unknown device": lambda s: s.device_joined("weft.testing", s.now),
    "an unknown event": lambda s: s.tell({"event": "weft.testing"}),
}
"""Events that no session takes."""


class Checked(Session):
    """A session that is told nonsense, stored and restored while it works."""

    given: Problem | StreamProblem | Cluster
    chosen: Any
    num_decisions = 0

    def decide(self, time: float) -> Decision:
        """Decide, now and then after all that must change nothing."""
        if self.num_decisions % EVERY == EVERY - 1:
            check_refusals(self)
            text = _text(self)
            again = Session.restore(self.given, json.loads(text), scheduler=self.chosen)
            ensure(_text(again) == text, f"{self.scheduler}: restoring a snapshot gives another one")
            vars(self).update(vars(again))
        self.num_decisions += 1
        return super().decide(time)


def checked(given: Problem | StreamProblem | Cluster, scheduler: Any, **settings: Any) -> Checked:
    """A session that is checked while it works."""
    session = Checked(given, scheduler, **settings)
    session.given, session.chosen = given, scheduler
    return session


def check_refusals(session: Session) -> None:
    """What does not fit is refused, and the session is as before."""
    before = _text(session)
    for what, tell in REFUSED.items():
        is_refused = False
        try:
            tell(session)
        except WeftError:
            is_refused = True
        ensure(is_refused, f"{session.scheduler}: the session takes {what}")
    ensure(_text(session) == before, f"{session.scheduler}: an event that is refused changes the session")


def _text(session: Session) -> str:
    return json.dumps(session.snapshot(), allow_nan=False)


def check_session(scheduler: Any, *, streams: int = 2) -> None:
    """Hold sessions under a scheduler (an object, a class or a name) against what every session owes.

    A session does what the simulator does, and the same whether its jobs were known or bring their graphs; stored and
    restored it goes on as it would have; what does not fit is refused and changes nothing; its record is valid.
    A dispatcher of one's own must decide by what it is shown: what it remembers is in no snapshot.

    Parameters
    ----------
    streams
        How many drawn streams it is tried on.
    """
    acts = False
    for number in range(streams):
        world, case = drawn(number, branches=False, outages=False), _queues(number)
        if has_session(scheduler, world.problem):
            acts = True
            with told(f"stream {number} of weft.testing.blindness.drawn"):
                check_tasks(scheduler, world, number)
        if has_queues(scheduler, case):
            acts = True
            with told(f"stream {number} of the scenario conditional"):
                check_queues(scheduler, case, number)
    ensure(acts, f"{scheduler}: no session takes it")


def _queues(number: int) -> StreamProblem:
    return scenario("conditional", jobs=QUEUE_JOBS).stream("validation", number)


def check_tasks(scheduler: Any, world: World, seed: int) -> None:
    """A session of single tasks does what the simulator does without copies, whenever it learns of graphs."""
    problem = without_copies(world.problem)
    inside = run_one(catalog.task_dispatcher(scheduler), problem, world.happens, seed)
    for given, tells in ((problem, False), (problem.cluster, True)):
        settings = {"seed": seed, "keeps_record": True, "time_unit": problem.time_unit}
        session = checked(given, scheduler, **settings, noise=problem.noise, noise_law=problem.noise_law)
        outside = drive_tasks(session, problem, world.happens, tells_graphs=tells)
        how = "that is told its graphs" if tells else "that knows its jobs"
        ensure(
            columns(inside)[:4] == columns(outside)[:4],  # who, where, when
            f"{session.scheduler} does one thing in a session {how}, another in the simulator",
        )
        session.decide(session.now)
        faults = validate(session.record())
        ensure(not faults, f"{session.scheduler}: its record breaks a rule: {faults[0] if faults else ''}")


def check_queues(scheduler: Any, case: StreamProblem, seed: int) -> None:
    """A session of queues by kind does what the simulator does."""
    session = checked(case, scheduler, seed=seed, keeps_record=True)
    outside = drive_queues(session, setup_of(case), seed)
    inside = play(scheduler, case, [seed])
    ensure(
        outside.job_times.tobytes() == inside.job_times[0].tobytes(),
        f"{session.scheduler} does one thing in a session, another in the simulator",
    )
    faults = validate(session.record())
    ensure(not faults, f"{session.scheduler}: its record breaks a rule: {faults[0] if faults else ''}")


def check_same(given: Any, chosen: TaskDispatcher, world: World, seed: int) -> None:
    """A session does what the simulator does without copies, and is as blind."""
    inside = run_one(chosen, without_copies(world.problem), world.happens, seed)
    outside = by_session(given)(world, seed)
    same = columns(inside)[:4] == columns(outside)[:4]  # who, where, when
    ensure(same, f"{chosen.name} does one thing in a session, another in the simulator")
    found = compare(by_session(given), world, seed)
    ensure(
        found.differ == 0,
        f"{chosen.name} in a session knows what is yet to come: {found.differ} starts differ",
    )


def has_session(scheduler: Any, problem: Problem) -> bool:
    """Whether it acts on single tasks in sessions: they know no copies, and plan around others."""
    try:
        Session(problem.cluster, scheduler, time_unit=problem.time_unit)
        Session(problem, scheduler)
    except WeftError:
        return False
    return True


def has_queues(scheduler: Any, case: StreamProblem) -> bool:
    """Whether it acts on queues by kind: a name of a dispatcher or of a policy."""
    if not isinstance(scheduler, str):
        return False
    try:
        catalog.chooser(scheduler)
        Session(case, scheduler)
    except WeftError:
        return False
    return True
