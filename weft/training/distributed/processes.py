"""Roles as processes of this machine, each at the end of a pipe.

What a role returns is kept as bytes and handed on as bytes: it is read only by the role that is given it. A thread per pipe
and direction keeps a busy role from holding up the others. A process that ends, however it ends, closes its pipe.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

from weft.errors import InputError
from weft.training.distributed.transport import Answer, Call, Failed, Lost, Make, Part

ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Set in every process of a role: there are as many of those as cores, or more."""
_WAIT = 1.0
"""Seconds that a role has to end by itself."""


class _Bytes(NamedTuple):
    """Stands for an argument that follows as bytes."""

    number: int


class _News(NamedTuple):
    """What a thread that listens has to say."""

    role: str
    life: int
    number: int
    """Of the call; -1: the process is gone."""
    error: Exception | None
    parts: tuple[bytes, ...]


class ProcessTransport:
    """A :class:`weft.training.distributed.transport.Transport` over pipes."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._roles: dict[str, _Role] = {}
        self._news: queue.SimpleQueue[_News] = queue.SimpleQueue()
        self._calls: dict[int, Call] = {}
        self._lives: dict[int, tuple[str, int]] = {}
        self._values: dict[int, tuple[bytes, ...]] = {}
        self._gone: list[Answer] = []
        self._number = self._life = 0

    def start(self, role: str, make: Make, *given: object) -> None:
        if role in self._roles:
            self._roles.pop(role).end()
        self._life += 1
        with _environment(ONE_THREAD):
            self._roles[role] = _Role(self._context, self._news, role, self._life, (make, *given))

    def pid(self, role: str) -> int:
        """The process of a role."""
        return self._roles[role].pid

    def put(self, value: object) -> Part:
        call = Call(self._number, "", "put")
        self._number += 1
        self._values[call.number] = (bytes(ForkingPickler.dumps(value)),)
        return Part(call, 0)

    def call(self, role: str, method: str, *given: object, parts: int = 1) -> Call:
        call = Call(self._number, role, method)
        self._number += 1
        self._calls[call.number] = call
        sent = [self._values[x.call.number][x.which] for x in given if isinstance(x, Part)]
        places = iter(range(len(sent)))
        plain = tuple(_Bytes(next(places)) if isinstance(x, Part) else x for x in given)
        self._lives[call.number] = role, self._roles[role].life if role in self._roles else -1
        if role not in self._roles:
            self._gone.append(Answer(self._calls.pop(call.number), Lost(role)))
            return call
        head = bytes(ForkingPickler.dumps((call.number, method, plain, parts, len(sent))))
        self._roles[role].send((head, *sent))
        return call

    def answers(self, timeout: float | None) -> list[Answer]:
        found, self._gone = self._gone, []
        wait = 0.0 if found else timeout
        while True:
            try:
                news = self._news.get(timeout=wait) if wait != 0.0 else self._news.get_nowait()
            except queue.Empty:
                return found
            heard = self._heard(news)
            found += heard
            if heard:
                wait = 0.0

    def _heard(self, news: _News) -> list[Answer]:
        if news.number >= 0:
            call = self._calls.pop(news.number, None)
            if call is None:
                return []
            self._values[news.number] = news.parts
            return [Answer(call, news.error)]
        if news.role in self._roles and self._roles[news.role].life == news.life:
            self._roles.pop(news.role).end()
        lost = [number for number, whose in self._lives.items() if whose == (news.role, news.life)]
        left = [self._calls.pop(number, None) for number in lost]
        for number in lost:
            del self._lives[number]
        return [Answer(call, Lost(news.role)) for call in left if call is not None]

    def value(self, call: Call, which: int = 0) -> Any:
        return ForkingPickler.loads(self._values[call.number][which])

    def drop(self, call: Call) -> None:
        self._values.pop(call.number, None)
        self._lives.pop(call.number, None)

    def stop(self, role: str) -> None:
        if role in self._roles:
            self._roles.pop(role).end()
        for number in [number for number, call in self._calls.items() if call.role == role]:
            del self._calls[number]

    def close(self) -> None:
        for role in list(self._roles.values()):
            role.hang_up()
        for name in list(self._roles):
            self.stop(name)


class _Role:
    """A process, its pipe, and the threads that read and write."""

    def __init__(self, context: Any, news: queue.SimpleQueue[_News], role: str, life: int, made: Any) -> None:
        self.role, self.life, self._news = role, life, news
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, made), daemon=True, name=role)
        with _interrupts_held():
            self._process.start()
        theirs.close()
        self.pid = int(self._process.pid)
        self._outbox: queue.SimpleQueue[tuple[bytes, ...] | None] = queue.SimpleQueue()
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True, name=f"{role}-{work.__name__}").start()

    def send(self, message: tuple[bytes, ...]) -> None:
        self._outbox.put(message)

    def _write(self) -> None:
        while (message := self._outbox.get()) is not None:
            try:
                for part in message:
                    self._pipe.send_bytes(part)
            except (OSError, ValueError):  # the reader says that it is gone
                return

    def _read(self) -> None:
        try:
            while True:
                number, said, count = ForkingPickler.loads(self._pipe.recv_bytes())
                error = Failed(self.role, said) if isinstance(said, str) else said
                parts = tuple(self._pipe.recv_bytes() for _ in range(count))
                self._news.put(_News(self.role, self.life, number, error, parts))
        except (EOFError, OSError, ValueError, TypeError):  # closed at either end
            self._news.put(_News(self.role, self.life, -1, None, ()))

    def hang_up(self) -> None:
        """Let it end by itself, after what it was asked before."""
        self._outbox.put((b"",))
        self._outbox.put(None)

    def end(self) -> None:
        """Be rid of the process."""
        self.hang_up()
        self._process.join(_WAIT)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join(_WAIT)
        with suppress(OSError):
            self._pipe.close()


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits, also in what is started meanwhile until it says what it makes of it: else its imports would be interrupted."""
    resource_tracker.ensure_running()  # whose start would let them through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Connection, made: tuple[Make, Any]) -> None:
    """A role's process: calls in, answers out, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver ends us, after its last checkpoint
    role: object = None
    while True:
        try:
            head = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        if not head:
            return
        number, method, given, num_parts, count = ForkingPickler.loads(head)
        sent = [ForkingPickler.loads(pipe.recv_bytes()) for _ in range(count)]
        error: InputError | str | None = None
        parts: tuple[bytes, ...] = ()
        try:
            if role is None:
                make, *own = made
                role = make(*own)
            found = getattr(role, method)(*(sent[x.number] if isinstance(x, _Bytes) else x for x in given))
            values = found if num_parts > 1 else (found,)
            parts = tuple(bytes(ForkingPickler.dumps(one)) for one in values)
        except InputError as refused:
            error = refused
        except Exception as failure:
            error = f"{method}: {type(failure).__name__}: {failure}"[:300]
        try:
            pipe.send_bytes(bytes(ForkingPickler.dumps((number, error, len(parts)))))
            for part in parts:
                pipe.send_bytes(part)
        except OSError:
            return
