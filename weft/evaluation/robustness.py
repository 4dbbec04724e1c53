"""How a plan fares when run times are not as planned: replay, spread under noise, slack.

A replay keeps the device of every row, the order of starts on a device and all copies. A row starts
when its data has arrived and the rows before it have made room. On a device with several slots, and
for memory and named resources, what a row holds is handed over from fixed earlier rows: those that
finish first in the plan. So no replay can overload a device, but now and then a row waits although
something else has become free (partial-order schedules by chaining, Policella et al. 2004).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from weft.errors import InputError
from weft.model.cluster import DeviceClass
from weft.model.graph import Bools, Floats, Ints
from weft.model.problem import Problem, Realisation, realise
from weft.model.schedule import DONE, Schedule

TOLERANCE = 1e-9
AT_ONCE = 64
"""Seeds replayed together, to bound the memory."""

Offers = list[tuple[int, float]]
"""Rows that can serve one need, each with the time from its finish until it does."""


@dataclass(frozen=True, eq=False)
class Robustness:
    """Makespans of one plan under log-normal run-time noise."""

    noise: float
    """Coefficient of variation of every run time; its mean is the planned one."""
    planned: float
    """Makespan of the plan itself."""
    rows: Floats  # (num_seeds,) makespan per seed

    @property
    def median(self) -> float:
        """Half of the runs take longer."""
        return float(np.median(self.rows))

    @property
    def p95(self) -> float:
        """One run in twenty takes longer."""
        return float(np.percentile(self.rows, 95))

    @property
    def mean(self) -> float:
        """Mean makespan."""
        return float(self.rows.mean())

    @property
    def worst(self) -> float:
        """Longest makespan."""
        return float(self.rows.max())

    def to_dict(self) -> dict[str, float]:
        """The fields ``weft schedule --noise`` adds to its document."""
        return {
            "cv": self.noise,
            "seeds": len(self.rows),
            "median": self.median,
            "p95": self.p95,
            "mean": self.mean,
            "worst": self.worst,
        }


def replay(schedule: Schedule, realisation: Realisation) -> Schedule:
    """The plan carried out with the run times of a realisation, nothing else changed."""
    start, finish = _carried_out(_Arcs(schedule), _durations(schedule, realisation)[:, None])
    return Schedule(
        schedule.problem,
        schedule.task,
        schedule.device,
        start[:, 0],
        finish[:, 0],
        schedule.copy,
        realisation=realisation,
    )


def robustness(schedule: Schedule, noise: float, seeds: int | Sequence[int] = 50) -> Robustness:
    """Makespans of the plan under noise; ``seeds`` are the seeds to draw with, or how many from 0."""
    chosen = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not chosen:
        raise InputError("expected at least one seed, got none", field="seeds")
    arcs = _Arcs(schedule)
    noisy = schedule.problem.replaced(noise=noise)
    first = min(job.release for job in noisy.jobs)
    makespans: list[float] = []
    for at in range(0, len(chosen), AT_ONCE):
        drawn = [_durations(schedule, realise(noisy, seed)) for seed in chosen[at : at + AT_ONCE]]
        _, finish = _carried_out(arcs, np.stack(drawn, axis=1))
        makespans += (finish.max(axis=0, initial=first) - first).tolist()
    return Robustness(noise, schedule.makespan, np.array(makespans, dtype=np.float64))


def slack(schedule: Schedule) -> Floats:
    """How much later each row may finish before the makespan grows, if all orders are kept."""
    arcs = _Arcs(schedule)
    start, finish = schedule.start.tolist(), schedule.finish.tolist()
    end = max(finish, default=0.0)
    latest = [end] * len(finish)
    for row in reversed(arcs.order.tolist()):
        until = latest[row] - (finish[row] - start[row])
        for offers in arcs.needs[row]:
            source, lag = min(offers, key=lambda offer: finish[offer[0]] + offer[1])
            latest[source] = min(latest[source], until - lag)
    spare = np.array(latest, dtype=np.float64) - schedule.finish
    return np.where(spare <= TOLERANCE * abs(end), 0.0, spare)


class _Wait(NamedTuple):
    """What one row waits for: per group of offers the first, over all groups the last."""

    sources: Ints  # (num_offers,)
    lags: Floats  # (num_offers, 1)
    groups: Ints  # (num_groups,) index of the first offer of each group

    @classmethod
    def of(cls, needs: list[Offers]) -> _Wait:
        """The same needs as arrays."""
        offers = [offer for group in needs for offer in group]
        sizes = [len(group) for group in needs]
        return cls(
            np.array([source for source, _ in offers], dtype=np.int64),
            np.array([[lag] for _, lag in offers], dtype=np.float64),
            np.cumsum([0, *sizes[:-1]], dtype=np.int64),
        )


class _Arcs:
    """Who waits for whom in a plan."""

    def __init__(self, schedule: Schedule) -> None:
        _refuse_other_than_plans(schedule)
        self.schedule = schedule
        self.needs: list[list[Offers]] = [[] for _ in range(len(schedule))]
        for row, offers in _data(schedule, self.place):
            self.needs[row].append(offers)
        for row, source in _hand_overs(schedule, self.order):
            self.needs[row].append([(source, 0.0)])

    @cached_property
    def order(self) -> Ints:
        """Rows by start, then finish, then depth: what a row waits for comes before it."""
        schedule, problem = self.schedule, self.schedule.problem
        depth = np.zeros(problem.num_tasks, dtype=np.int64)
        for job, base in zip(problem.jobs, problem.offsets.tolist(), strict=False):
            depth[base + job.graph.order] = np.arange(job.graph.num_tasks)
        return np.lexsort((depth[schedule.task], schedule.finish, schedule.start))

    @cached_property
    def place(self) -> list[int]:
        """Where each row comes in the order."""
        place = np.empty(len(self.schedule), dtype=np.int64)
        place[self.order] = np.arange(len(place))
        return place.tolist()

    @cached_property
    def waits(self) -> list[_Wait | None]:
        """The needs of every row as arrays; None where there are none."""
        return [_Wait.of(needs) if needs else None for needs in self.needs]


def _refuse_other_than_plans(schedule: Schedule) -> None:
    for job in schedule.problem.jobs:
        if job.graph.is_conditional or job.graph.is_elastic:
            raise InputError(f"job {job.name!r} has branches or elastic tasks: only plans are replayed")
    if schedule.problem.cluster.one_port:
        raise InputError("the links take one transfer at a time (one-port): such plans are not replayed")
    if (schedule.batch >= 0).any():
        raise InputError("the schedule has batches: such plans are not replayed", field="batch")
    if (schedule.device < 0).any() or (schedule.outcome != DONE).any() or schedule.attempt.any():
        raise InputError("expected a plan, got a record with tasks that failed or never ran")


def _data(schedule: Schedule, place: list[int]) -> Iterator[tuple[int, Offers]]:
    """Per row and parent the copies it may get its data from: those before it in the plan."""
    problem, device = schedule.problem, schedule.device.tolist()
    rows: dict[int, list[int]] = {}
    for row, task in enumerate(schedule.task.tolist()):
        rows.setdefault(task, []).append(row)
    for job, base in zip(schedule.problem.jobs, schedule.problem.offsets.tolist(), strict=False):
        graph = job.graph
        for parent, child, data in zip(
            graph.sources.tolist(), graph.targets.tolist(), graph.data.tolist(), strict=True
        ):
            for row in rows.get(base + child, []):
                senders = [s for s in rows.get(base + parent, []) if place[s] < place[row]]
                if not senders:
                    names = [schedule.problem.task_name(base + task) for task in (child, parent)]
                    raise InputError(f"not a valid plan: {names[0]!r} starts before its parent {names[1]!r}")
                yield row, [(s, problem.transfer_time(device[s], device[row], data)) for s in senders]


def _hand_overs(schedule: Schedule, order: Ints) -> Iterator[tuple[int, int]]:
    """(row, earlier row that makes room for it), on every device and for all it can run out of."""
    cluster, amounts = schedule.problem.cluster, _amounts(schedule.problem)
    busy = _takes_time(schedule)
    for device, class_index in enumerate(cluster.device_class.tolist()):
        rows = order[(schedule.device[order] == device) & busy[order]]
        for name, limit in _limits(cluster.classes[class_index]).items():
            if name in amounts:
                yield from _chain(rows, amounts[name][schedule.task[rows]], limit, schedule.finish)


def _takes_time(schedule: Schedule) -> Bools:
    """Rows with a run time above 0: the others hold nothing."""
    class_of = schedule.problem.cluster.device_class[schedule.device]
    takes: Bools = schedule.problem.run_times[schedule.task, class_of] > 0
    return takes


def _amounts(problem: Problem) -> dict[str, Floats]:
    """What every task holds while it runs: slots, memory, and each named resource."""
    graphs = [job.graph for job in problem.jobs]
    amounts = {
        "slots": np.concatenate([graph.slots for graph in graphs]).astype(np.float64),
        "memory": np.concatenate([graph.memory for graph in graphs]),
    }
    for name in dict.fromkeys(resource for graph in graphs for resource in graph.resources):
        amounts[f"resource {name}"] = np.concatenate(
            [
                graph.demands[:, graph.resources.index(name)]
                if name in graph.resources
                else np.zeros(graph.num_tasks)
                for graph in graphs
            ]
        )
    return amounts


def _limits(device_class: DeviceClass) -> dict[str, float]:
    """What a device can run out of; one slot alone puts everything in a row."""
    if device_class.slots == 1:
        return {"slots": 1.0}
    limits = {"slots": float(device_class.slots), "memory": device_class.memory}
    limits |= {f"resource {name}": value for name, value in device_class.capacity.items()}
    return {name: value for name, value in limits.items() if value < np.inf}


def _chain(rows: Ints, amounts: Floats, limit: float, finish: Floats) -> Iterator[tuple[int, int]]:
    """Each row takes what it needs from the rows that finish first and hands it on at its end."""
    shares: list[tuple[float, int, float]] = [(-np.inf, -1, limit)]  # (free from, holder, amount)
    some = amounts > 0
    for row, need in zip(rows[some].tolist(), amounts[some].tolist(), strict=True):
        left = need
        while left > TOLERANCE * limit and shares:
            free, holder, share = heappop(shares)
            if holder >= 0:
                yield row, holder
            if share > left:
                heappush(shares, (free, holder, share - left))
            left -= share
        heappush(shares, (float(finish[row]), row, need))


def _durations(schedule: Schedule, realisation: Realisation) -> Floats:
    """Run time of every row."""
    class_of = schedule.problem.cluster.device_class[schedule.device]
    durations: Floats = realisation.run_times[schedule.task, class_of]
    if not np.isfinite(durations).all():
        row = int(np.argmin(np.isfinite(durations)))
        placed = schedule.placement(row)
        raise InputError(f"not a valid plan: {placed.task!r} cannot run on {placed.device}", field="device")
    return durations


def _carried_out(arcs: _Arcs, durations: Floats) -> tuple[Floats, Floats]:
    """Starts and finishes, (num_rows, num_runs), row by row in order over all runs at once."""
    problem = arcs.schedule.problem
    release = np.array([job.release for job in problem.jobs])[problem.job_of[arcs.schedule.task]]
    start = np.repeat(release[:, None], durations.shape[1], axis=1)
    finish = np.zeros_like(durations)
    for row in arcs.order.tolist():
        wait = arcs.waits[row]
        if wait is not None:
            arrivals = finish[wait.sources] + wait.lags
            if len(wait.groups) < len(wait.sources):
                arrivals = np.minimum.reduceat(arrivals, wait.groups, axis=0)
            np.maximum(start[row], arrivals.max(axis=0), out=start[row])
        np.add(start[row], durations[row], out=finish[row])
    return start, finish
