"""Why workers ran nothing, moment by moment, and the chain of executions that ended the run.

What a slot waits for before an execution is told by four moments: when its parents would have been done by plan,
when they were, when its data could have arrived, and when it was submitted. Every moment has one cause, so
that causes add up to the time that is waited.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from weft.evaluation.executed.expectations import Expectations
from weft.evaluation.executed.records import (
    AGAIN,
    CAUSES,
    DATA,
    DISPATCH,
    FINISHED,
    GONE,
    HELD,
    LATE,
    NO_TASK,
    Attempt,
    Key,
    Link,
)


@dataclass(frozen=True, eq=False)
class Waiting:
    """The executions of a run on the slots of its workers, up to an end."""

    known: Expectations
    end: float

    @cached_property
    def ran(self) -> list[Attempt]:
        """All that started, by start."""
        started = [one for one in self.known.story.attempts if one.started is not None]
        return sorted(started, key=lambda one: (one.started, one.started_at))

    @cached_property
    def by_task(self) -> dict[Key, list[Attempt]]:
        """Attempts at every task that started, in order."""
        found: dict[Key, list[Attempt]] = {}
        for one in self.ran:
            found.setdefault(one.key, []).append(one)
        return found

    @cached_property
    def lanes(self) -> dict[str, list[list[Attempt]]]:
        """Device -> for each of its slots what ran there, one after another.

        An execution takes the slots that were free for the shortest time, those of a batch the same ones.
        """
        found: dict[str, list[list[Attempt]]] = {
            name: [[] for _ in range(n)] for name, n in self.known.slots.items()
        }
        leads: set[tuple[str, int]] = set()
        for one in self.ran:
            if one.batch is not None:
                if (one.device, one.batch) in leads:
                    continue
                leads.add((one.device, one.batch))
            own = found.setdefault(one.device, [[]])
            for _ in range(self.known.num_slots(one.key)):
                _free_lane(own, one).append(one)
        return found

    def last_finish(self, key: Key, before: int) -> Attempt | None:
        """The last execution of a task that ended well before a row of the history."""
        ended = [o for o in self.by_task.get(key, ()) if o.outcome == FINISHED and o.ended_at < before]
        return ended[-1] if ended else None

    def parents(self, one: Attempt) -> list[Attempt]:
        """The executions whose results an execution was given."""
        story = self.known.story
        found = (self.last_finish((one.job, name), one.started_at) for name in story.parents.get(one.key, ()))
        return [parent for parent in found if parent is not None]

    def former(self, one: Attempt) -> Attempt | None:
        """The attempt at the same task before."""
        earlier = [o for o in self.by_task.get(one.key, ()) if o.ended_at < one.started_at and o is not one]
        return earlier[-1] if earlier else None

    # -- a gap before an execution -----------------------------------------------------------------

    def causes(self, one: Attempt, low: float, high: float) -> dict[str, float]:
        """The time from ``low`` to ``high``, in which a slot waited for an execution, by cause."""
        story, parents = self.known.story, self.parents(one)
        arrived = story.jobs[one.job].arrived if one.job in story.jobs else story.begin
        ready = max([arrived, *(parent.ended or 0.0 for parent in parents)])
        planned = [story.planned[p.key].finish for p in parents if p.key in story.planned]
        due = max([arrived, *planned]) if len(planned) == len(parents) else ready
        former = self.former(one)
        again = ready if former is None else max(ready, former.ended or 0.0)
        arrives = max([again, *(self._arrival(parent, one) for parent in parents)])
        held = self._held_from(arrives, one.submitted)
        marks = (
            (NO_TASK, min(due, ready)),
            (LATE, ready),
            (AGAIN, again),
            (DATA, arrives),
            (DISPATCH, held),
            (HELD, max(held, one.submitted)),
            (DISPATCH, high),
        )
        return _cut(marks, low, high)

    def _arrival(self, parent: Attempt, one: Attempt) -> float:
        travel = self.known.transfer(one.job, parent.task, one.task, parent.device, one.device)
        return (parent.ended or 0.0) + travel

    def _held_from(self, ready: float, submitted: float) -> float:
        """When the scheduler first chose to wait, between a task being ready and its order; else the order's time."""
        waited = self.known.story.waited
        k = bisect_left(waited, ready)
        return waited[k] if k < len(waited) and waited[k] < submitted else max(ready, submitted)

    # -- idle time ---------------------------------------------------------------------------------

    def idle(self, device: str) -> dict[str, float]:
        """Slot-time without work of a device, from the first arrival to the end, by cause."""
        total = dict.fromkeys(CAUSES, 0.0)
        begin = self.known.story.begin
        for lane in self.lanes.get(device, []):
            upto = begin
            for one in lane:
                start = min(max(one.started or 0.0, begin), self.end)
                self._add_gap(total, device, one, upto, start)
                upto = max(upto, min(max(one.ended or 0.0, begin), self.end))
            self._add_gap(total, device, None, upto, self.end)
        return total

    def _add_gap(
        self, total: dict[str, float], device: str, one: Attempt | None, low: float, high: float
    ) -> None:
        """Add a gap to the causes, less the time in which the device was lost."""
        for start, finish in self.known.story.away.get(device, ()):
            gone = (max(low, start), min(high, finish))
            if gone[0] < gone[1]:
                total[GONE] += gone[1] - gone[0]
                self._add_part(total, one, low, gone[0])
                low = gone[1]
        self._add_part(total, one, low, high)

    def _add_part(self, total: dict[str, float], one: Attempt | None, low: float, high: float) -> None:
        if low >= high:
            return
        parts = {NO_TASK: high - low} if one is None else self.causes(one, low, high)
        for cause, time in parts.items():
            total[cause] += time

    def busy(self, device: str) -> tuple[float, float]:
        """Slot-time in use of a device, and that of attempts that ended badly."""
        begin, used, wasted = self.known.story.begin, 0.0, 0.0
        for lane in self.lanes.get(device, []):
            for one in lane:
                start, ended = (min(max(t or 0.0, begin), self.end) for t in (one.started, one.ended))
                used += ended - start
                wasted += 0.0 if one.outcome == FINISHED else ended - start
        return used, wasted

    # -- the chain ---------------------------------------------------------------------------------

    def chain(self) -> tuple[Link, ...]:
        """Back from the last end: each execution with what it waited for, the first one first."""
        story = self.known.story
        done = [o for o in self.ran if o.outcome == FINISHED and story.reported.get(o.key) == o.number]
        if not done:
            return ()
        one: Attempt | None = max(done, key=lambda o: (o.ended, o.ended_at))
        links: list[Link] = []
        while one is not None:
            before, held_by = self._before(one)
            low = story.begin if before is None else before.ended or 0.0
            start = one.started or 0.0
            waits = self.causes(one, low, start) if low < start else {}
            expected = self.known.run_time(one.key, one.device), self.known.overhead(one.device)
            links.append(Link(one, held_by, before, waits, *expected))
            one = before
        return tuple(reversed(links))

    def _before(self, one: Attempt) -> tuple[Attempt | None, str]:
        """The execution whose end was the last thing that one waited for."""
        former = self.former(one)
        candidates = [(parent, "parent") for parent in self.parents(one)]
        candidates += [] if former is None else [(former, "attempt")]
        candidates += [(o, "device") for o in self._on_device_before(one)]
        if not candidates:
            return None, "arrival"
        rank = {"parent": 2, "attempt": 1, "device": 0}
        return max(candidates, key=lambda pair: (pair[0].ended or 0.0, rank[pair[1]], pair[0].ended_at))

    @cached_property
    def _neighbours(self) -> dict[int, list[Attempt]]:
        """Row of a start -> what ran before in the same slots."""
        found: dict[int, list[Attempt]] = {}
        for lanes in self.lanes.values():
            for lane in lanes:
                for former, one in pairwise(lane):
                    if former.ended_at < one.started_at:
                        found.setdefault(one.started_at, []).append(former)
        return found

    def _on_device_before(self, one: Attempt) -> Iterable[Attempt]:
        return self._neighbours.get(one.started_at, ())


def _free_lane(lanes: list[list[Attempt]], one: Attempt) -> list[Attempt]:
    """The slot that was freed last; a further one where the history has more at once than there are slots."""
    free = [
        lane for lane in lanes if not lane or (lane[-1] is not one and lane[-1].ended_at < one.started_at)
    ]
    if not free:
        lanes.append([])
        return lanes[-1]
    return max(free, key=lambda lane: (lane[-1].ended or 0.0) if lane else -1.0)


def _cut(marks: Iterable[tuple[str, float]], low: float, high: float) -> dict[str, float]:
    """The time from ``low`` to ``high`` by cause; each one holds up to its mark."""
    found: dict[str, float] = {}
    for cause, until in marks:
        upto = min(max(until, low), high)
        if upto > low:
            found[cause] = found.get(cause, 0.0) + upto - low
            low = upto
    return found


def totals(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Times by cause, added up; causes that take no time are left out."""
    found = dict.fromkeys(CAUSES, 0.0)
    for part in parts:
        for cause, time in part.items():
            found[cause] += time
    return {cause: time for cause, time in found.items() if time > 0}
