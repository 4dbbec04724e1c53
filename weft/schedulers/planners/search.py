"""Search planners: start from the best cheap plans, then improve them until the limit.

``search`` changes priorities and holds where transfers take no time, and priorities, devices and
copies where they do; where transfers are free but a task has several classes, it does one after the
other. It is anytime under a budget and repeatable under an effort, which counts evaluated schedules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from weft.model.bounds import lower_bound
from weft.model.graph import Floats, Ints
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.schedulers.base import Limit, refuse_unplannable
from weft.schedulers.planners.lists import NO_BIAS, Heft, Lookahead, heft_rank
from weft.schedulers.planners.rules import RULES, WAIT, Decoder, Features
from weft.sim.arrays import Arrays, compile_problem
from weft.sim.random import new_state
from weft.sim.timeline.list_planning import list_order, optimistic_cost, place_all
from weft.sim.timeline.local_search import Point, Progress, search_devices, search_lists
from weft.sim.timeline.timelines import Timeline, clear, new_timeline, rows_of

DEFAULT_EFFORT = 5000
LOOKAHEAD_LIMIT = 60_000
"""Tasks times devices up to which lookahead HEFT is worth its time as a start."""
WARMTH = 0.002
"""Relative loss that the search on devices accepts with probability 1/e."""
FLEXIBLE_SHARE = 0.75
"""What the search on devices gets where transfers are free and tasks have several classes."""


class Meter:
    """Counts evaluations against a limit and hands them out in chunks that fit the time left."""

    def __init__(self, limit: Limit, default_effort: int) -> None:
        self.limit = limit
        self.effort = limit.effort or (default_effort if limit.is_repeatable else 1 << 62)
        self.used = 0
        self.chunk = 32 if limit.is_repeatable else 1  # how long one takes is not known yet

    def next_chunk(self, share: float = 1.0) -> int:
        """Evaluations for the next call; 0 when the limit is reached."""
        if self.limit.left() <= 0:
            return 0
        return max(0, min(self.chunk, int(self.effort * share) - self.used))

    def spend(self, evaluations: int, seconds: float) -> None:
        """Record a call and size the next one to about a twentieth of a second."""
        self.used += evaluations
        if not self.limit.is_repeatable and evaluations and seconds > 0:
            self.chunk = int(np.clip(0.05 * evaluations / seconds, 1, 4096))


class Search:
    """Local search from the best of the cheap planners, and from ``start`` where one is given.

    ``is_alone``: where devices are chosen, from ``start`` and nothing else, without copies.
    """

    name = "search"

    def __init__(self, start: Schedule | None = None, *, is_alone: bool = False) -> None:
        self.start = start
        self.is_alone = is_alone
        self.note = ""

    def supports(self, problem: Problem) -> str | None:
        return refuse_unplannable(problem)

    def plan(self, problem: Problem, *, seed: int = 0, limit: Limit | None = None) -> Schedule:
        """Search until the limit, the default effort, or the bound is reached."""
        limit = limit or Limit()
        decoder = Decoder(problem)
        if not problem.num_tasks:
            return decoder.schedule(np.zeros(0))
        floor = lower_bound(problem).value + min(job.release for job in problem.jobs)
        best = None if decoder.by_finish else Heft().plan(problem)
        notes = []
        for kind, share in _searches(decoder, limit.is_repeatable):
            meter = Meter(_part(limit, share), DEFAULT_EFFORT)
            searcher = kind(problem, decoder, meter, seed, floor * (1 + 1e-12), self.start, self.is_alone)
            found = searcher.run()
            notes.append(searcher.note)
            best = found if best is None or found.makespan < best.makespan else best
        self.note = "; ".join(notes)
        assert best is not None
        return best


def _searches(decoder: Decoder, is_repeatable: bool) -> list[tuple[type[_DeviceSearch | _ListSearch], float]]:
    """Which searches apply, each with its share of the limit that is left.

    A list decoder starts a task on any free device, however slow, so where a task has several
    classes most of the time goes to a search that chooses devices.
    """
    if decoder.by_finish:
        return [(_DeviceSearch, 1.0)]
    if (decoder.pools.num_choices > 1).any():
        rest = 1.0 - FLEXIBLE_SHARE if is_repeatable else 1.0
        return [(_DeviceSearch, FLEXIBLE_SHARE), (_ListSearch, rest)]
    return [(_ListSearch, 1.0)]


def _part(limit: Limit, share: float) -> Limit:
    """A share of an effort, or of what is left of a budget."""
    if limit.is_repeatable:
        return Limit(effort=max(1, int((limit.effort or DEFAULT_EFFORT) * share)))
    return Limit(budget=max(1e-3, limit.left() * share))


@dataclass
class _Searcher:
    """What every search is given, and what it has to say."""

    problem: Problem
    decoder: Decoder
    meter: Meter
    seed: int
    floor: float
    start: Schedule | None
    is_alone: bool
    note: str = ""


class _ListSearch(_Searcher):
    """Priorities and holds for problems without transfers."""

    def run(self) -> Schedule:
        starts = self._starts()
        best_value, best = np.inf, starts[0][1:]
        for k, (value, priority, hold) in enumerate(starts[:2]):
            share = 0.75 if k == 0 and len(starts) > 1 else 1.0
            found = self._improve(k, value, priority, hold, share)
            if found[0] < best_value:
                best_value, best = found[0], found[1:]
        return self.decoder.schedule(best[0], hold=best[1])

    def _starts(self) -> list[tuple[float, Floats, np.ndarray]]:
        """Every rule with and without holds, best first, distinct makespans."""
        features = Features(self.problem, self.decoder.a, self.seed)
        starts = []
        columns = [mix.priority(features) for mix in RULES.values()]
        if self.start is not None:
            columns.append(list_of(self.start)[0])
        for column in columns:
            size = float(np.abs(column).max(initial=0.0)) or 1.0
            for decoder in (WAIT, "backfill"):
                value = float(self.decoder.makespans(column[None, :] / size, decoder)[0])
                starts.append((value, column / size, np.full(len(column), decoder == WAIT)))
        starts.sort(key=lambda start: start[0])
        self.meter.used += len(starts)
        self.note = f"best start {starts[0][0]:.6g}"
        distinct: list[tuple[float, Floats, np.ndarray]] = []
        for start in starts:
            if all(start[0] != other[0] for other in distinct):
                distinct.append(start)
        return distinct

    def _improve(
        self, k: int, value: float, priority: Floats, hold: np.ndarray, share: float
    ) -> tuple[float, Floats, np.ndarray]:
        state = new_state(self.seed, k)
        values = np.array([value, value])
        best = Point(priority.copy(), hold.copy())
        progress = Progress(Point(priority, hold), best, values, state)
        spread = 0.3 * float(priority.std() or 1.0)
        until = self._deadline(share)
        while (chunk := self.meter.next_chunk(share)) and values[1] > self.floor and until() > 0:
            before = self.meter.limit.left()
            used = search_lists(self.decoder.pools, self.decoder.scratch, progress, chunk, spread, self.floor)
            self.meter.spend(used, before - self.meter.limit.left())
        return float(values[1]), best.priority, best.choice

    def _deadline(self, share: float) -> Callable[[], float]:
        budget = self.meter.limit.budget
        if budget is None:
            return lambda: 1.0
        return lambda: self.meter.limit.left() - (1.0 - share) * budget


@dataclass(order=True)
class _Start:
    """A point of the device search: what the decoder takes, and what came out."""

    value: float
    name: str
    priority: Floats = field(compare=False)
    forced: Ints = field(compare=False)
    bias: Floats = field(compare=False)
    duplicate: bool = field(compare=False)


class _DeviceSearch(_Searcher):
    """Priorities, devices and copies for problems with transfers."""

    def run(self) -> Schedule:
        a = self.decoder.a
        copies = self.problem.objective.copies and self.decoder.by_finish and not self.is_alone
        timeline = new_timeline(a, len(a.release) if copies else 0)
        starts = sorted(self._starts(a, timeline, copies))
        self.note = f"best start {starts[0].name} {starts[0].value:.6g}"
        rounds = min(4, len(starts))
        best = starts[0]
        for k in range(rounds):
            share = (k + 1) / rounds
            found = self._improve(k, a, timeline, starts[k], share)
            best = min(best, found)
        self._decode(a, timeline, best)
        return Schedule(self.problem, **rows_of(timeline))

    def _decode(self, a: Arrays, t: Timeline, start: _Start) -> float:
        clear(a.is_unary, t)
        order = list_order(a, start.priority)
        return float(place_all(a, t, order, start.forced, start.bias, True, start.duplicate))

    def _starts(self, a: Arrays, t: Timeline, copies: bool) -> list[_Start]:
        """HEFT with and without copies, PEFT in part and whole, lookahead as fixed devices."""
        rank = heft_rank(self.problem, a)
        free = np.full(len(rank), -1, np.int64)
        table = optimistic_cost(a)
        table = np.where(np.isfinite(table), table, 0.0)
        starts = []
        for duplicate in (False, True) if copies else (False,):
            suffix = "+copies" if duplicate else ""
            starts.append(_Start(np.inf, f"heft{suffix}", rank, free, NO_BIAS, duplicate))
            for weight in (0.25, 0.5, 1.0):
                name = f"heft+{weight:g}oct{suffix}"
                starts.append(_Start(np.inf, name, rank, free, weight * table, duplicate))
        if self.start is not None:
            priority, forced = list_of(self.start)
            copied = bool(self.start.num_copies)
            starts.insert(0, _Start(np.inf, "given", priority, forced, NO_BIAS, copied))
            starts = starts[:1] if self.is_alone else starts
        is_time_left = self.meter.limit.left() > 0 and not self.is_alone
        if is_time_left and len(rank) * len(a.device_class) <= LOOKAHEAD_LIMIT:
            plan = Lookahead().plan(self.problem)
            priority, forced = list_of(plan)
            starts.append(_Start(np.inf, "lookahead", priority, forced, NO_BIAS, False))
            if copies:
                starts.append(_Start(np.inf, "lookahead+copies", priority, forced, NO_BIAS, True))
        tried: list[_Start] = []
        for start in starts:
            if not tried or self.meter.limit.left() > 0:
                start.value = self._decode(a, t, start)
                tried.append(start)
        self.meter.used += len(tried)
        return tried

    def _improve(self, k: int, a: Arrays, t: Timeline, start: _Start, share: float) -> _Start:
        state = new_state(self.seed, k)
        values = np.array([start.value, start.value])
        best = Point(start.priority.copy(), start.forced.copy())
        current = Point(start.priority.copy(), start.forced.copy())
        progress = Progress(current, best, values, state)
        budget = self.meter.limit.budget or 0.0
        while (chunk := self.meter.next_chunk(share)) and values[1] > self.floor:
            before = self.meter.limit.left()
            if budget and before < (1.0 - share) * budget:
                break
            used = search_devices(a, t, progress, start.bias, start.duplicate, chunk, WARMTH, self.floor)
            self.meter.spend(used, before - self.meter.limit.left())
        return _Start(float(values[1]), start.name, best.priority, best.choice, start.bias, start.duplicate)


def list_of(schedule: Schedule) -> tuple[Floats, Ints]:
    """Priorities and devices that decode to this schedule or a better one (first copies only).

    It may be a worse one where a task without run time stands on a device whose slots are all taken.
    """
    n = schedule.problem.num_tasks
    start, finish, device = np.full(n, np.inf), np.full(n, np.inf), np.full(n, -1, np.int64)
    for row in range(len(schedule)):
        i = schedule.task[row]
        if schedule.start[row] < start[i]:
            start[i], finish[i], device[i] = schedule.start[row], schedule.finish[row], schedule.device[row]
    # distinct, positive, earlier first; a parent comes before its child
    rank = np.empty(n)
    rank[_in_order(schedule.problem, start, finish, device)] = np.arange(n, 0, -1)
    return rank, device


def _in_order(problem: Problem, start: Floats, finish: Floats, device: Ints) -> Ints:
    """Tasks by start.

    A task without run time may stand within another on a device that runs one at a time, and must be placed
    first: there tasks go by their finish, which is the same order for all others.
    """
    n = problem.num_tasks
    if (finish > start).all():
        return np.lexsort((np.arange(n), start))
    a = compile_problem(problem)
    place = np.empty(n, np.int64)
    place[a.order] = np.arange(n)
    return np.lexsort((place, finish, np.where(a.is_unary[device], finish, start)))
