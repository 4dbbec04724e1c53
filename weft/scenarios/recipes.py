"""Recipes: the TOML a scenario is made from, built in or a user's own.

A recipe names a generator and its settings, the objective and the schedulers to compare with. One
that ``extends`` another says only what differs. Readers of files are resolved on use.
"""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.io.sources import read_bytes
from weft.io.toml_files import parse_toml
from weft.kinds import ELASTIC, PROBLEMS, TASKS, Kind
from weft.model.problem import METRICS
from weft.plugins import SCENARIOS, offers, refuse_code
from weft.scenarios.generators import GENERATORS, OwnGenerator, keep, kind_under, own_generator
from weft.scenarios.groups import Group, groups_of, text_of
from weft.scenarios.settings import Setting, did_you_mean

SCHEMA = "weft/scenario/1"

Document = Mapping[str, Any]

_KEYS: dict[str, tuple[type, ...]] = {
    "schema": (str,),
    "extends": (str,),
    "name": (str,),
    "summary": (str,),
    "generator": (str,),
    "metric": (str,),
    "copies": (bool,),
    "schedulers": (list,),
    "groups": (list,),
    "baseline": (str,),
    "problems": (int,),
    "seed": (int,),
    "cluster": (str, dict),
    "graph": (str, dict),
    "files": (list,),
    "settings": (dict,),
}
_SETTING_KEYS = ("type", "default", "least", "most", "choices", "doc")
_WORDS = {str: "a text", bool: "true or false", int: "a whole number", list: "a list", dict: "a table"}
_REFERENCES = ("metric", "schedulers", "groups", "baseline")
"""Keys that hold for one kind of run."""
_DEEPEST = 8


@dataclass(frozen=True)
class Recipe:
    """What a scenario is made from; hashable, and plain enough to send to another process."""

    name: str
    generator: str
    settings: tuple[Setting, ...]
    summary: str = ""
    metric: str = "makespan"
    copies: bool = True
    schedulers: tuple[str, ...] = PROBLEMS.schedulers
    """Reference schedulers."""
    groups: tuple[Group, ...] = ()
    """Some of them together, of which the best is spoken of."""
    baseline: str = PROBLEMS.baseline
    """The reference scheduler the others are compared with."""
    problems: int = 20
    """How many problems an evaluation takes unless set otherwise."""
    seed: int = 0
    """Another seed gives other problems from the same distribution."""
    cluster: str = ""
    """Name or path of a cluster, or its document as JSON; empty: none is named."""
    graph: str = ""
    """Path of the graph every job of a stream has, or its document as JSON."""
    files: tuple[str, ...] = ()
    given: str = "{}"
    """Settings the recipe fixes or sweeps, as JSON; the command line overrides them."""
    source: str = field(default="", compare=False)
    """The TOML file it was read from; empty: built in."""

    @property
    def kind(self) -> Kind:
        """What schedulers act on under the recipe's own settings; the references above hold for it."""
        if self.generator in GENERATORS:
            usual = {setting.name: setting.default for setting in self.settings}
            return kind_under(self.generator, usual | self.given_settings)
        own = own_generator(self.generator)
        return PROBLEMS if own is None else own.kind

    @property
    def given_settings(self) -> dict[str, object]:
        """Settings the recipe fixes or sweeps."""
        found: dict[str, object] = json.loads(self.given)
        return found

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {
            "name": self.name,
            "summary": self.summary,
            "generator": self.generator,
            "kind": self.kind.name,
            "metric": self.metric,
            "copies": self.copies,
            "problems": self.problems,
            "schedulers": list(self.schedulers),
            "groups": [group.to_dict() for group in self.groups],
            "baseline": self.baseline,
            "settings": [setting.to_dict() for setting in self.settings],
        }

    @classmethod
    def from_dict(cls, document: Document, files: tuple[str, ...] = ()) -> Recipe:
        """The recipe of its JSON form with seed, cluster and graph, as a sweep keeps it."""
        generator = _one_of(document.get("generator"), tuple(GENERATORS), "generator")
        tables = {one.get("name"): _kept(one) for one in document.get("settings", [])}
        return cls(
            name=text_of(document.get("name"), "name"),
            generator=generator,
            settings=_settings(generator, tables),
            summary=text_of(document.get("summary", ""), "summary"),
            metric=_one_of(document.get("metric"), (*METRICS, GENERATORS[generator].kind.metric), "metric"),
            copies=bool(document.get("copies", True)),
            schedulers=tuple(document.get("schedulers", GENERATORS[generator].kind.schedulers)),
            groups=groups_of(document["groups"], ()) if document.get("groups") else (),
            baseline=text_of(document.get("baseline", GENERATORS[generator].kind.baseline), "baseline"),
            problems=_at_least(document.get("problems", 20), 1, "problems"),
            seed=_at_least(document.get("seed", 0), 0, "seed"),
            cluster=text_of(document.get("cluster", ""), "cluster"),
            graph=text_of(document.get("graph", ""), "graph"),
            files=files,
        )


