"""Training recipes: which stream, what is seen, what is rewarded, and the learner's parameters.

A recipe is a TOML file, built in or a user's own; ``--set`` changes single values. Loads no torch.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.policies.sight import read_sight
from weft.scenarios import StreamProblem, scenario
from weft.sim.queues.environment import REWARDS, Setup, setup_of
from weft.sim.queues.observation import Sight
from weft.training.ppo.config import PPOConfig
from weft.training.ppo.validation import Judge, Validation

SCHEMA = "weft/training/1"
UNIFORM, TRAILING = "uniform", "trailing"
DRAWN_BASE = 0.5
"""What stands for a probability that is drawn for every episode, whatever a scenario file sweeps."""
_ALIASES = {"num_tf": "oldest"}
"""Names that the study has for what is seen."""
_TABLES = ("settings", "sight", "config", "validation")
_TOP = (
    "schema",
    "extends",
    "name",
    "summary",
    "scenario",
    "algorithm",
    "p_c",
    "reward",
    "waits",
    "narrows",
    "problems",
    "rules",
    *_TABLES,
)


@dataclass(frozen=True)
class Recipe:
    """What a run trains on and with."""

    name: str
    scenario: str
    settings: Mapping[str, object]
    """Settings of the scenario."""
    p_c: float | str
    """Probability of the varied branch; or drawn for every episode, ``uniform``, or ``trailing``:
    more often where the policy trails the rules."""
    reward: str
    waits: bool
    sight: Sight
    config: PPOConfig
    validation: Validation = field(default_factory=Validation)
    narrows: bool = False
    """Whether devices choose one after another, each from what those before it have left."""
    problems: int = 0
    """How many problems of the scenario's training split a graph net learns on; 0: one, by an MLP."""
    rules: tuple[str, ...] = ()
    """Dispatchers whose best, problem by problem, is imitated first and sets the scale of rewards."""

    @property
    def is_drawn(self) -> bool:
        """Whether the probability of the varied branch is drawn for every episode."""
        return self.p_c in (UNIFORM, TRAILING)

    def case(self, split: str, p_c: float | None = None, **changes: object) -> StreamProblem:
        """The stream of a split, at this probability, else at the recipe's own or any where it is drawn."""
        own = DRAWN_BASE if self.is_drawn else self.p_c
        settings = {**self.settings, **changes, "p_c": own if p_c is None else p_c}
        return scenario(self.scenario, **settings).stream(split, 0)

    def judge(self, setup: Setup) -> Judge:
        """Who judges the policy during training."""
        points = self.validation.p_c if self.is_drawn else (float(self.p_c),)
        return Judge(
            setup,
            lambda p: self.case("validation", p, jobs=self.validation.jobs),
            points,
            self.validation.seeds,
        )

    def setup(self) -> Setup:
        """The stream as the environment takes it; of many problems the first."""
        if self.problems:
            return self.problem_setup(0)
        return replace(
            setup_of(self.case("train"), self.sight, waits=self.waits, narrows=self.narrows),
            reward=self.reward,
            high=1.0 if self.is_drawn else 0.0,
            varies=self.is_drawn,
        )

    @property
    def loads(self) -> tuple[float, float]:
        """The least and the greatest load of many problems."""
        chosen = scenario(self.scenario, **self.settings)
        fixed = chosen.number("load")
        return (fixed, fixed) if fixed else (chosen.number("load_low"), chosen.number("load_high"))

    def problem_setup(self, index: int, split: str = "train", **changes: object) -> Setup:
        """The stream of one of many problems, as its graph says; ``changes`` are settings of the scenario."""
        case = scenario(self.scenario, **{**self.settings, **changes}).stream(split, index)
        return replace(setup_of(case, self.sight, waits=self.waits), reward=self.reward)

    def to_dict(self) -> dict[str, object]:
        """As plain JSON, for the run's record."""
        many = {"problems": self.problems, "rules": list(self.rules)} if self.problems else {}
        return {
            **many,
            "name": self.name,
            "scenario": self.scenario,
            "settings": dict(self.settings),
            "p_c": self.p_c,
            "reward": self.reward,
            "waits": self.waits,
            "narrows": self.narrows,
            "sight": self.sight._asdict(),
            "config": asdict(self.config),
            "validation": asdict(self.validation),
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
        document = _changed(_extended(read_document(name)), changes or {})
        return _recipe(_with_own_scenario(document, Path(name)))
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


def _with_own_scenario(document: dict[str, Any], origin: Path) -> dict[str, Any]:
    """The file of a scenario holds relative to the recipe that names it."""
    named = document.get("scenario")
    if not isinstance(named, str) or not named.endswith(".toml"):
        return document
    return {**document, "scenario": str(origin.parent / named)}


def _extended(document: dict[str, Any]) -> dict[str, Any]:
    """The document with what it leaves out taken from the built-in recipe that it extends."""
    if "extends" not in document:
        return document
    base = _extended(tomllib.loads(recipe_text(str(document["extends"]))))
    tables = {key: {**base.get(key, {}), **document.get(key, {})} for key in _TABLES}
    return {**base, **document, **tables}


def _changed(document: dict[str, Any], changes: Mapping[str, object]) -> dict[str, Any]:
    """The document with every change in its place; the scenario itself checks what is left over."""
    document = {**document, **{k: dict(document.get(k, {})) for k in _TABLES}}
    config, sight = {f.name for f in fields(PPOConfig)}, set(Sight._fields)
    for given, value in changes.items():
        key = _ALIASES.get(given, given)
        if key in ("p_c", "reward", "waits", "narrows", "problems", "rules"):
            document[key] = value
        elif key in config:
            document["config"][key] = value
        elif key in sight:
            document["sight"][key] = value
        elif key.startswith("validation."):
            document["validation"][key.removeprefix("validation.")] = value
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
    is_drawn = p_c in (UNIFORM, TRAILING)
    if not is_drawn and (isinstance(p_c, bool) or not isinstance(p_c, int | float) or not 0 <= p_c <= 1):
        raise InputError(
            f"expected {UNIFORM!r}, {TRAILING!r} or a number from 0 to 1, got {p_c!r}", field="p_c"
        )
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
        _validation(document["validation"]),
        bool(document.get("narrows", False)),
        *_many(document),
    )


