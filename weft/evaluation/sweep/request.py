"""From names and settings to a sweep and what it says: ``weft.evaluate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from weft import catalog, plugins, scenarios
from weft.errors import InputError
from weft.evaluation import comparing
from weft.evaluation.sweep import answers
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.runner import Cluster, Progress, Sweep
from weft.evaluation.sweep.training_seeds import expand
from weft.io.clusters import is_builtin
from weft.io.kind_names import warn_unknown_kinds
from weft.io.sources import read_bytes
from weft.io.toml_files import parse_toml
from weft.kinds import ELASTIC, PROBLEMS, TASKS, Kind
from weft.policies.checkpoint import points_at_candidates
from weft.scenarios import Scenario
from weft.scenarios.generators import ALLOCATE, AUTO, DISPATCH, Makes
from weft.scenarios.recipes import is_recipe
from weft.scenarios.workflows import read_file
from weft.schedulers.base import Decides
from weft.spread.mapping import check_engine

Scheduler = comparing.Scheduler | Decides | type[Decides]
"""Name of a scheduler, or an object (or class) that plans or decides."""
Asked = str | Path | Scenario | Makes | type[Makes] | Sequence[str | Path] | Sequence[Scenario]
"""A scenario by its name, recipe file, generator or itself, the cells of one, or workflow and problem files."""


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
    engine: str | None = None,
    address: str | None = None,
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
    problems, seeds
        How many problems, None: as many as usual; how many seeds per problem, or which.
    check
        Which schedules are validated: all, sample or none.
    baseline
        Whom the others are compared with; None: the scenario's, if it takes part.
    out
        Folder in which the rows are kept, and found again if the sweep was stopped.
    workers
        Number of processes; one where a scheduler is an object.
    engine, address
        ``ray`` or ``dask`` and the cluster that rows are spread over; None: one of our own, of so many ``workers``.
    progress
        Called with the number of rows done and of all rows.
    """
    chosen = check_engine(engine, address)
    schedulers = (schedulers,) if isinstance(schedulers, str) else schedulers
    cells = dispatched_if_asked(cells_of(what, settings, cluster), schedulers)
    _warn_unknown_kinds(cells[0])
    names, members = expand(_named(schedulers, 2 if chosen else workers) or cells[0].schedulers)
    if out is not None:
        _refuse_unkept(schedulers)
    count = _count(cells, split) if problems is None else problems
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    sweep = Sweep(cells, names, count, numbers, split, effort, check)
    where = None if chosen is None else Cluster(chosen, address)
    try:
        return _Run(baseline, out, workers, where, progress).of(sweep, members)
    finally:  # objects are found by their names during the call alone
        plugins.forget(plugins.SCHEDULERS, [str(one.name) for one in schedulers if not isinstance(one, str)])


class _Run(NamedTuple):
    """How a sweep is run."""

    baseline: str | None
    out: str | Path | None
    workers: int
    cluster: Cluster | None
    progress: Progress | None

    def of(self, sweep: Sweep, members: Mapping[str, tuple[str, ...]]) -> Evaluation:
        return answers.evaluate(sweep, **self._asdict(), members=members)


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


def _refuse_unkept(schedulers: Sequence[Scheduler]) -> None:
    """Rows are kept by the source of an object's class: one with values of its own could not be told from another."""
    for one in schedulers:
        if isinstance(one, str):
            continue
        has_values = not isinstance(one, type) and bool(getattr(one, "__dict__", {}).keys() - {"name"})
        if has_values or not plugins.version(plugins.SCHEDULERS, str(one.name)):
            raise InputError(
                f"rows of {one!r:.60} are not kept, for it holds values or has no source file: name code, mine.py:Mine",
                field="out",
            )


def _kept(scheduler: Scheduler) -> str:
    return plugins.keep(plugins.SCHEDULERS, scheduler, catalog.builtin_names(), "scheduler")


def cells_of(
    what: Asked, settings: Mapping[str, object] | None = None, cluster: str | None = None
) -> tuple[Scenario, ...]:
    """One scenario per point of what is asked for: of a name or recipe file, or made of files."""
    if not isinstance(what, str | Path | Scenario | Sequence):
        if not callable(getattr(what, "make", None)):
            raise InputError(
                f"expected a scenario or files, got {type(what).__name__} (weft.compare takes problems)"
            )
        return scenarios.sweep(what, settings, cluster)
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
    """Files are planned, unless a scheduler only dispatches, or jobs are released later or branch and none only plans.

    Their tasks are then dispatched as jobs are released. Elastic tasks are for allocators, unless others are named alone.
    """
    if cells[0].recipe.generator != "files" or cells[0].kind is TASKS or cells[0].settings["run"] != AUTO:
        return tuple(cells)
    acts = [_acts(one) for one in schedulers]
    if _is_elastic(cells[0]) and not (acts and all(kinds and ELASTIC not in kinds for kinds in acts)):
        return tuple(cell.changed(run=ALLOCATE) for cell in cells)
    only_plans = any(PROBLEMS in kinds and TASKS not in kinds for kinds in acts)
    only_dispatches = any(kinds and PROBLEMS not in kinds for kinds in acts)
    if only_dispatches or (not only_plans and _is_live(cells[0])):
        return tuple(cell.changed(run=DISPATCH) for cell in cells)
    return tuple(cells)


def _acts(scheduler: Scheduler) -> tuple[Kind, ...]:
    """Where a scheduler acts; nothing where that is not known yet."""
    if isinstance(scheduler, str):
        is_trained = catalog.is_policy(scheduler) and scheduler not in catalog.POLICIES
        return (TASKS,) if is_trained and points_at_candidates(scheduler) else catalog.kinds_of(scheduler)
    if hasattr(scheduler, "begin"):
        return (ELASTIC,)
    return (PROBLEMS,) if hasattr(scheduler, "plan") else (TASKS,)


def _is_elastic(cell: Scenario) -> bool:
    """Whether some task of the files has a speed curve."""
    return any(job.graph.is_elastic for file in cell.recipe.files for job in read_file(cell, file).jobs)


def _is_live(cell: Scenario) -> bool:
    """Whether jobs of the files come later or branch, so that no plan can be made without knowing the future."""
    jobs = [job for file in cell.recipe.files for job in read_file(cell, file).jobs]
    return any(job.release > 0 or job.graph.is_conditional for job in jobs)


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