@functools.cache
def _texts() -> dict[str, str]:
    folder = resources.files("weft").joinpath("recipes")
    files = [entry for entry in folder.iterdir() if entry.name.endswith(".toml")]
    return {
        entry.name.removesuffix(".toml"): entry.read_text("utf-8")
        for entry in sorted(files, key=lambda entry: entry.name)
    }


def recipe_names() -> tuple[str, ...]:
    """Names of the built-in recipes."""
    return tuple(_texts())


def offered_recipes() -> tuple[Recipe, ...]:
    """Scenarios of installed packages; one that cannot be used is listed with the reason."""
    found = []
    for name, offer in offers(SCENARIOS).items():
        try:
            own = OwnGenerator(offer.load(recipe_names(), "scenario"))
            found.append(
                replace(
                    _recipe_of(own, name), name=name, summary=f"{own.text('summary')} (from {offer.origin})"
                )
            )
        except InputError as error:
            found.append(Recipe(name, name, (), f"refused: {error.message}", schedulers=()))
    return tuple(found)


def recipe_text(name: str) -> str:
    """The TOML of a built-in recipe."""
    texts = _texts()
    if name not in texts:
        hint = did_you_mean(name, texts) or f" (there are {', '.join(texts)})"
        raise InputError(f"no recipe {name!r}{hint}", field="recipe")
    return texts[name]


def is_recipe(document: Document) -> bool:
    """Whether the tables of a TOML file are those of a recipe."""
    return document.get("schema") == SCHEMA or "extends" in document or "generator" in document


def read_recipe(name_or_path: str | Path | Any) -> Recipe:
    """A built-in recipe by name, or a user's own: a TOML file, or another generator (an object, code, an entry point)."""
    own = _own(name_or_path)
    if own is not None:
        return own
    document, origin = _read(name_or_path)
    try:
        found = _recipe(_extended(document, origin), origin)
        return replace(found, source="" if str(name_or_path) in _texts() else str(name_or_path))
    except InputError as error:
        raise error.at(file=str(name_or_path)) from None


def _own(given: object) -> Recipe | None:
    """The recipe of a generator that is not weft's; None: a recipe is meant."""
    if not isinstance(given, str | Path):
        name = keep(given)
    elif str(given) in _texts() or Path(given).suffix == ".toml" or Path(given).exists():
        return None
    else:
        name = str(given)
    found = own_generator(name)
    return None if found is None else _recipe_of(found, name)


def _recipe_of(own: OwnGenerator, name: str) -> Recipe:
    kind = own.kind
    schedulers = tuple(text_of(one, "schedulers") for one in own.text("schedulers", kind.schedulers))
    usual = kind.baseline if kind.baseline in schedulers else schedulers[0]
    return Recipe(
        own.text("name"),
        name,
        own.settings,
        text_of(own.text("summary"), "summary"),
        _one_of(own.text("metric", kind.metric), (*METRICS, *own.metrics), "metric"),
        schedulers=schedulers,
        baseline=_one_of(own.text("baseline", usual), schedulers, "baseline"),
        problems=_at_least(own.text("problems", 1 if kind is TASKS else 20), 1, "problems"),
    )


