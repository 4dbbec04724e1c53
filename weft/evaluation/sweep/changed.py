"""Where two configurations differ, in the words of the options that give them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

Config = Mapping[str, object]

OPTIONS = ("schedulers", "seeds", "problems", "split", "check", "effort")
"""Parts of the configuration of a sweep that an option of the same name gives."""
PARTS = {
    "cluster": "--cluster: the cluster is another one",
    "graph": "the graph of the scenario is another one",
}
"""Parts of a scenario that are long texts."""


def changes_of_sweep(stored: Config, wanted: Config) -> list[str]:
    """Where the sweep that is there and the one asked for differ, most telling first."""
    scenario = _table(stored, "scenario"), _table(wanted, "scenario")
    if scenario[0].get("name") != scenario[1].get("name"):
        return [f"the scenario: {_sides(scenario[0].get('name'), scenario[1].get('name'))}"]
    found = [
        f"--{name}: {_sides(stored.get(name), wanted.get(name))}"
        for name in OPTIONS
        if stored.get(name) != wanted.get(name)
    ]
    found += _settings(_table(stored, "cells"), _table(wanted, "cells"))
    found += _files(_table(stored, "inputs"), _table(wanted, "inputs"))
    found += _recipe(*scenario, has_other=bool(found))
    versions = [
        key
        for key, value in _table(wanted, "versions").items()
        if _table(stored, "versions").get(key) != value
    ]
    if versions:
        found.append(f"made by another version of weft or of what it needs ({', '.join(versions)})")
    return found or differences(stored, wanted)


def _table(config: Config, key: str) -> Config:
    value = config.get(key)
    return value if isinstance(value, dict) else {}


def _sides(there: object, here: object) -> str:
    return f"there {_said(there)}, here {_said(here)}"


def _said(value: object) -> str:
    """A value as a person gives it to an option."""
    if value is None or value == []:
        return "none"
    if not isinstance(value, list):
        return str(value)
    is_run = len(value) > 1 and all(isinstance(v, int) for v in value)
    if is_run and value == list(range(value[0], value[0] + len(value))):
        return f"{value[0]} to {value[-1]}"
    return _short(",".join(map(str, value)))


def _settings(there: Config, here: Config) -> Iterator[str]:
    """The settings whose values over all points of the sweep are others."""
    names = dict.fromkeys(name for cells in (there, here) for label in cells for name in _table(cells, label))
    for name in names:
        sides = [_values(cells, name) for cells in (there, here)]
        if sides[0] != sides[1]:
            yield f"--set {name}: {_sides(*sides)}"


def _values(cells: Config, name: str) -> str:
    return _short(",".join(dict.fromkeys(_said(_table(cells, label).get(name)) for label in cells)))


def _files(there: Config, here: Config) -> Iterator[str]:
    if list(there) != list(here):
        yield f"the files: {_sides(list(there), list(here))}"
    else:
        yield from (f"the file {name} has changed" for name in here if there[name] != here[name])


def _recipe(there: Config, here: Config, *, has_other: bool) -> Iterator[str]:
    """What is another in the scenario itself; what only follows from other options is left out."""
    for name, value in _table(here, "policies").items():
        if name in _table(there, "policies") and _table(there, "policies")[name] != value:
            yield f"the policy {name} has other weights"
    keys = [
        key for key in dict.fromkeys([*there, *here]) if key != "policies" and there.get(key) != here.get(key)
    ]
    yield from (PARTS[key] for key in keys if key in PARTS)
    others = [key for key in keys if key not in PARTS]
    if others and not has_other:
        yield f"the scenario has changed ({', '.join(others)})"


def differences(stored: object, wanted: object, where: str = "") -> list[str]:
    """Where two configurations differ, each as ``place: there ..., here ...``."""
    if stored == wanted:
        return []
    if isinstance(stored, dict) and isinstance(wanted, dict):
        keys = list(dict.fromkeys([*stored, *wanted]))
        inner = [differences(stored.get(k), wanted.get(k), f"{where}.{k}" if where else k) for k in keys]
        return [text for texts in inner for text in texts]
    if isinstance(stored, list) and isinstance(wanted, list) and len(stored) == len(wanted):
        pairs = zip(stored, wanted, strict=True)
        found = [differences(a, b, f"{where}[{i}]") for i, (a, b) in enumerate(pairs)]
        return [text for texts in found for text in texts]
    return [f"{where}: there {_short(json.dumps(stored))}, here {_short(json.dumps(wanted))}"]


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
