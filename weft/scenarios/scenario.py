"""Scenarios: recipes with all settings chosen, and the problems they stand for.

A problem is a function of recipe, settings, split and index. The draws are keyed by split and
index alone, so cells of a sweep meet the same graphs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InputError, WeftError
from weft.kinds import ELASTIC, TASKS, Kind
from weft.model import elastic_tasks
from weft.model.elastic import ElasticProblem
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.model.stream import StreamProblem
from weft.scenarios.elastic import elastic_problem
from weft.scenarios.generators import FILE_SETTINGS, GENERATORS, OwnGenerator, own_generator
from weft.scenarios.recipes import Recipe, read_recipe
from weft.scenarios.settings import Value, grid
from weft.scenarios.splits import SEEDS_PER_SPLIT, SPLITS, check_split, seed_of, split_of
from weft.scenarios.streams import described_stream
from weft.scenarios.tpch import tpch_names
from weft.scenarios.workflows import arriving

ALLOCATORS_OF_FILES = ("min", "static-10", "optimus", "shortest-first", "drf")
"""Compared on elastic tasks of files unless others are named: ``static-k`` has nothing to be tuned on there."""


@dataclass(frozen=True)
class Scenario:
    """A seeded distribution of problems, with its objective and reference schedulers."""

    recipe: Recipe
    values: tuple[tuple[str, Value], ...]
    """Every setting with its value."""
    label: str = ""
    """Which cell of a sweep this is, e.g. ``ccr=0.1``; empty outside a sweep."""

    @property
    def name(self) -> str:
        """Name of the recipe."""
        return self.recipe.name

    @property
    def own(self) -> OwnGenerator | None:
        """The generator, if it is not weft's."""
        name = self.recipe.generator
        return None if name in GENERATORS else own_generator(name)

    @property
    def kind(self) -> Kind:
        """What schedulers act on here."""
        known = GENERATORS.get(self.recipe.generator)
        return self.recipe.kind if known is None else known.kind_of(self.settings)

    @property
    def is_as_usual(self) -> bool:
        """Whether the settings leave the recipe's kind of run as it is, so that its references hold."""
        return self.kind is self.recipe.kind

    @property
    def seeds_are_samples(self) -> bool:
        """Whether every seed is a workload of its own; else seeds of one problem are averaged."""
        known = GENERATORS.get(self.recipe.generator)
        return self.kind is TASKS if known is None else known.has_seed_samples(self.settings)

    @property
    def is_arriving(self) -> bool:
        """Whether jobs are drawn and keep arriving at the rate of a load."""
        known = GENERATORS.get(self.recipe.generator)
        return known is not None and known.is_arriving(self.settings)

    @property
    def schedulers(self) -> tuple[str, ...]:
        """Reference schedulers."""
        if self.recipe.generator == "files" and self.kind is ELASTIC:
            return ALLOCATORS_OF_FILES
        return self.recipe.schedulers if self.is_as_usual else self.kind.schedulers

    @property
    def baseline(self) -> str:
        """The reference scheduler the others are compared with."""
        return self.recipe.baseline if self.is_as_usual else self.kind.baseline

    @property
    def usual_problems(self) -> int:
        """How many problems an evaluation takes unless it is given a number; seeds make the streams."""
        return 1 if self.is_arriving else self.recipe.problems

    @property
    def metric(self) -> str:
        """What is compared."""
        return self.recipe.metric if self.is_as_usual else self.kind.metric

    def figures(self, schedule: Schedule) -> dict[str, float]:
        """What a generator that brings its own metrics measures of a schedule."""
        return {} if self.own is None else self.own.measure(schedule)

    @functools.cached_property
    def settings(self) -> dict[str, Value]:
        """Every setting with its value."""
        return dict(self.values)

    def changed(self, **values: Value) -> Scenario:
        """The scenario with other values of some settings."""
        return replace(self, values=tuple((self.settings | values).items()))

    def count(self, split: str) -> int | None:
        """How many problems a split has; None: as many as one asks for."""
        check_split(split)
        if self.recipe.generator == "files":
            if self.is_arriving:  # the same files, other draws: every split has streams of its own
                return 1 if split == "test" else None
            return len(self.recipe.files) if split == "test" else 0
        known = GENERATORS.get(self.recipe.generator)
        if known is not None and known.count is not None:
            return known.count(self)
        if self.own is None and self.settings.get("data"):
            return len(tpch_names(str(self.settings["data"]), self.whole("queries"))[split])
        return None

    def problem_name(self, split: str, index: int) -> str:
        """What the problem is called in results."""
        self._check_index(split, index)
        if self.recipe.generator == "files":
            return "files" if self.is_arriving else self.recipe.files[index]
        if self.own is None and self.settings.get("data"):
            return tpch_names(str(self.settings["data"]), self.whole("queries"))[split][index]
        return f"{split}/{index}"

    def problem(self, split: str, index: int) -> Problem:
        """The problem at this index of a split."""
        self._check_index(split, index)
        if self.own is not None:
            return self._made(split, index, 0)
        with self._located():
            made = GENERATORS[self.recipe.generator].make(self, split, index)
        return made.replaced(name=self.problem_name(split, index))

    def dispatched(self, split: str, index: int, seed: int) -> Problem:
        """The jobs to dispatch at this index of a split; where they keep arriving, every seed has others."""
        self._check_index(split, index)
        if self.own is not None:
            return self._made(split, index, seed)
        if self.kind is not TASKS:
            raise InputError(
                f"scenario {self.name} has jobs to dispatch with a load above 0", field="settings.load"
            )
        if not self.is_arriving:
            return self.problem(split, index)
        with self._located():
            made = arriving(self, split, index, seed)
        return made.replaced(name=self.problem_name(split, index))

    def _made(self, split: str, index: int, seed: int) -> Problem:
        """The problem of a generator that is not weft's; every seed of a stream is a draw of its own."""
        if self.own is None:
            raise InputError(f"no generator {self.recipe.generator!r} here", field="scenario")
        drawn = int(np.random.SeedSequence([self.generator_seed(split, index), seed]).generate_state(1)[0])
        return self.own.make(self.settings, drawn).replaced(name=self.problem_name(split, index))

    def elastic(self, split: str, index: int) -> ElasticProblem:
        """The elastic tasks at this index of a split, and the clusters that run them."""
        self._check_index(split, index)
        if self.recipe.generator == "files":
            return elastic_tasks.elastic_problem(self.problem(split, index), self.number("step"))
        with self._located():
            return elastic_problem(self, split, index)

    def stream(self, split: str, index: int) -> StreamProblem:
        """The stream of jobs at this index of a split."""
        with self._located():
            return described_stream(self, split, index)

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Errors in the tables of a user's file name the file."""
        try:
            yield
        except WeftError as error:
            raise error.at(file=self.recipe.source or None) from None

    def problems(self, split: str, count: int) -> Iterator[Problem]:
        """The first problems of a split."""
        return (self.problem(split, index) for index in range(count))

    def training_problem(self, seed: int) -> Problem:
        """The problem of a training seed; the seed of another split is refused."""
        split, index = split_of(seed)
        if split != "train":
            raise InputError(
                f"seed {seed} belongs to the {split} split: training takes 0..{SEEDS_PER_SPLIT - 1}",
                field="seed",
            )
        count = self.count(split)
        if count == 0:
            raise InputError(f"scenario {self.name} has no training problems", field="split")
        return self.problem(split, index if count is None else index % count)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Files the problems are read from."""
        named = (self.recipe.cluster, self.recipe.graph)
        parts = tuple(one for one in named if one and one[0] != "{" and Path(one).is_file())
        if self.own is not None:
            code = self.recipe.generator.rpartition(":")[0]
            return (code,) if code.endswith(".py") else ()
        if self.settings.get("data"):
            folder = Path(str(self.settings["data"]))
            return tuple(str(path) for path in sorted(folder.glob("tpch_*.json")))
        for key in ("trace", "table"):
            if self.settings.get(key):
                parts = (*parts, str(self.settings[key]))
        return (*self.recipe.files, *parts)

    def _check_index(self, split: str, index: int) -> None:
        count = self.count(split)
        if index < 0 or (count is not None and index >= count):
            have = "as many problems as one likes" if count is None else f"{count} {split} problems"
            raise InputError(f"scenario {self.name} has {have}, got index {index}", field="problems")

    def generator_seed(self, split: str, index: int) -> int:
        """What the generator of a problem is seeded with."""
        return self.recipe.seed * len(SPLITS) * SEEDS_PER_SPLIT + seed_of(split, index)

    def whole(self, name: str) -> int:
        """A setting that is a whole number."""
        return int(self.number(name))

    def number(self, name: str) -> float:
        """A setting that is a number."""
        value = self.settings[name]
        if not isinstance(value, int | float):
            raise InputError(f"expected a number, got {value!r}", field=f"settings.{name}")
        return value


def scenario(name_or_path: str | Path | Any, **settings: object) -> Scenario:
    """The scenario of a built-in recipe, a TOML file or another generator, with some settings changed."""
    cells = sweep(name_or_path, settings)
    if len(cells) > 1:
        raise _swept(cells, str(name_or_path))
    return cells[0]


def _swept(cells: Sequence[Scenario], name: str) -> InputError:
    """What to say of a setting with several values where one is expected."""
    one, other = cells[0].settings, cells[-1].settings
    key = next(key for key in one if one[key] != other[key])
    found = ", ".join(dict.fromkeys(str(cell.settings[key]) for cell in cells))
    file = name if name.endswith(".toml") else None
    return InputError(f"expected one value, got {found:.80}", file=file, field=f"settings.{key}")


def sweep(
    name_or_path: str | Path | Any,
    settings: Mapping[str, object] | None = None,
    cluster: str | None = None,
) -> tuple[Scenario, ...]:
    """One scenario per cell of the grid that lists and ``from:to:step`` values span."""
    recipe = read_recipe(name_or_path)
    if cluster is not None:
        known = GENERATORS.get(recipe.generator)
        if known is None or known.brings_machines:
            raise InputError(f"scenario {recipe.name} brings its own machines", field="cluster")
        recipe = replace(recipe, cluster=cluster)
    cells = _cells(recipe, recipe.given_settings | dict(settings or {}))
    _refuse_unused(cells, settings or {})
    return cells


def file_scenarios(
    files: Sequence[str | Path],
    settings: Mapping[str, object] | None = None,
    cluster: str | None = None,
    *,
    copies: bool = True,
) -> tuple[Scenario, ...]:
    """The same for workflow and problem files: each file is one test problem."""
    if not files:
        raise InputError("expected at least one file", field="files")
    names = tuple(dict.fromkeys(str(file) for file in files))
    recipe = Recipe(
        "files",
        "files",
        FILE_SETTINGS,
        cluster=cluster or "",
        files=names,
        copies=copies,
        problems=len(names),
    )
    cells = _cells(recipe, dict(settings or {}))
    _refuse_unused(cells, settings or {})
    return cells


def _refuse_unused(cells: Sequence[Scenario], given: Mapping[str, object]) -> None:
    """What says how jobs arrive does nothing where none do."""
    known = GENERATORS.get(cells[0].recipe.generator)
    is_still = "load" not in given and not any(cell.is_arriving for cell in cells)
    for key in ("arrivals", "jobs", "distinct"):
        if known is not None and known.may_dispatch and key in given and is_still:
            raise InputError("does nothing without a load above 0, such as load=0.8", field=f"settings.{key}")


def _cells(recipe: Recipe, given: Mapping[str, object]) -> tuple[Scenario, ...]:
    return tuple(
        Scenario(recipe, tuple(values.items()), label) for label, values in grid(recipe.settings, given)
    )
