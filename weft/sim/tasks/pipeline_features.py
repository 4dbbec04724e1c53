"""What a policy sees of pipelines with deadlines: candidates to start, their features, names and version.

A candidate is a ready stage and a class with an idle device, with depths also a number of stages that start as one launch; the last choice waits. Of every pipeline a few instances that are not
late are listed, by deadline, and the oldest late one. Everything is expected or was observed; the next release of a pipeline
is known from the interval of its last. Times are relative to the interval of the instance, or squashed by a few stage times.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.errors import InputError
from weft.model.graph import Floats, Ints
from weft.sim.jit import lean_inlined, lean_kernel
from weft.sim.tasks.clock import next_time
from weft.sim.tasks.launches import longest_launch
from weft.sim.tasks.pipelines import WEIGHT, Lines, LineState, Sweep, may_wait, next_release, sweep_lines
from weft.sim.tasks.rules import best_in_pool
from weft.sim.tasks.state import Facts, Tasks, TaskState, data_ready, expected_run, may_use

PIPELINE_VERSION = "pipelines/1"
IN_TIME = 3
"""Instances of a pipeline that are listed before they are late."""
SQUASH = 3.0
"""Times are squashed by so many mean first-stage times."""
OF_LINE = (
    "least laxity", "least laxity, squashed", "instances under way", "late instances", "time to the next release",
    "interval",
)  # fmt: skip
OF_POOL = ("idle devices", "time until one is free")
OF_PATH = ("remaining path", "time to the deadline")
"""Of a pipeline, in a faithful sight."""
_OWN = (
    "laxity after it", "laxity after it, squashed", "laxity", "is late", "is hopeless", "becomes late",
    "run time", "run time in intervals", "run time above the fastest", "share left", "is the first stage",
    "end after the earliest", "takes the last idle device", "idle devices", "least laxity of others",
    "blocks coming ones, most", "blocks coming ones, all", "blocks others, most", "blocks others, all",
    "interval", "time until the data is there", "instances under way",
    "time to the next event", "time to the next release",
)  # fmt: skip
(
    AFTER, AFTER_SQUASHED, LAXITY, IS_LATE, IS_HOPELESS, TURNS_LATE, RUN, RUN_SHARE, ABOVE, SHARE_LEFT, IS_FIRST,
    REGRET, TAKES_LAST, IDLE, OTHERS, NEXT_MOST, NEXT_ALL, FLIGHT_MOST, FLIGHT_ALL, INTERVAL, DATA, UNDER_WAY,
    TO_EVENT, TO_RELEASE,
) = range(len(_OWN))  # fmt: skip
OF_LAUNCH = ("stages in the launch", "share saved", "ends its instance")
"""Of a candidate, where a sight has depths."""


class Seen(NamedTuple):
    """A sight as kernels take it."""

    series: int
    pools: int
    choices: int
    sees_periods: bool
    sees_ahead: bool
    is_faithful: bool
    depths: Ints  # (num_depths,)


class PipelineSight(NamedTuple):
    """How many pipelines, classes and candidates are seen, and which groups of features."""

    series: int = 5  # pipelines
    pools: int = 3  # classes of devices
    choices: int = 16  # candidates at most, the wait left out
    sees_periods: bool = True  # intervals: which configuration it is
    sees_ahead: bool = True  # what a start blocks: coming releases, and instances under way
    is_faithful: bool = False  # sight and choices as first published: pipeline_queues.py
    depths: tuple[int, ...] = (1,)  # stages of a chain that a decision may start as one launch

    @property
    def has_launches(self) -> bool:
        """Whether a decision may start more than one stage."""
        return self.depths != (1,)

    def to_table(self) -> dict[str, Any]:
        """As recipes and cards keep it; depths only where there is a choice."""
        table = self._asdict()
        depths = table.pop("depths")
        return table | ({"depths": list(depths)} if self.has_launches else {})

    def seen(self) -> Seen:
        """As kernels take it."""
        return Seen(*self[:6], np.array(self.depths, np.int64))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the features of every candidate."""
        ways = (f"on class {k}" for k in range(self.pools))
        if self.is_faithful:
            return ("starts", "waits", *ways)
        lines = (f"of pipeline {k}" for k in range(self.series))
        rest = (f"laxity after it on class {k}" for k in range(self.pools))
        return ("starts", "waits", *ways, *lines, *rest, *_OWN, *(OF_LAUNCH if self.has_launches else ()))

    @property
    def world(self) -> tuple[str, ...]:
        """Names of the features of the state as a whole."""
        if self.is_faithful:
            paths = (f"{name} of pipeline {k}" for k in range(self.series) for name in OF_PATH)
            return (*paths, *(f"queued work of class {k}" for k in range(self.pools)))
        lines = (f"{name} of pipeline {k}" for k in range(self.series) for name in OF_LINE)
        pools = (f"{name} of class {k}" for k in range(self.pools) for name in OF_POOL)
        return (*lines, *pools, "ready stages")

    @property
    def num_choices(self) -> int:
        """Candidates at most, and the wait."""
        return self.choices + 1

    @property
    def num_features(self) -> int:
        """Length of an observation: the world, then all candidates."""
        return len(self.world) + self.num_choices * len(self.columns)

    @property
    def profile(self) -> bool:
        """Stated run times are taken as they are."""
        return False


