"""Arrays of the elastic kernel: what a problem is, and what changes while it runs.

Letters in shapes: B environments, N clusters, P slots of a pending set, J tasks of an episode, K tasks that may
run on a cluster at once, R resources, T types of task.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.columns import Bools, Floats, Ints
from weft.model.elastic import CONFLICTS, LAWS, LINKS, ElasticProblem

NOT_YET, WAITING, RUNNING, DONE = 0, 1, 2, 3
"""What a task is doing."""
VOID, PLACED, LOST, SKIPPED = 0, 1, 2, 3
"""What came of an agent's choice: it took nothing; its task; another cluster got the task; it had no choice."""


class World(NamedTuple):
    """What does not change."""

    capacity: Ints  # (N, R)
    least: Ints  # (T, R)
    most: Ints  # (T, R)
    grid: Ints  # (R,) the largest of ``most``
    stride: Ints  # (T, R) of the flat tables; 0 where a resource has no influence
    rate: Floats  # (T, G)
    base: Floats  # (T, G)
    law: Ints  # (T,) place in ``LAWS``
    value: Floats  # (T,)
    curve: Floats  # (T, L)
    curve_size: Ints  # (T,)
    noise: Floats  # (T,)
    share: Floats  # (T,) of the types up to each, in all tasks
    links: Floats  # (3,) place in ``LINKS``, bandwidth, threshold
    arrival_rate: float
    switching: Floats  # (T,)
    is_multi: bool
    is_earliest: bool
    conflicts: int  # place in ``CONFLICTS``
    given: Ints  # (J, 3) world step, type and links of every task; (0, 3): they are drawn


class State(NamedTuple):
    """What changes."""

    seed: Ints  # (B,) key of the episode
    now: Ints  # (B,) world steps that have passed
    round: Ints  # (B,) logical steps since the world moved
    arrived: Ints  # (B,) tasks
    done: Ints  # (B,) tasks
    status: Ints  # (B, J)
    arrival: Ints  # (B, J) world step
    kind: Ints  # (B, J) type
    links: Ints  # (B, J) bit n: connected to cluster n
    cluster: Ints  # (B, J) where it runs or ran; -1: nowhere yet
    start: Ints  # (B, J) world step of its placement; -1: not placed
    placed_round: Ints  # (B, J) logical step of its placement
    finish: Ints  # (B, J) world steps that had passed when it ended; -1: not ended
    progress: Floats  # (B, J)
    units: Ints  # (B, J, R)
    before: Ints  # (B, J, R) units in the step before; -1: it did not run
    ran: Ints  # (B, J) world steps since its placement
    served: Ints  # (B, J, R) units x steps
    slot: Ints  # (B, N, P) task; -1: free
    queue: Ints  # (B, N, J) tasks beyond the set in order of arrival; those placed elsewhere are passed over
    head: Ints  # (B, N)
    tail: Ints  # (B, N)
    queued: Ints  # (B, N) waiting tasks in the queue
    in_set: Ints  # (B, N) tasks in the set
    running: Ints  # (B, N, K) tasks in order of placement; -1: none
    num_running: Ints  # (B, N)
    free: Ints  # (B, N, R)
    busy: Ints  # (B, R) units x steps, of all clusters
    row: Ints  # (B, J) scratch: row of a waiting task in the observation


class Move(NamedTuple):
    """What is decided in one logical step; written by rules and callers."""

    slot: Ints  # (B, N) of the pending set; -1: none
    units: Ints  # (B, N, R) for the task of the slot; all 0: none, unless ``again`` is in force
    chance: Floats  # (B, N) probability of the slot, for conflicts by Bayes
    again: Ints  # (B, N, K, R) new units of running tasks
    changes: Bools  # (B, N) whether ``again`` is in force, and so a task may be placed without units


class Outcome(NamedTuple):
    """What came of it."""

    reward: Floats  # (B, N) minus the tasks at the cluster, where world time passed
    alive: Floats  # (B,) minus the tasks alive, where world time passed
    outcome: Ints  # (B, N)
    advanced: Bools  # (B,)
    done: Bools  # (B,)
    mean: Floats  # (B,) mean completion time of an episode that ended; else nan
    won: Ints  # (B, N) scratch: the task an agent asks for; -1: none


class Log(NamedTuple):
    """What ran in each world step: one row per running task, for whoever checks it."""

    rows: Ints  # (room, 6 + R) environment, step, cluster, task, logical step of its placement, steps run before, units
    progress: Floats  # (room,) after the step
    count: Ints  # (1,)