def _read(name_or_path: str | Path, folder: str | Path = "") -> tuple[Document, Path]:
    """The tables of a recipe, and the file they come from; paths hold relative to the folder."""
    text = str(name_or_path)
    if text in _texts():
        return tomllib.loads(recipe_text(text)), Path(text)
    path = Path(folder) / name_or_path
    if not path.suffix and not path.exists():
        hint = did_you_mean(text, recipe_names())
        raise InputError(f"no scenario {text!r}{hint} (weft scenarios lists them)", field="scenario")
    return parse_toml(read_bytes(path), path), path


def _extended(document: Document, origin: Path, depth: int = 0) -> dict[str, Any]:
    """The document over the one it extends: keys replace, settings merge one by one."""
    _check_keys(document)
    own = _with_absolute_files(document, origin)
    if "extends" not in own:
        return own
    if depth == _DEEPEST:
        raise InputError(f"expected at most {_DEEPEST} recipes on top of each other", field="extends")
    found, base_origin = _read(own.pop("extends"), origin.parent)
    base = _extended(found, base_origin, depth + 1)
    settings = dict(base.get("settings", {}))
    for key, entry in own.get("settings", {}).items():
        table = settings.get(key, {})
        if isinstance(table, dict):
            settings[key] = table | (entry if isinstance(entry, dict) else {"given": entry})
    merged = base | {"name": origin.stem} | own | {"settings": settings}
    if _kind(merged) is _kind(base):
        return merged
    return {key: value for key, value in merged.items() if key in own or key not in _REFERENCES}


def _kind(document: Document) -> Kind:
    """What its reference schedulers act on."""
    generator = _one_of(document.get("generator"), tuple(GENERATORS), "generator")
    return kind_under(generator, document.get("settings", {}))


def _with_absolute_files(document: Document, origin: Path) -> dict[str, Any]:
    """File names of a recipe hold relative to the recipe."""
    own = dict(document)
    if "files" in own:
        own["files"] = [str(origin.parent / text_of(name, "files")) for name in own["files"]]
    cluster = own.get("cluster")
    if isinstance(cluster, str) and ("/" in cluster or cluster.endswith((".toml", ".json"))):
        own["cluster"] = str(origin.parent / cluster)
    if isinstance(own.get("graph"), str):
        own["graph"] = str(origin.parent / own["graph"])
    for key in ("data", "trace", "table"):
        named = own.get("settings", {}).get(key)
        if isinstance(named, str) and named:
            own["settings"] = own["settings"] | {key: str(origin.parent / named)}
    return own


def _check_keys(document: Document) -> None:
    for key, value in document.items():
        if key not in _KEYS:
            raise InputError(f"no key {key!r} in a recipe{did_you_mean(key, _KEYS)}", field=key)
        is_bool = isinstance(value, bool)
        if not isinstance(value, _KEYS[key]) or (is_bool and bool not in _KEYS[key]):
            expected = " or ".join(_WORDS[kind] for kind in _KEYS[key])
            raise InputError(f"expected {expected}, got {value!r}", field=key)
    if document.get("schema", SCHEMA) != SCHEMA:
        raise InputError(f"expected {SCHEMA!r}, got {document['schema']!r}", field="schema")


