"""Pipelines side by side for the task view: their instances, what is left of each, and what their deadlines have cost.

``Lines`` is what is known beforehand, ``LineState`` what changes, ``Sweep`` a buffer of what is looked up at a decision.
A line is one series of jobs in one environment; its jobs are by release. Nothing here looks at a job before its release:
when the next one comes is told by the interval of the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from weft.errors import InputError
from weft.model.graph import Bools, Floats, Ints, TaskGraph
from weft.model.problem import Problem
from weft.model.series import series_of
from weft.sim.jit import lean_inlined, lean_kernel
from weft.sim.tasks.launches import last_of
from weft.sim.tasks.state import DONE, STARTED, Tasks, TaskState

MOST_ACTIVE = 64
"""Instances under way that are looked at; those beyond are left aside."""
PER_LINE = 6
"""Of one line at most so many, the oldest."""
SOFT = 0.08
"""Laxity, in intervals, over which the chance to be in time falls from likely to unlikely."""
WEIGHT = 100.0
"""A missed instance costs its interval divided by this: macro ratios divide by the number of releases."""


class Lines(NamedTuple):
    """What is known of the pipelines of a batch of problems."""

    line_ptr: Ints  # (num_envs + 1,)
    job_ptr: Ints  # (num_lines + 1,)
    jobs: Ints  # (num_line_jobs,) by release
    line: Ints  # (num_jobs,) -1: none
    interval: Floats  # (num_jobs,)
    best: Floats  # (num_tasks,) shortest run time
    left: Floats  # (num_tasks,) longest path to the end at the shortest run times, itself included
    left_on: Floats  # (num_tasks, num_classes) the same on one class wherever that can run it
    need: Floats  # (num_tasks, num_classes) greatest ``left`` from it on of what runs fastest there; -1: nothing does
    local: Floats  # (num_tasks,) local deadline, divided along the chain
    unit: Floats  # (num_envs,) mean of the shortest run times
    horizon: Floats  # (num_envs,) deadlines beyond do not count
    is_open: Bools  # (num_envs,) whether instances may come that nobody has told of


class LineState(NamedTuple):
    """What changes of them."""

    oldest: Ints  # (num_lines,) place of the first instance that is not over
    upto: Ints  # (num_lines,) place behind the last that is released
    judged: Ints  # (num_lines,) place behind the last whose deadline was looked at
    missed: Ints  # (num_lines,) deadlines missed so far
    counted: Ints  # (num_lines,) deadlines so far
    cost: Floats  # (num_envs,) what the missed ones have cost so far


class Sweep(NamedTuple):
    """What is looked up at a decision: instances under way, and when each must have a class at the latest."""

    job: Ints  # (MOST_ACTIVE,)
    laxity: Floats  # (MOST_ACTIVE,) time to spare at the shortest run times
    latest: Floats  # (MOST_ACTIVE, num_classes) infinite: it needs none
    coming: Floats  # (most_lines, num_classes) the same of the next instance of every line
    ready: Ints  # (MOST_ACTIVE,) tasks to list
    count: Ints  # (2,) instances under way, tasks to list


def new_sweep(num_classes: int, most_lines: int) -> Sweep:
    """An empty buffer."""
    return Sweep(
        np.zeros(MOST_ACTIVE, np.int64), np.zeros(MOST_ACTIVE), np.zeros((MOST_ACTIVE, num_classes)),
        np.zeros((max(most_lines, 1), num_classes)), np.zeros(MOST_ACTIVE, np.int64), np.zeros(2, np.int64),
    )  # fmt: skip


def lines_of(problems: Sequence[Problem]) -> Lines:
    """The pipelines of problems side by side."""
    width = max(problem.cluster.num_classes for problem in problems)
    first_job, parts, seen = 0, [], {}
    for problem in problems:
        if id(problem) not in seen:
            seen[id(problem)] = _columns(instances_of(problem, width), [*series_of(problem)])
        own = seen[id(problem)]
        parts.append({**own, "jobs": [jobs + first_job for jobs in own["jobs"]]})
        first_job += len(problem.jobs)
    horizon = [np.inf if p.horizon is None else p.horizon for p in problems]
    return _joined(parts, horizon, is_open=False)


def live_lines(instances: Sequence[Instance], series: Sequence[str], *, is_open: bool) -> Lines:
    """The pipelines of one environment whose instances are told of as they come; some may have none yet."""
    return _joined([_columns(instances, series)], [np.inf], is_open=is_open)


def _joined(parts: Sequence[dict], horizon: Sequence[float], *, is_open: bool) -> Lines:  # type: ignore[type-arg]
    """The columns of problems, whose jobs are numbered throughout."""
    line_ptr = np.cumsum([0, *(len(part["jobs"]) for part in parts)]).astype(np.int64)
    jobs = [one for part in parts for one in part["jobs"]]
    line = np.full(sum(len(part["interval"]) for part in parts), -1, np.int64)
    for k, own in enumerate(jobs):
        line[own] = k
    joined = {
        name: np.concatenate([part[name] for part in parts])
        for name in ("interval", "best", "left", "left_on", "need", "local")
    }
    return Lines(
        line_ptr=line_ptr,
        job_ptr=np.cumsum([0, *(len(own) for own in jobs)]).astype(np.int64),
        jobs=np.concatenate(jobs).astype(np.int64),
        line=line,
        **joined,
        unit=np.array([part["unit"] for part in parts], np.float64),
        horizon=np.array(horizon, np.float64),
        is_open=np.full(len(parts), is_open),
    )


class Instance(NamedTuple):
    """One job of a pipeline, as far as it is known when it is told of."""

    series: str
    release: float
    deadline: float
    interval: float
    columns: tuple[Floats, ...]
    """Of its graph: best, left, left_on, need, and the share done at each end."""

    @property
    def num_tasks(self) -> int:
        """Its stages."""
        return len(self.columns[0])


def instances_of(problem: Problem, width: int) -> list[Instance]:
    """The jobs of a problem, which must all be instances with deadlines; ``width`` classes."""
    known: dict[int, tuple[Floats, ...]] = {}
    found = []
    for j, job in enumerate(problem.jobs):
        if not job.series or job.deadline is None:
            raise InputError(f"problem {problem.name!r}: expected pipelines with deadlines, such as adas-tx2")
        if id(job.graph) not in known:
            rows = problem.run_times[problem.offsets[j] : problem.offsets[j + 1]]
            known[id(job.graph)] = _of_graph(job.graph, rows, width)
        interval = job.interval or job.deadline or 1.0
        found.append(Instance(job.series, job.release, job.deadline, interval, known[id(job.graph)]))
    return found


def _columns(instances: Sequence[Instance], series: Sequence[str]) -> dict:  # type: ignore[type-arg]
    """The columns of the jobs of one problem, numbered within it."""
    by_series: dict[str, list[int]] = {name: [] for name in series}
    for j in sorted(range(len(instances)), key=lambda j: instances[j].release):
        by_series[instances[j].series].append(j)
    best, left, left_on, need, share = (
        np.concatenate(column) for column in zip(*(one.columns for one in instances), strict=True)
    )
    job_of = np.repeat(np.arange(len(instances)), [one.num_tasks for one in instances])
    release, deadline = (np.array([one[k] for one in instances])[job_of] for k in (1, 2))
    firsts = [float(instances[jobs[0]].columns[0][0]) for jobs in by_series.values() if jobs]
    return {
        "jobs": [np.array(jobs, np.int64) for jobs in by_series.values()],
        "interval": np.array([one.interval for one in instances]),
        "best": best, "left": left, "left_on": left_on, "need": need,
        "local": release + deadline * share,
        "unit": float(np.mean(firsts)) + 1e-300,
    }  # fmt: skip


def _of_graph(graph: TaskGraph, rows: Floats, width: int) -> tuple[Floats, ...]:
    """Shortest run times, what is left, on one class, what needs a class, and the share done at each end."""
    best, fastest = rows.min(axis=1), rows.argmin(axis=1)
    pointer, targets = graph.successor_pointer.tolist(), graph.targets.tolist()
    left, need = np.zeros(len(rows)), np.full((len(rows), width), -1.0)
    left_on = np.zeros((len(rows), width))
    wide = np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=np.inf)
    on = np.where(np.isfinite(wide), wide, best[:, None])
    for i in reversed(graph.order.tolist()):
        after = [targets[e] for e in range(pointer[i], pointer[i + 1])]
        left[i] = best[i] + max((left[k] for k in after), default=0.0)
        left_on[i] = on[i] + (np.max(left_on[after], axis=0) if after else 0.0)
        need[i] = np.max(need[after], axis=0) if after else -1.0
        need[i, fastest[i]] = max(need[i, fastest[i]], left[i])
    return best, left, left_on, need, 1.0 - (left - best) / max(float(left.max()), 1e-300)


def new_line_state(lines: Lines) -> LineState:
    """Nothing has been released."""
    num = len(lines.job_ptr) - 1
    oldest, upto, judged, missed, counted = np.zeros((5, num), np.int64)
    return LineState(oldest, upto, judged, missed, counted, np.zeros(len(lines.unit)))


@lean_kernel
def begin_lines(lines: Lines, v: LineState, b: int) -> None:
    """Empty the lines of environment b."""
    v.cost[b] = 0.0
    for line in range(lines.line_ptr[b], lines.line_ptr[b + 1]):
        v.oldest[line], v.upto[line], v.judged[line], v.missed[line], v.counted[line] = 0, 0, 0, 0, 0


@lean_inlined
def is_over(s: TaskState, j: int) -> bool:
    """Whether job j has ended or was dropped."""
    return s.job_open[j] == 0 or s.is_expired[j]


@lean_inlined
def expected_end(lines: Lines, w: Tasks, s: TaskState, b: int, j: int) -> float:
    """When job j ends if all that is left runs at its shortest, from now on."""
    end = s.now[b]
    for i in range(w.job_task_ptr[j], w.job_task_ptr[j + 1]):
        if s.status[i] == DONE:
            continue
        begins = s.now[b] + lines.left[i]
        if s.status[i] == STARTED:
            row = s.first_row[i]
            if row < 0:  # runs with the launch that it is part of
                continue
            last = last_of(w, s, i)
            begins = max(s.row_expected[row], s.now[b]) + lines.left[last] - lines.best[last]
        end = max(end, begins)
    return end


@lean_kernel
def settle_lines(lines: Lines, w: Tasks, s: TaskState, v: LineState, b: int) -> None:
    """Bring the lines up to now: what was released, what is over, and which deadlines were missed."""
    for line in range(lines.line_ptr[b], lines.line_ptr[b + 1]):
        first, last = lines.job_ptr[line], lines.job_ptr[line + 1]
        while first + v.upto[line] < last and w.job_release[lines.jobs[first + v.upto[line]]] <= s.now[b]:
            v.upto[line] += 1
        while v.judged[line] < v.upto[line]:
            j = lines.jobs[first + v.judged[line]]
            due = w.job_due[j]
            if due > s.now[b] and s.job_open[j] != 0:
                break
            v.judged[line] += 1
            if due <= lines.horizon[b]:
                v.counted[line] += 1
                if s.is_expired[j] or not (s.job_finish[j] <= due):
                    v.missed[line] += 1
                    v.cost[b] += lines.interval[j] / WEIGHT
        while v.oldest[line] < v.upto[line] and is_over(s, lines.jobs[first + v.oldest[line]]):
            v.oldest[line] += 1


@lean_kernel
def potential(lines: Lines, w: Tasks, s: TaskState, v: LineState, b: int) -> float:
    """Minus what the instances under way are expected to cost: each by how likely it is late."""
    total = 0.0
    for line in range(lines.line_ptr[b], lines.line_ptr[b + 1]):
        first = lines.job_ptr[line]
        for place in range(v.oldest[line], v.upto[line]):
            j = lines.jobs[first + place]
            if is_over(s, j) or w.job_due[j] <= s.now[b] or w.job_due[j] > lines.horizon[b]:
                continue
            spare = (w.job_due[j] - expected_end(lines, w, s, b, j)) / (SOFT * lines.interval[j])
            total -= lines.interval[j] / WEIGHT / (1.0 + np.exp(min(max(spare, -30.0), 30.0)))
    return total


@lean_inlined
def next_release(lines: Lines, w: Tasks, v: LineState, line: int) -> float:
    """When the next instance of a line comes, as far as is known; infinite: nobody has told of the line yet."""
    if lines.job_ptr[line] == lines.job_ptr[line + 1]:
        return np.inf
    if v.upto[line] == 0:
        return w.job_release[lines.jobs[lines.job_ptr[line]]]
    j = lines.jobs[lines.job_ptr[line] + v.upto[line] - 1]
    return w.job_release[j] + lines.interval[j]


@lean_inlined
def may_wait(lines: Lines, w: Tasks, s: TaskState, v: LineState, b: int, comes: float, later: Floats) -> bool:
    """Whether something is still to happen where nothing is simulated: an end, or a release that is known or expected.

    ``later`` (1,) is when to ask again at the latest.
    """
    for p in range(w.device_ptr[b], w.device_ptr[b + 1]):
        if s.running[p] >= 0:
            return True
    for line in range(lines.line_ptr[b], lines.line_ptr[b + 1]):
        if lines.job_ptr[line] + v.upto[line] < lines.job_ptr[line + 1]:
            return True
    if not lines.is_open[b] or comes <= s.now[b] or comes == np.inf:
        return False
    later[0] = min(later[0], comes)  # it may not come
    return True


@lean_kernel
def sweep_lines(lines: Lines, w: Tasks, s: TaskState, v: LineState, b: int, out: Sweep) -> None:
    """Look up the instances under way, their laxity, and until when they and the next ones can do without a class."""
    n, classes = np.int64(0), out.latest.shape[1]
    for line in range(lines.line_ptr[b], lines.line_ptr[b + 1]):
        first, taken = lines.job_ptr[line], 0
        for place in range(v.oldest[line], v.upto[line]):
            j = lines.jobs[first + place]
            if is_over(s, j) or taken == PER_LINE or n == MOST_ACTIVE:
                continue
            taken += 1
            out.job[n], out.laxity[n] = j, w.job_due[j] - expected_end(lines, w, s, b, j)
            for c in range(classes):
                out.latest[n, c] = np.inf
            for i in range(w.job_task_ptr[j], w.job_task_ptr[j + 1]):
                if s.status[i] < STARTED:
                    for c in range(classes):
                        if lines.need[i, c] >= 0.0:
                            out.latest[n, c] = min(out.latest[n, c], w.job_due[j] - lines.need[i, c])
            n += 1
        comes, at = next_release(lines, w, v, line), line - lines.line_ptr[b]
        if comes == np.inf:
            for c in range(classes):
                out.coming[at, c] = np.inf
            continue
        j = lines.jobs[first + max(v.upto[line] - 1, 0)]
        i = w.job_task_ptr[j]
        for c in range(classes):
            is_needed = lines.need[i, c] >= 0.0
            spare = w.job_due[j] - w.job_release[j] - lines.need[i, c]
            out.coming[at, c] = comes + spare if is_needed else np.inf
    out.count[0] = n
