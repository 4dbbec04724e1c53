"""The verb ``bench``: a scheduler over a named set of instances, and how far it is from the best known."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as opt
from weft.cli import output
from weft.cli.questions import Pace
from weft.errors import InputError, WeftError

if TYPE_CHECKING:
    from rich.table import Table

    from weft.evaluation.instances import Instance, Suite
    from weft.model.schedule import Schedule

NOT_VALID = 1
"""Exit code when a schedule breaks a rule."""
SMALL = 5_000
"""Schedules of up to so many placements are all validated, of larger ones a sample."""
SAMPLE = 0.1
FEW = 20
"""Up to so many instances are listed one by one."""
BEST_KNOWN, LOWER_BOUND = "best known", "lower bound"
PREFERRED = {"tpch": ("cp-wait", "heft"), "onnx": ("cp", "heft")}
JOB_SHOP = ("mwkr", "heft")
"""The default scheduler is the first of these there is."""
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


def bench(
    name: Annotated[
        str, typer.Argument(metavar="NAME", show_default=False, help="Such as taillard, demirkol, tpch.")
    ],
    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", "-s", metavar="NAME", help="Default: a simple rule for this set."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Folder with the files of the set.")
    ] = None,
    instances: Annotated[
        list[str] | None, typer.Option("--instances", "-i", metavar="A,B", help="Only these instances.")
    ] = None,
    groups: Annotated[
        list[str] | None, typer.Option("--groups", "-g", metavar="A,B", help="Only these groups.")
    ] = None,
    samples: opt.Samples = None,
    budget: opt.Budget = None,
    effort: opt.Effort = None,
    seed: opt.Seed = 0,
    check: Annotated[
        str, typer.Option("--check", help="Schedules to validate: all, or auto (of large ones a sample).")
    ] = "auto",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Rows as JSON lines; continues a file that is there."
        ),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Measure a scheduler on a benchmark set, gap to the best known."""
    from weft.evaluation.instances import suite

    limit = (opt.parse_duration(budget), opt.efforts(effort, samples))
    settings = Settings(name, scheduler or default_scheduler(name), seed, *limit)
    if check not in ("auto", "all"):
        raise InputError(f"expected auto or all, got {check!r}", field="--check")
    output.check_folder(out)
    chosen = select(suite(name, data), opt.split_names(instances))
    rows = _measured(chosen, settings, opt.split_names(groups), check, out)
    opt.say_unused(settings.scheduler, {"--samples": samples, "--effort": effort, "--budget": budget})
    if as_json:
        output.emit(output.document("bench", seed, result(rows, settings)))
    else:
        _show(rows, settings)
        output.next_command("weft schedulers")
    if any(row.valid is False for row in rows):
        raise typer.Exit(NOT_VALID)


def default_scheduler(name: str) -> str:
    """The simple rule a set is first measured with."""
    from weft.catalog import PLANNERS

    return next((rule for rule in PREFERRED.get(name, JOB_SHOP) if rule in PLANNERS), "heft")


