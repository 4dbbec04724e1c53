"""What a task prints, kept in files: per thread, and with all its process writes where it runs alone.

Part of what workers load: the standard library alone.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TextIO

STDOUT, STDERR = "stdout.txt", "stderr.txt"


@dataclass(frozen=True)
class Logs:
    """Where a task's output goes; None: nowhere in particular."""

    stdout: TextIO | None = None
    stderr: TextIO | None = None

    def error(self, text: str) -> None:
        """Add a traceback."""
        if self.stderr is not None:
            self.stderr.write(text)
            self.stderr.flush()


@contextlib.contextmanager
def captured(folder: str, attempt: int, device: str, *, is_alone: bool = False) -> Iterator[Logs]:
    """What this thread prints goes to files in a folder, after that of earlier attempts; no folder: nothing changes."""
    if not folder or not Path(folder).is_dir():
        yield Logs()
        return
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(_log(folder, name, attempt, device)) for name in (STDOUT, STDERR)]
        for number, (name, file) in enumerate(zip(("stdout", "stderr"), files, strict=True), start=1):
            if is_alone:
                stack.enter_context(_descriptor(number, file))
            stack.enter_context(_routed(name, file))
        yield Logs(*files)


@contextlib.contextmanager
def _log(folder: str, name: str, attempt: int, device: str) -> Iterator[TextIO]:
    # Line by line, so that what a task printed is there when its process is killed.
    with open(Path(folder, name), "a", buffering=1, encoding="utf-8", errors="backslashreplace") as file:
        if attempt > 1:
            file.write(f"--- attempt {attempt} on {device} ---\n")
        yield file


@contextlib.contextmanager
def _descriptor(number: int, file: TextIO) -> Iterator[None]:
    """Everything this process writes to a descriptor, and programs it starts, goes to the file."""
    before = os.dup(number)
    os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        os.dup2(before, number)
        os.close(before)


class _Router(io.TextIOBase):
    """A stream that writes to the file of the thread, or to the stream that was there before."""

    encoding = "utf-8"

    def __init__(self, before: TextIO | None) -> None:
        self.before = before
        self.num_users = 0
        self._own = threading.local()

    def set(self, file: TextIO | None) -> TextIO | None:
        """Where this thread writes from now on; returns where it did."""
        earlier: TextIO | None = getattr(self._own, "file", None)
        self._own.file = file
        return earlier

    @property
    def _target(self) -> TextIO | None:
        return getattr(self._own, "file", None) or self.before

    def write(self, text: str) -> int:
        return len(text) if self._target is None else self._target.write(text)

    def flush(self) -> None:
        if self._target is not None:
            self._target.flush()

    def fileno(self) -> int:
        if self._target is None:
            raise io.UnsupportedOperation("fileno")
        return self._target.fileno()

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    @property
    def buffer(self) -> IO[Any]:
        """The bytes below."""
        return getattr(self._target, "buffer")  # noqa: B009  a text stream need not have one


_lock = threading.Lock()


@contextlib.contextmanager
def _routed(name: str, file: TextIO) -> Iterator[None]:
    """``sys.stdout`` or ``sys.stderr`` of this thread is the file."""
    with _lock:
        router = getattr(sys, name)
        if not isinstance(router, _Router):
            router = _Router(router)
            setattr(sys, name, router)
        router.num_users += 1
    earlier = router.set(file)
    try:
        yield
    finally:
        router.set(earlier)
        with _lock:
            router.num_users -= 1
            if router.num_users == 0 and getattr(sys, name) is router:
                setattr(sys, name, router.before)