def check_pipeline_sight(sight: PipelineSight, place: str = "candidates") -> PipelineSight:
    """The sight, if its values make sense."""
    for name, value in sight._asdict().items():
        if name in ("series", "pools", "choices"):
            if type(value) is not int or not 1 <= value <= 256:
                raise InputError(
                    f"expected a whole number from 1 to 256, got {value!r}", field=f"{place}.{name}"
                )
        elif name == "depths":
            sight = sight._replace(depths=_checked_depths(value, f"{place}.depths"))
        elif type(value) is not bool:
            raise InputError(f"expected true or false, got {value!r}", field=f"{place}.{name}")
    if sight.is_faithful and sight.has_launches:
        raise InputError(f"expected [1] with is_faithful, got {list(sight.depths)}", field=f"{place}.depths")
    return sight


def _checked_depths(value: object, field: str) -> tuple[int, ...]:
    """Depths, if they are whole numbers in ascending order from 1 on."""
    given = tuple(value) if isinstance(value, list | tuple) else ()
    is_whole = all(type(one) is int and 1 <= one <= 256 for one in given)
    if not given or not is_whole or given[0] != 1 or list(given) != sorted(set(given)):
        raise InputError(
            f"expected ascending whole numbers from 1 on up to 256, such as [1, 2, 4], got {value!r:.60}",
            field=field,
        )
    return given


class PipelineListed(NamedTuple):
    """The candidates of an environment; written in place."""

    task: Ints  # (num_choices,)
    device: Ints  # (num_choices,)
    count: Ints  # (1,)
    later: Floats  # (1,) when the next data of a listed task comes, infinite: none is on its way
    depth: Ints  # (num_choices,) tasks that start as one


@lean_inlined
def clipped(x: float, most: float) -> float:
    """x, at most so far from 0."""
    return max(-most, min(x, most))


@lean_kernel
def gather(lines: Lines, w: Tasks, s: TaskState, b: int, is_faithful: bool, out: Sweep) -> None:
    """Ready stages to list: by deadline, late ones last and of these the oldest of its pipeline alone."""
    first, n, now = w.task_ptr[b], np.int64(0), s.now[b]
    for k in range(s.num_ready[b]):
        i = s.ready[first + k]
        due = w.job_due[w.job[i]] + (1e9 if w.job_due[w.job[i]] <= now else 0.0)
        if is_faithful:
            due = lines.local[i]
        at = n
        if n == len(out.ready):
            at = n - 1
        else:
            n += 1
        while at > 0:
            j = w.job[out.ready[at - 1]]
            other = w.job_due[j] + (1e9 if w.job_due[j] <= now else 0.0)
            if is_faithful:
                other = lines.local[out.ready[at - 1]]
            if other < due or (other == due and out.ready[at - 1] < i):
                break
            out.ready[at] = out.ready[at - 1]
            at -= 1
        out.ready[at] = i
    kept = np.int64(0)
    for k in range(n):
        i = out.ready[k]
        j, same = w.job[i], 0
        is_late = w.job_due[j] <= now
        for m in range(kept):
            other = w.job[out.ready[m]]
            if lines.line[other] == lines.line[j] and (w.job_due[other] <= now) == is_late:
                same += 1
        if same < (1 if is_late else IN_TIME):
            out.ready[kept] = i
            kept += 1
    out.count[1] = min(kept, 1) if is_faithful else kept


