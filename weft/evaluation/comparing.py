"""Several planners on the same problems: what ``weft.compare`` answers and ``weft compare`` prints."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

from weft import catalog
from weft.errors import MissingExtra, UnsupportedError
from weft.evaluation.sweep.checking import fault_of
from weft.io.files import load_problem
from weft.io.kind_names import warn_unknown_kinds
from weft.io.verb_documents import document
from weft.model.cluster import Cluster
from weft.model.problem import Problem
from weft.schedulers.base import Plans, is_stopped, until_stopped

REFERENCE = "heft"

Scheduler = str | Plans | type[Plans]
"""Name of a planner, or a planner: an object, or a class that is made without arguments."""
Around = Callable[[str], AbstractContextManager[object]]
"""Called with words for what takes long; the context it returns is open meanwhile."""


@dataclass(frozen=True)
class Row:
    """One scheduler on one file; times in the file's unit, ``seconds`` of planning."""

    file: str
    scheduler: str
    makespan: float
    lower_bound: float
    bound_by: str
    gap_percent: float
    vs_heft_percent: float | None
    """Makespan against HEFT's; negative is shorter."""
    copies: int
    seconds: float
    valid: bool
    time_unit: str
    best: bool = False

    def __str__(self) -> str:
        mark = "*" if self.best else " "
        quality = f"{self.gap_percent:.1f} % above the bound" if self.valid else "NOT VALID"
        return f"{mark} {self.scheduler}: makespan {self.makespan:.6g} {self.time_unit}, {quality}"


@dataclass(frozen=True)
class Skipped:
    """A scheduler that could not act on a file, and why."""

    file: str
    scheduler: str
    reason: str


@dataclass(frozen=True)
class Contest:
    """All schedulers on one problem; ``file`` is its name where it was read from none."""

    file: str
    problem: Problem
    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...]

    @property
    def best(self) -> Row | None:
        """The shortest valid schedule; the first of equal ones."""
        return next((row for row in self.rows if row.best), None)

    def __str__(self) -> str:
        left_out = [f"  {one.scheduler} left out: {one.reason}" for one in self.skipped]
        return "\n".join([self.file, *map(str, self.rows), *left_out])


@dataclass(frozen=True)
class Standing:
    """One scheduler over all problems; a ratio is of its makespan to the shortest found for a problem."""

    scheduler: str
    problems: int
    """Problems it made a valid plan for; the ratios are over these."""
    wins: int
    """Where no plan was shorter."""
    mean_ratio: float | None
    """Geometric mean; None without a problem."""
    worst_ratio: float | None
    seconds: float
    """Time of planning, over all problems."""

    def __str__(self) -> str:
        if self.mean_ratio is None or self.worst_ratio is None:
            return f"{self.scheduler}: no valid plan"
        ratios = f"{self.mean_ratio:.4g} times the shortest on average, {self.worst_ratio:.4g} at worst"
        return f"{self.scheduler}: shortest on {self.wins} of {self.problems}, {ratios}"


@dataclass(frozen=True)
class Comparison:
    """All schedulers on all problems."""

    contests: tuple[Contest, ...]
    schedulers: tuple[str, ...]
    seed: int
    command: str = ""
    """The command line that asked; empty where Python did."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """Problem by problem, schedulers in the order asked for."""
        return tuple(row for contest in self.contests for row in contest.rows)

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Who could not act where."""
        return tuple(one for contest in self.contests for one in contest.skipped)

    @property
    def standings(self) -> tuple[Standing, ...]:
        """Every scheduler over all problems: those that planned most first, then by mean ratio."""
        found = [_standing(name, self.contests) for name in self.schedulers]
        return tuple(sorted(found, key=lambda one: (-one.problems, one.mean_ratio or math.inf)))

    def __str__(self) -> str:
        summary = self.standings if len(self.contests) > 1 else ()
        return "\n".join(map(str, (*self.contests, *summary)))

    def to_dict(self) -> dict[str, object]:
        """The document of ``weft compare --json``."""
        rows, skipped = [asdict(row) for row in self.rows], [asdict(one) for one in self.skipped]
        summary = [asdict(one) for one in self.standings]
        own = {"rows": rows, "skipped": skipped, "summary": summary, "command": self.command}
        return document("compare", self.seed, own)


