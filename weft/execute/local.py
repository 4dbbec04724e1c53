"""Tasks on this machine: one worker process per device, which runs its orders in order.

A device with several slots runs its tasks in threads of one process: functions that hold Python's lock
take turns there, commands and libraries that release it do not. Results come to the driver as bytes
and go on as bytes; the driver never unpacks them. What a worker's death takes with it is only what ran there.
"""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from weft.errors import InputError
from weft.execute import local_worker
from weft.execute.engine import (
    CANCELLED,
    FAILED,
    FINISHED,
    JOINED,
    LOST,
    LOST_RESULT,
    STARTED,
    Event,
    Order,
    WallClock,
)
from weft.execute.lanes import Device as Device
from weft.execute.lanes import Lane, Message, Process
from weft.execute.lanes import LocalSettings as LocalSettings
from weft.execute.local_worker import Assignment, Ended, Key, Setting
from weft.execute.sending import NotSendable, pack, unpack
from weft.execute.work import GRACE, Place, Workload, timed_out
from weft.session.messages import Name

if TYPE_CHECKING:
    from weft.model.cluster import Cluster

_LONGEST_WAIT = 1.0
_LONGEST_START = 60.0
_MOST_DEATHS = 3
"""A worker that dies more often in a row, with nothing done in between, is started again after a while only."""
_LONGEST_PAUSE = 30.0


def _pause(num_deaths: int) -> float:
    """Seconds before a worker is started again."""
    return min(2.0 ** (num_deaths - _MOST_DEATHS), _LONGEST_PAUSE) if num_deaths > _MOST_DEATHS else 0.0


def devices_of(cluster: Cluster) -> list[Device]:
    """The devices of a cluster, to run a worker for each."""
    classes = [cluster.classes[c] for c in cluster.device_class.tolist()]
    return [
        Device(name, one.name, one.slots) for name, one in zip(cluster.device_names, classes, strict=True)
    ]