@lean_inlined
def _free_after(w: Tasks, s: TaskState, b: int, pool: int, end: float) -> tuple[float, int]:
    """When a pool has an idle device again if one of it is taken until ``end``, and how many are idle now."""
    idle, soonest = 0, end
    for k in range(w.pool_device_ptr[pool], w.pool_device_ptr[pool + 1]):
        p = w.pool_devices[k]
        if s.has_room[p]:
            idle += 1
        elif s.running[p] >= 0:
            soonest = min(soonest, max(s.row_expected[s.running[p]], s.now[b]))
    return (s.now[b] if idle > 1 else soonest), idle


@lean_inlined
def _write_blocks(
    lines: Lines, w: Tasks, b: int, c: int, j: int, free: float, unit: float, look: Sweep, out: Floats
) -> None:
    """By how much a class stays taken beyond what others can do without it."""
    most, total = -1e9, 0.0
    for line in range(lines.line_ptr[b], lines.line_ptr[b + 1]):
        over = free - look.coming[line - lines.line_ptr[b], c]
        most = max(most, over)
        if over > 0.0:
            interval = lines.interval[lines.jobs[lines.job_ptr[line]]]
            total += interval / WEIGHT * np.tanh(over / unit)
    out[NEXT_MOST], out[NEXT_ALL] = np.tanh(most / unit), min(total, 4.0)
    most, total = -1e9, 0.0
    for k in range(look.count[0]):
        if look.job[k] != j and look.laxity[k] >= 0.0:
            over = free - look.latest[k, c]
            most = max(most, over)
            if over > 0.0:
                total += lines.interval[look.job[k]] / WEIGHT * np.tanh(over / unit)
    out[FLIGHT_MOST], out[FLIGHT_ALL] = np.tanh(most / unit), min(total, 4.0)


@lean_inlined
def _write_launch(w: Tasks, depth: int, saved: float, last: int, row: Floats) -> None:
    """The features of a launch, at the end of the row of its candidate."""
    at = len(row) - len(OF_LAUNCH)
    row[at], row[at + 1] = (depth - 1) / 8.0, saved
    row[at + 2] = 1.0 if w.succ_ptr[last] == w.succ_ptr[last + 1] else 0.0


