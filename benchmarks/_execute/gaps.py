"""What lay between tasks in a run that is over: the numbers a plan of the next run needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean
from typing import Any

from benchmarks._execute.world import Links
from weft.evaluation.executed import Executed, executed_of
from weft.evaluation.executed.records import FINISHED, Attempt
from weft.model.problem import Problem


@dataclass(frozen=True)
class Gaps:
    """Seconds by which tasks started later than they could have, and ran longer than was known."""

    here: tuple[float, ...]
    """After the task before on the same worker, or a parent there."""
    there: tuple[float, ...]
    """After a parent on another worker, without the time its data takes."""
    longer: tuple[float, ...]

    def links(self, bandwidth: float) -> Links:
        """What a plan needs to expect: a gap per task, and a latency for parents elsewhere."""
        gap = max(0.0, mean(self.here or (0.0,)) + mean(self.longer or (0.0,)))
        apart = mean(self.there) - mean(self.here or (0.0,)) if self.there else 0.0
        return Links(gap, max(0.0, apart), bandwidth)

    def __add__(self, other: Gaps) -> Gaps:
        return Gaps(self.here + other.here, self.there + other.there, self.longer + other.longer)


def gaps_of(rows: Sequence[Any], problem: Problem, bandwidth: float) -> Gaps:
    """The gaps of a run by its history."""
    run = executed_of(rows, problem)
    ran = {one.task: one for one in run.attempts if one.outcome == FINISHED}
    parents = {task.task: task.parents for task in run.tasks}
    graph = problem.jobs[0].graph
    size = {
        (graph.names[a], graph.names[b]): data
        for a, b, data in zip(
            graph.sources.tolist(), graph.targets.tolist(), graph.data.tolist(), strict=True
        )
    }
    here, there = [], []
    for device in {one.device for one in ran.values()}:
        lane = sorted(
            (one for one in ran.values() if one.device == device), key=lambda one: one.started or 0.0
        )
        for before, one in pairwise(lane):
            near = max([before.ended or 0.0, *(_ends(one, parents, ran, is_here=True))])
            far = [
                (ran[p].ended or 0.0) + size[p, one.task] / bandwidth
                for p in parents[one.task]
                if ran[p].device != device
            ]
            late = max(far, default=0.0)
            (there if late > near else here).append((one.started or 0.0) - max(near, late))
    return Gaps(tuple(here), tuple(there), tuple(_longer(run, problem)))


def _ends(one: Attempt, parents: Any, ran: dict[str, Attempt], *, is_here: bool) -> list[float]:
    return [ran[p].ended or 0.0 for p in parents[one.task] if (ran[p].device == one.device) == is_here]


def _longer(run: Executed, problem: Problem) -> list[float]:
    overhead = float(problem.cluster.classes[0].overhead)
    both = [(task.planned, task.actual) for task in run.tasks]
    return [a.length - (p.length - overhead) for p, a in both if p is not None and a is not None]
