"""Jobs and tasks of the task view by numbers that stay, and where the kernel has them now."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from weft.model.problem import Job
from weft.session.view import Reserved
from weft.sim.tasks.state import EXPIRED, SKIPPED, Tasks, TaskState


class Places:
    """Every job has a number, every task an item, both in the order in which jobs were added."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []  # by the kernel's number, like all lists here
        self.numbers: list[int] = []
        self.first_items: list[int] = []
        self.at: dict[int, int] = {}
        """Number of a job to the kernel's."""

    def add(self, jobs: Sequence[Job], numbers: Sequence[int], first_items: Sequence[int]) -> None:
        """Jobs behind all others."""
        self.at.update({number: len(self.jobs) + k for k, number in enumerate(numbers)})
        self.jobs += jobs
        self.numbers += numbers
        self.first_items += first_items

    def keep(self, kept: Sequence[int]) -> None:
        """Only these, by the kernel's old numbers, are left."""
        self.jobs[:] = [self.jobs[j] for j in kept]  # whoever decides holds the same list
        self.numbers = [self.numbers[j] for j in kept]
        self.first_items = [self.first_items[j] for j in kept]
        self.at = {number: j for j, number in enumerate(self.numbers)}

    def added(self, first: int) -> dict[int, Job]:
        """Jobs with numbers from this one on."""
        pairs = zip(self.numbers, self.jobs, strict=True)
        return {number: job for number, job in pairs if number >= first}

    def items(self, number: int) -> range:
        """Items of all tasks of a job; none once it is gone."""
        j = self.at.get(number)
        if j is None:
            return range(0)
        return range(self.first_items[j], self.first_items[j] + self.jobs[j].graph.num_tasks)

    def place(self, item: int) -> tuple[int, int]:
        """Number of the job and node of an item."""
        j = bisect_right(self.first_items, item) - 1
        return self.numbers[j], item - self.first_items[j]

    def task(self, item: int, w: Tasks) -> int:
        """The kernel's number of a task."""
        j = bisect_right(self.first_items, item) - 1
        return int(w.job_task_ptr[j]) + item - self.first_items[j]

    def item(self, task: int, w: Tasks) -> int:
        """The item of the kernel's number of a task."""
        j = int(w.job[task])
        return self.first_items[j] + task - int(w.job_task_ptr[j])


def reserved_on(w: Tasks, s: TaskState, places: Places, lane: int, most: int | None) -> list[Reserved]:
    """What is bound to a lane and waits, in the order of its starts; ``most`` of it at most."""
    found: list[Reserved] = []
    row = int(s.queue[lane])
    while row >= 0 and (most is None or len(found) < most):
        task, start = int(s.row_task[row]), float(s.row_expected[row])
        if s.status[task] not in (SKIPPED, EXPIRED):
            end = start + float(w.run[task, w.device_class[lane]])
            found.append(Reserved(places.item(task, w), lane, start, end))
        row = int(s.after[row])
    return found
