"""From names and settings to a sweep and what it says: ``weft.evaluate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from weft import catalog, plugins, scenarios
from weft.errors import InputError
from weft.evaluation import comparing
from weft.evaluation.sweep import answers
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.runner import Progress, Sweep
from weft.evaluation.sweep.training_seeds import expand
from weft.io.clusters import is_builtin
from weft.io.kind_names import warn_unknown_kinds
from weft.io.sources import read_bytes
from weft.io.toml_files import parse_toml
from weft.kinds import PROBLEMS
from weft.scenarios import Scenario
from weft.scenarios.generators import DISPATCH
from weft.scenarios.recipes import is_recipe
from weft.scenarios.workflows import read_file
from weft.schedulers.base import Decides

Scheduler = comparing.Scheduler | Decides | type[Decides]
"""Name of a scheduler, or an object (or class) that plans or decides."""
Asked = str | Path | Scenario | Sequence[str | Path] | Sequence[Scenario]
"""A scenario by its name, recipe file or itself, the cells of one, or workflow and problem files."""


def evaluate(
    what: Asked,
    schedulers: Sequence[Scheduler] = (),
    *,
    settings: Mapping[str, object] | None = None,
    cluster: str | None = None,
    problems: int | None = None,
    seeds: int | Sequence[int] = 1,
    split: str = "test",
    effort: int | None = None,
    check: str = "sample",
    baseline: str | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> Evaluation:
    """Compare schedulers on many problems, with intervals and tests.

    Parameters
    ----------
    what
        A scenario by its name, recipe file or itself, or workflow and problem files.
    schedulers
        Names, runs, folders of runs that differ in their seed, and objects that plan or decide; none: those
        of the scenario.
    settings
        Of the scenario; a list or ``from:to:step`` sweeps one.
    problems
        How many; None: as many as the scenario usually takes.
    seeds
        How many per problem, or which.
    check
        Which schedules are validated: all, sample or none.
    baseline
        Whom the others are compared with; None: the scenario's, if it takes part.
    out
        Folder in which the rows are kept, and found again if the sweep was stopped.
    workers
        Number of processes; one where a scheduler is an object.
    progress
        Called with the number of rows done and of all rows.
    """
    cells = dispatched_if_asked(cells_of(what, settings, cluster), schedulers)
    _warn_unknown_kinds(cells[0])
    names, members = expand(_named(schedulers, workers) or cells[0].schedulers)
    count = _count(cells, split) if problems is None else problems
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    sweep = Sweep(cells, names, count, numbers, split, effort, check)
    return answers.evaluate(
        sweep, baseline=baseline, out=out, workers=workers, progress=progress, members=members
    )


def _warn_unknown_kinds(cell: Scenario) -> None:
    """Warn where the cluster of files names kinds that no task of any file has."""
    if cell.recipe.generator == "files" and not is_builtin(cell.recipe.cluster):
        warn_unknown_kinds([read_file(cell, file) for file in cell.recipe.files], stacklevel=4)


def _named(schedulers: Sequence[Scheduler], workers: int) -> tuple[str, ...]:
    """The names of schedulers; objects are kept under theirs."""
    objects = [one for one in schedulers if not isinstance(one, str)]
    if objects and workers > 1:
        raise InputError(f"expected 1 with schedulers that are objects, got {workers}", field="workers")
    names = tuple(one if isinstance(one, str) else _kept(one) for one in schedulers)
    twins = [name for name in names if names.count(name) > 1]
    if objects and twins:
        raise InputError(
            f"expected schedulers of different names, got {twins[0]!r} twice", field="schedulers"
        )
    return names


def _kept(scheduler: Scheduler) -> str:
    return plugins.keep(plugins.SCHEDULERS, scheduler, catalog.builtin_names(), "scheduler")


def cells_of(
    what: Asked, settings: Mapping[str, object] | None = None, cluster: str | None = None
) -> tuple[Scenario, ...]:
    """One scenario per point of what is asked for: of a name or recipe file, or made of files."""
    several = [what] if isinstance(what, str | Path | Scenario) else what
    made = tuple(one for one in several if isinstance(one, Scenario))
    if made:
        if len(made) < len(several) or settings or cluster is not None:
            raise InputError("expected no files, settings or cluster beside scenarios that are made already")
        return made
    names = [str(one) for one in several]
    if len(names) == 1 and _is_scenario(names[0]):
        return scenarios.sweep(names[0], settings, cluster)
    for name in names:
        if name in scenarios.recipe_names():
            raise InputError(f"expected one scenario or several files, got {name!r} among others")
    return scenarios.file_scenarios(names, settings, cluster)


def dispatched_if_asked(cells: Sequence[Scenario], schedulers: Sequence[Scheduler]) -> tuple[Scenario, ...]:
    """Files are planned, unless some name only dispatches: then their tasks are dispatched as jobs are released."""
    is_open = cells[0].recipe.generator == "files" and cells[0].kind is PROBLEMS
    if not is_open or not any(_only_dispatches(name) for name in schedulers):
        return tuple(cells)
    return tuple(cell.changed(run=DISPATCH) for cell in cells)


def _only_dispatches(scheduler: Scheduler) -> bool:
    if not isinstance(scheduler, str):
        return not hasattr(scheduler, "plan")
    kinds = catalog.kinds_of(scheduler)
    return bool(kinds) and PROBLEMS not in kinds


def _is_scenario(name: str) -> bool:
    if plugins.is_code(name):
        return True
    if name in scenarios.recipe_names() or not Path(name).exists():
        return not Path(name).suffix or name in scenarios.recipe_names()
    return Path(name).suffix.lower() == ".toml" and is_recipe(parse_toml(read_bytes(name), name))


def _count(cells: Sequence[Scenario], split: str) -> int:
    """How many problems the scenario usually takes, at most as many as there are."""
    most = [count for cell in cells if (count := cell.count(split)) is not None]
    count = min([cells[0].usual_problems, *most])
    if count == 0:
        raise InputError(f"scenario {cells[0].name} has no {split} problems", field="split")
    return count