def compare(
    problems: Problem | str | Path | Sequence[Problem | str | Path],
    schedulers: Sequence[Scheduler] = (),
    *,
    cluster: str | Path | Cluster | None = None,
    ccr: float | None = None,
    copies: bool = True,
    seed: int = 0,
    budget: float | None = None,
    effort: int | None = None,
    around: Around = nullcontext,
) -> Comparison:
    """Plan problems with several schedulers; HEFT is the reference, also where it is not listed.

    Parameters
    ----------
    problems
        Problems, or files; ``cluster``, ``ccr`` and ``copies`` are those of ``read_problem``.
    schedulers
        Names of planners, or planners; none: all but the searches.
    budget
        Wall seconds for planners that search.
    effort
        Number of evaluations for planners that search; repeatable.
    around
        Called with words for what takes long; the context it returns is open meanwhile.
    """
    names = _checked((schedulers,) if isinstance(schedulers, str) else schedulers)
    several = [problems] if isinstance(problems, Problem | str | Path) else problems
    loaded = [_loaded(one, cluster, ccr, copies, around) for one in several]
    warn_unknown_kinds([problem for _, problem in loaded])
    asked = _Asked(names, seed, budget, effort, around)
    contests = tuple(_contest(file, problem, asked) for file, problem in until_stopped(loaded))
    return Comparison(contests, tuple(map(name_of, names)), seed)


def name_of(scheduler: Scheduler) -> str:
    """What a planner is called in results."""
    return scheduler if isinstance(scheduler, str) else str(scheduler.name)


class _Asked(NamedTuple):
    schedulers: Sequence[Scheduler]
    seed: int
    budget: float | None
    effort: int | None
    around: Around


def _checked(schedulers: Sequence[Scheduler]) -> Sequence[Scheduler]:
    """The schedulers asked for, all there; all but the searches when none are named."""
    for one in schedulers:
        catalog.planner(one)
    return schedulers or [name for name, entry in catalog.PLANNERS.items() if not entry.is_search]


def _loaded(
    source: Problem | str | Path,
    cluster: str | Path | Cluster | None,
    ccr: float | None,
    copies: bool,
    around: Around,
) -> tuple[str, Problem]:
    if isinstance(source, Problem):
        return source.name, source
    with around(f"reading {source}"):
        return str(source), load_problem(source, cluster, ccr=ccr, copies=copies)


def _contest(file: str, problem: Problem, asked: _Asked) -> Contest:
    rows: list[Row] = []
    skipped: list[Skipped] = []
    for scheduler in asked.schedulers:
        if is_stopped():
            skipped.append(Skipped(file, name_of(scheduler), "interrupted before it planned"))
            continue
        try:
            rows.append(_row(file, problem, scheduler, asked))
        except (UnsupportedError, MissingExtra) as error:
            name = name_of(scheduler)
            skipped.append(Skipped(file, name, error.message.removeprefix(f"{name}: ")))
    return Contest(file, problem, _judged(rows, _reference(problem, rows, asked)), tuple(skipped))


def _row(file: str, problem: Problem, scheduler: Scheduler, asked: _Asked) -> Row:
    result = _planned(problem, scheduler, asked)
    plan, bound = result.schedule, result.schedule.bound
    with asked.around(f"checking {len(plan)} placements"):
        is_valid = fault_of(plan) is None
    return Row(
        file=file,
        scheduler=name_of(scheduler),
        makespan=plan.makespan,
        lower_bound=bound.value,
        bound_by=bound.method,
        gap_percent=plan.gap_percent,
        vs_heft_percent=None,
        copies=plan.num_copies,
        seconds=result.seconds,
        valid=is_valid,
        time_unit=plan.time_unit,
    )


def _planned(problem: Problem, scheduler: Scheduler, asked: _Asked) -> catalog.Result:
    tasks = f"{problem.num_tasks} task{'' if problem.num_tasks == 1 else 's'}"
    with asked.around(f"planning {tasks} with {name_of(scheduler)}"):
        return catalog.schedule(problem, scheduler, seed=asked.seed, budget=asked.budget, effort=asked.effort)


def _standing(name: str, contests: Sequence[Contest]) -> Standing:
    rows = [row for contest in contests for row in contest.rows if row.scheduler == name]
    ratios = [
        row.makespan / contest.best.makespan if contest.best.makespan else 1.0 if row.best else math.inf
        for contest in contests
        for row in contest.rows
        if row.scheduler == name and row.valid and contest.best is not None
    ]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
    seconds = sum(row.seconds for row in rows)
    return Standing(
        name, len(ratios), sum(row.best for row in rows), mean, max(ratios, default=None), seconds
    )


def _reference(problem: Problem, rows: list[Row], asked: _Asked) -> float | None:
    """HEFT's makespan, or None where it cannot act."""
    listed = [row.makespan for row in rows if row.scheduler == REFERENCE]
    if listed:
        return listed[0]
    try:
        plain = asked._replace(budget=None, effort=None)
        return _planned(problem, REFERENCE, plain).schedule.makespan
    except UnsupportedError:
        return None


def _judged(rows: list[Row], heft: float | None) -> tuple[Row, ...]:
    """Rows with the distance to HEFT filled in and the shortest valid ones marked."""
    shortest = min((row.makespan for row in rows if row.valid), default=None)
    return tuple(
        replace(
            row,
            vs_heft_percent=100.0 * (row.makespan / heft - 1.0) if heft else None,
            best=row.valid and shortest is not None and math.isclose(row.makespan, shortest, rel_tol=1e-9),
        )
        for row in rows
    )
