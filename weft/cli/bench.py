"""The verb ``bench``: a scheduler over a named set of instances, and how far it is from the best known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import options as opt
from weft.cli import output
from weft.cli.questions import Pace

if TYPE_CHECKING:
    from rich.table import Table

    from weft.evaluation.sets.bench import Bench, Looked

NOT_VALID = 1
"""Exit code when a schedule breaks a rule."""
FEW = 20
"""Up to this many instances are listed one by one."""


def bench(
    name: Annotated[
        str, typer.Argument(metavar="NAME", show_default=False, help="Such as taillard, demirkol, tpch.")
    ],
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler", "-s", metavar="NAME", help="Default: the best one measured, and a rule beside it."
        ),
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
    from weft.evaluation.sets.bench import bench as run

    output.check_folder(out)
    only: dict[str, Any] = {"instances": opt.split_names(instances), "groups": opt.split_names(groups)}
    limit: dict[str, Any] = {"budget": opt.parse_duration(budget), "effort": opt.efforts(effort, samples)}
    watch = _Watch()
    with output.until_interrupt("the instances so far") as stop, opt.named("check", "instances", "groups"):
        how: dict[str, Any] = {"out": out, "on_look": watch, "around": output.progress}
        found = run(name, scheduler, data=data, seed=seed, check=check, **only, **limit, **how)
    if not found.rows and stop.is_asked:
        raise KeyboardInterrupt
    opt.say_unused(found.settings.scheduler, {"--samples": samples, "--effort": effort, "--budget": budget})
    if as_json:
        output.emit(found.to_dict() | stop.fields)
    else:
        _show(found)
    if stop.is_asked:
        raise output.Interrupted(f"{len(found.rows)} of {watch.num_instances} instances")
    if not as_json:
        output.next_command("weft schedulers")
    if any(row.valid is False for row in found.rows):
        raise typer.Exit(NOT_VALID)


class _Watch:
    """Says now and then how far it is."""

    def __init__(self) -> None:
        self._pace = Pace()
        self.num_instances = 0

    def __call__(self, looked: Looked) -> None:
        self.num_instances = looked.num_instances
        if self._pace.is_due():
            where = f"{looked.num_looked} of {looked.num_instances} instances looked at"
            output.note(f"weft: {where}, now {output.safe(looked.now)} ...")


def _show(found: Bench) -> None:
    for table in _tables(found):
        output.show(table)
    mean = output.percent(found.mean_gap_percent)
    output.say(
        f"{output.count(len(found.rows), 'instance')}, on average {mean} above the {found.gap_to}, "
        f"planned in {output.duration(found.seconds)}; {output.count(found.num_checked, 'schedule')} checked"
    )
    if found.rule is not None:
        mean, seconds = output.percent(found.rule.mean_gap_percent), output.duration(found.rule.seconds)
        output.say(f"the rule {found.rule.settings.scheduler}: {mean} above, planned in {seconds}")
    bad = [row.instance for row in found.rows if row.valid is False]
    if bad:
        output.say(f"NOT VALID: {output.safe(', '.join(bad))}")
    ended = sum(not row.repeatable for row in found.rows)
    if ended:
        where = output.count(ended, "instance")
        output.say(f"the wall clock ended the search on {where}: not repeatable, see --effort")


def _tables(found: Bench) -> Iterator[Table]:
    """Instances where there are few, groups where there are several."""
    from weft.evaluation.sets.bench import BEST_KNOWN, LOWER_BOUND, mean_gap

    above = f"above {found.gap_to}"
    rule = () if found.rule is None else (found.rule.settings.scheduler,)
    beside = {row.instance: row for row in found.rule.rows} if found.rule is not None else {}
    title = output.safe(f"{found.settings.bench}, {' beside '.join((found.settings.scheduler, *rule))}")
    if len(found.rows) <= FEW:
        numeric = ("makespan", BEST_KNOWN, LOWER_BOUND, above, *rule)
        table = output.table(["instance", "group", *numeric], numeric, title)
        for row in found.rows:
            known = [output.number(value) for value in (row.makespan, row.best_known, row.lower_bound)]
            table.add_row(
                output.safe(row.instance),
                output.safe(row.group),
                *known,
                output.percent(row.gap_percent),
                *(output.percent(beside[row.instance].gap_percent) for _ in rule),
            )
        yield table
    if len(found.groups) > 1:
        numeric = ("instances", above, "worst", "planned in", *rule)
        table = output.table(["group", *numeric], numeric, title)
        for name, members in found.groups.items():
            worst = output.percent(max(row.gap_percent for row in members))
            spent = output.duration(sum(row.seconds for row in members))
            by_rule = mean_gap([beside[row.instance] for row in members]) if rule else None
            table.add_row(
                output.safe(name),
                str(len(members)),
                output.percent(mean_gap(members)),
                worst,
                spent,
                *(output.percent(by_rule) for _ in rule),
            )
        yield table
