"""Functions that tests have workers run: a worker imports them from here by name."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import weft


def one() -> int:
    return 1


def add(*values: int) -> int:
    return sum(values)


def nap(seconds: float, value: Any = None) -> Any:
    time.sleep(seconds)
    return value


def hang() -> None:
    while True:
        time.sleep(60)


def break_down(text: str = "no luck") -> None:
    raise RuntimeError(text)


def die() -> None:
    os._exit(7)


def block(size: int) -> bytes:
    return bytes(size)


def lock() -> Any:
    return threading.Lock()


def spawn(file: str) -> None:
    """Start a program, note its number, and hang."""
    import subprocess

    process = subprocess.Popen(["sleep", "600"])
    Path(file).write_text(str(process.pid))
    time.sleep(600)


def pid() -> int:
    return os.getpid()


def thread_name() -> str:
    return threading.current_thread().name


def meet(folder: str, number: int, count: int) -> bool:
    """Whether this many tasks run at the same time."""
    Path(folder, f"here-{number}").touch()
    until = time.time() + 20
    while time.time() < until:
        if len(list(Path(folder).glob("here-*"))) == count:
            return True
        time.sleep(0.01)
    return False


@weft.task(kind="sum", work=2.0)
def total(values: list[int]) -> int:
    return sum(values)
