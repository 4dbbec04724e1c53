"""Training recipes: which stream, what is seen, what is rewarded, and the learner's parameters.

A recipe is a TOML file, built in or a user's own; ``--set`` changes single values. Loads no torch.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.scenarios import scenario
from weft.sim.env import REWARDS, Setup
from weft.sim.observe import Sight
from weft.sim.streams import Rules
from weft.training.ppo_config import PPOConfig

SCHEMA = "weft/training/1"
UNIFORM = "uniform"
_TOP = (
    "schema",
    "name",
    "summary",
    "scenario",
    "algorithm",
    "p_c",
    "reward",
    "waits",
    "settings",
    "sight",
    "config",
)


@dataclass(frozen=True)
class Recipe:
    """What a run trains on and with."""

    name: str
    scenario: str
    settings: Mapping[str, object]
    """Settings of the scenario."""
    p_c: float | str
    """Probability of the varied branch, or ``uniform``: drawn anew for every episode."""
    reward: str
    waits: bool
    sight: Sight
    config: PPOConfig

    def setup(self) -> Setup:
        """The stream as the environment takes it."""
        is_drawn = self.p_c == UNIFORM
        settings = dict(self.settings) if is_drawn else {**self.settings, "p_c": self.p_c}
        case = scenario(self.scenario, **settings).stream("train", 0)
        rules = Rules(case.expiry, case.idle_block, case.forget, case.peeks, case.tracked)
        return Setup(
            case.problem, case.arrivals, rules, self.sight, self.waits, self.reward,
            low=0.0, high=1.0 if is_drawn else 0.0, varies=is_drawn,
        )  # fmt: skip

    def to_dict(self) -> dict[str, object]:
        """As plain JSON, for the run's record."""
        return {
            "name": self.name,
            "scenario": self.scenario,
            "settings": dict(self.settings),
            "p_c": self.p_c,
            "reward": self.reward,
            "waits": self.waits,
            "sight": self.sight._asdict(),
            "config": asdict(self.config),
        }


def recipe_names() -> tuple[str, ...]:
    """Names of the built-in training recipes."""
    folder = resources.files("weft") / "recipes" / "training"
    return tuple(sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")))


def recipe_text(name: str) -> str:
    """The TOML of a built-in recipe."""
    if name not in recipe_names():
        close = difflib.get_close_matches(name, recipe_names(), 1)
        hint = f"; did you mean {close[0]!r}?" if close else f" (built in: {', '.join(recipe_names())})"
        raise InputError(f"no training recipe {name!r}{hint}", field="recipe")
    path = resources.files("weft") / "recipes" / "training" / f"{name}.toml"
    return path.read_text(encoding="utf-8")


def read_recipe(name: str, changes: Mapping[str, object] | None = None) -> Recipe:
    """A built-in recipe or a TOML file, with single values changed.

    A change names a parameter of the learner, of the scenario, of what is seen, or a top-level key.
    """
    try:
        return _recipe(_changed(read_document(name), changes or {}))
    except InputError as error:
        raise error.at(file=_file_of(name)) from None


def read_document(name: str) -> dict[str, Any]:
    """The table of a built-in recipe or of a TOML file, of whatever algorithm."""
    file = _file_of(name)
    try:
        text = Path(name).read_text(encoding="utf-8") if file else recipe_text(name)
        return tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the recipe: {error}", file=file) from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"not valid TOML: {error}", file=file) from None


def _file_of(name: str) -> str | None:
    return name if name.endswith(".toml") else None


def _changed(document: dict[str, Any], changes: Mapping[str, object]) -> dict[str, Any]:
    """The document with every change in its place; the scenario itself checks what is left over."""
    document = {**document, **{k: dict(document.get(k, {})) for k in ("settings", "sight", "config")}}
    config, sight = {f.name for f in fields(PPOConfig)}, set(Sight._fields)
    for key, value in changes.items():
        if key in ("p_c", "reward", "waits"):
            document[key] = value
        elif key in config:
            document["config"][key] = value
        elif key in sight:
            document["sight"][key] = value
        else:
            document["settings"][key] = value
    return document


def _recipe(document: Mapping[str, Any]) -> Recipe:
    for key in document:
        if key not in _TOP:
            raise InputError(f"unknown key; expected {', '.join(_TOP)}", field=key)
    if document.get("schema") != SCHEMA:
        raise InputError(f"expected {SCHEMA!r}, got {document.get('schema')!r}", field="schema")
    if document.get("algorithm", "ppo") != "ppo":
        raise InputError(f"expected 'ppo', got {document['algorithm']!r}", field="algorithm")
    p_c = document.get("p_c", UNIFORM)
    if p_c != UNIFORM and (isinstance(p_c, bool) or not isinstance(p_c, int | float) or not 0 <= p_c <= 1):
        raise InputError(f"expected {UNIFORM!r} or a number from 0 to 1, got {p_c!r}", field="p_c")
    if document.get("reward") not in REWARDS:
        raise InputError(
            f"expected one of {', '.join(REWARDS)}, got {document.get('reward')!r}", field="reward"
        )
    return Recipe(
        str(document.get("name", "recipe")),
        str(document.get("scenario", "conditional")),
        document["settings"],
        p_c,
        str(document["reward"]),
        bool(document.get("waits", False)),
        _sight(document["sight"]),
        _config(document["config"]),
    )


def _sight(table: Mapping[str, Any]) -> Sight:
    for key, value in table.items():
        if key not in Sight._fields:
            raise InputError(f"expected one of {', '.join(Sight._fields)}", field=f"sight.{key}")
        neutral = Sight._field_defaults[key]
        if isinstance(neutral, bool) != isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"expected a value like {neutral!r}, got {value!r}", field=f"sight.{key}")
    defaults: dict[str, Any] = Sight._field_defaults
    chosen: dict[str, Any] = {
        key: float(value) if isinstance(defaults[key], float) else value for key, value in table.items()
    }
    return Sight(**chosen)


def _config(table: Mapping[str, Any]) -> PPOConfig:
    known = [f.name for f in fields(PPOConfig)]
    for key in table:
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(f"unknown parameter{hint}", field=f"config.{key}")
    chosen: dict[str, Any] = {key: None if value == "none" else value for key, value in table.items()}
    return PPOConfig(**chosen)
