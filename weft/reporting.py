"""Sweeps, training runs and comparisons, one plan, or one run of it, as one page: ``weft.report``.

Stands above ``evaluation`` and ``training``: a report says how a run differs from the recipe it was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from weft.catalog import Result
from weft.errors import InputError, expect, expect_each
from weft.evaluation import report as reports
from weft.evaluation.comparing import Around
from weft.evaluation.executed import read_executed
from weft.execute.agents.setup import is_agents_run
from weft.io.histories import is_history
from weft.io.schedules import is_schedule
from weft.io.verb_documents import document
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.model.validate import validate
from weft.scenarios.settings import did_you_mean
from weft.training.recipes import read_recipe, recipe_names

SUFFIXES = (".html", ".md")
_MEASURED = {
    "coordinators": "coordinators that led",
    "outages": "without a coordinator [s]",
    "placed_again": "placements withdrawn",
    "decisions": "decisions",
    "round_trip": "round trip of a decision [s]",
    "inference": "of it inference [s]",
    "logical_steps": "logical steps in a decision",
    "state_bytes": "bytes of state from a cluster",
    "action_bytes": "bytes of orders to a cluster",
}
"""What is said of coordinators and messages of a live run."""
Sources = str | Path | Schedule | Result | Sequence[str | Path]


@dataclass(frozen=True)
class Reported:
    """A report that was written."""

    out: tuple[Path, ...]
    """The page and its Markdown twin."""
    headline: tuple[str, ...]
    """What it says first."""
    valid: bool | None = None
    """Of a plan or a run of it, whether it keeps all rules."""
    run: Mapping[str, object] | None = None
    """Of a run that was carried out, its figures."""

    def __str__(self) -> str:
        return "\n".join([*self.headline, f"wrote {', '.join(map(str, self.out))}"])

    def to_dict(self) -> dict[str, object]:
        """The document of ``weft report --json``; ``valid`` only of a plan or a run, ``run`` only of a run."""
        about: dict[str, object] = {} if self.valid is None else {"valid": self.valid}
        about |= {} if self.run is None else {"run": self.run}
        fields = {"out": [str(path) for path in self.out], "headline": self.headline, **about}
        return document("report", None, fields)


def report(
    sources: Sources,
    out: str | Path = "report.html",
    *,
    title: str = "",
    baseline: str | None = None,
    subject: str | None = None,
    instance: str | None = None,
    claims: str | None = None,
    charts: bool = True,
    problem: Problem | None = None,
    whatif: str | Sequence[str] = (),
    noise: float | None = None,
    pareto: bool = False,
    command: str = "",
    on_notice: Callable[[str], None] = lambda line: None,
    around: Around = nullcontext,
) -> Reported:
    """Write sweeps and training runs, one plan, or one run of it, as one HTML page, with Markdown beside it.

    Parameters
    ----------
    sources
        Sweep folders, training runs, or JSON files of compare and bench. Or one plan: a result, a schedule,
        or a schedule file. Or the folder of one run of ``weft run``.
    out
        The page, or a .md alone.
    baseline, subject
        Whom the others are compared with (a plan: HEFT by default); whose losses are looked at.
    instance, claims
        Which one is drawn, e.g. ``load=0.5 test/0 seed=3``; whose claims are judged.
    charts
        Whether plans are drawn.
    problem
        What a schedule file is a plan of.
    whatif, noise, pareto
        Of a plan: changes of the machines such as ``add:a100=1``; how far run times vary; whether it is
        compared in cost and energy with plans on parts of the cluster.
    command, on_notice, around
        What stands at the end of the page as the command that wrote it; called with lines a person should
        see; with words for what takes long, to be open meanwhile.
    """
    path, told = _page(out), _Told(on_notice, around)
    changes = _changes(whatif)
    questions = reports.Questions(tuple(changes), noise, pareto)
    of_sweeps = {"subject": subject, "instance": instance, "claims": claims}
    of_plans = {"problem": problem, "whatif": changes, "noise": noise, "pareto": pareto}
    if (run := _run(sources)) is not None:
        _refuse({"baseline": baseline, **of_sweeps, **of_plans}, "is not about a run: leave it out")
        write = _write_live if is_agents_run(run) else _write_run
        return write(run, reports.RunOptions(title, charts, command), path, told)
    if (plan := _plan(sources, problem)) is not None:
        _refuse(of_sweeps, "is about sweeps and runs: leave it out")
        asked = reports.PlanOptions(title, baseline or "heft", charts, questions, command)
        return _write_plan(plan, asked, path, told)
    _refuse(of_plans, "is about one plan: give a schedule")
    chosen = reports.Options(title, baseline, subject, instance, charts, claims, command or "weft report")
    return _write(_paths(sources), chosen, path, told)


def _page(out: str | Path) -> Path:
    expect(out, (str, Path), "a path that ends in .html or .md", "out")
    if Path(out).suffix.lower() not in SUFFIXES:
        raise InputError(f"expected a path that ends in .html or .md, got {str(out)!r}", field="out")
    return Path(out)


def _changes(whatif: str | Sequence[str]) -> list[str]:
    expect_each(whatif, str, "changes such as add:a100=1", "whatif")
    return [whatif] if isinstance(whatif, str) else list(whatif)


class _Told(NamedTuple):
    """Who hears of the work."""

    notice: Callable[[str], None]
    around: Around


def _paths(sources: Sources) -> list[str | Path]:
    if isinstance(sources, Schedule | Result):
        return []
    several = [sources] if isinstance(sources, str | Path) else sources
    expect_each(several, (str, Path), "folders or files to report on", "sources")
    if not several:
        raise InputError("expected folders or files to report on, got none", field="sources")
    return list(several)


def _plan(sources: Sources, problem: Problem | None) -> reports.Plan | None:
    """The plan that is reported on; None where it is something else."""
    if isinstance(sources, Schedule | Result):
        return reports.plan_of(sources)
    several = _paths(sources)
    plans = [one for one in several if is_schedule(one)]
    if not plans:
        return None
    if len(several) > 1:
        others = ", ".join(str(one) for one in several if one is not plans[0])
        raise InputError(f"expected one schedule and nothing beside it, got {others} too", file=str(plans[0]))
    if problem is None:
        raise InputError(
            "a schedule file does not hold its problem: give that too", file=str(plans[0]), field="problem"
        )
    return reports.read_plan(plans[0], problem)


def _run(sources: Sources) -> Path | None:
    """The run that is reported on; None where it is something else."""
    several = _paths(sources)
    runs = [Path(one) for one in several if is_history(one) or is_agents_run(one)]
    if runs and len(several) > 1:
        others = ", ".join(str(one) for one in several if Path(one) != runs[0])
        raise InputError(f"expected one run and nothing beside it, got {others} too", file=str(runs[0]))
    return runs[0] if runs else None


def _refuse(given: Mapping[str, object], reason: str) -> None:
    """Refuse what was asked and cannot be answered about these sources."""
    for field, value in given.items():
        if value is not None and value is not False and value != []:
            raise InputError(reason, field=field)


def _write_plan(plan: reports.Plan, asked: reports.PlanOptions, path: Path, told: _Told) -> Reported:
    with told.around(f"checking {len(plan.schedule)} placements"):
        violations = validate(plan.schedule)
    with told.around(f"writing {path}"):
        made = reports.plan_report(plan, violations, asked, told.notice)
        return Reported(tuple(reports.write(made, path)), tuple(made.headline), not violations)


def _write_run(folder: Path, asked: reports.RunOptions, path: Path, told: _Told) -> Reported:
    with told.around(f"reading {folder}"):
        run = read_executed(folder)
    with told.around(f"writing {path}"):
        made = reports.run_report(run, asked)
        written = tuple(reports.write(made, path))
    return Reported(written, tuple(made.headline), not run.faults, run.facts())


def _write_live(folder: Path, asked: reports.RunOptions, path: Path, told: _Told) -> Reported:
    from weft.execute.agents.running import read_agents

    with told.around(f"reading {folder}, and simulating it again"):
        ran = read_agents(folder)
        figures = ran.to_dict()
        facts = {said: figures[key] for key, said in _MEASURED.items()}
        about = (folder.name, ran.setup.scenario, ran.setup.scheduler, ran.setup.seed)
        made = reports.live_report(reports.Lived(*about, ran.simulated, ran.run, ran.faults, facts), asked)
    with told.around(f"writing {path}"):
        written = tuple(reports.write(made, path))
    return Reported(written, tuple(made.headline), not ran.faults, ran.to_dict())


def _write(sources: Sequence[str | Path], chosen: reports.Options, path: Path, told: _Told) -> Reported:
    with told.around("reading"):
        found = reports.gather(sources, chosen.baseline, _recipe_of)
    _check_subject(chosen.subject, [name for swept in found.sweeps for name in swept.schedulers])
    with told.around(f"writing {path}"):
        made = reports.build(found, chosen, told.notice)
        return Reported(tuple(reports.write(made, path)), tuple(made.headline))


def _recipe_of(name: str) -> dict[str, object]:
    """A built-in training recipe, or a file that is still there, with all its defaults; else empty."""
    if name not in recipe_names() and not (name.endswith(".toml") and Path(name).is_file()):
        return {}
    try:
        return read_recipe(name).to_dict()
    except InputError:  # the file has become something else
        return {}


def _check_subject(subject: str | None, names: list[str]) -> None:
    if subject is not None and subject not in names:
        known = ", ".join(dict.fromkeys(names))
        raise InputError(
            f"expected one of {known}, got {subject!r}{did_you_mean(subject, names)}", field="subject"
        )