def select(suite: Suite, names: list[str]) -> Suite:
    """The suite with these instances only, in its own order; all when none are named."""
    from dataclasses import replace
    from difflib import get_close_matches

    for name in names:
        if name not in suite.loaders:
            close = get_close_matches(name, suite.names, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(f"no instance {name!r} in {suite.name}{hint}", field="--instances")
    kept = {name: load for name, load in suite.loaders.items() if not names or name in names}
    return replace(suite, loaders=kept)


def _measured(suite: Suite, settings: Settings, groups: list[str], check: str, out: Path | None) -> list[Row]:
    """Rows of all instances; when interrupted, what there is goes to stderr first."""
    from weft import catalog

    catalog.planner(settings.scheduler)
    done = {} if out is None else resume(out, settings)
    rows: list[Row] = []
    try:
        for row in _run(suite, settings, groups, check, done):
            rows.append(row)
            if out is not None and row.instance not in done:
                append(out, asdict(row))
    except KeyboardInterrupt:
        _show_partial(rows, settings, len(suite), out)
        raise
    return rows


def _run(
    suite: Suite, settings: Settings, groups: list[str], check: str, done: Mapping[str, Row]
) -> Iterator[Row]:
    """One row per instance of the wanted groups, from the record where it is there."""
    pace, seen, is_warm = Pace(), dict.fromkeys(groups, 0), False
    for k, name in enumerate(suite.names):
        if pace.is_due():
            output.note(f"weft: {k} of {len(suite)} instances looked at, now {output.safe(name)} ...")
        row = done.get(name)
        if row is None:
            instance = suite.instance(name)
            seen.setdefault(instance.group, 0)
            if groups and instance.group not in groups:
                continue
            with output.progress(f"{name} ({k + 1} of {len(suite)}) with {settings.scheduler}"):
                if not is_warm:
                    _warm(instance, settings)
                    is_warm = True
                row = _measure(suite, instance, settings, check, k)
        elif groups and row.group not in groups:
            continue
        seen[row.group] = seen.get(row.group, 0) + 1
        yield row
    _refuse_missing(groups, seen)


def _warm(instance: Instance, settings: Settings) -> None:
    """Plan once without measuring, so that compilation is not counted; errors come with the real plan."""
    from weft import catalog

    with suppress(WeftError):
        catalog.schedule(instance.problem, settings.scheduler, seed=settings.seed, effort=1)


def _refuse_missing(groups: list[str], seen: Mapping[str, int]) -> None:
    for group in groups:
        if not seen[group]:
            known = ", ".join(name for name in seen if name not in groups or seen[name])
            raise InputError(f"no group {group!r} among these instances (groups: {known})", field="--groups")


def _measure(suite: Suite, instance: Instance, settings: Settings, check: str, index: int) -> Row:
    from weft import catalog

    made = catalog.schedule(
        instance.problem,
        settings.scheduler,
        seed=settings.seed,
        budget=settings.budget,
        effort=settings.effort,
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
        valid=_verdict(plan, check, settings.seed, index),
        repeatable=made.is_repeatable,
    )


def _verdict(plan: Schedule, check: str, seed: int, index: int) -> bool | None:
    """What the validator says; None for a large schedule that a keyed draw left out."""
    from weft.model.draws import CHECK, keyed_uniform
    from weft.model.validate import validate

    is_drawn = float(keyed_uniform(seed, CHECK, index)) < SAMPLE
    return not validate(plan) if check == "all" or len(plan) <= SMALL or is_drawn else None


def result(rows: Sequence[Row], settings: Settings) -> dict[str, object]:
    """The fields of the JSON document."""
    asked = [row.valid for row in rows if row.valid is not None]
    return {
        "bench": settings.bench,
        "scheduler": settings.scheduler,
        "instances": len(rows),
        "mean_gap_percent": _mean([row.gap_percent for row in rows]),
        "gap_to": _gap_to(rows),
        "groups": {name: _mean([row.gap_percent for row in members]) for name, members in _grouped(rows)},
        "seconds": sum(row.seconds for row in rows),
        "checked": len(asked),
        "valid": all(asked) if asked else None,
        "repeatable": all(row.repeatable for row in rows),
        "rows": [asdict(row) for row in rows],
    }


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _gap_to(rows: Sequence[Row]) -> str:
    """What the gaps are to, in words."""
    return " or ".join(dict.fromkeys(row.gap_to for row in rows)) or BEST_KNOWN


def _grouped(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.group, []).append(row)
    return list(found.items())


# -- the record -----------------------------------------------------------------------------------


def append(path: Path, line: Mapping[str, object]) -> None:
    """Add one JSON line."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(output.finite(line), allow_nan=False) + "\n")
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", file=str(path)) from None


def resume(path: Path, settings: Settings) -> dict[str, Row]:
    """The rows a record holds already; a new one gets its head. A line cut off at the end is dropped."""
    from weft.io.sources import decode, read_bytes, write_bytes

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


# -- tables -----------------------------------------------------------------------------------------


def _show(rows: Sequence[Row], settings: Settings) -> None:
    for table in _tables(rows, settings):
        output.show(table)
    checked = sum(row.valid is not None for row in rows)
    mean = _mean([row.gap_percent for row in rows])
    spent = output.duration(sum(row.seconds for row in rows))
    output.say(
        f"{output.count(len(rows), 'instance')}, on average {output.percent(mean)} above the {_gap_to(rows)}, "
        f"planned in {spent}; {output.count(checked, 'schedule')} checked"
    )
    bad = [row.instance for row in rows if row.valid is False]
    if bad:
        output.say(f"NOT VALID: {output.safe(', '.join(bad))}")
    ended = sum(not row.repeatable for row in rows)
    if ended:
        where = output.count(ended, "instance")
        output.say(f"the wall clock ended the search on {where}: not repeatable, see --effort")


def _tables(rows: Sequence[Row], settings: Settings) -> Iterator[Table]:
    """Instances where there are few, groups where there are several."""
    above = f"above {_gap_to(rows)}"
    title = output.safe(f"{settings.bench}, {settings.scheduler}")
    if len(rows) <= FEW:
        numeric = ("makespan", BEST_KNOWN, LOWER_BOUND, above)
        table = output.table(["instance", "group", *numeric], numeric, title)
        for row in rows:
            known = [output.number(value) for value in (row.makespan, row.best_known, row.lower_bound)]
            table.add_row(
                output.safe(row.instance), output.safe(row.group), *known, output.percent(row.gap_percent)
            )
        yield table
    grouped = _grouped(rows)
    if len(grouped) > 1:
        numeric = ("instances", above, "worst", "planned in")
        table = output.table(["group", *numeric], numeric, title)
        for name, members in grouped:
            gaps = [row.gap_percent for row in members]
            spent = output.duration(sum(row.seconds for row in members))
            mean = output.percent(_mean(gaps))
            table.add_row(output.safe(name), str(len(members)), mean, output.percent(max(gaps)), spent)
        yield table


def _show_partial(rows: Sequence[Row], settings: Settings, total: int, out: Path | None) -> None:
    """What was done before an interruption, on stderr."""
    from rich.console import Console

    screen = Console(stderr=True, width=None if sys.stderr.isatty() else 120, markup=False, emoji=False)
    for table in _tables(rows, settings):
        screen.print(table)
    more = "" if out is None else f"; the same command with --out {out} continues"
    output.note(f"weft: interrupted after {len(rows)} of {total} instances{more}")
