"""Whether processes are still there."""

from __future__ import annotations

import os
import time
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended; one that nobody has asked after yet has ended."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text() if Path("/proc/self/stat").exists() else ") R"
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state.rsplit(")", 1)[1].split()[0] != "Z"


def gone(pid: int, seconds: float = 5.0) -> bool:
    """Whether a process ends within this time."""
    until = time.time() + seconds
    while is_running(pid) and time.time() < until:
        time.sleep(0.02)
    return not is_running(pid)


def marked(name: str) -> list[int]:
    """Processes that have this in their environment, such as all that a marked one has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:  # it has ended, or is somebody else's
            continue
        if name.encode() in environment and is_running(int(folder.name)):
            found.append(int(folder.name))
    return found


def all_gone(name: str, seconds: float = 10.0) -> bool:
    """Whether all processes that are marked so end within this time."""
    until = time.time() + seconds
    while marked(name) and time.time() < until:
        time.sleep(0.05)
    return not marked(name)
