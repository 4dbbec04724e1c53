"""What the oracle of histories asks when a job or the run ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weft.model.history_state import Job, Task

Fault = tuple[str, Task | None, str]
"""Rule, task, and what is wrong."""


def of_job(job: Job, outcome: str, is_all_or_nothing: bool) -> Iterator[Fault]:
    """What does not fit the end of a job."""
    tasks = list(job.tasks.values())
    yield from _skips(tasks)
    if outcome == "expired" or (outcome == "failed" and is_all_or_nothing):
        return
    for task in tasks:
        if task.is_open:
            yield "ended", task, f"job {job.name} ends although an order for it is open"
        elif not task.is_settled and (outcome == "done" or not task.has_failed):
            yield "ended", task, f"job {job.name} is {outcome}, but this was not reported, skipped or dropped"
    failed = [task for task in tasks if has_failed_for_good(task)]
    if outcome == "done":
        for task in tasks:
            if task.because is not None:
                yield "ended", task, f"job {job.name} is done, but this was dropped"
        return
    if not failed:
        yield "ended", None, f"job {job.name} is failed, but none of its tasks has failed for good"
    yield from _drops(tasks, failed)


def has_failed_for_good(task: Task) -> bool:
    """Whether a task failed and is not to be tried again, as far as the end of its job tells."""
    return task.has_failed and (task.has_taken or not task.is_settled)


def _drops(tasks: list[Task], failed: list[Task]) -> Iterator[Fault]:
    """A task that failed for good takes with it what needs it, and nothing else."""
    needing = {one for task in failed for one in task.descendants()}
    for task in tasks:
        if task.because is not None and task not in needing:
            yield "dropped", task, "was dropped, but needs nothing that failed for good"
        if task in needing and task.because is None and not task.is_reported and not task.is_skipped:
            yield "dropped", task, "needs what failed for good, but was not dropped"


def _skips(tasks: list[Task]) -> Iterator[Fault]:
    """A task is skipped where its parents ended and none of them leads to it."""
    for task in (one for one in tasks if one.is_skipped):
        parents = task.parents
        is_chosen = any(task.name in (parent.branch or ()) for parent in parents)
        has_cause = any(parent.is_skipped or parent.branch is not None for parent in parents)
        is_known = all(parent.is_skipped or parent.is_reported for parent in parents)
        if is_chosen or not has_cause or not is_known:
            yield "skipped", task, "was skipped, but no branch of its parents leaves it out"


def of_run(jobs: Iterable[Job], is_ok: bool) -> Iterator[Fault]:
    """What does not fit the end of the run: after a good one nothing is open, after a bad one nothing is forgotten."""
    for job in jobs:
        tasks = list(job.tasks.values())
        if is_ok:
            if not job.outcome:
                yield "ended", None, f"the run ends well, but job {job.name} has not ended"
            for task in tasks:
                if task.is_open:
                    yield "ended", task, "the run ends well, but an order for it is open"
        elif not job.outcome and all(task.is_settled and not task.is_open for task in tasks):
            yield "ended", None, f"nothing is left of job {job.name}, but its end is not told"
