"""A planner over a named set of instances, and how far it is from the best known: ``weft.bench``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import NamedTuple

from weft import catalog
from weft.errors import InputError
from weft.evaluation.comparing import Around, Scheduler, name_of
from weft.evaluation.sets.instances import Instance, Suite, suite
from weft.evaluation.sweep.checking import fault_of
from weft.io.sources import decode, read_bytes, write_bytes, writing
from weft.io.verb_documents import document, finite
from weft.model.draws import CHECK, keyed_uniform
from weft.model.schedule import Schedule
from weft.scenarios.settings import did_you_mean
from weft.schedulers.base import is_stopped

SMALL = 5_000
"""Schedules of up to this many placements are all validated, of larger ones a sample."""
SAMPLE = 0.1
CHECKS = ("auto", "all")
BEST_KNOWN, LOWER_BOUND = "best known", "lower bound"
BEST = "oneshot+search"
"""Nearest to the best known on every set that docs/results/oneshot.md measures."""
RULES = {"tpch": "cp-wait", "onnx": "cp"}
JOB_SHOP_RULE = "mwkr"
SCHEMA = "weft/bench-rows/2"
PLAIN: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
    "bool | None": (bool, type(None)),
    "bool": (bool,),
}
"""What JSON gives for the types of a row."""


@dataclass(frozen=True)
class Row:
    """One instance; the gap is to the best known makespan, else to the lower bound."""

    instance: str
    makespan: float
    best_known: float | None
    lower_bound: float
    gap_percent: float
    group: str
    gap_to: str
    seconds: float
    valid: bool | None
    """What the validator said; None: left out of the sample."""
    repeatable: bool
    """Whether the same seed gives the same schedule."""


@dataclass(frozen=True)
class Settings:
    """What decides a result; rows of other settings are never mixed with these."""

    bench: str
    scheduler: str
    seed: int
    budget: float | None
    effort: int | None


@dataclass(frozen=True)
class Bench:
    """All instances of a set that were measured with one planner."""

    settings: Settings
    rows: tuple[Row, ...]
    rule: Bench | None = None
    """A simple rule on the same instances, where no planner was named."""

    @property
    def mean_gap_percent(self) -> float | None:
        """Over instances; None without any."""
        return mean_gap(self.rows)

    @property
    def gap_to(self) -> str:
        """What the gaps are to, in words."""
        return " or ".join(dict.fromkeys(row.gap_to for row in self.rows)) or BEST_KNOWN

    @property
    def groups(self) -> dict[str, list[Row]]:
        """The rows of every group."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.group, []).append(row)
        return found

    @property
    def seconds(self) -> float:
        """Time of planning."""
        return sum(row.seconds for row in self.rows)

    @property
    def num_checked(self) -> int:
        """Schedules the validator was asked about."""
        return sum(row.valid is not None for row in self.rows)

    def __str__(self) -> str:
        gap = (
            "no instance"
            if self.mean_gap_percent is None
            else f"{self.mean_gap_percent:.1f} % above {self.gap_to}"
        )
        text = f"{self.settings.bench}, {self.settings.scheduler}: {len(self.rows)} instances, {gap}"
        return text if self.rule is None else f"{text}\n{self.rule}"

    def to_dict(self) -> dict[str, object]:
        """The document of ``weft bench --json``."""
        asked = [row.valid for row in self.rows if row.valid is not None]
        own = {
            "bench": self.settings.bench,
            "scheduler": self.settings.scheduler,
            "instances": len(self.rows),
            "mean_gap_percent": self.mean_gap_percent,
            "gap_to": self.gap_to,
            "groups": {name: mean_gap(members) for name, members in self.groups.items()},
            "seconds": self.seconds,
            "checked": self.num_checked,
            "valid": all(asked) if asked else None,
            "repeatable": all(row.repeatable for row in self.rows),
            "rows": [asdict(row) for row in self.rows],
        }
        rule = {} if self.rule is None else {"rule": self.rule.to_dict()}
        return document("bench", self.settings.seed, own | rule)


