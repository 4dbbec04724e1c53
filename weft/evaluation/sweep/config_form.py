"""What a sweep asked for, read from its configuration: nothing that an evaluation needs is missing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from weft.errors import InputError
from weft.evaluation.sweep.store import Config
from weft.kinds import ELASTIC, KINDS, PROBLEMS, TASKS, Kind
from weft.scenarios.generators import GENERATORS
from weft.scenarios.groups import Group, groups_of

T = TypeVar("T")
_UNITS = {"files": "", "jobshop": "", "tx2": "ms", "odroid": "ms"}
"""Of times, by generator, where they are not seconds."""


@dataclass(frozen=True)
class Cell:
    """One point of a sweep."""

    label: str
    settings: Mapping[str, object]


@dataclass(frozen=True)
class Asked:
    """Who was asked for, on what."""

    config: Config
    recipe: Mapping[str, object]
    """Of the scenario, as in its JSON."""
    cells: tuple[Cell, ...]
    schedulers: tuple[str, ...]
    learned: tuple[str, ...]
    """Schedulers that are policies of queues."""
    seeds: tuple[int, ...]
    num_problems: int
    split: str

    @property
    def name(self) -> str:
        """Of the scenario."""
        return str(self.recipe["name"])

    @property
    def generator(self) -> str:
        """What makes the problems."""
        return str(self.recipe["generator"])

    @property
    def unit(self) -> str:
        """Of times; empty where it is not known. Generated problems are in seconds, pipelines in milliseconds."""
        if self.kind is ELASTIC:
            return "steps"
        text = str(self.recipe.get("graph") or "")
        if not text.startswith("{"):
            return _UNITS.get(self.generator, "s")
        try:
            unit = json.loads(text).get("time_unit", "s")
        except ValueError:
            return ""
        return unit if isinstance(unit, str) else ""

    @property
    def defaults(self) -> dict[str, object]:
        """Settings of the scenario -> their values unless others are chosen."""
        listed = self.recipe["settings"]
        return {
            str(one["name"]): one["default"] for one in map(table, listed if isinstance(listed, list) else [])
        }

    @property
    def num_rows(self) -> int:
        """Rows of the whole sweep, whether or not they are there."""
        return len(self.cells) * self.num_problems * len(self.seeds) * len(self.schedulers)

    @property
    def groups(self) -> tuple[Group, ...]:
        """Reference schedulers of which the best is spoken of."""
        return groups_of(self.recipe.get("groups", []), tuple(map(str, _of(list, self.recipe["schedulers"]))))

    @property
    def kind(self) -> Kind:
        """What the schedulers acted on, as in :attr:`weft.scenarios.Scenario.kind`."""
        known = GENERATORS.get(self.generator)
        return self._usual_kind if known is None else known.kind_of(self.cells[0].settings)

    @property
    def _usual_kind(self) -> Kind:
        known = GENERATORS.get(self.generator)
        return KINDS[str(self.recipe.get("kind", PROBLEMS.name if known is None else known.kind.name))]

    @property
    def metric(self) -> str:
        """The cost that decides, as in :attr:`weft.scenarios.Scenario.metric`."""
        return str(self.recipe["metric"]) if self.kind is self._usual_kind else self.kind.metric

    @property
    def baseline(self) -> str:
        """The scenario's own, as in :attr:`weft.scenarios.Scenario.baseline`."""
        return str(self.recipe["baseline"]) if self.kind is self._usual_kind else self.kind.baseline

    @property
    def has_seed_samples(self) -> bool:
        """Whether every seed is a workload, and so a sample, of its own."""
        known = GENERATORS.get(self.generator)
        return self.kind is TASKS if known is None else known.has_seed_samples(self.cells[0].settings)


def read_config(config: Config, source: str) -> Asked:
    """What a configuration says; an error names its source."""
    try:
        return _asked(config)
    except (KeyError, TypeError, AttributeError, IndexError):
        raise InputError("expected the configuration of a sweep", file=source, field="config") from None


def _asked(config: Config) -> Asked:
    recipe = table(config["scenario"])
    for setting in map(table, recipe["settings"] if isinstance(recipe["settings"], list) else [None]):
        _ = setting["name"], setting["default"]
    schedulers = tuple(str(name) for name in _of(list, config["schedulers"]))
    policies = table(recipe.get("policies", {}))
    return Asked(
        config,
        {**recipe, **{key: recipe[key] for key in ("name", "generator", "metric", "baseline")}},
        tuple(Cell(label, table(values)) for label, values in table(config["cells"]).items()),
        schedulers,
        tuple(name for name in schedulers if name in policies),
        tuple(_of(int, seed) for seed in _of(list, config["seeds"])),
        _of(int, config["problems"]),
        _of(str, config["split"]),
    )


def in_order(cells: tuple[Cell, ...]) -> tuple[Cell, ...]:
    """Cells by their settings, numbers by size and texts by letters: a store forgets the order they were given in."""
    return tuple(sorted(cells, key=lambda cell: _order(cell.settings)))


def _order(settings: Mapping[str, object]) -> list[tuple[int, float, str]]:
    numbers = {k: float(v) for k, v in settings.items() if isinstance(v, int | float)}
    return [(int(key not in numbers), numbers.get(key, 0.0), str(settings[key])) for key in sorted(settings)]


def table(value: object) -> Mapping[str, object]:
    """A table of a configuration."""
    if not isinstance(value, Mapping):
        raise TypeError
    return value


def _of(kind: type[T], value: object) -> T:
    if not isinstance(value, kind) or value == []:
        raise TypeError
    return value
