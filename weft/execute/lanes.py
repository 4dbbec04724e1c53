"""The driver's side of one worker process: starting it, talking to it without waiting, ending it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, Any, NamedTuple

from weft.execute.engine import Order
from weft.execute.local_worker import CLOSE, ENDED, Key, Setting
from weft.execute.sending import File
from weft.execute.work import kill_group
from weft.session.messages import Name

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from weft.execute.local_worker import main; main(int(sys.argv[1]))"
)
_QUIET = 1.0
"""Seconds after its end in which a worker's last words are waited for."""


class Device(NamedTuple):
    """A device to run a worker for."""

    name: str
    device_class: str
    slots: int = 1


@dataclass(frozen=True)
class LocalSettings:
    """How local workers run tasks."""

    folder: Callable[[Name, str], str] | None = None
    """Folder of a task of a job, for its logs and its result; None: nothing is kept."""
    slots: Callable[[Name, str], int] | None = None
    """Slots a task of a job holds; None: 1."""
    timeout: Callable[[Name, str], float | None] | float | None = None
    """Seconds after which a task is stopped and fails; None: never."""
    restart: bool = True
    """Whether a worker that has died is started again."""
    most_bytes: int = 1_000_000_000
    """Largest result that is sent; a larger one is a failed task."""
    held_bytes: int = 256_000_000
    """Bytes of its own results that a worker holds, for later tasks on the same device."""
    files: tuple[File, ...] = ()
    """Modules that workers load before they start, from ``check_sendable``."""
    slowdown: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """Device -> from which moment on, in the problem's unit of time, its rehearsals take how much longer."""

    def timeout_of(self, order: Order) -> float | None:
        """Seconds that an order may take."""
        return self.timeout(order.job, order.task) if callable(self.timeout) else self.timeout


class Message(NamedTuple):
    """Something a worker said; ``content`` is None when it is gone."""

    lane: Lane
    process: Process
    content: tuple[Any, ...] | None
    data: bytes | None = None


class Process:
    """One worker process, with a thread that listens to it and one that speaks."""

    def __init__(self, lane: Lane, setting: Setting, inbox: queue.SimpleQueue[Message]) -> None:
        self._lane = lane
        self._inbox = inbox
        self._outbox: queue.SimpleQueue[tuple[tuple[Any, ...], list[bytes]] | None] = queue.SimpleQueue()
        self._ended_at: float | None = None
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  read when the process is gone
        self._connection, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, str(theirs.fileno()), json.dumps(sys.path)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                start_new_session=True,
            )
        self.groups: dict[Key, int] = {}
        """Process groups of commands that run."""
        self.say(setting)
        self._threads = [
            threading.Thread(target=target, daemon=True, name=f"weft-{lane.device.name}")
            for target in (self._listen, self._speak)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """Its number, and that of its process group."""
        return self._process.pid

    def say(self, message: tuple[Any, ...], blobs: list[bytes] | None = None) -> None:
        """Tell it something, without waiting until it listens."""
        self._outbox.put((message, blobs or []))

    def _speak(self) -> None:
        with contextlib.suppress(OSError):
            while (said := self._outbox.get()) is not None:
                message, blobs = said
                self._connection.send(message)
                for data in blobs:
                    self._connection.send_bytes(data)

    def _listen(self) -> None:
        try:
            while True:
                content = self._connection.recv()
                has_data = content[0] == ENDED and not content[1].note
                data = self._connection.recv_bytes() if has_data else None
                self._inbox.put(Message(self._lane, self, content, data))
        except (OSError, EOFError):
            self._inbox.put(Message(self._lane, self, None))

    def watch(self) -> None:
        """A process may be gone while another that it started holds its end of the pipe: hang up then."""
        if self._ended_at is None:
            if self._process.poll() is not None:
                self._ended_at = time.monotonic()
        elif time.monotonic() - self._ended_at > _QUIET:
            _hang_up(self._connection)

    def kill(self) -> None:
        """End it and everything it runs at once."""
        for group in (self.pid, *self.groups.values()):
            kill_group(group, signal.SIGKILL)

    def ask_to_end(self) -> None:
        """Say that it should end, by the pipe and by signal."""
        self.say((CLOSE,))
        if self._process.poll() is None:
            kill_group(self.pid, signal.SIGTERM)

    def has_ended(self, seconds: float) -> bool:
        """Whether it ends within this time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(seconds, 0.0))
        return self._process.returncode is not None

    def clear_away(self) -> str:
        """End what is left of it; returns how it ended."""
        self.kill()
        self._process.wait()
        self._outbox.put(None)
        _hang_up(self._connection)
        for thread in self._threads:
            thread.join(1.0)
        self._connection.close()
        with self._errors as file:
            file.seek(0)
            last = file.read()[-2000:].decode("utf-8", "replace").strip().rpartition("\n")[2]
        code = self._process.returncode
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}{last and f': {last}'}"


def _hang_up(connection: Connection) -> None:
    """Wake whoever listens."""
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


@dataclass
class Lane:
    """One device: its process, and the orders it was given."""

    device: Device
    process: Process | None = None
    is_ready: bool = False
    is_lost: bool = False
    orders: dict[Key, Order] = field(default_factory=dict)
    """In the order in which they start."""
    started: dict[Key, float] = field(default_factory=dict)
    """Moment on the driver's clock."""
    held: set[tuple[Any, str]] = field(default_factory=set)
    """Results that the process has itself."""
    doomed: dict[Key, str] = field(default_factory=dict)
    """Orders that were told to stop, with the note they fail with."""
    deadlines: dict[Key, float] = field(default_factory=dict)
    """When, by ``time.monotonic()``, something is done about an order that still runs."""
    is_leaving: bool = False
    """Whether the process ends on purpose, to start again."""
    num_deaths: int = 0
    """In a row, without an order that ended in between."""
    restart_at: float = math.inf
    """When, by ``time.monotonic()``, a process that is gone is started again."""
    last: float = 0.0
    """Time of its last event."""

    def reset(self) -> None:
        """The process is gone."""
        self.process = None
        self.is_ready = self.is_leaving = False
        self.held.clear()
        self.started.clear()
        self.doomed.clear()
        self.deadlines.clear()

    def end(self, key: Key) -> Order | None:
        """Forget an order that has ended."""
        for table in (self.started, self.doomed, self.deadlines):
            table.pop(key, None)
        if self.process is not None:
            self.process.groups.pop(key, None)
        return self.orders.pop(key, None)
