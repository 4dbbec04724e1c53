"""Tasks on Dask distributed: one Dask task per order, bound softly to its worker, strictly in order.

Workers speak under a topic of Dask's event log, the scheduler says there when workers come or go, and all of it
goes through one inbox: what the engine knows is changed by the thread that uses it alone.
"""

from __future__ import annotations

import queue
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from weft.errors import InputError, WeftError
from weft.execute import dask_worker as spoken
from weft.execute.dask_connect import Connection as Connection
from weft.execute.dask_connect import DaskWorker as DaskWorker
from weft.execute.dask_connect import LocalWorker as LocalWorker
from weft.execute.dask_connect import connect as connect
from weft.execute.dask_connect import workers_in
from weft.execute.dask_connect import workers_of as workers_of
from weft.execute.dask_link import Link, offset_of
from weft.execute.dask_orders import (
    ENDED,
    HELD,
    RUNNING,
    SENT,
    Device,
    Entry,
    event_of,
    refuse_slots,
    worker_of,
)
from weft.execute.dask_orders import DaskDevice as DaskDevice
from weft.execute.dask_results import Lacking, Results
from weft.execute.dask_scheduler import WORKERS
from weft.execute.dask_worker import Ticket, run_order
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
from weft.execute.work import Place, Workload, note_of, timed_out
from weft.session.messages import Name

POLL, LOOK = 0.5, 0.25
"""Seconds between two looks at the workers, and at what became of futures."""
STUCK = 5.0
"""Seconds after which a task that its free device does not start is given back."""
GRACE = 1.0
"""Seconds that a command may take to end once it was told to."""
MOST_MOVES = 20
"""How often a task is sent again that Dask moved though its worker is there."""


