"""Training recipes: which stream, what is seen, what is rewarded, and the learner's parameters.

A recipe is a TOML file, built in or a user's own; ``--set`` changes single values. Loads no torch.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from weft.errors import InputError
from weft.io.sources import read_bytes
from weft.io.toml_files import parse_toml
from weft.kinds import ELASTIC
from weft.policies.sight import read_sight
from weft.scenarios import StreamProblem, scenario, sweep
from weft.scenarios import read_recipe as read_scenario
from weft.scenarios.splits import check_training_seed
from weft.sim.queues.environment import REWARDS, Setup, setup_of
from weft.sim.queues.layout import edge_probabilities
from weft.sim.queues.observation import Sight
from weft.tables import FLAG, NAME, NAMES, check, checked, did_you_mean, is_number, one_of, read_table, whole
from weft.training.algorithms import ALGORITHMS, ALLOCATOR, Algorithm, TrainingRecipe, algorithm, resolved
from weft.training.distributed.config import Distributed, spread_settings
from weft.training.ppo.config import PPOConfig
from weft.training.ppo.validation import LAWS, Judge, Validation, Vary

if TYPE_CHECKING:
    from weft.training.run.folder import Outcome
    from weft.training.run.metrics import Row

SCHEMA = "weft/training/1"
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
    """A dispatcher's :class:`TrainingRecipe`: which stream, what is seen and rewarded."""

    unit: ClassVar[str] = "samples"

    name: str
    scenario: str
    settings: Mapping[str, object]
    """Settings of the scenario; one that is given here is not drawn."""
    sight: Sight
    config: PPOConfig
    reward: str = field(metadata={"rule": one_of(*REWARDS)})
    waits: bool = checked(False, FLAG)
    narrows: bool = checked(False, FLAG)
    """Whether devices choose one after another, each from what those before it have left."""
    vary: Vary | None = None
    """Which setting is drawn for every episode, unless ``settings`` give it."""
    validation: Validation = field(default_factory=Validation)
    problems: int = checked(1, whole(1))
    """How many problems of the scenario's training split a graph net learns on."""
    rules: tuple[str, ...] = checked((), NAMES)
    """Dispatchers whose best, problem by problem, is imitated first and sets the scale of rewards."""
    algorithm: str = "ppo"

    def __post_init__(self) -> None:
        check(self)
        if self.has_many and not self.rules:
            raise InputError("expected at least one dispatcher to compare with", field="rules")
        if self.has_many and not self.sight.graph:
            raise InputError("expected graph = true: many problems need a graph net", field="sight.graph")
        self.validation.check_values(self.vary)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Recipe:
        own = {key: value for key, value in document.items() if key in algorithm(document["algorithm"]).keys}
        if "reward" not in own:
            raise InputError(f"expected one of {', '.join(REWARDS)}", field="reward")
        if "scenario" not in own:
            raise InputError("expected the name or file of a scenario", field="scenario")
        return cls(
            **own,
            name=str(document.get("name", "recipe")),
            settings=document["settings"],
            sight=read_sight({_ALIASES.get(key, key): value for key, value in document["sight"].items()}),
            config=read_table(PPOConfig, document["config"], "config"),
            vary=read_table(Vary, document["vary"], "vary") if document.get("vary") else None,
            validation=read_table(Validation, document.get("validation", {}), "validation"),
            algorithm=document["algorithm"],
        )

    @property
    def has_many(self) -> bool:
        """Whether it learns on many problems, each against its best rule."""
        return "problems" in algorithm(self.algorithm).keys

    @property
    def every(self) -> int:
        return EVERY_MANY if self.has_many else self.validation.every

    def check(self, seed: int) -> None:
        check_training_seed(seed, max(self.config.num_envs, TRIALS) if self.has_many else 1)
        self.setup()

    def progress_in_words(self, row: Row) -> str:
        return f"mean reward {row.get('mean_reward'):.5g}"

    def validation_in_words(self, row: Row) -> str:
        percent = row.get(f"{list(self.compared)[-1]}_percent")
        return f"{percent:+.1f} % against the best rules" if isinstance(percent, float) else ""

    def best_in_words(self, outcome: Outcome) -> str:
        if outcome.best is None:
            return ""
        return f"best policy {-outcome.best:+.2f} % against the best rules in validation"

    def next_command(self, run: str) -> str:
        rule = list(self.compared.values())[-1][0]
        return f"weft evaluate {self.scenario} -s {run},{rule} --seeds 8"

    @property
    def compared(self) -> dict[str, tuple[str, ...]]:
        """Groups of rules the policy is compared with; the last one scores it."""
        if self.has_many:
            return {"envelope": self.rules}
        named = {"baselines": self.validation.baselines, "envelope": self.validation.envelope}
        groups = {group: names for group, names in named.items() if names}
        return groups or {"baselines": scenario(self.scenario, **self.settings).schedulers}

    @property
    def drawn(self) -> Vary | None:
        """What is drawn for every episode; None: nothing is."""
        return None if self.vary is None or self.vary.setting in self.settings else self.vary

    def case(self, split: str, value: object = None, **changes: object) -> StreamProblem:
        """The stream of a split, with this value of what varies, else the recipe's own or the middle."""
        settings = {**self.settings, **changes}
        if self.vary is not None and (value is not None or self.drawn is not None):
            settings[self.vary.setting] = self.vary.middle if value is None else value
        return scenario(self.scenario, **settings).stream(split, 0)

    @property
    def points(self) -> tuple[float, ...]:
        """Values of what varies at which the policy is judged; of a stream without, 0 stands for the only one."""
        if self.drawn is not None:
            return self.validation.values or self.drawn.usual_points
        fixed = 0.0 if self.vary is None else self.settings[self.vary.setting]
        return (float(fixed),) if is_number(fixed) else ()

    def judge(self, setup: Setup) -> Judge:
        """Who judges the policy during training."""
        jobs, seeds = self.validation.jobs, self.validation.seeds
        cases = [self.case("validation", p if self.vary else None, jobs=jobs) for p in self.points]
        return Judge(setup, cases, self.points, seeds, self.compared)

    def setup(self) -> Setup:
        """The stream as the environment takes it; of many problems the first."""
        if self.has_many:
            return self.problem_setup(0)
        made = setup_of(self.case("train"), self.sight, waits=self.waits, narrows=self.narrows)
        made = replace(made, reward=self.reward)
        if self.drawn is None:
            return made
        low, high = self.drawn.range
        ends = [edge_probabilities(self.case("train", end).problem) for end in (low, high)]
        if not ((ends[0] == low) & (ends[1] == high)).any():
            raise InputError(
                f"expected a setting that is the probability of a branch, got {self.drawn.setting!r}",
                field="vary.setting",
            )
        return replace(made, low=low, high=high, varies=True)

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
        row = algorithm(self.algorithm)
        found = {
            "name": self.name,
            **{key: getattr(self, key) for key in row.keys},
            "settings": dict(self.settings),
            "sight": self.sight._asdict(),
            "config": asdict(self.config),
        }
        if not self.has_many:
            found["vary"] = None if self.vary is None else asdict(self.vary)
            found["validation"] = {**asdict(self.validation), **self.compared}
        return found


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
        document = _extended(read_document(str(name)), Path(name))
        row = algorithm(document.get("algorithm", "ppo"))
        _check_keys(document, row)
        _check_scenario(_with_own_scenario(document, Path(name)), row, changes or {})
        chosen = _with_own_scenario(_changed(document, changes or {}, row, Path(name)), Path(name))
        made: TrainingRecipe = resolved(row.recipe).read(chosen)
        return made
    except InputError as error:
        raise error.at(file=_file_of(str(name))) from None


