"""A drive in virtual time for tests: a problem, who decides, what goes wrong, and the history of it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from strategies import LINKS, SHAPES, make_cluster, make_graph, with_needs

from weft.execute.drive import Drive
from weft.execute.engine import FAILED, FINISHED, LOST, LOST_RESULT, Event, Order
from weft.execute.faults import Failure, Faults, Loss, Slowdown
from weft.execute.feed import feed_of
from weft.execute.scheduling import Wanted, choose
from weft.execute.told import Told
from weft.execute.virtual import NO_FAULTS, VirtualTasks
from weft.execute.watch import SpeedWatch
from weft.io.histories import SCHEMA, History, Row
from weft.model.history_oracle import check_history
from weft.model.problem import Job, Problem, realise
from weft.session.messages import Name

STYLES = (
    Wanted("heft"),
    Wanted("plan:heft"),
    Wanted("fifo"),
    Wanted("priced"),
    Wanted("heft", is_live=True),
    Wanted("heft", is_strict=True),
    Wanted("priced", split="priced:0.5,fifo:0.5"),
    Wanted("priced", split="priced:0.7,heft:0.3"),
)
"""Who decides: given plans, plans made at events, dispatchers, several at once."""
GONE = "gone"
FOR_GOOD = 12
"""An attempt that no task reaches."""


@dataclass
class Drove:
    """What a drive wrote down."""

    drive: Drive
    rows: list[Row] = field(default_factory=list)

    def of(self, *events: str) -> list[Row]:
        """Rows of these events."""
        return [row for row in self.rows if row["event"] in events]

    @property
    def violations(self) -> list[str]:
        """What the oracle says of it; nobody decides to wait ten seconds without saying so."""
        return [str(one) for one in check_history(self.rows)]


class ForgetfulTasks(VirtualTasks):
    """Results are gone with the device that made them, as on clusters that keep them in memory."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._homes: dict[tuple[Name, str], str] = {}

    def submit(self, order: Order) -> None:
        """Refuse an order whose input is gone."""
        for task in order.inputs:
            if self._homes.get((order.job, task), GONE) == GONE and not self._open(order.job, (task,)):
                note = f"{LOST_RESULT}{task}"
                self._news.append(
                    Event(FAILED, self.now, order.device, order.job, order.task, order.attempt, note=note)
                )
                return
        super().submit(order)

    def events(self, until: float | None) -> list[Event]:
        """Note where results are."""
        found = super().events(until)
        for event in found:
            if event.kind == FINISHED:
                self._homes[event.job, event.task] = event.device
            elif event.kind == LOST:
                self._homes = {
                    key: GONE if home == event.device else home for key, home in self._homes.items()
                }
        return found


def go(
    problem: Problem,
    wanted: Wanted,
    faults: Faults = NO_FAULTS,
    *,
    seed: int = 0,
    shadow: str | None = None,
    watches: bool = True,
    ahead: int = 1,
    engine_class: type[VirtualTasks] = VirtualTasks,
) -> Drove:
    """Carry a problem out in virtual time."""
    clean = problem.replaced(noise=0.0)
    chosen = choose(wanted, clean, is_stream=False)
    other = None if shadow is None else choose(Wanted(shadow, is_live=True), clean, is_stream=False).make
    history = History(None)
    begin(history, clean, chosen.name, chosen.policy)
    told = Told(clean.cluster, chosen.make, other)
    watcher = SpeedWatch() if watches else None
    engine = engine_class(problem, realise(problem, seed), faults)
    drive = Drive(told, engine, feed_of(clean), history, ahead=ahead, watcher=watcher)
    drive.run()
    finish(drive)
    return Drove(drive, history.rows)


def begin(history: History, problem: Problem, scheduler: str, policy: str = "plan") -> None:
    """The first row of a history."""
    cluster = problem.cluster
    devices = [
        {"name": name, "class": cluster.classes[c].name, "slots": cluster.classes[c].slots, "worker": name}
        for name, c in zip(cluster.device_names, cluster.device_class.tolist(), strict=True)
    ]
    about = {"schema": SCHEMA, "weft": "0", "run": "r", "on": "virtual", "started_at": 0.0, "seed": 0}
    history.add(
        "run",
        0.0,
        **about,
        scheduler=scheduler,
        policy=policy,
        time_unit=problem.time_unit,
        devices=devices,
    )


def finish(drive: Drive) -> None:
    """The last row of a history."""
    failed = [end for end in drive.told.ends if end.outcome != "done"]
    drive.history.add("closed", drive.now, ok=not failed, reason=failed[0].reason if failed else "")


def drawn(
    seed: int, *, jobs: int = 1, noise: float = 0.0, costs: Sequence[str] = ("equal", "uniform", "some zero")
) -> Problem:
    """A problem of a style of its own; data never takes longer than tasks may wait."""
    rng = random.Random(seed)
    is_plain = rng.random() < 0.6
    cluster = make_cluster(
        rng.randrange(2**32), rng.randint(1, 5), rng.randint(1, 3), rng.choice(LINKS), is_plain=is_plain
    )
    made = []
    for k in range(jobs):
        style = (rng.choice(SHAPES), rng.choice(costs), rng.choice(("none", "uniform", "some zero")))
        graph = make_graph(rng.randrange(2**32), rng.randint(1, 16 // jobs), *style)
        graph = graph if is_plain else with_needs(graph, rng.randrange(2**32), cluster)
        eligible = (cluster.device_names[0], cluster.classes[-1].name) if k and rng.random() < 0.5 else None
        made.append(Job(graph, f"job{k}", rng.uniform(0.0, 20.0) * (k > 0), eligible=eligible))
    return Problem(made, cluster, noise=noise)


def faults_of(seed: int, problem: Problem) -> Faults:
    """One to three things that go wrong; a device with every task's class stays, so that all can end."""
    rng = random.Random(seed)
    horizon = 5.0 * max(1, problem.num_tasks)
    names = problem.cluster.device_names
    losses, slowdowns, failures = [], [], []
    for name in rng.sample(names[1:], min(len(names) - 1, rng.randint(0, 2))):
        time = rng.choice((0.0, rng.uniform(0.0, horizon)))
        until = rng.choice((float("inf"), time + rng.uniform(0.5, horizon)))
        losses.append(Loss(name, time, until))
    if rng.random() < 0.3:
        time = rng.uniform(0.0, horizon)
        losses.append(Loss(names[0], time, time + rng.uniform(0.5, horizon)))
    for name in rng.sample(names, rng.randint(0, 1)):
        slowdowns.append(Slowdown(name, rng.uniform(0.0, horizon), 4.0))
    tasks = [(job.name, name) for job in problem.jobs for name in job.graph.names]
    for job, task in rng.sample(tasks, min(len(tasks), rng.randint(0, 2))):
        last = rng.choice((1, 1, FOR_GOOD))
        failures += [Failure(job, task, attempt) for attempt in range(1, last + 1)]
    return Faults(tuple(losses), tuple(slowdowns), tuple(failures))
