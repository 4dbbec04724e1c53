"""The verb that judges: a schedule whoever made it, or a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options as opt
from weft.cli import output, plan
from weft.errors import InputError


def validate(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", show_default=False, help="Workflow file, or a run's folder.")
    ],
    schedule: Annotated[
        Path | None,
        typer.Argument(metavar="SCHEDULE", show_default=False, help="Schedule file, whoever made it."),
    ] = None,
    cluster: opt.Cluster = None,
    ccr: opt.Ccr = None,
    copies: opt.Copies = True,
    as_json: opt.Json = False,
) -> None:
    """Check a schedule or a run; exit code 1 if it is not valid."""
    from weft.execute.agents.setup import is_agents_run
    from weft.io.histories import is_history

    is_live = is_agents_run(file)
    if (is_live or is_history(file)) and schedule is None:
        machines = opt.again(None, cluster, ccr, copies, 0)
        if machines:
            raise InputError(f"{machines} is about a workflow: leave it out", file=str(file))
        (_validate_agents if is_live else _validate_run)(file, as_json)
        return
    if schedule is None:
        wanted = (
            "a schedule to check too" if file.is_file() else "a file, or the folder of a run (history.jsonl)"
        )
        raise InputError(
            f"expected {wanted}: weft validate FILE SCHEDULE, or weft validate RUN", file=str(file)
        )
    from weft.io.files import read_schedule
    from weft.model.validate import validate as check

    problem = plan.load(file, cluster, ccr, copies)
    found = read_schedule(schedule, problem)
    with output.progress(f"checking {len(found)} placements"):
        violations = check(found)
    unit, makespan = found.time_unit, output.number(found.makespan)
    good = f"valid: {output.count(len(found), 'placement')}, makespan {makespan} {unit}"
    _say_violations([asdict(one) for one in violations], {"makespan": found.makespan}, good, as_json)


def _validate_run(folder: Path, as_json: bool) -> None:
    """Check the history of a run."""
    from weft.io.histories import read_history
    from weft.model.history_oracle import check_history

    rows = read_history(folder)
    with output.progress(f"checking {len(rows)} rows"):
        violations = check_history(rows)
    num = sum(row["event"] == "reported" for row in rows)
    closed = rows[-1].get("ok")
    ended = (
        ""
        if closed
        else f"; the run was stopped: {output.safe(str(rows[-1].get('reason') or 'no reason given'))}"
    )
    good = f"valid: {output.count(len(rows), 'row')}, {output.count(num, 'task')} reported{ended}"
    _say_violations([asdict(one) for one in violations], {"rows": len(rows), "reported": num}, good, as_json)


def _validate_agents(folder: Path, as_json: bool) -> None:
    """Check the journals of edge clusters that ran live."""
    from weft.execute.agents.running import check_agents, read_agents

    with output.progress(f"checking the journals of {folder}"):
        checked = check_agents(folder)
        faults = read_agents(folder).faults if checked.ok else checked.faults
    num = checked.num_completed
    violations = [{"rule": "promise", "task": None, "device": None, "detail": fault} for fault in faults]
    good = f"valid: {output.count(num, 'task')} completed, each once, in {checked.last_step} world steps"
    _say_violations(violations, {"reported": num, "steps": checked.last_step}, good, as_json)


def _say_violations(
    violations: Sequence[Mapping[str, object]], fields: Mapping[str, object], good: str, as_json: bool
) -> None:
    """Say what is wrong, or ``good``; exit code 1 where anything is."""
    if as_json:
        found = {"valid": not violations, "violations": violations, **fields}
        output.emit(output.document("validate", None, found))
    elif violations:
        table = output.table(["rule", "task", "device", "detail"])
        for one in violations:
            said = ("-" if one[key] is None else one[key] for key in ("task", "device", "detail"))
            table.add_row(str(one["rule"]), *(output.safe(x) for x in said))
        output.show(table)
        output.say(f"not valid: {output.count(len(violations), 'violation')}")
    else:
        output.say(good)
    if violations:
        raise typer.Exit(plan.NOT_VALID)