class DaskEngine:
    """Devices that are workers of a Dask cluster.

    Parameters
    ----------
    client
        Of ``distributed``; synchronous. The engine leaves it open.
    devices
        Names, classes and slots, and the worker of each by name or address.
    workload
        What the tasks do.
    seconds_per_unit
        How long the problem's unit of time is.
    folder
        Where the logs and results of a task of a job are kept, on machines that have that folder.
    elapsed
        Units of time that have passed in a run that goes on.
    timeout
        Seconds after which a task fails. A command is stopped; for a call, its worker is started anew.
    """

    name = "dask"
    is_live = True
    waits_for_inputs = True

    def __init__(
        self,
        client: Any,
        devices: Sequence[DaskDevice | tuple[str, str, int, str]],
        workload: Workload,
        *,
        seconds_per_unit: float = 1.0,
        folder: Callable[[Name, str], str] | None = None,
        elapsed: float = 0.0,
        timeout: float | None = None,
    ) -> None:
        self._client, self._workload, self._folder, self._timeout = client, workload, folder, timeout
        self._devices = {one.name: Device(one) for one in (DaskDevice(*given) for given in devices)}
        if len(self._devices) != len(devices):
            raise InputError("two devices have one name", field="devices")
        self._unit, self._elapsed = seconds_per_unit, elapsed
        self._clock = WallClock(seconds_per_unit, elapsed)
        self._topic = f"weft-{uuid.uuid4().hex[:12]}"
        self._link = Link(client, self._topic)
        self._entries: dict[tuple[Name, str, int], Entry] = {}
        self._numbered: list[Entry] = []
        self._results = Results(client, folder)
        self._news: list[Event] = []
        self.is_stealing_off = False
        """Whether Dask moves nothing by itself."""
        self._looked = self._polled = 0.0
        self._is_polling = self._is_open = False

    # -- the interface -----------------------------------------------------------------------------

    def start(self) -> None:
        """Get ready to take orders; the clock is 0 from now on."""
        self._is_open = True
        self.is_stealing_off = self._link.open()
        found = workers_of(self._client)
        for device in self._devices.values():
            worker = worker_of(device, found)
            if worker is None:
                self._tell(LOST, device, self._elapsed, note=f"there is no worker {device.given.worker!r}")
                continue
            refuse_slots(device.given, worker)
            try:
                device.offset = offset_of(self._link.pings(worker.address))
            except Exception as error:  # it died just now
                self._tell(LOST, device, self._elapsed, note=f"it does not answer: {note_of(error)}")
                continue
            device.worker = worker
        self._clock = WallClock(self._unit, self._elapsed)

    @property
    def now(self) -> float:
        """Time since the start, in the problem's unit of time."""
        return self._clock.now

    def submit(self, order: Order) -> None:
        """Have a device run a task, after what it was given before."""
        device = self._devices[order.device]
        entry = Entry(order, len(self._numbered), device)
        self._numbered.append(entry)
        self._entries[order.key] = entry
        self._results.expect(entry)
        device.held.append(entry)
        self._pump(device)

    def events(self, until: float | None) -> list[Event]:
        """What has happened since the last call, in order."""
        wait = LOOK if until is None else min(LOOK, self._clock.seconds(until - self.now))
        self._look()
        if not self._news:
            self._take(max(0.0, wait))
        while not self._link.inbox.empty():
            self._take(0.0)
        # As they were heard: the scheduler hears of an end before it lets what waits for it start elsewhere, whatever
        # clocks say.
        news, self._news = self._news, []
        return news

    def cancel(self, order: Order) -> None:
        """This order is not wanted any more; a call that runs cannot be stopped on Dask and ends by itself."""
        entry = self._entries[order.key]
        if entry.state == HELD:
            entry.device.held.remove(entry)
            self._end(entry, FAILED, self.now, note=CANCELLED)
        elif entry.state != ENDED and entry.device.worker is not None:
            self._link.withdraw(entry, entry.device.worker.address, entry.number)

    def release(self, job: Name, task: str | None = None) -> None:
        """The result of a task, or of all tasks of a job, is not needed any more."""
        self._results.release(job, task)

    def result(self, job: Name, task: str) -> Any:
        """What a finished task has returned."""
        return self._results.value(job, task)

    def close(self) -> None:
        """Let go of everything; on a cluster of others, what runs there comes to its end."""
        if not self._is_open:
            return
        self._is_open = False
        for entry in self._numbered:
            entry.future = None
        self._results.clear()
        self._link.close()

    # -- sending -----------------------------------------------------------------------------------

    def _pump(self, device: Device) -> None:
        """Send what the device can take now."""
        while device.held and device.can_take:
            entry = device.held.pop(0)
            device.sent.append(entry)
            entry.state, entry.since, entry.silent = SENT, time.monotonic(), 0.0
            assert device.worker is not None
            try:
                entry.future = self._send(entry, device.worker.address)
            except Lacking as lacking:
                self._end(entry, FAILED, self.now, note=f"{LOST_RESULT}{lacking}")
            except Exception as error:  # serialisation fails in many ways
                self._end(entry, FAILED, self.now, note=f"it cannot be sent: {note_of(error)}")

    def _send(self, entry: Entry, address: str) -> Any:
        order, given = entry.order, entry.device.given
        futures = [self._results.future(order.job, task) for task in order.inputs]
        folder = self._folder(order.job, order.task) if self._folder is not None else ""
        place = Place(
            str(order.job), order.task, order.attempt, given.name, given.device_class, folder, self._timeout
        )
        work = spoken.written(self._workload.work(order.job, order.task))
        return self._client.submit(
            run_order,
            Ticket(entry.number, self._topic, address, work, place, order.inputs),
            *futures,
            # One group of tasks for all: Dask looks through all groups at every submission.
            key=(self._topic, order.job, order.task, entry.number, entry.moves),
            workers=[address],
            allow_other_workers=True,
            priority=-order.sequence,
            pure=False,
            retries=0,
        )

    # -- hearing -----------------------------------------------------------------------------------

    def _take(self, wait: float) -> None:
        """Act on one message."""
        try:
            kind, what, answer = self._link.inbox.get(timeout=wait) if wait else self._link.inbox.get_nowait()
        except queue.Empty:
            return
        if kind == "said" and what["what"] == WORKERS:
            self._part(what["gone"])
        elif kind == "said":
            self._hear(self._numbered[what["number"]], what)
        elif kind == "workers":
            self._is_polling = False
            if not isinstance(answer, Exception):
                self._meet(workers_in(answer))
        elif kind == "clocks":
            self._join(what, answer)
        elif kind == "withdrawn" and answer is True and what.state == SENT:
            self._end(what, FAILED, self.now, note=CANCELLED)
        elif kind == "stuck" and what.state == SENT:
            what.is_asked, what.since = False, time.monotonic()
            if isinstance(answer, str) and answer:
                self._end(what, FAILED, self.now, note=f"not started by Dask, which holds it as {answer!r}")

    def _hear(self, entry: Entry, message: dict[str, Any]) -> None:
        """A worker speaks of an order."""
        what, device = message["what"], entry.device
        when = self._clock.at(message["time"] - device.offset)
        is_here = device.worker is not None and message["worker"] == device.worker.address
        if entry.state == ENDED:
            self._hear_late(entry, message)
        elif not is_here and what != spoken.REFUSED:
            return  # of a worker that is about to be lost
        elif what == STARTED:
            self._begin(entry, when)
        elif what == FINISHED:
            self._end(entry, FINISHED, when, size=message["size"])
        elif what == FAILED:
            self._end(entry, FAILED, when, note=message["note"])
        else:
            self._refused(entry, message)

    def _hear_late(self, entry: Entry, message: dict[str, Any]) -> None:
        """An order that has ended is spoken of."""
        if message["what"] == spoken.REFUSED:
            entry.future = None  # its result went down with its worker, and Dask has tried to make it again
        elif message["what"] in (FINISHED, FAILED):
            when = self._clock.at(message["time"] - entry.device.offset)
            self._news.append(event_of(message["what"], when, entry, note="nobody waited for it any more"))

    def _refused(self, entry: Entry, message: dict[str, Any]) -> None:
        reason = message["reason"]
        if reason == spoken.ELSEWHERE and entry.moves < MOST_MOVES:
            # Its worker died, which the next look at the workers will show, or takes nothing for a while.
            self._polled = 0.0
            if entry.state == SENT:
                entry.moves += 1
                entry.device.sent.remove(entry)
                entry.device.held = sorted([entry, *entry.device.held], key=lambda one: one.order.sequence)
                entry.state, entry.future = HELD, None
            return
        note = CANCELLED if reason == spoken.WITHDRAWN else message["note"]
        if reason == spoken.NO_INPUT:
            note = self._note_lacking(entry, message["lacking"]) or note
        self._end(entry, FAILED, self.now, note=note)

    def _note_lacking(self, entry: Entry, tasks: list[str]) -> str:
        """Which result is gone though its task had ended well; empty: the task has failed."""
        gone = [task for task in tasks if self._results.lose(entry.order.job, task)]
        return f"{LOST_RESULT}{gone[0]}" if gone else ""

    def _begin(self, entry: Entry, when: float) -> None:
        if entry.state == SENT:
            entry.state, entry.since = RUNNING, time.monotonic()
            self._news.append(event_of(STARTED, when, entry))
            self._pump(entry.device)

    def _end(
        self, entry: Entry, kind: str, when: float, *, note: str = "", size: float | None = None
    ) -> None:
        """The one end of an order."""
        device = entry.device
        if entry in device.sent:
            device.sent.remove(entry)
        entry.state, entry.is_done = ENDED, kind == FINISHED
        if kind != FINISHED:
            entry.future = None  # Dask forgets it, unless it runs: then once it has ended
        self._news.append(event_of(kind, when, entry, note=note, size=size))
        self._pump(device)

    # -- workers -----------------------------------------------------------------------------------

    def _meet(self, found: list[DaskWorker]) -> None:
        """Compare the workers that are there with those that were."""
        for device in self._devices.values():
            worker = worker_of(device, found)
            if device.worker is not None and (worker is None or worker.address != device.worker.address):
                self._lose(device)
            if worker is not None and device.worker is None and device.coming != worker.address:
                device.coming = worker.address
                self._link.ask_clock((device, worker), worker.address)

    def _part(self, address: str) -> None:
        """A worker is gone, if an address is given; in any case others may be there now."""
        for device in self._devices.values():
            if device.worker is not None and device.worker.address == address:
                self._lose(device)
        self._polled = 0.0
        self._look()

    def _lose(self, device: Device) -> None:
        """All that a device was given ends with it."""
        assert device.worker is not None
        note = f"worker {device.worker.name} at {device.worker.address} is gone"
        device.worker, device.coming = None, ""
        for entry in (*device.sent, *device.held):
            entry.state, entry.future = ENDED, None
        device.sent, device.held = [], []
        self._results.drop_lost()
        self._tell(LOST, device, self.now, note=note)

    def _join(self, which: tuple[Device, DaskWorker], answer: Any) -> None:
        device, worker = which
        if device.coming != worker.address:
            return
        device.coming = ""
        if isinstance(answer, Exception):
            return  # it is met again as long as it is there
        device.offset, device.worker = offset_of(answer), worker
        self._tell(JOINED, device, self.now, note=f"worker {worker.name} at {worker.address}")
        self._pump(device)

    # -- looking after -----------------------------------------------------------------------------

    def _look(self) -> None:
        """Ask for the workers, see to futures that ended without a word, and to tasks that nobody starts."""
        now = time.monotonic()
        if self._client.status in ("closed", "closing"):
            raise WeftError("the Dask scheduler does not answer any more")
        if now - self._polled >= POLL and not self._is_polling:
            self._polled, self._is_polling = now, True
            self._link.ask_workers()
        if now - self._looked < LOOK:
            return
        self._looked = now
        for device in self._devices.values():
            self._pump(device)
            for entry in [*device.sent]:
                self._look_at(entry, now)

    def _look_at(self, entry: Entry, now: float) -> None:
        status, device = entry.future.status, entry.device
        if status == "pending":
            if entry.state == RUNNING:
                self._end_late(entry, now)
            elif device.num_running >= device.given.slots:
                entry.since = now
            elif now - entry.since > STUCK and not entry.is_asked:
                entry.is_asked = True
                self._link.ask_stuck(entry, entry.future.key)
        elif not entry.silent:
            entry.silent = now
        elif now - entry.silent > 2 * POLL:  # time for a word of the worker, or of its death
            error = entry.future.exception() if status == "error" else None
            note = note_of(error) if error is not None else f"{status} on Dask without a word of its worker"
            self._end(entry, FAILED, self.now, note=note)

    def _end_late(self, entry: Entry, now: float) -> None:
        """Fail what runs for too long; the worker of a call that does not end has to go with it."""
        worker, limit = entry.device.worker, self._timeout
        if limit is not None and worker is not None and now - entry.since > limit + GRACE:
            self._link.restart(entry, worker.address)
            self._end(entry, FAILED, self.now, note=timed_out(limit))

    def _tell(self, kind: str, device: Device, when: float, note: str) -> None:
        self._news.append(Event(kind, when, device.given.name, note=note))
