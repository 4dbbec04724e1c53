"""A session that is told what happens on an engine, and can be made again from what it was told.

Devices go by the names of the cluster that the run began with, whatever the session's own cluster
calls them: a device that turns out slower becomes a class of its own there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.errors import InputError, UnsupportedError
from weft.execute.engine import Event, Order
from weft.execute.feed import Arrival, allowed_of, is_named
from weft.execute.split import SplitSession
from weft.io.histories import History
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.session import Session
from weft.session.messages import EXPIRED, Decision, End, Name
from weft.session.names import descendants
from weft.session.wire import SETTINGS

Tell = Callable[[Session], object]


@dataclass
class _Entry:
    """Something that a session was told; of jobs that are over it is forgotten."""

    job: Name | None
    tell: Tell


class Told:
    """One session, its shadow, and what both were told."""

    def __init__(
        self,
        cluster: Cluster,
        make: Callable[[Cluster], Session],
        shadow: Callable[[Cluster], Session] | None = None,
        *,
        is_kept: bool = True,
    ) -> None:
        """``is_kept``: what is told is kept, so that the session can be made again."""
        self.cluster, self._make, self._make_shadow = cluster, make, shadow
        self._is_kept = is_kept
        self.session = make(cluster)
        self._shadow = None if shadow is None else shadow(cluster)
        self.devices = {name: k for k, name in enumerate(cluster.device_names)}
        self.factors = [1.0] * cluster.num_devices
        """By how much every device is slower than the cluster says."""
        self.away: set[str] = set()
        self.open_jobs: dict[Name, TaskGraph] = {}
        self._arrivals: dict[Name, Arrival] = {}
        self.before: dict[Name, Name] = {}
        """Of open jobs that are kept in order, the instance before."""
        self._latest: dict[str, Name] = {}
        """The last instance of every pipeline that was not skipped."""
        self.done: dict[Name, set[str]] = {}
        """Tasks that are reported, of jobs that are not over."""
        self.left_out: set[tuple[Name, str]] = set()
        """Tasks that a former driver has said to be dropped or skipped."""
        self.num_tasks = self.num_done = 0
        self.ends: list[End] = []
        self._has_demands = False  # whether any task so far asks for memory or resources
        self.num_sessions = 1
        """How often a session was made."""
        self._journal: list[_Entry] = []
        self._limited = {
            name: _is_limited(cluster.classes[c])
            for name, c in zip(cluster.device_names, cluster.device_class.tolist(), strict=True)
        }

    # -- names -------------------------------------------------------------------------------------

    def number(self, device: str) -> int:
        """Number of a device, the same in every session."""
        return self.devices[device]

    def name(self, device: str) -> str:
        """The name that the run has for a device of the session."""
        return self.cluster.device_names[self.session.problem.cluster.device_index[device]]

    def slots(self, device: str) -> int:
        """How many tasks a device runs at once."""
        return int(self.cluster.slots[self.devices[device]])

    def can_queue(self, device: str) -> bool:
        """Whether tasks may be queued ahead: not where memory or other resources say what fits together."""
        return not (self._limited[device] and self._has_demands)

    def places(self, job: Name, task: str) -> list[str]:
        """Devices that can run a task, there or not."""
        return allowed_of(self._arrivals[job], self.cluster)[task]

    def parents(self, job: Name, task: str) -> list[str]:
        """What a task needs."""
        graph = self.open_jobs[job]
        return [graph.names[k] for k in graph.predecessors(graph.index[task]).tolist()]

    def is_done(self, job: Name, task: str) -> bool:
        """Whether a task is reported."""
        return task in self.done.get(job, ())

    def has_turn(self, job: Name, task: str) -> bool:
        """Whether the instance before is known to be through with a task."""
        before = self.before.get(job)
        if before not in self.open_jobs:
            return True
        place, names = self.open_jobs[job].index[task], self.open_jobs[before].names
        return place >= len(names) or self.is_done(before, names[place])

    # -- events ------------------------------------------------------------------------------------

    def arrived(self, arrival: Arrival, time: float, *, is_last: bool = False) -> None:
        """A job enters with its graph; ``is_last``: no other will."""
        self.open_jobs[arrival.job], self._arrivals[arrival.job] = arrival.graph, arrival
        self.done[arrival.job] = set()
        if series := arrival.what.series:
            if arrival.what.in_order and series in self._latest:
                self.before[arrival.job] = self._latest[series]
            self._latest[series] = arrival.job
        self.num_tasks += arrival.graph.num_tasks
        self._has_demands |= bool(arrival.graph.memory.any() or arrival.graph.demands.any())
        self._tell(arrival.job, lambda session: self._arrive(session, arrival, time))
        if is_last:
            self.no_more(time)

    def no_more(self, time: float) -> None:
        """No other job will come."""
        self._tell(None, lambda session: session.closed(max(time, session.now)))

    def _arrive(self, session: Session, arrival: Arrival, time: float) -> None:
        if arrival.is_known:
            session.arrived(arrival.job, time)
            return
        settings: dict[str, Any] = {name: getattr(arrival.what, name) for name in SETTINGS}
        eligible, booking = arrival.what.eligible, arrival.what.booking
        if eligible is not None:
            settings["eligible"] = self._names_there(session, eligible)
        if booking is not None:
            settings["booking"] = replace(booking, devices=self._names_there(session, booking.devices))
        graph = slowed_graph(arrival.graph, session.problem.cluster)
        session.arrived(arrival.job, time, graph=graph, **settings)

    def _names_there(self, session: Session, given: tuple[str, ...]) -> tuple[str, ...]:
        """Devices by names of the run, or of classes, as a session's cluster calls them."""
        here = {name for name, k in self.devices.items() if is_named(self.cluster, k, given)}
        names = session.problem.cluster.device_names
        return tuple(names[self.devices[name]] for name in self.devices if name in here)

    def started(self, order: Order, event: Event) -> bool:
        """What was decided runs; returns whether the session agrees."""
        device, time = self.number(event.device), self._at(event.time)
        try:
            self.session.started(order.job, order.task, device, time, branch=event.branch)
        except InputError:
            return False
        self._write(order.job, lambda session: session.adopted(order.job, order.task, device, time))
        return True

    def adopted(self, order: Order, time: float) -> bool:
        """What was queued ahead runs; returns whether the session agrees."""
        device, time = self.number(order.device), self._at(time)
        try:
            self.session.adopted(order.job, order.task, device, time)
        except InputError:
            return False
        self._write(order.job, lambda session: session.adopted(order.job, order.task, device, time))
        return True

    def finished(self, order: Order, event: Event) -> None:
        """A task has ended well."""
        device, time, branch = self.number(order.device), self._at(event.time), event.branch
        self.num_done += 1
        if order.job in self.done:
            self.done[order.job].add(order.task)
        self._tell(
            order.job, lambda session: session.finished(order.job, order.task, device, time, branch=branch)
        )

    def failed(self, order: Order, time: float) -> None:
        """A task has ended badly, or could not be started."""
        device, time = self.number(order.device), self._at(time)
        self.session.failed(order.job, order.task, device, time)
        self._write(order.job, lambda session: _fail(session, order, device, time))

    def lost(self, device: str, time: float) -> None:
        """A device is gone."""
        self.away.add(device)
        number, time = self.number(device), self._at(time)
        self._tell(None, lambda session: session.device_lost(number, time))

    def joined(self, device: str, time: float) -> None:
        """A device is back."""
        self.away.discard(device)
        number, time = self.number(device), self._at(time)
        self._tell(None, lambda session: session.device_joined(number, time))

    def vacated(self, event: Event) -> None:
        """The first lane of a task that takes several in turn is free."""
        device = self.number(event.device)
        self.session.vacated(event.job, event.task, device, self._at(event.time))

    def _at(self, time: float) -> float:
        """When the session is told that something was: news of workers come after a while, and its time never goes back."""
        return max(time, self.session.now)

    def _tell(self, job: Name | None, tell: Tell) -> None:
        tell(self.session)
        self._write(job, tell)

    def _write(self, job: Name | None, tell: Tell) -> None:
        """Keep what was told, and tell the shadow: to it, every start is one that it did not decide."""
        if self._is_kept:
            self._journal.append(_Entry(job, tell))
        if self._shadow is not None:
            try:
                tell(self._shadow)
            except InputError:  # out of step with what is: begin anew
                self._shadow = self._replayed(self._make_shadow, self._shadow)

    # -- decisions ---------------------------------------------------------------------------------

    def decide(self, now: float) -> Decision:
        """What the session decides."""
        return self.session.decide(now)

    @property
    def shadow_name(self) -> str:
        """The scheduler that is asked and not obeyed; empty: none."""
        return "" if self._shadow is None else self._shadow.scheduler

    def shadow_starts(self, now: float) -> list[list[Name]]:
        """What the shadow would start now; it goes on as if it had not been asked."""
        if self._shadow is None:
            return []
        decision = copy.deepcopy(self._shadow).decide(max(now, self._shadow.now))
        names = self._shadow.problem.cluster.device_index
        devices = self.cluster.device_names
        return [[one.job, one.task, devices[names[one.device]]] for one in decision.starts]

    def note_end(self, end: End, history: History) -> None:
        """A job is over: write down what became of it and forget the rest."""
        graph, done = self.open_jobs.pop(end.job), self.done.pop(end.job)
        series, before = self._arrivals.pop(end.job).what.series, self.before.pop(end.job, None)
        if end.outcome == EXPIRED and before is not None and self._latest[series] == end.job:
            self._latest[series] = before
        for task in end.dropped:
            if (end.job, task) not in self.left_out:
                because = _cause(graph, task, end.failed)
                history.add("dropped", end.time, job=end.job, task=task, because=because)
        for task in graph.names:
            if end.outcome == "done" and task not in done and (end.job, task) not in self.left_out:
                history.add("skipped", end.time, job=end.job, task=task)
        history.add("ended", end.time, job=end.job, outcome=end.outcome, reason=end.reason)
        self.ends.append(end)
        self._journal = [entry for entry in self._journal if entry.job != end.job]

    # -- made again --------------------------------------------------------------------------------

    def slow_down(self, factors: list[float]) -> bool:
        """Go on with a session that takes devices to be slower by these factors than the cluster says.

        Where the scheduler cannot act on such devices, the session goes on as it was: returns whether it is a new one.
        """
        self.factors = list(factors)
        try:
            self.session = self._replayed(self._make, self.session)
        except UnsupportedError:
            return False
        self.num_sessions += 1
        return True

    def _replayed(self, make: Callable[[Cluster], Session] | None, former: Session) -> Session:
        """A new session that is told everything again, of all jobs that are not over."""
        assert make is not None
        session = make(slowed(self.cluster, self.factors))
        if isinstance(session, SplitSession) and isinstance(former, SplitSession):
            session.division = former.division
        for entry in self._journal:
            entry.tell(session)
        return session


