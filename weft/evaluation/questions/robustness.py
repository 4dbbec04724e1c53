"""How a plan fares when run times are not as planned: spread under noise, slack.

Both rest on the replay of ``sim/tasks/replay.py``: devices and orders are kept, starts follow what happens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from weft.errors import InputError
from weft.model.cluster import DeviceClass
from weft.model.graph import Floats, Ints
from weft.model.problem import Problem, realise
from weft.model.schedule import Schedule
from weft.sim.tasks.replay import Replays, replayed_makespans

TOLERANCE = 1e-9

Waits = Iterator[tuple[int, int, float]]
"""(row, earlier row, time from the finish of the earlier one until it no longer holds the row back)"""


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


def robustness(schedule: Schedule, noise: float, seeds: int | Sequence[int] = 50) -> Robustness:
    """Makespans of the plan under noise; ``seeds`` are the seeds to draw with, or how many from 0."""
    chosen = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not chosen:
        raise InputError("expected at least one seed, got none", field="seeds")
    noisy = schedule.problem.replaced(noise=noise)
    makespans = replayed_makespans(schedule, (realise(noisy, seed) for seed in chosen))
    return Robustness(noise, schedule.makespan, makespans)


def slack(schedule: Schedule) -> Floats:
    """How much later each row alone may finish before the makespan of a replay can grow.

    Exact for plans without copies on devices of one slot. Elsewhere it is what is certain: a row that
    waits for room is taken to wait for the rows that make it in the plan, and for data for the copy that
    is first there, though others may serve it as well.
    """
    replays = Replays(schedule)
    finish, length = schedule.finish.tolist(), (schedule.finish - schedule.start).tolist()
    end = max(finish, default=0.0)
    latest = [end] * len(finish)
    waits: list[list[tuple[int, float]]] = [[] for _ in finish]
    for row, source, lag in (*_data(replays), *_turns(replays), *_hand_overs(replays)):
        waits[row].append((source, lag))
    for row in reversed(replays.order.tolist()):
        until = latest[row] - length[row]
        for source, lag in waits[row]:
            latest[source] = min(latest[source], until - lag)
    spare = np.array(latest, dtype=np.float64) - schedule.finish
    return np.where(spare <= TOLERANCE * abs(end), 0.0, spare)


def _data(replays: Replays) -> Waits:
    """Per row and parent the copy whose data is there first, of those before it in the plan."""
    plan, problem = replays.plan, replays.plan.problem
    device, finish = plan.device.tolist(), plan.finish.tolist()
    place = np.argsort(replays.order).tolist()
    rows: dict[int, list[int]] = {}
    for row, task in enumerate(plan.task.tolist()):
        rows.setdefault(task, []).append(row)
    for job, base in zip(problem.jobs, problem.offsets.tolist(), strict=False):
        graph = job.graph
        edges = zip(graph.sources.tolist(), graph.targets.tolist(), graph.data.tolist(), strict=True)
        for parent, child, data in edges:
            for row in rows.get(base + child, []):
                senders = [s for s in rows[base + parent] if place[s] < place[row]]
                lags = [problem.transfer_time(device[s], device[row], data) for s in senders]
                _, source, lag = min((finish[s] + lag, s, lag) for s, lag in zip(senders, lags, strict=True))
                yield row, source, lag


def _turns(replays: Replays) -> Waits:
    """No row starts before the one in front of it in the queue of its device."""
    plan = replays.plan
    last: dict[int, int] = {}
    length = (plan.finish - plan.start).tolist()
    for row in replays.order.tolist():
        device = int(plan.device[row])
        if device in last:
            yield row, last[device], -length[last[device]]
        last[device] = row


def _hand_overs(replays: Replays) -> Waits:
    """Earlier rows that make room, on every device and for all it can run out of."""
    plan, problem = replays.plan, replays.plan.problem
    amounts, ordered = _amounts(problem), replays.order[~replays.is_light[replays.order]]
    for device, class_index in enumerate(problem.cluster.device_class.tolist()):
        rows = ordered[plan.device[ordered] == device]
        for name, limit in _limits(problem.cluster.classes[class_index]).items():
            if name in amounts:
                yield from _chain(rows, amounts[name][plan.task[rows]], limit, plan.finish)


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


def _chain(rows: Ints, amounts: Floats, limit: float, finish: Floats) -> Waits:
    """Each row takes what it needs from the rows that finish first and hands it on at its end."""
    shares: list[tuple[float, int, float]] = [(-np.inf, -1, limit)]  # (free from, holder, amount)
    some = amounts > 0
    for row, need in zip(rows[some].tolist(), amounts[some].tolist(), strict=True):
        left = need
        while left > TOLERANCE * limit and shares:
            free, holder, share = heappop(shares)
            if holder >= 0:
                yield row, holder, 0.0
            if share > left:
                heappush(shares, (free, holder, share - left))
            left -= share
        heappush(shares, (float(finish[row]), row, need))