@dataclass(frozen=True)
class Looked:
    """Where a measurement stands, before each instance."""

    done: Bench
    num_looked: int
    num_instances: int
    now: str
    """Name of the instance that is next."""


def bench(
    name: str,
    scheduler: Scheduler | None = None,
    *,
    data: str | Path | None = None,
    instances: Sequence[str] = (),
    groups: Sequence[str] = (),
    seed: int = 0,
    budget: float | None = None,
    effort: int | None = None,
    check: str = "auto",
    out: str | Path | None = None,
    on_look: Callable[[Looked], None] = lambda looked: None,
    around: Around = nullcontext,
) -> Bench:
    """Measure a planner on a benchmark set, gap to the best known.

    Parameters
    ----------
    scheduler
        Name of a planner, or a planner; None: the best one measured, and a simple rule beside it.
    data
        Folder with the files of the set, where one is needed.
    instances, groups
        Only these; none: all.
    check
        Schedules to validate: all, or auto (of large ones a sample).
    out
        Rows as JSON lines; a file that is there is continued.
    on_look, around
        Called before each instance; called with words for what takes long, to be open meanwhile.
    """
    if check not in CHECKS:
        raise InputError(f"expected auto or all, got {check!r}", field="check")
    planner = scheduler or BEST
    settings = Settings(name, name_of(planner), seed, budget, effort)
    chosen = select(suite(name, data), instances)
    catalog.planner(planner)
    asked = _Asked(chosen, settings, planner, tuple(groups), check, around)
    done = {} if out is None else resume(Path(out), settings)
    rows: list[Row] = []
    for row in _run(
        asked, done, lambda k, now: on_look(Looked(Bench(settings, tuple(rows)), k, len(chosen), now))
    ):
        rows.append(row)
        if out is not None and row.instance not in done:
            append(Path(out), asdict(row))
    return Bench(settings, tuple(rows), None if scheduler else _by_rule(asked, rows))


def _by_rule(asked: _Asked, rows: Sequence[Row]) -> Bench:
    """The rule of a set on the instances that were measured."""
    name = rule_of(asked.settings.bench)
    settings = replace(asked.settings, scheduler=name, budget=None, effort=None)
    by_rule = asked._replace(settings=settings, planner=name)
    places = {instance: k for k, instance in enumerate(asked.suite.names)}
    with asked.around(f"{len(rows)} instances with {name}"):
        made = [
            _measure(asked.suite, asked.suite.instance(row.instance), by_rule, places[row.instance])
            for row in rows
        ]
    return Bench(settings, tuple(made))


class _Asked(NamedTuple):
    suite: Suite
    settings: Settings
    planner: Scheduler
    groups: tuple[str, ...]
    check: str
    around: Around


def rule_of(name: str) -> str:
    """The simple rule that stands beside the best planner on a set."""
    return RULES.get(name, JOB_SHOP_RULE)


def mean_gap(rows: Sequence[Row]) -> float | None:
    """The mean gap of rows, in percent; None without any."""
    return sum(row.gap_percent for row in rows) / len(rows) if rows else None


def select(suite: Suite, names: Sequence[str]) -> Suite:
    """The suite with these instances only, in its own order; all when none are named."""
    for name in names:
        if name not in suite.loaders:
            hint = did_you_mean(name, suite.names)
            raise InputError(f"no instance {name!r} in {suite.name}{hint}", field="instances")
    kept = {name: load for name, load in suite.loaders.items() if not names or name in names}
    return replace(suite, loaders=kept)


