"""Figures that the rows of a sweep hold: what each is called, in which unit it is, and which way is better.

A row brings its own figures by name; one that is not in the table is shown by that name.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.io.runs import GROUPS, VALIDATED

TIME = "time"
"""The unit of figures that are in the time unit of the problems."""


@dataclass(frozen=True)
class Metric:
    """One figure of a row."""

    name: str
    words: str
    """What a person calls it."""
    unit: str = ""
    lower_is_better: bool | None = True
    """None: neither way is."""
    least: float | None = 0.0
    most: float | None = None
    """No value lies beyond these; None: any may."""
    rescales: str = ""
    """Another figure that orders the schedules of one problem in the same way."""
    is_count: bool = False
    """Whether it counts things, of which there may be none."""


METRICS = {
    one.name: one
    for one in (
        Metric("makespan", "makespan", TIME),
        Metric("slr", "makespan over the critical path", least=1.0, rescales="makespan"),
        Metric("speedup", "speed-up over one device", lower_is_better=False, rescales="makespan"),
        Metric("utilisation", "utilisation", lower_is_better=None, most=1.0),
        Metric("mean_jct", "mean job time", TIME),
        Metric("gap_percent", "distance above the lower bound", "%", rescales="makespan"),
        Metric("lower_bound", "lower bound", TIME, None),
        Metric("copies", "copies of tasks", is_count=True),
        Metric("p99_jct", "99th percentile of the job time", TIME),
        Metric("batch_fill", "batch fill", lower_is_better=None, most=1.0),
        Metric("expired", "expired jobs", is_count=True),
        Metric("misses", "missed deadlines", is_count=True),
        Metric("miss_macro", "macro miss ratio", most=1.0),
        Metric("miss_worst", "worst miss ratio", most=1.0),
        Metric("lateness", "greatest lateness in periods", least=None),
        Metric("response_p50", "median response in periods"),
        Metric("response_p99", "99th percentile of the response in periods"),
        Metric("firm_violations", "windows of 10 instances with fewer than 8 in time", is_count=True),
        Metric("age", "age of results when they are replaced, in periods"),
        Metric("fusion_age", "age of what is fused", TIME),
        Metric("fluid_load", "least share of the devices that the pipelines need", lower_is_better=None),
        Metric("best_known", "best known makespan", TIME, None),
        *(Metric(name, f"makespan above the bound, {said}", "%") for name, said in VALIDATED.items()),
        *(Metric(f"{name}_percent", f"job time against the {name}", "%", least=-100.0) for name in GROUPS),
    )
}


def metric(name: str) -> Metric:
    """The metric of this name."""
    return METRICS.get(name) or Metric(name, name, least=None)
