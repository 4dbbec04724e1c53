"""Folders that one process fills over time: claimed when empty, held by a lock, refused when somebody else filled them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.errors import InputError, LockedError
from weft.io.sources import writing

LOCK = "lock"
MARKS = {
    "sweep.sqlite": ("sweep",),
    "checkpoints": ("training run",),
    "stress.json": ("search",),
    "run.json": ("run", "run of agents"),
}
"""What tells that a folder is in use, and by which kinds of folder."""


def claim(folder: str | Path, noun: str, mark: str) -> Path:
    """The folder, made if it is not there; one that holds other things and no ``mark``, or another kind's, is refused."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        found = sorted(entry.name for entry in path.iterdir())
    except OSError as error:
        raise InputError(f"expected a folder for the {noun}: {error.strerror}", file=str(folder)) from None
    if found and LOCK not in found and mark not in found:
        raise InputError(
            f"expected an empty folder or a {noun}, found {found[0]!r} and no {mark}", file=str(folder)
        )
    for other, kinds in MARKS.items():
        if other in found and noun not in kinds:
            raise InputError(
                f"expected an empty folder or a {noun}, found a {kinds[0]} ({other})", file=str(folder)
            )
    return path


@contextmanager
def locked(folder: Path, doing: str) -> Iterator[None]:
    """Hold the folder; the lock of a process that died is free by itself.

    ``doing`` says what the holder does, as in ``running this sweep``.
    """
    import fcntl

    with open(folder / LOCK, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise LockedError(f"process {holder} is {doing}", file=str(folder)) from None
        with writing(folder / LOCK):
            os.ftruncate(file.fileno(), 0)
            os.write(file.fileno(), f"{os.getpid()}\n".encode())  # unbuffered: closing must not try again
        yield