def _run(asked: _Asked, done: Mapping[str, Row], look: Callable[[int, str], None]) -> Iterator[Row]:
    """One row per instance of the wanted groups, from the record where it is there."""
    suite, groups = asked.suite, asked.groups
    seen = dict.fromkeys(groups, 0)
    for k, name in enumerate(suite.names):
        if is_stopped():
            return
        look(k, name)
        row = done.get(name)
        if row is None:
            instance = suite.instance(name)
            seen.setdefault(instance.group, 0)
            if groups and instance.group not in groups:
                continue
            with asked.around(f"{name} ({k + 1} of {len(suite)}) with {asked.settings.scheduler}"):
                row = _measure(suite, instance, asked, k)
            if is_stopped() and catalog.is_limited(asked.settings.scheduler):
                return  # a search cut short is not what was asked for
        elif groups and row.group not in groups:
            continue
        seen[row.group] = seen.get(row.group, 0) + 1
        yield row
    _refuse_missing(groups, seen)


def _refuse_missing(groups: Sequence[str], seen: Mapping[str, int]) -> None:
    for group in groups:
        if not seen[group]:
            known = ", ".join(name for name in seen if name not in groups or seen[name])
            raise InputError(f"no group {group!r} among these instances (groups: {known})", field="groups")


def _measure(suite: Suite, instance: Instance, asked: _Asked, index: int) -> Row:
    settings = asked.settings
    made = catalog.schedule(
        instance.problem, asked.planner, seed=settings.seed, budget=settings.budget, effort=settings.effort
    )
    plan, published = made.schedule, suite.bounds.get(instance.name)
    bound = plan.bound.value if published is None else max(plan.bound.value, published.lower)
    reference = bound if published is None else published.upper
    return Row(
        instance=instance.name,
        makespan=plan.makespan,
        best_known=None if published is None else published.upper,
        lower_bound=bound,
        gap_percent=100.0 * (plan.makespan / reference - 1.0) if reference else 0.0,
        group=instance.group,
        gap_to=LOWER_BOUND if published is None else BEST_KNOWN,
        seconds=made.seconds,
        valid=_verdict(plan, asked.check, settings.seed, index),
        repeatable=made.is_repeatable,
    )


def _verdict(plan: Schedule, check: str, seed: int, index: int) -> bool | None:
    """What the validator says; None for a large schedule that a keyed draw left out."""
    is_drawn = float(keyed_uniform(seed, CHECK, index)) < SAMPLE
    return fault_of(plan) is None if check == "all" or len(plan) <= SMALL or is_drawn else None


# -- the record -----------------------------------------------------------------------------------


def append(path: Path, line: Mapping[str, object]) -> None:
    """Add one JSON line."""
    with writing(path), path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(finite(line), allow_nan=False) + "\n")


def resume(path: Path, settings: Settings) -> dict[str, Row]:
    """The rows a record holds already; a new one gets its head. A line cut off at the end is dropped."""
    head = {"schema": SCHEMA, **asdict(settings)}
    if not path.exists() or not path.stat().st_size:
        append(path, head)
        return {}
    text = decode(read_bytes(path), path)
    whole, newline, cut_off = text.rpartition("\n")
    first, *rest = whole.split("\n")
    _refuse_other(_parsed(first, path, 1), head, path)
    rows = [_row(_parsed(line, path, k), path, k) for k, line in enumerate(rest, 2)]
    if cut_off:
        write_bytes((whole + newline).encode(), path)
    return {row.instance: row for row in rows}


def _parsed(line: str, path: Path, number: int) -> dict[str, object]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError("expected a JSON object", file=str(path), line=number)
    return found


def _refuse_other(found: Mapping[str, object], head: Mapping[str, object], path: Path) -> None:
    for key, value in head.items():
        if found.get(key) != value:
            raise InputError(
                f"the file is of another run: expected {value!r}, got {found.get(key)!r}",
                file=str(path),
                field=key,
                line=1,
            )


def _row(found: Mapping[str, object], path: Path, number: int) -> Row:
    types = {field.name: PLAIN[str(field.type)] for field in fields(Row)}
    if list(found) != list(types) or any(type(found[key]) not in types[key] for key in types):
        raise InputError("expected a row of weft bench --out", file=str(path), line=number)
    return Row(**found)  # type: ignore[arg-type]