def _validation(table: Mapping[str, Any]) -> Validation:
    known = [f.name for f in fields(Validation)]
    for key in table:
        if key not in known:
            raise InputError(f"expected one of {', '.join(known)}", field=f"validation.{key}")
    return Validation(**table)


def _many(document: Mapping[str, Any]) -> tuple[int, tuple[str, ...]]:
    """How many problems, and the rules to imitate on them."""
    problems, rules = document.get("problems", 0), document.get("rules", [])
    if type(problems) is not int or problems < 0:
        raise InputError(f"expected a whole number >= 0, got {problems!r}", field="problems")
    if not isinstance(rules, list) or not all(isinstance(name, str) for name in rules):
        raise InputError(f"expected a list of dispatchers, got {rules!r}", field="rules")
    if problems and not rules:
        raise InputError("expected at least one dispatcher to compare with", field="rules")
    if problems and not document["sight"].get("graph", False):
        raise InputError("expected graph = true: many problems need a graph net", field="sight.graph")
    return problems, tuple(rules)


def _sight(table: Mapping[str, Any]) -> Sight:
    return read_sight({_ALIASES.get(key, key): value for key, value in table.items()})


def _config(table: Mapping[str, Any]) -> PPOConfig:
    known = [f.name for f in fields(PPOConfig)]
    for key in table:
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(f"unknown parameter{hint}", field=f"config.{key}")
    chosen: dict[str, Any] = {key: None if value == "none" else value for key, value in table.items()}
    return PPOConfig(**chosen)
