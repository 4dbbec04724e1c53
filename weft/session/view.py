"""What a session asks of a view: the queue view and the task view are two.

A view knows jobs by number, tasks by item, places of work by lane. It checks nothing but the names
of jobs: the session does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from weft.model.graph import Bools, Ints
from weft.model.problem import Job, Problem
from weft.session.messages import Name

Started = list[tuple[int, list[int]]]
"""Lane and items of every batch that starts."""


class Coming(NamedTuple):
    """A job that may arrive."""

    number: int
    problem: Problem | None
    """The job alone on the cluster, if it is one to be added."""


class Reserved(NamedTuple):
    """An item that is bound to a lane and waits."""

    item: int
    lane: int
    start: float
    """Expected, like the end."""
    end: float


class View(Protocol):
    """Jobs and devices under one scheduler; events are reported one by one."""

    lane_device: Ints  # (num_lanes,)
    is_lost: Bools  # (num_lanes,)
    num_fallbacks: int  # decisions that a rule made for a policy
    can_vacate: bool  # whether a lane can take other work before its tasks have ended

    @property
    def fingerprint(self) -> str:
        """SHA-256 of graphs, devices and rules of the game."""

    def expect(self, name: Name, job: Job | None) -> Coming:
        """A job about to arrive, given what it is unless the problem says so; InputError if it cannot."""

    def template(self, number: int) -> int:
        """Which job of the problem this one repeats; -1: it was added."""

    def items(self, number: int) -> range:
        """Items of all tasks of a job, in the order of its graph; none once they are gone."""

    def place(self, item: int) -> tuple[int, int]:
        """Number of the job and node of an item."""

    def pass_time(self, time: float) -> None:
        """Set the clock."""

    def arrive(self, coming: Coming, time: float) -> None:
        """A job enters."""

    def count_outcome(self, item: int, edges: Sequence[int]) -> None:
        """Which edges a running task will take is known already."""

    def end(self, item: int, edges: Sequence[int], *, is_counted: bool) -> bool:
        """A task has ended and takes these of its edges; returns whether its job is done with it."""

    def fail(self, item: int) -> None:
        """A running task came to nothing: it waits again."""

    def drop(self, item: int) -> None:
        """A running task that was given up, alone or with its job, has ended, well or badly."""

    def withdraw(self, number: int) -> None:
        """A job is given up: none of its tasks waits or will."""

    def cut(self, item: int) -> list[int]:
        """A task that does not run is given up, and with it all that needs it; returns the nodes of those.

        Some may have been dropped before, with another task.
        """

    def begin(self, item: int, lane: int, time: float, late: float) -> None:
        """A task runs; ``late``: by how much later than decided its batch began."""

    def adopt(self, item: int, lane: int) -> bool:
        """A waiting task was started on a lane without a decision; returns whether that could be."""

    def free(self, lane: int, time: float) -> None:
        """The last task of its batch has left a lane."""

    def lose(self, lanes: Sequence[int], items: Sequence[int]) -> None:
        """Lanes are gone; these items, which ran there, wait again."""

    def join(self, lanes: Sequence[int], time: float) -> None:
        """Lanes are back, and free."""

    def close(self) -> None:
        """No more jobs will arrive."""

    def decide(self) -> Started:
        """What the scheduler starts now."""

    def decide_anyhow(self) -> Started:
        """The first start that is possible, for when the scheduler would wait forever."""

    def reserved(self, lanes: Sequence[int], most: int | None = None) -> list[Reserved]:
        """What is bound to these lanes and waits, in the order of its starts on each; ``most`` of each at most."""

    @property
    def num_plans(self) -> int:
        """How often a plan was made or made again."""

    @property
    def has_choice(self) -> bool:
        """Whether a lane is free and a task waits."""

    @property
    def num_waiting(self) -> int:
        """Tasks that wait."""

    @property
    def num_expired(self) -> int:
        """Jobs that have expired so far."""

    def is_over(self, number: int) -> bool:
        """Whether a job is done, expired or given up."""

    def expected_times(self, item: int, lane: int) -> tuple[float, float]:
        """When a task that was decided is expected to start and to end."""

    def wake_at(self) -> float | None:
        """When to ask again if nothing happens before."""

    @property
    def held(self) -> Mapping[int, Job]:
        """Added jobs that it still needs, by number, though they may be over."""

    def snapshot(self) -> dict[str, Any]:
        """Everything that changes, as plain data."""

    def restore(self, stored: Mapping[str, Any], added: Mapping[int, Job]) -> None:
        """Go back to a snapshot, with the jobs that were added by number; whatever does not fit raises a KeyError, TypeError or ValueError."""