@lean_kernel
def _write_candidate(
    sight: Seen, lines: Lines, w: Tasks, s: TaskState, b: int, i: int, p: int, depth: int, start: float,
    earliest: float, look: Sweep, row: Floats,
) -> None:  # fmt: skip
    """The features of one candidate, into a row of zeros."""
    j, c, now, unit = w.job[i], w.device_class[p], s.now[b], SQUASH * lines.unit[b]
    run, best, apart, last = expected_run(w, s, i, c), lines.best[i], expected_run(w, s, i, c), np.int64(i)
    for _ in range(depth - 1):
        last = w.succ[w.succ_ptr[last]]
        own = expected_run(w, s, last, c)
        run, best, apart = run + own * (1.0 - w.saved[last, c]), best + lines.best[last], apart + own
    if len(sight.depths) > 1:
        _write_launch(w, depth, (apart - run) / apart, last, row)
    pool, line = w.pool[p] - w.pool_ptr[b], lines.line[j] - lines.line_ptr[b]
    row[0] = 1.0
    if pool < sight.pools:
        row[2 + pool] = 1.0
    if sight.is_faithful:
        return
    if line < sight.series:
        row[2 + sight.pools + line] = 1.0
    interval = lines.interval[j]
    end, due = start + run, w.job_due[j]
    rest = 2 + sight.pools + sight.series
    for k in range(min(sight.pools, lines.left_on.shape[1])):
        behind = lines.left_on[last, k] - (w.run[last, k] if w.run[last, k] < np.inf else lines.best[last])
        row[rest + k] = clipped((due - end - behind) / interval, 2.0)
    out = row[rest + sight.pools :]
    after, least, spare = due - end - (lines.left[last] - lines.best[last]), 1e9, due - now - lines.left[i]
    under_way = 0
    for k in range(look.count[0]):
        if look.job[k] != j:
            least = min(least, look.laxity[k] / lines.interval[look.job[k]])
        if lines.line[look.job[k]] == lines.line[j]:
            under_way += 1
    free, idle = _free_after(w, s, b, w.pool[p], end)
    out[AFTER], out[AFTER_SQUASHED] = clipped(after / interval, 2.0), np.tanh(after / unit)
    out[LAXITY], out[IS_LATE] = clipped(spare / interval, 2.0), 1.0 if due <= now else 0.0
    out[IS_HOPELESS], out[TURNS_LATE] = 1.0 if spare < 0.0 else 0.0, 1.0 if after < 0.0 <= spare else 0.0
    out[RUN], out[RUN_SHARE] = np.tanh(run / unit), run / interval
    out[ABOVE] = np.tanh((run - best) / unit)
    out[SHARE_LEFT] = lines.left[i] / lines.left[w.job_task_ptr[j]]
    out[IS_FIRST] = 1.0 if i == w.job_task_ptr[j] else 0.0
    out[REGRET] = np.tanh((end - earliest - (best - lines.best[i])) / unit)
    out[TAKES_LAST], out[IDLE] = 1.0 if idle <= 1 else 0.0, idle / 4.0
    out[OTHERS] = clipped(least, 2.0)
    if sight.sees_ahead:
        _write_blocks(lines, w, b, c, j, free, unit, look, out)
    if sight.sees_periods:
        out[INTERVAL] = np.log(interval / (10.0 * lines.unit[b]))
    out[DATA], out[UNDER_WAY] = np.tanh((start - now) / lines.unit[b]), under_way / 3.0


@lean_inlined
def _earliest_end(lines: Lines, w: Tasks, f: Facts, s: TaskState, b: int, i: int) -> float:
    """When task i would end where it ends first, busy devices counted from when they should be free."""
    best = np.inf
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        if may_use(w, b, i, p) and s.is_up[p]:
            free = s.now[b]
            if s.running[p] >= 0:
                free = max(free, s.row_expected[s.running[p]])
            start = max(free, data_ready(w, f, s, b, i, p))
            best = min(best, start + expected_run(w, s, i, w.device_class[p]))
    return best


