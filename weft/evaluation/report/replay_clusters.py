"""Episodes of a sweep of allocators made again, from scenario and seed, to draw what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft import catalog
from weft.evaluation.report.blocks import Gantt
from weft.evaluation.report.cluster_chart import UNIT, cluster_panel
from weft.evaluation.report.plan_chart import MOST_BARS, fitted
from weft.evaluation.report.replay import doubt, has_trace, instance
from weft.evaluation.sweep.elastic_runs import world_of
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.pairing import Sample
from weft.kinds import ELASTIC
from weft.model.elastic_run import ElasticRun
from weft.schedulers.allocators.running import run_all
from weft.wording import number


@dataclass(frozen=True)
class Episode:
    """One sample under several allocators."""

    sample: Sample
    runs: tuple[ElasticRun, ...]
    """One per allocator."""
    is_same: bool
    """Whether all of it happened as in the rows."""


def episode(swept: Evaluation, cell: str, sample: Sample, schedulers: Sequence[str]) -> Episode:
    """A sample made again under each of these allocators."""
    made = instance(swept, cell, sample)
    problem = made.scenario.elastic(made.split, made.index)
    world = world_of(made.scenario, sample.problem, sample.seed)
    runs = tuple(run_all(catalog.find(name, ELASTIC), problem, [world])[0] for name in schedulers)
    is_same = all(
        has_trace(swept, cell, sample, name, run.trace) for name, run in zip(schedulers, runs, strict=True)
    )
    return Episode(sample, runs, is_same)


def draw_clusters(swept: Evaluation, cell: str, sample: Sample, schedulers: Sequence[str]) -> Gantt:
    """The tasks of one sample on their clusters, under several allocators on one time axis."""
    found = episode(swept, cell, sample, schedulers)
    panels, said = [], []
    for name, run in zip(map(swept.shown, schedulers), found.runs, strict=True):
        title = f"{name}: mean completion time {number(run.mean_completion, 4)} {UNIT}"
        panel, left_out = fitted(cluster_panel(title, run), MOST_BARS // len(schedulers))
        panels.append(panel)
        said += [f"Of {name}, {left_out}"] if left_out else []
    kinds = tuple(kind.name for kind in found.runs[0].problem.types)
    where = f"{cell + ', ' if cell else ''}{sample}{doubt(found.is_same)}"
    return Gantt(tuple(panels), kinds, UNIT, ". ".join([where, *said]))
