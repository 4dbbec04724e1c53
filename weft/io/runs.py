"""Folders of training runs as any part reads them: where their files are, and the rows of ``metrics.jsonl``."""

from __future__ import annotations

import json
from pathlib import Path

from weft.errors import InputError
from weft.io.sources import read_bytes

CONFIG, METRICS = "config.json", "metrics.jsonl"
VALIDATED = {"greedy_percent": "greedy", "best_of_16_percent": "best of 16"}
"""Columns of one-shot planners with the validated makespan above the bound, in percent -> how it was drawn."""


def run_folders(folder: Path) -> list[Path]:
    """The folder itself if it holds a run, or the runs ``seed-1``, ``seed-2``, ... in it."""
    if (folder / METRICS).is_file():
        return [folder]
    inside = [path for path in folder.glob("seed-*") if (path / METRICS).is_file()]
    return sorted(inside, key=lambda path: (len(path.name), path.name))


def read_metrics(folder: str | Path) -> tuple[dict[str, object], ...]:
    """All whole rows of a run, one per line, oldest first; a row cut short by a kill is left out."""
    path = Path(folder) / METRICS
    if path.is_file() and not path.stat().st_size:  # a run that has just begun
        return ()
    lines = read_bytes(path).split(b"\n")[:-1]
    return tuple(_row(line, number, path) for number, line in enumerate(lines, 1))


def _row(line: bytes, number: int, path: Path) -> dict[str, object]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"expected JSON: {error}", file=str(path), line=number) from None
    if not isinstance(found, dict):
        raise InputError(
            f"expected a row of metrics, got {type(found).__name__}", file=str(path), line=number
        )
    return found
