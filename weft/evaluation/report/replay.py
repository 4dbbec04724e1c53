"""An instance of a sweep made again, from scenario and seed, to draw what its schedulers did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft import catalog
from weft.errors import InputError
from weft.evaluation.figures.gantt import labels, pack
from weft.evaluation.report.blocks import Gantt, Panel
from weft.evaluation.sweep.batches import Trace, record
from weft.evaluation.sweep.checking import trace_hash
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.pairing import Sample
from weft.evaluation.sweep.plan_runs import noise_seed
from weft.evaluation.sweep.queue_runs import Outcome, workload_seed
from weft.kinds import QUEUES, TASKS
from weft.model.graph import Floats, Ints
from weft.model.problem import Problem, realise
from weft.model.schedule import Schedule
from weft.scenarios import Recipe, Scenario
from weft.sim.queues.layout import kind_names
from weft.sim.tasks.replay import replayed

MOST_JOBS = 120
"""Jobs of a stream in one chart; a stream of ten thousand is a wall of bars."""


@dataclass(frozen=True)
class Instance:
    """One sample of a sweep, ready to be run again."""

    scenario: Scenario
    split: str
    index: int
    sample: Sample
    effort: int | None


def instance(swept: Evaluation, cell: str, sample: Sample) -> Instance:
    """Find a sample again; an error says what is missing."""
    asked = swept.asked
    if asked is None:
        raise InputError("only the instances of a sweep can be made again", file=swept.source)
    is_file, effort = asked.generator == "files", asked.config.get("effort")
    recipe = Recipe.from_dict(asked.recipe, (sample.problem,) if is_file else ())
    settings = next(one.settings for one in swept.cells if one.label == cell)
    values = tuple((s.name, s.check(settings.get(s.name, s.default))) for s in recipe.settings)
    chosen = Scenario(recipe, values, cell)
    for index in range(1 if is_file else asked.num_problems):
        if chosen.problem_name(asked.split, index) == sample.problem:
            return Instance(chosen, asked.split, index, sample, effort if isinstance(effort, int) else None)
    raise InputError(f"no problem {sample.problem!r} in this scenario", file=swept.source)


def draw(
    swept: Evaluation, cell: str, sample: Sample, schedulers: Sequence[str], *, at: str = "middle"
) -> Gantt:
    """The same instance under several schedulers, on one time axis.

    Parameters
    ----------
    at
        Which jobs of a stream are shown: those in the ``middle``, or where the first scheduler
        loses most to the second (``loss``).
    """
    if swept.kind is TASKS:
        raise InputError("work that is dispatched task by task is not drawn", file=swept.source)
    made = instance(swept, cell, sample)
    where = f"{cell + ', ' if cell else ''}{sample}"
    if swept.kind is QUEUES:
        return _stream_gantt(swept, made, schedulers, where, at)
    problem = made.scenario.problem(made.split, made.index)
    plans = [_plan(problem, made, name) for name in schedulers]
    kinds = tuple(dict.fromkeys(kind for plan in plans for kind in labels(plan)[0]))
    panels = [
        plan_panel(swept.shown(name), plan, kinds) for name, plan in zip(schedulers, plans, strict=True)
    ]
    is_same = all(
        has_trace(swept, cell, sample, name, trace_hash(plan))
        for name, plan in zip(schedulers, plans, strict=True)
    )
    return Gantt(tuple(panels), kinds, plans[0].time_unit, f"{where}{doubt(is_same)}")


def doubt(is_same: bool) -> str:
    """What a caption adds where what was made again differs from its row."""
    return (
        "" if is_same else ". Drawn with other versions than the sweep ran with: it may differ from its row"
    )


def has_trace(swept: Evaluation, cell: str, sample: Sample, scheduler: str, trace: str) -> bool:
    """Whether the row of a scheduler on a sample says the same."""
    rows = swept.rows_of(cell, scheduler)
    return any((r.problem, r.seed, r.trace) == (sample.problem, sample.seed, trace) for r in rows)


# -- plans ----------------------------------------------------------------------------------------


def _plan(problem: Problem, made: Instance, scheduler: str) -> Schedule:
    found = catalog.schedule(problem, scheduler, seed=made.sample.seed, effort=made.effort).schedule
    if problem.varies:
        return replayed(found, realise(found.problem, noise_seed(made.sample.problem, made.sample.seed)))
    return found


def plan_panel(title: str, plan: Schedule, kinds: tuple[str, ...]) -> Panel:
    """A plan for a chart whose kinds are these."""
    bars = pack(plan)
    own, label = labels(plan)
    place = np.array([kinds.index(name) for name in own], dtype=np.int64)
    slots = plan.problem.cluster.slots[plan.device[bars.row]]
    first = min(job.release for job in plan.problem.jobs)
    quality = f"makespan {plan.makespan:.5g} {plan.time_unit}, {100 * plan.utilisation:.0f} % busy"
    return Panel(
        title=f"{title}: {quality}",
        lanes=plan.problem.cluster.device_names,
        lane=plan.device[bars.row].astype(np.int64),
        low=bars.low / slots,
        high=bars.high / slots,
        start=plan.start[bars.row],
        finish=plan.finish[bars.row],
        kind=place[label[plan.task[bars.row]]] if len(bars.row) else bars.row,
        is_copy=(plan.copy[bars.row] > 0).astype(np.int64),
        names=tuple(plan.placement(row).task for row in bars.row.tolist()),
        size=_sizes(plan, bars.row),
        busy=tuple(plan.device_utilisation.tolist()),
        bound=first + plan.bound.value if plan.bound.value > 0 else None,
    )


def _sizes(plan: Schedule, rows: Ints) -> Ints:
    """How many tasks each bar stands for: those of its batch."""
    together = np.bincount(plan.batch[plan.batch >= 0], minlength=1)
    batch = plan.batch[rows]
    return np.where(batch >= 0, together[np.maximum(batch, 0)], 1).astype(np.int64)


# -- streams --------------------------------------------------------------------------------------


def _stream_gantt(swept: Evaluation, made: Instance, schedulers: Sequence[str], where: str, at: str) -> Gantt:
    case = made.scenario.stream(made.split, made.index)
    seed = workload_seed(made.scenario.recipe.seed, made.sample.problem, made.sample.seed)
    found = [record(name, case, seed) for name in schedulers]
    arrival = np.sort(case.arrivals.draw(seed))
    first, last = _window(arrival, [outcome for outcome, _ in found], at)
    panels = [
        _stream_panel(swept.shown(name), outcome, trace, first, last)
        for name, (outcome, trace) in zip(schedulers, found, strict=True)
    ]
    is_same = all(
        has_trace(swept, made.scenario.label, made.sample, name, outcome.trace(0))
        for name, (outcome, _) in zip(schedulers, found, strict=True)
    )
    jobs = "the jobs on which it loses most" if at == "loss" else "jobs from the middle"
    unit = case.problem.time_unit
    note = f"{where}: {jobs}, {first:.0f} to {last:.0f} {unit} of the stream{doubt(is_same)}"
    return Gantt(tuple(panels), kind_names(case.problem), unit, note, (first, last))


def _window(arrival: Floats, found: Sequence[Outcome], at: str) -> tuple[float, float]:
    """A stretch of the stream worth looking at, from one arrival to another."""
    num = len(arrival)
    width = min(MOST_JOBS, num)
    begin = (num - width) // 2
    if at == "loss" and len(found) > 1 and num > width:
        total = np.concatenate([[0.0], np.cumsum(found[0].job_times[0] - found[1].job_times[0])])
        begin = int(np.argmax(total[width:] - total[:-width]))
    return float(arrival[begin]), float(arrival[begin + width - 1])


def _stream_panel(title: str, outcome: Outcome, trace: Trace, first: float, last: float) -> Panel:
    is_in = (trace.finish > first) & (trace.start < last)
    devices = outcome.setup.problem.cluster
    lanes = [devices.device_names[d] for d in np.repeat(np.arange(devices.num_devices), devices.slots)]
    start, finish = np.maximum(trace.start[is_in], first), np.minimum(trace.finish[is_in], last)
    busy = np.bincount(trace.device[is_in], finish - start, len(lanes)) / max(last - first, 1e-300)
    count = int(is_in.sum())
    unit = outcome.setup.problem.time_unit
    return Panel(
        title=f"{title}: mean job time {float(outcome.mean_jct[0]):.5g} {unit} over the whole stream",
        lanes=tuple(lanes),
        lane=trace.device[is_in],
        low=np.zeros(count),
        high=np.ones(count),
        start=trace.start[is_in],
        finish=trace.finish[is_in],
        kind=trace.kind[is_in],
        is_copy=np.zeros(count, np.int64),
        names=(),
        size=trace.size[is_in],
        busy=tuple(busy.tolist()),
    )
