"""The record of a run: a JSON row per update, and the same for TensorBoard where asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from weft.errors import MissingExtra
from weft.io.sources import writing

Metric = float | int | str | None
Row = Mapping[str, Metric]


def require_tensorboard() -> None:
    """Raise MissingExtra where TensorBoard is not installed."""
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise MissingExtra("tensorboard", "tensorboard", "writing for TensorBoard") from None


class ScalarWriter(Protocol):
    """The part of a TensorBoard writer that is used."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        """Record one number."""

    def flush(self) -> None:
        """Write out what was recorded."""


class Metrics:
    """Rows appended to a file; cut back when a run resumes from before its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = open(path, "ab")  # noqa: SIM115 (held for the whole run)
        self._writer: ScalarWriter | None = None

    def close(self) -> None:
        """Close the file."""
        with writing(self._path):
            self._file.close()

    def cut(self, size: int) -> bool:
        """Drop what lies beyond this many bytes; False if there are fewer."""
        if self._file.tell() < size:
            return False
        self._file.truncate(size)
        self._file.seek(size)
        return True

    def log_to_tensorboard(self, folder: Path, update: int) -> None:
        """Write later rows for TensorBoard too, in place of those after ``update``."""
        require_tensorboard()
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=update + 1)

    def append(self, update: int, row: Row) -> None:
        """Add the row of an update."""
        line = json.dumps({"update": update, **row}, allow_nan=False)
        with writing(self._path):
            self._file.write(f"{line}\n".encode())
        if self._writer is not None:
            for name, value in row.items():
                if isinstance(value, int | float):
                    self._writer.add_scalar(name, float(value), update)
            self._writer.flush()

    def sync(self) -> int:
        """Make all rows durable; the size of the file."""
        with writing(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
        return self._file.tell()
