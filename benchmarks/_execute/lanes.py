"""The same command several times side by side, each with its share of the runs, on a machine with cores to spare."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence


def side_by_side(commands: Sequence[Sequence[str]]) -> list[int]:
    """Run modules of this Python at once, their output line by line with a number before it; their exit codes."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for command in commands
    ]
    readers = [threading.Thread(target=_copy, args=(k, one)) for k, one in enumerate(started)]
    try:
        for reader in readers:
            reader.start()
        return [one.wait() for one in started]
    except BaseException:
        for one in started:
            one.terminate()
        raise
    finally:
        for reader in readers:
            reader.join()


def _copy(number: int, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        print(f"{number}| {line.rstrip()}", flush=True)


def lane_of(text: str) -> tuple[int, int]:
    """``2/4``: the third of four."""
    number, _, count = text.partition("/")
    if not (number.isdigit() and count.isdigit() and int(number) < int(count)):
        raise ValueError(text)
    return int(number), int(count)