@lean_kernel
def _write_world(
    sight: Seen, lines: Lines, w: Tasks, s: TaskState, v: LineState, b: int, look: Sweep, out: Floats
) -> float:
    """The features of the state as a whole; returns when the next release is due."""
    now, unit, soonest = s.now[b], SQUASH * lines.unit[b], np.inf
    for line in range(lines.line_ptr[b], lines.line_ptr[b + 1]):
        at = line - lines.line_ptr[b]
        comes = next_release(lines, w, v, line)
        soonest = min(soonest, comes)
        if at >= sight.series or comes == np.inf:
            continue
        last = lines.jobs[lines.job_ptr[line] + max(v.upto[line] - 1, 0)]
        interval, least, count, late = lines.interval[last], 1e9, 0, 0
        for k in range(look.count[0]):
            if lines.line[look.job[k]] == line:
                count += 1
                late += 1 if w.job_due[look.job[k]] <= now else 0
                least = min(least, look.laxity[k])
        row = out[at * len(OF_LINE) : (at + 1) * len(OF_LINE)]
        row[0], row[1] = clipped(least / interval, 1.0), np.tanh(least / unit)
        row[4] = clipped((comes - now) / interval, 1.0)
        row[2], row[3] = min(count, 6) / 3.0, min(late, 6) / 3.0
        row[5] = np.log(interval / (10.0 * lines.unit[b])) if sight.sees_periods else 0.0
    base = sight.series * len(OF_LINE)
    for pool in range(w.pool_ptr[b], min(w.pool_ptr[b + 1], w.pool_ptr[b] + sight.pools)):
        free, idle = _free_after(w, s, b, pool, np.inf)
        at = base + (pool - w.pool_ptr[b]) * len(OF_POOL)
        out[at] = idle / 4.0
        out[at + 1] = np.tanh((free - now) / unit) if idle == 0 else 0.0
    out[base + sight.pools * len(OF_POOL)] = min(s.num_ready[b], 16) / 8.0
    return soonest


@lean_inlined
def _expected_event(w: Tasks, s: TaskState, b: int, comes: float) -> float:
    """When something should happen: a release, or the expected end of what runs."""
    event = comes
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        if s.running[p] >= 0:
            event = min(event, max(s.row_expected[s.running[p]], s.now[b]))
    return event


@lean_kernel
def list_stages(
    sight: Seen, lines: Lines, w: Tasks, f: Facts, s: TaskState, v: LineState, b: int, look: Sweep,
    found: PipelineListed, out: Floats,
) -> bool:  # fmt: skip
    """Write candidates and observation of environment b; returns whether it may wait."""
    for k in range(len(out)):
        out[k] = 0.0
    found.count[0], found.later[0] = 0, np.inf
    width = 2 + 2 * sight.pools + sight.series + len(_OWN)
    if len(sight.depths) > 1:
        width += len(OF_LAUNCH)
    base = sight.series * len(OF_LINE) + sight.pools * len(OF_POOL) + 1
    sweep_lines(lines, w, s, v, b, look)
    comes = _write_world(sight, lines, w, s, v, b, look, out)
    if s.num_ready[b] == 0 or s.num_free[b] == 0:
        return True
    gather(lines, w, s, b, False, look)
    for k in range(look.count[1]):
        i = look.ready[k]
        earliest = _earliest_end(lines, w, f, s, b, i)
        for pool in range(w.pool_ptr[b], w.pool_ptr[b + 1]):
            if not may_use(w, b, i, w.pool_devices[w.pool_device_ptr[pool]]):
                continue
            p, _ = best_in_pool(w, f, s, b, i, pool)
            if p < 0 or found.count[0] == sight.choices:
                continue
            start, most = max(s.now[b], data_ready(w, f, s, b, i, p)), np.int64(1)
            if start > s.now[b]:
                found.later[0] = min(found.later[0], start)
            if len(sight.depths) > 1:
                most = longest_launch(w, s, i, w.device_class[p])
            for depth in sight.depths:
                n = found.count[0]
                if depth > most or n == sight.choices:
                    break
                row = out[base + n * width : base + (n + 1) * width]
                _write_candidate(sight, lines, w, s, b, i, p, depth, start, earliest, look, row)
                found.task[n], found.device[n], found.depth[n] = i, p, depth
                found.count[0] += 1
    last = out[base + sight.choices * width :]
    event = _expected_event(w, s, b, comes)
    can_wait = may_wait(lines, w, s, v, b, comes, found.later) if f.is_live else next_time(w, s, b) < np.inf
    if can_wait:
        unit, own = lines.unit[b], 2 + 2 * sight.pools + sight.series
        last[1] = 1.0
        last[own + TO_EVENT] = np.tanh((event - s.now[b]) / unit)
        last[own + TO_RELEASE] = np.tanh((comes - s.now[b]) / (SQUASH * unit)) if comes < np.inf else 1.0
    return can_wait
