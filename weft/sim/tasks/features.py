"""Features of candidates in the task view: names, groups that can be switched off, and the kernels that write them.

Everything is expected, or was observed; nothing is realised that has not ended. Times are relative to the mean of
the shortest run times of the ready tasks, counts and times are log(1 + x), ratios logarithms, shares and flags as
they are. What a sight does not show is 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.errors import InputError
from weft.model.graph import Bools, Floats, Ints
from weft.sim.jit import lean_inlined
from weft.sim.tasks.rules import TaskRule
from weft.sim.tasks.state import NUM_DONE, NUM_EXPIRED, TAKEN, Tasks, TaskState, expected_run, spare_share
from weft.sim.tasks.weights import AT_RATIO

FEATURE_VERSION = "candidates/4"
WORLD = (
    "ready tasks",
    "devices with room",
    "jobs in the system",
    "work left per slot",
    "tasks listed",
    "next expected end",
    "share of slots in use",
    "mean time left of what runs",
    "recent run times over those stated",
)
"""Of the state as a whole."""
(
    READY, ROOM, JOBS, WORK, LISTED, NEXT_END, IN_USE, TIME_LEFT, RECENT_RATIO,
) = range(len(WORLD))  # fmt: skip
COLUMNS = (
    "starts",
    "waits",
    "run time over the shortest",
    "run time",
    "time until the data is there",
    "finish",
    "finish over the earliest on any device",
    "cost above the cheapest device",
    "upward rank over the job's",
    "upward rank",
    "work left of the job",
    "age of the job",
    "share of the job left",
    "price of the device",
    "behind the first in order",
    "place in order",
    "share of the pool that is busy",
    "share of the listed that are fastest there",
    "children",
    "what the base rule does",
    "needs over what is free",
    "needs over what the device has",
    "tasks in a row behind it",
    "children that wait for it alone",
    "mean time left of what runs in the pool",
    "recent run times of its kind there over those stated",
    "recent run times of the class over those stated",
    "share of recent starts in the pool",
    "has a deadline",
    "time to the deadline",
    "time to spare before the deadline",
)
"""Of every candidate."""
(
    STARTS, WAITS, RUN_RATIO, RUN, DATA, FINISH, FINISH_RATIO, COST, RANK_RATIO, RANK, JOB_WORK, AGE, SHARE_LEFT,
    PRICE, BEHIND, PLACE, BUSY, FASTEST, CHILDREN, BASE, NEEDS_FREE, NEEDS, CHAIN, UNLOCKS, POOL_LEFT, KIND_RATIO,
    CLASS_RATIO, RECENT, HAS_DUE, DUE, SPARE,
) = range(len(COLUMNS))  # fmt: skip
MORE = ("copies a parent first", "picks a task")
"""Further columns of candidates, only where a sight has copies or two stages: other nets keep their size."""
COPIED, PICKS = len(COLUMNS), len(COLUMNS) + 1
AHEAD = (
    "time of jobs ahead",
    "jobs left ahead",
    "work left ahead",
    "ends one after the other ahead",
    "paths left ahead",
)
"""Columns of what a choice leads to beyond the base rule's, only where a sight looks ahead (``ahead.py``)."""
MOST = 8.0
"""No feature is larger."""
LONGEST = 1000.0
"""Mean run times that may be looked ahead."""

# columns of Looked.here
UNIT, END, LEFT, USED, EARLIEST, CHEAPEST, LEAST = range(7)
NUM_HERE = 7


