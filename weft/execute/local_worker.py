"""The process of one device: takes orders through a pipe, in order, and says what happened to them.

It ends by itself when its driver is gone. Loads the standard library and what the tasks need.
"""

from __future__ import annotations

import collections
import contextlib
import os
import runpy
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from weft.execute.keeping import keep, keep_rehearsed
from weft.execute.sending import MAIN, File, NotSendable, pack, unpack
from weft.execute.work import Call, Control, Place, Rehearsal, TaskFailed, Work, carry_out, note_of
from weft.plugins import file_module

READY, BROKEN, STARTED, SPAWNED, ENDED = "ready", "broken", "started", "spawned", "ended"
RUN, STOP, FORGET, CLOSE = "run", "stop", "forget", "close"

Key = tuple[Any, str, int]
"""Job, task and attempt."""

is_loading_main = False
"""Whether this is a worker that runs the user's script to have its functions."""


class Setting(NamedTuple):
    """What a worker is told first."""

    slots: int
    files: tuple[File, ...]
    most_bytes: int
    """Of a result, to be sent."""
    held_bytes: int
    """Of own results that stay here as well."""


class Assignment(NamedTuple):
    """An order on its way to a worker; the bytes of its inputs follow."""

    key: Key
    work: bytes
    files: tuple[File, ...]
    place: Place
    slots: int
    sent: tuple[str, ...]
    """Tasks whose results follow."""
    own: tuple[str, ...]
    """Tasks whose results this worker has, or will have once they ran."""
    slowdown: tuple[tuple[float, float], ...]
    """From which moment on, by ``time.time()``, rehearsals take how much longer."""


class Ended(NamedTuple):
    """How an order went."""

    key: Key
    stamp: float
    note: str
    """Empty: well, and the bytes of its result follow."""
    is_held: bool = False
    """Whether the result stays here as well."""
    is_leaving: bool = False
    """Whether the process ends now, for that is the only way to stop what it ran."""


