"""Rules of the validator for instances of pipelines: overruns and order. Plain Python, no code of the kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator

from weft.model.oracle_input import OracleInput
from weft.model.schedule import ABORTED, DONE, EXPIRED, SKIPPED
from weft.model.violation import Violation, broken, later


def check_overruns(given: OracleInput) -> Iterator[Violation]:
    """Skipped: only behind an instance that is not done; aborted: nothing lasts beyond the deadline."""
    jobs = given.problem.jobs
    if all(job.overrun == "queue" for job in jobs):
        return
    rows = _rows_of_jobs(given)
    done = [_end(given, j) for j in range(len(jobs))]
    skipped = [any(given.outcome[row] == SKIPPED for row in own) for own in rows]
    for instances in _series(given):
        for place, j in enumerate(instances):
            if jobs[j].overrun == "abort":
                yield from _aborted(given, j, rows[j])
            if jobs[j].overrun != "skip":
                continue
            former = next((k for k in reversed(instances[:place]) if not skipped[k]), -1)
            is_free = former < 0 or not later(given, done[former], jobs[j].release)
            if skipped[j] and is_free:
                yield broken(
                    given, "overrun", "is skipped although the instance before it is done", rows[j][0]
                )
            if not skipped[j] and not is_free and rows[j]:
                yield broken(
                    given, "overrun", "is released while the instance before it is not done", rows[j][0]
                )
            if skipped[j] and any(given.outcome[row] != SKIPPED for row in rows[j]):
                yield broken(given, "overrun", "runs although its instance is skipped", rows[j][0])


def _aborted(given: OracleInput, j: int, rows: list[int]) -> Iterator[Violation]:
    job = given.problem.jobs[j]
    due = math.inf if job.deadline is None else job.release + job.deadline
    for row in rows:
        if given.device[row] >= 0 and later(given, given.finish[row], due):
            yield broken(given, "overrun", f"lasts until {given.finish[row]}, its job ends at {due}", row)
        is_cut = given.outcome[row] in (ABORTED, EXPIRED)
        if is_cut and later(given, due, given.finish[row]):
            yield broken(given, "overrun", f"is given up at {given.finish[row]}, before {due}", row)


def check_order(given: OracleInput) -> Iterator[Violation]:
    """A task starts after the same task of the last instance before it that ran it has ended."""
    jobs = given.problem.jobs
    if not any(job.in_order for job in jobs):
        return
    by_task: dict[int, list[int]] = {}
    for row in given.ran:
        by_task.setdefault(given.task[row], []).append(row)
    for instances in _series(given):
        upto: dict[int, float] = {}
        for j in instances:
            for k in range(given.first[j + 1] - given.first[j]):
                for row in by_task.get(given.first[j] + k, []):
                    before = upto.get(k, -math.inf)
                    if jobs[j].in_order and later(given, before, given.start[row]):
                        detail = f"starts at {given.start[row]}, before the instance ahead of it is through at {before}"
                        yield broken(given, "order", detail, row)
            for k in range(given.first[j + 1] - given.first[j]):
                ends = [given.through(row) for row in by_task.get(given.first[j] + k, [])]
                upto[k] = max([upto.get(k, -math.inf), *ends])


def _series(given: OracleInput) -> list[list[int]]:
    """Instances of every series by release."""
    found: dict[str, list[int]] = {}
    for j, job in enumerate(given.problem.jobs):
        if job.series:
            found.setdefault(job.series, []).append(j)
    return [sorted(own, key=lambda j: given.problem.jobs[j].release) for own in found.values()]


def _rows_of_jobs(given: OracleInput) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in given.problem.jobs]
    for row in given.good:
        rows[given.job[given.task[row]]].append(row)
    return rows


def _end(given: OracleInput, j: int) -> float:
    """When all tasks of a job are done; infinite: never."""
    end = given.problem.jobs[j].release
    for task in range(given.first[j], given.first[j + 1]):
        ends = [given.finish[row] for row in given.rows_of.get(task, []) if given.outcome[row] == DONE]
        end = max(end, min(ends, default=math.inf if given.runs[task] else -math.inf))
    return end