class CandidateSight(NamedTuple):
    """How many candidates are listed, and which groups of features are seen of them."""

    tasks: int = 32  # ready tasks
    pools: int = 4  # devices of each, one per pool: where it finishes first
    profile: bool = False  # whether observed run times correct those expected
    sees_load: bool = True  # load and availability: room, slots in use, how busy pools are and who wants them
    sees_queue: bool = True  # how much waits: ready tasks, jobs in the system, work left
    sees_needs: bool = True  # run time, memory and other needs of ready tasks
    sees_running: bool = True  # expected time left of what runs
    sees_paths: bool = True  # critical path and chains: ranks, tasks in a row, children
    sees_recent: bool = True  # recent run times over those stated, and where tasks started
    sees_deadlines: bool = True  # time to the deadline of the job
    copies: bool = False  # whether tasks are listed behind a copy of a parent too, where copies are allowed
    stages: int = 1  # 2: first a task is chosen, each with its best device, then a device for it
    ahead: float = (
        0.0  # mean run times for which the base rule is played ahead from every choice; 0: not at all
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features of every candidate."""
        if self.ahead:
            return (*COLUMNS, *AHEAD)
        return (*COLUMNS, *MORE) if self.copies or self.stages > 1 else COLUMNS

    @property
    def world(self) -> tuple[str, ...]:
        """Names of the features of the state as a whole."""
        return WORLD

    @property
    def num_choices(self) -> int:
        """Candidates at most, and the wait."""
        places = self.pools * (2 if self.copies else 1)
        return (self.tasks * places if self.stages == 1 else max(self.tasks, places)) + 1

    @property
    def num_features(self) -> int:
        """Length of an observation: the world, then all candidates."""
        return len(WORLD) + self.num_choices * len(self.columns)


class Known(NamedTuple):
    """What is known of tasks beforehand; prices hold from the so-many-th arrival on."""

    rule: TaskRule  # orders ready tasks as the base rule does, and has the prices
    base: TaskRule  # with virtual queues: what it would do is marked
    copies: Bools  # (num_envs,) whether the objective allows copies
    least: Floats  # (num_tasks,) shortest stated run time
    rank: Floats  # (num_tasks,) upward rank
    chain: Floats  # (num_tasks,) tasks of the longest chain from it to an end, itself included


class Looked(NamedTuple):
    """What is looked up before candidates are listed, and of the task at hand; written in place."""

    soonest: Floats  # (num_pools,) when one of its devices should have room
    first: Ints  # (num_pools,) that device, -1: none is up
    busy: Floats  # (num_pools,) share of devices that run something
    fastest: Floats  # (num_pools,) share of the first ready tasks that run fastest there
    left: Floats  # (num_pools,) mean expected time left of what runs
    recent: Floats  # (num_pools,) share of recent starts
    base: Ints  # (2,) the task that the base rule starts first and its device, -1: nothing
    here: Floats  # (NUM_HERE,) unit, next end, mean time left, slots in use; of the task: finish, cost, run time
    device: Ints  # (sight.pools,) devices of the task
    finish: Floats  # (sight.pools,) when it would end there


def feature_names(sight: CandidateSight) -> list[str]:
    """One name per feature, in order."""
    return [*WORLD, *(f"{column} {k}" for k in range(sight.num_choices) for column in sight.columns)]


def check_sight(sight: CandidateSight, place: str = "sight") -> CandidateSight:
    """The sight, if its values make sense."""
    for name, value in sight._asdict().items():
        if name in ("tasks", "pools"):
            if type(value) is not int or not 1 <= value <= 1024:
                raise InputError(
                    f"expected a whole number from 1 to 1024, got {value!r}", field=f"{place}.{name}"
                )
        elif name == "stages":
            if type(value) is not int or value not in (1, 2):
                raise InputError(f"expected 1 or 2, got {value!r}", field=f"{place}.{name}")
        elif name == "ahead":
            _check_ahead(sight, place)
        elif type(value) is not bool:
            raise InputError(f"expected true or false, got {value!r}", field=f"{place}.{name}")
    return sight


def _check_ahead(sight: CandidateSight, place: str) -> None:
    """Refuse a horizon that is none, and what cannot be played ahead."""
    ahead = sight.ahead
    if type(ahead) not in (int, float) or not 0.0 <= ahead <= LONGEST:
        raise InputError(f"expected a number from 0 to {LONGEST:g}, got {ahead!r}", field=f"{place}.ahead")
    if ahead and (sight.copies or sight.stages > 1):
        raise InputError(
            f"expected 0 with copies or two stages, which cannot look ahead, got {ahead!r}",
            field=f"{place}.ahead",
        )


@lean_inlined
def log1p(x: float) -> float:
    """log(1 + x), at most MOST; 0 below 0."""
    return min(np.log1p(max(x, 0.0)), MOST)


@lean_inlined
def signed_log1p(x: float) -> float:
    """log(1 + x), and its mirror image below 0."""
    return log1p(x) if x >= 0.0 else -log1p(-x)


@lean_inlined
def log_ratio(x: float, y: float) -> float:
    """Logarithm of x / y, at most MOST from 0; 0 where either is."""
    if x <= 0.0 or y <= 0.0:
        return 0.0
    return max(-MOST, min(np.log(x / y), MOST))


@lean_inlined
def write_task(
    sight: CandidateSight, known: Known, w: Tasks, s: TaskState, b: int, i: int, look: Looked, out: Floats
) -> None:
    """The features of a candidate that its task alone has."""
    j, unit, now = w.job[i], look.here[UNIT], s.now[b]
    out[STARTS] = 1.0
    out[JOB_WORK] = log1p(s.job_left[j] / unit)
    out[AGE] = log1p((now - w.job_release[j]) / unit)
    out[SHARE_LEFT] = s.job_open[j] / (w.job_task_ptr[j + 1] - w.job_task_ptr[j])
    if sight.sees_paths:
        unlocks = 0.0
        for e in range(w.succ_ptr[i], w.succ_ptr[i + 1]):
            unlocks += 1.0 if s.open_edges[w.succ[e]] % TAKEN == 1 else 0.0
        out[RANK_RATIO], out[RANK] = known.rule.about[i, AT_RATIO], log1p(known.rank[i] / unit)
        out[CHILDREN] = log1p(np.float64(w.succ_ptr[i + 1] - w.succ_ptr[i]))
        out[CHAIN], out[UNLOCKS] = log1p(known.chain[i] - 1.0), log1p(unlocks)
    if sight.sees_deadlines and w.job_due[j] < np.inf:
        out[HAS_DUE] = 1.0
        out[DUE] = signed_log1p((w.job_due[j] - now) / unit)
        out[SPARE] = signed_log1p((w.job_due[j] - now - known.rank[i]) / unit)


@lean_inlined
def write_place(
    sight: CandidateSight, known: Known, w: Tasks, s: TaskState, b: int, i: int, p: int, look: Looked,
    start: float, out: Floats,
) -> None:  # fmt: skip
    """The features of a candidate that depend on its device."""
    now, c, at, here = s.now[b], w.device_class[p], w.pool[p] - w.pool_ptr[b], look.here
    run, price, unit = (
        expected_run(w, s, i, c),
        known.rule.price[w.job_ptr[b] + s.next_job[b] - 1, c],
        here[UNIT],
    )
    out[DATA] = log1p((start - now) / unit)
    out[FINISH] = log1p((start + run - now) / unit)
    out[FINISH_RATIO] = log_ratio(start + run - now, here[EARLIEST] - now)
    out[COST] = log1p((start + run + price * run - here[CHEAPEST]) / unit)
    out[PRICE] = log_ratio(price, 1.0)
    if sight.sees_needs:
        out[RUN_RATIO], out[RUN] = log_ratio(run, here[LEAST]), log1p(run / unit)
        for r in range(1 if w.is_unary[p] else 0, w.demand.shape[1]):
            if w.demand[i, r] > 0.0 and w.capacity[p, r] < np.inf:
                room = s.free[p, r] + spare_share(w, s, b, w.job[i], p, r)
                out[NEEDS_FREE] = max(out[NEEDS_FREE], min(w.demand[i, r] / room, MOST))
                out[NEEDS] = max(out[NEEDS], w.demand[i, r] / w.capacity[p, r])
    if sight.sees_load:
        out[BUSY], out[FASTEST] = look.busy[at], look.fastest[at]
    if sight.sees_running:
        out[POOL_LEFT] = log1p(look.left[at] / unit)
    if sight.sees_recent:
        out[KIND_RATIO] = max(-MOST, min(s.ratio[w.kind[i], c], MOST))
        out[CLASS_RATIO] = max(-MOST, min(s.class_ratio[b, c], MOST))
        out[RECENT] = look.recent[at]


@lean_inlined
def _recent_ratio(w: Tasks, s: TaskState, b: int) -> float:
    """Recent run times over those stated, the mean over the classes of environment b that have devices."""
    total, count = 0.0, 0.0
    for c in range(w.run.shape[1]):  # by number, so that the sum is the same wherever the problem stands
        for pool in range(w.pool_ptr[b], w.pool_ptr[b + 1]):
            if w.device_class[w.pool_devices[w.pool_device_ptr[pool]]] == c:
                total, count = total + s.class_ratio[b, c], count + 1.0
                break
    return total / max(count, 1.0)


@lean_inlined
def write_world(
    sight: CandidateSight, w: Tasks, s: TaskState, b: int, shown: float, look: Looked, out: Floats
) -> None:
    """The features of the state as a whole; ``shown`` is the share of places that tasks take."""
    unit, end = look.here[UNIT], look.here[END]
    if sight.sees_queue:
        left, slots = 0.0, 0.0
        for j in range(w.job_ptr[b], w.job_ptr[b + 1]):
            if not s.is_expired[j]:
                left += s.job_left[j]
        for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
            slots += w.capacity[p, 0]
        out[READY] = log1p(np.float64(s.num_ready[b]))
        out[JOBS] = log1p(np.float64(s.next_job[b] - s.count[b, NUM_DONE] - s.count[b, NUM_EXPIRED]))
        out[WORK], out[LISTED] = log1p(left / (unit * slots)), shown
    if sight.sees_load:
        out[ROOM] = s.num_free[b] / np.float64(w.device_ptr[b + 1] - w.device_ptr[b])
        out[IN_USE] = look.here[USED]
    if sight.sees_running:
        out[NEXT_END] = log1p((end - s.now[b]) / unit) if end < np.inf else 0.0
        out[TIME_LEFT] = log1p(look.here[LEFT] / unit)
    if sight.sees_recent:
        out[RECENT_RATIO] = max(-MOST, min(_recent_ratio(w, s, b), MOST))
