"""How a run differs from its plan: order on workers, run times by kind; and from other schedulers: shadow, split."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence

from weft.evaluation.executed.expectations import Expectations
from weft.evaluation.executed.records import FINISHED, Attempt, JobRun, Key, KindError, Shadow, Split, TaskRun
from weft.evaluation.executed.story import Story
from weft.evaluation.statistics import difference_interval


def inversions(tasks: Iterable[TaskRun], device: str) -> tuple[int, int]:
    """Of the tasks that were planned on a device and ran there: pairs in the other order, and most places moved."""
    rows = [
        (task.actual.start, task.planned.start, k)
        for k, task in enumerate(tasks)
        if task.actual is not None
        and task.planned is not None
        and task.actual.device == task.planned.device == device
    ]
    rows.sort()
    later: list[float] = []
    pairs = 0
    for place, (_, planned, _) in enumerate(rows):
        pairs += place - bisect_right(later, planned)
        insort(later, planned)
    by_plan = sorted(range(len(rows)), key=lambda place: (rows[place][1], place))
    return pairs, max((abs(place - rank) for rank, place in enumerate(by_plan)), default=0)


def ratio_of(known: Expectations, attempts: Iterable[Attempt]) -> float | None:
    """Mean of run time over expected run time, of executions that ended well."""
    ratios = []
    for one in attempts:
        expected = known.run_time(one.key, one.device)
        if one.outcome == FINISHED and expected is not None and expected > 0:
            ratios.append(one.run_time / expected)
    return sum(ratios) / len(ratios) if ratios else None


def kind_errors(known: Expectations, attempts: Iterable[Attempt]) -> tuple[KindError, ...]:
    """Run times planned and real by class and kind, what was most wrong first."""
    groups: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for one in attempts:
        expected = known.run_time(one.key, one.device)
        if one.outcome == FINISHED and expected is not None:
            place = (known.device_class.get(one.device, ""), known.kind(one.key))
            groups.setdefault(place, []).append((expected, one.run_time))
    found = [
        KindError(*place, len(rows), *(sum(column) / len(rows) for column in zip(*rows, strict=True)))
        for place, rows in groups.items()
    ]
    return tuple(
        sorted(found, key=lambda one: -max(one.ratio, 1.0 / one.ratio if one.ratio else float("inf")))
    )


def shadow_of(story: Story) -> Shadow | None:
    """How far another scheduler agreed: the device it gave each task first, against the run's first."""
    if not story.shadows:
        return None
    first: dict[Key, tuple[str, float]] = {}
    for one in story.attempts:
        first.setdefault(one.key, (one.device, one.submitted))
    wanted: dict[Key, tuple[str, float]] = {}
    for time, row in story.shadows:
        for job, task, device in row["starts"]:
            wanted.setdefault((job, task), (device, time))
    both = [(first[key], wanted[key]) for key in wanted if key in first]
    agreeing = sum(own[0] == other[0] for own, other in both)
    lead = sum(own[1] - other[1] for own, other in both) / len(both) if both else 0.0
    return Shadow(str(story.shadows[0][1]["scheduler"]), len(both), agreeing, lead)


def split_of(jobs: Sequence[JobRun]) -> Split | None:
    """Job times of two schedulers, where jobs were divided between two."""
    times: dict[str, list[float]] = {}
    for job in jobs:
        if job.scheduler and job.time is not None and job.outcome == "done":
            times.setdefault(job.scheduler, []).append(job.time)
    if len(times) != 2:
        return None
    (first, own), (second, other) = times.items()
    has_both = min(len(own), len(other)) >= 2
    return Split(
        first,
        second,
        len(own),
        len(other),
        sum(own) / len(own),
        sum(other) / len(other),
        difference_interval(other, own) if has_both else None,
    )