def _cause(graph: TaskGraph, task: str, failed: tuple[str, ...]) -> str:
    """The first task that failed for good and that a task needs."""
    for name in failed:
        if graph.index[task] in descendants(graph, graph.index[name]):
            return name
    return failed[0] if failed else ""


def _fail(session: Session, order: Order, device: int, time: float) -> None:
    """Tell a failure again: one before the start began then."""
    try:
        session.failed(order.job, order.task, device, time)
    except InputError:
        session.adopted(order.job, order.task, device, time)
        session.failed(order.job, order.task, device, time)


def _is_limited(one: DeviceClass) -> bool:
    return bool(np.isfinite(one.memory)) or bool(one.capacity)


def slowed(cluster: Cluster, factors: list[float]) -> Cluster:
    """The cluster with devices that are slower by a factor each, as classes of their own where they share one."""
    classes: list[DeviceClass] = []
    at: dict[tuple[int, float], int] = {}
    device_class = []
    for c, factor in zip(cluster.device_class.tolist(), factors, strict=True):
        if (c, factor) not in at:
            at[c, factor] = len(classes)
            classes.append(_slower(cluster.classes[c], factor))
        device_class.append(at[c, factor])
    return cluster.replaced(classes=tuple(classes), device_class=np.array(device_class, np.int32))


SLOWED = "~"
"""Between the name of a class and the factor by which devices of it are slower."""


def slowed_graph(graph: TaskGraph, cluster: Cluster) -> TaskGraph:
    """The graph with run times for classes of slowed devices, where it gives run times per class itself."""
    columns = {name: k for k, name in enumerate(graph.classes)}
    found = [one.name for one in cluster.classes if one.name.rpartition(SLOWED)[0] in columns]
    if not found:
        return graph
    parts = [name.rpartition(SLOWED) for name in found]
    more = [graph.times[:, columns[name]] * float(factor) for name, _, factor in parts]
    times = np.concatenate([graph.times, np.stack(more, axis=1)], axis=1)
    return graph.replaced(classes=(*graph.classes, *found), times=times)


def _slower(one: DeviceClass, factor: float) -> DeviceClass:
    if factor == 1.0:
        return one
    return replace(
        one,
        name=f"{one.name}{SLOWED}{factor:.6g}",
        speed=None if one.speed is None else one.speed / factor,
        times={kind: time * factor for kind, time in one.times.items()},
        speeds={kind: speed / factor for kind, speed in one.speeds.items()},
    )
