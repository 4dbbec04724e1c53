"""Folders of training runs as any part reads them: where their files are, and what ``config.json`` and ``metrics.jsonl`` say."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.io.json_files import parse_json
from weft.io.sources import read_bytes

CONFIG, METRICS = "config.json", "metrics.jsonl"
SCHEMA = "weft.run/"
"""How the schema of a run's configuration begins."""
VALIDATED = {"greedy_percent": "greedy", "best_of_16_percent": "best of 16"}
"""Columns of planners with the validated makespan above the bound, in percent -> how it was drawn."""
GROUPS = ("baselines", "envelope")
"""Groups of rules that dispatchers are compared with in validation, in columns ``GROUP_percent``."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RunRecord:
    """One run: what was trained, and every row it logged."""

    folder: Path
    config: Mapping[str, object]
    """Empty where the folder holds metrics alone."""
    rows: tuple[Mapping[str, object], ...]

    @property
    def recipe(self) -> Mapping[str, object]:
        """The recipe it was started from."""
        return table_of(self.config, "recipe")

    @cached_property
    def is_planner(self) -> bool:
        """Whether it trains a planner, over updates; else a dispatcher, over decisions."""
        return any(name in row for row in self.rows for name in ("drawn_percent", *VALIDATED))

    @property
    def counted(self) -> str:
        """The column that says how far a row is."""
        return "update" if self.is_planner else "samples"

    @property
    def updates(self) -> int:
        """Updates done."""
        return int(self.last("update") or 0)

    @property
    def samples(self) -> int:
        """Decisions collected, or schedules drawn."""
        if not self.is_planner:
            return int(self.last("samples") or 0)
        config = table_of(self.config, "config")
        sizes = [config.get(name) for name in ("groups", "graphs", "samples")]
        return self.updates * math.prod(size for size in sizes if isinstance(size, int))

    def column(self, name: str) -> tuple[Floats, Floats]:
        """Samples (updates of a planner) and values of one metric, where a row has it."""
        pairs = [
            (float(row[self.counted]), float(row[name]))  # type: ignore[arg-type]
            for row in self.rows
            if _is_number(row.get(self.counted)) and _is_number(row.get(name))
        ]
        columns = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
        return columns[0], columns[1]

    def last(self, column: str) -> float | None:
        """The last value of a metric; None where the run did not log it."""
        values = self.column(column)[1]
        return float(values[-1]) if len(values) else None

    def best(self, column: str) -> float | None:
        """The lowest value of a metric; None where the run did not log it."""
        values = self.column(column)[1]
        return float(values.min()) if len(values) else None

    @property
    def varied(self) -> str:
        """The setting whose values it is judged at; empty where the record does not say."""
        return str(table_of(self.recipe, "vary").get("setting", ""))

    @property
    def against(self) -> dict[str, str]:
        """Columns with the validated job time against rules, in percent -> which rules."""
        validation = table_of(self.recipe, "validation")
        named = {"envelope": self.recipe.get("rules", validation.get("rules")), **validation}
        return {f"{group}_percent": _best_of(named.get(group), group) for group in GROUPS}


def table_of(found: Mapping[str, object], name: str) -> Mapping[str, object]:
    """One table of a record; empty where there is none."""
    table = found.get(name)
    return table if isinstance(table, Mapping) else {}


def _best_of(names: object, group: str) -> str:
    """``the best of fifo, mru and depth-first``; the name of the group where the record does not say."""
    if not isinstance(names, list) or not names:
        return f"the {group}"
    *others, last = map(str, names)
    return f"the best of {', '.join(others)} and {last}" if others else last


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def read_record(folder: str | Path) -> RunRecord:
    """The run in a folder; a row cut short by a kill is left out."""
    path, file = Path(folder), Path(folder) / CONFIG
    config = parse_json(read_bytes(file), file) if file.is_file() else {}
    if config and not str(config.get("schema", "")).startswith(SCHEMA):
        raise InputError(f"expected a run, {SCHEMA}...", file=str(file), field="schema")
    return RunRecord(path, config, read_metrics(path))


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
