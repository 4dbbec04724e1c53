"""Append-only journals: one JSON object a line, handed to the system before anybody is answered."""

from __future__ import annotations

import json
import os
from pathlib import Path

from weft.errors import InputError
from weft.execute.agents.tasks import Message


def read_lines(path: Path) -> list[Message]:
    """All whole lines; one that was cut off while it was written was never answered, and is left out."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    found = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise InputError("expected a JSON object", file=str(path), line=number)
        found.append(row)
    return found


class Journal:
    """A journal that is written to."""

    def __init__(self, path: Path) -> None:
        self.lines = read_lines(path)
        """What it held when it was opened."""
        content = path.read_bytes() if path.exists() else b""
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115  held until the process ends
        os.truncate(path, content.rfind(b"\n") + 1)

    def append(self, lines: list[Message]) -> None:
        """Write lines down; they outlive this process, though not a loss of power."""
        if lines:
            text = "".join(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n" for line in lines)
            self._file.write(text.encode())

    def close(self) -> None:
        """Let the file go."""
        self._file.close()