def read_spread(
    name: str | Path,
    changes: Mapping[str, object],
    engine: str | None = None,
    actors: int | None = None,
    address: str | None = None,
) -> TrainingRecipe:
    """A recipe with single values changed, trained where the options say; an error about an option names it."""
    given = spread_settings(engine, actors, address)
    try:
        recipe = read_recipe(name, {**changes, **given})
    except InputError as error:
        if error.field in given:
            error.file, error.field = None, error.field.removeprefix("distributed.")
        raise
    if actors is not None and not getattr(recipe, "distributed", Distributed()).engine:
        raise InputError(
            "expected an engine too (local, processes or ray): without one training is not spread",
            field="actors",
        )
    return recipe


def read_document(name: str) -> dict[str, Any]:
    """The table of a built-in recipe or of a TOML file, of whatever algorithm."""
    path = Path(name)
    return parse_toml(read_bytes(path), path) if _file_of(name) else tomllib.loads(recipe_text(name))


def _file_of(name: str) -> str | None:
    return name if name.endswith(".toml") else None


def _with_own_scenario(document: dict[str, Any], origin: Path) -> dict[str, Any]:
    """The file of a scenario holds relative to the recipe that names it."""
    named = document.get("scenario")
    if not isinstance(named, str) or not named.endswith(".toml"):
        return document
    return {**document, "scenario": str(origin.parent / named)}


