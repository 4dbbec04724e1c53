"""Verbs that ask about plans: whatif, pareto; and the answer to ``schedule --noise``."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as opt
from weft.cli import output, plan
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.evaluation.questions.changes import Change
    from weft.evaluation.questions.pareto import Exploration
    from weft.evaluation.questions.robustness import Robustness
    from weft.evaluation.questions.whatif import Answer
    from weft.model.graph import Floats
    from weft.model.problem import Problem
    from weft.model.schedule import Schedule

TRADERS = "heft,peft,cpop,deft"
"""Planners whose plans ``pareto`` compares: fast ones that spread work differently."""
CHANGES = "--add CLASS=N, --remove CLASS=N, --bandwidth x2, --latency x2, --speed CLASS=x2 or --each"


Bandwidth = Annotated[
    list[str] | None,
    typer.Option("--bandwidth", metavar="X", help="Links between nodes: x2, 40Gbit/s; x2,x4 tries both."),
]
Latency = Annotated[
    list[str] | None, typer.Option("--latency", metavar="X", help="The same for latency: x0.5, 10us.")
]
Speed = Annotated[
    list[str] | None, typer.Option("--speed", metavar="CLASS=xF", help="A class F times as fast: a100=x1.5.")
]


class Pace:
    """Says when it is time to report progress where there is no terminal: after 2 s, 4 s, 8 s, ..."""

    def __init__(self, longest: float = 60.0) -> None:
        self.longest = longest
        self.wait = output.PATIENCE
        self.last = time.monotonic()

    def is_due(self) -> bool:
        """Whether to speak now; the next time comes later."""
        now = time.monotonic()
        if output.is_animated() or now - self.last < self.wait:
            return False
        self.last, self.wait = now, min(2 * self.wait, self.longest)
        return True


def whatif(
    file: opt.File,
    cluster: opt.Cluster = None,
    add: Annotated[
        list[str] | None, typer.Option("--add", "-a", metavar="CLASS=N", help="Add this many devices.")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", "-r", metavar="CLASS=N", help="Remove this many devices.")
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Try one device more and one fewer of every class.")
    ] = False,
    bandwidth: Bandwidth = None,
    latency: Latency = None,
    speed: Speed = None,
    scheduler: opt.Scheduler = "heft",
    ccr: opt.Ccr = None,
    budget: opt.Budget = None,
    effort: opt.Effort = None,
    seed: opt.Seed = 0,
    copies: opt.Copies = True,
    as_json: opt.Json = False,
) -> None:
    """Say what other devices, links or speeds would change."""
    from weft.evaluation.questions import whatif as asking

    changes = _changes(add, remove) + _tunings(bandwidth, latency, speed)
    if not changes and not each:
        raise InputError(f"expected a change: {CHANGES}", field="--add")
    problem = plan.load(file, cluster, ccr, copies)
    make = _maker([scheduler], seed, opt.parse_duration(budget), effort)
    with output.until_interrupt("the changes planned so far") as stop:
        answer = asking.whatif(problem, changes, lambda changed: make(changed, scheduler), each=each)
    opt.say_unused([scheduler], {"--budget": budget, "--effort": effort})
    if as_json:
        rows, skipped = ([asdict(row) for row in part] for part in (answer.rows, answer.skipped))
        fields = {"scheduler": scheduler, "rows": rows, "skipped": skipped, "time_unit": _unit(problem)}
        output.emit(output.document("whatif", seed, fields | stop.fields))
    else:
        _show_changes(answer, problem, scheduler)
    if stop.is_asked:
        raise output.Interrupted(output.count(len(answer.rows), "plan"))
    if not as_json:
        output.next_command(f"weft pareto {opt.again(file, cluster, ccr, copies, seed)}")


def _changes(add: list[str] | None, remove: list[str] | None) -> list[Change]:
    from weft.evaluation.questions.changes import parse_change

    more: list[Change] = [parse_change(text, 1, "--add") for text in opt.split_names(add)]
    return more + [parse_change(text, -1, "--remove") for text in opt.split_names(remove)]


def _tunings(bandwidth: list[str] | None, latency: list[str] | None, speed: list[str] | None) -> list[Change]:
    from weft.evaluation.questions.changes import parse_links, parse_speed

    links: list[Change] = [
        parse_links(text, what)
        for what, given in (("bandwidth", bandwidth), ("latency", latency))
        for text in opt.split_names(given)
    ]
    return links + [parse_speed(text) for text in opt.split_names(speed)]


def _unit(problem: Problem) -> str:
    return problem.jobs[0].graph.time_unit


def _maker(
    schedulers: Sequence[str], seed: int, budget: float | None, effort: int | None
) -> Callable[[Problem, str], Schedule]:
    """A function that plans with one of these schedulers, all of them known and compiled."""
    from weft import catalog, doctor

    for name in schedulers:
        catalog.planner(name)
    with output.progress(f"compiling {', '.join(schedulers)}"):
        doctor.warm(tuple(schedulers))

    def make(problem: Problem, scheduler: str) -> Schedule:
        with output.progress(f"planning {problem.num_tasks} tasks with {scheduler}"):
            return catalog.schedule(problem, scheduler, seed=seed, budget=budget, effort=effort).schedule

    return make


def _show_changes(answer: Answer, problem: Problem, scheduler: str) -> None:
    unit = _unit(problem)
    numeric = ("devices", f"makespan [{unit}]", "change", "cost", "change ", "energy [J]", "change  ")
    tail = ("busy", f"bound [{unit}]")
    title = f"{problem.name}: {output.count(problem.num_tasks, 'task')}, planned by {scheduler}"
    table = output.table(["cluster", *numeric, *tail], (*numeric, *tail), output.safe(title))
    for k, row in enumerate(answer.rows):
        pairs = (
            (row.makespan, row.makespan_change_percent),
            (row.cost, row.cost_change_percent),
            (row.energy, row.energy_change_percent),
        )
        cells = [
            text
            for value, change in pairs
            for text in (output.number(value), output.percent(change, "+") if k else "")
        ]
        busy = output.percent(100.0 * row.utilisation)
        bound = output.number(row.lower_bound)
        table.add_row(output.safe(row.change), str(row.devices), *cells, busy, bound)
    output.show(table, spare=("busy", "devices", f"bound [{unit}]"))
    _name_missing(problem)
    for skipped in answer.skipped:
        output.say(f"  {output.safe(skipped.change)} left out: {output.safe(skipped.reason)}")


def pareto(
    file: opt.File,
    cluster: opt.Cluster = None,
    schedulers: Annotated[
        list[str] | None,
        typer.Option("--scheduler", "--schedulers", "-s", metavar="A,B", help=f"Default: {TRADERS}."),
    ] = None,
    most: Annotated[
        int, typer.Option("--most", metavar="N", min=1, help="Plans to make, over all schedulers.")
    ] = 400,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the front here (PNG or SVG).")
    ] = None,
    ccr: opt.Ccr = None,
    seed: opt.Seed = 0,
    copies: opt.Copies = True,
    as_json: opt.Json = False,
) -> None:
    """Find the plans no other beats in makespan, cost and energy."""
    from weft.evaluation.questions import pareto as trading

    output.check_folder(plot)
    opt.check_chart(plot, "--plot", "a chart of the Pareto front")
    names = opt.scheduler_names(schedulers) or TRADERS.split(",")
    problem = plan.load(file, cluster, ccr, copies)
    make = _maker(names, seed, None, None)
    with output.until_interrupt("the plans so far") as stop:
        found = trading.explore(problem, names, make, most=most, seed=seed, tell=_teller())
    if plot is not None:
        with output.progress(f"drawing {plot}"):
            trading.draw(found, plot, title=f"{problem.name} on parts of {problem.cluster.name}")
    if as_json:
        output.emit(output.document("pareto", seed, _front_fields(found, plot) | stop.fields))
    else:
        _show_front(found, problem)
        if plot is not None:
            output.note(f"wrote {plot}")
    if stop.is_asked:
        raise output.Interrupted(output.count(len(found.points), "plan"))
    if not as_json:
        output.next_command(f"weft whatif {opt.again(file, cluster, ccr, copies, seed)} --each")


def _teller() -> Callable[[int, int], None]:
    pace = Pace()

    def tell(done: int, total: int) -> None:
        if pace.is_due():
            output.note(f"weft: {done} of {total} plans made ...")

    return tell


def _front_fields(found: Exploration, plot: Path | None) -> dict[str, object]:
    return {
        "rows": [asdict(point) for point in found.best],
        "plans": len(found.points),
        "clusters": found.num_clusters,
        "possible_clusters": found.num_possible,
        "infeasible_clusters": found.num_infeasible,
        "skipped": [{"scheduler": name, "reason": reason} for name, reason in found.skipped.items()],
        "time_unit": found.time_unit,
        "plot": None if plot is None else str(plot),
    }


def _show_front(found: Exploration, problem: Problem) -> None:
    numeric = (f"makespan [{found.time_unit}]", "cost", "energy [J]")
    title = f"{problem.name} on parts of {problem.cluster.name}: nothing found beats these in all three"
    table = output.table([*numeric, "scheduler", "devices"], numeric, output.safe(title))
    for point in found.best:
        values = (output.number(value) for value in point.objectives)
        table.add_row(*values, point.scheduler, output.safe(point.label))
    output.show(table)
    parts = (
        f"{found.num_clusters} of {found.num_possible} parts"
        if found.num_clusters < found.num_possible
        else f"all {found.num_possible} parts"
    )
    output.say(
        f"{len(found.points)} plans on {parts} of the cluster, {found.num_infeasible} cannot run it all"
    )
    _name_missing(problem)
    for name, reason in found.skipped.items():
        output.say(f"  {name} left out: {output.safe(reason)}")


def _name_missing(problem: Problem) -> None:
    """Say which column of cost and energy is empty, and what the cluster file lacks for it."""
    classes = problem.cluster.classes
    for column, word, is_given in (
        ("cost", "price", any(c.price for c in classes)),
        ("energy", "watts", any(c.watts or c.idle_watts for c in classes)),
    ):
        if not is_given:
            output.say(f"  the cluster gives no {word}: {column} is 0 everywhere")


def under_noise(schedule: Schedule, noise: float, seeds: int, seed: int) -> tuple[Robustness, Floats]:
    """Makespans of a plan under noise, drawn with ``seeds`` seeds from ``seed`` on, and slack per row."""
    from weft.evaluation.questions.robustness import robustness, slack

    with output.progress(f"replaying {len(schedule)} placements {seeds} times"):
        return robustness(schedule, noise, range(seed, seed + seeds)), slack(schedule)


def add_noise(document: dict[str, object], found: tuple[Robustness, Floats]) -> None:
    """Put ``noise`` into a schedule document and ``slack`` into its placements."""
    robust, spare = found
    document["noise"] = robust.to_dict()
    placements = document["placements"]
    assert isinstance(placements, list)
    for row, value in zip(placements, spare.tolist(), strict=True):
        row["slack"] = value


def noise_summary(schedule: Schedule, found: tuple[Robustness, Floats], most: int = 5) -> str:
    """Two lines for a person: the spread, and what must not be late."""
    robust, spare = found
    unit = schedule.time_unit
    critical = [schedule.problem.task_name(int(task)) for task in schedule.task[spare == 0.0][:most]]
    count = int((spare == 0.0).sum())
    more = ", ..." if count > most else ""
    return (
        f"  under noise  median {output.number(robust.median)} {unit}, 95 % of runs within "
        f"{output.number(robust.p95)} {unit}, worst {output.number(robust.worst)} {unit} "
        f"({len(robust.rows)} runs, run times vary by {output.percent(100.0 * robust.noise)})\n"
        f"  slack        {count} of {len(spare)} placements have none: "
        f"{output.safe(', '.join(critical))}{more}"
    )