def compile_world(problem: ElasticProblem) -> World:
    """The arrays of a problem."""
    types, num_resources = problem.types, problem.num_resources
    size = max(one.rate.size for one in types)
    longest = max(1, *(len(one.curve) for one in types))
    stride = np.zeros((len(types), num_resources), np.int64)
    rate, base = np.zeros((len(types), size)), np.zeros((len(types), size))
    curve = np.ones((len(types), longest))
    for t, one in enumerate(types):
        steps = np.array(one.rate.strides, np.int64) // one.rate.itemsize
        stride[t] = np.where(np.array(one.rate.shape) == 1, 0, steps)
        rate[t, : one.rate.size], base[t, : one.rate.size] = one.rate.ravel(), one.base.ravel()
        curve[t, : len(one.curve)] = one.curve
    weights = np.array(problem.weights or [1.0] * len(types))
    return World(
        capacity=np.array(problem.capacity, np.int64),
        least=np.array([one.least for one in types], np.int64),
        most=np.array([one.most for one in types], np.int64),
        grid=problem.grid,
        stride=stride,
        rate=rate,
        base=base,
        law=np.array([LAWS.index(one.law) for one in types], np.int64),
        value=np.array([one.value for one in types], np.float64),
        curve=curve,
        curve_size=np.array([max(1, len(one.curve)) for one in types], np.int64),
        noise=np.array([one.noise for one in types], np.float64),
        share=np.cumsum(weights / weights.sum()),
        links=np.array([LINKS.index(problem.links), problem.bandwidth, problem.threshold], np.float64),
        arrival_rate=float(problem.arrival_rate),
        switching=np.array([problem.switching * one.switching for one in types], np.float64),
        is_multi=problem.stepping == "multi",
        is_earliest=problem.pending == "earliest",
        conflicts=CONFLICTS.index("softmax" if problem.conflicts == "own" else problem.conflicts),
        given=problem.arrivals.copy(),
    )


def most_running(problem: ElasticProblem) -> int:
    """How many tasks any cluster has room for at once."""
    least = np.array([one.least for one in problem.types], np.int64)
    room = [
        min(int(have) // int(need) for have, need in zip(capacity, needs, strict=True) if need > 0)
        for capacity in problem.capacity
        for needs in least
    ]
    return max(room)


def new_state(problem: ElasticProblem, num_envs: int) -> State:
    """Room for so many environments; nothing has begun."""
    tasks, clusters, resources = problem.num_tasks, problem.num_clusters, problem.num_resources

    def ints(*shape: int, value: int = 0) -> Ints:
        return np.full((num_envs, *shape), value, np.int64)

    return State(
        seed=ints(), now=ints(), round=ints(), arrived=ints(), done=ints(),
        status=ints(tasks), arrival=ints(tasks), kind=ints(tasks), links=ints(tasks), cluster=ints(tasks, value=-1),
        start=ints(tasks, value=-1), placed_round=ints(tasks), finish=ints(tasks, value=-1),
        progress=np.zeros((num_envs, tasks)),
        units=ints(tasks, resources), before=ints(tasks, resources), ran=ints(tasks), served=ints(tasks, resources),
        slot=ints(clusters, problem.num_slots, value=-1),
        queue=ints(clusters, tasks), head=ints(clusters), tail=ints(clusters), queued=ints(clusters),
        in_set=ints(clusters), running=ints(clusters, most_running(problem), value=-1),
        num_running=ints(clusters), free=ints(clusters, resources), busy=ints(resources), row=ints(tasks, value=-1),
    )  # fmt: skip


def new_move(problem: ElasticProblem, num_envs: int) -> Move:
    """Nobody takes anything."""
    clusters, resources = problem.num_clusters, problem.num_resources
    return Move(
        np.full((num_envs, clusters), -1, np.int64),
        np.zeros((num_envs, clusters, resources), np.int64),
        np.ones((num_envs, clusters)),
        np.zeros((num_envs, clusters, most_running(problem), resources), np.int64),
        np.zeros((num_envs, clusters), np.bool_),
    )


def new_outcome(problem: ElasticProblem, num_envs: int) -> Outcome:
    """Buffers of a step."""
    clusters = problem.num_clusters
    return Outcome(
        np.zeros((num_envs, clusters)),
        np.zeros(num_envs),
        np.zeros((num_envs, clusters), np.int64),
        np.zeros(num_envs, np.bool_),
        np.zeros(num_envs, np.bool_),
        np.full(num_envs, np.nan),
        np.full((num_envs, clusters), -1, np.int64),
    )


def new_log(problem: ElasticProblem, room: int) -> Log:
    """Room for so many rows; none: nothing is kept."""
    return Log(np.zeros((room, 6 + problem.num_resources), np.int64), np.zeros(room), np.zeros(1, np.int64))