def main(descriptor: int) -> None:
    """Run a worker on its end of a pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Worker(Connection(descriptor)).run()


class _Running:
    """An order that was taken up."""

    def __init__(self, assignment: Assignment, control: Control) -> None:
        self.assignment = assignment
        self.control = control
        self.is_call = True
        self.is_over = False
        """Whether its end was said."""


class Worker:
    """Orders in order, as many at once as there are slots."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._setting: Setting = connection.recv()
        self._sending = threading.Lock()
        self._change = threading.Condition()
        self._lane: collections.deque[tuple[Assignment, dict[str, bytes]]] = collections.deque()
        self._running: dict[Key, _Running] = {}
        self._free = self._setting.slots
        self._held: dict[tuple[Any, str], bytes] = {}
        self._num_held = 0
        # What has just ended may be wanted by an order that is on its way.
        self._recent: collections.deque[tuple[tuple[Any, str], bytes]] = collections.deque(maxlen=8)

    def run(self) -> None:
        """Until the driver is gone, or says so."""
        # In a thread of its own: the main one may hold a lock that leaving needs.
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=self._leave, daemon=True).start())
        try:
            for name, file in self._setting.files:
                load_file(name, file)
        except BaseException as error:
            self._send((BROKEN, note_of(error)))
            return
        self._send((READY,))
        threading.Thread(target=self._receive, daemon=True).start()
        # One slot: tasks run in the main thread, which is what most libraries expect.
        for _ in range(self._setting.slots - 1):
            threading.Thread(target=self._work, daemon=True).start()
        self._work()

    # -- what the driver says ----------------------------------------------------------------------

    def _receive(self) -> None:
        try:
            while True:
                kind, *content = self._connection.recv()
                if kind == RUN:
                    self._take(*content)
                elif kind == STOP:
                    self._stop(*content)
                elif kind == FORGET:
                    self._forget(*content)
                else:
                    break
        finally:
            self._leave()

    def _take(self, assignment: Assignment) -> None:
        inputs = {task: self._connection.recv_bytes() for task in assignment.sent}
        with self._change:
            self._lane.append((assignment, inputs))
            self._change.notify_all()

    def _forget(self, job: Any) -> None:
        with self._change:
            for key in [key for key in self._held if key[0] == job]:
                self._num_held -= len(self._held.pop(key))

    def _stop(self, key: Key, note: str) -> None:
        """An order is not wanted any more: one that waits never starts; a call can only be ended with the process."""
        with self._change:
            for waiting in self._lane:
                if waiting[0].key == key:
                    self._lane.remove(waiting)
                    self._send((ENDED, Ended(key, time.time(), note)))
                    self._change.notify_all()
                    return
            running = self._running.get(key)
            if running is None or running.is_over:
                return
            running.control.stop(note)
            if running.is_call and len(self._running) == 1:
                running.is_over = True
                self._send((ENDED, Ended(key, time.time(), note, is_leaving=True)))
                self._leave()

    def _leave(self) -> None:
        """End now, with everything that tasks have started."""
        for running in list(self._running.values()):
            running.control.kill()
        with contextlib.suppress(OSError):
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(1)

    # -- orders ------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            running, inputs = self._next()
            ended, data = self._carried_out(running, inputs)
            with self._change:
                if running.is_over:
                    continue
                running.is_over = True
                if data is not None:
                    ended = ended._replace(is_held=self._hold(running.assignment.key[:2], data))
            self._send((ENDED, ended), data)
            with self._change:
                del self._running[running.assignment.key]
                self._free += self._share(running.assignment)
                self._change.notify_all()

    def _next(self) -> tuple[_Running, dict[str, bytes]]:
        """The next order, once there is room for it and its inputs are there."""
        with self._change:
            while not (self._lane and self._can_start(self._lane[0][0])):
                self._change.wait()
            assignment, inputs = self._lane.popleft()
            self._free -= self._share(assignment)
            inputs |= {task: self._own((assignment.key[0], task)) or b"" for task in assignment.own}
            control = Control(
                is_alone=self._setting.slots == 1,
                factor=_factor(assignment.slowdown),
                spawned=lambda group: self._send((SPAWNED, assignment.key, group)),
            )
            running = self._running[assignment.key] = _Running(assignment, control)
            self._send((STARTED, assignment.key, time.time()))
            return running, inputs

    def _can_start(self, assignment: Assignment) -> bool:
        job = assignment.key[0]
        has_inputs = all(self._own((job, task)) is not None for task in assignment.own)
        return has_inputs and self._share(assignment) <= self._free

    def _share(self, assignment: Assignment) -> int:
        return min(assignment.slots, self._setting.slots)

    def _carried_out(self, running: _Running, inputs: dict[str, bytes]) -> tuple[Ended, bytes | None]:
        assignment = running.assignment
        data = None
        note = ""
        try:
            work, values = _unpacked(assignment, inputs)
            running.is_call = isinstance(work, Call)
            value = carry_out(work, values, assignment.place, running.control)
            data = self._packed(value)
            _keep(work, value, assignment.place.folder)
        except TaskFailed as failure:
            note, data = str(failure), None
        except BaseException as error:
            note, data = note_of(error), None
        return Ended(assignment.key, time.time(), note), data

    def _packed(self, value: Any) -> bytes:
        try:
            data = pack(value).data
        except NotSendable as error:
            raise TaskFailed(f"its result cannot be sent: {error}") from None
        if len(data) > self._setting.most_bytes:
            raise TaskFailed(
                f"its result of {len(data)} bytes is too large to send: at most {self._setting.most_bytes} may be"
            )
        return data

    def _hold(self, key: tuple[Any, str], data: bytes) -> bool:
        self._recent.append((key, data))
        if self._num_held + len(data) > self._setting.held_bytes:
            return False
        self._num_held += len(data) - len(self._held.get(key, b""))
        self._held[key] = data
        return True

    def _own(self, key: tuple[Any, str]) -> bytes | None:
        if key in self._held:
            return self._held[key]
        return next((data for recent, data in reversed(self._recent) if recent == key), None)

    def _send(self, message: tuple[Any, ...], data: bytes | None = None) -> None:
        try:
            with self._sending:
                self._connection.send(message)
                if data is not None:
                    self._connection.send_bytes(data)
        except OSError:
            self._leave()


def _factor(slowdown: tuple[tuple[float, float], ...]) -> float:
    """How much longer a rehearsal takes that starts now."""
    now = time.time()
    past = [factor for moment, factor in slowdown if moment <= now]
    return past[-1] if past else 1.0


def _unpacked(assignment: Assignment, inputs: dict[str, bytes]) -> tuple[Work, dict[str, Any]]:
    try:
        for name, file in assignment.files:
            load_file(name, file)
        return unpack(assignment.work), {task: unpack(data) for task, data in inputs.items()}
    except BaseException as error:
        raise TaskFailed(f"cannot be unpacked by the worker: {note_of(error)}") from None


def _keep(work: Work, value: Any, folder: str) -> None:
    """A result that cannot be kept is made again when the run is resumed."""
    if not folder or not Path(folder).is_dir():
        return
    with contextlib.suppress(OSError):
        if isinstance(work, Rehearsal):
            keep_rehearsed(work.size, folder)
        else:
            keep(value, folder)


def load_file(name: str, file: str) -> None:
    """Have the module of a file of the user's, under the name it has in the driver."""
    global is_loading_main
    if name != MAIN:
        file_module(file, "functions")
        return
    if getattr(sys.modules[MAIN], "__file__", None) == file:
        return
    # As multiprocessing does it: what stands below `if __name__ == "__main__":` is not run.
    module = ModuleType("__mp_main__")
    is_loading_main = True
    try:
        module.__dict__.update(runpy.run_path(file, run_name="__mp_main__"))
    finally:
        is_loading_main = False
    sys.modules[MAIN] = sys.modules["__mp_main__"] = module