def _recipe(document: Document, origin: Path) -> Recipe:
    generator = _one_of(document.get("generator"), tuple(GENERATORS), "generator")
    tables = {
        name: entry if isinstance(entry, dict) else {"given": entry}
        for name, entry in document.get("settings", {}).items()
    }
    settings = _settings(generator, tables)
    for name in tables:
        if name not in GENERATORS[generator].settings:
            hint = did_you_mean(name, GENERATORS[generator].settings)
            raise InputError(f"generator {generator} has no setting {name!r}{hint}", field=f"settings.{name}")
    given = {name: table["given"] for name, table in tables.items() if "given" in table}
    for setting in settings:
        if setting.name in given:
            setting.values(given[setting.name])
    usual = _kind(document)
    schedulers = tuple(text_of(name, "schedulers") for name in document.get("schedulers", usual.schedulers))
    if not schedulers:
        raise InputError("expected at least one scheduler", field="schedulers")
    for name in schedulers:
        refuse_code(name, "schedulers")
    baseline = schedulers[0] if "schedulers" in document else usual.baseline
    return Recipe(
        document.get("name", origin.stem),
        generator,
        settings,
        document.get("summary", ""),
        _one_of(
            document.get("metric", usual.metric),
            (*METRICS, *usual.metrics) if usual is ELASTIC else METRICS,
            "metric",
        ),
        document.get("copies", True),
        schedulers,
        groups_of(document["groups"], schedulers) if document.get("groups") else (),
        _one_of(document.get("baseline", baseline), schedulers, "baseline"),
        _at_least(document.get("problems", 20), 1, "problems"),
        _at_least(document.get("seed", 0), 0, "seed"),
        _cluster(document.get("cluster", ""), generator),
        _graph(document.get("graph", ""), generator),
        tuple(document.get("files", ())),
        json.dumps(given, sort_keys=True),
    )


def _kept(table: Document) -> dict[str, Any]:
    """A setting's table from its JSON form: what is null there is left out here."""
    return {key: value for key, value in table.items() if key != "name" and value is not None}


def _settings(generator: str, tables: Document) -> tuple[Setting, ...]:
    """All that a generator reads, described by a recipe or, of files, by weft."""
    known = GENERATORS[generator]
    usual = {setting.name: _kept(setting.to_dict()) for setting in known.usual}
    found = {name: usual.get(name, {}) | dict(tables.get(name, {})) or None for name in known.settings}
    return tuple(_setting(name, found) for name in known.settings)


def _setting(name: str, tables: Document) -> Setting:
    table = tables.get(name)
    where = f"settings.{name}"
    if not isinstance(table, dict) or "type" not in table or "default" not in table:
        raise InputError("expected a table with type and default, or extend a built-in recipe", field=where)
    for key in table:
        if key not in (*_SETTING_KEYS, "given"):
            raise InputError(f"no key {key!r} in a setting{did_you_mean(key, _SETTING_KEYS)}", field=where)
    for key in ("least", "most"):
        if not isinstance(table.get(key, 0), int | float):
            raise InputError(f"expected a number, got {table[key]!r}", field=f"{where}.{key}")
    return Setting(
        name,
        text_of(table["type"], f"{where}.type"),
        table["default"],
        text_of(table.get("doc", ""), f"{where}.doc"),
        table.get("least"),
        table.get("most"),
        tuple(text_of(one, f"{where}.choices") for one in table.get("choices", ())),
    )


def _cluster(value: str | Document, generator: str) -> str:
    if value and GENERATORS[generator].brings_machines:
        raise InputError(f"generator {generator} brings its own machines", field="cluster")
    return _tables(value)


def _graph(value: str | Document, generator: str) -> str:
    if value and not GENERATORS[generator].has_graph:
        raise InputError(f"generator {generator} makes its own graphs", field="graph")
    return _tables(value)


def _tables(value: str | Document) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _one_of(value: object, known: tuple[str, ...], field: str) -> str:
    if not isinstance(value, str) or value not in known:
        hint = did_you_mean(str(value), known)
        raise InputError(f"expected one of {', '.join(known)}, got {value!r}{hint}", field=field)
    return value


def _at_least(value: int, least: int, field: str) -> int:
    if value < least:
        raise InputError(f"expected a whole number >= {least}, got {value}", field=field)
    return value
