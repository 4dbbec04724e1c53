"""Tasks on Ray: for every slot of a device an actor, its lane, that carries out calls one after the other.

Results stay where they were made, in Ray's store, and are handed on as references. How an order ends is what its
call returns; that it has begun, the lane says on a call that waits. All of it is read by whoever asks for events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weft.errors import InputError
from weft.execute.engine import CANCELLED, FAILED, FINISHED, JOINED, LOST, STARTED, Event, Order, WallClock
from weft.execute.engine import LOST_RESULT as LOST_RESULT
from weft.execute.ray_calls import is_of, offset_of, open_lane, said, written
from weft.execute.ray_connect import Connection as Connection
from weft.execute.ray_connect import RayNode as RayNode
from weft.execute.ray_connect import connect as connect
from weft.execute.ray_connect import ray_package
from weft.execute.ray_connect import workers_of as workers_of
from weft.execute.ray_lane import LACKING, NOW, Report, Ticket, failed
from weft.execute.ray_orders import (
    ENDED,
    HELD,
    RUNNING,
    SENT,
    WITHDRAWN,
    Device,
    Entry,
    RunningLane,
    event_of,
    node_of,
)
from weft.execute.ray_orders import RayDevice as RayDevice
from weft.execute.ray_results import Results
from weft.execute.work import Call, Place, Workload, note_of, timed_out
from weft.session.messages import Name

PATIENCE = 30.0
"""Seconds until the lanes must be up at the start."""
LOOK = 0.5
"""Seconds between two looks at what is late or lost."""
GRACE = 3.0
"""Seconds that a command which takes too long has to be stopped by its worker."""
LONGEST_PAUSE = 8.0
"""Seconds between two tries to get back a device that is lost."""


class RayEngine:
    """Devices that are actors on a Ray cluster.

    Parameters
    ----------
    connection
        To Ray, as ``connect`` returns it; the engine leaves it open.
    devices
        Names, classes and slots, the node of each, and what a slot takes there. A Ray of our own has one node: theirs.
    workload
        What the tasks do.
    seconds_per_unit
        How long the problem's unit of time is.
    folder
        Where the logs and results of a task of a job are kept, on machines that have that folder.
    elapsed
        Units of time that have passed in a run that goes on.
    timeout
        Seconds after which a task is stopped and fails.
    """

    name = "ray"
    is_live = True
    waits_for_inputs = False

    def __init__(
        self,
        connection: Connection,
        devices: Sequence[RayDevice | tuple[Any, ...]],
        workload: Workload,
        *,
        seconds_per_unit: float = 1.0,
        folder: Callable[[Name, str], str] | None = None,
        elapsed: float = 0.0,
        timeout: float | None = None,
    ) -> None:
        self._ray = ray_package()
        self._workload, self._folder, self._timeout = workload, folder, timeout
        given = [RayDevice(*one) for one in devices]
        if connection.is_own:
            given = [one._replace(worker="") for one in given]
        self._devices = {one.name: Device(one) for one in given}
        if len(self._devices) != len(devices):
            raise InputError("two devices have one name", field="devices")
        self._unit, self._elapsed = seconds_per_unit, elapsed
        self._clock = WallClock(seconds_per_unit, elapsed)
        self._entries: dict[tuple[Name, str, int], Entry] = {}
        self._results = Results(folder)
        self._count = 0
        self._news: list[Event] = []
        self._looked = 0.0
        self._is_open = False

    # -- the interface -----------------------------------------------------------------------------

    def start(self) -> None:
        """Get ready to take orders; the clock is 0 from now on."""
        self._is_open = True
        for device in self._devices.values():
            device.is_lost = True
        self._open_lanes(self._devices.values())
        hellos = [lane.hello for device in self._devices.values() for lane in device.lanes]
        if hellos:
            self._ray.wait(hellos, num_returns=len(hellos), timeout=PATIENCE)
        for device in self._devices.values():
            for lane in list(device.lanes):
                if self._is_ready(lane.hello):
                    self._greet(device, lane)
        # What is there from the start has not joined.
        self._news = [event for event in self._news if event.kind != JOINED]
        self._clock = WallClock(self._unit, self._elapsed)
        for device in self._devices.values():
            device.last = self._elapsed
            if device.is_lost:
                note = device.note or f"no room for it on {device.given.worker or 'any node'}"
                self._tell(Event(LOST, self._elapsed, device.given.name, note=note))
        if all(device.is_lost for device in self._devices.values()):
            note = self._news[0].note if self._news else "there are none"
            self.close()
            raise InputError(f"no device is there: {note}", field="devices")

    @property
    def now(self) -> float:
        """Time since the start, in the problem's unit of time."""
        return self._clock.now

    def submit(self, order: Order) -> None:
        """Have a device run a task, after what it was given before."""
        device = self._devices[order.device]
        entry = Entry(order, self._count)
        self._count += 1
        self._results.expect(entry)
        if device.is_lost or any(one.kind == LOST and one.device == order.device for one in self._news):
            entry.state = ENDED  # by a loss that was told already, or is about to be
            return
        self._entries[order.key] = entry
        device.held.append(entry)
        self._feed(device)

    def events(self, until: float | None) -> list[Event]:
        """What has happened since the last call, in order."""
        wait = LOOK if until is None else min(LOOK, self._clock.seconds(until - self.now))
        if time.monotonic() - self._looked >= LOOK:
            self._look()
        self._take(0.0 if self._news else max(0.0, wait))
        news, self._news = self._news, []
        return sorted(news, key=lambda event: event.time)

    def cancel(self, order: Order) -> None:
        """This order is not wanted any more; one that runs is killed, and its lane made anew."""
        entry, device = self._entries.get(order.key), self._devices[order.device]
        if entry is None:
            return  # it has ended
        if entry.state == HELD:
            device.held.remove(entry)
            self._end(entry, failed(CANCELLED))
        elif entry.state in (SENT, RUNNING):
            self._stop(device, entry, CANCELLED)

    def release(self, job: Name, task: str | None = None) -> None:
        """The result of a task, or of all tasks of a job, is not needed any more."""
        self._results.release(job, task)

    def result(self, job: Name, task: str) -> Any:
        """What a finished task has returned."""
        return self._results.fetch(job, task)

    def close(self) -> None:
        """End the lanes and let go of everything; Ray itself is left as it is."""
        if not self._is_open:
            return
        self._is_open = False
        for device in self._devices.values():
            self._drop_lanes(device)
        self._entries.clear()
        self._results.clear()

    # -- lanes -------------------------------------------------------------------------------------

    def _open_lanes(self, devices: Iterable[Device]) -> None:
        """Make the lanes of devices whose node is there."""
        nodes = workers_of()
        for device in devices:
            node = node_of(device.given, nodes)
            if node is not None or not device.given.worker:
                device.lanes = [open_lane(device.given, node) for _ in range(device.given.slots)]

    def _greet(self, device: Device, lane: RunningLane) -> None:
        """A lane has answered for the first time, or will never."""
        try:
            lane.id = self._ray.get(lane.hello)
            lane.offset = offset_of(lane)
            lane.watch = lane.begun.remote()
        except self._ray.exceptions.RayError as error:
            self._lose(device, said(error))
            return
        lane.hello = None
        if all(one.hello is None for one in device.lanes):
            device.pause = 0.0
            if device.is_lost:
                device.is_lost = False
                self._tell(Event(JOINED, NOW, device.given.name))
            self._feed(device)

    def _lose(self, device: Device, note: str) -> None:
        """A lane is dead: so is all that its device was given. It is tried again, ever more slowly."""
        self._drop_lanes(device)
        self._forget(device.held)
        device.held.clear()
        device.note, self._looked = note, 0.0
        device.retry = time.monotonic() + device.pause
        device.pause = min(LONGEST_PAUSE, 2 * device.pause + LOOK)
        if not device.is_lost:
            device.is_lost = True
            self._tell(Event(LOST, NOW, device.given.name, note=note))

    def _drop_lanes(self, device: Device) -> None:
        lanes, device.lanes = device.lanes, []
        for lane in lanes:
            self._forget(lane.sent)
            if self._ray.is_initialized():
                self._ray.kill(lane.actor)

    def _forget(self, entries: Iterable[Entry]) -> None:
        """These orders have ended without a word."""
        for entry in entries:
            entry.state = ENDED
            self._entries.pop(entry.order.key, None)

    def _replace(self, device: Device, lane: RunningLane) -> None:
        """Kill a lane for what it runs, and give the rest of it to a new one."""
        rest = [entry for entry in lane.sent if entry.state == SENT]
        for entry in rest:
            entry.state, entry.result, entry.report = HELD, None, None
        device.held.extendleft(reversed(rest))
        device.lanes.remove(lane)
        self._ray.kill(lane.actor)
        node = node_of(device.given, workers_of())
        if node is None and device.given.worker:
            self._lose(device, "its node is gone")
        else:
            device.lanes.append(open_lane(device.given, node))

    # -- sending -----------------------------------------------------------------------------------

    def _feed(self, device: Device) -> None:
        """Send what the device can take now."""
        while device.held:
            takers = device.takers
            if not takers:
                return
            entry, lane = device.held.popleft(), takers[0]
            sources = {task: self._results.source(entry.order.job, task) for task in entry.order.inputs}
            lacking = [task for task, source in sources.items() if source is None]
            if lacking:
                self._end(entry, failed(f"{LOST_RESULT}{lacking[0]}"))
                continue
            try:
                entry.result, entry.report = self._send(entry, lane, *sources.values())
            except Exception as error:  # pickling fails in many ways
                self._end(entry, failed(f"it cannot be sent: {note_of(error)}"))
                continue
            entry.state = SENT
            lane.sent.append(entry)

    def _send(self, entry: Entry, lane: RunningLane, *sources: Any) -> Any:
        order, given = entry.order, self._devices[entry.order.device].given
        folder = self._folder(order.job, order.task) if self._folder is not None else ""
        place = Place(
            str(order.job), order.task, order.attempt, given.name, given.device_class, folder, self._timeout
        )
        work = self._workload.work(order.job, order.task)
        if self._timeout is not None:
            entry.due = self._timeout + (0.0 if isinstance(work, Call) else GRACE)
        ticket = Ticket(entry.number, written(work), place, order.inputs)
        return lane.run.remote(ticket, *sources)

    # -- what comes back ---------------------------------------------------------------------------

    def _take(self, wait: float) -> None:
        """Read what lanes and calls have to say, after at most so many seconds."""
        handlers: dict[Any, tuple[Callable[..., None], tuple[Any, ...]]] = {}
        for device in self._devices.values():
            for lane in device.lanes:
                if lane.hello is not None:
                    handlers[lane.hello] = (self._greet, (device, lane))
                    continue
                handlers[lane.watch] = (self._hear, (device, lane))
                for entry in lane.sent[:1]:  # calls end in their order
                    handlers[entry.report] = (self._ended, (device, lane, entry))
        if not handlers:
            time.sleep(min(wait, LOOK))
            return
        ready, _ = self._ray.wait(list(handlers), timeout=wait)
        if ready and len(handlers) > 1:
            ready, _ = self._ray.wait(list(handlers), num_returns=len(handlers), timeout=0)
        for reference in [one for one in handlers if one in set(ready)]:
            handle, given = handlers[reference]
            if given[1] in given[0].lanes:  # else what came before has ended it
                handle(*given)

    def _hear(self, device: Device, lane: RunningLane) -> None:
        """A lane says what has begun."""
        try:
            begun = dict(self._ray.get(lane.watch))
        except self._ray.exceptions.RayError as error:
            self._lose(device, said(error))
            return
        lane.watch = lane.begun.remote()
        for entry in lane.sent:
            entry.began = begun.get(entry.number, entry.began)
        self._begin(device, lane)

    def _begin(self, device: Device, lane: RunningLane) -> None:
        """Tell that the first order of a lane has begun, if it has."""
        if not lane.sent or (entry := lane.sent[0]).began is None:
            return
        if entry.state == WITHDRAWN:
            self._replace(device, lane)
        elif entry.state == SENT:
            entry.state = RUNNING
            if entry.due is not None:
                entry.due += time.monotonic()
            self._tell(event_of(STARTED, entry, self._clock.at(entry.began - lane.offset)))
            self._feed(device)

    def _ended(self, device: Device, lane: RunningLane, entry: Entry) -> None:
        """A call has returned, in one way or another."""
        try:
            report: Report = self._ray.get(entry.report)
        except self._ray.exceptions.RayError as error:
            if is_of(error, lane):
                self._lose(device, said(error))
                return
            report = failed(self._results.reason(entry, error))
        if report.outcome == LACKING:
            report = report._replace(outcome=FAILED, note=f"{LOST_RESULT}{report.note}")
        elif report.began != NOW and entry.state == SENT:
            entry.began = report.began
            self._begin(device, lane)
        lane.sent.remove(entry)
        if entry.state != WITHDRAWN:
            self._end(entry, report, self._clock.at(report.ended - lane.offset))
        self._begin(device, lane)
        self._feed(device)

    def _stop(self, device: Device, entry: Entry, note: str) -> None:
        """End an order that was sent, unless it has ended by itself."""
        lane = next(one for one in device.lanes if entry in one.sent)
        while entry in lane.sent and self._is_ready(lane.sent[0].report):
            self._ended(device, lane, lane.sent[0])
            if lane not in device.lanes:
                return
        if entry.state == ENDED:
            return
        has_begun = entry.state == RUNNING
        self._end(entry, failed(note))
        if has_begun:
            self._replace(device, lane)
        else:
            # Told at once, though it leaves the lane only when its turn comes; if it begins, the lane is replaced.
            # Ray's own way to cancel a call can leave its lane waiting for that call for a minute.
            entry.state = WITHDRAWN
            lane.withdraw.remote(entry.number)

    def _look(self) -> None:
        """Stop what takes too long; try again to get what is lost."""
        self._looked = now = time.monotonic()
        for device in self._devices.values():
            for lane in list(device.lanes):
                entry = lane.sent[0] if lane.sent else None
                if entry is None or entry.due is None or entry.state != RUNNING or now < entry.due:
                    continue
                assert self._timeout is not None
                self._stop(device, entry, timed_out(self._timeout))
        lost = [one for one in self._devices.values() if one.is_lost and not one.lanes and now >= one.retry]
        if lost:
            self._open_lanes(lost)

    def _is_ready(self, reference: Any) -> bool:
        return bool(self._ray.wait([reference], timeout=0)[0])

    # -- telling -----------------------------------------------------------------------------------

    def _end(self, entry: Entry, report: Report, when: float = NOW) -> None:
        self._forget([entry])
        entry.is_finished = report.outcome == FINISHED
        self._tell(event_of(report.outcome, entry, when, note=report.note, size=report.size))

    def _tell(self, event: Event) -> None:
        """Clocks of machines differ a little: of one device, time does not go back, nor beyond now."""
        device = self._devices[event.device]
        device.last = max(device.last, min(event.time, self.now))
        self._news.append(event._replace(time=device.last))
