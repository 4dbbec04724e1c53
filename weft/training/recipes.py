"""Training recipes: which stream, what is seen, what is rewarded, and the learner's parameters.

A recipe is a TOML file, built in or a user's own; ``--set`` changes single values. Loads no torch.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from weft.errors import InputError
from weft.policies.sight import read_sight
from weft.scenarios import StreamCase, scenario
from weft.scenarios.splits import check_training_seed
from weft.sim.queues.environment import REWARDS, Setup, setup_of
from weft.sim.queues.observation import Sight
from weft.tables import did_you_mean, read_table
from weft.training.algorithms import Algorithm, TrainingRecipe, algorithm
from weft.training.ppo.config import PPOConfig
from weft.training.ppo.validation import Judge, Validation

if TYPE_CHECKING:
    from weft.training.run.folder import Outcome
    from weft.training.run.metrics import Row

SCHEMA = "weft/training/1"
UNIFORM, TRAILING = "uniform", "trailing"
DRAWN_BASE = 0.5
"""What stands for a probability that is drawn anew for every episode, whatever a scenario file sweeps."""
_ALIASES = {"num_tf": "oldest"}
"""Names that the study has for what is seen."""
_TOP = ("schema", "extends", "name", "summary", "algorithm")
"""Keys of every recipe."""
EVERY_MANY = 20
"""Updates between checkpoints of a graph net: the state of many problems is large."""
TRIALS = 4
"""Episodes per problem from which its best rule is known."""


@dataclass(frozen=True)
class Recipe:
    """A dispatcher's training: which stream, what is seen and rewarded; read by :func:`read_recipe`."""

    unit: ClassVar[str] = "samples"

    name: str
    scenario: str
    settings: Mapping[str, object]
    """Settings of the scenario."""
    p_c: float | str
    """Probability of the varied branch; or drawn anew for every episode, ``uniform``, or ``trailing``:
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
    algorithm: str = "ppo"

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Recipe:
        """The recipe of a document whose keys are known."""
        return _recipe(document)

    @property
    def every(self) -> int:
        """Updates between checkpoints."""
        return EVERY_MANY if self.problems else self.validation.every

    def check(self, seed: int) -> None:
        """Refuse whatever a run with this seed would refuse, without training."""
        check_training_seed(seed, max(self.config.num_envs, TRIALS) if self.problems else 1)
        self.setup()

    def progress_in_words(self, row: Row) -> str:
        """What an update reached."""
        return f"mean reward {row.get('mean_reward'):.5g}"

    def validation_in_words(self, row: Row) -> str:
        """What a row says of validation; empty where nothing was validated."""
        percent = row.get("envelope_percent")
        return f"{percent:+.1f} % against the best rules" if isinstance(percent, float) else ""

    def best_in_words(self, outcome: Outcome) -> str:
        """What the best policy of a run reached in validation; empty where there is none."""
        if outcome.best is None:
            return ""
        return f"best policy {-outcome.best:+.2f} % against the best rules in validation"

    def next_command(self, run: str) -> str:
        """How to compare the policy."""
        return f"weft evaluate {self.scenario} -s {run},heavy-last-1 --seeds 8"

    @property
    def is_drawn(self) -> bool:
        """Whether the probability of the varied branch is drawn anew for every episode."""
        return self.p_c in (UNIFORM, TRAILING)

    def case(self, split: str, p_c: float | None = None, **changes: object) -> StreamCase:
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
        hint = did_you_mean(name, recipe_names()) or f" (built in: {', '.join(recipe_names())})"
        raise InputError(f"no training recipe {name!r}{hint}", field="recipe")
    path = resources.files("weft") / "recipes" / "training" / f"{name}.toml"
    return path.read_text(encoding="utf-8")


def read_recipe(name: str | Path, changes: Mapping[str, object] | None = None) -> TrainingRecipe:
    """A built-in recipe or a TOML file, of any algorithm, with single values changed.

    A change names a parameter of the learner, of the scenario, of what is seen, or a top-level key.
    """
    try:
        document = _extended(read_document(str(name)))
        row = algorithm(document.get("algorithm", "ppo"))
        _check_keys(document, row)
        return row.read(_with_own_scenario(_changed(document, changes or {}, row), Path(name)))
    except InputError as error:
        raise error.at(file=_file_of(str(name))) from None


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
    tables = {
        key: {**value, **document.get(key, {})} for key, value in base.items() if isinstance(value, dict)
    }
    return {**base, **document, **tables}


def _check_keys(document: Mapping[str, Any], row: Algorithm) -> None:
    known = (*_TOP, *row.keys, *row.tables)
    for key in document:
        if key not in known:
            raise InputError(f"unknown key; expected {', '.join(known)}", field=key)
    if document.get("schema") != SCHEMA:
        raise InputError(f"expected {SCHEMA!r}, got {document.get('schema')!r}", field="schema")
    for key in row.tables:
        if not isinstance(document.get(key, {}), dict):
            raise InputError(f"expected a table, got {document[key]!r:.60}", field=key)


def _changed(document: dict[str, Any], changes: Mapping[str, object], row: Algorithm) -> dict[str, Any]:
    """The document with every change in its place; the scenario itself checks what is left over."""
    tables = {key: dict(document.get(key, {})) for key in row.tables}
    found = {"algorithm": "ppo", **document, **tables}
    places = {f.name: "config" for f in fields(row.config_type())}
    if "sight" in row.tables:
        places |= dict.fromkeys(Sight._fields, "sight")
    for given, value in changes.items():
        key = _ALIASES.get(given, given)
        table, _, inner = key.partition(".")
        if key in row.keys:
            found[key] = value
        elif table in tables and inner:
            tables[table][inner] = value
        else:
            tables[places.get(key, "settings" if "settings" in tables else "config")][key] = value
    return found


def _recipe(document: Mapping[str, Any]) -> Recipe:
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
        read_table(PPOConfig, document["config"], "config"),
        _validation(document.get("validation", {})),
        bool(document.get("narrows", False)),
        *_many(document),
        document["algorithm"],
    )


def _validation(table: Mapping[str, Any]) -> Validation:
    known = [f.name for f in fields(Validation)]
    for key in table:
        if key not in known:
            raise InputError(f"expected one of {', '.join(known)}", field=f"validation.{key}")
    return Validation(**table)


def _many(document: Mapping[str, Any]) -> tuple[int, tuple[str, ...]]:
    """How many problems, and the rules to imitate on them."""
    if "problems" not in algorithm(document["algorithm"]).keys:
        return 0, ()
    problems, rules = document.get("problems", 1), document.get("rules", [])
    if type(problems) is not int or problems < 1:
        raise InputError(f"expected a whole number >= 1, got {problems!r}", field="problems")
    if not isinstance(rules, list) or not all(isinstance(name, str) for name in rules):
        raise InputError(f"expected a list of dispatchers, got {rules!r}", field="rules")
    if not rules:
        raise InputError("expected at least one dispatcher to compare with", field="rules")
    if not document["sight"].get("graph", False):
        raise InputError("expected graph = true: many problems need a graph net", field="sight.graph")
    return problems, tuple(rules)


def _sight(table: Mapping[str, Any]) -> Sight:
    return read_sight({_ALIASES.get(key, key): value for key, value in table.items()})