class LocalEngine:
    """An engine of worker processes on this machine.

    Parameters
    ----------
    seconds_per_unit
        Seconds in the problem's unit of time.
    elapsed
        What the clock shows at the start, for a run that goes on.
    """

    name = "local"
    is_live = True
    waits_for_inputs = False

    def __init__(
        self,
        devices: Iterable[Device],
        workload: Workload,
        settings: LocalSettings | None = None,
        *,
        seconds_per_unit: float = 1.0,
        elapsed: float = 0.0,
    ) -> None:
        self._lanes = {device.name: Lane(device) for device in devices}
        self._workload = workload
        self._settings = settings or LocalSettings()
        self._unit = seconds_per_unit
        self._elapsed = elapsed
        self._clock = WallClock(seconds_per_unit, elapsed)
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._results: dict[tuple[Name, str], bytes] = {}
        self._pending: list[Event] = []
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def now(self) -> float:
        """Time since the start, in the problem's unit of time."""
        return self._clock.now

    @property
    def pids(self) -> dict[str, int]:
        """Process of every device that has one."""
        return {name: lane.process.pid for name, lane in self._lanes.items() if lane.process is not None}

    def start(self, results: Mapping[tuple[Name, str], Any] | None = None) -> None:
        """Start the workers and wait until they are ready; ``results`` are those of tasks done before, by job and task."""
        if local_worker.is_loading_main:
            raise InputError(
                "a worker runs this script, too: put what starts it below if __name__ == '__main__'"
            )
        for key, value in (results or {}).items():
            self._results[key] = pack(value).data
        try:
            for lane in self._lanes.values():
                self._spawn(lane)
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise
        self._clock = WallClock(self._unit, self._elapsed)

    def result(self, job: Name, task: str) -> Any:
        """The result of a task that has finished, unpacked here."""
        return unpack(self._results[job, task])

    def release(self, job: Name) -> None:
        """Let go of the results of a job."""
        for key in [key for key in self._results if key[0] == job]:
            del self._results[key]
        for lane in self._lanes.values():
            lane.held = {key for key in lane.held if key[0] != job}
            if lane.process is not None:
                lane.process.say((local_worker.FORGET, job))

    def submit(self, order: Order) -> None:
        """Have a device run a task after what it was given before."""
        if order.device not in self._lanes:
            raise InputError(
                f"expected one of {', '.join(self._lanes)}, got {order.device!r}", field="device"
            )
        lane = self._lanes[order.device]
        if lane.is_lost:
            self._tell(lane, FAILED, order, note="its device is not there")
            return
        lane.orders[order.key] = order
        if lane.is_ready:
            self._assign(lane, order)

    def cancel(self, order: Order) -> None:
        """This order is not wanted any more; a running function is ended with its process, if nothing else runs there."""
        lane = self._lanes[order.device]
        if order.key in lane.orders:
            self._stop(lane, order.key, CANCELLED)

    def events(self, until: float | None) -> list[Event]:
        """What has happened since the last call; returns after a second at the latest."""
        began = time.monotonic()
        while True:
            left = _LONGEST_WAIT - (time.monotonic() - began)
            if until is not None:
                left = min(left, self._clock.seconds(until - self.now))
            self._receive(0.0 if self._pending else max(0.0, min(left, self._next_deadline())))
            self._watch()
            if self._pending or left <= 0:
                happened, self._pending = self._pending, []
                return sorted(happened, key=lambda event: event.time)

    def close(self) -> None:
        """End all workers with what they run; results are gone."""
        if self._is_closed:
            return
        self._is_closed = True
        processes = [lane.process for lane in self._lanes.values() if lane.process is not None]
        for process in processes:
            process.ask_to_end()
        deadline = time.monotonic() + GRACE
        for process in processes:
            process.has_ended(deadline - time.monotonic())
        for process in processes:
            process.clear_away()
        for lane in self._lanes.values():
            lane.reset()
            lane.is_lost = True
        self._results.clear()

    # -- workers -----------------------------------------------------------------------------------

    def _spawn(self, lane: Lane) -> None:
        settings = self._settings
        setting = Setting(lane.device.slots, settings.files, settings.most_bytes, settings.held_bytes)
        lane.restart_at = math.inf
        lane.process = Process(lane, setting, self._inbox)

    def _wait_until_ready(self) -> None:
        until = time.monotonic() + _LONGEST_START
        while waiting := [lane for lane in self._lanes.values() if not lane.is_ready]:
            if self._pending or time.monotonic() > until:
                lost = [event for event in self._pending if event.kind == LOST]
                name = lost[0].device if lost else waiting[0].device.name
                why = lost[0].note if lost else f"not ready after {_LONGEST_START:g} s"
                raise InputError(f"its worker did not start: {why}", field=name)
            self._receive(0.1)
            self._watch()

    def _receive(self, seconds: float) -> None:
        """Take in what workers say, waiting this long for the first of it."""
        try:
            message = self._inbox.get(timeout=seconds) if seconds > 0 else self._inbox.get_nowait()
            while True:
                if message.process is message.lane.process:
                    self._heed(message)
                message = self._inbox.get_nowait()
        except queue.Empty:
            pass

    def _heed(self, message: Message) -> None:
        lane = message.lane
        if message.content is None:
            self._gone(lane)
            return
        kind, *content = message.content
        if kind == local_worker.READY:
            self._ready(lane)
        elif kind == local_worker.BROKEN:
            self._gone(lane, content[0])
            lane.restart_at = math.inf  # it would not load its files the next time either
        elif kind == local_worker.STARTED:
            self._started(lane, *content)
        elif kind == local_worker.SPAWNED:
            message.process.groups[content[0]] = content[1]
        else:
            self._ended(lane, content[0], message.data)

    def _ready(self, lane: Lane) -> None:
        lane.is_ready = True
        if lane.is_lost:
            lane.is_lost = False
            self._tell(lane, JOINED)
        for order in list(lane.orders.values()):
            self._assign(lane, order)

    def _gone(self, lane: Lane, why: str = "") -> None:
        """A worker has ended. What had not started there waits for the next one, if it was stopped on purpose."""
        doomed, started = dict(lane.doomed), [key for key in lane.started if key not in lane.doomed]
        was_asked = lane.is_leaving or any(key in lane.started for key in doomed)
        note = lane.process.clear_away() if lane.process is not None else ""
        lane.reset()
        for key, reason in doomed.items():
            order = lane.end(key)
            if order is not None:
                self._tell(lane, FAILED, order, note=reason)
        if not was_asked or started:
            lane.num_deaths += 1
            lane.orders.clear()
            if not lane.is_lost:
                self._tell(lane, LOST, note=why or note)
            lane.is_lost = True
        if was_asked or self._settings.restart:
            lane.restart_at = time.monotonic() + _pause(lane.num_deaths)

    def _watch(self) -> None:
        """Stop orders that take too long, and workers that do not stop them."""
        now = time.monotonic()
        for lane in self._lanes.values():
            if lane.process is not None:
                lane.process.watch()
            elif lane.restart_at <= now:
                self._spawn(lane)
            for key in [key for key, moment in lane.deadlines.items() if moment <= now]:
                del lane.deadlines[key]
                limit = self._settings.timeout_of(lane.orders[key])
                if key not in lane.doomed and limit is not None:
                    self._stop(lane, key, timed_out(limit))
                elif key in lane.started and (lane.doomed[key] != CANCELLED or len(lane.started) == 1):
                    # Others that run there are lost with it; a cancelled one is not worth that.
                    self._kill(lane)

    def _kill(self, lane: Lane) -> None:
        if lane.process is not None:
            lane.process.kill()

    def _next_deadline(self) -> float:
        """Seconds until an order must be looked after."""
        moments = [moment for lane in self._lanes.values() for moment in lane.deadlines.values()]
        return max(0.0, min(moments) - time.monotonic()) if moments else _LONGEST_WAIT

    # -- orders ------------------------------------------------------------------------------------

    def _assign(self, lane: Lane, order: Order) -> None:
        """Send an order with those of its inputs that the worker does not have or will not have made itself."""
        try:
            assignment, blobs = self._assignment(lane, order)
        except NotSendable as error:
            lane.end(order.key)
            self._tell(lane, FAILED, order, note=str(error))
            return
        if lane.process is not None:
            lane.process.say((local_worker.RUN, assignment), blobs)

    def _assignment(self, lane: Lane, order: Order) -> tuple[Assignment, list[bytes]]:
        work, files = pack(self._workload.work(order.job, order.task))
        before = {(other.job, other.task) for other in lane.orders.values() if other is not order}
        sent: list[str] = []
        for task in order.inputs:
            key = (order.job, task)
            if key in self._results and key not in lane.held:
                sent.append(task)
            elif key not in self._results and key not in before:
                raise NotSendable(f"{LOST_RESULT}{task}")
        settings, device = self._settings, lane.device
        place = Place(
            str(order.job),
            order.task,
            order.attempt,
            device.name,
            device.device_class,
            settings.folder(order.job, order.task) if settings.folder is not None else "",
            settings.timeout_of(order),
        )
        slots = settings.slots(order.job, order.task) if settings.slots is not None else 1
        own = tuple(task for task in order.inputs if task not in sent)
        slowdown = tuple((self._stamp(at), factor) for at, factor in settings.slowdown.get(device.name, ()))
        assignment = Assignment(order.key, work, files, place, slots, tuple(sent), own, slowdown)
        return assignment, [self._results[order.job, task] for task in sent]

    def _stamp(self, moment: float) -> float:
        """A moment of the engine's clock by ``time.time()``."""
        return time.time() + self._clock.seconds(moment - self.now)

    def _started(self, lane: Lane, key: Key, stamp: float) -> None:
        order = lane.orders.get(key)
        if order is None:
            return
        lane.started[key] = stamp
        limit = self._settings.timeout_of(order)
        if limit is not None and key not in lane.doomed:
            lane.deadlines[key] = time.monotonic() + max(0.0, limit - (time.time() - stamp))
        self._tell(lane, STARTED, order, stamp)

    def _ended(self, lane: Lane, ended: Ended, data: bytes | None) -> None:
        lane.is_leaving = lane.is_leaving or ended.is_leaving
        order = lane.end(ended.key)
        if order is None:
            return
        lane.num_deaths = 0
        if data is None:
            self._tell(lane, FAILED, order, ended.stamp, note=ended.note)
            self._stop_children(lane, order)
            return
        key = (order.job, order.task)
        self._results[key] = data
        if ended.is_held:
            lane.held.add(key)
        self._tell(lane, FINISHED, order, ended.stamp, size=float(len(data)))

    def _stop_children(self, lane: Lane, failed: Order) -> None:
        """Orders that wait in the same lane for a result that will not come would keep the lane waiting."""
        for key, order in list(lane.orders.items()):
            if order.job == failed.job and failed.task in order.inputs and key not in lane.started:
                self._stop(lane, key, f"its input {failed.task!r} has failed")

    def _stop(self, lane: Lane, key: Key, note: str) -> None:
        lane.doomed.setdefault(key, note)
        if lane.process is None or not lane.is_ready:
            order = lane.end(key)
            if order is not None:
                self._tell(lane, FAILED, order, note=note)
            return
        lane.process.say((local_worker.STOP, key, note))
        lane.deadlines[key] = time.monotonic() + 2 * GRACE

    def _tell(
        self,
        lane: Lane,
        kind: str,
        order: Order | None = None,
        stamp: float | None = None,
        *,
        note: str = "",
        size: float | None = None,
    ) -> None:
        """Add an event; those of one device never go back in time."""
        moment = self.now if stamp is None else self._clock.at(stamp)
        lane.last = max(lane.last, moment)
        event = Event(kind, lane.last, lane.device.name, note=note, size=size)
        if order is not None:
            event = event._replace(job=order.job, task=order.task, attempt=order.attempt)
        self._pending.append(event)