def _extended(document: dict[str, Any], origin: Path) -> dict[str, Any]:
    """The document with what it leaves out taken from the built-in recipe that it extends.

    Settings belong to a generator: for a scenario of another one they are not taken.
    """
    if "extends" not in document:
        return document
    NAME.refuse(document["extends"], "extends")
    parent = str(document["extends"])
    if parent not in recipe_names():
        raise InputError(
            f"no built-in recipe {parent!r}{did_you_mean(parent, recipe_names())}", field="extends"
        )
    base = _extended(tomllib.loads(recipe_text(parent)), Path(parent))
    if _generator(document, origin) not in ("", _generator(base, origin)):
        base = {key: value for key, value in base.items() if key not in ("settings", "vary", "mix")}
    tables = {
        key: {**value, **document.get(key, {})}
        for key, value in base.items()
        if isinstance(value, dict) and isinstance(document.get(key, {}), dict)
    }
    return {**base, **document, **tables}


def _generator(document: Mapping[str, Any], origin: Path) -> str:
    """Who makes the problems of the scenario that a document names; empty: nothing to go by."""
    named = _with_own_scenario(dict(document), origin).get("scenario")
    if not isinstance(named, str):
        return ""
    try:
        return read_scenario(named).generator
    except InputError:  # said where the scenario is used
        return ""


def _check_keys(document: Mapping[str, Any], row: Algorithm) -> None:
    known = (*_TOP, *row.keys, *row.tables)
    for key in document:
        if key not in known:
            raise InputError(f"unknown key; expected {', '.join(known)}", field=key)
    if document.get("schema") != SCHEMA:
        raise InputError(f"expected {SCHEMA!r}, got {document.get('schema')!r}", field="schema")
    NAME.refuse(document.get("name", "recipe"), "name")
    NAME.refuse(document.get("scenario", "none"), "scenario")
    for key in row.tables:
        if not isinstance(document.get(key, {}), dict):
            raise InputError(f"expected a table, got {document[key]!r:.60}", field=key)


def _check_scenario(document: dict[str, Any], row: Algorithm, changes: Mapping[str, object]) -> None:
    """Refuse a scenario that is not there, settings it has not, and elastic tasks for what does not allocate."""
    named = document.get("scenario")
    if "scenario" not in row.keys or not isinstance(named, str) or "scenario" in changes:
        return
    is_elastic = sweep(named, document.get("settings", {}))[0].kind is ELASTIC
    if is_elastic != (row.role == ALLOCATOR):
        trains = [name for name, one in ALGORITHMS.items() if (one.role == ALLOCATOR) == is_elastic]
        what = "edge clusters" if is_elastic else "no edge clusters"
        raise InputError(
            f"expected {' or '.join(trains)} for the scenario {named}, which has {what}, "
            f"got {document.get('algorithm', 'ppo')!r}",
            field="algorithm",
        )


def _changed(
    document: dict[str, Any], changes: Mapping[str, object], row: Algorithm, origin: Path
) -> dict[str, Any]:
    """The document with every change in its place; the scenario itself checks what is left over."""
    tables = {key: dict(document.get(key, {})) for key in row.tables}
    places = {f.name: "config" for f in fields(resolved(row.config))}
    if "sight" in row.tables:
        places |= dict.fromkeys(Sight._fields, "sight")
    found = {"algorithm": "ppo", **document, **tables}
    for given, value in changes.items():
        key = _ALIASES.get(given, given)
        table, _, inner = key.partition(".")
        if key in row.keys:
            found[key] = value
        elif table in tables and inner:
            tables[table][inner] = value
        elif table == "distributed":
            raise InputError(_cannot_spread(found["algorithm"]), field=key)
        elif key == tables.get("vary", {}).get("setting") and value in LAWS:
            tables["vary"]["law"] = value
            tables["settings"].pop(key, None)
        else:
            table = places.get(key, "settings" if "settings" in tables else "config")
            if table == "settings":
                nested = [f"{one}.{inner}" for one in tables if inner]
                _check_meant(key, (*row.keys, *places, *nested), _with_own_scenario(found, origin))
            tables[table][key] = value
    return found


def _check_meant(key: str, own: Iterable[str], document: Mapping[str, Any]) -> None:
    """Refuse a change of what is no setting of the scenario but nearly a name of the recipe's own."""
    named = document.get("scenario")
    if not isinstance(named, str):
        return
    settings = [one.name for one in read_scenario(named).settings]
    hint = did_you_mean(key, (*own, *settings))
    if key not in settings and hint:
        raise InputError(f"no parameter or setting {key!r}{hint}", field=key)


def _cannot_spread(name: str) -> str:
    spread = ", ".join(one for one, row in ALGORITHMS.items() if "distributed" in row.tables)
    return f"training by {name} cannot be spread over actors, only {spread} can"
