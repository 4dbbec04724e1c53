"""Ends what is left of a Ray of our own when its driver is gone, however the driver ended.

Ray's own processes end with their driver, but some of its agents first try for a minute to report to a server that has
ended, too. A guard is one small process per Ray: it waits until its input is closed, which the system does for whoever
dies, then kills the processes of its Ray, and removes its folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

MARK = "WEFT_RAY"
"""In the environment of every process of a Ray of our own: the folder of that Ray."""
_ROUNDS = 20
"""How often it looks again: processes may still be starting others."""


def start(folder: Path) -> subprocess.Popen[bytes]:
    """A guard of the Ray with this folder; closing its input lets it act."""
    environment = {name: value for name, value in os.environ.items() if name != MARK}
    return subprocess.Popen(
        [sys.executable, str(Path(__file__)), str(folder), str(os.getpid())],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=environment, start_new_session=True,
    )  # fmt: skip


def marked(folder: str, driver: int) -> list[int]:
    """Processes that belong to the Ray with this folder, save its driver, who may have closed it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is somebody else's
            if int(entry.name) not in (os.getpid(), driver) and _is_of(entry, folder):
                found.append(int(entry.name))
    return found


def _is_of(entry: Path, folder: str) -> bool:
    """Whether a process carries the mark; or has a file of the folder open, where a new title took the mark's place."""
    if f"{MARK}={folder}".encode() in (entry / "environ").read_bytes().split(b"\0"):
        return True
    return any(os.readlink(one).startswith(f"{folder}/") for one in (entry / "fd").iterdir())


def main(folder: str, driver: int) -> None:
    """Wait for the end of the driver, then end what it left."""
    sys.stdin.buffer.read()
    clear = 0
    for _ in range(_ROUNDS):
        left = marked(folder, driver)
        clear = 0 if left else clear + 1
        if clear == 2:
            break
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
