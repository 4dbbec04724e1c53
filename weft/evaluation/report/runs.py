"""Training runs as a report reads them: ``config.json`` and the rows of ``metrics.jsonl``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from weft.errors import InputError
from weft.io.json_files import parse_json
from weft.io.runs import CONFIG, read_metrics
from weft.io.sources import read_bytes
from weft.model.graph import Floats

RUN_SCHEMA = "weft.run/"
AGAINST = {
    "baselines_percent": "the best of fifo, mru and depth-first",
    "envelope_percent": "the best of the device-aware rules",
}
"""Columns with the validated job time against rules, in percent -> which rules."""
ONESHOT = "oneshot"
"""The algorithm of runs that train planners, over updates; others train dispatchers, over decisions."""
_PREFIXES = {"": "", "settings": "", "sight": "", "config": "", "validation": "validation."}
"""Tables of a training recipe, the recipe itself first -> what ``--set`` writes before their keys."""
_UNSET = ("name", "source", "from", *_PREFIXES)
"""Keys of a recipe that ``--set`` does not take."""
REWARDS = ("mean_reward", "episode_return")


RecipeOf = Callable[[str], Mapping[str, object]]
"""Name of a training recipe -> all its values as plain data; empty where there is none."""


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """One run: what was trained, and every row it logged."""

    source: str
    name: str
    config: Mapping[str, object]
    rows: tuple[Mapping[str, object], ...]
    usual: Mapping[str, object] = field(default_factory=dict)
    """The recipe of that name with all its defaults; empty where it is not known."""

    @property
    def changes(self) -> tuple[str, ...]:
        """Values that are not those of its recipe, each as ``--set`` takes it."""
        found: list[str] = []
        for table, prefix in _PREFIXES.items() if self.usual else ():
            stored, usual = (_table(one, table) for one in (self.recipe, self.usual))
            for key, value in stored.items():
                if key not in (() if table else _UNSET) and value != usual.get(key):
                    found.append(f"{prefix}{key}={_as_toml(value)}")
        return tuple(found)

    @property
    def is_changed(self) -> bool:
        """Whether it says nothing about its recipe: begun with weights, or with other values."""
        has_other_source = bool(self.usual) and self.recipe.get("source") != self.usual.get("source")
        return bool(self.recipe.get("from") or self.changes or has_other_source)

    @property
    def recipe(self) -> Mapping[str, object]:
        """The recipe it was started from."""
        found = self.config.get("recipe")
        return found if isinstance(found, Mapping) else {}

    @property
    def is_oneshot(self) -> bool:
        """Whether it trains a one-shot planner."""
        return self.config.get("algorithm") == ONESHOT

    @property
    def updates(self) -> int:
        """Updates done."""
        found = [row["update"] for row in self.rows if isinstance(row.get("update"), int)]
        return int(found[-1]) if found else 0  # type: ignore[call-overload]

    @property
    def samples(self) -> int:
        """Decisions collected, or schedules drawn."""
        if self.is_oneshot:
            config = _table(self.config, "config")
            sizes = [config.get(name) for name in ("groups", "graphs", "samples")]
            return self.updates * math.prod(size for size in sizes if isinstance(size, int))
        column = self.column("samples")[1]
        return int(column[-1]) if len(column) else 0

    @property
    def seconds(self) -> float | None:
        """Wall time of training."""
        column = self.column("seconds")[1]
        return float(column[-1]) if len(column) else None

    @property
    def cpu_seconds(self) -> float | None:
        """Processor time of training."""
        column = self.column("cpu_seconds")[1]
        return float(column[-1]) if len(column) else None

    def column(self, name: str) -> tuple[Floats, Floats]:
        """Samples (updates of a one-shot planner) and values of one metric, where a row has it."""
        count = "update" if self.is_oneshot else "samples"
        pairs = [
            (float(row[count]), float(row[name]))  # type: ignore[arg-type]
            for row in self.rows
            if _is_number(row.get(count)) and _is_number(row.get(name))
        ]
        columns = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
        return columns[0], columns[1]

    def best(self, column: str) -> float | None:
        """The lowest value of a metric; None where the run did not log it."""
        values = self.column(column)[1]
        return float(values.min()) if len(values) else None


def _table(recipe: Mapping[str, object], name: str) -> Mapping[str, object]:
    """One table of a recipe, or the recipe itself where the name is empty."""
    found = recipe.get(name, {}) if name else recipe
    return found if isinstance(found, Mapping) else {}


def _as_toml(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(key)} = {_as_toml(one)}' for key, one in value.items())}}}"
    return "none" if value is None else json.dumps(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def read_run(folder: str | Path, recipe_of: RecipeOf = lambda name: {}) -> TrainingRun:
    """The run in a folder; a row cut short by a kill is left out."""
    path = Path(folder)
    config = parse_json(read_bytes(path / CONFIG), path / CONFIG)
    if not str(config.get("schema", "")).startswith(RUN_SCHEMA):
        raise InputError(f"expected a run, {RUN_SCHEMA}...", file=str(path / CONFIG), field="schema")
    parts = path.resolve().parts
    name = "/".join(parts[-2:]) if parts[-1].startswith("seed-") else parts[-1]
    made = TrainingRun(str(folder), name, config, read_metrics(path))
    usual = json.loads(json.dumps(recipe_of(str(made.recipe.get("name", "")))))
    return replace(made, usual=usual)
