"""``weft.export``: a plan or a run for other systems, as text or as a file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from weft import catalog
from weft.catalog import Result
from weft.errors import InputError, expect
from weft.io.exports.of_run import of_run
from weft.io.exports.of_schedule import of_schedule
from weft.io.exports.options import Options, cluster_workers
from weft.io.exports.placed import Placed
from weft.io.exports.table import ExportFormat, dump, find_export
from weft.io.files import is_schedule, read_problem, read_schedule
from weft.io.histories import is_history
from weft.io.json_files import parse_json
from weft.io.sources import located, read_bytes, write_bytes
from weft.io.verb_documents import document
from weft.model.cluster import Cluster
from weft.model.problem import Problem
from weft.model.schedule import Schedule

Around = Callable[[str], AbstractContextManager[None]]
Source = str | Path | Schedule | Result | Problem


@dataclass(frozen=True)
class Exported:
    """A plan or run in the words of another system."""

    to: str
    text: str
    """What the file holds."""
    out: Path | None
    tasks: int
    """How many tasks are in it."""
    devices: int
    notes: tuple[str, ...]
    """What was left out, and what the other system does not enforce."""

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, object]:
        """The document of ``weft export --json``; ``content`` only where no file was written."""
        found: dict[str, object] = {"to": self.to, "out": None if self.out is None else str(self.out)}
        found |= {"tasks": self.tasks, "devices": self.devices, "notes": self.notes}
        return document("export", None, found | ({} if self.out is not None else {"content": self.text}))


def export(
    source: Source,
    to: str,
    out: str | Path | None = None,
    *,
    file: str | Path | Problem | None = None,
    cluster: str | Path | Cluster | None = None,
    scheduler: str | None = None,
    ccr: float | None = None,
    copies: bool = True,
    seed: int = 0,
    options: Options | None = None,
    around: Around = lambda words: nullcontext(),
) -> Exported:
    """A plan or a run for Dask, Airflow, Nextflow, Snakemake, Kubernetes, Perfetto, or as CSV.

    Parameters
    ----------
    source
        A result, schedule or schedule file; a problem or workflow file, which is planned; the folder of a run.
    to
        One of ``weft.io.exports.table.EXPORTS`` by name.
    out
        Where to write it; None: nowhere.
    file, cluster, ccr, copies
        Workflow or problem of a schedule file, and its machines, as for ``weft.read_problem``.
    scheduler, seed
        Who plans a workflow; HEFT unless given.
    options
        Settings of the format.
    around
        Called with words for what takes long, to be open meanwhile.
    """
    expect(source, (str, Path, Schedule, Result, Problem), "a plan, a workflow or a run", "source")
    expect(to, str, "the name of a format", "to")
    form = find_export(to)
    machines = {"file": file, "cluster": cluster, "ccr": ccr}
    if isinstance(source, Schedule | Result):
        _refuse({**machines, "scheduler": scheduler}, "a plan has its problem with it: leave it out")
        placed = _of_plan(source, {})
    elif isinstance(source, str | Path) and (is_history(source) or Path(source).is_dir()):
        _refuse({**machines, "scheduler": scheduler}, "a run has its problem with it: leave it out")
        placed = of_run(source)
    else:
        asked = _Asked(cluster, ccr, copies, scheduler, seed, around)
        placed = _of_files(source, file, asked, form)
    text, notes = dump(placed, to, options)
    if out is not None:
        with located(out):
            write_bytes(text.encode("utf-8", "backslashreplace"), out)
    return Exported(
        to, text, None if out is None else Path(out), len(placed.order), len(placed.devices), notes
    )


@dataclass(frozen=True)
class _Asked:
    """How a workflow is read and planned."""

    cluster: str | Path | Cluster | None
    ccr: float | None
    copies: bool
    scheduler: str | None
    seed: int
    around: Around

    def problem(self, file: str | Path | Problem) -> Problem:
        """The workflow on its machines."""
        if isinstance(file, Problem):
            _refuse({"cluster": self.cluster, "ccr": self.ccr}, "a problem has its machines: leave it out")
            return file
        with self.around(f"reading {file}"):
            return read_problem(file, self.cluster, ccr=self.ccr, copies=self.copies)


def _of_files(
    source: str | Path | Problem, file: str | Path | Problem | None, asked: _Asked, form: ExportFormat
) -> Placed:
    """A schedule file with its workflow, whichever stands first, or a workflow that is planned."""
    given = [one for one in (source, file) if one is not None]
    plans = [one for one in given if isinstance(one, str | Path) and is_schedule(one)]
    others = [one for one in given if one not in plans]
    workers = cluster_workers(asked.cluster)
    if not plans:
        if len(others) > 1:
            raise InputError(
                f"expected a schedule and its workflow, or one workflow to plan; neither {given[0]} nor {given[1]} "
                "is a schedule",
                field="file",
            )
        return _of_plan(_planned(asked.problem(others[0]), asked, form), workers)
    if len(plans) > 1 or not others:
        raise InputError(
            "a schedule does not hold its problem: give the workflow too, and the cluster unless the workflow "
            "names its machines, as in weft export PLAN FILE --cluster C --to FORMAT",
            file=str(plans[0]),
        )
    _refuse({"scheduler": asked.scheduler}, "plans a workflow, and there is a schedule: leave one out")
    schedule = read_schedule(plans[0], asked.problem(others[0]))
    with located(plans[0]), asked.around(f"checking {len(schedule)} placements"):
        return of_schedule(schedule, workers, _scheduler_of(plans[0]))


def _planned(problem: Problem, asked: _Asked, form: ExportFormat) -> Result:
    """A plan; without copies where the format cannot hold them."""
    if problem.objective.copies and not (asked.copies and form.holds_copies):
        from dataclasses import replace

        problem = problem.replaced(objective=replace(problem.objective, copies=False))
    name = asked.scheduler or "heft"
    with asked.around(f"planning {problem.num_tasks} tasks with {name}"):
        return catalog.schedule(problem, name, seed=asked.seed)


def _of_plan(plan: Schedule | Result, workers: dict[str, str]) -> Placed:
    if isinstance(plan, Result):
        return of_schedule(plan.schedule, workers, plan.scheduler)
    return of_schedule(plan, workers)


def _scheduler_of(path: str | Path) -> str:
    found = parse_json(read_bytes(path), path).get("scheduler")
    return found if isinstance(found, str) else ""


def _refuse(given: dict[str, object], reason: str) -> None:
    for field, value in given.items():
        if value is not None:
            raise InputError(reason, field=field)
