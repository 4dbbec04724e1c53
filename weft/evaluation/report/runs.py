"""Training runs as a report reads them: their record, and how they differ from the recipe they name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weft.io.runs import CONFIG, RunRecord, read_record, table_of
from weft.io.sources import read_bytes

_PREFIXES = {"": "", "settings": "", "sight": "", "config": "", "vary": "vary.", "validation": "validation."}
"""Tables of a training recipe, the recipe itself first -> what ``--set`` writes before their keys."""
_UNSET = ("name", "source", "from", *_PREFIXES)
"""Keys of a recipe that ``--set`` does not take."""
REWARDS = ("mean_reward", "episode_return")


RecipeOf = Callable[[str], Mapping[str, object]]
"""Name or file of a training recipe -> all its values as plain data; empty where there is none."""


@dataclass(frozen=True, eq=False)
class TrainingRun(RunRecord):
    """One run of a report."""

    source: str = ""
    name: str = ""
    usual: Mapping[str, object] = field(default_factory=dict)
    """Its recipe as it is now, with all its defaults; empty where it is not known."""

    @property
    def origin(self) -> str:
        """Name or file of its recipe; empty where an older weft did not note it."""
        return str(self.config.get("origin") or "")

    @property
    def changes(self) -> tuple[str, ...]:
        """Values that are not those of its recipe, each as ``--set`` takes it."""
        found: list[str] = []
        recipe = _as_now(self.recipe, self.usual)
        for table, prefix in _PREFIXES.items() if self.usual else ():
            stored, usual = (table_of(one, table) if table else one for one in (recipe, self.usual))
            for key, value in stored.items():
                is_known = table == "settings" or (key in usual and key not in (() if table else _UNSET))
                if is_known and value != usual.get(key):
                    found.append(f"{prefix}{key}={_as_toml(value)}")
        settings, vary = table_of(recipe, "settings"), table_of(recipe, "vary")
        if vary.get("setting") in table_of(self.usual, "settings") and vary["setting"] not in settings:
            found.append(f"{vary['setting']}={_as_toml(vary.get('law'))}")
        return tuple(found)

    @property
    def is_changed(self) -> bool:
        """Whether it says nothing about its recipe: begun with weights, or with other values."""
        has_other_source = bool(self.usual) and self.recipe.get("source") != self.usual.get("source")
        return bool(self.recipe.get("from") or self.changes or has_other_source)

    @property
    def seconds(self) -> float | None:
        """Wall time of training."""
        return self.last("seconds")

    @property
    def cpu_seconds(self) -> float | None:
        """Processor time of training."""
        return self.last("cpu_seconds")


def _as_now(recipe: Mapping[str, object], usual: Mapping[str, object]) -> Mapping[str, object]:
    """A recipe of weft 0.1, which had what varies at its top, as it is written now; any other as it is."""
    vary = table_of(usual, "vary")
    own = recipe.get(str(vary.get("setting")))
    if own is None:
        return recipe
    if isinstance(own, str):
        return {**recipe, "vary": {**vary, "law": own}}
    return {**recipe, "vary": vary, "settings": {**table_of(recipe, "settings"), str(vary["setting"]): own}}


def _as_toml(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(key)} = {_as_toml(one)}' for key, one in value.items())}}}"
    return "none" if value is None else json.dumps(value)


def read_run(folder: str | Path, recipe_of: RecipeOf = lambda name: {}) -> TrainingRun:
    """The run in a folder; a row cut short by a kill is left out."""
    read_bytes(Path(folder) / CONFIG)  # a report says what was trained
    made = read_record(folder)
    parts = Path(folder).resolve().parts
    name = "/".join(parts[-2:]) if parts[-1].startswith("seed-") else parts[-1]
    origin = str(made.config.get("origin") or made.recipe.get("name", ""))
    usual = json.loads(json.dumps(recipe_of(origin)))
    return TrainingRun(made.folder, made.config, made.rows, str(folder), name, usual)
