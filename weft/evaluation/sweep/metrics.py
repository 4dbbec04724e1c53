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
    may_be_zero: bool = False
    """Whether values may be 0 or below. Then schedulers are compared by differences of plain means, else by ratios."""

    @property
    def step(self) -> tuple[float, str]:
        """How a difference is stated: so many of this unit. One of a share is 100 points, one percent is one point."""
        if self.unit == "%":
            return 1.0, "points"
        return (100.0, "points") if self.most == 1.0 else (1.0, "" if self.unit == TIME else self.unit)

    @property
    def compared_in(self) -> str:
        """The unit of comparisons; empty where they are plain numbers."""
        return self.step[1] if self.may_be_zero else "%"


def _count(name: str, words: str, unit: str = "") -> Metric:
    return Metric(name, words, unit, is_count=True, may_be_zero=True)


METRICS = {
    one.name: one
    for one in (
        Metric("makespan", "makespan", TIME),
        Metric("slr", "makespan over the critical path", least=1.0, rescales="makespan"),
        Metric("speedup", "speed-up over one device", lower_is_better=False, rescales="makespan"),
        Metric("utilisation", "utilisation", lower_is_better=None, most=1.0),
        Metric("mean_jct", "mean job time", TIME),
        Metric("gap_percent", "distance above the lower bound", "%", rescales="makespan", may_be_zero=True),
        Metric("lower_bound", "lower bound", TIME, None),
        _count("copies", "copies of tasks"),
        Metric("p99_jct", "99th percentile of the job time", TIME),
        Metric("batch_fill", "batch fill", lower_is_better=None, most=1.0),
        _count("expired", "expired jobs"),
        _count("misses", "missed deadlines"),
        Metric("mean_completion", "mean completion time", "steps"),
        Metric("median_completion", "median completion time", "steps"),
        Metric("p95_completion", "95th percentile of the completion time", "steps"),
        Metric("variance", "variance of the completion time", lower_is_better=None, may_be_zero=True),
        _count("longest_wait", "longest wait", "steps"),
        Metric("cpu_use", "share of the CPUs in use", lower_is_better=None, most=1.0, may_be_zero=True),
        Metric("gpu_use", "share of the GPUs in use", lower_is_better=None, most=1.0, may_be_zero=True),
        _count("peak_alive", "most tasks alive at once"),
        Metric("miss_macro", "macro miss ratio", most=1.0, may_be_zero=True),
        Metric("miss_worst", "worst miss ratio", most=1.0, may_be_zero=True),
        Metric("lateness", "greatest lateness in periods", least=None, may_be_zero=True),
        Metric("response_p50", "median response in periods", may_be_zero=True),
        Metric("response_p99", "99th percentile of the response in periods", may_be_zero=True),
        _count("firm_violations", "windows of 10 instances with fewer than 8 in time"),
        Metric("age", "age of results when they are replaced, in periods", may_be_zero=True),
        Metric("fusion_age", "age of what is fused", TIME),
        Metric("fluid_load", "least share of the devices that the pipelines need", lower_is_better=None),
        Metric("best_known", "best known makespan", TIME, None),
        *(
            Metric(name, f"makespan above the bound, {said}", "%", may_be_zero=True)
            for name, said in VALIDATED.items()
        ),
        *(
            Metric(f"{name}_percent", f"job time against the {name}", "%", least=-100.0, may_be_zero=True)
            for name in GROUPS
        ),
    )
}


def metric(name: str) -> Metric:
    """The metric of this name."""
    return METRICS.get(name) or Metric(name, name, least=None)
